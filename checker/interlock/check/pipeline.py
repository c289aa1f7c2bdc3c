"""A file to its answers: read, elaborate, check every schedule under every model it asks for, compare with what it expects."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from interlock.check.verdict import Answer, Checked, Expectation, Verdict
from interlock.gate import waivers
from interlock.program.ir import Program
from interlock.text.finding import Finding, InputError, Severity, error
from interlock.text.source import Source, Sources, Span

DEFAULT_MODEL = "pair"
MOST_PAIRS, FEW_PAIRS = 20_000_000, 2_000_000
GROWTH_LIMIT = (
    300_000  # operations up to which a derived program is elaborated again with more microbatches (R-MEM-2)
)


@dataclass(frozen=True)
class Options:
    """models, targets: asked beside those a file names. csv: interchange.torch_csv.CsvOptions, None for its defaults.

    `capacity`: bytes a rank of every schedule with a model that states none.
    """

    models: tuple[str, ...] = ()
    engine: str = "graph"
    csv: object = None
    targets: tuple[str, ...] = ()
    capacity: int | None = None


@dataclass(frozen=True)
class FileResult:
    """One file: its schedules, or the input errors that kept it from being checked (`as_expected`: its header asked for them)."""

    path: str
    sources: Sources
    checked: tuple[Checked, ...] = ()
    errors: tuple[Finding, ...] = ()
    as_expected: bool = False


def check_file(path: str, data: bytes, options: Options = Options()) -> FileResult:
    """Checks the contents of a `.sched` file, or of a PyTorch CSV if the name ends in `.csv`. Raises Disagreement only."""
    sources = Sources()
    text = ""
    try:
        if PurePath(path).suffix.lower() == ".csv":
            from interlock.interchange import torch_csv

            text = torch_csv.decode(data)
            return FileResult(path, sources, (check_csv(path, sources.add(path, text), options)[0],))
        from interlock.language.parse import decode

        text = decode(path, data)
        source = sources.add(path, text)
        checked = _as_header_expects(text, tuple(_sched(path, source, sources, options)))
        return FileResult(path, sources, waivers.apply(checked, source, *waivers.read(source)))
    except InputError as refused:
        return FileResult(path, sources, (), refused.findings, _expected_errors(text, refused.findings))
    except MemoryError:
        return FileResult(
            path,
            sources,
            (),
            (
                Finding.of_input(
                    "IL104",
                    "reading this schedule takes more memory than there is",
                    (),
                    "check a smaller member of the schedule's family",
                ),
            ),
        )


def _expected_errors(text: str, findings: Sequence[Finding]) -> bool:
    """Whether the comments a text begins with expect it to be refused with these codes: `# expect: invalid IL101`."""
    from interlock.language.parse import read_header_expectations

    expected = [e for e in read_header_expectations(text[:4096]) if e.verdict == "invalid" and e.codes]
    found = {d.code for d in findings}
    return bool(expected) and all({c.text for c in e.codes} <= found for e in expected)


def _as_header_expects(text: str, checked: tuple[Checked, ...]) -> tuple[Checked, ...]:
    """What the comments a text begins with expect, asked of every schedule of a file that was not refused."""
    from interlock.language.parse import read_header_expectations

    expected = [
        (Verdict(e.verdict), tuple(c.text for c in e.codes), tuple(m.text for m in e.models))
        for e in read_header_expectations(text[:4096])
    ]
    return (
        tuple(replace(c, expectations=c.expectations + _expectations(expected, c.answers)) for c in checked)
        if expected
        else checked
    )


def _expectations(
    expected: Sequence[tuple[Verdict, tuple[str, ...], tuple[str, ...]]], answers: Sequence[Answer]
) -> tuple[Expectation, ...]:
    return tuple(
        Expectation(verdict, codes[0] if codes else None, models, _met(verdict, codes, models, answers))
        for verdict, codes, models in expected
    )


def limit(program: Program, span: Span) -> None:
    """Raises IL104 for a program of many more pairs of a stage and a microbatch than operations: tables over them would fill the memory."""
    pairs = len(program.stages) * program.microbatches
    if pairs > min(MOST_PAIRS, max(FEW_PAIRS, 10 * len(program.order))):
        raise error(
            "IL104",
            f"{len(program.stages):,} stages and {program.microbatches:,} microbatches are {pairs:,} forwards, too many for a schedule "
            f"of {len(program.order):,} operations",
            span,
            help="check a smaller member of the schedule's family",
        )


def check_csv(path: str, source: Source, options: Options) -> tuple[Checked, Program]:
    """A PyTorch CSV under each model asked and for each target, and the program it is."""
    from interlock.check.program import check_program
    from interlock.check.targets import check_targets, models_of
    from interlock.interchange import torch_csv

    began = time.perf_counter()
    program = torch_csv.read(source, options.csv or torch_csv.CsvOptions())
    limit(program, Span(source.base))
    models = tuple(dict.fromkeys([*options.models, *models_of(options.targets)])) or (DEFAULT_MODEL,)
    answers = check_program(program, models, engine=options.engine)
    answers = tuple(_unless(a, (), nothing_listed(program)) for a in answers)
    answers += check_targets(program, options.targets, answers, _context(options))
    return Checked(
        path, PurePath(path).stem, answers, at=source.base, seconds=time.perf_counter() - began
    ), program


def _sched(path: str, source: Source, sources: Sources, options: Options) -> Iterable[Checked]:
    from interlock.algebra.elaborate import elaborate_schedule
    from interlock.algebra.library import Library
    from interlock.language.parse import parse

    file = parse(source)
    library = Library(file, sources)
    for node in file.schedules:
        began = time.perf_counter()
        schedule = elaborate_schedule(with_capacity(node, options.capacity), library)
        limit(schedule.program, node.name.span)
        checked = check_schedule(path, schedule, library, options)
        yield replace(checked, seconds=time.perf_counter() - began)
    if not file.schedules:
        for skeleton in file.skeletons:
            answer = Answer(
                DEFAULT_MODEL,
                reason="a skeleton is a program for all P and M: `prove` decides it, which this version lacks; "
                "check a schedule that uses it",
            )
            yield Checked(path, skeleton.name.text, (answer,), at=skeleton.span.at, width=skeleton.span.width)


def with_capacity(node, capacity: int | None):
    """A schedule with a model and without a capacity of its own, with this one for every rank (bytes)."""
    if capacity is None or node.model is None or (node.memory is not None and node.memory.capacities):
        return node
    from interlock.language import ast

    span = node.name.span
    memory = node.memory or ast.MemoryBlock((), span)
    return replace(
        node,
        memory=replace(memory, capacities=(ast.Capacity(ast.Quantity(capacity, "bytes", span), (), span),)),
    )


def check_schedule(path: str, schedule, library, options: Options) -> Checked:
    """One elaborated schedule under each model asked and for each target."""
    from interlock.check.targets import TARGETS

    expects = [
        (Verdict(e.verdict), tuple(c.text for c in e.codes), tuple(m.text for m in e.models))
        for e in schedule.expects
    ]
    named = [m for _, _, ms in expects for m in ms]
    targets = tuple(dict.fromkeys([*(t for t in named if t in TARGETS), *options.targets]))
    models = models_asked(schedule, options)
    answers, figures = decided(schedule, library, options, models, targets)
    if schedule.any_owner:
        from interlock.check.owner_maps import every_owner

        answers, figures = every_owner(schedule, library, answers, figures, options, models, targets)
    met = _expectations(expects, answers)
    return Checked(
        path,
        schedule.name,
        answers,
        met,
        schedule.warnings,
        schedule.node.name.span.at,
        schedule.node.name.span.width,
        figures=figures,
    )


def decided(
    schedule, library, options: Options, models: Sequence[str], targets: Sequence[str]
) -> tuple[tuple[Answer, ...], dict]:
    """The answers under the models and for the targets, and the figures; with the owner map that the program has."""
    from interlock.algebra.requirements import empty_assumption, requirements
    from interlock.check import sizes
    from interlock.check.durations import apply
    from interlock.check.program import Limits, check_program
    from interlock.check.targets import check_targets

    schedule = sizes.fullest(schedule)
    asked = requirements(schedule)
    limits = Limits(asked.peak, asked.in_flight)
    answers = check_program(
        schedule.program,
        models,
        engine=options.engine,
        limits=limits,
        trained=schedule.trained,
        comm_of=schedule.comm_of,
    )
    if schedule.freezing:
        answers = _for_any_freezing(schedule, answers, models, limits, options)
    answers = sizes.told(schedule, answers, limits.peak)
    if options.engine != "graph":
        answers = sizes.decided_anew(schedule, answers, limits.peak)
    answers = _growth(schedule, library, asked.bounded_stash, answers)
    answers = tuple(
        _unless(a, asked.undecided, empty_assumption(schedule) or nothing_listed(schedule.program))
        for a in answers
    )
    answers, figures = apply(schedule, answers, asked.costs)
    open_ = (
        "`for any freezing` is not decided for targets: freeze what is frozen, and check that"
        if schedule.freezing
        else ""
    )
    return answers + check_targets(schedule.program, targets, answers, _context(options), open_), figures


def models_asked(schedule, options: Options) -> tuple[str, ...]:
    """The models a schedule names, those its expectations name, those asked for, and those of the targets."""
    from interlock.check.targets import TARGETS, models_of

    named = [m.text for e in schedule.expects for m in e.models]
    targets = tuple(dict.fromkeys([*(t for t in named if t in TARGETS), *options.targets]))
    return tuple(
        dict.fromkeys(
            [
                *(schedule.models or ()),
                *(m for m in named if m not in TARGETS),
                *options.models,
                *models_of(targets),
            ]
        )
    ) or (DEFAULT_MODEL,)


def _context(options: Options):
    from interlock.check.targets import Context

    return Context(options.csv.placement if options.csv is not None else None)


def nothing_listed(program: Program) -> str:
    """Why a program without operations is vacuous: there is nothing that could be right or wrong."""
    return "" if len(program.order) else "no rank lists an operation: there is nothing to check"


def _unless(answer: Answer, undecided: Sequence[str], vacuous: str) -> Answer:
    """A valid answer holds only if nothing was left undecided and the assumptions admit an instance."""
    if answer.verdict is Verdict.VALID and vacuous:
        return replace(answer, verdict=Verdict.VACUOUS, reason=vacuous)
    if answer.verdict is Verdict.VALID and undecided:
        notes = tuple(Finding("IL901", "R-REQ-1", reason, severity=Severity.NOTE) for reason in undecided)
        return replace(
            answer, verdict=Verdict.UNKNOWN, reason="; ".join(undecided), findings=answer.findings + notes
        )
    return answer


def _met(
    verdict: Verdict, codes: tuple[str, ...], models: tuple[str, ...], answers: Sequence[Answer]
) -> bool:
    mine = [a for a in answers if (a.model in models if models else not a.target)]
    return bool(mine) and all(
        a.verdict is verdict and set(codes) <= {f.code for f in a.findings} for a in mine
    )


def _for_any_freezing(schedule, answers, models, limits, options: Options) -> tuple[Answer, ...]:
    """R-INV: the program with every layer of `for any freezing` trained is valid, and one order serves all their freezings."""
    from interlock.check.freezings import check_invariance
    from interlock.check.program import check_program

    trained, placed = freest(schedule, limits.peak)
    largest = answers
    if trained.layers != schedule.program.layers:
        largest = check_program(
            trained,
            models,
            engine=options.engine,
            limits=limits,
            trained=schedule.trained,
            comm_of=schedule.comm_of,
        )
        largest = tuple(_with_nothing_frozen(most, trained, schedule.freezing) for most in largest)
    ask = lambda under: check_invariance(
        trained,
        schedule.freezing,
        placed=placed,
        under=under,
        peak=limits.peak,
        second=options.engine == "both",
    )
    if trained.inserted:
        invariance = [ask(None)] * len(answers)
    else:
        valid = lambda pair: all(a.verdict is Verdict.VALID for a in pair)
        invariance = [ask(pair[1]) if valid(pair) else pair[1] for pair in zip(answers, largest)]
    return tuple(_worst(*three) for three in zip(answers, largest, invariance))


def _with_nothing_frozen(most: Answer, trained: Program, layers: Sequence[int]) -> Answer:
    """What is found with all of the layers trained, which the schedule as it is declared does not say."""
    from interlock.check.freezings import names_of, not_every

    if most.verdict is not Verdict.INVALID:
        return most
    codes = ", ".join(sorted({f.code for f in most.errors}))
    finding = not_every(
        names_of(trained, layers),
        "",
        f"it is invalid: {codes}",
        "repair that, or freeze these layers for good and leave `for any freezing` out",
    )
    return replace(most, findings=(finding, *most.findings))


def freest(schedule, peak: Sequence[int | None] | None) -> tuple[Program, Program | None]:
    """The program with every layer of `for any freezing` trained, and that with its transfers written, if bytes are asked of it."""
    from interlock.check.program import unbounded, written
    from interlock.program.transfers import restrict

    base = schedule.trained or schedule.program
    layers = tuple(
        replace(l, trainable=i in schedule.freezing or now.trainable)
        for i, (l, now) in enumerate(zip(base.layers, schedule.program.layers))
    )
    listed = schedule.trained is None and not base.inserted  # with its transfers: as it is written
    trained = replace(base, layers=layers) if listed else restrict(base, layers)
    memory = trained.memory or (unbounded(trained) if peak is not None else None)
    if not trained.inserted or memory is None or (peak is None and all(c is None for c in memory.capacity)):
        return trained, None
    return trained, written(replace(trained, memory=memory), schedule.trained, schedule.comm_of)


def _worst(declared: Answer, most: Answer, invariance: Answer) -> Answer:
    """Valid only if all three are; the first that is not is the answer."""
    for answer in (declared, most, invariance):
        if answer.verdict is not Verdict.VALID:
            return replace(answer, model=declared.model)
    return replace(
        declared,
        findings=declared.findings + invariance.findings,
        certificates=declared.certificates
        + most.certificates * (most is not declared)
        + invariance.certificates,
    )


def _growth(schedule, library, required: bool, answers: tuple[Answer, ...]) -> tuple[Answer, ...]:
    """IL502, R-MEM-2: a derived program elaborated again with more microbatches holds no more stashes."""
    if schedule.trained is None or len(schedule.program.order) > GROWTH_LIMIT:
        undecided = (
            "`bounded_stash` is decided for derived programs of moderate size only" if required else ""
        )
        return tuple(_unless(a, [undecided] if undecided else [], "") for a in answers)
    from interlock.check.growth import growth

    finding, reason = growth(schedule, library, required)
    if finding is not None:
        verdict = {"verdict": Verdict.INVALID, "certificates": ()} if finding.is_error else {}
        return tuple(
            replace(a, findings=a.findings + (finding,), **(verdict if a.verdict is Verdict.VALID else {}))
            for a in answers
        )
    if required:
        return tuple(_unless(a, [reason], "") for a in answers)
    return answers
