"""The machine of a schedule: bytes a rank has and holds for each weight, links, devices, replicas
(spec/language.md, "The machine").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from interlock.algebra.indices import indices
from interlock.language import ast
from interlock.program.ir import Memory, Size
from interlock.text.finding import error
from interlock.timing.durations import DataParallel, Link, Machine

BYTES_OF_A_PARAMETER = 2


@dataclass(frozen=True)
class Hardware:
    """What a schedule says of links, devices and replicas of the pipeline.

    speeds: of each rank, () where all are 1. gradient: bytes that are summed for each weight byte: of whole
    gradients, also where a rank
    keeps a part of them.
    """

    links: tuple[ast.Link, ...] = ()
    device: ast.Device | None = None
    replicas: ast.Replicas | None = None
    speeds: tuple[Fraction, ...] = ()
    gradient: Fraction = Fraction(1)


def hardware(schedule: ast.Schedule, ranks: int) -> Hardware:
    """Raises IL204 for a rank that does not exist."""
    for link in schedule.links:
        if link.ranks is not None and (max(link.ranks) >= ranks or link.ranks[0] == link.ranks[1]):
            raise error(
                "IL204",
                f"there is no link {link.ranks[0]}-{link.ranks[1]}: a link joins two of the ranks "
                f"0..{ranks - 1}",
                link.span,
            )
    lines = schedule.device.speeds if schedule.device else ()
    speeds = (
        _of_ranks(lines, ranks, Fraction(1), lambda s: Fraction(s.factor.value, s.factor.scale))
        if lines
        else ()
    )
    node = schedule.memory
    gradient = (
        _per_weight_byte(node.gradient._replace(shards=None), node.weights)
        if node and node.gradient
        else Fraction(1)
    )
    return Hardware(schedule.links, schedule.device, schedule.replicas, speeds, gradient)


def memory(node: ast.MemoryBlock | None, ranks: int) -> Memory | None:
    """Raises IL204 for a rank that does not exist."""
    if node is None:
        return None
    state = [
        _per_weight_byte(share, node.weights) for share in (node.master, node.optimizer) if share is not None
    ]
    gradient = _per_weight_byte(node.gradient, node.weights) if node.gradient is not None else Fraction(1)

    def ratio(fraction):
        return (fraction.numerator, fraction.denominator)

    return Memory(
        _of_ranks(node.capacities, ranks, None, lambda c: c.size.value),
        ratio(gradient),
        ratio(sum(state, Fraction(0))),
    )


def _of_ranks(lines, ranks: int, default, value: Callable) -> tuple:
    """For each rank the value of the line that names it, else of the one for all ranks. Raises IL204."""
    out = [next((value(line) for line in lines if not line.ranks), default)] * ranks
    for line in lines:
        for r in indices(line.ranks, ranks, "rank", "IL204"):
            out[r] = value(line)
    return tuple(out)


def bytes_per_parameter(weights: ast.Share | None) -> int:
    return weights.amount.value if weights is not None else BYTES_OF_A_PARAMETER


def _per_weight_byte(share: ast.Share, weights: ast.Share | None) -> Fraction:
    """Bytes that a rank holds for each byte of weights."""
    unit = bytes_per_parameter(weights) if share.unit == "parameter" else 1
    return Fraction(
        share.amount.value, share.amount.scale * unit * (share.shards.value if share.shards else 1)
    )


def logits_of(share: ast.Share, vocabulary: int, tokens: Size) -> Size:
    """tokens * vocabulary * bytes / shards, rounded up: what the loss keeps of a microbatch until its
    gradient is known.
    """

    def part(n):
        return -(-n * vocabulary * share.amount.value // (share.shards.value if share.shards else 1))

    return Size(part(tokens.fixed), part(tokens.per_image))


class Described(Protocol):
    """An elaborated schedule, or its setting."""

    @property
    def hardware(self) -> Hardware: ...


def machine_of(schedule: Described, **options: Any) -> Machine:
    """The machine that a schedule describes, as durations depend on it. `options`: further fields of Machine,
    which replace its own.
    """
    described = schedule.hardware
    links, pairs = _links(described.links)
    fields: dict[str, Any] = {
        "links": links,
        "pairs": pairs,
        "speeds": described.speeds,
        "gradient": described.gradient,
    }
    if (device := described.device) is not None:
        overlaps = {o.stages and tuple(s.first for s in o.stages): o.time.value for o in device.overlaps}
        fields |= {"overhead": device.overhead.value if device.overhead else 0, "overlap": overlaps or None}
    if (replicas := described.replicas) is not None:
        fields["data"] = DataParallel(replicas.number.value, _link(replicas, Link()), not replicas.blocking)
    return Machine(**(fields | options))


def _links(lines: Sequence[ast.Link]) -> tuple[Link, dict[tuple[int, int], Link]]:
    """The link of every pair of ranks, and those of single pairs: what a pair's line leaves out is that of
    every pair.
    """
    common = Link()
    for line in lines:
        if line.ranks is None:
            common = _link(line, common)
    pairs = {
        (min(line.ranks), max(line.ranks)): _link(line, common) for line in lines if line.ranks is not None
    }
    return common, pairs


def _link(line: ast.Link | ast.Replicas, default: Link) -> Link:
    return Link(
        line.latency.value if line.latency else default.latency,
        line.bandwidth.value if line.bandwidth else default.bandwidth,
    )
