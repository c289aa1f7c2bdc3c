"""When every operation of a program runs: longest paths over its wait graph, with durations (spec/cost.md,
"The makespan")."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from interlock.program.facts import IS_COMPUTE, IS_SEND, IS_TRANSFER, Facts, mask
from interlock.program.ir import Program
from interlock.program.kinds import INSERTED, Kind
from interlock.program.transfers import insert
from interlock.rules.communication import Transfers
from interlock.rules.waits import AFTER, QUEUE, WaitGraph, wait_graph
from interlock.timing.durations import Durations, Link
from interlock.timing.figures import Figures, Intervals, compute_figures, find_period, summarise
from interlock.timing.inputs import Inputs, crossing_outputs, find_inputs, travel_times
from interlock.timing.longest_path import compute_ends, earliest_starts
from interlock.timing.timeline import Timeline

FREE = "free"  # inserted transfers: each takes its time and waits for its payload alone
_IS_INSERTED, _IS_REDUCTION = mask(INSERTED), mask({Kind.REDUCE, Kind.REDUCE_TIE})


def simulate(
    program: Program,
    durations: Durations,
    model: str = "pair",
    *,
    placed: Program | None = None,
    critical: bool = True,
) -> Timeline:
    """The run of a program in which everything starts as early as it can. Raises Cyclic if nothing does.

    Written transfers go by the communication `model`. Inserted ones are `free` (the model asked for says
    nothing then): edges of the program that take their time; the timeline shows them on `placed`, the program
    with its transfers written (program/transfers.py; None: written here). `critical`: also find a longest
    path.
    """
    if not program.inserted:
        return _simulate_graph(program, durations, model, critical)
    written = placed or insert(program)
    facts = Facts(program)
    if facts.is_collective.any():  # a written reduction between inserted transfers: one graph for both
        return _simulate_graph(written, durations, FREE, critical)
    written_durations = durations.on(written)
    reduces = _IS_REDUCTION[written.order.kind]
    if written_durations.row[reduces].any():
        return _simulate_graph(written, written_durations, FREE, critical)
    return _show_on(written, _run_rows(facts, durations), critical)


def makespan(program: Program, durations: Durations, model: str = "pair") -> int:
    """The end of the step alone. Raises Cyclic."""
    run = _run_inserted(program, durations)
    if run is None:
        return simulate(program, durations, model, critical=False).makespan
    return int(run.end.max(initial=0))


def simulate_figures(program: Program, durations: Durations, model: str = "pair") -> Figures:
    """The figures of simulate's run.

    Raises Cyclic. Of inserted transfers in a fraction of its time: none is written.
    """
    run = _run_inserted(program, durations)
    if run is None:
        return compute_figures(simulate(program, durations, model, critical=False))
    facts, end = run.facts, run.end
    works = IS_COMPUTE[facts.kind] & (run.row > 0)
    works[facts.second_halves] = False
    at = slice(None) if works.all() else np.flatnonzero(works)
    return summarise(
        program.ranks,
        int(end.max(initial=0)),
        Intervals(facts.rank[at], run.start[at], end[at]),
        _transfer_intervals(run),
        find_period(facts, end),
    )


def has_timed_reductions(program: Program, durations: Durations) -> bool:
    """Whether reductions, listed or to be inserted, may take time."""
    machine = durations.machine
    if machine.data is not None:
        return True
    replicated = any(
        stage.replicated and any(layer.trainable for layer in program.layers[stage.first : stage.last])
        for stage in program.stages
    )
    return (replicated or bool(program.ties)) and any(link != Link() for link in machine.all_links)


def rows_within(program: Program, written: Program) -> np.ndarray:
    """The rows of a program in the one that has its transfers (and reductions, STEP) written; all of them if
    nothing was inserted."""
    kind = written.order.kind
    if not program.inserted:
        return np.arange(len(kind))
    added = _IS_INSERTED[kind]
    if program.reductions_inserted:
        added |= _IS_REDUCTION[kind]
        added |= (kind == Kind.STEP) & ~(program.order.kind == Kind.STEP).any()
    return np.flatnonzero(~added)


# ---- inserted transfers -------------------------------------------------------------------------------


@dataclass(frozen=True)
class _RowRun:
    """A run of inserted transfers on the rows of the program itself: lag[i] before row i starts its input has
    left row inputs.source[i]."""

    facts: Facts
    inputs: Inputs
    row: np.ndarray
    lag: np.ndarray | None
    end: np.ndarray

    @property
    def start(self) -> np.ndarray:
        return self.end - self.row


def _run_rows(facts: Facts, durations: Durations) -> _RowRun:
    """Raises Cyclic."""
    inputs = find_inputs(facts)
    lag = travel_times(facts, inputs, durations)
    return _RowRun(facts, inputs, durations.row, lag, compute_ends(inputs, durations.row, lag))


def _run_inserted(program: Program, durations: Durations) -> _RowRun | None:
    """None where transfers are written or a reduction may take time. Raises Cyclic."""
    facts = durations.facts
    if facts is None or durations.program is not program:
        facts = Facts(program)
    if not program.inserted or facts.is_collective.any() or has_timed_reductions(program, durations):
        return None
    return _run_rows(facts, durations)


def _transfer_intervals(run: _RowRun) -> tuple[Intervals, ...]:
    """When transfers are under way, on the ranks that send and on those that receive."""
    if run.lag is None:
        return ()
    travels, forward = run.lag > 0, run.facts.kind == Kind.F
    # forwards, then backwards: each almost in the order of time, so that they sort fast
    receivers = np.concatenate([np.flatnonzero(travels & forward), np.flatnonzero(travels & ~forward)])
    senders = run.inputs.source.take(receivers)
    leaves = run.end.take(senders)
    arrives = leaves + run.lag.take(receivers)
    return tuple(Intervals(run.facts.rank.take(rows), leaves, arrives) for rows in (senders, receivers))


def _show_on(written: Program, run: _RowRun, critical: bool) -> Timeline:
    """The run as a timeline of the program with its transfers written."""
    facts, new = run.facts, Facts(written)
    place = rows_within(facts.program, written)
    added = np.ones(new.n, dtype=bool)
    added[place] = False
    starts, ends = np.full(new.n, -1, dtype=np.int64), np.full(new.n, -1, dtype=np.int64)
    starts[place], ends[place] = run.start, run.end
    receives = np.flatnonzero(run.inputs.source >= 0)
    sends, recvs = _written_transfers(run, new, receives)
    leaves = run.end[run.inputs.source[receives]]
    takes = run.lag[receives] if run.lag is not None else 0
    for rows in (sends, recvs):
        starts[rows], ends[rows] = leaves, leaves + takes
    path: tuple[int, ...] = ()
    if critical and facts.n:
        transfers = dict(zip(receives.tolist(), zip(sends.tolist(), recvs.tolist())))
        path = _longest_path_of_rows(run, place, transfers)
    _place_timeless(new, added & ~IS_TRANSFER[new.kind], starts, ends)
    return Timeline(written, FREE, starts, ends, path)


def _written_transfers(run: _RowRun, new: Facts, receives: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows of the written program that send and receive the inputs of these rows."""
    facts, M = run.facts, run.facts.M
    forward = facts.kind[receives] == Kind.F
    left, mb = crossing_outputs(facts, run.inputs, receives)
    own, producer = facts.stage[receives], facts.stage[run.inputs.producer[receives]]
    sends, recvs = np.empty(len(receives), dtype=np.int64), np.empty(len(receives), dtype=np.int64)
    for mine, sender, send, recv in (
        (forward, left, Kind.SEND_F, Kind.RECV_F),
        (~forward, producer, Kind.SEND_B, Kind.RECV_B),
    ):
        sends[mine] = new.first(send)[sender[mine] * M + mb[mine]]
        recvs[mine] = new.first(recv)[own[mine] * M + mb[mine]]
    return sends, recvs


def _place_timeless(facts: Facts, rows: np.ndarray, start: np.ndarray, end: np.ndarray) -> None:
    """Rows that take no time (waits, reductions, STEP) stand where the row before them on their rank has
    ended; a wait not before its send has."""
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


def _longest_path_of_rows(
    run: _RowRun, place: np.ndarray, transfers: dict[int, tuple[int, int]]
) -> tuple[int, ...]:
    """Backwards from a row that ends last: the row before on the rank if that is what was waited for, else
    the other rank's."""
    path: list[int] = []
    i = int(np.argmax(run.end))
    rank, start, end = run.facts.rank, run.start, run.end
    halves = set(run.inputs.second_halves.tolist())
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
        row = _row_just_in_time(run, (i, i + 1) if i + 1 in halves else (i,), int(start[i]))
        if run.lag is not None and run.lag[row]:
            path += transfers[row][::-1]
        i = int(run.inputs.source[row])


def _row_just_in_time(run: _RowRun, rows: tuple[int, ...], start: int) -> int:
    """The first of these rows whose input arrives at `start`."""
    for row in rows:
        source = run.inputs.source[row]
        if source >= 0 and run.end[source] + (run.lag[row] if run.lag is not None else 0) == start:
            return row
    raise AssertionError("no row ends where this one starts")


# ---- the wait graph -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _GraphRun:
    """Nodes of a wait graph with their times, who waits for whom, and the node of each row."""

    start: np.ndarray
    end: np.ndarray
    src: np.ndarray
    dst: np.ndarray
    node: np.ndarray


def _simulate_graph(program: Program, durations: Durations, model: str, critical: bool) -> Timeline:
    if program.inserted:
        raise ValueError("transfers are inserted first")
    durations = durations if durations.program is program else durations.on(program)
    facts = Facts(program)
    transfers = Transfers(facts)
    graph = wait_graph(facts, transfers, "buffered" if model == FREE else model)
    if model == FREE:
        graph = _without_queues(facts, graph)
    matched = model in ("buffered", FREE)  # a send takes no time, its receive that of the transfer
    row = np.where(IS_SEND[facts.kind], 0, durations.row) if matched else durations.row
    run = _run_graph(facts, graph, row, durations.beside)
    starts = np.where(facts.has_event, run.start[run.node], -1)
    ends = np.where(facts.has_event, run.end[run.node], -1)
    if matched:  # a send's line is busy as long as its receive takes
        sends, recvs = (transfers.rows[x] for x in transfers.pairs)
        starts[sends], ends[sends] = starts[recvs], ends[recvs]
    path = _longest_path_of_graph(facts, run, transfers) if critical and facts.n else ()
    return Timeline(program, model, starts, ends, path)


def _run_graph(facts: Facts, graph: WaitGraph, row: np.ndarray, is_beside: np.ndarray) -> _GraphRun:
    """Reductions beside compute are nodes of their own: one after the other on each rank, and STEP waits.

    Raises Cyclic.
    """
    beside = np.flatnonzero(is_beside & (row > 0))
    count = len(graph.node)
    extra = count + np.arange(len(beside))
    cost = np.zeros(count + len(beside), dtype=np.int64)
    np.maximum.at(cost, graph.node[: facts.n], np.where(is_beside, 0, row))
    cost[extra] = row[beside]
    src, dst = graph.node[graph.src], graph.node[graph.dst]
    if len(beside):
        same_rank = facts.rank[beside[1:]] == facts.rank[beside[:-1]]
        of_step, step = _steps_behind(facts, beside)
        src = np.concatenate([src, graph.node[beside], extra[:-1][same_rank], extra[of_step]])
        dst = np.concatenate([dst, extra, extra[1:][same_rank], graph.node[step]])
    start = earliest_starts(len(cost), src, dst, cost)
    node = graph.node[: facts.n].copy()
    node[beside] = extra
    return _GraphRun(start, start + cost, src, dst, node)


def _steps_behind(facts: Facts, beside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of a reduction (its place in `beside`) and a STEP behind it on its rank."""
    steps = np.flatnonzero(facts.kind == Kind.STEP)
    pairs = [
        (place, step)
        for place, row in enumerate(beside.tolist())
        for step in facts.on_rank(steps, facts.rank[row]).tolist()
        if step > row
    ]
    table = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def _without_queues(facts: Facts, graph: WaitGraph) -> WaitGraph:
    """Without queues between transfers; each goes after the operation that makes its payload."""
    unit = np.append(IS_TRANSFER[facts.kind], np.ones(len(graph.node) - facts.n, dtype=bool))
    queue = (graph.reason == QUEUE) & unit[graph.src] & unit[graph.dst]
    after = (graph.reason == AFTER) & unit[graph.dst]
    keep = ~(queue | after)
    src, dst, reason = [graph.src[keep]], [graph.dst[keep]], [graph.reason[keep]]
    for kind, made in ((Kind.SEND_F, facts.first_F), (Kind.SEND_B, facts.first_X)):
        rows = np.flatnonzero((facts.kind == kind) & facts.placed)
        maker = made[facts.stage[rows] * facts.M + facts.mb[rows]]
        hit = maker >= 0
        src.append(facts.overlap_head[maker[hit]])
        dst.append(rows[hit])
        reason.append(np.full(int(hit.sum()), AFTER, dtype=np.int8))
    return replace(graph, src=np.concatenate(src), dst=np.concatenate(dst), reason=np.concatenate(reason))


def _longest_path_of_graph(facts: Facts, run: _GraphRun, transfers: Transfers) -> tuple[int, ...]:
    """Backwards along waits whose source ends where the node starts; rows of the nodes on the way, both ends
    of a transfer."""
    rows_of: dict[int, list[int]] = {}
    for row in np.flatnonzero(facts.has_event).tolist():
        rows_of.setdefault(int(run.node[row]), []).append(row)
    tight = np.flatnonzero(run.end[run.src] == run.start[run.dst])
    index = tight[np.argsort(run.dst[tight], kind="stable")]
    sources = run.src[index].tolist()
    first = np.searchsorted(run.dst[index], np.arange(len(run.start) + 1)).tolist()
    start, takes = run.start.tolist(), (run.end - run.start).tolist()
    sends, recvs = (transfers.rows[x].tolist() for x in transfers.pairs)
    partner = dict(zip(recvs, sends))
    node = int(np.argmax(run.end))
    path: list[int] = []
    while True:
        rows = rows_of.get(node, [])
        if takes[node]:
            path += rows[::-1]
            if len(rows) == 1 and rows[0] in partner:  # under `buffered` the receive alone takes time
                path.append(partner[rows[0]])
        if start[node] == 0:
            return tuple(path[::-1])
        node = max(sources[first[node] : first[node + 1]], key=takes.__getitem__)
