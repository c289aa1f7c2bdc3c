"""The syntax tree of orders, traces and the places of stages."""

from __future__ import annotations

from typing import NamedTuple

from interlock.language.ast_words import IndexRange, Int
from interlock.text.source import Span


class PlaceRank(NamedTuple):
    """`rank 0: 0, 3`: stages of a rank."""

    rank: Int
    stages: tuple[IndexRange, ...]
    span: Span


class PlaceReplicated(NamedTuple):
    """`replicated 4: owner [0, 1, 0, 1]`: a stage on every rank, with the rank that runs each microbatch."""

    stage: Int
    owner: tuple[Int, ...]
    span: Span


class Place(NamedTuple):
    lines: tuple[PlaceRank | PlaceReplicated, ...]
    span: Span


class Op(NamedTuple):
    """One operation as `spec/program.md` lists them; kind is the name in capitals (`F`, `SEND_F`,
    `REDUCE_TIE`), -1 and
    None are absent. `name` is the payload, tie or parameter set, `comm` the communicator as written."""

    kind: str
    span: Span
    stage: int = -1
    mb: int = -1
    peer: int = -1
    name: str | None = None
    comm: str | None = None


class Launch(NamedTuple):
    """`{ 0SEND_F1 3RECV_F0 }`: one grouped launch."""

    items: tuple[Op | Repeat, ...]
    span: Span


class Overlap(NamedTuple):
    """`overlap(0F3 3B3)`: one operation of two halves."""

    items: tuple[Op, ...]
    span: Span


class Repeat(NamedTuple):
    """`0F0..3`, `(1F4 1B0) .. (1F15 1B11)`: `times` copies of `first`; every index that differs in `last`
    advances by one.
    """

    first: tuple[Op | Launch | Overlap, ...]
    last: tuple[Op | Launch | Overlap, ...]
    times: int
    span: Span


Item = Op | Launch | Overlap | Repeat  # `expand.expand` removes the Repeats


class RankOrder(NamedTuple):
    rank: Int
    items: tuple[Item, ...]
    span: Span


class Order(NamedTuple):
    """`fragment order transfers written reductions inserted { .. }`; of a `trace` both are written."""

    form: str  # order, trace
    transfers: str  # inserted, written
    reductions: str
    fragment: bool
    ranks: tuple[RankOrder, ...]
    span: Span
