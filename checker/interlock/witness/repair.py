"""What would undo a circle of waits. A repair is tried on the program before it is proposed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

import numpy as np

from interlock.engine.graph import solve
from interlock.program.facts import IS_COMPUTE, IS_SEND, IS_TRANSFER, Facts
from interlock.program.ir import Communicator, Kind, Order, Program
from interlock.rules import communication, dependency
from interlock.rules.waits import wait_graph
from interlock.witness.walk import Leg, legs

MOST_ROWS = 12_000  # a larger program is not tried
MOST_BETWEEN = 2_000  # operations a move may pass
MOST_LEGS = 8
MOST_TRIED, MOST_WORK = 40, 200_000  # programs tried, and their rows all together


@dataclass(frozen=True)
class Change:
    """`text` is the change to make, `shape` which sort of change it is (of each sort one is proposed), `rank`
    where, if on one rank.
    """

    text: str
    shape: str
    program: Program
    rank: int | None = None


def repair(facts: Facts, model: str, circle: list[Leg]) -> str:
    """The change to make, or two to choose from, that leave no circle under the model; else one that undoes
    this circle.
    """
    circle = circle[:MOST_LEGS]
    changes = _changes(facts, circle)
    if facts.n > MOST_ROWS:
        change = next(changes, None)
        return f"{change.text} (not tried: the schedule is large)" if change else _general(facts)
    before = _errors(facts, model)
    budget = max(min(MOST_TRIED, MOST_WORK // max(facts.n, 1)), 4)
    whole: dict[str, str] = {}
    part: list[str] = []
    for change in changes:
        if change.shape in whole or budget <= 0:
            continue
        again, left = _tried(change, model, before, budget)
        budget = left
        if again is not None and again >= 0:
            whole[change.shape] = change.text + (
                f" (and likewise at {again} more place{'s' if again > 1 else ''})" if again else ""
            )
        elif again is not None:
            part.append(change.text)
        if len(whole) == 2:
            break
    if whole:
        return ", or ".join(whole.values())
    return f"{part[0]}; that undoes this circle, others remain" if part else _general(facts)


def _tried(change: Change, model: str, before: int, budget: int) -> tuple[int | None, int]:
    """(how often the same sort of change had to follow until no circle was left, budget left); -1: one was
    left; None: a rule broke at once.
    """
    program, again = change.program, 0
    while budget > 0:
        budget -= 1
        facts = Facts(program)
        if _errors(facts, model) > before:
            return (None if again == 0 else -1), budget
        solution = solve(wait_graph(facts, communication.Transfers(facts), model))
        if solution.acyclic:
            return again, budget
        circle = legs(program, solution.walk)[:MOST_LEGS]
        following = next(
            (c for c in _changes(facts, circle, change.shape) if c.rank in (change.rank, None)), None
        )
        if following is None:
            return -1, budget
        program, again = following.program, again + 1
    return -1, budget


def _general(facts: Facts) -> str:
    if facts.program.inserted:
        return "reorder the compute of one of these ranks, so that what the other waits for comes first"
    return "let both ends list their transfers in one order, sends before the receives that answer them"


def _errors(facts: Facts, model: str) -> int:
    """How many errors the rules find, R-COM-3 aside."""
    found = [f for f in dependency.check(facts) if f.is_error]
    if not facts.program.inserted:
        transfers = communication.Transfers(facts)
        found += [
            f
            for rule in (
                communication.check(facts, transfers),
                communication.grouped_alike(facts, transfers, model),
            )
            for f in rule
            if f.is_error
        ]
    return len(found)


def _changes(facts: Facts, circle: list[Leg], shape: str = "") -> Iterator[Change]:
    """What may undo the circle, of one sort or of all."""
    p = facts.program
    needs = _Needs(facts)
    if shape in ("", "move"):
        for leg in circle:
            moved = needs.moved(leg.stop, leg.owed)
            if moved:
                yield Change(
                    _move_text(facts, leg, moved), "move", _moved(p, moved, needs.head(leg.stop)), leg.rank
                )
    if p.inserted:
        return
    if shape in ("", "communicator"):
        yield from _own_communicator(facts, circle)
        yield from _own_direction(facts, circle)
    if shape in ("", "group"):
        yield from _grouped(facts, circle, needs)
    if shape in ("", "ungroup"):
        yield from _ungrouped(facts, circle)


class _Needs:
    """What an operation needs on its own rank."""

    def __init__(self, facts: Facts):
        self.facts = facts
        edges = facts.data
        same = np.flatnonzero(facts.rank[edges.src] == facts.rank[edges.dst])
        index = same[np.argsort(edges.dst[same], kind="stable")]
        self.src, self.dst = edges.src[index], edges.dst[index]
        self.recv = {Kind.F: facts.first(Kind.RECV_F)} | dict.fromkeys(
            (Kind.B, Kind.I, Kind.W), facts.first(Kind.RECV_B)
        )
        self.made = {
            Kind.SEND_F: facts.first_F,
            Kind.SEND_B: facts.first_X,
            Kind.WAIT_F: facts.first(Kind.SEND_F),
            Kind.WAIT_B: facts.first(Kind.SEND_B),
        }

    def head(self, row: int) -> int:
        """The first row of the launch or overlap a row is in."""
        launch = self.facts.launch[row]
        return int(np.flatnonzero(self.facts.launch == launch)[0]) if launch >= 0 else row

    def of(self, row: int) -> Iterator[int]:
        f = self.facts
        a, b = np.searchsorted(self.dst, [row, row + 1])
        yield from self.src[a:b].tolist()
        kind = Kind(int(f.kind[row]))
        for table in (self.recv.get(kind), self.made.get(kind)):
            if table is not None and f.placed[row]:
                yield int(table[f.stage[row] * f.M + f.mb[row]])
        if f.launch[row] >= 0:
            yield from np.flatnonzero(f.launch == f.launch[row]).tolist()

    def moved(self, stop: int, owed: int) -> list[int]:
        """The rows to bring before `stop` so that `owed` is before it: what it needs comes along. [] if
        `stop` itself is needed.
        """
        f = self.facts
        stop = self.head(stop)
        if not 0 < owed - stop <= MOST_BETWEEN:
            return []
        between, todo, moved = range(stop, f.n), [owed], set()
        while todo:
            row = todo.pop()
            if row in moved or row not in between or f.rank[row] != f.rank[stop]:
                continue
            moved.add(row)
            todo += self.of(row)
            if f.is_unit[row]:
                todo += [r for r in range(stop, row) if f.is_unit[r] and _lane(f, r) == _lane(f, row)]
        return [] if stop in moved else sorted(moved)


def _lane(facts: Facts, row: int) -> tuple:
    """What keeps its order when others are moved: the transfers of one direction and boundary, the
    collectives of a communicator.
    """
    if facts.is_collective[row]:
        return (int(facts.comm[row]),)
    return (int(facts.comm[row]), int(facts.peer[row]), bool(IS_SEND[facts.kind[row]]), _boundary(facts, row))


def _boundary(facts: Facts, row: int) -> tuple[int, int]:
    """The stages a transfer goes between, in ascending order; (-1, -1) for a named one."""
    kind, s, at = facts.kind[row], int(facts.stage[row]), np.array([row])
    if s < 0:
        return -1, -1
    ahead = kind in (Kind.SEND_F, Kind.RECV_B)
    other = int(facts.neighbour(facts.footprint.next if ahead else facts.footprint.prev, at)[0])
    return (s, other) if ahead else (other, s)


def _move_text(facts: Facts, leg: Leg, moved: list[int]) -> str:
    show = facts.program.show
    computes = [r for r in moved if IS_COMPUTE[facts.kind[r]]]
    if computes:
        stay = next(
            (r for r in range(leg.stop, leg.owed) if IS_COMPUTE[facts.kind[r]] and r not in moved), leg.stop
        )
        return f"run {show(computes[-1])} before {show(stay)} on rank {leg.rank}"
    return f"put {show(leg.owed)} before {show(leg.stop)} on rank {leg.rank}"


def _columns(order: Order) -> dict[str, np.ndarray]:
    return {f.name: getattr(order, f.name) for f in fields(order)}


def _moved(program: Program, moved: list[int], before: int) -> Program:
    n = len(program.order)
    index = np.concatenate(
        [np.arange(before), moved, np.setdiff1d(np.arange(before, n), moved, assume_unique=True)]
    ).astype(np.int64)
    columns = {k: v if k == "start" else v[index] for k, v in _columns(program.order).items()}
    return program.with_order(_renumbered(columns))


def _renumbered(columns: dict[str, np.ndarray]) -> Order:
    """Launch numbers ascend with the rows."""
    launch = columns["launch"]
    _, first, inverse = np.unique(launch, return_index=True, return_inverse=True)
    place = np.argsort(np.argsort(first))
    fresh = np.where(launch >= 0, place[inverse], -1)
    return Order(**columns | {"launch": fresh.astype(np.int32)})


def _grouped(facts: Facts, circle: list[Leg], needs: _Needs) -> Iterator[Change]:
    """The transfers a rank stops at and owes, in one launch, on every rank of the circle."""
    p = facts.program
    pairs = [(leg.stop, leg.owed) for leg in circle if leg.stop != leg.owed]
    rows = [r for pair in pairs for r in pair]
    if len(pairs) < 2 or not IS_TRANSFER[facts.kind[rows]].all() or (facts.launch[rows] >= 0).any():
        return
    if any(needs.moved(stop, owed) != [owed] for stop, owed in pairs):
        return
    changed = p
    for number, (stop, owed) in enumerate(sorted(pairs, reverse=True)):
        columns = _columns(changed.order)
        launch = columns["launch"].copy()
        launch[[stop, owed]] = launch.max() + 1 + number
        changed = _moved(changed.with_order(Order(**columns | {"launch": launch})), [owed], stop)
    ranks = "" if len(pairs) > 3 else "; ".join(f"{p.show(a)} and {p.show(b)}" for a, b in pairs)
    yield Change(
        f"put each of these pairs in one launch {{ }}: {ranks}"
        if ranks
        else "put what each rank sends and receives here in one launch { }",
        "group",
        changed,
    )


def _own_communicator(facts: Facts, circle: list[Leg]) -> Iterator[Change]:
    """Transfers of two boundaries in one queue: one of the boundaries gets its own communicator."""
    p = facts.program
    taken = {c.name for c in p.communicators}
    fresh = next(n for n in ("seam", *(f"seam{i}" for i in range(2, len(taken) + 3))) if n not in taken)
    tried = set()
    for leg in circle:
        ends = (leg.stop, leg.owed)
        if (
            leg.stop == leg.owed
            or not IS_TRANSFER[facts.kind[list(ends)]].all()
            or facts.comm[leg.stop] != facts.comm[leg.owed]
        ):
            continue
        first, second = (_boundary(facts, row) for row in ends)
        if first == second or -1 in (*first, *second) or second in tried:
            continue
        tried.add(second)
        a, b = second
        rows = [
            r
            for r in np.flatnonzero(IS_TRANSFER[facts.kind] & np.isin(facts.stage, second)).tolist()
            if _boundary(facts, r) == second
        ]
        comm = facts.comm.copy()
        comm[rows] = len(p.communicators)
        ranks = sorted({int(facts.rank[r]) for r in rows})
        order = Order(**_columns(p.order) | {"comm": comm})
        yield Change(
            f"give the transfers between stages {a} and {b} a communicator of their own "
            f"({p.show(rows[0]).split('@')[0]}@{fresh})",
            "communicator",
            replace(p, order=order, communicators=(*p.communicators, Communicator(fresh, tuple(ranks)))),
        )


def _own_direction(facts: Facts, circle: list[Leg]) -> Iterator[Change]:
    """Named transfers of both directions on one declared communicator: what goes one way gets its own."""
    p = facts.program
    for leg in circle:
        a, b = leg.stop, leg.owed
        if (
            a == b
            or facts.comm[a] == 0
            or facts.comm[a] != facts.comm[b]
            or facts.peer[a] != facts.peer[b]
            or {int(facts.kind[a]), int(facts.kind[b])} != {int(Kind.SEND), int(Kind.RECV)}
        ):
            continue
        send = a if IS_SEND[facts.kind[a]] else b
        source, destination = int(facts.rank[send]), int(facts.peer[send])
        old = p.communicators[facts.comm[send]]
        one_way = (facts.comm == facts.comm[send]) & (
            (facts.kind == Kind.SEND) & (facts.rank == source) & (facts.peer == destination)
            | (facts.kind == Kind.RECV) & (facts.rank == destination) & (facts.peer == source)
        )
        comm = facts.comm.copy()
        comm[one_way] = len(p.communicators)
        fresh = next(
            n
            for n in (f"{old.name}{i}" for i in range(2, len(p.communicators) + 3))
            if n not in {c.name for c in p.communicators}
        )
        yield Change(
            f"give what rank {source} sends to rank {destination} a communicator of its own "
            f"({p.show(send).split('@')[0]}@{fresh})",
            "communicator",
            replace(
                p,
                order=Order(**_columns(p.order) | {"comm": comm}),
                communicators=(*p.communicators, Communicator(fresh, old.ranks)),
            ),
        )


def _ungrouped(facts: Facts, circle: list[Leg]) -> Iterator[Change]:
    """The launches of the circle taken apart; or all of them, where one end of a transfer would else be
    grouped alone.
    """
    p = facts.program
    grouped = (facts.launch >= 0) & IS_TRANSFER[facts.kind]
    launches = {int(e[1]) for leg in circle for a, _, b in leg.steps for e in (a, b) if e[0] != "op"}
    launches |= {int(x) for leg in circle for x in facts.launch[[leg.stop, leg.owed]] if x >= 0}
    launches &= set(np.unique(facts.launch[grouped]).tolist())
    if not launches:
        return
    where = grouped & np.isin(facts.launch, list(launches))
    inside = " ".join(p.show(r) for r in np.flatnonzero(facts.launch == min(launches)).tolist()[:4])
    some = (
        f"take the launch {{ {inside} }} apart"
        if len(launches) == 1
        else "take the launches { } of this circle apart"
    )
    for text, rows in (
        (some, where),
        ("group no transfer at all, or both ends of every transfer alike", grouped),
    ):
        launch = np.where(rows, -1, facts.launch)
        yield Change(text, "ungroup", p.with_order(_renumbered(_columns(p.order) | {"launch": launch})))
