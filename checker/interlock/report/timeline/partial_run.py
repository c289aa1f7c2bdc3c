"""The longest path over the wait graph as far as it goes: what a schedule that stops has done by then."""

from __future__ import annotations

import numpy as np

from interlock.program.facts import Facts
from interlock.program.ir import Program
from interlock.rules.communication import Transfers
from interlock.rules.waits import wait_graph
from interlock.timing.timeline import Timeline


def run_partially(program: Program, model: str, durations: np.ndarray) -> Timeline:
    """Every row at its earliest; `durations`: ns of each row.

    Rows on a cycle of waits, and all behind it, have no time (-1).
    """
    facts = Facts(program)
    waits = wait_graph(facts, Transfers(facts), model)
    node = waits.node[: facts.n]
    events = len(waits.node)
    length = np.zeros(events, dtype=np.int64)
    np.maximum.at(length, node, durations)
    src, dst = waits.node[waits.src], waits.node[waits.dst]
    order = np.argsort(src, kind="stable")
    begin = np.searchsorted(src[order], np.arange(events + 1)).tolist()
    after = dst[order].tolist()
    missing = np.bincount(dst, minlength=events).tolist()
    long, start, cause = length.tolist(), [0] * events, [-1] * events
    ready = [e for e in np.unique(waits.node).tolist() if not missing[e]]
    ended = np.zeros(events, dtype=bool)
    while ready:
        e = ready.pop()
        ended[e] = True
        end = start[e] + long[e]
        for d in after[begin[e] : begin[e + 1]]:
            if end > start[d] or cause[d] < 0:
                start[d], cause[d] = end, e
            missing[d] -= 1
            if not missing[d]:
                ready.append(d)
    runs = ended[node] & facts.has_event
    starts = np.where(runs, np.array(start, dtype=np.int64)[node], -1)
    ends = np.where(runs, starts + length[node], -1)
    return Timeline(program, model, starts, ends, _critical(ends, cause, node))


def _critical(ends: np.ndarray, cause: list[int], node: np.ndarray) -> tuple[int, ...]:
    if not len(ends) or ends.max() < 0:
        return ()
    e, path = int(node[int(np.argmax(ends))]), []
    while e >= 0:
        if e < len(ends):
            path.append(e)
        e = cause[e]
    return tuple(path[::-1])
