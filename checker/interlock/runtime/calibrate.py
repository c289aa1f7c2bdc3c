"""What this machine adds to an emulation: the overhead of an operation and its links, measured by runs of
their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from interlock.check.files import rulings
from interlock.load import load
from interlock.lower import backends
from interlock.lower.lowering import lower
from interlock.program.facts import IS_COMPUTE, IS_TRANSFER
from interlock.program.ir import Kind, Program
from interlock.runtime.emulation import EmulationSettings, emulate
from interlock.runtime.pool import Pool
from interlock.timing.durations import Durations, Link, Machine, compute_durations
from interlock.timing.layer_times import LayerTimes
from interlock.timing.simulate import simulate

SIZES = (1 << 18, 1 << 20, 1 << 22, 1 << 23, 1 << 24)  # bytes of payloads
REPEATS, ALONE, FULL = 5, 30, 16  # runs of each, and microbatches of the first and the third


@dataclass(frozen=True)
class Calibration:
    """This machine, in real time: ns that an operation takes beyond its wait; ns and bytes a second of its
    links.
    """

    overhead: int
    latency: int
    bandwidth: int

    def machine(self, settings: EmulationSettings, base: Machine = Machine()) -> Machine:
        """In the time of a model that is run `settings.scale` times as long, with `settings.payload` of its
        bytes; the rest as in `base`.
        """
        link = Link(
            round(self.latency / settings.scale),
            round(self.bandwidth / settings.payload * settings.scale) if settings.payload else None,
        )
        return replace(
            base, links=link, pairs={}, overhead=base.overhead + round(self.overhead / settings.scale)
        )

    def durations(
        self, found: Durations, times: Sequence[LayerTimes], settings: EmulationSettings
    ) -> Durations:
        """Of a plan's rows in such a run: a transfer takes what its link takes, or this machine's if that is
        more.
        """
        here = compute_durations(found.program, times, self.machine(settings, found.machine))
        kind = found.program.order.kind
        row = np.where(
            IS_COMPUTE[kind] & (kind != Kind.LOSS),
            here.row,
            np.where(IS_TRANSFER[kind], np.maximum(found.row, here.row), found.row),
        )
        return replace(found, row=row)

    def __str__(self) -> str:
        return (
            f"overhead {self.overhead / 1e3:.0f} us an operation, links {self.latency / 1e3:.0f} us + "
            f"bytes / {self.bandwidth / 1e9:.2f} GB/s"
        )


def calibrate(pool: Pool, ranks: int) -> Calibration:
    """From a rank alone, from a microbatch there and back along `ranks` ranks with payloads of several sizes,
    and from a full pipeline with small ones.

    The second gives the links, given what an operation takes beyond its wait in the first; what the third
    takes beyond both is the handling of transfers beside
    compute, and counts as overhead. Raises OSError.
    """
    alone = max(round(_beyond(pool, 1, ALONE, 0, Machine()) / (2 * ALONE)), 0)
    if ranks == 1:
        return Calibration(alone, 0, 1 << 40)
    spent = [
        max(_beyond(pool, ranks, 1, size, Machine(overhead=alone)) / (2 * (ranks - 1)), 1) for size in SIZES
    ]
    slope, latency = np.polyfit(SIZES, spent, 1, w=1 / np.array(spent))
    links = Link(max(round(latency), 0), round(1e9 / max(slope, 1e-3)))
    handling = _beyond(pool, ranks, FULL, SIZES[0], Machine(links, overhead=alone)) / (2 * (FULL + ranks - 1))
    return Calibration(alone + max(round(handling), 0), links.latency, links.bandwidth)


def _beyond(pool: Pool, ranks: int, microbatches: int, size: int, machine: Machine) -> float:
    """ns that 1F1B of operations of 10 ms takes beyond what `machine` says."""
    program, times = lowered(
        f"schedule toy {{ ranks {ranks} microbatches {microbatches} cut {{ all = u : 1f1b }}"
        f" model {{ layers u[{ranks}] {{ forward 10ms backward 10ms output {size}B }} }} }}"
    )
    bare = compute_durations(program, times)
    runs = [emulate(program, bare, pool=pool) for _ in range(REPEATS)]
    if not all(r.finished for r in runs):
        raise OSError(0, "; ".join(runs[-1].stands), "the calibration stopped")
    return (
        median(r.timeline.makespan for r in runs)
        - simulate(program, compute_durations(program, times, machine), "pair", critical=False).makespan
    )


def lowered(text: str) -> tuple[Program, tuple[LayerTimes, ...]]:
    """The plan of a text's only schedule for `torch`, and the times of its layers. Raises ValueError if it
    has errors.
    """
    loaded = load("s.sched", text.encode())
    if loaded.errors:
        raise ValueError(loaded.errors[0].message)
    [ruling] = rulings(loaded)
    assert ruling.case.schedule is not None
    plan = lower(ruling, backends.find("torch"), backends.LoweringOptions()).plan
    return plan.program, tuple(ruling.case.schedule.times)
