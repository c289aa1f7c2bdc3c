"""The emulated ordered queues against the verdicts: what `check` rejects as a deadlock under `pair` really
stops, what it accepts ends.
"""

from __future__ import annotations

import json
import re
from random import Random

import pytest

from command import GIB, interlock
from interlock.check.program import check_program
from interlock.check.subject import write_transfers
from interlock.check.verdict import Verdict
from interlock.interchange.plan import program_head
from interlock.interchange.plan_actions import list_actions
from interlock.program.facts import Facts
from interlock.program.ir import Program
from interlock.program.plain import plain_form
from interlock.runtime.calibrate import Calibration, calibrate, lowered
from interlock.runtime.emulation import EmulationSettings
from interlock.runtime.pool import Pool
from interlock.timing.durations import Link, Machine, compute_durations
from interlock.timing.simulate import simulate
from interlock.witness import executor

from ..agreement.generate import make_program, make_schedule
from ..agreement.mutants import stir

pytestmark = pytest.mark.torch

RANKS = 4
QUIET = 0.3  # seconds without any movement after which the watchdog calls it a stop


def as_job(program: Program, model: str) -> dict:
    n = len(program.order)
    return {
        "plain": program_head(program),
        "ranks": list_actions(program),
        "model": model,
        "seconds": [0.0005] * n,
        "sizes": [16] * n,
        "limit": QUIET,
    }


def candidates():
    """Programs with written transfers of both sorts: most are stirred schedules, some traces, grouped ones
    and mutants.
    """
    seed = 0
    while True:
        rng = Random(seed)
        seed += 1
        program = stir(write_transfers(make_schedule(rng)), rng) if seed % 4 else make_program(rng)[0]
        if 1 < program.ranks <= RANKS and not program.inserted and len(program.order) <= 120:
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


def test_what_pair_rejects_stops_and_what_it_accepts_runs(request):
    """And what `pair` rejects and `edge` accepts ends in the queues of `edge`: it is the queue that stops it.

    What has ended when it stops is what the executor says; the report names the operation that each rank
    waits in.
    """
    count = 150 if request.config.getoption("--thorough") else 20
    found = wanted("pair", count)
    looser = [
        (seed, p) for seed, p in found["stops"] if check_program(p, ("edge",))[0].verdict is Verdict.VALID
    ]
    jobs = (
        [(seed, p, "pair", True) for seed, p in found["valid"]]
        + [(seed, p, "pair", False) for seed, p in found["stops"]]
        + [(seed, p, "edge", True) for seed, p in looser]
    )
    assert len(looser) >= count // 4
    with Pool(RANKS) as pool:
        for seed, program, model, ends in jobs:
            results = pool.run(program.ranks, as_job(program, model), 60)
            assert all(r["finished"] for r in results) == ends, (
                seed,
                model,
                ends,
                [(r["finished"], r["at"], r["queue"]) for r in results],
            )
            if not ends:
                expect_report(seed, program, results)


def expect_report(seed: int, program: Program, results: list[dict]) -> None:
    stopped = executor.run(plain_form(program), "pair")
    facts = Facts(program)
    ended = {int(row) for r in results for row in r["span"]}
    assert ended == {row for row in stopped.done if facts.has_event[row]}, seed
    for rank, result in enumerate(results):
        waiting = {
            program.show(r) for row, _ in stopped.stuck.get(rank, ()) for r in (row, facts.overlap_head[row])
        }
        assert result["finished"] == (not waiting), (seed, rank)
        assert set(result["queue"]) <= waiting and (
            result["finished"] or result["at"] in waiting | {"the end of its list"}
        ), (seed, rank, result, waiting)


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
    done = interlock("run", path, "--emulate", "--ranks", "2", "--calibrate", "-o", out, memory=16 * GIB)
    assert done.code == 0, done.text
    measured, predicted = (
        float(x)
        for x in re.search(r"^s: measured ([\d.]+) ms, predicted ([\d.]+) ms: ", done.out, re.M).groups()
    )
    assert re.match(
        r"this machine: overhead \d+ us an operation, links \d+ us \+ bytes / [\d.]+ GB/s\n", done.out
    )
    program, times = lowered(TIMED)
    nominal = (
        simulate(program, compute_durations(program, times, Machine(Link(2_000_000, 10**9))), "pair").makespan
        / 1e6
    )
    assert measured >= nominal and predicted >= nominal
    timeline = json.loads(out.read_text())
    assert timeline["format"] == "interlock.timeline/1" and len(timeline["ranks"]) == 2
    for rank in timeline["ranks"]:
        compute = [(name, a, b) for name, a, b in rank if re.fullmatch(r"\d[FB]\d", name)]
        assert len(compute) == 8 and all(b - a >= 14.9e6 for _, a, b in compute)
        assert all(x[2] <= y[1] for x, y in zip(compute, compute[1:]))


def test_a_calibration_is_what_the_prediction_adds():
    program, times = lowered(TIMED)
    found, asked = (
        compute_durations(program, times, Machine(Link(2_000_000, 10**9))),
        EmulationSettings(scale=2, payload=0.5),
    )
    here = Calibration(300_000, 500_000, 10**8).durations(found, times, asked)
    added = {program.show(i): int(here.row[i] - found.row[i]) for i in range(len(program.order))}
    assert {added[name] for name in ("0F0", "1B3")} == {150_000}  # 0.3 ms of real time
    assert added["0SEND_F0"] == 0  # 0.25 ms + 64 KiB at 400 MB/s, and the link takes longer
    slow = Calibration(0, 8_000_000, 10**8).durations(found, times, asked)
    size = 64 << 10
    row = next(i for i in range(len(program.order)) if program.show(i) == "1RECV_F2")
    assert slow.row[row] == 4_000_000 + -(-size * 10**9 // (4 * 10**8))


def test_this_machine():
    with Pool(2) as pool:
        here = calibrate(pool, 2)
        alone = calibrate(pool, 1)
    assert (
        0 < here.overhead < 10**9
        and 0 <= here.latency < 10**9
        and 10**5 < here.bandwidth < 10**13
        and alone.latency == 0
    )
    assert "us an operation" in str(here)


@pytest.mark.parametrize(
    "text, args, said",
    [
        (TIMED, ("--ranks", "3"), "s has 2 ranks, not 3"),
        (TIMED.replace("forward 15ms", ""), (), "give"),
        (TIMED.replace("1f1b", "nothing"), (), "IL203"),
    ],
)
def test_what_cannot_be_emulated(tmp_path, text, args, said):
    path = tmp_path / "s.sched"
    path.write_text(text)
    done = interlock("run", path, "--emulate", *args, memory=16 * GIB)
    assert done.code == 2 and said in done.err, done.text
