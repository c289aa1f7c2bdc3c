"""`interlock run --emulate`: starts the processes of an emulation and compares what they measured with the prediction."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..cost.durations import Durations, NoTimes, durations, machine_of
from ..cost.figures import duration, figures, percent
from ..cost.simulate import simulate
from ..cost.timeline import Timeline
from ..files import write_whole
from ..lower import backends
from ..lower.actions import actions
from ..lower.command import prepare
from ..lower.plan import head
from ..program.ir import TRANSFER, Kind, Program

FORMAT = "interlock.timeline/1"


@dataclass(frozen=True)
class Asked:
    schedule: str | None = None
    ranks: int | None = None
    scale: float = 1.0
    payload: float = 1.0
    limit: float = 10.0
    lowering: backends.Options = backends.Options()


@dataclass(frozen=True)
class Measured:
    """finished: everything ended. timeline: in the model's time, the scale taken out. stands: for each rank where it was, if not."""

    finished: bool
    timeline: Timeline
    stands: tuple[str, ...] = ()


def run(name: str, data: bytes, check_options, asked: Asked, output: Path | None, say: Callable[[str], None], complain: Callable[[str], None], terminal: dict) -> int:
    """Exit code: 0 it ran; 1 it stopped, or is not valid; 2 usage, no times; 3 not shown valid. Raises OSError."""
    prepared = prepare(name, data, check_options, backends.find("torch"), asked.lowering, asked.schedule, complain, terminal)
    if isinstance(prepared, int):
        return prepared
    source, lowered = prepared
    program = lowered.plan.program
    if asked.ranks not in (None, program.ranks):
        complain(f"interlock: {source.checked.name} has {program.ranks} ranks, not {asked.ranks}\n")
        return 2
    try:
        if source.schedule is None:
            raise NoTimes("a CSV gives no times")
        found = durations(program, source.schedule.times, machine_of(source.schedule))
    except NoTimes as error:
        complain(f"interlock: {error}\n")
        return 2
    predicted = simulate(program, found, "pair", critical=False)
    measured = emulate(program, found, asked)
    say(report(source.checked.name, predicted, measured))
    if output is not None:
        write_whole(output, json.dumps(as_json(measured.timeline)))
    return 0 if measured.finished else 1


def emulate(program: Program, found: Durations, asked: Asked = Asked(), model: str = "pair") -> Measured:
    """One step on as many processes as ranks."""
    seconds = (found.row * 1e-9 * asked.scale).tolist()
    sizes = [0] * len(program.order)
    o = program.order
    for row in np.flatnonzero(np.isin(o.kind, [int(k) for k in TRANSFER])).tolist():
        s, m = int(o.stage[row]), int(o.mb[row])
        action = Kind(int(o.kind[row]))
        stage = s if action in (Kind.SEND_F, Kind.RECV_B) else None
        if s >= 0:
            stage = s if stage is not None else int(_before(program, s, m))
            sizes[row] = int(found.payload[found.kind_of[m], stage] * asked.payload)
    job = {"plain": head(program), "ranks": actions(program), "model": model, "seconds": seconds, "sizes": sizes, "limit": max(asked.limit, 4 * max(seconds, default=0))}
    with tempfile.TemporaryDirectory() as folder:
        results = _processes(program.ranks, [job], Path(folder), asked.limit + 60 + 4 * found.row.sum() * 1e-9 * asked.scale)
    first = min(r["began"] for r in results)
    start, end = (np.full(len(o), -1, dtype=np.int64) for _ in range(2))
    for r in results:
        for row, (a, b) in r["span"].items():
            start[int(row)], end[int(row)] = ((x - first) / asked.scale * 1e9 for x in (a, b))
    stands = tuple(f"rank {i}: {'has ended' if r['finished'] else 'stands before ' + r['at']}{'; in its queues: ' + ', '.join(r['queue']) if r['queue'] else ''}"
                   for i, r in enumerate(results))
    return Measured(all(r["finished"] for r in results), Timeline(program, model, start, end), stands)


def _before(program: Program, s: int, m: int) -> int:
    from ..program.facts import Facts
    fp = Facts(program).footprint
    return fp.prev[fp.of[m], s]


def _processes(ranks: int, jobs: list[dict], folder: Path, seconds: float) -> list[dict]:
    """What each rank says of the last job. Raises OSError if a process fails."""
    (folder / "jobs.json").write_text(json.dumps(jobs))
    root = str(Path(__file__).parents[2])
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])}
    started = [subprocess.Popen([sys.executable, "-m", "interlock.runtime.emulate_worker", str(r), str(ranks), str(folder / "store"), str(folder / "jobs.json"), str(folder / f"out-{r}.json")],
                                env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for r in range(ranks)]
    deadline = time.monotonic() + seconds
    try:
        for r, p in enumerate(started):
            text, _ = p.communicate(timeout=max(deadline - time.monotonic(), 0.1))
            if p.returncode:
                raise OSError(0, (text.strip().splitlines() or ["it ended"])[-1], f"the process of rank {r}")
    except subprocess.TimeoutExpired:
        raise OSError(0, f"not done after {seconds:.0f} s", "the emulation") from None
    finally:
        for p in started:
            if p.poll() is None:
                p.kill()
                p.wait()
    return [json.loads((folder / f"out-{r}.json").read_text())[-1] for r in range(ranks)]


def report(name: str, predicted: Timeline, measured: Measured) -> str:
    if not measured.finished:
        return "\n".join([f"{name}: stopped", *(f"  {line}" for line in measured.stands)]) + "\n"
    a, b = figures(predicted), figures(measured.timeline)
    error = abs(b.makespan - a.makespan) / a.makespan if a.makespan else 0
    lines = [f"{name}: measured {duration(b.makespan)}, predicted {duration(a.makespan)}: {error:.2%} apart",
             f"  bubble {percent(b.bubble)}, predicted {percent(a.bubble)}", "  rank  idle, predicted            exposed communication, predicted"]
    for r, (x, y) in enumerate(zip(a.ranks, b.ranks)):
        lines.append(f"  {r:>4}  {duration(y.bubble):>10}, {duration(x.bubble):<15}  {duration(y.exposed):>10}, {duration(x.exposed)}")
    return "\n".join(lines) + "\n"


def as_json(timeline: Timeline) -> dict:
    """Each operation's start and end in nanoseconds, rank by rank; null where it has none."""
    p = timeline.program
    one = lambda x: None if x < 0 else int(x)
    return {"format": FORMAT, "model": timeline.model, "makespan": timeline.makespan,
            "ranks": [[[p.show(i), one(timeline.start[i]), one(timeline.end[i])] for i in range(int(p.order.start[r]), int(p.order.start[r + 1]))] for r in range(p.ranks)]}
