"""The cut: regions that tile the chain, each with its skeleton; normal form; the seams between regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from interlock.algebra.instance import arguments_of, chunks_asked
from interlock.algebra.library import Library
from interlock.algebra.model import Chain
from interlock.language import ast
from interlock.program.ir import Program
from interlock.text.finding import Finding, InputError, Mark, error
from interlock.text.source import Span


@dataclass(frozen=True)
class Region:
    """Layers [first, last) of the chain with a skeleton; `chunks` are the stages a rank has of a
    Sharded one.
    """

    name: str
    first: int
    last: int
    skeleton: ast.Skeleton
    arguments: dict[str, ast.Argument]
    chunks: int
    span: Span

    @property
    def replicated(self) -> bool:
        return self.skeleton.layout == "replicated"


def regions_of(cut: ast.Cut, chain: Chain, library: Library) -> list[Region]:
    """The regions in order. Raises IL103 (a name twice), IL201 (they do not tile the chain), IL202 (normal
    form), IL203, IL210.
    """
    regions: list[Region] = []
    at = 0
    for node in cut.regions:
        for other in regions:
            if other.name == node.name.text:
                raise InputError(
                    Finding.of_input(
                        "IL103",
                        f"two regions are called `{node.name}`",
                        (Mark(node.name.span, "this one"), Mark(other.span, "and this one")),
                        "rename one of them",
                    )
                )
        end = at
        for ref in node.layers:
            layers = chain.resolve(ref)
            if layers[0] != end or layers[-1] - layers[0] + 1 != len(layers):
                raise _untiled(chain, layers, end, ref, node)
            end = layers[-1] + 1
        if end in chain.glued and end < len(chain.layers):
            raise error(
                "IL201",
                f"`attach` glues layers `{chain.layers[end - 1].name}` and `{chain.layers[end].name}`, and "
                "the cut parts them",
                node.span,
                help="end the region on the other side of the two layers, or delete the `attach`",
            )
        skeleton = library.find(node.skeleton)
        arguments = arguments_of(node, skeleton)
        _check_place(arguments)
        chunks = 1 if skeleton.layout == "replicated" else chunks_asked(skeleton, arguments)
        regions.append(Region(node.name.text, at, end, skeleton, arguments, chunks, node.span))
        at = end
    if not regions:
        raise error("IL201", "the cut has no region", cut.span, help="write `NAME = layers : skeleton` in it")
    if at < len(chain.layers):
        rest = chain.layers[at].name
        raise error(
            "IL201",
            f"the cut ends before the model does: layer `{rest}` is in no region",
            cut.span,
            "ends too early",
            f"add a region for `{rest}` and what follows it, or append it to `{regions[-1].name}`",
        )
    _normal(regions, chain)
    return regions


PLACES = ("prefix", "deadline")


def _check_place(arguments: dict[str, ast.Argument]) -> None:
    place = arguments.get("place")
    if place is not None and not (isinstance(place.value, ast.Word) and place.value.text in PLACES):
        raise error(
            "IL210",
            "the forwards of a Replicated region are placed as a `prefix`, or by `deadline`",
            place.span,
            "no other place is supported",
            "write `place: prefix` or `place: deadline`, or leave it out",
        )


def _untiled(
    chain: Chain, layers: Sequence[int], end: int, ref: ast.LayerRef, node: ast.Region
) -> InputError:
    due = (
        f"the layer due here is `{chain.layers[end].name}`"
        if end < len(chain.layers)
        else "every layer of the model is in a region already"
    )
    if layers[0] < end:
        return error(
            "IL201",
            f"layer `{chain.layers[layers[0]].name}` of region `{node.name}` lies in the cut already",
            ref.span,
            "a second time",
            due,
        )
    if layers[0] == end:
        return error(
            "IL201",
            f"the layers of `{ref.group}` do not follow one another",
            ref.span,
            "not contiguous",
            "a region takes layers that follow one another: name the pattern (`pattern trunk = ..`) and "
            "select `trunk[0..3]`",
        )
    return error(
        "IL201",
        f"the cut leaves out layer `{chain.layers[end].name}`, before region `{node.name}`"
        if ref is node.layers[0]
        else f"region `{node.name}` leaves out layer `{chain.layers[end].name}`",
        ref.span,
        "starts too late",
        f"{due}: regions take the layers in the order of the model",
    )


def normalise(regions: Sequence[Region]) -> list[Region]:
    """Neighbouring Replicated regions merged into one with the name and arguments of the first; the rest as
    it is.
    """
    out: list[Region] = []
    for region in regions:
        if out and out[-1].replicated and region.replicated:
            first = out.pop()
            region = Region(
                first.name,
                first.first,
                region.last,
                first.skeleton,
                first.arguments,
                1,
                first.span.to(region.span),
            )
        out.append(region)
    return out


def _normal(regions: list[Region], chain: Chain) -> None:
    for left, right in zip(regions, regions[1:]):
        if left.replicated and right.replicated:
            given = ", ".join(
                f"{r.name} = {_layers(chain, r)} : {r.skeleton.name}" for r in normalise(regions)
            )
            raise InputError(
                Finding.of_input(
                    "IL202",
                    f"`{left.name}` and `{right.name}` are neighbours and both Replicated: no seam joins "
                    "them",
                    (Mark(right.span, "the second one"), Mark(left.span, "the first one")),
                    f"merge them; in normal form the cut is: {given}",
                    rule="R-CUT-2",
                )
            )


def _layers(chain: Chain, region: Region) -> str:
    """`vit, proj`, or `llm[0..23]` where a region takes a part of a group."""
    parts = []
    for name, layers in chain.groups.items():
        a, b = layers[0], layers[-1] + 1
        first, last = max(a, region.first), min(b, region.last) if b - a == len(layers) else 0
        if first < last:
            parts.append((first, name if (first, last) == (a, b) else f"{name}[{first - a}..{last - a - 1}]"))
    return ", ".join(text for _, text in sorted(parts)) or f"layers {region.first}..{region.last - 1}"


@dataclass(frozen=True)
class Seam:
    """The border of two regions: what carries activations forward and gradients backward. `stage` is the last
    one on the left.
    """

    left: str
    right: str
    forward: str
    backward: str
    stage: int


_SEAM = {
    (True, False): ("Gather", "Scatter"),
    (False, False): ("Send", "RecvGrad"),
    (False, True): ("Scatter", "Gather"),
}


def seams(program: Program) -> list[Seam]:
    """The seam table for the regions of a derived program, in chain order."""
    out = []
    for s, (left, right) in enumerate(zip(program.stages, program.stages[1:])):
        if left.region != right.region:
            out.append(Seam(left.region, right.region, *_SEAM[left.replicated, right.replicated], s))
    return out
