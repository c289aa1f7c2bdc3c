"""Schedule invariance (spec/footprint.md): one order, transfers inserted or written, serves every freezing.

A freezing clears bits and deletes the rows that its footprint excludes; nothing moves. So the times of the
fully trained program go forward along every wait that is left, if for no choice of the bits a row is left
without one that it needs. That is decided here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from interlock.kernel.fields import require
from interlock.kernel.matching import Matched
from interlock.kernel.placement import Placed, find_dependencies
from interlock.kernel.program import Kind
from interlock.kernel.wellformed import MAX_WORK

ALWAYS = -1  # the presence of a row is a disjunction of bits: a set in an integer; all bits: the constant 1

Needs = Iterator[tuple[int, int, str]]


def find_unmet_need(matched: Matched, bits: list[int]) -> tuple[int, int, str] | None:
    """Rows (a, b) and what b needs a for, where for some choice of the bits b is present and a is not.

    "b needs a" holds for every choice iff the disjunction of b is included in that of a.
    """
    there = find_presence(matched.placed, bits)
    return next(((a, b, why) for a, b, why in find_needs(matched) if there[b] & ~there[a]), None)


def find_presence(placed: Placed, bits: list[int]) -> list[int]:
    """By row, of a program without an error: the bits by which it is there.

    X(s, m) and the receive of its gradient by back(s, m), the send of the gradient of its input and its wait
    by cross(s, m), W(s, m) by wwork(s, m), REDUCE(s) by reduce(s), REDUCE_TIE by that of any of its stages.
    """
    program, order = placed.program, placed.order
    trained = _layer_bits(placed, bits)
    back, cross, wwork = ([[0] * len(program.stages) for _ in placed.paths] for _ in range(3))
    for c, path in enumerate(placed.paths):
        before = 0
        for s in path.stages:
            cross[c][s], wwork[c][s] = before, _any(trained[layer] for layer in path.layers[s])
            before |= wwork[c][s]
            back[c][s] = before
    there = [ALWAYS] * len(order.kind)
    tables = ((back, (Kind.B, Kind.I, Kind.RECV_B)), (cross, (Kind.SEND_B, Kind.WAIT_B)), (wwork, (Kind.W,)))
    for table, i in ((table, i) for table, kinds in tables for kind in kinds for i in order.rows[kind]):
        there[i] = table[placed.path[order.mb[i]].number][order.stage[i]]
    reduces = [_any(trained[layer] for layer in stage.layers) for stage in program.stages]
    for i in order.rows_of(Kind.REDUCE, Kind.REDUCE_REPLICATED):
        there[i] = reduces[order.stage[i]]
    tied = {tie.name: _any(reduces[s] for s in tie.stages) for tie in program.ties}
    for i in order.rows[Kind.REDUCE_TIE]:
        there[i] = tied.get(order.name[i], ALWAYS)
    return there


def _layer_bits(placed: Placed, bits: list[int]) -> list[int]:
    """By layer: its bit, ALWAYS or 0. Layers of a stage and modality are present together: one bit."""
    program = placed.program
    stage = [s for s, of_stage in enumerate(program.stages) for _ in of_stage.layers]
    number: dict[tuple[int, str | None], int] = {}
    bit = {}
    for layer in bits:
        bit[layer] = number.setdefault((stage[layer], program.layers[layer].modality), len(number))
    few = len(placed.paths) * len(program.stages) * (len(number) + 64) <= 20 * MAX_WORK
    require(few, "there are too many bits for the stages")
    return [
        (1 << bit[n] if n in bit else ALWAYS) if layer.trainable else 0
        for n, layer in enumerate(program.layers)
    ]


def _any(terms: Iterable[int]) -> int:
    found = 0
    for term in terms:
        found |= term
    return found


def find_needs(matched: Matched) -> Needs:
    """(a, b, why): row b cannot be without row a.

    What is not listed at all is no row: the fully trained program lacks it, or it is a placeholder's.
    """
    for a, b in find_dependencies(matched.placed):
        yield a, b, "what it is computed from"
    for channel in matched.channels:
        for a, b in channel.pairs():
            yield a, b, "its send"
            yield b, a, "its receive"
    yield from _needs_of_payloads(matched)
    for entered in matched.entered.values():
        members = list(entered.values())
        for rows, others in zip(members, members[1:] + members[:1]):  # in a circle: each needs all
            for a, b in zip(rows, others):
                yield a, b, "the other members"


def _needs_of_payloads(matched: Matched) -> Needs:
    """A send needs what it sends, an operation the receive that feeds it, a wait its send."""
    placed, order = matched.placed, matched.order
    sent: dict[tuple[int, int, int], int] = {}
    for i in (i for i in matched.peer if order.kind[i] in Kind.PIPELINE):
        kind, s, m = order.kind[i], order.stage[i], order.mb[i]
        other = (placed.first[Kind.F] if kind in (Kind.SEND_F, Kind.RECV_F) else placed.x)[s].get(m)
        if kind in Kind.SENDS:
            sent[kind, s, m] = i
        if other is not None:
            yield (other, i, "what it sends") if kind in Kind.SENDS else (i, other, "what it is fed with")
    for wait, send in ((Kind.WAIT_F, Kind.SEND_F), (Kind.WAIT_B, Kind.SEND_B)):
        for i in order.rows[wait]:
            yield sent[send, order.stage[i], order.mb[i]], i, "the send it waits for"
