"""The wait graph of a model (spec/communication.md; for inserted transfers IL307).

Events are integers: a row, or for the g-th grouped launch its start N + 2g and its end N + 2g + 1. Rows that share an event
are listed by `same`. A wait that must hold along a relation of one rank anyway is listed once, from nearest to nearest;
`covers` says which later events it stands for.
"""

from __future__ import annotations

from collections.abc import Iterator

from .listing import data, gradient_row
from .wellformed import (
    COLLECTIVE,
    COMPUTE_LIKE,
    INIT,
    NO_EVENT,
    RECV,
    RECV_B,
    RECV_F,
    SEND,
    SEND_B,
    SEND_F,
    STEP,
    TRANSFER,
    WAIT,
    WAIT_B,
    WAIT_F,
    F,
    View,
    W,
)

MODELS = ("buffered", "edge", "pair", "rank", "blocking")
ORDERED = COMPUTE_LIKE | {INIT}

Waits = Iterator[tuple[int, str, int]]


def waits(v: View, model: str) -> Waits:
    """Every wait (a, name, b): b happens after a."""
    if v.inserted:
        yield from _inserted_order(v)
        for a, b in data(v):
            yield a, "data", b
        return
    for r in range(v.P):
        yield from _rank(v, model, r)
    for a, b in data(v):
        if v.rank[a] == v.rank[b]:
            yield a, "data", b
    if model == "buffered":
        for sends, receives in v.edges.values():
            for a, b in zip(sends, receives):
                yield a, "match", b
    yield from _consume(v)


def same(v: View, model: str) -> Iterator[tuple[int, int]]:
    """(a, b): the rows a and b share an event. Halves of overlaps, members of collectives, a send and its receive."""
    for i in v.overlaps:
        yield i, i + 1
    for by_rank in v.entered.values():
        leader = max(by_rank.values(), key=len)
        for rows in by_rank.values():
            if rows is not leader:
                yield from zip(leader, rows)
    if model != "buffered":
        for sends, receives in v.edges.values():
            yield from zip(sends, receives)


def first_row(v: View, e: int) -> int:
    """The row of an event, of a launch its first one."""
    return e if e < v.N else v.group_rows[(e - v.N) // 2]


def covers(v: View, name: str, b: int, later: int) -> bool:
    """A wait called `name` that ends in b also holds for `later`, a later event of the same relation on b's rank."""
    i, j = first_row(v, b), first_row(v, later)
    if v.rank[i] != v.rank[j] or i > j:
        return False
    if name == "order":
        return later < v.N and v.kind[j] not in NO_EVENT and (v.inserted or v.kind[j] in ORDERED)
    if name == "block":
        if later >= v.N:
            return (later - v.N) % 2 == 0
        return v.kind[j] not in NO_EVENT and v.launch[j] not in v.groups and (v.kind[j] not in TRANSFER or j in v.peer_of)
    # consume and step: from the first WAIT of a name, or the first STEP, to a later one
    return later < v.N and v.kind[i] == v.kind[j] in (STEP, WAIT, WAIT_F, WAIT_B) and all(c[i] == c[j] for c in (v.stage, v.mb, v.name))


def _inserted_order(v: View) -> Waits:
    """IL307: each rank's operations in order, the two halves of an overlap as one."""
    kind, launch = v.kind, v.launch
    silent = any(v.rows[k] for k in NO_EVENT)
    for r in range(v.P):
        rows = range(v.start[r], v.start[r + 1])
        if silent:
            rows = [i for i in rows if kind[i] not in NO_EVENT]
        half = -1                                  # the first half of an overlap whose second half is a
        for a, b in zip(rows, rows[1:]):
            if launch[a] == launch[b] >= 0:
                half = a
                continue
            yield a, "order", b
            if half >= 0:
                yield half, "order", b
                half = -1


def _queues(v: View, model: str, rows: list[int]) -> list:
    """The queues of its rank that a unit of these rows stands in."""
    keys = {}
    for i in rows:
        comm = v.comm[i]
        if model == "blocking":
            keys["rank"] = None
        elif model == "rank":
            keys[comm] = None
        elif v.kind[i] in COLLECTIVE:
            keys["collectives", comm] = None
        else:
            sends, peer = v.kind[i] in (SEND_F, SEND_B, SEND), v.peer_of[i]
            if model != "buffered" or not sends:
                keys["to" if sends else "from", peer, comm] = None
            if model == "pair":
                keys[("grouped", comm) if v.launch[i] >= 0 else ("plain", peer, comm)] = None
    return list(keys)


def _rank(v: View, model: str, r: int) -> Waits:
    """order, after, queue, member, step and block, the consume of WAIT(x): what follows from the order of rank r."""
    kind, launch = v.kind, v.launch
    last: tuple = ()            # rows of the last compute-like event or INIT
    block: tuple = ()           # ends of the last event, under blocking
    tails: dict = {}            # queue -> end of its last unit
    units: list[int] = []       # ends of the units since the last STEP
    pending: dict = {}          # x -> the ends of the transfers of x since the last WAIT(x)
    i, stop = v.start[r], v.start[r + 1]
    while i < stop:
        k, j = kind[i], i + 1
        if launch[i] >= 0:
            while j < stop and launch[j] == launch[i]:
                j += 1
        begin, ends = i, tuple(range(i, j))
        members = [x for x in ends if x in v.peer_of] if k in TRANSFER else [i]
        if k in NO_EVENT or not members:
            i = j
            continue
        if k in TRANSFER or k in COLLECTIVE:                        # a unit
            end = i
            if launch[i] in v.groups:
                begin = v.N + 2 * v.groups[launch[i]]
                end = begin + 1
                for x in members:
                    yield begin, "member", x
                    yield x, "member", end
            ends = (end,)
            for a in last:
                yield a, "after", begin
            for key in _queues(v, model, members):
                if key in tails:
                    yield tails[key], "queue", begin
                tails[key] = end
            units.append(end)
            for x in members:
                if kind[x] in (SEND, RECV):
                    pending.setdefault(v.name[x], {})[end] = None
        if k in ORDERED:
            for a in last:
                yield a, "order", i
            last = ends
            if k == STEP:
                for a in units:
                    yield a, "step", i
                units = []
            if k == WAIT:
                for a in pending.pop(v.name[i], ()):
                    yield a, "consume", i
        if model == "blocking":
            for a in block:
                yield a, "block", begin
            block = ends
        i = j


def end_of(v: View, i: int) -> int:
    """The end of the unit of transfer i: its own event, or the end of its launch."""
    return i if v.launch[i] < 0 else v.N + 2 * v.groups[v.launch[i]] + 1


def _consume(v: View) -> Waits:
    """The end of a receive -> its consumers, of a send -> the first wait for it."""
    waited: dict = {}
    for wait, send in ((WAIT_F, SEND_F), (WAIT_B, SEND_B)):
        for i in v.rows[wait]:
            waited.setdefault((send, v.rank[i], v.stage[i], v.mb[i]), i)
    for i in v.peer_of:
        k = v.kind[i]
        if k in (SEND, RECV):
            continue
        key = v.stage[i] * v.M + v.mb[i]
        if k == RECV_F:
            b = v.first[F].get(key)
        elif k == RECV_B:
            b = gradient_row(v, key)
            b = v.first[W].get(key) if b is None else b
        else:
            b = waited.get((k, v.rank[i], v.stage[i], v.mb[i]))
        if b is not None:
            yield end_of(v, i), "consume", b
