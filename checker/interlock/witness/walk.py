"""A closed walk of waits rank by rank (spec/certificates.md)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from interlock.program.ir import Program

Event = tuple[str, int]  # ("op", row), ("start", launch), ("end", launch)
Step = tuple[Event, str, Event]


@dataclass(frozen=True)
class Leg:
    """The part of a walk on one rank: it never ends row `stop`, and therefore never comes to row `owed`, for
    which another waits.

    `steps` lead from stop to owed, in the order of time; none if they are one operation.
    """

    rank: int
    stop: int
    owed: int
    steps: tuple[Step, ...]


def legs(program: Program, walk) -> list[Leg]:
    """The walk rank by rank, each waiting for the next and the last for the first; the lowest rank comes
    first.
    """
    walk = [((*a,), reason, (*b,)) for a, reason, b in walk]
    ranks = [(rank_of(program, a), rank_of(program, b)) for a, _, b in walk]
    cuts = [i for i, (a, b) in enumerate(ranks) if a != b]
    if not cuts:
        steps = tuple(walk)
        return (
            [Leg(ranks[0][0], row_of(program, steps[0][0]), row_of(program, steps[-1][0]), steps)]
            if steps
            else []
        )
    found = []
    for i, j in zip(cuts, cuts[1:] + [cuts[0] + len(walk)]):
        steps = tuple(walk[k % len(walk)] for k in range(i + 1, j))
        found.append(
            Leg(ranks[i][1], row_of(program, walk[i][2]), row_of(program, walk[j % len(walk)][0]), steps)
        )
    found.reverse()  # a walk goes forward in time, waiting backward
    first = min(range(len(found)), key=lambda i: (found[i].rank, found[i].stop))
    return found[first:] + found[:first]


def rank_of(program: Program, event: Event) -> int:
    return program.rank_of(row_of(program, event))


def row_of(program: Program, event: Event) -> int:
    what, number = event
    return int(number) if what == "op" else int(members(program, number)[0])


def members(program: Program, launch: int) -> np.ndarray:
    return np.flatnonzero(program.order.launch == launch)
