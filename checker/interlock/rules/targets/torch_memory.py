"""Bytes under PyTorch's runtime: a receive buffer for every microbatch for the whole run, sends held to the end of the step."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np

from interlock.program.facts import IS_COMPUTE, Facts
from interlock.program.ir import Order
from interlock.rules import memory

_COLUMNS = ("kind", "stage", "mb", "peer", "name", "comm", "launch", "at", "width")


class TorchUsage(memory.Usage):
    """Counted on the compute operations alone, where no wait ends a send. `rows[i]`: the row of the program that row i here is."""

    def __init__(self, facts: Facts):
        keep = IS_COMPUTE[facts.kind]
        self.rows = np.flatnonzero(keep)
        if not keep.all():
            o = facts.program.order
            before = np.concatenate([[0], np.cumsum(keep)])
            order = Order(before[o.start].astype(np.int64), *(getattr(o, c)[keep] for c in _COLUMNS))
            facts = Facts(replace(facts.program, order=order, inserted=True))
        self.facts = facts

    @cached_property
    def buffers(self) -> list[tuple[int, int]]:
        """(how many, bytes) of the receive buffers of each rank."""
        f, fp = self.facts, self.facts.footprint
        tables, kind_of = self._tables
        count, total = [0] * f.program.ranks, [0] * f.program.ranks
        m = np.arange(f.M)
        for s in range(f.S):
            here = f.rank_at(np.full(f.M, s), m)
            before = fp.prev[fp.of, s]
            gives = np.maximum(before, 0)
            away = fp.on_path[fp.of, s] & (before >= 0) & (f.rank_at(gives, m) != here)
            for rank, mask in (
                (here, away),
                (f.rank_at(gives, m), away & fp.cross[fp.of, s]),
            ):  # the input of s; the gradient sent back for it
                for r in np.unique(rank[mask]).tolist():
                    mine = np.flatnonzero(mask & (rank == r))
                    count[r] += len(mine)
                    total[r] += int(tables[2, kind_of[mine], gives[mine]].sum())
        return list(zip(count, total))

    @cached_property
    def live(self) -> np.ndarray:
        total = [bytes_ for _, bytes_ in self.buffers]
        dtype = np.int64 if max(total, default=0) < 1 << 62 else object
        return super().live + np.array(total, dtype=dtype)[self.facts.rank]

    def held_at(self, row: int) -> list[tuple[str, int, int, int]]:
        count, total = self.buffers[int(self.facts.rank[row])]
        own = [("receive buffer", count, total, row)] if total else []
        return sorted(super().held_at(row) + own, key=lambda x: -x[2])
