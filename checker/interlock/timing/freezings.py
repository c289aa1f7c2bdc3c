"""The freezings of some layers that give different durations, for `for any freezing` (spec/cost.md, "Every
freezing")."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from interlock.program.ir import Layer, Program

FREEZINGS_LIMIT = 1_024  # freezings tried,
ROWS_LIMIT = 2_000_000  # .. and operations in all of them


def distinct_freezings(
    program: Program, free: Collection[int], unlike: Sequence[Hashable]
) -> Iterator[frozenset[int]]:
    """Sets of `free` layers that are trained, the others frozen: one of each class that no duration tells
    apart.

    All of them come first, none second. Neighbours of one stage that are described alike (`unlike[l]`: what
    else tells layers apart) form a run. Of a run it matters how many layers are trained and, if nothing
    before it on its path is, which one is the first: the layers after that one pay for their input gradient.
    """
    first: tuple[frozenset[int], frozenset[int]] = (frozenset(free), frozenset())
    yield from dict.fromkeys(first)
    fixed = {l for l, layer in enumerate(program.layers) if layer.trainable and l not in free}
    for trained in _choices(program.layers, list(_runs(program, free, unlike)), fixed, frozenset()):
        if trained not in first:
            yield trained


def _runs(program: Program, free: Collection[int], unlike: Sequence[Hashable]) -> Iterator[list[int]]:
    stage_of = {l: s for s, stage in enumerate(program.stages) for l in range(stage.first, stage.last)}

    def description(l: int) -> tuple[bool, int | None, Layer, Hashable]:
        layer = replace(program.layers[l], name="", trainable=True)
        return l in free, stage_of.get(l), layer, unlike[l]

    for (is_free, *_), run in groupby(range(len(program.layers)), key=description):
        if is_free:
            yield list(run)


def _choices(
    layers: Sequence[Layer], runs: list[list[int]], fixed: Collection[int], chosen: frozenset[int]
) -> Iterator[frozenset[int]]:
    """`chosen` with every choice of trained layers of the runs."""
    if not runs:
        yield chosen
        return
    run, *rest = runs
    n = len(run)
    before = any(
        l < run[0] and layers[l].modality in (None, layers[run[0]].modality) for l in (*fixed, *chosen)
    )
    for start in range(1 if before else n):
        for count in range(n - start, 0, -1):
            yield from _choices(layers, rest, fixed, chosen.union(run[start : start + count]))
    yield from _choices(layers, rest, fixed, chosen)


def name_layers(program: Program, layers: Collection[int]) -> str:
    """`vit[0..3], proj`; `nothing` if there are none."""
    groups = [layer.name.split("[")[0] for layer in program.layers]
    indices = [layer.name[len(group) :].strip("[]") for layer, group in zip(program.layers, groups)]

    def run_of(item: tuple[int, int]) -> tuple[str, int]:
        place, l = item
        return groups[l], l - place

    parts = []
    for (group, _), run in groupby(enumerate(sorted(layers)), key=run_of):
        members = [l for _, l in run]
        first, last = indices[members[0]], indices[members[-1]]
        if len(members) == groups.count(group):
            parts.append(group)
        else:
            parts.append(f"{group}[{first}]" if len(members) == 1 else f"{group}[{first}..{last}]")
    return ", ".join(parts) or "nothing"
