"""`require` of makespan, bubble and exposure, also for every value of what `assume` leaves open
(spec/cost.md, "Requirements", "Intervals").
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from interlock.algebra.elaborate import SIZED, Elaborated
from interlock.algebra.machine import machine_of
from interlock.algebra.requirements import Bound
from interlock.check.freezings import train
from interlock.check.intervals import by_solver
from interlock.check.obligation import Record, moot
from interlock.check.runs import Breaks, Runs, Value, finding, value_of, where
from interlock.check.sizes import name_assumption
from interlock.check.subject import Subject
from interlock.check.verdict import Outcome, Verdict
from interlock.load import Case
from interlock.program.ir import Program
from interlock.program.transfers import restrict
from interlock.text.finding import Finding, Severity
from interlock.timing.durations import NoTimes
from interlock.timing.exposure import compute_exposure, has_encoder
from interlock.timing.figures import compute_figures, format_duration
from interlock.timing.freezings import FREEZINGS_LIMIT, ROWS_LIMIT, distinct_freezings, name_layers
from interlock.timing.longest_path import Cyclic

FIGURES_LIMIT = 50_000  # operations up to which figures are told without being asked for
FEW = 32  # freezings tried where durations are assumed
CORNERS = 10  # assumptions up to which every corner of their intervals is tried: 2^10
TIMED = ("forward", "backward", "backward_input", "backward_weight")


@dataclass(frozen=True)
class Durations:
    """R-REQ-4 to R-REQ-6: bubble, exposure and makespan within what `require` allows; asked of what is valid
    otherwise.

    subject   the program as judged, with or without its transfers written; findings are about its rows
    bounds    those asked under each of `models`; several models only where transfers are inserted: one run
              for all of them
    """

    case: Case
    subject: Subject
    bounds: tuple[Bound, ...]
    models: tuple[str, ...]

    @property
    def name(self) -> str:
        asked = ", ".join(b.figure for b in self.bounds)
        return f"durations: {asked}" if asked else "durations"

    def discharge(self, earlier: Record) -> Outcome:
        [model, *_] = self.models
        blocked = moot(earlier, model)
        if blocked is not None:
            return blocked
        found = decide(self.case, self.subject.program, self.bounds, model)
        if self.subject.program.inserted or self.case.program.inserted:
            figures = found.figures
        else:
            figures = {f"{name} under `{model}`": value for name, value in found.figures.items()}
        if found.findings:
            return Outcome(Verdict.INVALID, "", found.findings, None, figures=figures)
        if found.undecided:
            notes = tuple(
                Finding("IL901", "R-REQ-1", reason, severity=Severity.NOTE) for reason in found.undecided
            )
            return Outcome(Verdict.UNKNOWN, "; ".join(found.undecided), notes, figures=figures)
        return Outcome(Verdict.VALID, "", figures=figures)


@dataclass(frozen=True)
class Decision:
    """findings: of requirements that fail; undecided: why others are open; figures: by name."""

    findings: tuple[Finding, ...] = ()
    undecided: tuple[str, ...] = ()
    figures: dict[str, str | list[str]] = field(default_factory=dict)


def decide(case: Case, program: Program, bounds: Sequence[Bound], model: str) -> Decision:
    """The bounds of a case under one model. `program`: as judged, with or without its transfers written."""
    schedule = case.schedule
    if schedule is None:
        return Decision()
    timed = [a for a in schedule.assumes if a.property in TIMED]
    other = sorted({a.property for a in schedule.assumes} - {*TIMED, *SIZED})
    undecided = [
        f"`assume {p} in` is decided for durations and sizes only ({', '.join((*TIMED, *SIZED))})"
        for p in other
    ]
    if not bounds and len(program.order) > FIGURES_LIMIT:
        return Decision((), tuple(undecided))
    once = list(bounds)
    if schedule.freezing and bounds:
        largest = train(case, schedule.freezing)
        if largest.layers != schedule.program.layers:
            schedule, program = replace(schedule, program=largest), largest
        once = [b for b in bounds if _longest_when_trained(b, schedule)]
    run = Runs(schedule, program, model, timed)
    findings = []
    try:
        figures = _figures(run)
        for bound in bounds:
            found = _decide(run, bound) if bound in once else _every_freezing(schedule, run, bound)
            if isinstance(found, Finding):
                findings.append(found)
            elif found:
                undecided.append(found)
        return Decision(tuple(findings), tuple(undecided), figures)
    except NoTimes as lacking:
        lacks = [f"`require {b.figure}` asks for durations: {lacking}" for b in bounds]
    except Cyclic:
        lacks = [f"`require {b.figure}` is asked of a run that does not end" for b in bounds]
    return Decision((), (*undecided, *lacks))


def _longest_when_trained(bound: Bound, schedule: Elaborated) -> bool:
    """Whether no freezing has a larger figure than none: a makespan in which overlapped halves add no time of
    their own.
    """
    return bound.figure == "makespan" and machine_of(schedule).overlap is None


def _every_freezing(schedule: Elaborated, trained_run: Runs, bound: Bound) -> Finding | str:
    """A bound of a figure that freezing may raise as well as lower: decided for each freezing that durations
    tell apart.
    """
    open_ = f"`require {bound.figure}` is not decided for every freezing: "
    base = trained_run.own
    if schedule.trained is None and not base.inserted:
        return open_ + "the order is written out with its transfers"
    assumed = [
        tuple((i, a.property) for i, a in enumerate(trained_run.assumes) if l in a.layers)
        for l in range(len(base.layers))
    ]
    most = min(FREEZINGS_LIMIT if not trained_run.assumes else FEW, ROWS_LIMIT // max(len(base.order), 1))
    tried = list(
        itertools.islice(
            distinct_freezings(base, schedule.freezing, [*zip(schedule.times, assumed)]), most + 1
        )
    )
    if len(tried) > most:
        return (
            open_
            + f"more than {most:,} of them differ; name fewer layers, or freeze what is frozen, and check "
            "that"
        )
    for trained in tried:
        frozen = frozenset(schedule.freezing) - trained
        program = restrict(
            base,
            tuple(replace(l, trainable=l.trainable and i not in frozen) for i, l in enumerate(base.layers)),
        )
        run = Runs(
            replace(schedule, program=program),
            program,
            trained_run.model,
            trained_run.assumes,
            f"with {name_layers(base, frozen)} frozen",
        )
        found = _decide(run, bound)
        if found:
            return found if isinstance(found, Finding) else f"{found} ({run.frozen})"
    return ""


def _figures(run: Runs) -> dict[str, str | list[str]]:
    """At the written times, and the exposure where there is an encoder; with assumptions at the upper ends of
    the intervals.
    """
    out = compute_figures(run.timeline(run.high)).shown()
    if has_encoder(run.program):
        found = compute_exposure(run.own, run.times(run.high), run.model)
        out["exposure"] = format_duration(found.exposed)
        out["largest spill (the paper's estimate)"] = format_duration(found.estimate)
    return {
        f"{name}, at the upper ends of what is assumed" if run.assumes else name: value
        for name, value in out.items()
    }


# ---- one bound ---------------------------------------------------------------------------------------------


def _decide(run: Runs, bound: Bound) -> Finding | str:
    """The finding of a bound that fails, why it is open, or nothing if it holds."""
    figure = bound.figure
    if figure == "exposure" and not has_encoder(run.program):
        return "`require exposure` asks for a Replicated region at the beginning of the cut"
    breaks = bound.is_broken_by
    if figure != "makespan" and run.sized:
        value = value_of(run, figure, run.high)
        return (
            finding(run, bound, value, run.high, where(run, run.high))
            if breaks(value)
            else f"`require {figure}` holds at the upper ends of what is assumed; for other sizes transfers "
            "and reductions take other times"
        )
    if not run.assumes:
        value = value_of(run, figure, ())
        return finding(run, bound, value, (), where(run, ()) if run.sized else "") if breaks(value) else ""
    if figure == "makespan" or (figure == "exposure" and _encoder_alone(run)):
        value = value_of(run, figure, run.high)  # no longer path where every duration is smaller
        return (
            finding(run, bound, value, run.high, _first_to_break(run, bound, breaks)) if breaks(value) else ""
        )
    if len(run.assumes) > CORNERS:
        return f"`require {figure}` over {len(run.assumes)} intervals has too many corners to try"
    for corner in itertools.product((1, 0), repeat=len(run.assumes)):
        value = value_of(run, figure, corner)
        if breaks(value):
            return finding(run, bound, value, corner, where(run, corner))
    return by_solver(run, bound, breaks)


def _encoder_alone(run: Runs) -> bool:
    """Whether only layers of stage 0 are assumed: then the makespan without it is a constant."""
    last = run.program.stages[0].last
    return all(l < last for a in run.assumes for l in a.layers)


def _first_to_break(run: Runs, bound: Bound, breaks: Breaks) -> str:
    """The smallest value that breaks a monotone figure, of one assumption; the upper ends of several."""
    if len(run.assumes) != 1 or run.sized:
        return where(run, run.high)
    a = run.assumes[0]

    def at(value: int) -> Value:
        moved = replace(a, high=a.high._replace(value=value))
        return value_of(Runs(run.schedule, run.judged, run.model, [moved], run.frozen), bound.figure, (1,))

    low, high = a.low.value, a.high.value
    if breaks(at(low)):
        return f"at every {name_assumption(run.program, a)}, and at {format_duration(high)}"
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if breaks(at(middle)) else (middle, high)
    return (
        f"at {name_assumption(run.program, a)} = {format_duration(a.high.value)} (it breaks from "
        f"{format_duration(high)} on)"
    )
