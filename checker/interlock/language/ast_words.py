"""The syntax tree of words, numbers and expressions."""

from __future__ import annotations

from typing import NamedTuple

from interlock.text.source import Span


class Word(NamedTuple):
    """A name where it stands: of a layer group, a skeleton, a communicator, a model of communication."""

    text: str
    span: Span

    def __str__(self) -> str:
        return self.text


class Int(NamedTuple):
    value: int
    span: Span


class Quantity(NamedTuple):
    """A number with its unit, exact, in the base unit of its dimension.

    dimension: `time` (ns), `bytes`, `flop`, `bytes/s`, `flop/s`; `percent` and `number` keep decimals, as
    `value / scale`. `scale` is 1 for the others.
    """

    value: int
    dimension: str
    span: Span
    scale: int = 1
    per_image: bool = False


class IndexRange(NamedTuple):
    """`a..b`, both ends included; a single index is `a..a`. Of ranks, stages, microbatches."""

    first: int
    last: int
    span: Span


class LayerRef(NamedTuple):
    """`vit`, `vit[3]`, `vit[0..11]`: a layer group (or, in `for any freezing of`, a region) or
    layers of it.
    """

    group: Word
    range: IndexRange | None
    span: Span


# ---- expressions -------------------------------------------------------------------------------


class Name(NamedTuple):
    text: str
    span: Span


class Call(NamedTuple):
    """`min(a, b)`, `max(a, b)`, `owned(r)`; in claims also figures of a rank: `in_flight(r)`."""

    function: Word
    arguments: tuple[Expr, ...]
    span: Span


class Negate(NamedTuple):
    operand: Expr
    span: Span


class Binary(NamedTuple):
    """operator: `+ - * div mod` (div and mod round down)."""

    operator: str
    left: Expr
    right: Expr
    span: Span


class Compare(NamedTuple):
    """operator: `< <= > >= == !=`."""

    operator: str
    left: Expr
    right: Expr
    span: Span


class Logic(NamedTuple):
    """operator: `and`, `or`."""

    operator: str
    left: Condition
    right: Condition
    span: Span


class Not(NamedTuple):
    operand: Condition
    span: Span


Expr = Int | Quantity | Name | Call | Negate | Binary  # Quantity: in claims only
Condition = Compare | Logic | Not | Name | Call  # Name, Call: a claim such as `deadlock_free`


class Claim(NamedTuple):
    """A line of `require` or `prove`: `bubble <= 12%`, `deadlock_free under blocking`."""

    condition: Condition
    models: tuple[Word, ...]
    span: Span


class Prove(NamedTuple):
    """`prove for P >= 1, M >= 1 { claims }`."""

    given: tuple[Condition, ...]
    claims: tuple[Claim, ...]
    span: Span
