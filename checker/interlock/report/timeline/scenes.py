"""Cases to pictures: a schedule as checked, timed under one model, and laid out for a renderer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from interlock.algebra.machine import machine_of
from interlock.check.files import Ruling
from interlock.check.subject import CYCLES, write_transfers
from interlock.check.verdict import Answer, CaseResult, Verdict
from interlock.load import DEFAULT_MODEL, Case
from interlock.program.ir import Kind, Program
from interlock.report.timeline import partial_run
from interlock.report.timeline.axis import UNIT
from interlock.report.timeline.layout import Scene
from interlock.timing.durations import Durations, NoTimes, compute_durations, durations_by_kind
from interlock.timing.longest_path import Cyclic
from interlock.timing.simulate import simulate
from interlock.timing.timeline import Timeline

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
FREE_SAID = (
    "each transfer leaves as soon as there is something to send; `--comm` puts them into the queues "
    "of a transport"
)
UNITS_SAID = "no durations are given: F, I and W take one unit, B two, a transfer no time"


class NothingToDraw(Exception):
    """What was asked for is not there; the text says what is."""


@dataclass(frozen=True)
class Drawing(Ruling):
    """A ruling to be drawn."""

    @property
    def name(self) -> str:
        return self.result.name

    @property
    def measured(self) -> Timeline | None:
        return self.case.measured

    @cached_property
    def program(self) -> Program:
        """With its transfers written where that is possible."""
        case = self.case
        if not case.program.inserted:
            return case.program
        return write_transfers(case.program, case.trained, case.comm_of) or case.program

    @property
    def is_timed(self) -> bool:
        """Whether the schedule gives the durations of all its operations, or they were measured."""
        return self.measured is not None or isinstance(time_rows(self.case, self.program), Durations)


def scene(
    drawing: Drawing, model: str | None = None, *, counterexample: bool = False, units: bool = False
) -> Scene:
    """The picture of a schedule under `model`; None: `pair` if it is asked, else the first model that is.
    Raises NothingToDraw.

    counterexample: under the first model it stops under. units: unit durations, whatever the schedule says.
    """
    if drawing.measured is not None:
        return _measured_scene(drawing, drawing.measured, model, counterexample)
    case, result = drawing.case, drawing.result
    answer = _answer(result, model, counterexample)
    walk = next((f.walk for f in answer.errors if f.code in CYCLES and f.walk), ())
    program = drawing.program
    if program.inserted and walk and answer.program is not None:
        program = answer.program
    errors = [f for f in answer.errors if f.code not in CYCLES]
    times = UNITS_SAID if units else time_rows(case, program)
    notes = [times] if isinstance(times, str) else []
    if errors:
        more = f" ({len(errors) - 1} more with `interlock check`)" if len(errors) > 1 else ""
        notes.append(f"{errors[0].code}: {errors[0].message}{more}")
    as_listed = model is None and not walk and case.program.inserted
    if as_listed and not program.inserted:
        notes.append(FREE_SAID)
    rows = unit_times(program) if isinstance(times, str) else times
    counted = {f.code for f in answer.errors} <= COUNTED
    complete = not walk and {f.code for f in errors} <= COUNTED and not program.inserted
    timeline = (
        _simulate(case.program if as_listed else None, program, answer.model, rows) if complete else None
    )
    return Scene(
        result.name,
        timeline or partial_run.run_partially(program, answer.model, rows.row),
        result.verdict.value if model is None and not counterexample else answer.verdict.value,
        tell_verdicts(result),
        UNIT if isinstance(times, str) else 0,
        walk,
        tuple(notes),
        tuple(m.row for f in errors for m in f.marks),
        case.sources,
        result.path,
        counted,
    )


def _simulate(listed: Program | None, program: Program, model: str, rows: Durations) -> Timeline | None:
    """The whole run; None if it does not end. listed: the program whose transfers are sent as soon as they
    can be.
    """
    try:
        if listed is None:
            return simulate(program, rows, model)
        return simulate(listed, rows.on(listed), placed=program)
    except Cyclic:
        return None


def _measured_scene(drawing: Drawing, run: Timeline, model: str | None, counterexample: bool) -> Scene:
    """What ran, as it was measured; what never ran, if something did not."""
    result, answer = drawing.result, drawing.result.answers[0]
    if counterexample:
        raise NothingToDraw(f"{result.name} shows what ran: a counterexample is drawn of its schedule")
    if model not in (None, run.model):
        raise NothingToDraw(
            f"{result.name} ran under {run.model}: what it would do under {model} was not measured"
        )
    counted = {f.code for f in answer.errors} <= COUNTED
    picture = Scene(
        result.name,
        run,
        answer.verdict.value,
        tell_verdicts(result),
        0,
        (),
        (),
        (),
        drawing.case.sources,
        result.path,
        counted,
        True,
    )
    never = int(((run.start < 0) & picture.facts.has_event).sum())
    if not never:
        return picture
    walk = next((f.walk for f in answer.errors if f.code in CYCLES and f.walk), ())
    return replace(picture, walk=walk, notes=(f"it stopped: {never:,} operations never ran",))


def tell_verdicts(result: CaseResult) -> str:
    """`valid under pair, invalid (IL402) under rank`."""
    found: dict[str, list[str]] = {}
    for a in result.answers:
        codes = ", ".join(sorted({f.code for f in a.errors})) if a.verdict is Verdict.INVALID else ""
        found.setdefault(a.verdict.value + (f" ({codes})" if codes else ""), []).append(a.model)
    return "; ".join(f"{what} under {', '.join(models)}" for what, models in found.items())


def _answer(result: CaseResult, model: str | None, counterexample: bool) -> Answer:
    answers = [a for a in result.answers if not a.target and (model is None or a.model == model)]
    if counterexample:
        answers = [a for a in answers if any(f.code in CYCLES for f in a.errors)]
        if not answers:
            raise NothingToDraw(f"{result.name} has no wait cycle to draw: {tell_verdicts(result)}")
    return next((a for a in answers if a.model == DEFAULT_MODEL), answers[0])


def time_rows(case: Case, program: Program) -> Durations | str:
    """Durations of a program's rows, or why there are none."""
    if case.schedule is None:
        return UNITS_SAID
    try:
        return compute_durations(program, case.schedule.times, machine_of(case.schedule))
    except NoTimes as lack:
        if not any(t.forward for t in case.schedule.times):
            return UNITS_SAID
        return f"{lack}: F, I and W are drawn as one unit, B as two, a transfer as none"


def unit_times(program: Program) -> Durations:
    return durations_by_kind(program, {kind: UNIT * n for kind, n in UNITS.items()})
