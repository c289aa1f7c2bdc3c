"""What lies in memory while each row runs: the static and the live bytes of spec/memory.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

import numpy as np

from interlock.program.facts import IS_COMPUTE, Facts
from interlock.program.ir import Kind, Layer, Size

STATIC = ("weights", "gradients", "optimizer state")


class Part(IntEnum):
    """What live bytes are of."""

    STASH = 0
    STASH_UNTIL_W = 1
    OUTPUT = 2
    GRADIENT = 3

    @property
    def words(self) -> str:
        return ("stash", "stash until W", "output", "gradient")[self]


@dataclass(frozen=True)
class Intervals:
    """Live bytes, from row `start` to row `end`, both included. `part`: a Part; `row`: their operation."""

    start: np.ndarray
    end: np.ndarray
    size: np.ndarray
    part: np.ndarray
    row: np.ndarray

    @staticmethod
    def join(several: Sequence[Intervals]) -> Intervals:
        if not several:
            empty = np.empty(0, dtype=np.int64)
            return Intervals(empty, empty, empty, empty, empty)
        return Intervals(
            *(np.concatenate([getattr(one, column.name) for one in several]) for column in fields(Intervals))
        )


class Held(NamedTuple):
    """The live bytes of one part at a row: in how many intervals, and the oldest operation they belong to."""

    part: str
    count: int
    size: int
    oldest: int


@dataclass(frozen=True)
class StageSizes:
    """Bytes of a stage in a microbatch; `again_`: the part of the stash that recomputation makes in X."""

    until_x: int = 0
    until_w: int = 0
    again_until_x: int = 0
    again_until_w: int = 0
    output: int = 0
    workspace: int = 0


@dataclass(frozen=True)
class Sizes:
    """StageSizes as columns [kinds of microbatches: class and images, stages]; `like[m]`: the row of m."""

    like: np.ndarray
    until_x: np.ndarray
    until_w: np.ndarray
    again_until_x: np.ndarray
    again_until_w: np.ndarray
    output: np.ndarray
    workspace: np.ndarray


@dataclass(frozen=True)
class Operations:
    """Some operations by columns. `key`: stage * M + mb, the index of the tables of Facts."""

    rows: np.ndarray
    stage: np.ndarray
    mb: np.ndarray
    cls: np.ndarray
    key: np.ndarray

    def where(self, mask: np.ndarray) -> Operations:
        return Operations(*(getattr(self, column.name)[mask] for column in fields(Operations)))


class Usage:
    """Live bytes of every row of a program with written transfers, static bytes of every rank."""

    def __init__(self, facts: Facts):
        if facts.program.inserted:
            raise ValueError("memory is counted on written transfers: insert them first")
        self.facts = facts

    # ---- static ----------------------------------------------------------------------------------------

    @cached_property
    def static(self) -> list[int]:
        """Weights, gradients and optimizer state a rank holds, in bytes."""
        return [sum(parts) for parts in self.static_parts]

    @cached_property
    def static_parts(self) -> list[tuple[int, ...]]:
        """For each rank the bytes of each of STATIC."""
        p = self.facts.program
        total = np.zeros((p.ranks, len(STATIC)), dtype=object)
        for stage in p.stages:
            for layer in p.layers[stage.first : stage.last]:
                total[slice(None) if stage.replicated else stage.rank] += np.array(
                    self._static_of(layer), dtype=object
                )
        return [tuple(parts) for parts in total.tolist()]

    def _static_of(self, layer: Layer) -> tuple[int, int, int]:
        """The bytes of each of STATIC of a layer."""
        memory = self.facts.program.memory
        if memory is None or not layer.trainable:
            return layer.weights, 0, 0
        return layer.weights, _scale(layer.weights, memory.gradient), _scale(layer.weights, memory.optimizer)

    # ---- sizes -----------------------------------------------------------------------------------------

    @cached_property
    def sizes(self) -> Sizes:
        """The bytes of every stage in every kind of microbatch: 64 bits wide where no sum exceeds them."""
        f, p = self.facts, self.facts.program
        kind_of = list(zip(f.footprint.of.tolist(), (int(images) for images in p.images)))
        kinds = sorted(set(kind_of))
        number = {kind: n for n, kind in enumerate(kinds)}
        names = [field.name for field in fields(StageSizes)]
        tables = {name: np.zeros((max(len(kinds), 1), max(f.S, 1)), dtype=object) for name in names}
        for n, (cls, images) in enumerate(kinds):
            for s in range(f.S):
                sizes = self._stage_sizes(s, cls, images)
                for name in names:
                    tables[name][n, s] = getattr(sizes, name)
        largest = max(int(table.max()) for table in tables.values())
        if largest * 8 * (f.n + 1) < 1 << 62:
            tables = {name: table.astype(np.int64) for name, table in tables.items()}
        return Sizes(np.array([number[kind] for kind in kind_of], dtype=np.int64), **tables)

    def _stage_sizes(self, s: int, cls: int, images: int) -> StageSizes:
        f, p = self.facts, self.facts.program
        present = self._present(s, cls)
        if not present:
            return StageSizes()
        stashing = [p.layers[l] for l in present if f.footprint.stashes[cls, l]]
        until_x, until_w = _stash([l for l in stashing if not l.recompute], images)
        again_until_x, again_until_w = _stash([l for l in stashing if l.recompute], images)
        inputs = (before for before in self._kept_inputs(s, cls) if before is not None)
        return StageSizes(
            until_x + sum(_bytes(p.layers[before].output, images) for before in inputs),
            until_w,
            again_until_x,
            again_until_w,
            _bytes(p.layers[present[-1]].output, images),
            max(_bytes(p.layers[l].workspace, images) for l in present),
        )

    def _present(self, s: int, cls: int) -> list[int]:
        """L(s, m) of a class of microbatches."""
        stage = self.facts.program.stages[s]
        return [l for l in range(stage.first, stage.last) if self.facts.footprint.present[cls, l]]

    def _kept_inputs(self, s: int, cls: int) -> list[int | None]:
        """For each run of recomputed layers in L(s, m) that keeps its input the layer before it, or None."""
        p, stashes = self.facts.program, self.facts.footprint.stashes
        present, kept, start = self._present(s, cls), [], 0
        for recomputed, run in groupby(present, key=lambda l: p.layers[l].recompute):
            layers = list(run)
            if recomputed and stashes[cls, layers[-1]]:
                kept.append(present[start - 1] if start else None)
            start += len(layers)
        return kept

    @cached_property
    def _keeps_payload(self) -> np.ndarray:
        """[class, stage]: whether the payload given to the stage is kept until X: its first run is
        recomputed.
        """
        f, p = self.facts, self.facts.program
        keeps = np.zeros(f.footprint.on_path.shape, dtype=bool)
        for s, stage in enumerate(p.stages):
            if any(l.recompute for l in p.layers[stage.first : stage.last]):
                keeps[:, s] = [None in self._kept_inputs(s, cls) for cls in range(len(keeps))]
        return keeps

    # ---- intervals, each kind of bytes as its line of spec/memory.md says --------------------------------

    @cached_property
    def intervals(self) -> Intervals:
        f = self.facts
        if not (f.S and f.M and f.n):
            return Intervals.join(())
        return Intervals.join(
            [
                *self._stashes(),
                *self._recomputed_stashes(),
                self._outputs_made(),
                self._gradients_made(),
                self._outputs_received(),
                self._gradients_received(),
            ]
        )

    def _stashes(self) -> Iterator[Intervals]:
        """From F until W what is kept until W, until X everything else."""
        f, forwards, sizes = self.facts, self._stashing_forwards, self.sizes
        yield self._live(forwards, self._until(f.first_X_or_W, forwards), sizes.until_x, Part.STASH)
        yield self._live(forwards, self._until(f.first_W_or_X, forwards), sizes.until_w, Part.STASH_UNTIL_W)

    def _recomputed_stashes(self) -> Iterator[Intervals]:
        """From X on instead of from F: until W what is kept until W, everything else while X runs."""
        f, forwards, sizes = self.facts, self._stashing_forwards, self.sizes
        x = f.first_X_or_W[forwards.key]
        here = (x >= 0) & (f.rank[x] == f.rank[forwards.rows])
        forwards, x = forwards.where(here), x[here]
        until_w = self._until(f.first_W_or_X, forwards)
        yield self._live(forwards, self._overlap_end[x], sizes.again_until_x, Part.STASH, start=x)
        yield self._live(forwards, until_w, sizes.again_until_w, Part.STASH_UNTIL_W, start=x)

    def _outputs_made(self) -> Intervals:
        """From F(s, m): handed over until F(next, m), or X if next keeps it; sent until WAIT_F(s, m)."""
        f = self.facts
        forwards = self._operations(f.first_F[f.first_F >= 0])
        after = f.footprint.next[forwards.cls, forwards.stage]
        forwards, after = forwards.where(after >= 0), after[after >= 0]
        end = np.where(
            f.rank_at(after, forwards.mb) != f.rank[forwards.rows],
            self._until(f.first(Kind.WAIT_F), forwards),
            self._until_used(forwards, after),
        )
        return self._live(forwards, end, self.sizes.output, Part.OUTPUT)

    def _gradients_made(self) -> Intervals:
        """If cross(next(s, m), m), from X(next, m): handed over until X(s, m), sent until WAIT_B(next, m)."""
        f = self.facts
        backwards = self._operations(f.first_X_or_W[f.first_X_or_W >= 0])
        before = f.footprint.prev[backwards.cls, backwards.stage]
        crosses = (before >= 0) & f.footprint.cross[backwards.cls, backwards.stage]
        backwards, before = backwards.where(crosses), before[crosses]
        end = np.where(
            f.rank_at(before, backwards.mb) != f.rank[backwards.rows],
            self._until(f.first(Kind.WAIT_B), backwards),
            self._until(f.first_X_or_W, backwards, before),
        )
        return self._live(backwards, end, self.sizes.output, Part.GRADIENT, of=before)

    def _outputs_received(self) -> Intervals:
        """From RECV_F(s, m) until F(s, m), or X(s, m) if the stage keeps it."""
        f = self.facts
        receives = self._operations(np.flatnonzero((f.kind == Kind.RECV_F) & f.placed))
        before = f.footprint.prev[receives.cls, receives.stage]
        receives, before = receives.where(before >= 0), before[before >= 0]
        end = self._until_used(receives, receives.stage)
        return self._live(receives, end, self.sizes.output, Part.OUTPUT, of=before)

    def _gradients_received(self) -> Intervals:
        """From RECV_B(s, m) until X(s, m)."""
        f = self.facts
        receives = self._operations(np.flatnonzero((f.kind == Kind.RECV_B) & f.placed))
        return self._live(receives, self._until(f.first_X_or_W, receives), self.sizes.output, Part.GRADIENT)

    def _live(
        self,
        operations: Operations,
        end: np.ndarray,
        table: np.ndarray,
        part: Part,
        start: np.ndarray | None = None,
        of: np.ndarray | None = None,
    ) -> Intervals:
        """Intervals of operations, from their rows (or `start`) on, with the bytes of their stages
        (or `of`).
        """
        size = table[self.sizes.like[operations.mb], operations.stage if of is None else of]
        some = size != 0
        rows = operations.rows[some]
        begin = rows if start is None else start[some]
        return Intervals(
            self.facts.overlap_head[begin], end[some], size[some], np.full(len(rows), int(part)), rows
        )

    def _until(
        self, table: np.ndarray, operations: Operations, stage: np.ndarray | None = None
    ) -> np.ndarray:
        """The row of `table` (of the same stage, or `stage`) where intervals end; not on the rank:
        its last.
        """
        f = self.facts
        row = table[operations.key if stage is None else stage * f.M + operations.mb]
        rank = f.rank[operations.rows]
        here = (row >= 0) & (f.rank[row] == rank)
        return np.where(here, self._overlap_end[row], f.program.order.start[1:][rank] - 1)

    def _until_used(self, operations: Operations, stage: np.ndarray) -> np.ndarray:
        """Where the payload given to `stage` is last used: its F, or X where that runs F again."""
        return np.where(
            self._keeps_payload[operations.cls, stage],
            self._until(self.facts.first_X_or_W, operations, stage),
            self._until(self.facts.first_F, operations, stage),
        )

    @cached_property
    def _stashing_forwards(self) -> Operations:
        """F of every stage and microbatch that has a stash: back(s, m)."""
        f = self.facts
        forwards = self._operations(f.first_F[f.first_F >= 0])
        return forwards.where(f.footprint.back[forwards.cls, forwards.stage])

    def _operations(self, rows: np.ndarray) -> Operations:
        f = self.facts
        stage, mb = f.stage[rows], f.mb[rows]
        return Operations(rows, stage, mb, f.cls[rows], stage * f.M + mb)

    @cached_property
    def _overlap_end(self) -> np.ndarray:
        """The last row of the overlap each row is in."""
        end = np.arange(self.facts.n)
        end[self.facts.second_halves - 1] += 1
        return end

    # ---- sums ------------------------------------------------------------------------------------------

    @cached_property
    def live(self) -> np.ndarray:
        """Dynamic bytes while each row runs, workspace included."""
        f, i = self.facts, self.intervals
        sizes = self.sizes
        change = np.zeros(f.n + 1, dtype=sizes.output.dtype)
        np.add.at(change, i.start, i.size)
        np.subtract.at(change, i.end + 1, i.size)
        live = np.cumsum(change)[: f.n]
        rows = np.flatnonzero(IS_COMPUTE[f.kind] & f.placed)
        space = np.zeros(f.n, dtype=sizes.workspace.dtype)
        space[rows] = sizes.workspace[sizes.like[f.mb[rows]], f.stage[rows]]
        halves = f.second_halves
        both = space[halves - 1] + space[halves]  # the halves of an overlap are live together
        space[halves - 1], space[halves] = both, both
        return live + space

    @cached_property
    def peaks(self) -> list[int]:
        """Largest static + live bytes of each rank."""
        start = self.facts.program.order.start
        return [
            self.static[r] + (int(self.live[a:b].max()) if b > a else 0)
            for r, (a, b) in enumerate(zip(start[:-1], start[1:]))
        ]

    def peak_row(self, rank: int) -> int:
        a, b = self.facts.program.order.start[rank : rank + 2]
        return int(a + np.argmax(self.live[a:b])) if b > a else -1

    def held_at(self, row: int) -> list[Held]:
        """What is live at a row, most bytes first."""
        i = self.intervals
        hit = (i.start <= row) & (row <= i.end)
        hit &= self.facts.rank[i.start] == self.facts.rank[row]
        held = []
        for part in Part:
            mine = np.flatnonzero(hit & (i.part == part))
            if len(mine):
                size = int(i.size[mine].sum())
                held.append(Held(part.words, len(mine), size, int(i.row[mine].min())))
        return sorted(held, key=lambda x: -x.size)


def _scale(weights: int, ratio: tuple[int, int]) -> int:
    """ceil(weights * ratio)"""
    return -(-weights * ratio[0] // ratio[1])


def _bytes(size: Size, images: int) -> int:
    return size.fixed + size.per_image * images


def _stash(layers: Sequence[Layer], images: int) -> tuple[int, int]:
    """Bytes that layers with a stash keep until X, and until W."""
    whole = sum(_bytes(l.activation, images) for l in layers)
    late = sum(
        min(_bytes(l.until_weight, images), _bytes(l.activation, images)) for l in layers if l.trainable
    )
    return whole - late, late
