"""`interlock run --emulate`: starts the processes of an emulation and compares what they measured with the
prediction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from interlock.algebra.machine import machine_of
from interlock.check.files import Ruling
from interlock.interchange.plan import program_head
from interlock.interchange.plan_actions import list_actions
from interlock.program.facts import Facts, mask
from interlock.program.ir import Program
from interlock.program.kinds import PIPELINE, TO_NEXT, Kind
from interlock.runtime.pool import Pool
from interlock.timing.durations import Durations, NoTimes, compute_durations
from interlock.timing.figures import compute_figures, format_duration, format_percent
from interlock.timing.simulate import simulate
from interlock.timing.timeline import Timeline


@dataclass(frozen=True)
class EmulationSettings:
    scale: float = 1.0
    payload: float = 1.0
    limit: float = 10.0
    calibrate: bool = False


@dataclass(frozen=True)
class Measured:
    """finished: everything ended. timeline: in the model's time, the scale taken out. stands: for each rank
    where it was, if not.
    """

    finished: bool
    timeline: Timeline
    stands: tuple[str, ...] = ()


class Unfit(Exception):
    """A schedule that cannot be emulated; the text says why."""


@dataclass(frozen=True)
class Emulation:
    """What was measured, and it beside the prediction, as text."""

    measured: Measured
    report: str


def run(
    ruling: Ruling, program: Program, settings: EmulationSettings, say: Callable[[str], None]
) -> Emulation:
    """Emulates the plan of a ruling. `say` hears of the calibration. Raises Unfit, NoTimes, OSError."""
    schedule = ruling.case.schedule
    if schedule is None:
        raise NoTimes("a CSV gives no times")
    found = compute_durations(program, schedule.times, machine_of(schedule))
    if found.beside.any():
        raise Unfit("an emulation runs reductions in a rank's order: write `blocking` in `replicas { .. }`")
    with Pool(program.ranks) as pool:
        expected = found
        if settings.calibrate:
            from interlock.runtime.calibrate import calibrate  # it emulates

            here = calibrate(pool, program.ranks)
            say(f"this machine: {here}\n")
            expected = here.durations(found, schedule.times, settings)
        measured = emulate(program, found, settings, pool=pool)
    predicted = simulate(program, expected, "pair", critical=False)
    return Emulation(measured, report(ruling.result.name, predicted, measured))


def emulate(
    program: Program,
    found: Durations,
    settings: EmulationSettings = EmulationSettings(),
    model: str = "pair",
    pool: Pool | None = None,
) -> Measured:
    """One step, on as many processes as ranks: those of `pool`, or new ones. Raises OSError."""
    if pool is None:
        with Pool(program.ranks) as pool:
            return emulate(program, found, settings, model, pool)
    o = program.order
    seconds = (found.row * 1e-9 * settings.scale).tolist()
    limit = max(settings.limit, 4 * max(seconds, default=0))
    job = {
        "plain": program_head(program),
        "ranks": list_actions(program),
        "model": model,
        "seconds": seconds,
        "sizes": _sizes(program, found, settings.payload),
        "limit": limit,
    }
    results = pool.run(program.ranks, job, limit + 60 + 4 * found.row.sum() * 1e-9 * settings.scale)
    first = min(r["began"] for r in results)
    start, end = (np.full(len(o), -1, dtype=np.int64) for _ in range(2))
    for r in results:
        for row, (a, b) in r["span"].items():
            start[int(row)], end[int(row)] = ((x - first) / settings.scale * 1e9 for x in (a, b))
    stands = tuple(
        f"rank {i}: "
        f"{'has ended' if r['finished'] else 'stands before ' + r['at']}{'; in its queues: ' + ', '.join(r['queue']) if r['queue'] else ''}"
        for i, r in enumerate(results)
    )
    return Measured(all(r["finished"] for r in results), Timeline(program, model, start, end), stands)


def _sizes(program: Program, found: Durations, part: float) -> list[int]:
    """Bytes of each row's payload, those of the output that crosses: 0 of what is no transfer, or a named
    one.
    """
    facts, o = Facts(program), program.order
    sizes = [0] * len(o)
    for row in np.flatnonzero(mask(PIPELINE)[o.kind]).tolist():
        s, m = int(o.stage[row]), int(o.mb[row])
        left = s if Kind(int(o.kind[row])) in TO_NEXT else int(facts.footprint.prev[facts.footprint.of[m], s])
        sizes[row] = int(found.payload[found.kind_of[m], left] * part)
    return sizes


def report(name: str, predicted: Timeline, measured: Measured) -> str:
    if not measured.finished:
        return "\n".join([f"{name}: stopped", *(f"  {line}" for line in measured.stands)]) + "\n"
    a, b = compute_figures(predicted), compute_figures(measured.timeline)
    error = abs(b.makespan - a.makespan) / a.makespan if a.makespan else 0
    lines = [
        f"{name}: measured {format_duration(b.makespan)}, predicted {format_duration(a.makespan)}: "
        f"{error:.2%} apart",
        f"  bubble {format_percent(b.bubble)}, predicted {format_percent(a.bubble)}",
        "  rank  idle, predicted            exposed communication, predicted",
    ]
    for r, (x, y) in enumerate(zip(a.ranks, b.ranks)):
        lines.append(
            f"  {r:>4}  {format_duration(y.bubble):>10}, {format_duration(x.bubble):<15}  "
            f"{format_duration(y.exposed):>10}, {format_duration(x.exposed)}"
        )
    return "\n".join(lines) + "\n"
