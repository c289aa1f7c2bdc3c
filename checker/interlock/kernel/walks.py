"""Closed walks of a wait graph, as an `invalid` claim writes them (spec/certificates.md)."""

from __future__ import annotations

from interlock.kernel.fields import Malformed, require
from interlock.kernel.program import Order
from interlock.kernel.waits import WaitGraph

Step = tuple[int, str, int]  # event, name, event
JUMPS = ("order", "block", "consume", "step")  # relations whose waits go from nearest to nearest


def describe_event(order: Order, event: int) -> str:
    """`row 3`, `start of launch 7`."""
    if event < len(order.kind):
        return f"row {event}"
    end = (event - len(order.kind)) % 2
    return f"{'end' if end else 'start'} of launch {order.launch[order.row_of(event)]}"


def check_walk(graph: WaitGraph, walk: object) -> None:
    """The walk is closed, each step is a wait or "same", and at least one is a wait. Raises Malformed."""
    if type(walk) is not list or not walk:
        raise Malformed("the walk is empty")
    steps = [_read_step(graph.order, step) for step in walk]
    for (_, _, end), (begin, _, _) in zip(steps, steps[1:] + steps[:1]):
        require(end == begin, "a step of the walk does not begin where the one before it ends")
    waits = {step for step in steps if step[1] != "same"}
    require(waits, "no step of the walk is a wait")
    _check_shared(graph, {(a, b) for a, name, b in steps if name == "same"})
    _check_waits(graph, waits)


def _read_step(order: Order, step: object) -> Step:
    if type(step) is not list or len(step) != 3 or type(step[1]) is not str:
        raise Malformed("a step of the walk is not an event, a reason and an event")
    return _read_event(order, step[0]), step[1], _read_event(order, step[2])


def _read_event(order: Order, event: object) -> int:
    word, number = event if type(event) is list and len(event) == 2 else (None, None)
    if type(number) is not int:
        raise Malformed("an event of the walk is not a pair of a word and a number")
    if word == "op" and 0 <= number < len(order.kind):
        return number
    require(word in ("start", "end") and number in order.grouped, "an event of the walk does not exist")
    return order.grouped[number] + (1 if word == "end" else 0)


def _check_shared(graph: WaitGraph, pairs: set[tuple[int, int]]) -> None:
    leader: dict[int, int] = {}
    for a, b in graph.find_shared_events() if pairs else ():
        leader[a] = leader[b] = a
    for a, b in pairs:
        share = a != b and a in leader and leader[a] == leader.get(b)
        require(share, "two rows of the walk do not share an event")


def _check_waits(graph: WaitGraph, waits: set[Step]) -> None:
    """Each step is a wait of the graph, or jumps ahead along its relation."""
    sources = {a for a, _, _ in waits}
    nearest: dict[tuple[int, str, object], int] = {}
    for name, pairs in graph.list_relations():
        for a, b in pairs:
            if a in sources:
                key = a, name, _line(graph.order, name, b)
                nearest[key] = min(b, nearest.get(key, b), key=graph.order.row_of)
    for a, name, b in waits:
        near = nearest.get((a, name, _line(graph.order, name, b)))
        found = near is not None and (near == b or (name in JUMPS and graph.covers(name, near, b)))
        require(found, f"{describe_event(graph.order, a)} has no such wait of the name {name[:20]!r}")


def _line(order: Order, name: str, b: int) -> object:
    """What a wait has in common with those a jump may lead along; where none may, its own end."""
    if name == "consume" and b < len(order.kind):
        return order.kind[b], order.stage[b], order.mb[b], order.name[b]
    return None if name in JUMPS else b
