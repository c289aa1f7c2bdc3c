"""Encodes in any bubble before their deadline, in place of a prefix (spec/cost.md, "Transpose")."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from interlock.program.facts import Facts
from interlock.program.ir import Program
from interlock.program.kinds import Kind
from interlock.timing.durations import Durations
from interlock.timing.exposure import (
    Deadlines,
    RunWithoutEncoder,
    encode_times,
    exposure_of_owners,
    latest_deadlines,
    run_without_encoder,
)


@dataclass(frozen=True)
class Placement:
    """owner[m], and before[m]: the row of the owner's rank (in the program asked about) that encode m comes
    just before; the rank's end for none."""

    owner: tuple[int, ...]
    before: dict[int, int]


def place_in_bubbles(program: Program, durations: Durations, choose_owners: bool) -> Iterator[Placement]:
    """Placements of the encodes of a program that has them as a prefix, each within some exposure; the
    smallest first.

    Each encode in turn, as the first stage takes them, goes where it ends first without making a row of its
    rank later than its latest start plus that exposure. The starts of the other rows are those of the run
    without the encoder, so what comes of it has to be simulated. No placement is claimed to be the best.
    `choose_owners`: choose the owner map too.
    """
    owner = program.stages[0].owner
    assert owner is not None, "stage 0 is Replicated"
    lanes = _lanes(run_without_encoder(program, durations))
    encode, due = encode_times(program, durations), latest_deadlines(program, durations)
    found: list[Placement] = []  # by ever smaller exposure
    low, high = 0, exposure_of_owners(owner, encode, due)
    while low <= high:
        middle = (low + high) // 2
        placement = _place_within(owner, encode, due, lanes, middle, choose_owners)
        if placement is None:
            low = middle + 1
        else:
            found.append(placement)
            high = middle - 1
    yield from reversed(found)


@dataclass(frozen=True)
class _Lane:
    """What a rank does besides encodes: rows, their earliest and latest starts and what they take, by the run
    without the encoder; its end."""

    rows: list[int]
    early: list[int]
    late: list[int]
    takes: list[int]
    end: int

    def find_gap(self, place: int, free: int, encode: int, limit: int) -> tuple[int, int]:
        """(end of an encode, place of the next row) on a rank that is free from `free` on, its rows before
        `place` being done."""
        while place < len(self.rows) and free + encode > self.late[place] + limit:
            free = max(free, self.early[place]) + self.takes[place]
            place += 1
        return free + encode, place

    def row_at(self, place: int) -> int:
        return self.rows[place] if place < len(self.rows) else self.end


def _lanes(run: RunWithoutEncoder) -> list[_Lane]:
    facts: Facts = run.facts
    of_encoder = (facts.stage == 0) & (facts.kind != Kind.LOSS)
    listed = (facts.overlap_head == np.arange(facts.n)) & ~of_encoder
    start = facts.program.order.start.tolist()
    lanes = []
    for a, b in zip(start, start[1:]):
        rows = a + np.flatnonzero(listed[a:b])
        early, late, taken = (column[rows].tolist() for column in (run.early, run.late, run.durations.row))
        lanes.append(_Lane(rows.tolist(), early, late, taken, b))
    return lanes


def _place_within(
    owner: Sequence[int],
    encode: Sequence[int],
    due: Deadlines,
    lanes: Sequence[_Lane],
    limit: int,
    choose_owners: bool,
) -> Placement | None:
    place, free = [0] * len(lanes), [0] * len(lanes)  # the next row of each rank, and when it is free
    chosen, before = list(owner), {}
    for m in due.order:
        gather = due.gather[m].tolist()
        offers = []
        for r in range(len(lanes)) if choose_owners else (chosen[m],):
            end, after = lanes[r].find_gap(place[r], free[r], encode[m], limit)
            offers.append((end + gather[r], r, after))
        arrives, r, after = min(offers)
        if arrives > int(due.feeds[m]) + limit:
            return None
        chosen[m], place[r], free[r] = r, after, arrives - gather[r]
        before[m] = lanes[r].row_at(after)
    return Placement(tuple(chosen), before)
