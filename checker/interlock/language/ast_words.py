"""The syntax tree of words, numbers and expressions."""

from __future__ import annotations

from dataclasses import dataclass

from interlock.text.source import Span


@dataclass(frozen=True, slots=True)
class Word:
    """A name where it stands: of a layer group, a skeleton, a communicator, a model of communication."""

    text: str
    span: Span

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Int:
    value: int
    span: Span


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with its unit, exact, in the base unit of its dimension.

    dimension: `time` (ns), `bytes`, `flop`, `bytes/s`, `flop/s`; `percent` and `number` keep decimals, as
    `value / scale`. `scale` is 1 for the others.
    """

    value: int
    dimension: str
    span: Span
    scale: int = 1
    per_image: bool = False


@dataclass(frozen=True, slots=True)
class IndexRange:
    """`a..b`, both ends included; a single index is `a..a`. Of ranks, stages, microbatches."""

    first: int
    last: int
    span: Span


@dataclass(frozen=True, slots=True)
class LayerRef:
    """`vit`, `vit[3]`, `vit[0..11]`: a layer group (or, in `for any freezing of`, a region) or layers of it."""

    group: Word
    range: IndexRange | None
    span: Span


# ---- expressions -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Name:
    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Call:
    """`min(a, b)`, `max(a, b)`, `owned(r)`; in claims also figures of a rank: `in_flight(r)`."""

    function: Word
    arguments: tuple[Expr, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Negate:
    operand: Expr
    span: Span


@dataclass(frozen=True, slots=True)
class Binary:
    """operator: `+ - * div mod` (div and mod round down)."""

    operator: str
    left: Expr
    right: Expr
    span: Span


@dataclass(frozen=True, slots=True)
class Compare:
    """operator: `< <= > >= == !=`."""

    operator: str
    left: Expr
    right: Expr
    span: Span


@dataclass(frozen=True, slots=True)
class Logic:
    """operator: `and`, `or`."""

    operator: str
    left: Condition
    right: Condition
    span: Span


@dataclass(frozen=True, slots=True)
class Not:
    operand: Condition
    span: Span


Expr = Int | Quantity | Name | Call | Negate | Binary  # Quantity: in claims only
Condition = Compare | Logic | Not | Name | Call  # Name, Call: a claim such as `deadlock_free`


@dataclass(frozen=True, slots=True)
class Claim:
    """A line of `require` or `prove`: `bubble <= 12%`, `deadlock_free under blocking`."""

    condition: Condition
    models: tuple[Word, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Prove:
    """`prove for P >= 1, M >= 1 { claims }`."""

    given: tuple[Condition, ...]
    claims: tuple[Claim, ...]
    span: Span
