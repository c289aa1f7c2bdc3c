"""What is held from when until when, derived from spec/memory.md apart from rules/memory.py.

Nothing here depends on sizes or trainable bits: what a freezing does away with has no bytes then (sizes.py),
and its interval may stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from interlock.program.facts import IS_COMPUTE, Facts
from interlock.program.ir import Kind


class Content(StrEnum):
    """What is held; the values are names in emitted queries (spec/smt.md).

    Of a stage: its stash from F until X, and what of it is kept until W; what X recomputes, until X ends, and
    what of it is kept until W; its output on the way to another rank; its input until F, or until X; the
    gradient of its output; its workspace while an operation runs.
    """

    STASH = "stash"
    UNTIL_WEIGHT = "until_weight"
    RECOMPUTED = "anew"
    RECOMPUTED_UNTIL_WEIGHT = "anew_until_weight"
    OUTPUT = "output"
    INPUT = "input"
    INPUT_UNTIL_X = "input_until_X"
    GRADIENT = "gradient"
    WORKSPACE = "workspace"


# what lasts as long as another content, and longer
OUTLASTS = {
    Content.UNTIL_WEIGHT: Content.STASH,
    Content.RECOMPUTED_UNTIL_WEIGHT: Content.RECOMPUTED,
    Content.INPUT_UNTIL_X: Content.INPUT,
}


class Holding(NamedTuple):
    """The content of a stage for a microbatch of a class with so many images, or EACH_IMAGE: what each image
    adds.

    `gate`: of workspace, the group of the rows that need it (gates.py); 0: of rows that are always there.
    """

    content: Content
    cls: int
    stage: int
    images: int
    gate: int = 0


EACH_IMAGE = -1
Interval = tuple[int, int, Holding]  # first row, last row, inclusive


def list_workspaces(facts: Facts, group: np.ndarray) -> Iterator[Interval]:
    """The workspace of every compute row. `group`: of each row."""
    images = facts.program.images
    for row in np.flatnonzero(IS_COMPUTE[facts.kind] & facts.placed).tolist():
        cls, stage, microbatch = int(facts.cls[row]), int(facts.stage[row]), int(facts.mb[row])
        holding = Holding(Content.WORKSPACE, cls, stage, images[microbatch], int(group[row]))
        yield row, row, holding


def list_intervals(facts: Facts) -> Iterator[Interval]:
    """All but workspaces, in the order of spec/memory.md."""
    rows = _Rows(facts)
    on_path = facts.footprint.on_path.tolist()
    stages = np.arange(facts.S)
    for microbatch, cls in enumerate(facts.footprint.of.tolist()):
        ranks = facts.rank_at(stages, np.full(facts.S, microbatch)).tolist()
        for stage in range(facts.S):
            if on_path[cls][stage]:
                visit = _Visit(rows, microbatch, cls, stage, ranks)
                yield from visit.list_stash()
                yield from visit.list_passed_on()
                yield from visit.list_received()


class _Rows:
    """The first row of each kind for a (stage, microbatch), and what the intervals need beside it."""

    def __init__(self, facts: Facts):
        program, footprint = facts.program, facts.footprint
        self._first: dict[Kind, dict[tuple[int, int], int]] = {kind: {} for kind in Kind}
        placed = np.flatnonzero(facts.placed & (facts.mb >= 0))
        columns = (placed, facts.kind[placed], facts.stage[placed], facts.mb[placed])
        for row, kind, stage, microbatch in zip(*(column.tolist() for column in columns)):
            self._first[Kind(kind)].setdefault((stage, microbatch), row)
        self.images = program.images
        self.end_of_rank = (program.order.start[1:] - 1).tolist()
        self.next, self.previous = footprint.next.tolist(), footprint.prev.tolist()
        recomputed = np.array([layer.recompute for layer in program.layers], dtype=bool)
        self.recomputes = [
            [bool((present & recomputed)[s.first : s.last].any()) for s in program.stages]
            for present in footprint.present
        ]

    def find(self, stage: int, microbatch: int, *kinds: Kind) -> int | None:
        """The row of the first of the kinds that is listed."""
        at = (stage, microbatch)
        return next((self._first[kind][at] for kind in kinds if at in self._first[kind]), None)


class _Visit:
    """A microbatch at a stage of its path, and what the stage holds of it."""

    def __init__(self, rows: _Rows, microbatch: int, cls: int, stage: int, ranks: list[int]):
        """`ranks`: of all stages, for this microbatch."""
        self._rows, self._microbatch, self._cls, self._stage, self._ranks = (
            rows,
            microbatch,
            cls,
            stage,
            ranks,
        )
        self._end = rows.end_of_rank[ranks[stage]]
        self._forward = self._find_forward(stage)
        self._input_half = self._find_input_half(stage)

    def _find(self, stage: int, *kinds: Kind) -> int | None:
        return self._rows.find(stage, self._microbatch, *kinds)

    def _find_forward(self, stage: int) -> int | None:
        return self._find(stage, Kind.F)

    def _find_input_half(self, stage: int) -> int | None:
        """The row of X; where it is not listed, that of W."""
        return self._find(stage, Kind.I, Kind.B, Kind.W)

    def _until(self, row: int | None) -> int:
        """An interval whose end is not listed lasts until the rank's last row."""
        return self._end if row is None else row

    def _hold(self, content: Content, stage: int) -> Holding:
        return Holding(content, self._cls, stage, self._rows.images[self._microbatch])

    def list_stash(self) -> Iterator[Interval]:
        """**stash** and **recomputation**."""
        stage, f, x = self._stage, self._forward, self._input_half
        if f is None:
            return
        weight_half = self._until(self._find(stage, Kind.W, Kind.I, Kind.B))
        yield f, self._until(x), self._hold(Content.STASH, stage)
        yield f, weight_half, self._hold(Content.UNTIL_WEIGHT, stage)
        if x is not None and self._rows.recomputes[self._cls][stage]:
            yield x, x, self._hold(Content.RECOMPUTED, stage)
            yield x, weight_half, self._hold(Content.RECOMPUTED_UNTIL_WEIGHT, stage)

    def list_passed_on(self) -> Iterator[Interval]:
        """**output** handed over or sent, and the **gradient** that comes back for it."""
        following = self._rows.next[self._cls][self._stage]
        if following < 0:
            return
        if self._ranks[following] == self._ranks[self._stage]:
            yield from self._list_handed_over(following)
        else:
            yield from self._list_sent()

    def _list_handed_over(self, following: int) -> Iterator[Interval]:
        f, gradient = self._forward, self._find_input_half(following)
        if f is not None:
            yield f, self._until(self._find_forward(following)), self._hold(Content.INPUT, following)
            if self._rows.recomputes[self._cls][following]:
                yield f, self._until(gradient), self._hold(Content.INPUT_UNTIL_X, following)
        if gradient is not None:
            yield gradient, self._until(self._input_half), self._hold(Content.GRADIENT, self._stage)

    def _list_sent(self) -> Iterator[Interval]:
        f, arrival = self._forward, self._find(self._stage, Kind.RECV_B)
        if f is not None:
            yield (
                f,
                self._until(self._find(self._stage, Kind.WAIT_F)),
                self._hold(Content.OUTPUT, self._stage),
            )
        if arrival is not None:
            yield arrival, self._until(self._input_half), self._hold(Content.GRADIENT, self._stage)

    def list_received(self) -> Iterator[Interval]:
        """**output** received from another rank, and the **gradient** sent back for it."""
        stage, previous = self._stage, self._rows.previous[self._cls][self._stage]
        if previous < 0 or self._ranks[previous] == self._ranks[stage]:
            return
        arrival, x = self._find(stage, Kind.RECV_F), self._input_half
        if arrival is not None:
            yield arrival, self._until(self._forward), self._hold(Content.INPUT, stage)
            if self._rows.recomputes[self._cls][stage]:
                yield arrival, self._until(x), self._hold(Content.INPUT_UNTIL_X, stage)
        if x is not None:
            yield x, self._until(self._find(stage, Kind.WAIT_B)), self._hold(Content.GRADIENT, previous)
