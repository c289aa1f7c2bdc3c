"""The freezings of some layers that give different durations: what `bubble` and `exposure` are asked for under `for any freezing` (spec/cost.md)."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from interlock.program.ir import Layer, Program

MOST = 1_024  # freezings tried,
MOST_ROWS = 2_000_000  # .. and operations in all of them


def freezings(
    program: Program, free: Collection[int], unlike: Sequence[Hashable]
) -> Iterator[frozenset[int]]:
    """Sets of `free` layers that are trained, the others frozen: one of each class that no duration tells apart; all of them first, none second.

    Neighbours of one stage that are described alike (`unlike`: what else tells two layers apart) form a run. Of a run it matters how many layers
    are trained and, if nothing before it on its path is, which one is the first: the layers after that one pay for their input gradient.
    """
    first = frozenset(free), frozenset()
    yield from dict.fromkeys(first)
    fixed = {l for l, layer in enumerate(program.layers) if layer.trainable and l not in free}
    for trained in _choices(program.layers, list(_runs(program, free, unlike)), fixed, frozenset()):
        if trained not in first:
            yield trained


def _runs(program: Program, free: Collection[int], unlike: Sequence[Hashable]) -> Iterator[list[int]]:
    stage_of = {l: s for s, stage in enumerate(program.stages) for l in range(stage.first, stage.last)}
    alike = lambda l: (
        l in free,
        stage_of.get(l),
        replace(program.layers[l], name="", trainable=True),
        unlike[l],
    )
    for (is_free, *_), run in groupby(range(len(program.layers)), key=alike):
        if is_free:
            yield list(run)


def _choices(
    layers: Sequence[Layer], runs: list[list[int]], fixed: Collection[int], chosen: frozenset[int]
) -> Iterator[frozenset[int]]:
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


def names(program: Program, layers: Collection[int]) -> str:
    """`vit[0..3], proj`; `nothing` if there are none."""
    group = lambda l: program.layers[l].name.split("[")[0]
    size = lambda name: sum(group(l) == name for l in range(len(program.layers)))
    out = []
    for (name, _), run in groupby(enumerate(sorted(layers)), key=lambda at: (group(at[1]), at[1] - at[0])):
        run = [l for _, l in run]
        inside = [program.layers[l].name[len(name) :].strip("[]") for l in (run[0], run[-1])]
        out.append(
            name
            if len(run) == size(name)
            else f"{name}[{inside[0]}]"
            if len(run) == 1
            else f"{name}[{inside[0]}..{inside[1]}]"
        )
    return ", ".join(out) or "nothing"
