"""`require` of makespan, bubble and exposure, also for every value of what `assume` leaves open (spec/cost.md, "Requirements", "Intervals")."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from interlock.algebra.elaborate import SIZED, Elaborated
from interlock.algebra.machine import machine_of
from interlock.algebra.requirements import Bound
from interlock.check.intervals import by_solver
from interlock.check.runs import Runs, finding, named, value_of, where
from interlock.check.verdict import Answer, Verdict
from interlock.program.ir import Program
from interlock.program.transfers import restrict
from interlock.text.finding import Finding, Severity
from interlock.timing.durations import NoTimes
from interlock.timing.figures import duration, figures
from interlock.timing.freezings import MOST, MOST_ROWS, freezings, names
from interlock.timing.longest_path import Cyclic
from interlock.timing.transpose import exposure, has_encoder

FIGURES_LIMIT = 50_000  # operations up to which figures are told without being asked for
FEW = 32  # freezings tried where durations are assumed
CORNERS = 10  # assumptions up to which every corner of their intervals is tried: 2^10
TIMED = ("forward", "backward", "backward_input", "backward_weight")


@dataclass(frozen=True)
class Decision:
    """findings: of requirements that fail; undecided: why others are open; figures: by name, for the report."""

    findings: tuple[Finding, ...] = ()
    undecided: tuple[str, ...] = ()
    figures: dict | None = None


def apply(
    schedule: Elaborated, answers: Sequence[Answer], bounds: Sequence[Bound]
) -> tuple[tuple[Answer, ...], dict]:
    """The answers with what `require` asks of durations decided, and figures for the report. An answer that is not valid stays as it is.

    A valid one whose bound fails is invalid, with the critical path in its finding; its certificate stays, that of everything but durations.
    """
    out, told, known = [], {}, {}
    for answer in answers:
        if answer.verdict is not Verdict.VALID or answer.target or answer.program is None:
            out.append(answer)
            continue
        mine = tuple(b for b in bounds if not b.models or answer.model in b.models)
        key = (
            mine,
            "" if schedule.program.inserted else answer.model,
        )  # inserted transfers: one run for every model
        if key not in known:
            known[key] = decide(schedule, answer.program, mine, answer.model)
        found = known[key]
        if found.figures and not told:
            told = (
                found.figures
                if schedule.program.inserted
                else {f"{name} under `{answer.model}`": value for name, value in found.figures.items()}
            )
        out.append(_with(answer, found))
    return tuple(out), told


def _with(answer: Answer, found: Decision) -> Answer:
    if found.findings:
        return replace(answer, verdict=Verdict.INVALID, findings=answer.findings + found.findings, reason="")
    if found.undecided:
        notes = tuple(
            Finding("IL901", "R-REQ-1", reason, severity=Severity.NOTE) for reason in found.undecided
        )
        return replace(
            answer,
            verdict=Verdict.UNKNOWN,
            findings=answer.findings + notes,
            reason="; ".join(found.undecided),
        )
    return answer


def decide(schedule: Elaborated, program: Program, bounds: Sequence[Bound], model: str) -> Decision:
    """The bounds of a schedule under one model. `program`: as judged, with or without its transfers written; findings mark its rows."""
    timed = [a for a in schedule.assumes if a.property in TIMED]
    other = sorted({a.property for a in schedule.assumes} - {*TIMED, *SIZED})
    undecided = [
        f"`assume {p} in` is decided for durations and sizes only ({', '.join((*TIMED, *SIZED))})"
        for p in other
    ]
    mine, each = list(bounds), []
    if schedule.freezing and mine:
        schedule, program = _freest(schedule, program)
        monotone = lambda b: (
            b.figure == "makespan" and machine_of(schedule).overlap is None
        )  # no freezing takes longer than none
        mine, each = [b for b in bounds if monotone(b)], [b for b in bounds if not monotone(b)]
    if not bounds and len(program.order) > FIGURES_LIMIT:
        return Decision((), tuple(undecided))
    run = Runs(schedule, program, model, timed)
    try:
        told = _figures(run)
        findings = []
        for bound in mine:
            found = _decide(run, bound)
            if isinstance(found, Finding):
                findings.append(found)
            elif found:
                undecided.append(found)
        for bound in each:
            found = _every_freezing(schedule, run, bound)
            (findings if isinstance(found, Finding) else undecided).extend([found] if found else [])
        return Decision(tuple(findings), tuple(undecided), told)
    except NoTimes as lacking:
        return Decision(
            (), (*undecided, *(f"`require {b.figure}` asks for durations: {lacking}" for b in bounds))
        )
    except Cyclic:
        return Decision()  # nothing ends: the cycle is the answer


def _freest(schedule: Elaborated, program: Program) -> tuple[Elaborated, Program]:
    """With every layer of `for any freezing` trained."""
    base = schedule.trained or schedule.program
    layers = tuple(
        replace(l, trainable=i in schedule.freezing or now.trainable)
        for i, (l, now) in enumerate(zip(base.layers, schedule.program.layers))
    )
    if layers == schedule.program.layers:
        return schedule, program
    listed = schedule.trained is None and not base.inserted  # with its transfers: as it is written
    freest = replace(base, layers=layers) if listed else restrict(base, layers)
    return replace(schedule, program=freest), freest


def _every_freezing(schedule: Elaborated, freest: Runs, bound: Bound) -> Finding | str:
    """A bound of a figure that freezing may raise as well as lower: decided for each freezing that durations tell apart."""
    open_ = f"`require {bound.figure}` is not decided for every freezing: "
    base = freest.own
    if schedule.trained is None and not base.inserted:
        return open_ + "the order is written out with its transfers"
    assumed = [
        tuple((i, a.property) for i, a in enumerate(freest.assumes) if l in a.layers)
        for l in range(len(base.layers))
    ]
    most = min(MOST if not freest.assumes else FEW, MOST_ROWS // max(len(base.order), 1))
    tried = list(
        itertools.islice(freezings(base, schedule.freezing, [*zip(schedule.times, assumed)]), most + 1)
    )
    if len(tried) > most:
        return (
            open_
            + f"more than {most:,} of them differ; name fewer layers, or freeze what is frozen, and check that"
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
            freest.model,
            freest.assumes,
            f"with {names(base, frozen)} frozen",
        )
        found = _decide(run, bound)
        if found:
            return found if isinstance(found, Finding) else f"{found} ({run.frozen})"
    return ""


def _figures(run: Runs) -> dict:
    """At the written times, and the exposure where there is an encoder; with assumptions at the upper ends of the intervals."""
    out = figures(run.timeline(run.high)).shown()
    if has_encoder(run.program):
        found = exposure(run.own, run.times(run.high), run.model)
        out["exposure"] = duration(found.exposed)
        out["largest spill (the paper's estimate)"] = duration(found.estimate)
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
    breaks = lambda value: value > bound.limit or (bound.strict and value == bound.limit)
    if figure != "makespan" and run.sized:
        value = value_of(run, figure, run.high)
        return (
            finding(run, bound, value, run.high, where(run, run.high))
            if breaks(value)
            else f"`require {figure}` holds at the upper ends of what is assumed; for other sizes transfers and reductions take other times"
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


def _first_to_break(run: Runs, bound: Bound, breaks: Callable) -> str:
    """The smallest value that breaks a monotone figure, of one assumption; the upper ends of several."""
    if len(run.assumes) != 1 or run.sized:
        return where(run, run.high)
    a = run.assumes[0]

    def at(value: int):
        moved = replace(a, high=replace(a.high, value=value))
        return value_of(Runs(run.schedule, run.judged, run.model, [moved], run.frozen), bound.figure, (1,))

    low, high = a.low.value, a.high.value
    if breaks(at(low)):
        return f"at every {named(run.program, a)}, and at {duration(high)}"
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if breaks(at(middle)) else (middle, high)
    return f"at {named(run.program, a)} = {duration(a.high.value)} (it breaks from {duration(high)} on)"
