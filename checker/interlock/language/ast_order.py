"""The syntax tree of orders, traces and the places of stages."""

from __future__ import annotations

from dataclasses import dataclass

from interlock.language.ast_words import IndexRange, Int
from interlock.text.source import Span


@dataclass(frozen=True, slots=True)
class PlaceRank:
    """`rank 0: 0, 3`: stages of a rank."""

    rank: Int
    stages: tuple[IndexRange, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class PlaceReplicated:
    """`replicated 4: owner [0, 1, 0, 1]`: a stage on every rank, with the rank that runs each microbatch."""

    stage: Int
    owner: tuple[Int, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Place:
    lines: tuple[PlaceRank | PlaceReplicated, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Op:
    """One operation as `spec/program.md` lists them; kind is the name in capitals (`F`, `SEND_F`, `REDUCE_TIE`), -1 and
    None are absent. `name` is the payload, tie or parameter set, `comm` the communicator as written."""

    kind: str
    span: Span
    stage: int = -1
    mb: int = -1
    peer: int = -1
    name: str | None = None
    comm: str | None = None


@dataclass(frozen=True, slots=True)
class Launch:
    """`{ 0SEND_F1 3RECV_F0 }`: one grouped launch."""

    items: tuple[Op | Repeat, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Overlap:
    """`overlap(0F3 3B3)`: one operation of two halves."""

    items: tuple[Op, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Repeat:
    """`0F0..3`, `(1F4 1B0) .. (1F15 1B11)`: `count` copies of `first`; every index that differs in `last` advances by one."""

    first: tuple[Op | Launch | Overlap, ...]
    last: tuple[Op | Launch | Overlap, ...]
    count: int
    span: Span


Item = Op | Launch | Overlap | Repeat  # `expand.expand` removes the Repeats


@dataclass(frozen=True, slots=True)
class RankOrder:
    rank: Int
    items: tuple[Item, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Order:
    """`fragment order transfers written reductions inserted { .. }`; of a `trace` both are written."""

    form: str  # order, trace
    transfers: str  # inserted, written
    reductions: str
    fragment: bool
    ranks: tuple[RankOrder, ...]
    span: Span
