"""What the rules ask of a program again and again, computed once: places, first rows, dependencies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from interlock.program.footprint import Footprint, footprint
from interlock.program.ir import Program
from interlock.program.kinds import (
    COLLECTIVE,
    COMPUTE,
    NO_EVENT,
    SENDS,
    TRANSFER,
    WITH_MICROBATCH,
    WITH_STAGE,
    Kind,
)


def mask(kinds: Iterable[Kind]) -> np.ndarray:
    """Whether a kind is one of these, by its number: to be indexed by a column of kinds."""
    table = np.zeros(256, dtype=bool)
    table[[int(kind) for kind in kinds]] = True
    return table


IS_COMPUTE, IS_TRANSFER, IS_SEND = mask(COMPUTE), mask(TRANSFER), mask(SENDS)
IS_COLLECTIVE, HAS_EVENT = mask(COLLECTIVE), ~mask(NO_EVENT)
HAS_STAGE, HAS_MICROBATCH = mask(WITH_STAGE), mask(WITH_MICROBATCH)


@dataclass(frozen=True)
class Edges:
    """Waits between rows: dst waits for src, by `rule` (the number in R-DEP-n)."""

    src: np.ndarray
    dst: np.ndarray
    rule: np.ndarray

    @staticmethod
    def join(several: Sequence[Edges]) -> Edges:
        if not several:
            empty = np.empty(0, dtype=np.int64)
            return Edges(empty, empty, empty)
        return Edges(
            np.concatenate([edges.src for edges in several]),
            np.concatenate([edges.dst for edges in several]),
            np.concatenate([edges.rule for edges in several]),
        )


class Facts:
    """Derived columns of a program. Arrays are indexed by row unless said otherwise."""

    def __init__(self, program: Program):
        self.program = program
        o = program.order
        self.n = len(o)
        self.kind, self.launch, self.comm, self.name, self.peer = o.kind, o.launch, o.comm, o.name, o.peer
        self.stage, self.mb = o.stage.astype(np.int64), o.mb.astype(np.int64)
        self.rank = program.row_ranks()
        self.S, self.M = len(program.stages), program.microbatches

    @cached_property
    def footprint(self) -> Footprint:
        return footprint(self.program)

    @cached_property
    def cls(self) -> np.ndarray:
        """The class of each row's microbatch (0 where it has none or it is out of range)."""
        safe = np.where((self.mb >= 0) & (self.mb < self.M), self.mb, 0)
        return self.footprint.of[safe] if self.M else np.zeros(self.n, dtype=np.int64)

    @cached_property
    def stage_ok(self) -> np.ndarray:
        ok: np.ndarray = ~HAS_STAGE[self.kind] | ((self.stage >= 0) & (self.stage < self.S))
        return ok

    @cached_property
    def mb_ok(self) -> np.ndarray:
        """Microbatch in range, and the stage (if that is in range) on its path."""
        ok: np.ndarray = ~HAS_MICROBATCH[self.kind] | ((self.mb >= 0) & (self.mb < self.M))
        rows = np.flatnonzero(ok & self.stage_ok & HAS_MICROBATCH[self.kind])
        ok[rows] = self.footprint.on_path[self.cls[rows], self.stage[rows]]
        return ok

    def rank_at(self, stage: np.ndarray, mb: np.ndarray) -> np.ndarray:
        """rank(s, m) for arrays of stages and microbatches in range."""
        out = self._stage_rank.take(stage)
        for s in self._replicated:
            hit = np.flatnonzero(stage == s)
            if len(hit):
                out[hit] = np.asarray(self.program.stages[s].owner, dtype=np.int64)[mb[hit]]
        return out

    @cached_property
    def _stage_rank(self) -> np.ndarray:
        return np.array([-1 if s.replicated else s.rank for s in self.program.stages], dtype=np.int64)

    @cached_property
    def _replicated(self) -> list[int]:
        return [i for i, s in enumerate(self.program.stages) if s.replicated]

    @cached_property
    def is_replicated(self) -> np.ndarray:
        """By stage."""
        return np.array([s.replicated for s in self.program.stages], dtype=bool)

    @cached_property
    def rank_ok(self) -> np.ndarray:
        """On rank(s, m), for rows with a microbatch; a Sharded stage's REDUCE on its rank."""
        ok = np.ones(self.n, dtype=bool)
        rows = np.flatnonzero(HAS_MICROBATCH[self.kind] & self.stage_ok & self.mb_ok)
        ok[rows] = self.rank_at(self.stage[rows], self.mb[rows]) == self.rank[rows]
        rows = np.flatnonzero((self.kind == Kind.REDUCE) & self.stage_ok)
        expected = self._stage_rank[self.stage[rows]]
        ok[rows] = (expected < 0) | (expected == self.rank[rows])
        return ok

    @cached_property
    def placed(self) -> np.ndarray:
        """Stage, microbatch and rank right: such a row takes part in the relations."""
        return np.ones(self.n, dtype=bool) if self._all_placed else self.stage_ok & self.mb_ok & self.rank_ok

    @cached_property
    def _all_placed(self) -> bool:
        """The usual case in few passes: compute alone, no microbatch skips a stage, all on the right rank."""
        return bool(
            self.n
            and self.M
            and HAS_MICROBATCH[self.kind].all()
            and min(self.stage.min(), self.mb.min()) >= 0
            and self.stage.max() < self.S
            and self.mb.max() < self.M
            and self.footprint.on_path.all()
            and (self.rank_at(self.stage, self.mb) == self.rank).all()
        )

    @cached_property
    def place(self) -> np.ndarray:
        """stage * M + mb of each row."""
        return self.stage * self.M + self.mb

    @cached_property
    def is_collective(self) -> np.ndarray:
        out: np.ndarray = IS_COLLECTIVE[self.kind]
        rows = np.flatnonzero((self.kind == Kind.REDUCE) & self.stage_ok)
        out[rows] = self.is_replicated[self.stage[rows]]
        return out

    @cached_property
    def is_unit(self) -> np.ndarray:
        """Transfers and collectives: what queues hold."""
        units: np.ndarray = IS_TRANSFER[self.kind] | self.is_collective
        return units

    @cached_property
    def has_event(self) -> np.ndarray:
        has_event: np.ndarray = HAS_EVENT[self.kind]
        return has_event

    @cached_property
    def is_host(self) -> np.ndarray:
        """Compute-like operations and INIT: those the rank does in its order (R-DEP-6)."""
        hosted: np.ndarray = self.has_event & (~self.is_unit | (self.kind == Kind.INIT))
        return hosted

    def first(self, kind: Kind, anywhere: bool = False) -> np.ndarray:
        """First row of a kind at each stage * M + mb, of the placed rows or of those `anywhere`; -1: none."""
        table = np.full(self.S * self.M, -1, dtype=np.int64)
        chosen = self.kind == kind
        if not self._all_placed:
            chosen &= self.stage_ok & self.mb_ok if anywhere else self.placed
        rows = np.flatnonzero(chosen)[::-1]
        table[self.place.take(rows)] = rows
        return table

    @cached_property
    def listed(self) -> dict[Kind, np.ndarray]:
        """First rows of the compute kinds, on whatever rank: what counts as listed (IL302, IL305, IL601)."""
        if not (self.rank_ok | ~IS_COMPUTE[self.kind]).all():
            return {kind: self.first(kind, anywhere=True) for kind in COMPUTE}
        return {
            Kind.F: self.first_F,
            Kind.B: self.first_B,
            Kind.I: self.first_I,
            Kind.W: self.first_W,
            Kind.LOSS: self.first_LOSS,
        }

    @cached_property
    def first_F(self) -> np.ndarray:
        return self.first(Kind.F)

    @cached_property
    def first_X(self) -> np.ndarray:
        """X of each stage and microbatch: the operation on the gradient of its input, I or B."""
        if not (self.kind == Kind.I).any():
            return self.first_B
        if not (self.kind == Kind.B).any():
            return self.first_I
        return np.where(self.first_I >= 0, self.first_I, self.first_B)

    @cached_property
    def first_I(self) -> np.ndarray:
        return self.first(Kind.I)

    @cached_property
    def first_B(self) -> np.ndarray:
        return self.first(Kind.B)

    @cached_property
    def first_W(self) -> np.ndarray:
        return self.first(Kind.W)

    @cached_property
    def first_X_or_W(self) -> np.ndarray:
        """X of each stage and microbatch; where it is not listed, W."""
        return np.where(self.first_X >= 0, self.first_X, self.first_W)

    @cached_property
    def first_W_or_X(self) -> np.ndarray:
        return np.where(self.first_W >= 0, self.first_W, self.first_X)

    @cached_property
    def first_LOSS(self) -> np.ndarray:
        return self.first(Kind.LOSS)

    def on_rank(self, rows: np.ndarray, rank: int) -> np.ndarray:
        """Those of the ascending rows that lie on one rank."""
        first, end = np.searchsorted(rows, self.program.order.start[rank : rank + 2])
        return rows[first:end]

    def neighbour(self, table: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """prev or next (a footprint table) of each row's stage; -1: none."""
        neighbours: np.ndarray = table[self.cls[rows], self.stage[rows]]
        return neighbours

    @cached_property
    def data(self) -> Edges:
        """R-DEP-1 to R-DEP-4 between listed operations, wherever they lie."""
        fp = self.footprint
        if not (self.n and self.S and self.M):
            return Edges.join(())
        tables = (self.first_F, self.first_X, self.first_W, self.first_LOSS)
        f, x, w, loss = (table[table >= 0] for table in tables)
        after = self.neighbour(fp.next, x)
        crossing = (after >= 0) & fp.cross[self.cls[x], np.maximum(after, 0)]
        return Edges.join(
            (
                self._edges(self.first_F, self.neighbour(fp.prev, f), f, 1),
                self._edges(self.first_F, self.stage[x], x, 2),
                self._edges(self.first_F, self.stage[w], w, 2),
                self._edges(self.first_X, np.where(crossing, after, -1), x, 2),
                self._edges(self.first_F, self.stage[loss], loss, 3),
                self._edges(self.first_LOSS, np.where(after < 0, self.stage[x], -1), x, 3),
                self._edges(self.first_I, self.stage[w], w, 4),
            )
        )

    def _edges(self, table: np.ndarray, stage: np.ndarray, dst: np.ndarray, rule: int) -> Edges:
        """From the row of `table` at each stage (-1: none) and the dst's microbatch, where it is listed."""
        src = np.where(stage >= 0, table[np.maximum(stage, 0) * self.M + self.mb[dst]], -1)
        found = src >= 0
        return Edges(src[found], dst[found], np.full(int(np.count_nonzero(found)), rule))

    @cached_property
    def overlap_head(self) -> np.ndarray:
        """The row that names each row's event among compute: the first half of an overlap, else itself."""
        head = np.arange(self.n)
        head[self.second_halves] -= 1
        return head

    @cached_property
    def second_halves(self) -> np.ndarray:
        """Second rows of overlaps."""
        rows = np.flatnonzero(self.launch >= 0)
        rows = rows[IS_COMPUTE[self.kind[rows]]]
        second: np.ndarray = rows[1:][self.launch[rows[1:]] == self.launch[rows[:-1]]]
        return second

    @cached_property
    def collective_key(self) -> tuple[np.ndarray, np.ndarray]:
        """(rows of collectives, number of each one's event): the k-th of all members share it."""
        rows = np.flatnonzero(self.is_collective)
        comm = self.comm[rows].astype(np.int64)
        lane = comm * self.program.ranks + self.rank[rows]
        position = count_earlier(lane)
        _, event = np.unique(comm * (self.n + 1) + position, return_inverse=True)
        return rows, event


def count_earlier(key: np.ndarray) -> np.ndarray:
    """For each element the number of equal elements before it."""
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    starts = (
        np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(key) else np.empty(0, dtype=np.int64)
    )
    counts = np.arange(len(key)) - np.repeat(starts, np.diff(np.r_[starts, len(key)]))
    out = np.empty(len(key), dtype=np.int64)
    out[order] = counts
    return out
