"""The group `dep` of a concrete program: a time for every event, or a cycle of waits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from interlock.engine.graph import Solution, find_shortest_cycle, write_walk
from interlock.engine.smt.query import TIMEOUT_MS, Query, Sat, Unknown, Unsat, decide, unsat_core
from interlock.rules.waits import WaitGraph

MOST_EVENTS = 60_000  # of a concrete program; 20,000 operations are measured


def solve(graph: WaitGraph, *, timeout_ms: int = TIMEOUT_MS, second: bool = False) -> Solution | Unknown:
    """What engine/graph.py's `solve` answers, found by z3 alone.

    `timeout_ms` is for each of its two questions. Times are any that respect the waits, not the smallest; 0 is the first. With a cycle
    `time` is -1 throughout, since z3 has none then, and the walk is a shortest one among the events that wait for the unsat core and
    the core for them, so `shortest` is not claimed. `second`: cvc5 is asked too (query.py).
    """
    src, dst = graph.node[graph.src], graph.node[graph.dst]
    query = dependency_query(graph)
    if len(query.sorts) > MOST_EVENTS:
        return Unknown(
            f"{len(query.sorts):,} events wait for each other; up to {MOST_EVENTS:,} are put to a solver, and the graph engine takes any number"
        )
    answer = decide(query, timeout_ms, second=second)
    if isinstance(answer, Unknown):
        return answer
    if isinstance(answer, Sat):
        time = np.zeros(len(graph.node), dtype=np.int64)
        waiting = np.unique(np.concatenate([src, dst]))
        time[waiting] = [answer.value(_symbol(graph, e)) for e in waiting.tolist()]
        if len(waiting):
            time[waiting] -= time[waiting].min()
        return Solution(time[graph.node])
    answer = unsat_core(query, timeout_ms)
    if not isinstance(answer, Unsat):
        return answer if isinstance(answer, Unknown) else Unknown("z3 contradicts itself on the waits")
    core = np.unique(_pairs(graph)[[int(name.rpartition(".")[2]) for name in answer.core]])
    knot = _reached(src, dst, core, len(graph.node)) & _reached(
        dst, src, core, len(graph.node)
    )  # the core alone may go a long way round
    edges = np.flatnonzero(knot[src] & knot[dst])
    part = replace(graph, src=graph.src[edges], dst=graph.dst[edges], reason=graph.reason[edges])
    cycle, _ = find_shortest_cycle(part, knot)
    if not cycle:
        return Unknown("z3 says the waits are cyclic, but its core holds no cycle")
    return Solution(
        np.full(len(graph.node), -1, dtype=np.int64),
        write_walk(part, cycle),
        shortest=False,
        cycle=tuple(edges[cycle].tolist()),
    )


def dependency_query(graph: WaitGraph) -> Query:
    """An integer for every event that waits or is waited for, an inequality for every wait between two of them."""
    query = Query("sat: times of the events that respect every wait; unsat: the waits are cyclic", "QF_IDL")
    pairs = _pairs(graph)
    name = {e: query.integer(_symbol(graph, e)) for e in np.unique(pairs).tolist()}
    query.groups["dep"] = [f"(< {name[a]} {name[b]})" for a, b in pairs.tolist()]
    return query


def _pairs(graph: WaitGraph) -> np.ndarray:
    """The different (event, event that waits for it), ascending; shape [pairs, 2]."""
    events = max(len(graph.node), 1)
    key = np.unique(graph.node[graph.src] * events + graph.node[graph.dst])
    return np.stack([key // events, key % events], axis=1)


def _reached(src: np.ndarray, dst: np.ndarray, start: np.ndarray, count: int) -> np.ndarray:
    """Mask of the events that a path from one of `start` leads to, itself included."""
    index = np.argsort(src, kind="stable")
    targets = dst[index].tolist()
    first = np.searchsorted(src[index], np.arange(count + 1)).tolist()
    known = np.isin(np.arange(count), start).tolist()
    todo = start.tolist()
    for e in todo:  # grows while it runs
        for d in targets[first[e] : first[e + 1]]:
            if not known[d]:
                known[d] = True
                todo.append(d)
    return np.array(known)


def _symbol(graph: WaitGraph, event: int) -> str:
    return "{}{}".format(*graph.event(event))
