"""When every operation of a program runs: longest paths over its wait graph, with durations (spec/cost.md, "The makespan")."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from interlock.program.facts import IS_COMPUTE, IS_SEND, IS_TRANSFER, Facts, mask
from interlock.program.ir import Program
from interlock.program.kinds import INSERTED, Kind
from interlock.program.transfers import insert
from interlock.rules.communication import Transfers
from interlock.rules.waits import AFTER, QUEUE, WaitGraph, wait_graph
from interlock.timing import longest_path as compute
from interlock.timing.durations import Durations, Link
from interlock.timing.figures import Figures, Intervals, figures, period, summary
from interlock.timing.longest_path import Cyclic
from interlock.timing.timeline import Timeline

FREE = "free"  # inserted transfers: each takes its time and waits for its payload alone


def simulate(
    program: Program,
    durations: Durations,
    model: str = "pair",
    *,
    placed: Program | None = None,
    critical: bool = True,
) -> Timeline:
    """The run of a program in which everything starts as early as it can. Raises Cyclic if nothing does.

    Written transfers go by the communication `model`. Inserted ones are `free` (the model asked for says nothing then): edges of the program
    that take their time; the timeline shows them on `placed`, the program with its transfers written (program/transfers.py; None: written here).
    `critical`: also find a longest path.
    """
    if not program.inserted:
        return _by_graph(program, durations, model, critical)
    facts = Facts(program)
    if (
        facts.is_collective.any()
    ):  # a written reduction between inserted transfers: no fast way, and one graph for both
        return _by_graph(placed or insert(program), durations, FREE, critical)
    written = placed or insert(program)
    later = durations.on(written)
    reduces = np.isin(written.order.kind, (int(Kind.REDUCE), int(Kind.REDUCE_TIE)))
    if later.row[reduces].any():
        return _by_graph(written, later, FREE, critical)
    return _by_edges(facts, durations, written, later, critical)


def makespan(program: Program, durations: Durations, model: str = "pair") -> int:
    """The end of the step alone. Raises Cyclic."""
    run = _edges(program, durations)
    if run is None:
        return simulate(program, durations, model, critical=False).makespan
    return int(run.end.max(initial=0))


def figures_of(program: Program, durations: Durations, model: str = "pair") -> Figures:
    """The figures of simulate's run. Raises Cyclic. Of inserted transfers in a fraction of its time: none is written."""
    run = _edges(program, durations)
    if run is None:
        return figures(simulate(program, durations, model, critical=False))
    facts, end, lag, row = run.facts, run.end, run.lag, durations.row
    works = IS_COMPUTE[facts.kind] & (row > 0)
    works[facts.second_halves] = False
    at = slice(None) if works.all() else np.flatnonzero(works)
    talk = ()
    if lag is not None:
        travels, forward = lag > 0, facts.kind == Kind.F
        to = np.concatenate(
            [np.flatnonzero(travels & forward), np.flatnonzero(travels & ~forward)]
        )  # each almost in the order of time: they sort fast
        by = run.found.need.take(to)
        leaves = end.take(by)
        arrives = leaves + lag.take(to)
        talk = tuple(Intervals(facts.rank.take(side), leaves, arrives) for side in (by, to))
    return summary(
        program.ranks,
        int(end.max(initial=0)),
        Intervals(facts.rank[at], (end - row)[at], end[at]),
        talk,
        period(facts, end),
    )


@dataclass(frozen=True)
class _Edges:
    """A run of inserted transfers on the rows of the program itself: lag[i] before row i starts its input has left row found.need[i]."""

    facts: Facts
    found: compute.Needs
    lag: np.ndarray | None
    end: np.ndarray


def _edges(program: Program, durations: Durations) -> _Edges | None:
    """None where transfers are written or a reduction may take time. Raises Cyclic."""
    facts = (
        durations.facts if durations.facts is not None and durations.program is program else Facts(program)
    )
    if not program.inserted or facts.is_collective.any() or reduces(program, durations):
        return None
    found = compute.needs(facts)
    lag = compute.lags(facts, found, durations)
    return _Edges(facts, found, lag, compute.ends(found, durations.row, lag))


def reduces(program: Program, durations: Durations) -> bool:
    """Whether reductions, listed or to be inserted, may take time."""
    m = durations.machine
    if m.data is not None:
        return True
    shared = any(
        s.replicated and any(l.trainable for l in program.layers[s.first : s.last]) for s in program.stages
    ) or bool(program.ties)
    return shared and any(l != Link() for l in (m.links, *m.pairs.values()))


# ---- inserted transfers -----------------------------------------------------------------------------------


def _by_edges(
    facts: Facts, durations: Durations, written: Program, later: Durations, critical: bool
) -> Timeline:
    found = compute.needs(facts)
    lag = compute.lags(facts, found, durations)
    end = compute.ends(found, durations.row, lag)
    start = end - durations.row
    new = Facts(written)
    place = compute_rows(facts.program, written)
    added = np.ones(new.n, dtype=bool)
    added[place] = False
    starts, ends = np.full(new.n, -1, dtype=np.int64), np.full(new.n, -1, dtype=np.int64)
    starts[place], ends[place] = start, end
    arrives = np.flatnonzero(found.need >= 0)
    forward = facts.kind[arrives] == Kind.F
    at = compute.payload(facts, found, arrives)
    sends, recvs = np.empty(len(arrives), dtype=np.int64), np.empty(len(arrives), dtype=np.int64)
    M = facts.M
    for mine, send, recv in ((forward, Kind.SEND_F, Kind.RECV_F), (~forward, Kind.SEND_B, Kind.RECV_B)):
        receiver = facts.stage[arrives[mine]]
        sender = at[0][mine] if send == Kind.SEND_F else facts.stage[found.raw[arrives[mine]]]
        sends[mine] = new.first(send)[sender * M + at[1][mine]]
        recvs[mine] = new.first(recv)[receiver * M + at[1][mine]]
    leaves = end[found.need[arrives]]
    takes = lag[arrives] if lag is not None else 0
    for rows in (sends, recvs):
        starts[rows], ends[rows] = leaves, leaves + takes
    path = ()
    if critical and facts.n:
        path = _path_of_edges(
            facts,
            found,
            start,
            end,
            lag,
            place,
            dict(zip(arrives.tolist(), zip(sends.tolist(), recvs.tolist()))),
        )
    _quiet(new, added & ~IS_TRANSFER[new.kind], starts, ends)
    return Timeline(written, FREE, starts, ends, path)


def compute_rows(program: Program, written: Program) -> np.ndarray:
    """The rows of a program in the one that has its transfers (and reductions, STEP) written; all of them if nothing was inserted."""
    kind = written.order.kind
    if not program.inserted:
        return np.arange(len(kind))
    added = mask(INSERTED)[kind]
    if program.reductions_inserted:
        added |= np.isin(kind, (int(Kind.REDUCE), int(Kind.REDUCE_TIE)))
        added |= (kind == Kind.STEP) & ~(program.order.kind == Kind.STEP).any()
    return np.flatnonzero(~added)


def _quiet(facts: Facts, rows: np.ndarray, start: np.ndarray, end: np.ndarray) -> None:
    """Rows that take no time (waits, reductions, STEP) stand where the row before them on their rank has ended; a wait not before its send has."""
    own = ~IS_TRANSFER[facts.kind] & ~rows
    for a, b in zip(facts.program.order.start[:-1], facts.program.order.start[1:]):
        before = np.maximum.accumulate(np.where(own[a:b], end[a:b], 0))
        mine = rows[a:b]
        start[a:b][mine] = end[a:b][mine] = before[mine]
    for wait, send in ((Kind.WAIT_F, Kind.SEND_F), (Kind.WAIT_B, Kind.SEND_B)):
        at = np.flatnonzero((facts.kind == wait) & facts.placed & rows)
        sent = facts.first(send)[facts.stage[at] * facts.M + facts.mb[at]]
        late = np.maximum(end[at], np.where(sent >= 0, end[np.maximum(sent, 0)], 0))
        start[at] = end[at] = late


def _path_of_edges(facts: Facts, found, start, end, lag, place, transfers) -> tuple[int, ...]:
    """Backwards from a row that ends last: the row before on the rank if that is what was waited for, else the other rank's."""
    path: list[int] = []
    i = int(np.argmax(end))
    rank, halves = facts.rank, set(found.halves.tolist())
    while True:
        path.append(int(place[i]))
        if i in halves:
            i -= 1
            path.append(int(place[i]))
        if start[i] == 0:
            return tuple(path[::-1])
        if i and rank[i - 1] == rank[i] and end[i - 1] == start[i]:
            i -= 1
            continue
        for j in (i, i + 1) if i + 1 in halves else (i,):
            other = int(found.need[j])
            if other >= 0 and end[other] + (int(lag[j]) if lag is not None else 0) == start[i]:
                send, recv = transfers[j]
                if lag is not None and lag[j]:
                    path += (recv, send)
                i = other
                break
        else:
            raise AssertionError("no row ends where this one starts")


# ---- the wait graph ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Run:
    """Nodes of a wait graph with their times, and who waits for whom."""

    start: np.ndarray
    end: np.ndarray
    src: np.ndarray
    dst: np.ndarray


def _by_graph(program: Program, durations: Durations, model: str, critical: bool) -> Timeline:
    if program.inserted:
        raise ValueError("transfers are inserted first")
    durations = durations if durations.program is program else durations.on(program)
    facts = Facts(program)
    transfers = Transfers(facts)
    graph = wait_graph(facts, transfers, "buffered" if model == FREE else model)
    if model == FREE:
        graph = _freed(facts, graph)
    matched = model in ("buffered", FREE)
    row = np.where(IS_SEND[facts.kind], 0, durations.row) if matched else durations.row
    beside = np.flatnonzero(durations.beside & (row > 0))
    row = np.where(durations.beside, 0, row)
    count = len(graph.node)
    cost = np.zeros(count + len(beside), dtype=np.int64)
    np.maximum.at(cost, graph.node[: facts.n], row)
    src, dst = graph.node[graph.src], graph.node[graph.dst]
    if len(beside):  # reductions beside compute: one after the other on each rank, and STEP waits
        extra = count + np.arange(len(beside))
        cost[extra] = durations.row[beside]
        same = facts.rank[beside[1:]] == facts.rank[beside[:-1]]
        steps = [
            (e, s)
            for e, b in zip(extra.tolist(), beside.tolist())
            for s in facts.on_rank(np.flatnonzero(facts.kind == Kind.STEP), facts.rank[b]).tolist()
            if s > b
        ]
        src = np.concatenate(
            [src, graph.node[beside], extra[:-1][same], np.array([e for e, _ in steps], dtype=np.int64)]
        )
        dst = np.concatenate(
            [dst, extra, extra[1:][same], graph.node[np.array([s for _, s in steps], dtype=np.int64)]]
        )
    start = longest(len(cost), src, dst, cost)
    run = _Run(start, start + cost, src, dst)
    has = facts.has_event
    event = graph.node[: facts.n].copy()
    event[beside] = count + np.arange(len(beside))
    starts, ends = np.where(has, run.start[event], -1), np.where(has, run.end[event], -1)
    if matched:  # a send's line is busy as long as its receive takes
        sends, recvs = (transfers.rows[x] for x in transfers.pairs)
        starts[sends], ends[sends] = starts[recvs], ends[recvs]
    path = _path_of_graph(facts, run, event, transfers) if critical and facts.n else ()
    return Timeline(program, model, starts, ends, path)


def _freed(facts: Facts, graph: WaitGraph) -> WaitGraph:
    """Without queues between transfers; each goes after the operation that makes its payload."""
    unit = np.append(IS_TRANSFER[facts.kind], np.ones(len(graph.node) - facts.n, dtype=bool))
    queue = (graph.reason == QUEUE) & unit[graph.src] & unit[graph.dst]
    after = (graph.reason == AFTER) & unit[graph.dst]
    keep = ~(queue | after)
    src, dst, reason = [graph.src[keep]], [graph.dst[keep]], [graph.reason[keep]]
    X = facts.first_X
    for kind, made in ((Kind.SEND_F, facts.first_F), (Kind.SEND_B, X)):
        rows = np.flatnonzero((facts.kind == kind) & facts.placed)
        maker = made[facts.stage[rows] * facts.M + facts.mb[rows]]
        hit = maker >= 0
        src.append(facts.overlap_head[maker[hit]])
        dst.append(rows[hit])
        reason.append(np.full(int(hit.sum()), AFTER, dtype=np.int8))
    return replace(graph, src=np.concatenate(src), dst=np.concatenate(dst), reason=np.concatenate(reason))


def longest(count: int, src: np.ndarray, dst: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """The earliest start of each node. Raises Cyclic. Linear in nodes and edges."""
    index = np.argsort(src, kind="stable")
    targets = dst[index].tolist()
    first = np.searchsorted(src[index], np.arange(count + 1)).tolist()
    missing = np.bincount(dst, minlength=count).tolist()
    takes = cost.tolist()
    time = [0] * count
    ready = [e for e, k in enumerate(missing) if k == 0]
    for e in ready:  # grows while it runs
        after = time[e] + takes[e]
        for k in range(first[e], first[e + 1]):
            d = targets[k]
            time[d] = max(time[d], after)
            missing[d] -= 1
            if missing[d] == 0:
                ready.append(d)
    if len(ready) < count:
        raise Cyclic
    return np.array(time, dtype=np.int64)


def _path_of_graph(facts: Facts, run: _Run, event: np.ndarray, transfers: Transfers) -> tuple[int, ...]:
    """Backwards along waits whose source ends where the node starts; rows of the nodes on the way, both ends of a transfer."""
    rows_of: dict[int, list[int]] = {}
    for row in np.flatnonzero(facts.has_event).tolist():
        rows_of.setdefault(int(event[row]), []).append(row)
    tight = np.flatnonzero(run.end[run.src] == run.start[run.dst])
    index = tight[np.argsort(run.dst[tight], kind="stable")]
    sources, first = (
        run.src[index].tolist(),
        np.searchsorted(run.dst[index], np.arange(len(run.start) + 1)).tolist(),
    )
    sends, recvs = (transfers.rows[x].tolist() for x in transfers.pairs)
    partner = dict(zip(recvs, sends))
    node, path = int(np.argmax(run.end)), []
    while True:
        rows = rows_of.get(node, [])
        if run.end[node] > run.start[node]:
            path += rows[::-1]
            if len(rows) == 1 and rows[0] in partner:  # under `buffered` the receive alone takes time
                path.append(partner[rows[0]])
        if run.start[node] == 0:
            return tuple(path[::-1])
        before = sources[first[node] : first[node + 1]]
        node = max(before, key=lambda e: (run.end[e] > run.start[e], run.end[e] - run.start[e]))
