"""Schedule invariance (spec/footprint.md): one order, with its transfers inserted or written, serves every freezing.

A freezing clears bits and deletes the rows that its footprint excludes; nothing moves. So the times of the fully trained program go forward along
every wait that is left, if for no choice of the bits a row is left without one that it needs. That is decided here.
"""

from __future__ import annotations

from collections.abc import Iterator

from .listing import data, gradient_row
from .wellformed import (
    MOST_WORK,
    PIPELINE,
    RECV_B,
    RECV_F,
    REDUCE,
    REDUCE_ALL,
    REDUCE_TIE,
    SEND_B,
    SEND_F,
    WAIT_B,
    WAIT_F,
    B,
    F,
    I,
    View,
    W,
    require,
)

ALWAYS = -1                # the presence of a row is a disjunction of bits: a set in an integer; all bits: the constant 1

Needs = Iterator[tuple[int, int, str]]


def needs_something_absent(v: View, bits: list[int]) -> tuple[int, int, str] | None:
    """Rows (a, b) and what b needs a for, where for some choice of the bits b is present and a is not; None: for no choice.

    "b needs a" holds for every choice iff the disjunction of b is included in that of a.
    """
    there = presence(v, bits)
    return next(((a, b, why) for a, b, why in needs(v) if there[b] & ~there[a]), None)


def presence(v: View, bits: list[int]) -> list[int]:
    """For each row of a program without an error: X(s, m) and the receive of its gradient are there by back(s, m), the send of the gradient of its
    input and its wait by cross(s, m), W(s, m) by wwork(s, m), REDUCE(s) by reduce(s), the reduction of a tie by that of any of its stages."""
    stage = [s for s, span in enumerate(v.span) for _ in span]
    number: dict = {}          # layers of one stage and modality are present together: their bits are one
    atom = {l: number.setdefault((stage[l], v.modality[l]), len(number)) for l in bits}
    require(len(v.paths) * v.S * (len(number) + 64) <= 20 * MOST_WORK, "there are too many bits for the stages")
    trained = [(1 << atom[l] if l in atom else ALWAYS) if trainable else 0 for l, trainable in enumerate(v.trainable)]
    cross, back, wwork = ([[0] * v.S for _ in v.paths] for _ in range(3))
    for c, path in enumerate(v.paths):
        before = 0
        for s in path.stages:
            cross[c][s], wwork[c][s] = before, _any(trained[l] for l in path.layers[s])
            before |= wwork[c][s]
            back[c][s] = before
    there = [ALWAYS] * v.N
    for table, kinds in ((back, (B, I, RECV_B)), (cross, (SEND_B, WAIT_B)), (wwork, (W,))):
        for k in kinds:
            for i in v.rows[k]:
                there[i] = table[v.cls[v.mb[i]]][v.stage[i]]
    reduces = [_any(trained[l] for l in span) for span in v.span]
    for i in (*v.rows[REDUCE], *v.rows[REDUCE_ALL]):
        there[i] = reduces[v.stage[i]]
    tied = {name: _any(reduces[s] for s in stages) for name, stages, _ in v.ties}
    for i in v.rows[REDUCE_TIE]:
        there[i] = tied.get(v.name[i], ALWAYS)
    return there


def _any(terms) -> int:
    found = 0
    for term in terms:
        found |= term
    return found


def needs(v: View) -> Needs:
    """(a, b, why): row b cannot be without row a. What is not listed at all is no row: the fully trained program lacks it, or it is a placeholder's."""
    for a, b in data(v):
        yield a, b, "what it is computed from"
    for sends, receives in v.edges.values():
        for a, b in zip(sends, receives):
            yield a, b, "its send"
            yield b, a, "its receive"
    sent: dict = {}
    for i in v.peer_of:
        k, key = v.kind[i], v.stage[i] * v.M + v.mb[i]
        if k in (SEND_F, SEND_B):
            sent[k, key] = i
        if k in PIPELINE:
            other = v.first[F].get(key) if k in (SEND_F, RECV_F) else gradient_row(v, key)
            if other is not None:
                yield (other, i, "what it sends") if (k, key) in sent else (i, other, "what it is fed with")
    for wait, send in ((WAIT_F, SEND_F), (WAIT_B, SEND_B)):
        for i in v.rows[wait]:
            yield sent[send, v.stage[i] * v.M + v.mb[i]], i, "the send it waits for"
    for by_rank in v.entered.values():
        members = list(by_rank.values())
        for rows, others in zip(members, members[1:] + members[:1]):        # in a circle: each needs all
            for a, b in zip(rows, others):
                yield a, b, "the other members"
