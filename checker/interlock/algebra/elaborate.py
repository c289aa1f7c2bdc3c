"""From a file to programs: every schedule with its statements resolved (spec/algebra.md, "Elaboration")."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from interlock.algebra.cut import Region, Seam, regions_of, seams
from interlock.algebra.derive import derive
from interlock.algebra.gather import late_gathers, write
from interlock.algebra.indices import indices
from interlock.algebra.library import Library
from interlock.algebra.machine import Hardware, memory
from interlock.algebra.model import Chain, build
from interlock.algebra.orders import Lister, fill, placed, sizes, stages_of
from interlock.algebra.profiled import chain_of
from interlock.algebra.setting import communicators, frozen_layers, numbers, setting, ties
from interlock.algebra.skeleton import Budget
from interlock.algebra.weave import runs_of
from interlock.language import ast
from interlock.program.ir import Program
from interlock.program.transfers import restrict
from interlock.text.finding import Finding, error
from interlock.text.phrases import list_names, suggest
from interlock.text.source import Sources, Span
from interlock.timing.layer_times import LayerTimes

SIZED = ("activation", "until_weight", "output", "weights", "workspace")  # what `assume` may say of bytes
SEAM = "seam"  # the communicator of this name, if declared, carries Gather and Scatter


@dataclass(frozen=True)
class Assumption:
    """`low <= property of each of these layers <= high`, in nanoseconds or bytes."""

    layers: tuple[int, ...]
    property: str
    low: ast.Quantity
    high: ast.Quantity
    span: Span


@dataclass(frozen=True)
class Elaborated:
    """A schedule ready to be checked.

    program     as checked: frozen as the schedule says, restricted by the footprint
    trained     the same with every layer trained, before restriction; None for a written order
    models      communication models the schedule names (`comm`), or ()
    freezing    layers of `for any freezing`
    times       of each layer of the chain; () without a model
    any_owner   the region whose owner map is `any`; `program` has round robin there
    comm_of     for each stage the communicator of the transfers across its right border
    skeletons   those the cut names, with what they are woven into
    spans       places of statements, by word: ranks, microbatches, model, cut, memory, order, place, images
    layer_spans where each layer is described; () without a model
    """

    name: str
    node: ast.Schedule
    program: Program
    trained: Program | None
    chain: Chain | None
    models: tuple[str, ...] = ()
    expects: tuple[ast.Expect, ...] = ()
    requires: tuple[ast.Claim, ...] = ()
    proves: tuple[ast.Prove, ...] = ()
    freezing: tuple[int, ...] = ()
    assumes: tuple[Assumption, ...] = ()
    hardware: Hardware = Hardware()
    times: tuple[LayerTimes, ...] = ()
    regions: tuple[Region, ...] = ()
    partitions: dict[str, list[int]] = field(default_factory=dict)
    owners: dict[str, tuple[int, ...]] = field(default_factory=dict)
    skeletons: tuple[ast.Skeleton, ...] = ()
    any_owner: str = ""
    comm_of: tuple[int, ...] = ()
    warnings: tuple[Finding, ...] = ()
    spans: dict[str, Span] = field(default_factory=dict)
    layer_spans: tuple[Span, ...] = ()

    @property
    def seams(self) -> list[Seam]:
        return seams(self.program) if self.regions else []


def elaborate(
    file: ast.File, sources: Sources, *, ranks: int | None = None, microbatches: int | None = None
) -> list[Elaborated]:
    """The schedules of a file in order. `ranks` and `microbatches` stand in for those of schedules with a
    cut.

    Raises InputError: IL103, IL104, IL107, IL201 to IL213, and what the readers of used files and of profiles
    say.
    """
    library = Library(file, sources)
    out, known = [], set()
    for schedule in file.schedules:
        if schedule.name.text in known:
            raise error(
                "IL103",
                f"two schedules are called `{schedule.name}`",
                schedule.name.span,
                "the second one",
                "rename one of them",
            )
        known.add(schedule.name.text)
        out.append(elaborate_schedule(schedule, library, ranks=ranks, microbatches=microbatches))
    return out


def elaborate_schedule(
    schedule: ast.Schedule, library: Library, *, ranks: int | None = None, microbatches: int | None = None
) -> Elaborated:
    """One schedule of the file `library` was made for."""
    chain = None
    if schedule.model is not None:
        chain = (
            chain_of(schedule, library)
            if schedule.model.profile is not None
            else build(schedule.model, schedule.device, schedule.memory)
        )
    if schedule.order is not None:
        result = _written(schedule, chain, library)
    elif schedule.cut is not None:
        result = _derived(schedule, chain, library, ranks, microbatches)
    else:
        raise error(
            "IL201",
            f"schedule `{schedule.name}` has no cut and no order",
            schedule.name.span,
            help="write `cut { .. }` for a schedule from the algebra, or `order transfers inserted { .. }`",
        )
    return result


def _derived(
    schedule: ast.Schedule, chain: Chain | None, library: Library, ranks: int | None, microbatches: int | None
) -> Elaborated:
    if chain is None:
        raise error(
            "IL201",
            f"schedule `{schedule.name}` cuts a model and has none",
            schedule.cut.span,
            help="write `model { layers NAME[24] { .. } }`",
        )
    if schedule.place is not None:
        raise error(
            "IL204",
            "a schedule from the algebra places its stages itself",
            schedule.place.span,
            help="delete `place`, or write the whole order",
        )
    P, M = numbers(schedule, ranks, microbatches)
    around = setting(schedule, chain, P, M)
    regions = regions_of(schedule.cut, chain, library)
    comms = list(communicators(schedule, P))
    runs = runs_of(regions, library, P, M)
    late = late_gathers(regions, len(runs) == 2 and runs[0].replicated, comms, P)
    derived = derive(runs, chain, around, tuple(comms), Budget())
    stages = derived.program.stages
    tied = ties(schedule, chain, stages, P, comms)
    trained = replace(
        derived.program,
        communicators=tuple(comms),
        ties=tied,
        names=tuple(t.name for t in tied),
        memory=memory(schedule.memory, P),
    )
    if late is not None:
        trained = write(trained, late, regions[0].span)
    frozen = frozen_layers(schedule, chain, stages)
    program = _frozen(trained, chain, frozen)
    seam = next((i for i, c in enumerate(comms) if c.name == SEAM), 0)
    comm_of = tuple(
        seam if s + 1 < len(stages) and stages[s].replicated != stages[s + 1].replicated else 0
        for s in range(len(stages))
    )
    skeletons = {
        s.name.text: s for run in runs for s in (*(r.skeleton for r in run.regions), run.instance.skeleton)
    }
    return replace(
        _common(schedule, chain, program, regions, around.hardware),
        trained=trained,
        regions=tuple(regions),
        partitions=derived.partitions,
        owners=derived.owners,
        any_owner=_any_owner(regions),
        skeletons=tuple(skeletons.values()),
        comm_of=comm_of,
        warnings=derived.warnings,
    )


def _any_owner(regions: list[Region]) -> str:
    """The region whose owner map is `any`. Raises IL209 if there are two."""
    found = [
        r
        for r in regions
        if (owner := r.arguments.get("owner"))
        and isinstance(owner.value, ast.Word)
        and owner.value.text == "any"
    ]
    if len(found) > 1:
        raise error(
            "IL209",
            "two regions with `owner: any`",
            found[1].arguments["owner"].span,
            help="give one of them a map: `round_robin`, or a list",
        )
    return found[0].name if found else ""


def _written(schedule: ast.Schedule, chain: Chain | None, library: Library) -> Elaborated:
    lister = Lister(schedule.order)
    P, M = sizes(schedule, lister)
    regions: list[Region] = []
    around = setting(schedule, chain or Chain((), (), (), {}), P, M)
    comms = list(communicators(schedule, P))
    if schedule.cut is not None:
        raise error(
            "IL201",
            "a schedule has a cut or an order, not both",
            schedule.cut.span,
            "the cut",
            "delete one; stages of an order are placed by `place`",
        )
    if chain is None and schedule.memory is not None and schedule.memory.logits is not None:
        raise error(
            "IL101",
            "`logits` of a schedule without a model",
            schedule.memory.logits.span,
            help="write a `model` whose head has `vocabulary` and `tokens`",
        )
    layers, stages = stages_of(placed(schedule, lister, P, M), chain, schedule.order.span)
    chain_or_stages = chain or Chain(layers, (), (), {})
    tied = ties(schedule, chain_or_stages, stages, P, comms)
    frozen = frozen_layers(schedule, chain_or_stages, stages)
    layers = tuple(replace(l, trainable=i not in frozen) for i, l in enumerate(layers))
    program = Program(
        P,
        M,
        layers,
        stages,
        order=None,
        images=around.images,
        modalities=around.modalities,
        communicators=tuple(comms),
        ties=tied,
        memory=memory(schedule.memory, P),
        names=tuple(t.name for t in tied),
    )
    program = fill(program, lister, comms)
    return replace(_common(schedule, chain, program, regions, around.hardware), comm_of=(0,) * len(stages))


def _frozen(trained: Program, chain: Chain, frozen: set[int]) -> Program:
    """What the footprint leaves of the trained program."""
    if not frozen:
        return trained
    return restrict(trained, tuple(replace(l, trainable=i not in frozen) for i, l in enumerate(chain.layers)))


def _common(
    schedule: ast.Schedule, chain: Chain | None, program: Program, regions: list[Region], hardware: Hardware
) -> Elaborated:
    words = ("ranks", "microbatches", "model", "cut", "memory", "order", "place", "images")
    spans = {w: node.span for w in words if (node := getattr(schedule, w)) is not None}
    for overlap in schedule.device.overlaps if schedule.device else ():
        indices(overlap.stages or (), len(program.stages), "stage", "IL204")
    return Elaborated(
        schedule.name.text,
        schedule,
        program,
        None,
        chain,
        models=tuple(w.text for w in schedule.comm),
        expects=schedule.expects,
        requires=schedule.requires,
        proves=schedule.proves,
        freezing=_freezing(schedule, chain, regions),
        assumes=_assumptions(schedule, chain),
        hardware=hardware,
        times=chain.times if chain else (),
        spans=spans,
        layer_spans=chain.spans if chain else (),
    )


def _freezing(schedule: ast.Schedule, chain: Chain | None, regions: list[Region]) -> tuple[int, ...]:
    """Layers of `for any freezing of`: of groups, else of regions. Raises IL107."""
    out: set[int] = set()
    named = {r.name: r for r in regions}
    for line in schedule.for_any:
        for ref in line.of:
            if chain is not None and ref.group.text in chain.groups:
                out.update(chain.resolve(ref))
            elif ref.group.text in named:
                region = named[ref.group.text]
                if ref.range is not None:
                    raise error(
                        "IL107",
                        "a region is frozen as a whole",
                        ref.span,
                        help="name layers of a group: `vit[0..11]`",
                    )
                out.update(range(region.first, region.last))
            else:
                known = [*(chain.groups if chain else ()), *named]
                raise error(
                    "IL107",
                    f"no layer group or region is called `{ref.group}`",
                    ref.group.span,
                    "unknown",
                    suggest(ref.group.text, known) or f"known: {list_names(known)}",
                )
    return tuple(sorted(out))


def _assumptions(schedule: ast.Schedule, chain: Chain | None) -> tuple[Assumption, ...]:
    out = []
    for node in schedule.assumptions:
        if chain is None:
            raise error(
                "IL107",
                f"no layer group is called `{node.layer.group}`: the schedule has no model",
                node.layer.span,
            )
        out.append(
            Assumption(tuple(chain.resolve(node.layer)), node.property, node.low, node.high, node.span)
        )
    return tuple(out)
