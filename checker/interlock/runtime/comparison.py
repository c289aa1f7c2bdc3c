"""`interlock run --emulate`: a plan emulated, and what was measured beside what was predicted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from interlock.algebra.machine import machine_of
from interlock.check.files import Ruling
from interlock.program.ir import Program
from interlock.runtime.calibrate import calibrate
from interlock.runtime.emulation import EmulationSettings, Measured, emulate
from interlock.runtime.pool import Pool
from interlock.timing.durations import NoTimes, compute_durations
from interlock.timing.figures import compute_figures, format_duration, format_percent
from interlock.timing.simulate import simulate
from interlock.timing.timeline import Timeline


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
            here = calibrate(pool, program.ranks)
            say(f"this machine: {here}\n")
            expected = here.durations(found, schedule.times, settings)
        measured = emulate(program, found, settings, pool=pool)
    predicted = simulate(program, expected, "pair", critical=False)
    return Emulation(measured, compare(ruling.result.name, predicted, measured))


def compare(name: str, predicted: Timeline, measured: Measured) -> str:
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
