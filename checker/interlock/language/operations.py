"""Operations of orders and traces: from the words as written to nodes, and the shape a launch, an overlap, a
repeat must have.
"""

from __future__ import annotations

import re

from interlock.language.ast import Launch, Op, Overlap, Repeat
from interlock.program import kinds
from interlock.text.quantities import NumberError, read_int
from interlock.text.source import Span

WITH_MICROBATCH = frozenset(kind.name for kind in kinds.WITH_MICROBATCH)
WITH_STAGE = frozenset(kind.name for kind in kinds.WITH_STAGE - kinds.WITH_MICROBATCH)
ALONE = frozenset(kind.name for kind in kinds.ALONE)
TRANSFERS = frozenset(kind.name for kind in kinds.TRANSFER)
LARGEST_INDEX = 2**31 - 1  # columns of a program are 32 bits wide (program/ir.py)

KINDS = "kinds: F B I W LOSS, SEND_F RECV_F SEND_B RECV_B, WAIT_F WAIT_B, REDUCE UNSHARD RESHARD, STEP ZERO"
FORMS = {
    "send": "send(PEER, NAME)",
    "recv": "recv(PEER, NAME)",
    "wait": "wait(NAME)",
    "free": "free(NAME)",
    "coll": "coll(COMMUNICATOR, NAME)",
    "init": "init(COMMUNICATOR)",
    "reduce": "reduce(data: NAME)` or `reduce(tie: NAME)",
    "zero": "zero",
    "step": "step",
}

NEAR = {
    "REDUCE_GRAD": "REDUCE",
    "RECV": "RECV_F` or `RECV_B",
    "SEND": "SEND_F` or `SEND_B",
    "FWD": "F",
    "BWD": "B",
    "FORWARD": "F",
    "BACKWARD": "B",
}

_PLAIN = re.compile(r"([0-9]++)([A-Za-z_]++)([0-9]*+)(?:@([A-Za-z_][A-Za-z0-9_]*+))?+([^ \t]*+)")
_REPEATED = re.compile(r"([0-9]++)([A-Za-z_]++)([0-9]*+)([A-Za-z_]\w*)?\.\.([0-9]++)(?:@(.*))?")


class OperationError(Exception):
    """An operation that is none: code, message, help, and the place."""

    def __init__(self, code: str, message: str, span: Span, help: str):
        super().__init__(message)
        self.code, self.message, self.span, self.help = code, message, span, help


def _index(digits: str, span: Span) -> int:
    if len(digits) < 10:
        return int(digits)
    try:
        return read_int(digits, LARGEST_INDEX)
    except NumberError as e:
        raise OperationError(e.code, e.message, span, e.help) from None


def _plain(match: re.Match, span: Span) -> Op:
    stage, kind, mb, comm, rest = match.groups()
    text = match.group()
    if rest:
        raise OperationError(
            "IL101",
            f"`{text}` is no operation",
            span,
            f"operations are written `0F3`, `1SEND_F0@seam`, `0REDUCE`; {KINDS}",
        )
    if kind in WITH_MICROBATCH:
        if not mb:
            raise OperationError(
                "IL101", f"`{text}` names no microbatch", span, f"write it after the kind: `{text}0`"
            )
        if comm and kind not in TRANSFERS:
            raise OperationError(
                "IL101",
                f"`{kind}` uses no communicator",
                span,
                f"write `{stage}{kind}{mb}`; only transfers and collectives name one",
            )
        return Op(kind, span, _index(stage, span), _index(mb, span), -1, None, comm)
    if kind in WITH_STAGE:
        if mb or comm:
            raise OperationError(
                "IL101", f"`{kind}` is of a stage as a whole", span, f"write `{stage}{kind}`"
            )
        return Op(kind, span, _index(stage, span))
    if kind.upper() in ALONE:
        raise OperationError("IL101", f"`{kind}` is of a rank as a whole", span, f"write `{kind}`")
    if kind.upper() in WITH_MICROBATCH | WITH_STAGE:
        raise OperationError(
            "IL101",
            f"`{kind}` is written in capitals",
            span,
            f"write `{text.replace(kind, kind.upper(), 1)}`",
        )
    near = NEAR.get(kind.upper())
    raise OperationError(
        "IL107", f"unknown kind of operation `{kind}`", span, f"did you mean `{near}`?" if near else KINDS
    )


def plain(text: str, at: int, errors: list[OperationError]) -> list[Op]:
    """The operations of a run such as `0F0 1SEND_F0@seam 0REDUCE` that starts at place `at`."""
    ops = []
    for match in _PLAIN.finditer(text):
        start, end = match.span()
        span = Span(at + start, end - start)
        stage, kind, mb, comm, rest = match.groups()
        if kind in WITH_MICROBATCH and mb and not comm and not rest and len(stage) < 10 and len(mb) < 10:
            ops.append(Op(kind, span, int(stage), int(mb)))
            continue
        try:
            ops.append(_plain(match, span))
        except OperationError as e:
            errors.append(e)
    return ops


def repeated(text: str, span: Span) -> Repeat:
    """`0F0..3`. Raises OperationError."""
    stage, kind, mb, junk, last, comm = _REPEATED.fullmatch(text).groups()
    if junk or not mb:
        raise OperationError(
            "IL101",
            f"`{text}` is no repeat of an operation",
            span,
            "a repeat is written `0F0..3`: stage, kind, first..last microbatch",
        )
    at = f"@{comm}" if comm else ""
    first, final = (_plain(_PLAIN.fullmatch(f"{stage}{kind}{m}{at}"), span) for m in (mb, last))
    if final.mb < first.mb:
        raise OperationError(
            "IL101",
            f"`{text}` counts down",
            span,
            "a repeat counts up by one; write the operations one by one",
        )
    return Repeat((first,), (final,), final.mb - first.mb + 1, span)


def word(name: str, operands: list, comm: str | None, span: Span) -> Op:
    """`send(1, a0)@c`, `step`. Operands: int, str, or (label, str). Raises OperationError."""
    upper = name.upper()
    shape = " ".join({int: "number", str: "name"}.get(type(o)) or f"{o[0]}: name" for o in operands) + (
        " @" if comm else ""
    )
    match name, shape:
        case "zero" | "step" | "ZERO" | "STEP", "":
            return Op(upper, span)
        case "send" | "recv", "number name" | "number name @":
            if operands[0] > LARGEST_INDEX:
                raise OperationError(
                    "IL104",
                    f"`{operands[0]}` is too large for a rank",
                    span,
                    f"the largest index is {LARGEST_INDEX}",
                )
            return Op(upper, span, peer=operands[0], name=operands[1], comm=comm)
        case "wait" | "free", "name":
            return Op(upper, span, name=operands[0])
        case "coll", "name name":
            return Op(upper, span, name=operands[1], comm=operands[0])
        case "init", "name":
            return Op(upper, span, comm=operands[0])
        case "reduce", "data: name":
            return Op("REDUCE_DATA", span, name=operands[0][1])
        case "reduce", "tie: name" | "tie: name @":
            return Op("REDUCE_TIE", span, name=operands[0][1], comm=comm)
    raise OperationError(
        "IL101", f"`{name}` is not used in this way", span, f"it is written `{FORMS[name.lower()]}`"
    )


def launch(items: list, span: Span) -> Launch:
    for item in items:
        if isinstance(item, (Launch, Overlap)):
            raise OperationError(
                "IL101",
                "a grouped launch inside another, or an overlap in one",
                item.span,
                "close the launch before it",
            )
        for op in item.first if isinstance(item, Repeat) else (item,):
            if isinstance(op, Op) and op.kind not in TRANSFERS:
                raise OperationError(
                    "IL101",
                    f"a grouped launch holds transfers, not `{op.kind}`",
                    op.span,
                    "move it out of the braces; two compute operations at once are `overlap(0F3 3B3)`",
                )
    if not items:
        raise OperationError("IL101", "an empty launch", span, "delete the braces")
    return Launch(tuple(items), span)


def overlap(items: list, span: Span) -> Overlap:
    kinds = [item.kind if isinstance(item, Op) else "" for item in items]
    check_overlap(kinds, span)
    return Overlap(tuple(items), span)


def check_overlap(kinds: list[str], span: Span) -> None:
    if not (len(kinds) == 2 and kinds.count("F") == 1 and {"B", "I", "W"} & set(kinds)):
        raise OperationError(
            "IL101",
            "an overlap has two halves: one F, and one of B, I, W",
            span,
            "such as `overlap(0F3 3B3)`; in a skeleton `overlap { F(i)  B(j) }`",
        )


def repeat(first: list, last: list, first_span: Span, last_span: Span) -> Repeat:
    """`(1F4 1B0) .. (1F15 1B11)`. Raises OperationError where the two groups do not differ by one distance
    alone.
    """
    span = first_span.to(last_span)
    distances: dict[int, Span] = {}
    _compare(first, last, distances, last_span)
    if not first:
        raise OperationError(
            "IL101",
            "a repeat of nothing",
            span,
            "write the first and the last repetition: `(1F4 1B0) .. (1F15 1B11)`",
        )
    distances.pop(0, None)
    if len(distances) > 1:
        (a, _), (b, at) = list(distances.items())[:2]
        raise OperationError(
            "IL101",
            f"the indices of this repeat advance by {a} and by {b}",
            at,
            "every index that differs advances by one in each repetition, so all differences are equal",
        )
    distance = next(iter(distances), 0)
    if distance < 0:
        raise OperationError(
            "IL101",
            "this repeat counts down",
            last_span,
            "every index that differs advances by one in each repetition",
        )
    return Repeat(tuple(first), tuple(last), distance + 1, span)


def _compare(first: list | tuple, last: list | tuple, distances: dict[int, Span], last_span: Span) -> None:
    unlike = "the two groups of a repeat are the same operations, with other numbers"
    if len(first) != len(last):
        raise OperationError(
            "IL101",
            f"the first group of this repeat has {len(first)} operations, the last one {len(last)}",
            last_span,
            unlike,
        )
    for a, b in zip(first, last):
        if isinstance(a, Repeat) or isinstance(b, Repeat):
            raise OperationError(
                "IL101",
                "a repeat inside a repeat",
                (a if isinstance(a, Repeat) else b).span,
                "write the inner one out",
            )
        if type(a) is not type(b):
            raise OperationError("IL101", "the groups of this repeat differ here", b.span, unlike)
        if not isinstance(a, Op):
            _compare(a.items, b.items, distances, b.span)
            continue
        if (a.kind, a.name, a.comm) != (b.kind, b.name, b.comm):
            raise OperationError("IL101", "the groups of this repeat differ here", b.span, unlike)
        for x, y in ((a.stage, b.stage), (a.mb, b.mb), (a.peer, b.peer)):
            distances.setdefault(y - x, b.span)
