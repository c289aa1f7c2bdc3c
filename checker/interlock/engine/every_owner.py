"""Every owner map of a leading Replicated region whose gathers come late: few maps, and one set of times for all of them.

Spec: algebra.md, "Every owner map". What is asked of the derived programs is that the place of an operation on its rank, relative to
another one there, depends on the owners of their two microbatches alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from interlock.engine.graph import solve
from interlock.program.facts import Facts
from interlock.program.ir import Kind, Program
from interlock.rules.communication import Transfers
from interlock.rules.waits import WaitGraph, wait_graph


def covering(
    own: Sequence[int], visits: Sequence[int], ranks: int, beside: Iterable[int]
) -> Iterator[tuple[int, ...]]:
    """Owner maps that show every two operations of a rank together, whoever owns them in the map that has both.

    `visits`: the microbatches on the region's path, the others keep their entry of `own`; `beside`: ranks of the stages it hands over to.
    """

    def mapped(choose) -> tuple[int, ...]:
        owner = list(own)
        for i, m in enumerate(visits):
            owner[m] = choose(i)
        return tuple(owner)

    for r in range(ranks):
        yield mapped(lambda i: r)  # any two that one rank owns, or another than that beside the region
    for q in sorted(set(beside)) if ranks > 1 else ():
        for bit in range((len(visits) - 1).bit_length() if visits else 0):
            for side in (0, 1):  # any one that the rank beside the region owns, and one that it does not
                yield mapped(lambda i: q if i >> bit & 1 == side else (q + 1) % ranks)


def one_order(programs: Iterable[Program], model: str) -> dict[int, int] | None:
    """Times by the events' names (`names`) that respect the waits of all the programs under the model; None if they wait in a cycle taken together.

    The programs have the same stages, microbatches and names, and no grouped launch.
    """
    pairs = []
    for program in programs:
        facts = Facts(program)
        waits = wait_graph(facts, Transfers(facts), model)
        name = names(facts, waits)
        pairs.append(np.unique(np.stack([name[waits.src], name[waits.dst]]), axis=1))
    all_pairs = np.unique(np.concatenate(pairs, axis=1), axis=1)
    known, at = np.unique(all_pairs, return_inverse=True)
    src, dst = at.reshape(all_pairs.shape)
    together = WaitGraph(
        len(known),
        np.arange(len(known)),
        np.empty(0, dtype=np.int64),
        src,
        dst,
        np.full(len(src), -1, dtype=np.int8),
    )
    solution = solve(together)
    return dict(zip(known.tolist(), solution.time.tolist())) if solution.acyclic else None


def names(facts: Facts, waits: WaitGraph) -> np.ndarray:
    """A number for each event that is the same in every owner map: of a hand-over that of its end beside the region, else of its rank and operation.

    Raises ValueError for a grouped launch.
    """
    if len(waits.launches):
        raise ValueError("a grouped launch has no name of its own")
    p = facts.program
    own = facts.rank.astype(np.int64)
    for column, size in (
        (facts.kind, len(Kind)),
        (facts.stage, facts.S),
        (facts.mb, facts.M),
        (facts.name, len(p.names)),
    ):
        own = own * (size + 1) + column + 1
    most = int(own.max(initial=0)) + 1
    own = np.where(facts.stage == 0, own + most, own)  # the other ends come first
    shared = np.full(facts.n, np.iinfo(np.int64).max)
    np.minimum.at(shared, waits.node, own)
    return shared[waits.node]
