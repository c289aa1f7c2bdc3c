"""A closed walk of waits in the field's words: spec/certificates.md for the walk, spec/communication.md for
the waits.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from interlock.program.facts import HAS_MICROBATCH, IS_SEND, IS_TRANSFER, Facts
from interlock.program.ir import Kind, Program
from interlock.text.finding import Finding, Mark
from interlock.witness.repair import repair
from interlock.witness.walk import Event, Leg, legs, members, rank_of, row_of

MOST_MARKED = 6  # legs of a circle that get marks of their own
SHOWN_IN_A_LAUNCH = 4


def deadlock(facts: Facts, model: str, walk, shortest: bool) -> Finding:
    """IL402 of a program with written transfers, IL307 of one with inserted ones, told from its
    closed walk.
    """
    circle = legs(facts.program, walk)
    cause = _cause([leg.rank for leg in circle])
    data = {
        "model": model,
        "cause": cause,
        "ranks": _distinct([leg.rank for leg in circle]),
        "shortest": shortest,
        "story": list(story(facts, model, walk)),
    }
    marks = tuple(_marks(facts, circle))
    help = repair(facts, model, circle)
    if facts.program.inserted:
        across = _list("rank", data["ranks"])
        help += _warmup(facts, circle)
        return Finding(
            "IL307",
            "R-DEP-6",
            f"a cyclic wait across {across}, under every model",
            marks,
            help,
            walk=tuple(walk),
            data=data,
        )
    return Finding(
        "IL402", "R-COM-3", f"deadlock under `{model}`: {cause}", marks, help, walk=tuple(walk), data=data
    )


def _warmup(facts: Facts, circle: list[Leg]) -> str:
    """A rank that begins its backwards after fewer forwards than stages follow: its warmup was counted for a
    part of the chain.
    """

    def forwards(leg: Leg) -> int:
        before = slice(0, leg.stop)
        return int(
            np.count_nonzero(
                (facts.kind[before] == Kind.F)
                & (facts.stage[before] == facts.stage[leg.stop])
                & (facts.rank[before] == leg.rank)
            )
        )

    if any(facts.kind[leg.stop] == Kind.F and facts.mb[leg.stop] != forwards(leg) for leg in circle):
        return ""  # forwards in another order: that is the matter
    for leg in circle:
        stage = int(facts.stage[leg.stop])
        if (
            facts.kind[leg.stop] not in (Kind.B, Kind.I)
            or facts.kind[leg.owed] != Kind.F
            or stage != facts.stage[leg.owed]
        ):
            continue
        begun, follow = forwards(leg), facts.S - 1 - stage
        if begun <= follow:
            return (
                f"; stage {stage} does {facts.program.show(leg.stop)} after {begun} "
                f"forward{'s' * (begun != 1)}, and {follow} more "
                f"stage{'s' * (follow != 1)} follow{'s' * (follow == 1)}: count the warmup along the whole "
                "chain"
            )
    return ""


def _distinct(ranks: list[int]) -> list[int]:
    return list(dict.fromkeys(ranks))


def _cause(ranks: list[int]) -> str:
    ranks = _distinct(ranks)
    if len(ranks) == 1:
        return f"rank {ranks[0]} waits for itself"
    return f"{_list('rank', ranks)} wait " + ("for each other" if len(ranks) == 2 else "in a circle")


def _list(word: str, numbers: list[int]) -> str:
    """`rank 0`, `ranks 0, 2 and 3`; of many the first ones and how many they are."""
    if len(numbers) == 1:
        return f"{word} {numbers[0]}"
    if len(numbers) > 8:
        return f"{len(numbers)} {word}s ({', '.join(map(str, numbers[:4]))}, ..., {numbers[-1]})"
    return f"{word}s {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


# ---- one sentence for each wait -------------------------------------------------------------------


def story(facts: Facts, model: str, walk) -> Iterator[str]:
    """One sentence for each wait, each about what the sentence before it waits for; it starts at the lowest
    rank.
    """
    yield from (
        f"rank {rank_of(facts.program, event)}: {told}" for event, told in sentences(facts, model, walk)
    )


def sentences(facts: Facts, model: str, walk) -> Iterator[tuple[Event, str]]:
    """The sentences of a story, each with what it is about."""
    steps = [((*a,), reason, (*b,)) for a, reason, b in walk]
    if not steps:
        return
    program = facts.program
    circle = legs(program, steps)
    ordered = steps[::-1]
    if len(circle) > 1:
        ranks = [(rank_of(program, a), rank_of(program, b)) for a, _, b in ordered]
        start = next(
            i
            for i, (a, b) in enumerate(ranks)
            if a != b and (b, row_of(program, ordered[i][2])) == (circle[0].rank, circle[0].stop)
        )
        ordered = ordered[start:] + ordered[:start]
    for a, reason, b in ordered:
        if told := _sentence(facts, model, a, reason, b):
            yield b, told


def _sentence(facts: Facts, model: str, a: Event, reason: str, b: Event) -> str:  # noqa: PLR0911
    p = facts.program
    A, B = name(p, a), name(p, b)
    there = rank_of(p, a)
    away = there != rank_of(p, b)
    match reason:
        case "same" | "match":
            row = row_of(p, b)
            if not away:
                return ""  # the halves of an overlap
            if not IS_TRANSFER[facts.kind[row]]:
                return f"{B} ends only when rank {there} enters it too"
            return f"{B} ends only when rank {there} " + (
                f"receives it in {A}" if IS_SEND[facts.kind[row]] else f"sends {A}"
            )
        case "queue":
            return f"{B} is behind {A} in {_queue(facts, model, a, b)}"
        case "order":
            return f"{B} runs after {A}, which is listed before it"
        case "after":
            return f"{B} starts after {A}, the compute before it"
        case "block":
            return f"{B} starts only when {A} has ended: one operation at a time"
        case "step":
            return f"{B} waits for every transfer before it, {A} among them"
        case "member":
            return "" if a[0] == "start" else f"{B} ends only when all of it has, {A} among it"
        case "consume":
            return (
                f"{B} waits for the end of {A}"
                if facts.kind[row_of(p, b)] in _WAITS
                else f"{B} needs what {A} brings"
            )
    return f"{B} {_need(facts, row_of(p, a), row_of(p, b))} {A}" + (f" on rank {there}" if away else "")


_WAITS = (Kind.WAIT, Kind.WAIT_F, Kind.WAIT_B)


def _need(facts: Facts, a: int, b: int) -> str:
    source, user = facts.kind[a], facts.kind[b]
    if source == Kind.F:
        return "needs the output of" if user in (Kind.F, Kind.LOSS) else "needs the activations of"
    if source in (Kind.B, Kind.I) and user in (Kind.B, Kind.I):
        return "needs the gradient of"
    return "needs the loss of" if source == Kind.LOSS else "comes after its input half"


def name(program: Program, event: Event) -> str:
    """An event as the writer knows it: an operation, an overlap, or a launch with its members."""
    what, number = event
    o = program.order
    if what == "op":
        launch = int(o.launch[number])
        if launch < 0 or IS_TRANSFER[o.kind[number]]:
            return program.show(number)
        return f"overlap({' '.join(program.show(int(r)) for r in members(program, launch))})"
    rows = members(program, number).tolist()
    inside = " ".join(program.show(r) for r in rows[:SHOWN_IN_A_LAUNCH])
    return (
        f"the launch {{ {inside}{f' ... {len(rows)} operations' if len(rows) > SHOWN_IN_A_LAUNCH else ''} }}"
    )


def _queue(facts: Facts, model: str, a: Event, b: Event) -> str:
    """Which queue of the model holds both units."""
    p = facts.program
    first, second = _unit(p, a), _unit(p, b)
    rank = p.rank_of(first[0])
    comm = int(facts.comm[second[0]])
    on = f" on communicator {p.communicators[comm].name}" if comm > 0 else ""
    if model in ("rank", "blocking"):
        return f"the one queue of rank {rank}{on}"
    if facts.is_collective[first[0]] and facts.is_collective[second[0]]:
        return f"the collectives of communicator {p.communicators[comm].name}"
    edges = [
        {_edge(facts, row) for row in unit if model != "buffered" or not IS_SEND[facts.kind[row]]}
        for unit in (first, second)
    ]
    shared = sorted(edges[0] & edges[1])
    if shared:
        _, source, destination = shared[0]
        if model == "buffered":
            return f"what rank {destination} receives from rank {source}{on}"
        return f"the queue from rank {source} to rank {destination}{on}"
    if a[0] == "op":
        low, high = sorted((rank, peer_of(facts, first[0])))
        return f"the queue of ranks {low} and {high}{on}"
    return f"the grouped launches of rank {rank}{on}"


def _unit(program: Program, event: Event) -> list[int]:
    return [int(event[1])] if event[0] == "op" else members(program, event[1]).tolist()


def _edge(facts: Facts, row: int) -> tuple[int, int, int]:
    """(communicator, source, destination) of a transfer."""
    here, there = int(facts.rank[row]), peer_of(facts, row)
    return (int(facts.comm[row]), *((here, there) if IS_SEND[facts.kind[row]] else (there, here)))


def peer_of(facts: Facts, row: int) -> int:
    """The rank at the other end of a transfer."""
    kind, at = facts.kind[row], np.array([row])
    if not HAS_MICROBATCH[kind]:
        return int(facts.peer[row])
    table = facts.footprint.next if kind in (Kind.SEND_F, Kind.RECV_B) else facts.footprint.prev
    return int(facts.rank_at(facts.neighbour(table, at), facts.mb[at])[0])


# ---- marks ----------------------------------------------------------------------------------------


def _marks(facts: Facts, circle: list[Leg]) -> Iterator[Mark]:
    if len(circle) == 1:
        leg = circle[0]
        yield Mark(leg.stop, f"rank {leg.rank} never ends this")
        if leg.owed != leg.stop:
            yield Mark(leg.owed, "what it waits for comes only after it")
        return
    shown = circle[:MOST_MARKED]
    labels = _crossing(facts, circle) or [
        _stops(facts, leg, after) for leg, after in zip(shown, circle[1:] + circle[:1])
    ]
    for leg, label in zip(shown, labels):
        yield Mark(leg.stop, label)
    for leg, before in zip(shown, circle[-1:] + circle[:-1]):
        if leg.owed != leg.stop:
            yield Mark(leg.owed, f"rank {before.rank} waits for this")


def _crossing(facts: Facts, circle: list[Leg]) -> list[str]:
    """Two transfers that cross, the second written below the first: one sentence over the two places."""
    if len(circle) != 2:
        return []
    a, b = circle
    at = facts.program.order.at
    if not (IS_TRANSFER[facts.kind[[a.stop, b.stop]]].all() and 0 <= at[a.stop] < at[b.stop]):
        return []
    sends = [bool(IS_SEND[facts.kind[leg.stop]]) for leg in circle]
    head = f"rank {a.rank} sends" if sends[0] else f"rank {a.rank} waits for"
    return [
        f"{head} {_payload(facts, a.stop)}; rank {b.rank} {'receives' if sends[0] else 'sends'} it only "
        "after",
        f"this, which rank {a.rank} {'receives' if sends[1] else 'sends'} only after its own "
        f"{'send' if sends[0] else 'receive'}",
    ]


def _payload(facts: Facts, row: int) -> str:
    p, kind, s, m = facts.program, facts.kind[row], int(facts.stage[row]), int(facts.mb[row])
    match kind:
        case Kind.SEND_F:
            return f"{s}F{m}"
        case Kind.RECV_F:
            return f"the input of {s}F{m}"
    if kind in (Kind.SEND_B, Kind.RECV_B):
        x = int(facts.first_X[s * facts.M + m])
        own = p.show(x) if x >= 0 else f"{s}B{m}"
        return f"the gradient of {own}" if kind == Kind.SEND_B else f"the gradient for {own}"
    return p.names[facts.name[row]]


def _stops(facts: Facts, leg: Leg, after: Leg) -> str:
    """Why a rank never ends its stop: what the next rank would have to come to, and what that rank never ends
    itself.
    """
    p = facts.program
    then = f" only after {name(p, ('op', after.stop))}" if after.stop != after.owed else ""
    if IS_TRANSFER[facts.kind[leg.stop]]:
        return (
            f"this cannot end: rank {after.rank} "
            f"{'receives' if IS_SEND[facts.kind[leg.stop]] else 'sends'} it{then}"
        )
    if facts.is_collective[leg.stop]:
        return f"this cannot end: rank {after.rank} enters it{then}"
    needed = name(p, ("op", after.owed))
    return f"this cannot start: it needs {needed}" + (
        f", which rank {after.rank} runs{then}" if then else f" of rank {after.rank}"
    )
