"""The syntax tree: what a `.sched` file says, every node with its place. Nothing is resolved and nothing is computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .source import Span

if TYPE_CHECKING:
    from .ast_machine import Device, Link, MemoryBlock, Replicas

# ---- words and numbers -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Word:
    """A name where it stands: of a layer group, a skeleton, a communicator, a model of communication."""

    text: str
    span: Span

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Int:
    value: int
    span: Span


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with its unit, exact, in the base unit of its dimension.

    dimension: `time` (ns), `bytes`, `flop`, `bytes/s`, `flop/s`; `percent` and `number` keep decimals, as
    `value / scale`. `scale` is 1 for the others.
    """

    value: int
    dimension: str
    span: Span
    scale: int = 1
    per_image: bool = False


@dataclass(frozen=True, slots=True)
class IndexRange:
    """`a..b`, both ends included; a single index is `a..a`. Of ranks, stages, microbatches."""

    first: int
    last: int
    span: Span


@dataclass(frozen=True, slots=True)
class LayerRef:
    """`vit`, `vit[3]`, `vit[0..11]`: a layer group (or, in `for any freezing of`, a region) or layers of it."""

    group: Word
    range: IndexRange | None
    span: Span


# ---- expressions -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Name:
    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Call:
    """`min(a, b)`, `max(a, b)`, `owned(r)`; in claims also figures of a rank: `in_flight(r)`."""

    function: Word
    arguments: tuple[Expr, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Negate:
    operand: Expr
    span: Span


@dataclass(frozen=True, slots=True)
class Binary:
    """operator: `+ - * div mod` (div and mod round down)."""

    operator: str
    left: Expr
    right: Expr
    span: Span


@dataclass(frozen=True, slots=True)
class Compare:
    """operator: `< <= > >= == !=`."""

    operator: str
    left: Expr
    right: Expr
    span: Span


@dataclass(frozen=True, slots=True)
class Logic:
    """operator: `and`, `or`."""

    operator: str
    left: Condition
    right: Condition
    span: Span


@dataclass(frozen=True, slots=True)
class Not:
    operand: Condition
    span: Span


Expr = Int | Quantity | Name | Call | Negate | Binary               # Quantity: in claims only
Condition = Compare | Logic | Not | Name | Call                     # Name, Call: a claim such as `deadlock_free`


@dataclass(frozen=True, slots=True)
class Claim:
    """A line of `require` or `prove`: `bubble <= 12%`, `deadlock_free under blocking`."""

    condition: Condition
    models: tuple[Word, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Prove:
    """`prove for P >= 1, M >= 1 { claims }`."""

    given: tuple[Condition, ...]
    claims: tuple[Claim, ...]
    span: Span


# ---- the model ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Property:
    """name: forward, backward, backward_input, backward_weight, activation, until_weight, output, weights, parameters,
    workspace, vocabulary, tokens, flops, hbm_bytes (value: Quantity); modality (value: Word); frozen, recompute (value: None)."""

    name: str
    value: Quantity | Word | None
    span: Span


@dataclass(frozen=True, slots=True)
class Layers:
    """`layers vit[24] { .. }`; `layer proj { .. }` has count 1; `kind mamba { .. }` (count 0) only describes one for a pattern."""

    name: Word
    count: int
    properties: tuple[Property, ...]
    span: Span

    def get(self, name: str) -> Property | None:
        return next((p for p in self.properties if p.name == name), None)


@dataclass(frozen=True, slots=True)
class PatternKind:
    """`"M" = mamba`, described by `kind mamba { .. }`, or `"M" = mamba { .. }`, described at once."""

    letter: str
    kind: Word
    properties: tuple[Property, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Pattern:
    """`pattern "M-M-MM*" { .. }`: one layer a letter, in order; `pattern trunk = ".." { .. }` also makes them a group."""

    name: Word | None
    text: str
    kinds: tuple[PatternKind, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Attach:
    """`attach head to llm`: no partition separates the two layers at their common border."""

    layer: LayerRef
    to: LayerRef
    span: Span


@dataclass(frozen=True, slots=True)
class Model:
    """The chain in order: Layers and Patterns; or a `profile`, the path of a file as written."""

    items: tuple[Layers | Pattern | Attach, ...]
    profile: str | None
    span: Span


# ---- statements of a schedule ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Argument:
    """`partition: [11, 13]`, `owner: greedy`, `chunks: 2`; name is None for one given by its place."""

    name: Word | None
    value: Int | Word | ListValue
    span: Span


@dataclass(frozen=True, slots=True)
class ListValue:
    items: tuple[Int | Word | ListValue, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Region:
    """`backbone = llm[0..23], head : 1f1b(partition: balanced)`."""

    name: Word
    layers: tuple[LayerRef, ...]
    skeleton: Word
    arguments: tuple[Argument, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Cut:
    regions: tuple[Region, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Images:
    """Images of each microbatch, in order."""

    counts: tuple[Int, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Presence:
    """`modality vision in microbatches 0, 2..5`."""

    modality: Word
    microbatches: tuple[IndexRange, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class CommunicatorDef:
    name: Word
    ranks: tuple[IndexRange, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Freeze:
    """`freeze vit[0..11], proj`, or `freeze stage 0, 2..3` (also `freeze 0`) where the schedule has no model."""

    layers: tuple[LayerRef, ...]
    stages: tuple[IndexRange, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class TieDef:
    """`tie embed, head`, `tie emb = stage 0, 3 @ends`: layers (or stages) that share one parameter set."""

    name: Word | None
    layers: tuple[LayerRef, ...]
    stages: tuple[IndexRange, ...]
    comm: Word | None
    span: Span


@dataclass(frozen=True, slots=True)
class Assume:
    """`assume vit.forward in [2ms, 9ms]`, both ends included."""

    layer: LayerRef
    property: str
    low: Quantity
    high: Quantity
    span: Span


@dataclass(frozen=True, slots=True)
class ForAnyFreezing:
    """`for any freezing of vit, proj`: groups or regions."""

    of: tuple[LayerRef, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Expect:
    """verdict: valid, invalid, unknown, vacuous; no codes: any; models: of them, and targets; none: the models of the schedule."""

    verdict: str
    codes: tuple[Word, ...]
    models: tuple[Word, ...]
    span: Span


# ---- orders and traces -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlaceRank:
    """`rank 0: 0, 3`: stages of a rank."""

    rank: Int
    stages: tuple[IndexRange, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class PlaceReplicated:
    """`replicated 4: owner [0, 1, 0, 1]`: a stage on every rank, with the rank that runs each microbatch."""

    stage: Int
    owner: tuple[Int, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Place:
    lines: tuple[PlaceRank | PlaceReplicated, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Op:
    """One operation as `spec/program.md` lists them; kind is the name in capitals (`F`, `SEND_F`, `REDUCE_TIE`), -1 and
    None are absent. `name` is the payload, tie or parameter set, `comm` the communicator as written."""

    kind: str
    span: Span
    stage: int = -1
    mb: int = -1
    peer: int = -1
    name: str | None = None
    comm: str | None = None


@dataclass(frozen=True, slots=True)
class Launch:
    """`{ 0SEND_F1 3RECV_F0 }`: one grouped launch."""

    items: tuple[Op | Repeat, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Overlap:
    """`overlap(0F3 3B3)`: one operation of two halves."""

    items: tuple[Op, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Repeat:
    """`0F0..3`, `(1F4 1B0) .. (1F15 1B11)`: `count` copies of `first`; every index that differs in `last` advances by one."""

    first: tuple[Op | Launch | Overlap, ...]
    last: tuple[Op | Launch | Overlap, ...]
    count: int
    span: Span


Item = Op | Launch | Overlap | Repeat                               # `expand.expand` removes the Repeats


@dataclass(frozen=True, slots=True)
class RankOrder:
    rank: Int
    items: tuple[Item, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Order:
    """`fragment order transfers written reductions inserted { .. }`; of a `trace` both are written."""

    form: str                                                       # order, trace
    transfers: str                                                  # inserted, written
    reductions: str
    fragment: bool
    ranks: tuple[RankOrder, ...]
    span: Span


# ---- skeletons ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SkeletonOp:
    """`F(i)`, `B(i, 1)`, `SEND_F(i)@seam`, `REDUCE(0)`: arguments are the microbatch and the chunk (REDUCE: the chunk)."""

    kind: str
    arguments: tuple[Expr, ...]
    comm: Word | None
    span: Span


@dataclass(frozen=True, slots=True)
class Let:
    name: Word
    value: Expr
    span: Span


@dataclass(frozen=True, slots=True)
class Range:
    """`first ..< end`."""

    first: Expr
    end: Expr
    span: Span


@dataclass(frozen=True, slots=True)
class For:
    """`for i in 0 ..< n { }`, `for m in owned(r) { }`."""

    variable: Word
    over: Range | Call
    body: tuple[Statement, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class If:
    """`if c { } else if d { } else { }`: (c, d) with one block each, and the last block."""

    conditions: tuple[Condition, ...]
    blocks: tuple[tuple[Statement, ...], ...]
    otherwise: tuple[Statement, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Group:
    """`overlap { F(i, 0) B(j, 1) }` or `group { .. }`, one grouped launch."""

    form: str                                                       # overlap, group
    body: tuple[SkeletonOp, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Body:
    """`body`: here the inner regions run."""

    span: Span


Statement = SkeletonOp | Let | For | If | Group | Body


@dataclass(frozen=True, slots=True)
class RankProgram:
    """`rank r { .. }`."""

    variable: Word
    body: tuple[Statement, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class PlaceMap:
    """`place map(r, c) = c*P + r`: the stage of chunk c of rank r."""

    rank: Word
    chunk: Word
    stage: Expr
    span: Span


@dataclass(frozen=True, slots=True)
class Skeleton:
    name: Word
    parameters: tuple[Word, ...]
    layout: str                                                     # sharded, replicated
    chunks: Expr | None                                             # `chunks 2`, `chunks V`
    place: Word | PlaceMap | None                                   # loop, vee, a map
    weaves_into: Word | None
    where: Condition | None
    transfers: str                                                  # inserted, or written: the program lists its own
    program: RankProgram | None
    proves: tuple[Prove, ...]
    span: Span


# ---- a file ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Schedule:
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
    order: Order | None                                             # an order or a trace
    expects: tuple[Expect, ...]
    proves: tuple[Prove, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Use:
    """`use "other.sched"`: the skeletons of another file; the path as written."""

    path: str
    span: Span


@dataclass(frozen=True, slots=True)
class File:
    uses: tuple[Use, ...]
    skeletons: tuple[Skeleton, ...]
    schedules: tuple[Schedule, ...]
    span: Span
