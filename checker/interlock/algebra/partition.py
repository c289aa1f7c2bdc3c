"""Layers of a Sharded region to its stages: evenly, balanced by time, or as listed. Contiguous, and never
through an `attach`.
"""

from __future__ import annotations

from collections.abc import Sequence

from interlock.algebra.cut import Region
from interlock.algebra.model import Chain
from interlock.language import ast
from interlock.text.finding import error


def partition(region: Region, chain: Chain, stages: int, weights: Sequence[int] | None) -> list[int]:
    """Layers of each stage of the region, in chain order. `weights[l]` is the time of a layer, None where no
    layer has one.

    Raises IL205 (more stages than layers) and IL210 (a list that does not fit).
    """
    atoms = _atoms(region, chain)
    argument = region.arguments.get("partition")
    span = argument.span if argument else region.span
    if len(atoms) < stages:
        glued = f" in {len(atoms)} glued blocks" if len(atoms) < region.last - region.first else ""
        count = region.last - region.first
        raise error(
            "IL205",
            f"region `{region.name}` has {stages} stages and {count} layer{'s' * (count != 1)}{glued}",
            region.span,
            "a stage would be empty",
            "use fewer ranks or chunks, or give the region more layers",
        )
    match argument.value if argument else None:
        case None | ast.Word(text="even"):
            return even(atoms, stages)
        case ast.Word(text="balanced"):
            return balanced(
                atoms,
                [
                    sum(weights[region.first : region.last][a:b]) if weights else b - a
                    for a, b in _bounds(atoms)
                ],
                stages,
            )
        case ast.ListValue() as value:
            counts = _flat(value)
        case other:
            raise error(
                "IL210",
                "this is no partition",
                other.span,
                help="write `even`, `balanced` or a list such as `[11, 13, 13, 12]`",
            )
    if len(counts) != stages:
        raise error(
            "IL210",
            f"the partition of `{region.name}` has {len(counts)} entries for {stages} stages",
            span,
            help="give the layers of each stage, in the order of the chain",
        )
    total = region.last - region.first
    if 0 in counts:
        raise error(
            "IL210",
            f"the partition of `{region.name}` leaves stage {counts.index(0)} of the region empty",
            span,
            help="a stage has 1 layer or more",
        )
    if sum(counts) != total:
        raise error(
            "IL210",
            f"the partition of `{region.name}` places {sum(counts)} layers and the region has {total}",
            span,
            help=f"{'add' if sum(counts) < total else 'take away'} {abs(total - sum(counts))}",
        )
    at = region.first
    for count in counts[:-1]:
        at += count
        if at in chain.glued:
            raise error(
                "IL210",
                f"the partition of `{region.name}` parts layers `{chain.layers[at - 1].name}` and "
                f"`{chain.layers[at].name}`, "
                "which `attach` glues",
                span,
                help="move the border by a layer, or delete the `attach`",
            )
    return counts


def _flat(value: ast.ListValue) -> list[int]:
    out: list[int] = []
    for item in value.items:
        match item:
            case ast.Int(value=n):
                out.append(n)
            case ast.ListValue():
                out += _flat(item)
            case _:
                raise error("IL210", "a partition lists numbers of layers", item.span)
    return out


def _atoms(region: Region, chain: Chain) -> list[int]:
    """Sizes of the blocks of layers that no stage border may part."""
    borders = [l for l in range(region.first, region.last) if l == region.first or l not in chain.glued] + [
        region.last
    ]
    return [b - a for a, b in zip(borders, borders[1:])]


def _bounds(atoms: list[int]):
    at = 0
    for size in atoms:
        yield at, at + size
        at += size


def even(atoms: list[int], stages: int) -> list[int]:
    """Layer counts that differ by at most one, the larger ones first; with glued blocks the smallest largest
    count.
    """
    if all(a == 1 for a in atoms):
        size, more = divmod(len(atoms), stages)
        return [size + (s < more) for s in range(stages)]
    return balanced(atoms, atoms, stages)


def balanced(atoms: list[int], weights: list[int], stages: int) -> list[int]:
    """The contiguous partition with the smallest largest weight; among these each stage in turn takes as much
    as it may.

    `atoms[i]` layers weigh `weights[i]`. O(n log sum).
    """
    low, high = max(weights), sum(weights)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _stages_needed(weights, middle) <= stages else (middle + 1, high)
    out, i = [], 0
    for s in range(stages):
        left = stages - s - 1  # stages that still need a block each
        size = weight = 0
        while i < len(weights) - left and (size == 0 or weight + weights[i] <= low or left == 0):
            size, weight, i = size + atoms[i], weight + weights[i], i + 1
        out.append(size)
    return out


def _stages_needed(weights: list[int], limit: int) -> int:
    count, weight = 1, 0
    for w in weights:
        if weight + w > limit:
            count, weight = count + 1, 0
        weight += w
    return count
