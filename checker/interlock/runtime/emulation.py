"""`interlock run --emulate`: starts the processes of an emulation and compares what they measured with the prediction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from interlock.algebra.machine import machine_of
from interlock.cli.lower import prepare
from interlock.interchange.plan import program_head
from interlock.interchange.plan_actions import list_actions
from interlock.interchange.timeline import dumps
from interlock.lower import backends
from interlock.program.facts import Facts
from interlock.program.ir import Program
from interlock.program.kinds import TRANSFER, Kind
from interlock.runtime.pool import Pool
from interlock.text.files import write_whole
from interlock.timing.durations import Durations, NoTimes, durations
from interlock.timing.figures import duration, figures, percent
from interlock.timing.simulate import simulate
from interlock.timing.timeline import Timeline


@dataclass(frozen=True)
class EmulationSettings:
    schedule: str | None = None
    ranks: int | None = None
    scale: float = 1.0
    payload: float = 1.0
    limit: float = 10.0
    lowering: backends.LoweringOptions = backends.LoweringOptions()
    calibrate: bool = False


@dataclass(frozen=True)
class Measured:
    """finished: everything ended. timeline: in the model's time, the scale taken out. stands: for each rank where it was, if not."""

    finished: bool
    timeline: Timeline
    stands: tuple[str, ...] = ()


def run(
    name: str,
    data: bytes,
    check_options,
    settings: EmulationSettings,
    output: Path | None,
    say: Callable[[str], None],
    complain: Callable[[str], None],
    terminal: dict,
) -> int:
    """Exit code: 0 it ran; 1 it stopped, or is not valid; 2 usage, no times; 3 not shown valid. Raises OSError."""
    prepared = prepare(
        name,
        data,
        check_options,
        backends.find("torch"),
        settings.lowering,
        settings.schedule,
        complain,
        terminal,
    )
    if isinstance(prepared, int):
        return prepared
    source, lowered = prepared
    program = lowered.plan.program
    if settings.ranks not in (None, program.ranks):
        complain(f"interlock: {source.checked.name} has {program.ranks} ranks, not {settings.ranks}\n")
        return 2
    try:
        if source.schedule is None:
            raise NoTimes("a CSV gives no times")
        found = durations(program, source.schedule.times, machine_of(source.schedule))
    except NoTimes as error:
        complain(f"interlock: {error}\n")
        return 2
    if found.beside.any():
        complain(
            "interlock: an emulation runs reductions in a rank's order: write `blocking` in `replicas { .. }`\n"
        )
        return 2
    with Pool(program.ranks) as pool:
        expected = found
        if settings.calibrate:
            from interlock.runtime.calibrate import calibrate  # it emulates

            here = calibrate(pool, program.ranks)
            say(f"this machine: {here}\n")
            expected = here.durations(found, source.schedule.times, settings)
        measured = emulate(program, found, settings, pool=pool)
    say(report(source.checked.name, simulate(program, expected, "pair", critical=False), measured))
    if output is not None:
        write_whole(output, dumps(source.checked.name, measured.timeline))
    return 0 if measured.finished else 1


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
        f"rank {i}: {'has ended' if r['finished'] else 'stands before ' + r['at']}{'; in its queues: ' + ', '.join(r['queue']) if r['queue'] else ''}"
        for i, r in enumerate(results)
    )
    return Measured(all(r["finished"] for r in results), Timeline(program, model, start, end), stands)


def _sizes(program: Program, found: Durations, part: float) -> list[int]:
    """Bytes of each row's payload, those of the output that crosses: 0 of what is no transfer, or a named one."""
    facts, o = Facts(program), program.order
    sizes = [0] * len(o)
    for row in np.flatnonzero(np.isin(o.kind, [int(k) for k in TRANSFER]) & (o.stage >= 0)).tolist():
        s, m = int(o.stage[row]), int(o.mb[row])
        left = (
            s
            if Kind(int(o.kind[row])) in (Kind.SEND_F, Kind.RECV_B)
            else int(facts.footprint.prev[facts.footprint.of[m], s])
        )
        sizes[row] = int(found.payload[found.kind_of[m], left] * part)
    return sizes


def report(name: str, predicted: Timeline, measured: Measured) -> str:
    if not measured.finished:
        return "\n".join([f"{name}: stopped", *(f"  {line}" for line in measured.stands)]) + "\n"
    a, b = figures(predicted), figures(measured.timeline)
    error = abs(b.makespan - a.makespan) / a.makespan if a.makespan else 0
    lines = [
        f"{name}: measured {duration(b.makespan)}, predicted {duration(a.makespan)}: {error:.2%} apart",
        f"  bubble {percent(b.bubble)}, predicted {percent(a.bubble)}",
        "  rank  idle, predicted            exposed communication, predicted",
    ]
    for r, (x, y) in enumerate(zip(a.ranks, b.ranks)):
        lines.append(
            f"  {r:>4}  {duration(y.bubble):>10}, {duration(x.bubble):<15}  {duration(y.exposed):>10}, {duration(x.exposed)}"
        )
    return "\n".join(lines) + "\n"
