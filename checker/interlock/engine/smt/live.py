"""The moments at which a rank may hold most, as counts of what is held then, whatever its bytes:
spec/memory.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from interlock.engine.smt.holdings import (
    EACH_IMAGE,
    Content,
    Holding,
    Interval,
    list_intervals,
    list_workspaces,
)
from interlock.program.facts import Facts

MAX_ROWS = 400_000  # of a program
MAX_CELLS = 20_000_000  # rows of a rank times the different holdings on it
MAX_MOMENTS = 10_000  # asked of the solver
MAX_COMPARED = 400  # moments that others are compared with


class TooLarge(Exception):
    """The message is the reason of an Unknown."""


@dataclass(frozen=True)
class Moment:
    """A row (an overlap: its first) with what is live; `gate`: the group of rows that are present with it, 0:
    it always is.

    Of a pair in OUTLASTS both are counted: what is kept for the longer time alone is the second count less
    the first.
    """

    rank: int
    row: int
    gate: int
    counts: dict[Holding, int]


@dataclass
class _Rank:
    """`columns`: a number for each different holding on the rank; `spans`: (first row, last row, column, how
    many).
    """

    columns: dict[Holding, int] = field(default_factory=dict)
    spans: list[tuple[int, int, int, int]] = field(default_factory=list)

    def add(self, first: int, last: int, holding: Holding, number: int) -> None:
        column = self.columns.setdefault(holding, len(self.columns))
        self.spans.append((first, last, column, number))


def find_moments(facts: Facts, group: np.ndarray, linear: bool) -> list[Moment]:
    """The moments at which a rank may hold most: no other that is present with one holds as much of
    everything.

    `group`: for each row a number, equal for rows that are present together, 0 for those that always are.
    `linear`: all but workspace is so many bytes and so many for each image; holdings are then counted as
    those without images, and their images. Raises TooLarge, and ValueError for inserted transfers.
    """
    p = facts.program
    if p.inserted:
        raise ValueError("memory is counted on written transfers: insert them first")
    if facts.n > MAX_ROWS:
        raise TooLarge(f"the memory of {facts.n:,} operations; up to {MAX_ROWS:,} are put to a solver")
    by_images = linear and len(set(p.images)) > 1
    ranks = [_Rank() for _ in range(p.ranks)]
    rank_of = facts.rank.tolist()
    for first, last, holding in _widen_to_overlaps(facts, group):
        rank = ranks[rank_of[first]]
        if by_images and holding.content != Content.WORKSPACE:
            rank.add(first, last, holding._replace(images=0), 1)
            rank.add(first, last, holding._replace(images=EACH_IMAGE), holding.images)
        else:
            rank.add(first, last, holding, 1)
    found = [moment for r, rank in enumerate(ranks) for moment in _find_largest(facts, r, group, rank)]
    if len(found) > MAX_MOMENTS:
        raise TooLarge(
            f"memory may be fullest at {len(found):,} moments; up to {MAX_MOMENTS:,} are put to a solver"
        )
    return found


def _widen_to_overlaps(facts: Facts, group: np.ndarray) -> Iterator[Interval]:
    """The intervals that are not empty; the halves of an overlap are live together."""
    head = facts.overlap_head.tolist()
    tail = list(range(facts.n))
    for row, first in enumerate(head):
        tail[first] = row
    for first, last, holding in chain(list_intervals(facts), list_workspaces(facts, group)):
        if head[first] <= tail[last]:
            yield head[first], tail[last], holding


def _find_largest(facts: Facts, rank: int, group: np.ndarray, held: _Rank) -> list[Moment]:
    start, end = facts.program.order.start[rank : rank + 2].tolist()
    if start == end:
        return []
    if (end - start) * (len(held.columns) + 1) > MAX_CELLS:
        raise TooLarge(
            f"rank {rank} holds {len(held.columns):,} different payloads and stashes "
            f"over {end - start:,} operations, too many to compare"
        )
    counts, rows = _count(held, start, end), np.arange(start, end)
    heads = facts.overlap_head[rows] == rows
    gate = group[rows].copy()
    gate[np.flatnonzero(~heads) - 1] = 0  # an overlap: its F is always there
    counts, gate, rows = counts[heads], gate[heads], rows[heads]
    holdings = list(held.columns)
    return [
        Moment(rank, int(rows[i]), int(gate[i]), _read_counts(holdings, counts[i]))
        for i in _select_undominated(counts, gate, held.columns)
    ]


def _count(held: _Rank, start: int, end: int) -> np.ndarray:
    """How many of each holding are live at each row of the rank; shape [rows, holdings]."""
    changes = np.zeros((end - start + 1, len(held.columns)), dtype=np.int64)
    if held.spans:
        first, last, column, number = np.array(held.spans).T
        np.add.at(changes, (first - start, column), number)
        np.subtract.at(changes, (last - start + 1, column), number)
    return np.cumsum(changes, axis=0)[:-1]


def _read_counts(holdings: list[Holding], counts: np.ndarray) -> dict[Holding, int]:
    return {holdings[column]: int(counts[column]) for column in np.flatnonzero(counts).tolist()}


def _select_undominated(counts: np.ndarray, gate: np.ndarray, columns: dict[Holding, int]) -> list[int]:
    """The moments, ascending, of which no other holds as much of everything and is present when they are."""
    _, different = np.unique(np.column_stack([counts, gate]), axis=0, return_index=True)
    least = _count_workspace_upwards(counts, columns)
    # what dominates comes before what it dominates
    order = np.lexsort((different, gate[different], -least[different].sum(axis=1)))
    kept: list[int] = []
    for i in different[order].tolist():
        others = kept[:MAX_COMPARED]
        as_much = (least[others] >= least[i]).all(axis=1)
        as_present = (gate[others] == 0) | (gate[others] == gate[i])
        if not (as_much & as_present).any():
            kept.append(i)
    return sorted(kept)


def _count_workspace_upwards(counts: np.ndarray, columns: dict[Holding, int]) -> np.ndarray:
    """Workspace counted as "that of so many images or more", since it grows with the images; everything else
    as it is.
    """
    upwards = counts.copy()
    last: dict[Holding, int] = {}
    for holding, column in sorted(columns.items(), key=_images_downwards):
        if holding.content == Content.WORKSPACE:
            alike = holding._replace(images=0)
            if alike in last:
                upwards[:, column] += upwards[:, last[alike]]
            last[alike] = column
    return upwards


def _images_downwards(item: tuple[Holding, int]) -> int:
    return -item[0].images
