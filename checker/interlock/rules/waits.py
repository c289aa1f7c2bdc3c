"""The wait graph of a program under a communication model: spec/communication.md, "The wait graph"."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from interlock.program.facts import IS_TRANSFER, Facts
from interlock.program.ir import Kind
from interlock.rules.communication import Transfers

MODELS = ("buffered", "edge", "pair", "rank", "blocking")
REASONS = ("order", "after", "queue", "member", "match", "data", "consume", "step", "block")
ORDER, AFTER, QUEUE, MEMBER, MATCH, DATA, CONSUME, STEP, BLOCK = range(len(REASONS))


@dataclass(frozen=True)
class WaitGraph:
    """Events and waits. Event e < n is row e; n + 2g and n + 2g + 1 are start and end of the g-th grouped
    launch.

    `node[e]`: the representative of the events e is shared with. Waits: dst happens after src, for
    REASONS[reason].
    `launches[g]`: the launch number of the program.
    """

    n: int
    node: np.ndarray
    launches: np.ndarray
    src: np.ndarray
    dst: np.ndarray
    reason: np.ndarray

    def event(self, e: int) -> tuple[str, int]:
        """An event as certificates write it."""
        if e < self.n:
            return ("op", int(e))
        return ("start" if (e - self.n) % 2 == 0 else "end", int(self.launches[(e - self.n) // 2]))


def wait_graph(facts: Facts, transfers: Transfers, model: str) -> WaitGraph:
    """Asks that matching and collectives are right (no IL401, IL403, IL404): the ends of a transfer are
    merged by order.
    """
    if model not in MODELS:
        raise ValueError(f"unknown communication model {model!r}")
    if facts.program.inserted:
        return _inserted(facts)
    units = _Units(facts)
    waits = _Waits()
    host = _host_rows(facts)
    if model == "blocking":
        _block(facts, units, host, waits)
    else:
        _order(facts, host, waits)
        _queues(facts, transfers, units, model, waits)
    _after(facts, units, host, waits)
    _members(units, waits)
    edges = facts.data
    same = facts.rank[edges.src] == facts.rank[edges.dst]
    waits.add(edges.src[same], edges.dst[same], DATA)
    _consume(facts, units, waits)
    _step(facts, units, waits)
    node = _shared(facts, units.count)
    sends, recvs = transfers.pairs
    if model == "buffered":
        waits.add(transfers.rows[sends], transfers.rows[recvs], MATCH)
    else:
        node[transfers.rows[recvs]] = transfers.rows[sends]
    return waits.graph(facts.n, node, units.launches)


def _inserted(facts: Facts) -> WaitGraph:
    """IL307: each rank's operations in order, R-DEP-1 to R-DEP-4, collectives merged."""
    waits = _Waits()
    rows = np.flatnonzero(facts.has_event & (facts.overlap_head == np.arange(facts.n)))
    _order(facts, rows, waits)
    waits.add(facts.data.src, facts.data.dst, DATA)
    return waits.graph(facts.n, _shared(facts, 0), np.empty(0, dtype=np.int64))


class _Waits:
    def __init__(self):
        self.parts: list[tuple[np.ndarray, np.ndarray, int]] = []

    def add(self, src, dst, reason: int) -> None:
        self.parts.append((np.asarray(src, dtype=np.int64), np.asarray(dst, dtype=np.int64), reason))

    def graph(self, n: int, node: np.ndarray, launches: np.ndarray) -> WaitGraph:
        src, dst = (
            np.concatenate([p[i] for p in self.parts]) if self.parts else np.empty(0, dtype=np.int64)
            for i in (0, 1)
        )
        reason = (
            np.concatenate([np.full(len(p[0]), p[2], dtype=np.int8) for p in self.parts])
            if self.parts
            else np.empty(0, dtype=np.int8)
        )
        return WaitGraph(n, node, launches, src, dst, reason)


class _Units:
    """What queues hold, in each rank's order: plain transfers, grouped launches, collectives.

    `start`, `end`: events; `first`: first row; `of[row]`: the unit of a row, -1 for none. `launches`: launch
    numbers of the grouped ones.
    """

    def __init__(self, facts: Facts):
        n = facts.n
        rows = np.flatnonzero(facts.is_unit)
        grouped = IS_TRANSFER[facts.kind[rows]] & (facts.launch[rows] >= 0)
        new = np.ones(len(rows), dtype=bool)
        new[1:] = ~(grouped[1:] & grouped[:-1] & (facts.launch[rows[1:]] == facts.launch[rows[:-1]]))
        self.rows, self.grouped = rows, grouped
        self.first = rows[new]
        unit = np.cumsum(new) - 1
        self.of = np.full(n, -1, dtype=np.int64)
        self.of[rows] = unit
        is_launch = grouped[new]
        self.is_launch = is_launch
        self.launches = facts.launch[self.first[is_launch]]
        self.count = int(is_launch.sum())
        number = np.cumsum(is_launch) - 1
        self.start = np.where(is_launch, n + 2 * number, self.first)
        self.end = np.where(is_launch, n + 2 * number + 1, self.first)


def _shared(facts: Facts, launches: int) -> np.ndarray:
    """Representatives: overlaps by their first half, collectives by their first row."""
    node = np.arange(facts.n + 2 * launches)
    node[: facts.n] = facts.overlap_head
    rows, event = facts.collective_key
    if len(rows):
        _, first = np.unique(event, return_index=True)
        node[rows] = rows[first][event]
    return node


def _host_rows(facts: Facts) -> np.ndarray:
    return np.flatnonzero(facts.is_host & (facts.overlap_head == np.arange(facts.n)))


def _order(facts: Facts, rows: np.ndarray, waits: _Waits) -> None:
    """R-DEP-6."""
    same = facts.rank[rows[1:]] == facts.rank[rows[:-1]]
    waits.add(rows[:-1][same], rows[1:][same], ORDER)


def _after(facts: Facts, units: _Units, host: np.ndarray, waits: _Waits) -> None:
    """A unit starts after the last compute-like operation listed before it on its rank."""
    plain = np.flatnonzero(facts.kind[units.first] != Kind.INIT)  # INIT stands in the order itself
    first = units.first[plain]
    at = np.searchsorted(host, first) - 1
    before = host[np.maximum(at, 0)] if len(host) else np.zeros(len(first), dtype=np.int64)
    hit = (
        (at >= 0) & (facts.rank[before] == facts.rank[first])
        if len(host)
        else np.zeros(len(first), dtype=bool)
    )
    waits.add(before[hit], units.start[plain[hit]], AFTER)


def _queues(facts: Facts, t: Transfers, units: _Units, model: str, waits: _Waits) -> None:
    """The queues of the model, each rank's own side of them."""
    p = facts.program
    ranks = p.ranks
    keys: list[np.ndarray] = []
    holders: list[np.ndarray] = []
    family = 0

    def queue(unit: np.ndarray, key: np.ndarray) -> None:
        nonlocal family
        rank = facts.rank[units.first[unit]].astype(np.int64)
        keys.append(((key * ranks + rank) * 8) + family)
        holders.append(unit)
        family += 1

    unit = units.of[t.rows]
    comm = facts.comm[t.rows].astype(np.int64)
    collective = np.flatnonzero(facts.is_collective[units.first])
    own_comm = facts.comm[units.first[collective]].astype(np.int64)
    if model == "rank":
        queue(np.concatenate([unit, collective]), np.concatenate([comm, own_comm]))
    else:
        queue(collective, own_comm)
        mine = ~t.is_send if model == "buffered" else np.ones(len(t.rows), dtype=bool)
        queue(unit[mine], t.edge[mine])
    if model == "pair":
        plain = ~units.is_launch[unit]
        low, high = np.minimum(t.source, t.destination), np.maximum(t.source, t.destination)
        queue(unit[plain], ((comm * ranks + low) * ranks + high)[plain])
        queue(unit[~plain], comm[~plain])
    key, unit = np.concatenate(keys), np.concatenate(holders)
    pairs = np.unique(np.stack([key, unit]), axis=1)  # ascending by key, then by unit: each once
    key, unit = pairs[0], pairs[1]
    same = key[1:] == key[:-1]
    waits.add(units.end[unit[:-1][same]], units.start[unit[1:][same]], QUEUE)


def _block(facts: Facts, units: _Units, host: np.ndarray, waits: _Waits) -> None:
    """Under `blocking` a rank does one thing at a time."""
    plain = facts.kind[units.first] != Kind.INIT
    first = np.concatenate([host, units.first[plain]])
    start, end = np.concatenate([host, units.start[plain]]), np.concatenate([host, units.end[plain]])
    index = np.argsort(first, kind="stable")
    first, start, end = first[index], start[index], end[index]
    same = facts.rank[first[1:]] == facts.rank[first[:-1]]
    waits.add(end[:-1][same], start[1:][same], BLOCK)


def _members(units: _Units, waits: _Waits) -> None:
    rows = units.rows[units.grouped]
    unit = units.of[rows]
    waits.add(units.start[unit], rows, MEMBER)
    waits.add(rows, units.end[unit], MEMBER)


def _consume(facts: Facts, units: _Units, waits: _Waits) -> None:
    """What waits for the end of a transfer of its own rank."""
    M = facts.M

    def at(kind):
        return np.flatnonzero((facts.kind == kind) & facts.placed)

    def end(rows):
        return units.end[units.of[rows]]

    X = np.where(facts.first_X >= 0, facts.first_X, facts.first_W)
    for kind, table in (
        (Kind.RECV_F, facts.first_F),
        (Kind.RECV_B, X),
        (Kind.SEND_F, facts.first(Kind.WAIT_F)),
        (Kind.SEND_B, facts.first(Kind.WAIT_B)),
    ):
        rows = at(kind)
        if len(rows):
            user = table[facts.stage[rows] * M + facts.mb[rows]]
            hit = (user >= 0) & (facts.rank[user] == facts.rank[rows])
            waits.add(end(rows[hit]), user[hit], CONSUME)
    named = np.flatnonzero((facts.kind == Kind.SEND) | (facts.kind == Kind.RECV))
    for row in np.flatnonzero(facts.kind == Kind.WAIT).tolist():
        mine = facts.on_rank(named, facts.rank[row])
        mine = mine[(mine < row) & (facts.name[mine] == facts.name[row])]
        waits.add(end(mine), np.full(len(mine), row), CONSUME)


def _step(facts: Facts, units: _Units, waits: _Waits) -> None:
    for row in np.flatnonzero(facts.kind == Kind.STEP).tolist():
        a = facts.program.order.start[facts.rank[row]]
        mine = np.arange(np.searchsorted(units.first, a), np.searchsorted(units.first, row))
        waits.add(units.end[mine], np.full(len(mine), row), STEP)
