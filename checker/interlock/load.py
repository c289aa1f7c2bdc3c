"""From a file to the cases in it: the one way to a program, for every command.

The only caller of the parser, the library, the elaborator and the readers of CSVs and of measured runs. A
case holds its
sizes at the upper ends of what is assumed, the capacity that was asked for, and the models, targets and
expectations.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from interlock.algebra.elaborate import SIZED, Assumption, Elaborated, elaborate_schedule
from interlock.algebra.library import Library
from interlock.algebra.requirements import Requirements, empty_assumption, requirements
from interlock.interchange import json_reader, timeline, torch_csv
from interlock.language import ast
from interlock.language.parse import decode, parse, read_header_expectations
from interlock.program.ir import Layer, Program, Size
from interlock.rules.targets import TARGETS, TRANSPORT
from interlock.text.finding import Finding, InputError, error
from interlock.text.source import Source, Sources, Span
from interlock.timing.timeline import Timeline

DEFAULT_MODEL = "pair"
MOST_PAIRS, FEW_PAIRS = 20_000_000, 2_000_000  # of a stage and a microbatch


@dataclass(frozen=True)
class Question:
    """What is asked of every schedule beside what its file says.

    models, targets  asked beside those a file names
    engine           who searches: graph, smt, both
    csv              how PyTorch's CSVs are read
    capacity         bytes of a rank, for every schedule with a model that states none
    """

    models: tuple[str, ...] = ()
    engine: str = "graph"
    csv: torch_csv.CsvOptions = torch_csv.CsvOptions()
    targets: tuple[str, ...] = ()
    capacity: int | None = None


@dataclass(frozen=True)
class Case:
    """One schedule, ready to be judged.

    program       as it is judged: its sizes at their upper ends
    models        communication models to judge it under; `targets`: runtimes whose own rules are asked too
    schedule      as elaborated; None for a CSV or a measured run
    measured      the run of it that was measured, if this is one
    digest        SHA-256 of the file
    at, width     its place in the sources
    seconds       it took to load
    """

    path: str
    name: str
    sources: Sources
    program: Program
    models: tuple[str, ...]
    targets: tuple[str, ...]
    question: Question
    expects: tuple[ast.Expect, ...] = ()
    requirements: Requirements = Requirements()
    schedule: Elaborated | None = None
    library: Library | None = None
    measured: Timeline | None = None
    digest: str = ""
    at: int = -1
    width: int = 0
    seconds: float = 0.0

    @property
    def trained(self) -> Program | None:
        """The fully trained program that this one was restricted from; None for a written order."""
        return self.schedule.trained if self.schedule is not None else None

    @property
    def comm_of(self) -> tuple[int, ...]:
        """For each stage the communicator of the transfers across its right border."""
        return self.schedule.comm_of if self.schedule is not None else ()

    @property
    def warnings(self) -> tuple[Finding, ...]:
        return self.schedule.warnings if self.schedule is not None else ()

    @property
    def vacuous(self) -> str:
        """Why there is nothing that could be right or wrong; "" if there is."""
        assumed = empty_assumption(self.schedule) if self.schedule is not None else ""
        listed = "" if len(self.program.order) else "no rank lists an operation: there is nothing to check"
        return assumed or listed

    def with_owners(self, owner: Sequence[int]) -> Case:
        """The same schedule with this owner map written out where it has `owner: any`. Raises InputError."""
        assert self.schedule is not None and self.library is not None
        node = _write_owners(self.schedule.node, self.schedule.any_owner, owner)
        return _of_schedule(self, elaborate_schedule(node, self.library), self.library)

    def with_microbatches(self, microbatches: int) -> Case:
        """The same schedule with another number of microbatches. Raises InputError."""
        assert self.schedule is not None and self.library is not None
        found = elaborate_schedule(self.schedule.node, self.library, microbatches=microbatches)
        return _of_schedule(self, found, self.library)


@dataclass(frozen=True)
class Family:
    """A skeleton of a file without schedules: a program for every P and M."""

    path: str
    name: str
    sources: Sources
    at: int = -1
    width: int = 0


@dataclass(frozen=True)
class Loaded:
    """A file: its cases, or the errors that kept it from being read (`as_expected`: its header asks for
    them).
    """

    path: str
    sources: Sources
    cases: tuple[Case | Family, ...] = ()
    errors: tuple[Finding, ...] = ()
    as_expected: bool = False


def load(path: str, data: bytes, question: Question = Question()) -> Loaded:
    """The cases of a `.sched` file, of a PyTorch CSV (`.csv`), or of a measured run (`.json`). What is wrong
    is in the result.
    """
    sources = Sources()
    text = ""
    try:
        match PurePath(path).suffix.lower():
            case ".csv":
                source = sources.add(path, torch_csv.decode(data))
                cases: Iterator[Case | Family] = iter([_of_csv(path, source, sources, question)])
            case ".json":
                source = sources.add(path, json_reader.decode(data))
                cases = iter([_of_run(path, source, sources, question)])
            case _:
                text = decode(path, data)
                cases = _of_text(path, sources.add(path, text), sources, question)
        digest = hashlib.sha256(data).hexdigest()
        found = tuple(replace(c, digest=digest) if isinstance(c, Case) else c for c in cases)
        return Loaded(path, sources, found)
    except InputError as refused:
        as_expected = header_expects_errors(text, refused.findings)
        return Loaded(path, sources, (), tuple(refused.findings), as_expected)
    except MemoryError:
        message = "reading this schedule takes more memory than there is"
        return Loaded(
            path,
            sources,
            (),
            (Finding.of_input("IL104", message, (), "check a smaller member of the schedule's family"),),
        )


def case_of(
    program: Program,
    models: Sequence[str] = (DEFAULT_MODEL,),
    *,
    path: str = "program",
    name: str = "program",
) -> Case:
    """A program that comes from no file, as a case."""
    return Case(path, name, Sources(), program, tuple(models), (), Question())


def header_expects_errors(text: str, findings: Sequence[Finding]) -> bool:
    """Whether the comments a text begins with expect it to be refused with these codes: `# expect: invalid
    IL101`.
    """
    expected = [e for e in read_header_expectations(text[:4096]) if e.verdict == "invalid" and e.codes]
    found = {f.code for f in findings}
    return bool(expected) and all({c.text for c in e.codes} <= found for e in expected)


def _of_csv(path: str, source: Source, sources: Sources, question: Question) -> Case:
    began = time.perf_counter()
    program = torch_csv.read(source, question.csv)
    guard_size(program, Span(source.base))
    models, targets = _asked(question, (), (), ())
    name = PurePath(path).stem
    case = Case(path, name, sources, program, models, targets, question, at=source.base)
    return replace(case, seconds=time.perf_counter() - began)


def _of_run(path: str, source: Source, sources: Sources, question: Question) -> Case:
    found = timeline.read(source)
    run = found.timeline
    guard_size(run.program, Span(source.base))
    name = f"{found.name} (measured)"
    return Case(path, name, sources, run.program, (run.model,), (), question, measured=run, at=source.base)


def _of_text(path: str, source: Source, sources: Sources, question: Question) -> Iterator[Case | Family]:
    file = parse(source)
    library = Library(file, sources)
    header = read_header_expectations(source.text[:4096])
    for node in file.schedules:
        began = time.perf_counter()
        schedule = elaborate_schedule(_with_capacity(node, question.capacity), library)
        guard_size(schedule.program, node.name.span)
        base = Case(path, schedule.name, sources, schedule.program, (), (), question)
        case = _of_schedule(base, schedule, library)
        yield replace(case, expects=(*case.expects, *header), seconds=time.perf_counter() - began)
    if not file.schedules:
        for skeleton in file.skeletons:
            yield Family(path, skeleton.name.text, sources, skeleton.span.at, skeleton.span.width)


def _of_schedule(base: Case, schedule: Elaborated, library: Library) -> Case:
    """A case for an elaborated schedule; path, sources and question are those of `base`."""
    schedule = at_upper_ends(schedule)
    named = [m.text for e in schedule.expects for m in e.models]
    models, targets = _asked(
        base.question,
        schedule.models,
        [m for m in named if m not in TARGETS],
        [t for t in named if t in TARGETS],
    )
    return replace(
        base,
        program=schedule.program,
        models=models,
        targets=targets,
        expects=schedule.expects,
        requirements=requirements(schedule),
        schedule=schedule,
        library=library,
        at=schedule.node.name.span.at,
        width=schedule.node.name.span.width,
    )


def _asked(
    question: Question, models: Sequence[str], expected: Sequence[str], targets: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The models that a schedule names, those its expectations name, those asked for, and those of the
    targets' transports.
    """
    targets = tuple(dict.fromkeys([*targets, *question.targets]))
    unknown = [t for t in targets if t not in TRANSPORT]
    if unknown:
        raise ValueError(f"unknown target: {', '.join(unknown)}")
    transports = [m for t in targets for m in TRANSPORT[t]]
    asked = dict.fromkeys([*models, *expected, *question.models, *transports])
    return tuple(asked) or (DEFAULT_MODEL,), targets


def guard_size(program: Program, span: Span) -> None:
    """Raises IL104 for a program of many more pairs of a stage and a microbatch than operations: tables over
    them would fill the memory.
    """
    pairs = len(program.stages) * program.microbatches
    if pairs > min(MOST_PAIRS, max(FEW_PAIRS, 10 * len(program.order))):
        raise error(
            "IL104",
            f"{len(program.stages):,} stages and {program.microbatches:,} microbatches are {pairs:,} "
            "forwards, too many for a schedule "
            f"of {len(program.order):,} operations",
            span,
            help="check a smaller member of the schedule's family",
        )


def _with_capacity(node: ast.Schedule, capacity: int | None) -> ast.Schedule:
    """A schedule with a model and without a capacity of its own, with this one for every rank (bytes)."""
    if capacity is None or node.model is None or (node.memory is not None and node.memory.capacities):
        return node
    span = node.name.span
    memory = node.memory or ast.MemoryBlock((), span)
    stated = ast.Capacity(ast.Quantity(capacity, "bytes", span), (), span)
    return node._replace(memory=memory._replace(capacities=(stated,)))


def _write_owners(node: ast.Schedule, region: str, owner: Sequence[int]) -> ast.Schedule:
    """The statements of a schedule with the owner map of a region written out."""
    assert node.cut is not None

    def write(argument: ast.Argument) -> ast.Argument:
        if argument.name is None or argument.name.text != "owner":
            return argument
        value = ast.ListValue(tuple(ast.Int(r, argument.span) for r in owner), argument.span)
        return argument._replace(value=value)

    regions = tuple(
        r._replace(arguments=tuple(write(a) for a in r.arguments)) if r.name.text == region else r
        for r in node.cut.regions
    )
    return node._replace(cut=node.cut._replace(regions=regions))


# ---- sizes in intervals
# ---------------------------------------------------------------------------------------


def assumed_sizes(schedule: Elaborated) -> list[Assumption]:
    """What `assume` says of bytes."""
    return [a for a in schedule.assumes if a.property in SIZED]


def at_upper_ends(schedule: Elaborated) -> Elaborated:
    """The schedule with every assumed size at the upper end of its interval."""
    assumes = assumed_sizes(schedule)
    if not assumes:
        return schedule
    layers = layers_at(schedule, schedule.program.layers, {a: a.high.value for a in assumes})
    trained = schedule.trained
    if trained is not None:
        kept = tuple(replace(l, trainable=t.trainable) for l, t in zip(layers, trained.layers))
        trained = replace(trained, layers=kept)
    return replace(schedule, program=replace(schedule.program, layers=layers), trained=trained)


def layers_at(
    schedule: Elaborated, layers: Sequence[Layer], assumed: dict[Assumption, int]
) -> tuple[Layer, ...]:
    """The layers with these values of assumed sizes. What logits add to an activation stays."""
    out = list(layers)
    for a, value in assumed.items():
        for l in a.layers:
            size = Size(0, value) if a.high.per_image else Size(value)
            if a.property == "activation" and schedule.chain is not None:
                more = schedule.chain.logits[l]
                size = Size(size.fixed + more.fixed, size.per_image + more.per_image)
            changed: dict[str, Any] = {a.property: value if a.property == "weights" else size}
            out[l] = replace(out[l], **changed)
    return tuple(out)
