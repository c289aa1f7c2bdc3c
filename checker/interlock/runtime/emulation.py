"""An emulation: starts its processes, and puts what they measured into one timeline."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from interlock.interchange.plan import program_head
from interlock.interchange.plan_actions import list_actions
from interlock.program.facts import Facts, mask
from interlock.program.ir import Program
from interlock.program.kinds import PIPELINE, TO_NEXT, Kind
from interlock.runtime.pool import Pool
from interlock.timing.durations import Durations
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


def emulate(
    program: Program,
    found: Durations,
    settings: EmulationSettings = EmulationSettings(),
    model: str = "pair",
    pool: Pool | None = None,
) -> Measured:
    """One step, on as many processes as ranks: those of `pool`, or new ones. Raises OSError."""
    if pool is None:
        with Pool(program.ranks) as own:
            return emulate(program, found, settings, model, own)
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
    stands = tuple(_describe_stand(i, r) for i, r in enumerate(results))
    return Measured(all(r["finished"] for r in results), Timeline(program, model, start, end), stands)


def _describe_stand(rank: int, result: dict) -> str:
    """Where a rank stands at the end, and what is left in its queues."""
    where = "has ended" if result["finished"] else f"stands before {result['at']}"
    queue = f"; in its queues: {', '.join(result['queue'])}" if result["queue"] else ""
    return f"rank {rank}: {where}{queue}"


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
