"""Runs: neighbouring Sharded regions with the same skeleton become one, with a chunk a rank for each."""

from __future__ import annotations

from dataclasses import dataclass

from interlock.algebra.cut import Region
from interlock.algebra.instance import Instance, chunk_parameter, instantiate, integer
from interlock.algebra.library import Library
from interlock.language import ast
from interlock.text.finding import error


@dataclass(frozen=True)
class Run:
    """Regions laid out together by one skeleton; a Replicated region is a run of its own."""

    regions: tuple[Region, ...]
    instance: Instance

    @property
    def replicated(self) -> bool:
        return self.regions[0].replicated

    @property
    def written(self) -> bool:
        return self.instance.skeleton.transfers == "written"


def runs_of(regions: list[Region], library: Library, ranks: int, microbatches: int) -> list[Run]:
    """The runs in chain order. Raises IL203, IL207, IL210."""
    groups: list[list[Region]] = []
    for region in regions:
        last = groups[-1][-1] if groups else None
        if (
            last is not None
            and not region.replicated
            and last.skeleton.name.text == region.skeleton.name.text
            and _woven(region.skeleton, library) is not None
        ):
            groups[-1].append(region)
        else:
            groups.append([region])
    runs = []
    for group in groups:
        first = group[0]
        skeleton = first.skeleton if len(group) == 1 else _woven(first.skeleton, library)
        for other in group[1:]:
            _same_arguments(first, other)
        chunks = sum(region.chunks for region in group)
        runs.append(
            Run(tuple(group), instantiate(skeleton, ranks, microbatches, chunks, first.arguments, first.span))
        )
    return runs


def _woven(skeleton: ast.Skeleton, library: Library) -> ast.Skeleton | None:
    """The skeleton with one chunk for each of several regions: this one, the one it weaves into, or none."""
    if chunk_parameter(skeleton) is not None:
        return skeleton
    if skeleton.weaves_into is None:
        return None
    target = library.find(skeleton.weaves_into)
    if chunk_parameter(target) is None:
        raise error(
            "IL210",
            f"skeleton `{skeleton.name}` weaves into `{target.name}`, whose number of chunks is not a "
            "parameter",
            skeleton.weaves_into.span,
            help="write `chunks V` in its head, with V a parameter",
        )
    return target


def _same_arguments(first: Region, other: Region) -> None:
    mine, theirs = (
        {k: integer(a) for k, a in r.arguments.items() if k not in ("partition", "chunks")}
        for r in (first, other)
    )
    if mine != theirs:
        raise error(
            "IL210",
            f"`{first.name}` and `{other.name}` are woven and differ in an argument of "
            f"`{first.skeleton.name}`",
            other.span,
            help="give both the same arguments",
        )
