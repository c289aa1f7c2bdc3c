"""The group `dep` of a concrete program: a time for every event, or a cycle of waits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from interlock.engine.graph import Solution, find_shortest_cycle, write_walk
from interlock.engine.smt.query import TIMEOUT_MS, Query, Sat, Unknown, Unsat
from interlock.engine.smt.solvers import decide
from interlock.engine.smt.z3_solver import find_unsat_core
from interlock.rules.waits import WaitGraph

MAX_EVENTS = 60_000  # of a concrete program; 20,000 operations are measured


def solve(graph: WaitGraph, *, timeout_ms: int = TIMEOUT_MS, second: bool = False) -> Solution | Unknown:
    """As `solve` of engine/graph.py, by z3 alone.

    `timeout_ms` is for each of its two questions. Times are any that respect the waits, not the smallest; 0
    is the first. With a cycle `time` is -1 throughout, since z3 has none then, and the walk is a shortest one
    among the events that wait for the unsat core and the core for them, so `shortest` is not claimed.
    `second`: cvc5 is asked too (solvers.py).
    """
    query = build_dependency_query(graph)
    if len(query.sorts) > MAX_EVENTS:
        return Unknown(
            f"{len(query.sorts):,} events wait for each other; up to {MAX_EVENTS:,} are put to a solver, "
            "and the graph engine takes any number"
        )
    answer = decide(query, timeout_ms, second=second)
    if isinstance(answer, Unknown):
        return answer
    if isinstance(answer, Sat):
        return Solution(_read_times(graph, answer))
    answer = find_unsat_core(query, timeout_ms)
    if isinstance(answer, Unknown):
        return answer
    if isinstance(answer, Sat):
        return Unknown("z3 contradicts itself on the waits")
    return _find_cycle(graph, answer)


def _read_times(graph: WaitGraph, answer: Sat) -> np.ndarray:
    time = np.zeros(len(graph.node), dtype=np.int64)
    waiting = np.unique(graph.node[np.concatenate([graph.src, graph.dst])])
    time[waiting] = [answer.value(_write_symbol(graph, e)) for e in waiting.tolist()]
    if len(waiting):
        time[waiting] -= time[waiting].min()
    times: np.ndarray = time[graph.node]
    return times


def _find_cycle(graph: WaitGraph, answer: Unsat) -> Solution | Unknown:
    """The core alone may go a long way round: a shorter cycle may use other waits between the same events."""
    src, dst = graph.node[graph.src], graph.node[graph.dst]
    numbers = [int(name.rpartition(".")[2]) for name in answer.core]
    core, count = np.unique(_find_pairs(graph)[numbers]), len(graph.node)
    knot = _find_reached(src, dst, core, count) & _find_reached(dst, src, core, count)
    edges = np.flatnonzero(knot[src] & knot[dst])
    part = replace(graph, src=graph.src[edges], dst=graph.dst[edges], reason=graph.reason[edges])
    cycle, _ = find_shortest_cycle(part, knot)
    if not cycle:
        return Unknown("z3 says the waits are cyclic, but its core holds no cycle")
    never = np.full(count, -1, dtype=np.int64)
    return Solution(never, write_walk(part, cycle), shortest=False, cycle=tuple(edges[cycle].tolist()))


def build_dependency_query(graph: WaitGraph) -> Query:
    """An integer for every event that waits or is waited for, an inequality for every wait between two of
    them.
    """
    query = Query("sat: times of the events that respect every wait; unsat: the waits are cyclic", "QF_IDL")
    pairs = _find_pairs(graph)
    name = {e: query.declare_integer(_write_symbol(graph, e)) for e in np.unique(pairs).tolist()}
    query.groups["dep"] = [f"(< {name[a]} {name[b]})" for a, b in pairs.tolist()]
    return query


def _find_pairs(graph: WaitGraph) -> np.ndarray:
    """The different (event, event that waits for it), ascending; shape [pairs, 2]."""
    events = max(len(graph.node), 1)
    key = np.unique(graph.node[graph.src] * events + graph.node[graph.dst])
    return np.stack([key // events, key % events], axis=1)


def _find_reached(src: np.ndarray, dst: np.ndarray, start: np.ndarray, count: int) -> np.ndarray:
    """Mask of the events that a path from one of `start` leads to, itself included."""
    index = np.argsort(src, kind="stable")
    targets = dst[index].tolist()
    first = np.searchsorted(src[index], np.arange(count + 1)).tolist()
    reached = np.isin(np.arange(count), start).tolist()
    todo = start.tolist()
    for e in todo:  # grows while it runs
        for d in targets[first[e] : first[e + 1]]:
            if not reached[d]:
                reached[d] = True
                todo.append(d)
    return np.array(reached)


def _write_symbol(graph: WaitGraph, event: int) -> str:
    word, number = graph.event(event)
    return f"{word}{number}"
