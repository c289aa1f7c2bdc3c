"""Where the operations of a run lie: lanes of each rank, halves of an overlap, bubbles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from interlock.program.facts import IS_SEND, IS_TRANSFER, Facts, mask
from interlock.program.kinds import COLLECTIVE, Kind
from interlock.program.kinds import COMPUTE as COMPUTE_KINDS
from interlock.timing.timeline import Timeline

NOT_DRAWN, COMPUTE, COMM = -1, 0, 1  # lanes; COMM and above are the lines of transfers
RECEIVES, SENDS = 0, 1  # lines that transfers take where they do not overlap
MOST_LINES = 4  # for transfers that run at once on one rank
_ON_COMPUTE = mask(COMPUTE_KINDS | {Kind.STEP})
_COLLECTIVE = mask(COLLECTIVE | {Kind.REDUCE, Kind.REDUCE_DATA})


class Half(IntEnum):
    """Of a box that two operations share: an overlap."""

    WHOLE = 0
    UPPER = 1
    LOWER = 2


class Phase(IntEnum):
    """Of a bubble: before a rank's first compute, between, after its last."""

    WARMUP = 0
    RESIDUAL = 1
    COOLDOWN = 2


@dataclass(frozen=True)
class Bubbles:
    """Where a rank neither computes nor transfers, as columns; `phase` is a Phase."""

    rank: np.ndarray
    start: np.ndarray
    end: np.ndarray
    phase: np.ndarray


def find_drawn(timeline: Timeline) -> np.ndarray:
    """Mask of the rows that have a place in the picture."""
    kind = timeline.program.order.kind
    return (timeline.start >= 0) & (_ON_COMPUTE[kind] | IS_TRANSFER[kind] | _COLLECTIVE[kind])


def find_halves(facts: Facts) -> np.ndarray:
    """The Half of each row."""
    head = facts.overlap_head
    lower = np.flatnonzero(head != np.arange(len(head)))
    halves = np.full(len(head), int(Half.WHOLE), dtype=np.int8)
    halves[lower], halves[lower - 1] = Half.LOWER, Half.UPPER
    return halves


def assign_lanes(timeline: Timeline, facts: Facts, drawn: np.ndarray) -> np.ndarray:
    """COMPUTE, or COMM + line, or NOT_DRAWN for each row. Boxes of one line do not overlap."""
    kind, rank = timeline.program.order.kind, facts.rank
    lane = np.where(_ON_COMPUTE[kind], COMPUTE, COMM).astype(np.int16)
    lane[~drawn] = NOT_DRAWN
    rows = np.flatnonzero(lane == COMM)
    rows = rows[np.lexsort((timeline.end[rows], timeline.start[rows], rank[rows]))]
    outgoing = IS_SEND[kind] | _COLLECTIVE[kind]
    columns = (rows, rank[rows], timeline.start[rows], timeline.end[rows], outgoing[rows])
    free_from: list[int] = []  # of each line of the rank
    current = -1
    for row, own, start, end, leaves in zip(*(column.tolist() for column in columns)):
        if own != current:
            free_from, current = [0, 0], own
        line = _first_free_line(free_from, start, leaves)
        if line == len(free_from):
            free_from.append(0)
        free_from[line] = max(end, free_from[line])
        lane[row] = COMM + line
    return lane


def _first_free_line(free_from: Sequence[int], start: int, outgoing: bool) -> int:
    """Receives above, sends below; then the further lines, and then a new one."""
    own = [SENDS, RECEIVES] if outgoing else [RECEIVES, SENDS]
    order = [*own, *range(2, len(free_from))]
    return next((line for line in order if free_from[line] <= start), len(free_from))


def count_lines(lane: np.ndarray, facts: Facts, ranks: int) -> list[int]:
    """Lines for transfers of each rank: at least 2, at most MOST_LINES; the last takes what is too much."""
    top = np.full(ranks, 2)
    np.maximum.at(top, facts.rank, np.maximum(lane, 0))
    return np.minimum(top, MOST_LINES).tolist()


def unite_intervals(timeline: Timeline, rank: int, rows: np.ndarray) -> np.ndarray:
    """The union of what the masked rows of a rank take, as pairs (start, end) in the order of time."""
    a, b = timeline.program.order.start[rank : rank + 2]
    start, end = timeline.start[a:b], timeline.end[a:b]
    taken = rows[a:b] & (end > start)
    start, end = start[taken], end[taken]
    if not len(start):
        return np.empty((0, 2), dtype=np.int64)
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    opens = np.r_[True, start[1:] > end[:-1]]
    closes = np.r_[np.flatnonzero(opens)[1:] - 1, len(end) - 1]
    return np.stack([start[opens], end[closes]], axis=1)


def find_bubbles(timeline: Timeline, drawn: np.ndarray, busy: Sequence[np.ndarray], makespan: int) -> Bubbles:
    """`busy`: of each rank the intervals in which it computes."""
    found = [_bubbles_of(timeline, rank, drawn, busy[rank], makespan) for rank in range(len(busy))]
    if not found:
        empty = np.empty(0, dtype=np.int64)
        return Bubbles(empty, empty, empty, empty)
    return Bubbles(
        np.concatenate([b.rank for b in found]),
        np.concatenate([b.start for b in found]),
        np.concatenate([b.end for b in found]),
        np.concatenate([b.phase for b in found]),
    )


def _bubbles_of(
    timeline: Timeline, rank: int, drawn: np.ndarray, compute: np.ndarray, makespan: int
) -> Bubbles:
    used = unite_intervals(timeline, rank, drawn)
    gaps = np.concatenate([[0], used.reshape(-1), [makespan]]).reshape(-1, 2)
    gaps = gaps[gaps[:, 1] > gaps[:, 0]]
    start, end = gaps[:, 0], gaps[:, 1]
    first, last = (compute[0, 0], compute[-1, 1]) if len(compute) else (makespan, makespan)
    later = np.where(start >= last, Phase.COOLDOWN, Phase.RESIDUAL)
    return Bubbles(np.full(len(gaps), rank), start, end, np.where(end <= first, Phase.WARMUP, later))
