"""Of a run that stops: the operations that never run, and who waits for whom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from interlock.program.facts import Facts
from interlock.timing.timeline import Timeline
from interlock.witness.walk import Leg

MOST_GHOSTS = 9  # operations drawn behind the point where a rank stops
SKIPPED = -1  # the row of a ghost that stands for several


@dataclass(frozen=True)
class Ghost:
    """An operation that never runs, at place `slot` behind the point where its rank stops.

    `row` SKIPPED: `skipped` operations left out. `blocked`: it is one of the circle of waits.
    """

    rank: int
    slot: int
    row: int
    blocked: bool
    skipped: int = 0


def list_ghosts(timeline: Timeline, facts: Facts, circle: Sequence[Leg]) -> list[Ghost]:
    """For each rank that stops, what would come next, up to the last operation of the circle.

    Of many the first ones and those of the circle.
    """
    blocked = {row for leg in circle for row in (leg.stop, leg.owed)}
    ghosts: list[Ghost] = []
    for rank in range(timeline.program.ranks):
        a, b = (int(x) for x in timeline.program.order.start[rank : rank + 2])
        left = (a + np.flatnonzero((timeline.start[a:b] < 0) & facts.has_event[a:b])).tolist()
        if left:
            ghosts += _ghosts_of(rank, left, blocked)
    return ghosts


def _ghosts_of(rank: int, left: Sequence[int], blocked: set[int]) -> Iterator[Ghost]:
    """`left`: the rows of the rank that never run, in its order."""
    mine = [row for row in left if row in blocked]
    left = left[: left.index(mine[-1]) + 1] if mine else left[:1]
    kept = left
    if len(left) > MOST_GHOSTS:
        kept = sorted({*mine, *left[: max(MOST_GHOSTS - 2 * len(mine), 1)]})
    slot = following = 0
    for row in kept:
        at = left.index(row)
        if at > following:
            yield Ghost(rank, slot, SKIPPED, False, at - following)
            slot += 1
        yield Ghost(rank, slot, row, row in blocked)
        slot, following = slot + 1, at + 1


def list_waits(circle: Sequence[Leg]) -> list[tuple[int, int]]:
    """(row that waits, row it waits for), in the order of the circle."""
    if len(circle) < 2:
        return []
    return [(leg.stop, after.owed) for leg, after in zip(circle, [*circle[1:], circle[0]])]
