"""Every owner map of a leading Replicated region whose gathers come late: few maps, and times for all of
them.

Spec: algebra.md, R-OWN-2, "Late gathers". What is asked of the derived programs is that the place of an
operation on its rank, relative to another one there, depends on the owners of their two microbatches alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from interlock.engine.graph import solve
from interlock.program.facts import Facts
from interlock.program.ir import Kind, Program
from interlock.rules.communication import Transfers
from interlock.rules.waits import WaitGraph, wait_graph

NO_REASON = -1


def list_covering_maps(
    owner: Sequence[int], visits: Sequence[int], ranks: int, beside: Iterable[int]
) -> Iterator[tuple[int, ...]]:
    """Owner maps that show every two operations of a rank together, whoever owns them in a map that has both.

    `visits`: the microbatches on the region's path, the others keep their entry of `owner`; `beside`: ranks
    of the stages it hands over to.
    """
    for rank in range(ranks):  # any two that one rank owns, or another than that beside the region
        yield _replace_owners(owner, visits, [rank] * len(visits))
    if ranks == 1 or not visits:
        return
    for rank in sorted(set(beside)):  # any one that the rank beside the region owns, and one that it does not
        neighbour = (rank + 1) % ranks
        for bit in range((len(visits) - 1).bit_length()):
            for side in (0, 1):
                chosen = [rank if turn >> bit & 1 == side else neighbour for turn in range(len(visits))]
                yield _replace_owners(owner, visits, chosen)


def _replace_owners(owner: Sequence[int], visits: Sequence[int], chosen: Sequence[int]) -> tuple[int, ...]:
    replaced = list(owner)
    for m, rank in zip(visits, chosen):
        replaced[m] = rank
    return tuple(replaced)


def find_common_times(programs: Iterable[Program], model: str) -> dict[int, int] | None:
    """Times that respect the waits of all the programs under the model, by the numbers of `number_events`.

    None if they wait in a cycle taken together. The programs have the same stages, microbatches and names,
    and no grouped launch.
    """
    waits = np.concatenate([_number_waits(program, model) for program in programs], axis=1)
    waits = np.unique(waits, axis=1)
    numbers, position = np.unique(waits, return_inverse=True)
    src, dst = position.reshape(waits.shape)
    together = WaitGraph(
        n=len(numbers),
        node=np.arange(len(numbers)),
        launches=np.empty(0, dtype=np.int64),
        src=src,
        dst=dst,
        reason=np.full(len(src), NO_REASON, dtype=np.int8),
    )
    solution = solve(together)
    return dict(zip(numbers.tolist(), solution.time.tolist())) if solution.acyclic else None


def _number_waits(program: Program, model: str) -> np.ndarray:
    """The different waits of a program, each by the numbers of its two events; shape [2, waits]."""
    facts = Facts(program)
    waits = wait_graph(facts, Transfers(facts), model)
    number = number_events(facts, waits)
    return np.unique(np.stack([number[waits.src], number[waits.dst]]), axis=1)


def number_events(facts: Facts, waits: WaitGraph) -> np.ndarray:
    """A number for each event that is the same in every owner map.

    That of its rank and operation; of a hand-over that of its end beside the region. Raises ValueError for a
    grouped launch.
    """
    if len(waits.launches):
        raise ValueError("a grouped launch has no number that is the same in every owner map")
    number = facts.rank.astype(np.int64)
    for column, size in (
        (facts.kind, len(Kind)),
        (facts.stage, facts.S),
        (facts.mb, facts.M),
        (facts.name, len(facts.program.names)),
    ):
        number = number * (size + 1) + column + 1
    behind_all = int(number.max(initial=0)) + 1
    number = np.where(facts.stage == 0, number + behind_all, number)  # the ends beside the region are smaller
    smallest = np.full(facts.n, np.iinfo(np.int64).max)
    np.minimum.at(smallest, waits.node, number)
    shared: np.ndarray = smallest[waits.node]
    return shared
