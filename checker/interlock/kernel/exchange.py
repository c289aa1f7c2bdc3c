"""The static rules of transfers, collectives and buffers (spec/communication.md)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise

from interlock.kernel.matching import Matched, Payload, find_payload
from interlock.kernel.operations import Faults
from interlock.kernel.placement import Pair
from interlock.kernel.program import REPLICATED, Kind, Order, Stage

NAMED = (Kind.SEND, Kind.RECV)


def check_channels(matched: Matched) -> Faults:
    """IL401, R-COM-1: every transfer has a peer, each channel as many sends as receives.

    IL403, R-COM-2: matched payloads agree.
    """
    yield from (("IL401", (i,)) for i in matched.without_peer)
    for channel in matched.channels:
        if len(channel.sends) != len(channel.receives):
            yield "IL401", (*channel.sends, *channel.receives)
        yield from (("IL403", pair) for pair in channel.crossed)


def check_carriers(matched: Matched) -> Faults:
    """IL401, R-COM-1: one transfer carries each dependency between ranks; no other is listed (no fragments).

    The operations of a channel that is IL403's are no longer IL401's.
    """
    program, order, path = matched.program, matched.order, matched.placed.path
    if program.fragment or program.inserted:
        return
    crossed = {
        i for channel in matched.channels if channel.crossed for i in (*channel.sends, *channel.receives)
    }
    carried: dict[Payload, tuple[list[int], list[int]]] = {}
    for i in (i for i in matched.peer if order.kind[i] in Kind.PIPELINE):
        carried.setdefault(find_payload(matched.placed, i), ([], []))[order.kind[i] in Kind.RECEIVES].append(
            i
        )
    for (direction, s, m), (sends, receives) in carried.items():
        needed = direction == Kind.F or path[m].cross[s]
        allowed = needed or program.placeholders  # a placeholder's transfer must pair up too
        if not (allowed and len(sends) == len(receives) == 1):
            rows = tuple(i for i in (*sends, *receives) if i not in crossed)
            if rows or (needed and not (sends and receives)):
                yield "IL401", rows
    if _lacks_transfer(matched, carried.keys()):
        yield "IL401", ()


def _lacks_transfer(matched: Matched, carried: Collection[Payload]) -> bool:
    """Whether for some dependency between ranks neither end of a transfer is listed."""
    placed, stages = matched.placed, matched.program.stages
    apart = [
        [(p, n) for p, n in pairwise(path.stages) if _may_part(stages[p], stages[n])] for path in placed.paths
    ]
    for m, path in enumerate(placed.path):
        for p, n in apart[path.number]:
            lacks = (Kind.F, p, m) not in carried or (path.cross[n] and (Kind.B, n, m) not in carried)
            if lacks and placed.rank_of(p, m) != placed.rank_of(n, m):
                return True
    return False


def _may_part(one: Stage, other: Stage) -> bool:
    """The stages may lie on two ranks."""
    return one.rank != other.rank or one.rank == REPLICATED


def check_collectives(matched: Matched) -> Faults:
    """IL404, R-COM-4: every member of a communicator lists the same collectives on it in the same order."""
    for comm, entered in matched.entered.items():
        meetings: list[list[int]] = [[] for _ in max(entered.values(), key=len)]
        for rows in entered.values():
            for meeting, i in zip(meetings, rows):
                meeting.append(i)
        for rows in meetings:
            signatures = {_signature(matched.order, i) for i in rows}
            if len(signatures) > 1 or len(rows) < len(matched.program.communicators[comm]):
                yield "IL404", tuple(rows)


def _signature(order: Order, i: int) -> tuple[int, int]:
    """Kind, and name or stage."""
    kind = order.kind[i]
    named = -1 if kind == Kind.INIT else order.name[i]
    return kind, order.stage[i] if kind == Kind.REDUCE_REPLICATED else named


def check_creation(matched: Matched) -> Faults:
    """IL405, R-COM-5: c -> d if a rank lists INIT(c) directly before INIT(d) among its INITs; no cycle."""
    order, inits = matched.order, matched.order.rows[Kind.INIT]
    arrows = {(order.comm[a], order.comm[b]) for a, b in pairwise(inits) if order.rank[a] == order.rank[b]}
    reached = _remove_sources(arrows)
    cyclic = {c for arrow in _remove_sources({(d, c) for c, d in reached}) for c in arrow}
    if cyclic:
        yield "IL405", tuple(i for i in inits if order.comm[i] in cyclic)


def _remove_sources(arrows: set[Pair]) -> set[Pair]:
    """The arrows that are left when what no arrow leads to is taken away, again and again."""
    after: dict[int, list[int]] = {}
    count: dict[int, int] = {}
    for c, d in arrows:
        after.setdefault(c, []).append(d)
        count[d] = count.get(d, 0) + 1
    free = [c for c in after if c not in count]
    while free:
        for d in after.get(free.pop(), ()):
            count[d] -= 1
            if not count[d]:
                free.append(d)
    return {(c, d) for c, d in arrows if count.get(c)}


def check_members(matched: Matched) -> Faults:
    """IL406, R-COM-6: who lists a transfer or a collective is in its communicator, and so is its peer."""
    order = matched.order
    for i in order.rows_of(*Kind.TRANSFERS, *Kind.COLLECTIVES):
        peer = order.peer[i] if order.kind[i] in NAMED else matched.peer.get(i, order.rank[i])
        if not matched.program.communicators[order.comm[i]].issuperset((order.rank[i], peer)):
            yield "IL406", (i,)


@dataclass(slots=True)
class _Pending:
    """The transfers of a buffer that were not waited for; -1: none."""

    last: int = -1
    elsewhere: int = -1  # the last one in another launch than that
    receives: tuple[int, ...] = ()  # the first and the last one


def check_buffers(matched: Matched) -> Faults:
    """IL407, R-COM-7: a buffer is not reused before its transfer was waited for."""
    order = matched.order
    buffers: dict[tuple[int, int], _Pending] = {}  # by rank and name
    for i in order.rows_of(*NAMED, Kind.WAIT, Kind.FREE):
        kind, buffer = order.kind[i], (order.rank[i], order.name[i])
        if kind == Kind.WAIT:
            buffers.pop(buffer, None)
        elif kind == Kind.FREE:
            if buffer in buffers:
                yield "IL407", (buffers[buffer].last, i)
        else:
            pending = buffers.setdefault(buffer, _Pending())
            if pending.last >= 0 and not _in_one_launch(order, pending.last, i):
                pending.elsewhere = pending.last
            if kind == Kind.RECV and pending.elsewhere >= 0:
                yield "IL407", (pending.elsewhere, i)
            if kind == Kind.SEND and pending.receives and not _in_one_launch(order, pending.receives[0], i):
                yield "IL407", (*pending.receives, i)
            pending.last = i
            pending.receives = (*pending.receives[:1], i) if kind == Kind.RECV else pending.receives


def _in_one_launch(order: Order, a: int, b: int) -> bool:
    return order.launch[a] == order.launch[b] >= 0


def check_grouping(matched: Matched) -> Faults:
    """IL408, R-COM-8 (under pair): both ends of a transfer are grouped, or neither."""
    for channel in matched.channels:
        for a, b in channel.pairs():
            if (matched.order.launch[a] >= 0) != (matched.order.launch[b] >= 0):
                yield "IL408", (a, b)
