"""The syntax tree of skeletons: loop programs for one rank."""

from __future__ import annotations

from typing import NamedTuple

from interlock.language.ast_words import Call, Condition, Expr, Prove, Word
from interlock.text.source import Span


class SkeletonOp(NamedTuple):
    """`F(i)`, `B(i, 1)`, `SEND_F(i)@seam`, `REDUCE(0)`: arguments are the microbatch and the chunk (REDUCE:
    the chunk).
    """

    kind: str
    arguments: tuple[Expr, ...]
    comm: Word | None
    span: Span


class Let(NamedTuple):
    name: Word
    value: Expr
    span: Span


class Range(NamedTuple):
    """`first ..< end`."""

    first: Expr
    end: Expr
    span: Span


class For(NamedTuple):
    """`for i in 0 ..< n { }`, `for m in owned(r) { }`."""

    variable: Word
    over: Range | Call
    body: tuple[Statement, ...]
    span: Span


class If(NamedTuple):
    """`if c { } else if d { } else { }`: (c, d) with one block each, and the last block."""

    conditions: tuple[Condition, ...]
    blocks: tuple[tuple[Statement, ...], ...]
    otherwise: tuple[Statement, ...]
    span: Span


class Group(NamedTuple):
    """`overlap { F(i, 0) B(j, 1) }` or `group { .. }`, one grouped launch."""

    form: str  # overlap, group
    body: tuple[SkeletonOp, ...]
    span: Span


class Body(NamedTuple):
    """`body`: here the inner regions run."""

    span: Span


Statement = SkeletonOp | Let | For | If | Group | Body


class RankProgram(NamedTuple):
    """`rank r { .. }`."""

    variable: Word
    body: tuple[Statement, ...]
    span: Span


class PlaceMap(NamedTuple):
    """`place map(r, c) = c*P + r`: the stage of chunk c of rank r."""

    rank: Word
    chunk: Word
    stage: Expr
    span: Span


class Skeleton(NamedTuple):
    name: Word
    parameters: tuple[Word, ...]
    layout: str  # sharded, replicated
    chunks: Expr | None  # `chunks 2`, `chunks V`
    place: Word | PlaceMap | None  # loop, vee, a map
    weaves_into: Word | None
    where: Condition | None
    transfers: str  # inserted, or written: the program lists its own
    program: RankProgram | None
    proves: tuple[Prove, ...]
    span: Span
