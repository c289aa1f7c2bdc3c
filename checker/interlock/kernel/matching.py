"""Who meets whom: transfers matched, collectives entered, units (spec/communication.md): the third stage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from interlock.kernel.placement import OFF, Pair, Placed
from interlock.kernel.program import KINDS, Kind, Order, Program

ORDERED = Kind.COMPUTE_LIKE | {Kind.INIT}
Payload = tuple[int, int, int]  # (F, s, m), (B, s, m) of the sender; (SEND, name, -1)


@dataclass(frozen=True, slots=True)
class Channel:
    """What takes part on one (source, destination, communicator); the i-th send meets the i-th receive."""

    sends: list[int]
    receives: list[int]
    crossed: list[Pair]  # those with different payloads, if the counts agree

    def pairs(self) -> Iterator[Pair]:
        return zip(self.sends, self.receives)


@dataclass(frozen=True, slots=True)
class Unit:
    """A plain transfer, a grouped launch or a collective."""

    rank: int
    start: int  # event
    end: int
    rows: list[int]  # those that take part


@dataclass(frozen=True, slots=True)
class Matched:
    """A placed program and who meets whom. A transfer takes part if it has a peer."""

    placed: Placed
    program: Program
    order: Order
    peer: dict[int, int]
    without_peer: list[int]  # transfers of which only the peer is at fault
    channels: list[Channel]
    entered: dict[int, dict[int, list[int]]]  # communicator -> member -> the collectives it lists on it
    ordered: list[list[int]]  # by rank: what it does in the order listed (R-DEP-6; inserted transfers: IL307)
    units: list[Unit]


def match(placed: Placed) -> Matched:
    program, order = placed.program, placed.order
    peer, without_peer = _find_peers(placed)
    ends: dict[tuple[int, int, int], tuple[list[int], list[int]]] = {}
    for i, other in peer.items():
        received = order.kind[i] in Kind.RECEIVES
        edge = (other, order.rank[i]) if received else (order.rank[i], other)
        ends.setdefault((*edge, order.comm[i]), ([], []))[received].append(i)
    channels = [Channel(*of_edge, _find_crossed(placed, *of_edge)) for of_edge in ends.values()]
    entered: dict[int, dict[int, list[int]]] = {}
    for i in order.rows_of(*Kind.COLLECTIVES):
        if order.rank[i] in program.communicators[order.comm[i]]:
            entered.setdefault(order.comm[i], {}).setdefault(order.rank[i], []).append(i)
    in_order = frozenset(KINDS) - Kind.WITHOUT_EVENT if program.inserted else ORDERED
    ordered: list[list[int]] = [[] for _ in range(program.ranks)]
    for i in order.rows_of(*in_order):
        ordered[order.rank[i]].append(i)
    return Matched(
        placed, program, order, peer, without_peer, channels, entered, ordered, _find_units(order, peer)
    )


def _other_stage(placed: Placed, i: int) -> int:
    """The stage at the other end of a pipeline transfer."""
    path, s = placed.path[placed.order.mb[i]], placed.order.stage[i]
    return path.next[s] if placed.order.kind[i] in (Kind.SEND_F, Kind.RECV_B) else path.prev[s]


def _find_peers(placed: Placed) -> tuple[dict[int, int], list[int]]:
    """The peers of the transfers that take part, and the transfers of which only the peer is at fault."""
    order = placed.order
    peer: dict[int, int] = {}
    without_peer = []
    for i in order.rows_of(*Kind.TRANSFERS):
        other = order.peer[i]
        if order.kind[i] in Kind.PIPELINE:
            stage = OFF if i in placed.stray else _other_stage(placed, i)
            if stage == OFF:
                continue
            other = placed.rank_of(stage, order.mb[i]) if stage >= 0 else -1
        if other in (-1, order.rank[i]):
            without_peer.append(i)
        else:
            peer[i] = other
    return peer, without_peer


def find_payload(placed: Placed, i: int) -> Payload:
    """The payload of a transfer that takes part."""
    order, kind = placed.order, placed.order.kind[i]
    if kind not in Kind.PIPELINE:
        return Kind.SEND, order.name[i], -1
    sender = order.stage[i] if kind in Kind.SENDS else _other_stage(placed, i)
    return Kind.F if kind in (Kind.SEND_F, Kind.RECV_F) else Kind.B, sender, order.mb[i]


def _find_crossed(placed: Placed, sends: list[int], receives: list[int]) -> list[Pair]:
    pairs = zip(sends, receives) if len(sends) == len(receives) else ()
    return [(a, b) for a, b in pairs if find_payload(placed, a) != find_payload(placed, b)]


def _find_units(order: Order, peer: dict[int, int]) -> list[Unit]:
    units: list[Unit] = []
    for i in order.rows_of(*Kind.TRANSFERS, *Kind.COLLECTIVES):
        if order.kind[i] in Kind.COLLECTIVES or i in peer:
            start = order.grouped.get(order.launch[i], i)
            if units and units[-1].start == start:
                units[-1].rows.append(i)
            else:
                units.append(Unit(order.rank[i], start, start if start == i else start + 1, [i]))
    return units
