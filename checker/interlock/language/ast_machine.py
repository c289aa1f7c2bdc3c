"""The syntax tree of what a schedule says about its machine: bytes, links, speeds (spec/language.md, "The
machine").
"""

from __future__ import annotations

from typing import NamedTuple

from interlock.language.ast_words import IndexRange, Int, Quantity
from interlock.text.source import Span


class Capacity(NamedTuple):
    """`capacity 64GiB`, for all ranks (ranks empty), or `capacity 80GiB on ranks 0, 4..7`, which goes before
    it.
    """

    size: Quantity
    ranks: tuple[IndexRange, ...]
    span: Span


class Share(NamedTuple):
    """`optimizer 8 per weight byte`, `master 4B per parameter sharded 8`, `logits 4B per vocabulary entry`.

    unit: `weight byte`, `parameter`, `vocabulary entry`; shards: ranks that each hold one part of it, None:
    it is whole.
    """

    amount: Quantity
    unit: str
    shards: Int | None
    span: Span


class MemoryBlock(NamedTuple):
    """None where not given."""

    capacities: tuple[Capacity, ...]
    span: Span
    weights: Share | None = None
    gradient: Share | None = None
    master: Share | None = None
    optimizer: Share | None = None
    logits: Share | None = None


class Link(NamedTuple):
    """`link { .. }`, ranks None: every pair; `link 3-4 { .. }`: one pair, both directions."""

    ranks: tuple[int, int] | None
    latency: Quantity | None
    bandwidth: Quantity | None
    span: Span


class Replicas(NamedTuple):
    """`replicas 8 { latency 5us  bandwidth 100GB/s }`; blocking: reductions stand in the rank's order, not
    beside it.
    """

    number: Int
    latency: Quantity | None
    bandwidth: Quantity | None
    blocking: bool
    span: Span


class Speed(NamedTuple):
    """`speed 0.8`, of all ranks (ranks empty), or `speed 0.8 on ranks 2, 3`, which goes before it."""

    factor: Quantity
    ranks: tuple[IndexRange, ...]
    span: Span


class OverlapTime(NamedTuple):
    """`overlap 3ms`, of every overlap (stages None), or `overlap 3ms on stages 0, 7`: of a forward of stage 0
    with a backward of stage 7.
    """

    time: Quantity
    stages: tuple[IndexRange, IndexRange] | None
    span: Span


class Device(NamedTuple):
    peak_flops: Quantity | None
    hbm_bandwidth: Quantity | None
    overhead: Quantity | None
    speeds: tuple[Speed, ...]
    overlaps: tuple[OverlapTime, ...]
    span: Span
