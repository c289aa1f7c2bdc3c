"""The graph engine: longest paths of a wait graph, or its shortest cycle. Linear in events and waits."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from interlock.rules.waits import BLOCK, ORDER, REASONS, WaitGraph

SEARCH_BUDGET = 4_000_000  # steps of the search for a shorter cycle


@dataclass(frozen=True)
class Solution:
    """`time[e]` for every event, -1 where it never happens. `walk`: a closed walk of waits if there is a cycle, `shortest` if proved so."""

    time: np.ndarray
    walk: tuple = ()
    shortest: bool = True

    @property
    def acyclic(self) -> bool:
        return not self.walk


def solve(graph: WaitGraph) -> Solution:
    """Kahn's longest path; what is left over holds a cycle, of which a shortest one is given."""
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
            time[d] = max(time[d], after)
            missing[d] -= 1
            if missing[d] == 0:
                ready.append(d)
    times = np.array(time, dtype=np.int64)
    if len(ready) == count:
        return Solution(times[graph.node])
    stuck = np.array(missing) > 0
    times[stuck] = -1
    walk, shortest = shortest_cycle(graph, stuck)
    return Solution(times[graph.node], walk, shortest)


def shortest_cycle(graph: WaitGraph, stuck: np.ndarray) -> tuple[tuple, bool]:
    """A closed walk with fewest arrows, where a run of `order` (or `block`) waits counts as one arrow.

    Among equally short ones that which is met first, in the order of rows. Gives up looking for a shorter one after SEARCH_BUDGET steps.
    """
    src, dst = graph.node[graph.src], graph.node[graph.dst]
    chains = (graph.reason == ORDER) | (graph.reason == BLOCK)
    keep = np.flatnonzero(_core(src, dst, stuck))
    out: dict[
        int, list[tuple[int, int, int, int]]
    ] = {}  # node -> (edge, node, event a chain step goes on from, event it leads to; -1: no chain)
    ends = np.where(chains, graph.src, -1), np.where(chains, graph.dst, -1)
    for e, a, b, x, y in zip(
        keep.tolist(), src[keep].tolist(), dst[keep].tolist(), ends[0][keep].tolist(), ends[1][keep].tolist()
    ):
        out.setdefault(a, []).append((e, b, x, y))
    starts = sorted({b for edges in out.values() for _, b, x, _ in edges if x < 0}) or sorted(out)
    best: list[int] | None = None
    best_cost, spent, complete = 1 << 60, 0, True
    for start in starts:
        if spent > SEARCH_BUDGET and best is not None:
            complete = False
            break
        cost, edges, steps = _cycle_through(out, start, best_cost)
        spent += steps
        if edges is not None and cost < best_cost:
            best, best_cost = edges, cost
            if cost <= 1:
                break
    return _walk(graph, best or [], chains), complete


def _core(src: np.ndarray, dst: np.ndarray, stuck: np.ndarray) -> np.ndarray:
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
    return alive[src] & alive[dst]


def _cycle_through(out, start: int, bound: int) -> tuple[int, list[int] | None, int]:
    """0-1 search for the cheapest closed walk through `start`, cheaper than `bound`: (cost, edges, steps taken)."""
    # a state is (node, the event a chain led to, or -1); to go on with a chain of that event is free
    cost = {(start, -1): 0}
    back: dict[tuple[int, int], tuple[tuple[int, int], int]] = {}
    queue, steps = deque([(start, -1)]), 0
    while queue:
        state = queue.popleft()
        node, event = state
        c = cost[state]
        if c >= bound:
            break
        for edge, b, x, y in out.get(node, ()):
            steps += 1
            price = c + (0 if x >= 0 and x == event else 1)
            if b == start and price < bound:
                edges = [edge]
                while state in back:
                    state, e = back[state]
                    edges.append(e)
                return price, edges[::-1], steps
            nxt = (b, y)
            if price < cost.get(nxt, bound):
                cost[nxt] = price
                back[nxt] = (state, edge)
                (queue.appendleft if price == c else queue.append)(nxt)
    return bound, None, steps


def _walk(graph: WaitGraph, edges: list[int], chains: np.ndarray) -> tuple:
    """The edges as certificate steps: chains contracted, `same` steps where a shared event is left by another of its rows."""
    if not edges:
        return ()
    if not all(chains[e] for e in edges):
        while chains[edges[0]] and chains[edges[-1]] and graph.dst[edges[-1]] == graph.src[edges[0]]:
            edges = edges[-1:] + edges[:-1]  # do not start inside a chain
    steps: list[list[int]] = []  # [source event, reason, destination event]
    for e in edges:
        a, b, reason = int(graph.src[e]), int(graph.dst[e]), int(graph.reason[e])
        if steps and chains[e] and steps[-1][1] == reason and steps[-1][2] == a:
            steps[-1][2] = b
        else:
            steps.append([a, reason, b])
    walk = []
    for (a, reason, b), (c, _, _) in zip(steps, steps[1:] + steps[:1]):
        walk.append((graph.event(a), REASONS[reason], graph.event(b)))
        if b != c:
            walk.append((graph.event(b), "same", graph.event(c)))
    return tuple(walk)
