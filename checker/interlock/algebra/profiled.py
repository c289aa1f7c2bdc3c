"""The chain of a schedule whose model is a profile (spec/profiles.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from interlock.algebra.library import Library
from interlock.algebra.model import Chain, build
from interlock.language import ast
from interlock.profile.data import LayerProfile, Profile
from interlock.text.finding import Finding, InputError, Mark
from interlock.text.quantities import DIMENSION


def chain_of(schedule: ast.Schedule, library: Library) -> Chain:
    """Raises InputError: IL107 for a profile that cannot be read, IL104, IL114 and IL115 for what it says."""
    profile = library.profile(schedule.model)
    _sized(schedule, profile)
    items = tuple(
        ast.Layers(ast.Word(l.name, l.span), l.count, tuple(_properties(l)), l.span) for l in profile.layers
    )
    chain = build(schedule.model._replace(items=items), schedule.device, schedule.memory)
    groups: dict[str, list[int]] = {}
    for name, members in chain.groups.items():  # of `llm[0]`, `llm[1]`: the layers of `llm`
        groups.setdefault(name.partition("[")[0], []).extend(members)
    return replace(chain, groups=groups)


def _properties(layer: LayerProfile) -> Iterator[ast.Property]:
    for name, size in (layer.times | layer.sizes).items():
        yield ast.Property(
            name,
            ast.Quantity(size.per_image or size.fixed, DIMENSION[name], layer.span, 1, size.per_image > 0),
            layer.span,
        )
    if layer.modality is not None:
        yield ast.Property("modality", ast.Word(layer.modality, layer.span), layer.span)
    for name in ("frozen", "recompute"):
        if getattr(layer, name):
            yield ast.Property(name, None, layer.span)


def _sized(schedule: ast.Schedule, profile: Profile) -> None:
    """A size that is not there is not zero: nothing that counts bytes is asked of a profile without sizes."""
    lacks = profile.unsized()
    asks = next(
        filter(
            None,
            (
                schedule.memory,
                *schedule.links,
                schedule.replicas,
                *(c for c in schedule.requires if _of_bytes(c)),
            ),
        ),
        None,
    )
    if lacks is None or asks is None:
        return
    layer, size = lacks
    raise InputError(
        Finding.of_input(
            "IL115",
            f"this counts bytes, and the profile says no `{size}` of layer `{layer.name}`",
            (Mark(asks.span), Mark(layer.span, "this layer")),
            "`interlock profile MODULE` measures sizes; or write them into the profile, 0 where there are "
            "none",
            rule="R-PROF-2",
        )
    )


def _of_bytes(claim: ast.Claim) -> bool:
    match claim.condition:
        case ast.Compare(left=ast.Name(text="peak") | ast.Call(function=ast.Word(text="peak"))):
            return True
    return False
