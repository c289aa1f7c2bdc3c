"""The graph engine: longest paths of a wait graph, or its shortest cycle. Linear in events and waits."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from interlock.rules.waits import BLOCK, ORDER, REASONS, WaitGraph

SEARCH_BUDGET = 4_000_000  # steps of the search for a shorter cycle
NO_CHAIN = -1

Event = tuple[str, int]
Step = tuple[Event, str, Event]


@dataclass(frozen=True)
class Solution:
    """`time[e]` for every event, -1 where it never happens.

    `walk`: the steps of a closed walk of waits, if there is one, as certificates write it
    (spec/certificates.md); `cycle`: its waits, by their numbers in the wait graph; `shortest`: whether no
    closed walk has fewer arrows.
    """

    time: np.ndarray
    walk: tuple[Step, ...] = ()
    shortest: bool = True
    cycle: tuple[int, ...] = ()

    @property
    def acyclic(self) -> bool:
        return not self.walk


def solve(graph: WaitGraph) -> Solution:
    """The earliest time of every event (Kahn's longest path); if some never happen, a shortest cycle among
    them.
    """
    times, stuck = _find_times(graph)
    if not stuck.any():
        return Solution(times[graph.node])
    cycle, shortest = find_shortest_cycle(graph, stuck)
    return Solution(times[graph.node], write_walk(graph, cycle), shortest, tuple(cycle))


def _find_times(graph: WaitGraph) -> tuple[np.ndarray, np.ndarray]:
    """The time of every event, -1 where it never happens, and the mask of those."""
    count = len(graph.node)
    src, dst = graph.node[graph.src], graph.node[graph.dst]
    index = np.argsort(src, kind="stable")
    targets = dst[index].tolist()
    first = np.searchsorted(src[index], np.arange(count + 1)).tolist()
    missing = np.bincount(dst, minlength=count).tolist()
    time = [0] * count
    ready = [e for e, k in enumerate(missing) if k == 0]
    for e in ready:  # grows while it runs
        after = time[e] + 1
        for k in range(first[e], first[e + 1]):
            d = targets[k]
            if after > time[d]:  # in a loop over every wait max() takes half as long again
                time[d] = after
            missing[d] -= 1
            if missing[d] == 0:
                ready.append(d)
    times, stuck = np.array(time, dtype=np.int64), np.array(missing, dtype=np.int64) > 0
    times[stuck] = -1
    return times, stuck


class _Arrow(NamedTuple):
    """A wait of the search, from one node to another.

    A wait of a chain (`order`, `block`) leads from event `leaves` to event `reaches`; of other waits both are
    NO_CHAIN.
    """

    wait: int
    to: int
    leaves: int
    reaches: int


def find_shortest_cycle(graph: WaitGraph, stuck: np.ndarray) -> tuple[list[int], bool]:
    """The waits, by number, of a closed walk with fewest arrows among the `stuck` events, and whether it is
    proved so.

    A run of `order` (or `block`) waits counts as one arrow. Among equally short walks that which is met
    first, in the order of rows. Gives up looking for a shorter one after SEARCH_BUDGET steps.
    """
    arrows = _list_arrows(graph, stuck)
    starts = {arrow.to for leaving in arrows.values() for arrow in leaving if arrow.leaves == NO_CHAIN}
    best: list[int] = []
    best_cost, spent = 1 << 60, 0
    for start in sorted(starts or arrows):
        if spent > SEARCH_BUDGET and best:
            return best, False
        cost, cycle, steps = _search_through(arrows, start, best_cost)
        spent += steps
        if cycle:
            best, best_cost = cycle, cost
            if cost <= 1:
                break
    return best, True


def _list_arrows(graph: WaitGraph, stuck: np.ndarray) -> dict[int, list[_Arrow]]:
    """By node, the arrows that leave it and may lie on a cycle."""
    src, dst = graph.node[graph.src], graph.node[graph.dst]
    chained = _find_chained(graph)
    leaves, reaches = np.where(chained, graph.src, NO_CHAIN), np.where(chained, graph.dst, NO_CHAIN)
    arrows: dict[int, list[_Arrow]] = {}
    for wait in np.flatnonzero(_find_core(src, dst, stuck)).tolist():
        arrow = _Arrow(wait, int(dst[wait]), int(leaves[wait]), int(reaches[wait]))
        arrows.setdefault(int(src[wait]), []).append(arrow)
    return arrows


def _find_chained(graph: WaitGraph) -> np.ndarray:
    """Mask of the waits of which a run counts as one arrow."""
    return np.isin(graph.reason, (ORDER, BLOCK))


def _find_core(src: np.ndarray, dst: np.ndarray, stuck: np.ndarray) -> np.ndarray:
    """Mask of the waits between stuck events from which a cycle can still be reached (no dead ends)."""
    edges = np.flatnonzero(stuck[src] & stuck[dst])
    index = edges[np.argsort(dst[edges], kind="stable")]
    sources = src[index].tolist()
    first = np.searchsorted(dst[index], np.arange(len(stuck) + 1)).tolist()
    left = np.bincount(src[edges], minlength=len(stuck)).tolist()
    dead = [e for e in np.flatnonzero(stuck).tolist() if left[e] == 0]
    for e in dead:  # grows while it runs
        for a in sources[first[e] : first[e + 1]]:
            left[a] -= 1
            if left[a] == 0:
                dead.append(a)
    alive = stuck.copy()
    alive[dead] = False
    core: np.ndarray = alive[src] & alive[dst]
    return core


_State = tuple[int, int]  # (node, the event that a chain has led to, or NO_CHAIN)


def _search_through(arrows: dict[int, list[_Arrow]], start: int, bound: int) -> tuple[int, list[int], int]:
    """0-1 search for the cheapest closed walk through `start` that costs less than `bound`: (cost, waits,
    steps taken).

    To go on along a chain from the event it has led to is free, every other arrow costs 1. No waits: there is
    none.
    """
    origin = (start, NO_CHAIN)
    cost: dict[_State, int] = {origin: 0}
    back: dict[_State, tuple[_State, int]] = {}
    queue, steps = deque([origin]), 0
    while queue:
        state = queue.popleft()
        node, event = state
        so_far = cost[state]
        if so_far >= bound:
            break
        for arrow in arrows.get(node, ()):
            steps += 1
            goes_on = arrow.leaves != NO_CHAIN and arrow.leaves == event
            price = so_far if goes_on else so_far + 1
            if arrow.to == start and price < bound:
                return price, [*_trace_back(back, state), arrow.wait], steps
            following = (arrow.to, arrow.reaches)
            if price < cost.get(following, bound):
                cost[following] = price
                back[following] = (state, arrow.wait)
                if goes_on:
                    queue.appendleft(following)
                else:
                    queue.append(following)
    return bound, [], steps


def _trace_back(back: dict[_State, tuple[_State, int]], state: _State) -> list[int]:
    """The waits that led to the state, from the origin of the search."""
    waits = []
    while state in back:
        state, wait = back[state]
        waits.append(wait)
    return waits[::-1]


def write_walk(graph: WaitGraph, cycle: Sequence[int]) -> tuple[Step, ...]:
    """The waits of a cycle as certificate steps.

    Chains are contracted, and a step `same` stands where a shared event is left by another of its rows.
    """
    steps = _contract_chains(graph, _start_outside_chains(graph, cycle))
    walk: list[Step] = []
    for (a, reason, b), (following, _, _) in zip(steps, steps[1:] + steps[:1]):
        walk.append((graph.event(a), REASONS[reason], graph.event(b)))
        if b != following:
            walk.append((graph.event(b), "same", graph.event(following)))
    return tuple(walk)


def _start_outside_chains(graph: WaitGraph, cycle: Sequence[int]) -> list[int]:
    """The same cycle, from a wait on that does not go on along the chain of the last if there is one."""
    chained = _find_chained(graph)
    waits = list(cycle)
    if not all(chained[wait] for wait in waits):
        while chained[waits[0]] and chained[waits[-1]] and graph.dst[waits[-1]] == graph.src[waits[0]]:
            waits = waits[-1:] + waits[:-1]
    return waits


def _contract_chains(graph: WaitGraph, waits: Iterable[int]) -> list[tuple[int, int, int]]:
    """(source event, reason, destination event) of each wait, of a chain's run as one."""
    chained = _find_chained(graph)
    steps: list[tuple[int, int, int]] = []
    for wait in waits:
        a, b, reason = int(graph.src[wait]), int(graph.dst[wait]), int(graph.reason[wait])
        if steps and chained[wait] and steps[-1][1:] == (reason, a):
            steps[-1] = (steps[-1][0], reason, b)
        else:
            steps.append((a, reason, b))
    return steps
