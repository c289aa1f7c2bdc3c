"""Bytes under PyTorch: receive buffers of all microbatches for the whole run, sends held until the
step ends.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np

from interlock.program.facts import IS_COMPUTE, Facts
from interlock.rules.usage import Held, Usage


class TorchUsage(Usage):
    """Of the compute operations alone, where no wait ends a send; row i is row `rows[i]` of the program."""

    def __init__(self, facts: Facts):
        keep = IS_COMPUTE[facts.kind]
        self.rows = np.flatnonzero(keep)
        if not keep.all():
            facts = Facts(replace(facts.program, order=facts.program.order.select(keep), inserted=True))
        self.facts = facts

    @cached_property
    def buffers(self) -> list[tuple[int, int]]:
        """(how many, bytes) of the receive buffers of each rank."""
        f, fp = self.facts, self.facts.footprint
        count, total = [0] * f.program.ranks, [0] * f.program.ranks
        mbs = np.arange(f.M)
        for s in range(f.S):
            before = np.maximum(fp.prev[fp.of, s], 0)
            here, there = f.rank_at(np.full(f.M, s), mbs), f.rank_at(before, mbs)
            input_comes = fp.on_path[fp.of, s] & (fp.prev[fp.of, s] >= 0) & (here != there)
            gradient_goes = input_comes & fp.cross[fp.of, s]
            for receiver, mask in ((here, input_comes), (there, gradient_goes)):
                for r in np.unique(receiver[mask]).tolist():
                    mine = np.flatnonzero(mask & (receiver == r))
                    count[r] += len(mine)
                    total[r] += int(self.sizes.output[self.sizes.like[mine], before[mine]].sum())
        return list(zip(count, total))

    @cached_property
    def live(self) -> np.ndarray:
        total = [bytes_ for _, bytes_ in self.buffers]
        dtype = np.int64 if max(total, default=0) < 1 << 62 else object
        return super().live + np.array(total, dtype=dtype)[self.facts.rank]

    def held_at(self, row: int) -> list[Held]:
        count, total = self.buffers[int(self.facts.rank[row])]
        own = [Held("receive buffer", count, total, row)] if total else []
        return sorted(super().held_at(row) + own, key=lambda x: -x.size)
