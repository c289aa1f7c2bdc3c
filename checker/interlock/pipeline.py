"""A file to its answers: read, elaborate, check every schedule under every model it asks for, compare with what it expects."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from .language.diagnostics import Diagnostic, InputError
from .language.source import Source, Sources
from .rules.finding import Finding, Severity
from .verdict import Answer, Checked, Expectation, Verdict

DEFAULT_MODEL = "pair"
GROWTH_LIMIT = 300_000           # operations up to which a derived program is elaborated again with more microbatches (R-MEM-2)


@dataclass(frozen=True)
class Options:
    """models: asked beside those a file names. csv: interchange.torch_csv.CsvOptions, None for its defaults."""

    models: tuple[str, ...] = ()
    engine: str = "graph"
    csv: object = None


@dataclass(frozen=True)
class FileResult:
    """One file: its schedules, or the input errors that kept it from being checked (`as_expected`: its header asked for them)."""

    path: str
    sources: Sources
    checked: tuple[Checked, ...] = ()
    errors: tuple[Diagnostic, ...] = ()
    as_expected: bool = False


def check_file(path: str, data: bytes, options: Options = Options()) -> FileResult:
    """Checks the contents of a `.sched` file, or of a PyTorch CSV if the name ends in `.csv`. Raises Disagreement only."""
    sources = Sources()
    text = ""
    try:
        if PurePath(path).suffix.lower() == ".csv":
            from .interchange import torch_csv
            text = torch_csv.decode(data)
            return FileResult(path, sources, (_csv(path, sources.add(path, text), options),))
        from .language.parse import decode
        text = decode(path, data)
        return FileResult(path, sources, tuple(_sched(path, sources.add(path, text), sources, options)))
    except InputError as error:
        return FileResult(path, sources, (), error.diagnostics, _expected_errors(text, error.diagnostics))


def _expected_errors(text: str, diagnostics: Sequence[Diagnostic]) -> bool:
    """Whether the comments a text begins with expect it to be refused with these codes: `# expect: invalid IL101`."""
    from .language.parse import header_expectations
    expected = [e for e in header_expectations(text[:4096]) if e.verdict == "invalid" and e.codes]
    found = {d.code for d in diagnostics}
    return bool(expected) and all({c.text for c in e.codes} <= found for e in expected)


def _csv(path: str, source: Source, options: Options) -> Checked:
    from .check import check_program
    from .interchange import torch_csv
    began = time.perf_counter()
    program = torch_csv.read(source, options.csv or torch_csv.CsvOptions())
    answers = check_program(program, options.models or (DEFAULT_MODEL,), engine=options.engine)
    return Checked(path, PurePath(path).stem, answers, at=source.base, seconds=time.perf_counter() - began)


def _sched(path: str, source: Source, sources: Sources, options: Options) -> Iterable[Checked]:
    from .algebra.elaborate import elaborate_schedule
    from .algebra.library import Library
    from .language.parse import parse
    file = parse(source)
    library = Library(file, sources)
    for node in file.schedules:
        began = time.perf_counter()
        schedule = elaborate_schedule(node, library)
        checked = _schedule(path, schedule, library, options)
        yield replace(checked, seconds=time.perf_counter() - began)
    if not file.schedules:
        for skeleton in file.skeletons:
            answer = Answer(DEFAULT_MODEL, reason="a skeleton is a program for all P and M: `prove` decides it, which this version lacks; "
                            "check a schedule that uses it")
            yield Checked(path, skeleton.name.text, (answer,), at=skeleton.span.at, width=skeleton.span.width)


def _schedule(path: str, schedule, library, options: Options) -> Checked:
    from .algebra.requirements import empty_assumption, requirements
    from .check import Limits, check_program
    asked = requirements(schedule)
    expects = [(Verdict(e.verdict), tuple(c.text for c in e.codes), tuple(m.text for m in e.models)) for e in schedule.expects]
    models = tuple(dict.fromkeys([*(schedule.models or ()), *(m for _, _, ms in expects for m in ms), *options.models])) or (DEFAULT_MODEL,)
    limits = Limits(asked.peak, asked.in_flight)
    answers = check_program(schedule.program, models, engine=options.engine, limits=limits, trained=schedule.trained, comm_of=schedule.comm_of)
    if schedule.freezing:
        answers = _for_any_freezing(schedule, answers, models, limits, options)
    answers = _growth(schedule, library, asked.bounded_stash, answers)
    answers = tuple(_unless(a, asked.undecided, empty_assumption(schedule)) for a in answers)
    met = tuple(Expectation(verdict, codes[0] if codes else None, ms, _met(verdict, codes, ms, answers)) for verdict, codes, ms in expects)
    return Checked(path, schedule.name, answers, met, schedule.warnings, schedule.node.name.span.at, schedule.node.name.span.width)


def _unless(answer: Answer, undecided: Sequence[str], vacuous: str) -> Answer:
    """A valid answer holds only if nothing was left undecided and the assumptions admit an instance."""
    if answer.verdict is Verdict.VALID and vacuous:
        return replace(answer, verdict=Verdict.VACUOUS, reason=vacuous)
    if answer.verdict is Verdict.VALID and undecided:
        notes = tuple(Finding("IL901", "R-REQ-1", reason, severity=Severity.NOTE) for reason in undecided)
        return replace(answer, verdict=Verdict.UNKNOWN, reason="; ".join(undecided), findings=answer.findings + notes)
    return answer


def _met(verdict: Verdict, codes: tuple[str, ...], models: tuple[str, ...], answers: Sequence[Answer]) -> bool:
    mine = [a for a in answers if not models or a.model in models]
    return bool(mine) and all(a.verdict is verdict and set(codes) <= {f.code for f in a.findings} for a in mine)


def _for_any_freezing(schedule, answers, models, limits, options: Options) -> tuple[Answer, ...]:
    """R-INV: the program with every layer of `for any freezing` trained is valid, and one order serves all their freezings."""
    from .check import check_program
    from .invariance import check_invariance
    from .program.transfers import restrict
    base = schedule.trained or schedule.program
    free = set(schedule.freezing)
    layers = tuple(replace(l, trainable=i in free or now.trainable) for i, (l, now) in enumerate(zip(base.layers, schedule.program.layers)))
    trained = restrict(base, layers)
    largest = answers
    if layers != schedule.program.layers:
        largest = check_program(trained, models, engine=options.engine, limits=limits, trained=schedule.trained, comm_of=schedule.comm_of)
    invariance = check_invariance(trained, sorted(free))
    return tuple(_worst(declared, most, invariance) for declared, most in zip(answers, largest))


def _worst(declared: Answer, most: Answer, invariance: Answer) -> Answer:
    """Valid only if all three are; the first that is not is the answer."""
    for answer in (declared, most, invariance):
        if answer.verdict is not Verdict.VALID:
            return replace(answer, model=declared.model)
    return replace(declared, findings=declared.findings + invariance.findings,
                   certificates=declared.certificates + most.certificates * (most is not declared) + invariance.certificates)


def _growth(schedule, library, required: bool, answers: tuple[Answer, ...]) -> tuple[Answer, ...]:
    """IL502, R-MEM-2: a derived program elaborated again with more microbatches holds no more stashes."""
    if schedule.trained is None or len(schedule.program.order) > GROWTH_LIMIT:
        undecided = "`bounded_stash` is decided for derived programs of moderate size only" if required else ""
        return tuple(_unless(a, [undecided] if undecided else [], "") for a in answers)
    from .algebra.growth import growth
    finding, reason = growth(schedule, library, required)
    if finding is not None:
        verdict = {"verdict": Verdict.INVALID} if finding.is_error else {}
        return tuple(replace(a, findings=a.findings + (finding,), **(verdict if a.verdict is Verdict.VALID else {})) for a in answers)
    if required:
        return tuple(_unless(a, [reason], "") for a in answers)
    return answers
