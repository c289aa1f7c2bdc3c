"""The emulated ordered queues against the verdicts: what `check` rejects as a deadlock under `pair` really stops, what it accepts ends."""

from __future__ import annotations

import json
import re
from random import Random

import pytest

from interlock.check import check_program, written
from interlock.lower.actions import actions
from interlock.lower.plan import head
from interlock.program.facts import Facts
from interlock.program.ir import Program
from interlock.verdict import Verdict

from ..agreement.generate import mutate, random_program, schedule, stir
from ..command import GIB, interlock
from .support import HERE, finish, start

EMULATE = HERE.parents[1] / "checker" / "interlock" / "runtime" / "emulate_worker.py"
RANKS = 4


def as_job(program: Program, model: str, limit: float) -> dict:
    n = len(program.order)
    return {"plain": head(program), "ranks": actions(program), "model": model, "seconds": [0.0005] * n, "sizes": [16] * n, "limit": limit}


def candidates():
    """Programs with written transfers of both sorts: stirred, grouped, traces, mutants of them."""
    seed = 0
    while True:
        rng = Random(seed)
        seed += 1
        program = stir(written(schedule(rng)), rng) if seed % 2 else random_program(rng)[0]
        if seed % 3 == 0:
            program = mutate(program, rng)
        if program.ranks <= RANKS and not program.inserted and len(program.order) <= 120:
            yield seed, program


def wanted(model: str, count: int):
    """`count` valid ones and `count` whose only errors are deadlocks."""
    found = {"valid": [], "stops": []}
    for seed, program in candidates():
        [answer] = check_program(program, (model,))
        sort = None
        if answer.verdict is Verdict.VALID:
            sort = "valid"
        elif answer.verdict is Verdict.INVALID and {f.code for f in answer.errors} == {"IL402"}:
            sort = "stops"
        if sort and len(found[sort]) < count and Facts(program).is_unit.any():
            found[sort].append((seed, program))
        if all(len(v) == count for v in found.values()):
            return found


def test_what_pair_rejects_stops_and_what_it_accepts_runs(tmp_path, request):
    """And what `pair` rejects and `edge` accepts ends in the queues of `edge`: it is the queue that stops it."""
    thorough = request.config.getoption("--thorough")
    count = 100 if thorough else 20
    found = wanted("pair", count)
    looser = [(seed, p) for seed, p in found["stops"] if check_program(p, ("edge",))[0].verdict is Verdict.VALID]
    jobs = [(seed, p, "pair", True) for seed, p in found["valid"]] + [(seed, p, "pair", False) for seed, p in found["stops"]] + [(seed, p, "edge", True) for seed, p in looser]
    assert len(looser) >= count // 4
    (tmp_path / "jobs.json").write_text(json.dumps([as_job(p, model, 0.4) for _, p, model, _ in jobs]))
    ended = finish(start(EMULATE, RANKS, tmp_path / "jobs.json", tmp_path / "out-{rank}.json", folder=tmp_path), 400 if thorough else 90)
    assert all(code == 0 for code, _ in ended), ended
    ranks = [json.loads((tmp_path / f"out-{r}.json").read_text()) for r in range(RANKS)]
    for i, (seed, program, model, ends) in enumerate(jobs):
        results = [rank[i] for rank in ranks[:program.ranks]]
        assert all(r["finished"] for r in results) == ends, (seed, model, ends, [(r["finished"], r["at"], r["queue"]) for r in results])
        assert ends or any(r["queue"] for r in results), "the report says what stands in the queues"


TIMED = """schedule s {
  ranks 2
  microbatches 4
  model { layers u[2] { forward 15ms  backward_input 15ms  backward_weight 15ms  output 64KiB } }
  link { latency 2ms  bandwidth 1GB/s }
  cut { all = u : 1f1b }
}
"""


def test_the_command(tmp_path):
    path, out = tmp_path / "s.sched", tmp_path / "measured.json"
    path.write_text(TIMED)
    done = interlock("run", path, "--emulate", "--ranks", "2", "-o", out, memory=16 * GIB)
    assert done.code == 0, done.text
    measured, predicted = (float(x) for x in re.match(r"s: measured ([\d.]+) ms, predicted ([\d.]+) ms: ", done.out).groups())
    assert predicted * 0.99 < measured < predicted * 1.5
    timeline = json.loads(out.read_text())
    assert timeline["format"] == "interlock.timeline/1" and len(timeline["ranks"]) == 2
    for rank in timeline["ranks"]:
        compute = [(name, a, b) for name, a, b in rank if re.fullmatch(r"\d[FB]\d", name)]
        assert len(compute) == 8 and all(b - a >= 14.9e6 for _, a, b in compute)
        assert all(x[2] <= y[1] for x, y in zip(compute, compute[1:]))


@pytest.mark.parametrize("text, args, said", [
    (TIMED, ("--ranks", "3"), "s has 2 ranks, not 3"),
    (TIMED.replace("forward 15ms", ""), (), "give"),
    (TIMED.replace("1f1b", "nothing"), (), "IL203"),
])
def test_what_cannot_be_emulated(tmp_path, text, args, said):
    path = tmp_path / "s.sched"
    path.write_text(text)
    done = interlock("run", path, "--emulate", *args, memory=16 * GIB)
    assert done.code == 2 and said in done.err, done.text
