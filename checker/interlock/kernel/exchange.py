"""The static rules of transfers, collectives and buffers (spec/communication.md)."""

from __future__ import annotations

from collections.abc import Iterator

from .footprint import CROSS
from .listing import payload
from .wellformed import (
    COLL,
    COLLECTIVE,
    FREE,
    INIT,
    PIPELINE,
    RECV,
    REDUCE_ALL,
    REDUCE_TIE,
    SEND,
    SEND_B,
    SEND_F,
    TRANSFER,
    WAIT,
    B,
    F,
    View,
)

Faults = Iterator[tuple[str, tuple[int, ...]]]


def faults(v: View, model: str) -> Faults:
    if not v.inserted:
        yield from matching(v)
    yield from collectives(v)
    yield from creation(v)
    yield from membership(v)
    yield from buffers(v)
    if model == "pair":
        yield from grouping(v)


def matching(v: View) -> Faults:
    """IL401, R-COM-1: every dependency between ranks is carried by exactly one transfer; IL403, R-COM-2: matched payloads agree.

    If the counts of an edge agree and the payloads do not, its operations are IL403's and no longer IL401's.
    """
    for i in v.no_peer:
        yield "IL401", (i,)
    crossed: set[int] = set()
    for sends, receives in v.edges.values():
        if len(sends) != len(receives):
            yield "IL401", (*sends, *receives)
        else:
            wrong = [(a, b) for a, b in zip(sends, receives) if payload(v, a) != payload(v, b)]
            for pair in wrong:
                yield "IL403", pair
            if wrong:
                crossed.update(sends, receives)
    if v.fragment:
        return
    carried: dict = {}                                              # payload -> (sends, receives)
    for i in v.peer_of:
        if v.kind[i] in PIPELINE:
            carried.setdefault(payload(v, i), ([], []))[v.kind[i] not in (SEND_F, SEND_B)].append(i)
    for (direction, s, m), (sends, receives) in carried.items():
        needed = direction == F or v.flags[v.cls[m]][s] & CROSS
        once = len(sends) == len(receives) == 1
        if not once or not (needed or v.placeholders):              # a placeholder's transfer must pair up too
            rows = tuple(i for i in (*sends, *receives) if i not in crossed)
            if rows or needed and not (sends and receives):
                yield "IL401", rows
    for m, c in enumerate(v.cls):
        for p, n in v.paths[c].seams:
            if v.rank_of(p, m) != v.rank_of(n, m):
                if (F, p, m) not in carried or v.flags[c][n] & CROSS and (B, n, m) not in carried:
                    yield "IL401", ()
                    return                                          # one is enough, and keeps this linear in the rows


def _signature(v: View, i: int) -> tuple:
    k = v.kind[i]
    return (k, v.name[i] if k in (COLL, REDUCE_TIE) else v.stage[i] if k == REDUCE_ALL else None)


def collectives(v: View) -> Faults:
    """IL404, R-COM-4: every member of a communicator lists the same collectives on it in the same order."""
    for comm, by_rank in v.entered.items():
        at: list[list[int]] = [[] for _ in max(by_rank.values(), key=len)]
        for rows in by_rank.values():
            for k, i in enumerate(rows):
                at[k].append(i)
        for rows in map(tuple, at):
            if len(rows) < len(v.members[comm]) or len({_signature(v, i) for i in rows}) > 1:
                yield "IL404", rows


def creation(v: View) -> Faults:
    """IL405, R-COM-5: c -> d if a rank lists INIT(c) directly before INIT(d) among its INITs; no cycle."""
    inits = v.rows[INIT]
    follows = {(v.comm[a], v.comm[b]) for a, b in zip(inits, inits[1:]) if v.rank[a] == v.rank[b]}
    for arrows in (follows, {(d, c) for c, d in follows}):           # peel off what no cycle leads to, then what leads to none
        after: dict = {}
        count: dict = {}
        for c, d in arrows:
            after.setdefault(c, []).append(d)
            count[d] = count.get(d, 0) + 1
        free = [c for c in after if c not in count]
        while free:
            for d in after.get(free.pop(), ()):
                count[d] -= 1
                if not count[d]:
                    free.append(d)
        left = {d for d in count if count[d]}
        follows = {(c, d) for c, d in arrows if c in left and d in left}
    if follows:
        cyclic = {c for arrow in follows for c in arrow}
        yield "IL405", tuple(i for i in inits if v.comm[i] in cyclic)


def membership(v: View) -> Faults:
    """IL406, R-COM-6: the rank that lists a transfer or a collective is a member of its communicator, and so is its peer."""
    for k in TRANSFER | COLLECTIVE:
        for i in v.rows[k]:
            members = v.members[v.comm[i]]
            peer = v.peer_of.get(i, v.peer[i] if k in (SEND, RECV) else v.rank[i])
            if v.rank[i] not in members or peer not in members:
                yield "IL406", (i,)


def buffers(v: View) -> Faults:
    """IL407, R-COM-7: a buffer is not reused before its transfer was waited for."""
    last: dict = {}         # (rank, x) -> the last transfer of x that was not waited for
    other: dict = {}        # the last one of them in another launch than that
    received: dict = {}     # the first and the last RECV of them
    for i in sorted(i for k in (SEND, RECV, WAIT, FREE) for i in v.rows[k]):
        k, x = v.kind[i], (v.rank[i], v.name[i])
        if k == WAIT:
            for pending in (last, other, received):
                pending.pop(x, None)
            continue
        if k == FREE:
            if x in last:
                yield "IL407", (last[x], i)
            continue
        if x in last and not (v.launch[i] >= 0 and v.launch[i] == v.launch[last[x]]):
            other[x] = last[x]
        if k == RECV and x in other:
            yield "IL407", (other[x], i)
        if k == SEND and x in received and not (v.launch[i] >= 0 and v.launch[i] == v.launch[received[x][0]]):
            yield "IL407", (*received[x], i)
        last[x] = i
        if k == RECV:
            received[x] = (received.get(x, (i,))[0], i)


def grouping(v: View) -> Faults:
    """IL408, R-COM-8 (under pair): both ends of a transfer are grouped, or neither."""
    for sends, receives in v.edges.values():
        for a, b in zip(sends, receives):
            if (v.launch[a] >= 0) != (v.launch[b] >= 0):
                yield "IL408", (a, b)
