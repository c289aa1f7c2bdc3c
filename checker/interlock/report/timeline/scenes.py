"""A file to its pictures: each schedule checked, timed under one model, and laid out for a renderer of report/timeline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from interlock.check.pipeline import DEFAULT_MODEL, Options
from interlock.check.verdict import Answer, Checked, Verdict
from interlock.program.ir import Kind, Program
from interlock.text.finding import error
from interlock.text.source import Sources, Span
from interlock.timing.timeline import Timeline

CYCLES = ("IL402", "IL307")
COUNTED = {
    *CYCLES,
    "IL501",
    "IL502",
    "IL701",
    "IL702",
    "IL703",
    "IL704",
    "IL705",
    "IL408",
}  # errors beside which bytes can be counted
UNITS = {Kind.F: 1, Kind.B: 2, Kind.I: 1, Kind.W: 1}
FREE_SAID = "each transfer leaves as soon as there is something to send; `--comm` puts them into the queues of a transport"
UNITS_SAID = "no durations are given: F, I and W take one unit, B two, a transfer no time"


class NothingToDraw(Exception):
    """What was asked for is not there; the text says what is."""


@dataclass(frozen=True)
class Subject:
    """A schedule as checked. program: `listed` with its transfers written where that is possible; schedule: as elaborated, None for a CSV.

    measured: a run of it that was measured (interlock.timeline/1), if this is one.
    """

    checked: Checked
    listed: Program
    program: Program
    schedule: object
    sources: Sources
    measured: Timeline | None = None


def subjects(
    path: str, data: bytes, options: Options = Options(), sources: Sources | None = None
) -> Iterator[Subject]:
    """The schedules of a `.sched` file or a PyTorch CSV, or a measured timeline (`.json`); its text is added to `sources`. Raises InputError."""
    sources = sources or Sources()
    if PurePath(path).suffix.lower() == ".json":
        yield _measured(path, data, sources)
        return
    if PurePath(path).suffix.lower() == ".csv":
        from interlock.check.pipeline import check_csv
        from interlock.interchange import torch_csv

        checked, program = check_csv(path, sources.add(path, torch_csv.decode(data)), options)
        yield Subject(checked, program, _with_transfers(program), None, sources)
        return
    from interlock.algebra.elaborate import elaborate_schedule
    from interlock.algebra.library import Library
    from interlock.check.pipeline import check_schedule, limit
    from interlock.language.parse import decode, parse

    file = parse(sources.add(path, decode(path, data)))
    library = Library(file, sources)
    for node in file.schedules:
        schedule = elaborate_schedule(node, library)
        limit(schedule.program, node.name.span)
        checked = check_schedule(path, schedule, library, options)
        yield Subject(
            checked,
            schedule.program,
            _with_transfers(schedule.program, schedule.trained, schedule.comm_of),
            schedule,
            sources,
        )
    if not file.schedules:
        raise error(
            "IL201",
            "there is no schedule in this file, and a picture is of one",
            Span(0),
            help="write a schedule that uses the skeleton",
        )


def _measured(path: str, data: bytes, sources: Sources) -> Subject:
    from interlock.check.pipeline import limit
    from interlock.check.program import check_program
    from interlock.interchange import json_reader, timeline

    source = sources.add(path, json_reader.decode(data))
    found = timeline.read(source)
    run, program = found.timeline, found.timeline.program
    limit(program, Span(source.base))
    return Subject(
        Checked(path, f"{found.name} (measured)", check_program(program, (run.model,)), at=source.base),
        program,
        program,
        None,
        sources,
        run,
    )


def _with_transfers(program: Program, trained: Program | None = None, comm_of: Sequence[int] = ()) -> Program:
    from interlock.check.program import written

    return program if not program.inserted else written(program, trained, comm_of) or program


def scene(subject: Subject, model: str | None = None, *, counterexample: bool = False, units: bool = False):
    """The picture of a schedule under `model`; None: `pair` if it is asked, else the first model that is. Raises NothingToDraw.

    counterexample: under the first model it stops under. units: unit durations, whatever the schedule says.
    """
    from interlock.report.timeline.layout import UNIT, Scene

    if subject.measured is not None:
        return _measured_scene(subject, model, counterexample)
    checked = subject.checked
    answer = _answer(checked, model, counterexample)
    walk = next((f.walk for f in answer.errors if f.code in CYCLES and f.walk), ())
    program = subject.program
    if program.inserted and walk and answer.program is not None:
        program = answer.program
    errors = [f for f in answer.errors if f.code not in CYCLES]
    known, said = (None, UNITS_SAID) if units else _times(subject, program)
    notes = [said] if known is None else []
    if errors:
        more = f" ({len(errors) - 1} more with `interlock check`)" if len(errors) > 1 else ""
        notes.append(f"{errors[0].code}: {errors[0].message}{more}")
    free = model is None and not walk and subject.listed.inserted
    if free and not program.inserted:
        notes.append(FREE_SAID)
    timeline = _run(
        subject,
        program,
        answer.model,
        known or _units(program),
        free=free,
        whole=not walk and {f.code for f in errors} <= COUNTED,
    )
    return Scene(
        checked.name,
        timeline,
        checked.verdict.value if model is None and not counterexample else answer.verdict.value,
        told(checked),
        UNIT if known is None else 0,
        walk,
        tuple(notes),
        tuple(m.row for f in errors for m in f.marks),
        subject.sources,
        checked.path,
        {f.code for f in answer.errors} <= COUNTED,
    )


def _measured_scene(subject: Subject, model: str | None, counterexample: bool):
    """What ran, as it was measured; what never ran, if something did not."""
    from interlock.report.timeline.layout import Scene

    checked, run, answer = subject.checked, subject.measured, subject.checked.answers[0]
    if counterexample:
        raise NothingToDraw(f"{checked.name} shows what ran: a counterexample is drawn of its schedule")
    if model not in (None, run.model):
        raise NothingToDraw(
            f"{checked.name} ran under {run.model}: what it would do under {model} was not measured"
        )
    scene = Scene(
        checked.name,
        run,
        answer.verdict.value,
        told(checked),
        0,
        (),
        (),
        (),
        subject.sources,
        checked.path,
        {f.code for f in answer.errors} <= COUNTED,
        True,
    )
    left = int(((run.start < 0) & scene.facts.has_event).sum())
    walk = next((f.walk for f in answer.errors if f.code in CYCLES and f.walk), ()) if left else ()
    return replace(scene, walk=walk, notes=(f"it stopped: {left:,} operations never ran",) if left else ())


def timed(subject: Subject) -> bool:
    """Whether a schedule gives the durations of all its operations, or they were measured."""
    return subject.measured is not None or _times(subject, subject.program)[0] is not None


def told(checked: Checked) -> str:
    """`valid under pair, invalid (IL402) under rank`."""
    found: dict[str, list[str]] = {}
    for a in checked.answers:
        codes = ", ".join(sorted({f.code for f in a.errors})) if a.verdict is Verdict.INVALID else ""
        found.setdefault(a.verdict.value + (f" ({codes})" if codes else ""), []).append(a.model)
    return "; ".join(f"{what} under {', '.join(models)}" for what, models in found.items())


def _answer(checked: Checked, model: str | None, counterexample: bool) -> Answer:
    answers = [a for a in checked.answers if not a.target and (model is None or a.model == model)]
    if counterexample:
        answers = [a for a in answers if any(f.code in CYCLES for f in a.errors)]
        if not answers:
            raise NothingToDraw(f"{checked.name} has no wait cycle to draw: {told(checked)}")
    return next((a for a in answers if a.model == DEFAULT_MODEL), answers[0])


def _times(subject: Subject, program: Program):
    """Durations of a program's rows, or None and why."""
    from interlock.algebra.machine import machine_of
    from interlock.timing.durations import NoTimes, durations

    if subject.schedule is None:
        return None, UNITS_SAID
    try:
        return durations(program, subject.schedule.times, machine_of(subject.schedule)), ""
    except NoTimes as lack:
        return None, UNITS_SAID if not any(
            t.forward for t in subject.schedule.times
        ) else f"{lack}: F, I and W are drawn as one unit, B as two, a transfer as none"


def _units(program: Program):
    from interlock.report.timeline.layout import UNIT
    from interlock.timing.durations import by_kind

    return by_kind(program, {kind: UNIT * n for kind, n in UNITS.items()})


def _run(subject: Subject, program: Program, model: str, durations, *, free: bool, whole: bool):
    """The run; as far as it goes unless it is `whole`. free: of the program as listed, its transfers as soon as they can be."""
    from interlock.report.timeline.halt import run
    from interlock.timing.simulate import Cyclic, simulate

    if whole and not program.inserted:
        try:
            return (
                simulate(subject.listed, durations.on(subject.listed), placed=program)
                if free
                else simulate(program, durations, model)
            )
        except Cyclic:
            pass
    return run(program, model, durations.row)
