"""The syntax tree: what a `.sched` file says, every node with its place. Nothing is resolved and nothing is
computed.

Its parts by name: words and expressions, skeletons, orders, the machine; here the model, the cut and the
file. All of them are `ast.NAME`.
"""

from __future__ import annotations

from typing import NamedTuple

from interlock.language.ast_machine import (
    Capacity as Capacity,
)
from interlock.language.ast_machine import (
    Device as Device,
)
from interlock.language.ast_machine import (
    Link as Link,
)
from interlock.language.ast_machine import (
    MemoryBlock as MemoryBlock,
)
from interlock.language.ast_machine import (
    OverlapTime as OverlapTime,
)
from interlock.language.ast_machine import (
    Replicas as Replicas,
)
from interlock.language.ast_machine import (
    Share as Share,
)
from interlock.language.ast_machine import (
    Speed as Speed,
)
from interlock.language.ast_order import (
    Item as Item,
)
from interlock.language.ast_order import (
    Launch as Launch,
)
from interlock.language.ast_order import (
    Op as Op,
)
from interlock.language.ast_order import (
    Order as Order,
)
from interlock.language.ast_order import (
    Overlap as Overlap,
)
from interlock.language.ast_order import (
    Place as Place,
)
from interlock.language.ast_order import (
    PlaceRank as PlaceRank,
)
from interlock.language.ast_order import (
    PlaceReplicated as PlaceReplicated,
)
from interlock.language.ast_order import (
    RankOrder as RankOrder,
)
from interlock.language.ast_order import (
    Repeat as Repeat,
)
from interlock.language.ast_skeleton import (
    Body as Body,
)
from interlock.language.ast_skeleton import (
    For as For,
)
from interlock.language.ast_skeleton import (
    Group as Group,
)
from interlock.language.ast_skeleton import (
    If as If,
)
from interlock.language.ast_skeleton import (
    Let as Let,
)
from interlock.language.ast_skeleton import (
    PlaceMap as PlaceMap,
)
from interlock.language.ast_skeleton import (
    Range as Range,
)
from interlock.language.ast_skeleton import (
    RankProgram as RankProgram,
)
from interlock.language.ast_skeleton import (
    Skeleton as Skeleton,
)
from interlock.language.ast_skeleton import (
    SkeletonOp as SkeletonOp,
)
from interlock.language.ast_skeleton import (
    Statement as Statement,
)
from interlock.language.ast_words import (
    Binary as Binary,
)
from interlock.language.ast_words import (
    Call as Call,
)
from interlock.language.ast_words import (
    Claim as Claim,
)
from interlock.language.ast_words import (
    Compare as Compare,
)
from interlock.language.ast_words import (
    Condition as Condition,
)
from interlock.language.ast_words import (
    Expr as Expr,
)
from interlock.language.ast_words import (
    IndexRange as IndexRange,
)
from interlock.language.ast_words import (
    Int as Int,
)
from interlock.language.ast_words import (
    LayerRef as LayerRef,
)
from interlock.language.ast_words import (
    Logic as Logic,
)
from interlock.language.ast_words import (
    Name as Name,
)
from interlock.language.ast_words import (
    Negate as Negate,
)
from interlock.language.ast_words import (
    Not as Not,
)
from interlock.language.ast_words import (
    Prove as Prove,
)
from interlock.language.ast_words import (
    Quantity as Quantity,
)
from interlock.language.ast_words import (
    Word as Word,
)
from interlock.text.source import Span

# ---- the model ----------------------------------------------------------------------------------


class Property(NamedTuple):
    """name: forward, backward, backward_input, backward_weight, activation, until_weight, output, weights,
    parameters,
    workspace, vocabulary, tokens, flops, hbm_bytes (value: Quantity); modality (value: Word); frozen,
    recompute (value: None).
    """

    name: str
    value: Quantity | Word | None
    span: Span


class Layers(NamedTuple):
    """`layers vit[24] { .. }`; `layer proj { .. }` has size 1; `kind mamba { .. }` (size 0) only describes
    one for a pattern.
    """

    name: Word
    size: int
    properties: tuple[Property, ...]
    span: Span

    def get(self, name: str) -> Property | None:
        return next((p for p in self.properties if p.name == name), None)


class PatternKind(NamedTuple):
    """`"M" = mamba`, described by `kind mamba { .. }`, or `"M" = mamba { .. }`, described at once."""

    letter: str
    kind: Word
    properties: tuple[Property, ...]
    span: Span


class Pattern(NamedTuple):
    """`pattern "M-M-MM*" { .. }`: one layer a letter, in order; `pattern trunk = ".." { .. }` also makes them
    a group.
    """

    name: Word | None
    text: str
    kinds: tuple[PatternKind, ...]
    span: Span


class Attach(NamedTuple):
    """`attach head to llm`: no partition separates the two layers at their common border."""

    layer: LayerRef
    to: LayerRef
    span: Span


class Model(NamedTuple):
    """The chain in order: Layers and Patterns; or a `profile`, the path of a file as written."""

    items: tuple[Layers | Pattern | Attach, ...]
    profile: str | None
    span: Span


# ---- statements of a schedule -------------------------------------------------------------------


class Argument(NamedTuple):
    """`partition: [11, 13]`, `owner: greedy`, `chunks: 2`; name is None for one given by its place."""

    name: Word | None
    value: Int | Word | ListValue
    span: Span


class ListValue(NamedTuple):
    items: tuple[Int | Word | ListValue, ...]
    span: Span


class Region(NamedTuple):
    """`backbone = llm[0..23], head : 1f1b(partition: balanced)`."""

    name: Word
    layers: tuple[LayerRef, ...]
    skeleton: Word
    arguments: tuple[Argument, ...]
    span: Span


class Cut(NamedTuple):
    regions: tuple[Region, ...]
    span: Span


class Images(NamedTuple):
    """Images of each microbatch, in order."""

    counts: tuple[Int, ...]
    span: Span


class Presence(NamedTuple):
    """`modality vision in microbatches 0, 2..5`."""

    modality: Word
    microbatches: tuple[IndexRange, ...]
    span: Span


class CommunicatorDef(NamedTuple):
    name: Word
    ranks: tuple[IndexRange, ...]
    span: Span


class Freeze(NamedTuple):
    """`freeze vit[0..11], proj`, or `freeze stage 0, 2..3` (also `freeze 0`) where the schedule has
    no model.
    """

    layers: tuple[LayerRef, ...]
    stages: tuple[IndexRange, ...]
    span: Span


class TieDef(NamedTuple):
    """`tie embed, head`, `tie emb = stage 0, 3 @ends`: layers (or stages) that share one parameter set."""

    name: Word | None
    layers: tuple[LayerRef, ...]
    stages: tuple[IndexRange, ...]
    comm: Word | None
    span: Span


class Assume(NamedTuple):
    """`assume vit.forward in [2ms, 9ms]`, both ends included."""

    layer: LayerRef
    property: str
    low: Quantity
    high: Quantity
    span: Span


class ForAnyFreezing(NamedTuple):
    """`for any freezing of vit, proj`: groups or regions."""

    of: tuple[LayerRef, ...]
    span: Span


class Expect(NamedTuple):
    """verdict: valid, invalid, unknown, vacuous; no codes: any; models: of them, and targets; none: the
    models of the schedule.
    """

    verdict: str
    codes: tuple[Word, ...]
    models: tuple[Word, ...]
    span: Span


# ---- a file -------------------------------------------------------------------------------------


class Schedule(NamedTuple):
    name: Word
    ranks: Int | None
    microbatches: Int | None
    comm: tuple[Word, ...]
    model: Model | None
    images: Images | None
    presence: tuple[Presence, ...]
    cut: Cut | None
    communicators: tuple[CommunicatorDef, ...]
    memory: MemoryBlock | None
    links: tuple[Link, ...]
    device: Device | None
    replicas: Replicas | None
    freezes: tuple[Freeze, ...]
    ties: tuple[TieDef, ...]
    assumptions: tuple[Assume, ...]
    for_any: tuple[ForAnyFreezing, ...]
    requires: tuple[Claim, ...]
    place: Place | None
    order: Order | None  # an order or a trace
    expects: tuple[Expect, ...]
    proves: tuple[Prove, ...]
    span: Span


class Use(NamedTuple):
    """`use "other.sched"`: the skeletons of another file; the path as written."""

    path: str
    span: Span


class File(NamedTuple):
    uses: tuple[Use, ...]
    skeletons: tuple[Skeleton, ...]
    schedules: tuple[Schedule, ...]
    span: Span
