"""`require` of makespan, bubble and exposure, also for every value of what `assume` leaves open (spec/cost.md, "Requirements", "Intervals")."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from ..algebra.elaborate import Assumption, Elaborated
from ..algebra.model import Times
from ..algebra.requirements import Bound
from ..engine.smt.longest import Excess, Step, too_long
from ..engine.smt.query import Unknown
from ..program.facts import Facts
from ..program.ir import Kind, Program, Size
from ..rules.finding import Finding, Severity
from ..verdict import Answer, Verdict
from . import compute
from .compute import Cyclic
from .durations import Durations, NoTimes, durations, machine_of
from .figures import duration, figures, percent
from .simulate import compute_rows, reduces, simulate
from .transpose import deadlines, earliest, encodes, exposed_by, exposure, has_encoder, without

CODES = {"bubble": ("IL703", "R-REQ-4"), "exposure": ("IL704", "R-REQ-5"), "makespan": ("IL705", "R-REQ-6")}
FIGURES_LIMIT = 50_000                          # operations up to which figures are told without being asked for
CORNERS = 10                                     # assumptions up to which every corner of their intervals is tried: 2^10
SEARCH_ROWS, SEARCH_VARIABLES, SEARCH_MS = 1_500, 256, 5_000
TIMED = ("forward", "backward", "backward_input", "backward_weight")


@dataclass(frozen=True)
class Decision:
    """findings: of requirements that fail; undecided: why others are open; figures: by name, for the report."""

    findings: tuple[Finding, ...] = ()
    undecided: tuple[str, ...] = ()
    figures: dict | None = None


def apply(schedule: Elaborated, answers: Sequence[Answer], bounds: Sequence[Bound]) -> tuple[tuple[Answer, ...], dict]:
    """The answers with what `require` asks of durations decided, and figures for the report. An answer that is not valid stays as it is.

    A valid one whose bound fails is invalid, with the critical path in its finding; its certificate stays, that of everything but durations.
    """
    out, told, known = [], {}, {}
    for answer in answers:
        if answer.verdict is not Verdict.VALID or answer.target or answer.program is None:
            out.append(answer)
            continue
        mine = tuple(b for b in bounds if not b.models or answer.model in b.models)
        key = (mine, "" if schedule.program.inserted else answer.model)        # inserted transfers: one run for every model
        if key not in known:
            known[key] = decide(schedule, answer.program, mine, answer.model)
        found = known[key]
        if found.figures and not told:
            told = found.figures if schedule.program.inserted else {f"{name} under `{answer.model}`": value for name, value in found.figures.items()}
        out.append(_with(answer, found))
    return tuple(out), told


def _with(answer: Answer, found: Decision) -> Answer:
    if found.findings:
        return replace(answer, verdict=Verdict.INVALID, findings=answer.findings + found.findings, reason="")
    if found.undecided:
        notes = tuple(Finding("IL901", "R-REQ-1", reason, severity=Severity.NOTE) for reason in found.undecided)
        return replace(answer, verdict=Verdict.UNKNOWN, findings=answer.findings + notes, reason="; ".join(found.undecided))
    return answer


def decide(schedule: Elaborated, program: Program, bounds: Sequence[Bound], model: str) -> Decision:
    """The bounds of a schedule under one model. `program`: as judged, with or without its transfers written; findings mark its rows."""
    timed = [a for a in schedule.assumes if a.property in TIMED]
    other = sorted({a.property for a in schedule.assumes} - set(TIMED))
    undecided = [f"`assume {p} in` is decided for durations only ({', '.join(TIMED)})" for p in other]
    mine = list(bounds)
    if schedule.freezing and mine:
        open_ = [b for b in mine if b.figure != "makespan"]
        undecided += [f"`require {b.figure}` is not decided for every freezing: freeze what is frozen, and check that" for b in open_]
        mine = [b for b in mine if b.figure == "makespan"]      # no freezing takes longer than none
        schedule, program = _freest(schedule, program)
    if not mine and len(program.order) > FIGURES_LIMIT:
        return Decision((), tuple(undecided))
    run = _Runs(schedule, program, model, timed)
    try:
        told = _figures(run)
        findings = []
        for bound in mine:
            found = _decide(run, bound)
            if isinstance(found, Finding):
                findings.append(found)
            elif found:
                undecided.append(found)
        return Decision(tuple(findings), tuple(undecided), told)
    except NoTimes as lacking:
        return Decision((), (*undecided, *(f"`require {b.figure}` asks for durations: {lacking}" for b in mine)))
    except Cyclic:
        return Decision()                        # nothing ends: the cycle is the answer


def _freest(schedule: Elaborated, program: Program) -> tuple[Elaborated, Program]:
    """With every layer of `for any freezing` trained."""
    from ..program.transfers import restrict
    base = schedule.trained or schedule.program
    layers = tuple(replace(l, trainable=i in schedule.freezing or now.trainable) for i, (l, now) in enumerate(zip(base.layers, schedule.program.layers)))
    if layers == schedule.program.layers:
        return schedule, program
    freest = restrict(base, layers)
    return replace(schedule, program=freest), freest


def _figures(run: _Runs) -> dict:
    """At the written times, and the exposure where there is an encoder; with assumptions at the upper ends of the intervals."""
    out = figures(run.timeline(run.high)).shown()
    if has_encoder(run.program):
        found = exposure(run.own, run.times(run.high), run.model)
        out["exposure"] = duration(found.exposed)
        out["largest spill (the paper's estimate)"] = duration(found.estimate)
    return {f"{name}, at the upper ends of what is assumed" if run.assumes else name: value for name, value in out.items()}


class _Runs:
    """A schedule under one model, at any corner of its assumptions: a corner is, for each of them, 0 (low) or 1 (high)."""

    def __init__(self, schedule: Elaborated, judged: Program, model: str, assumes: Sequence[Assumption]):
        self.schedule, self.judged, self.model, self.assumes = schedule, judged, model, assumes
        self.own = schedule.program              # transfers inserted, or written by the schedule itself
        self.program = self.own
        self.high, self.low = (1,) * len(assumes), (0,) * len(assumes)
        self.machine = machine_of(schedule)

    def layer_times(self, corner: Sequence[int], layers: Sequence[tuple[int, int]] = ()) -> list[Times]:
        """The times of each layer at a corner. `layers`: pairs (assumption, layer) that are high instead."""
        out = list(self.schedule.times)
        for i, (assumption, side) in enumerate(zip(self.assumes, corner)):
            for l in assumption.layers:
                q = assumption.high if side or (i, l) in layers else assumption.low
                out[l] = replace(out[l], **{assumption.property: Size(0, q.value) if q.per_image else Size(q.value)})
        return out

    def times(self, corner: Sequence[int], layers: Sequence[tuple[int, int]] = ()) -> Durations:
        return durations(self.own, self.layer_times(corner, layers), self.machine)

    def timeline(self, corner: Sequence[int], critical: bool = False):
        placed = self.judged if self.own.inserted and not self.judged.inserted else None
        return simulate(self.own, self.times(corner), self.model, placed=placed, critical=critical)

    @cached_property
    def free(self) -> bool:
        """Whether the run is one of edges between operations, so that a solver can be asked."""
        return self.own.inserted and not reduces(self.own, self.times(self.high))


# ---- one bound ---------------------------------------------------------------------------------------------


def _value(run: _Runs, figure: str, corner) -> int | Fraction:
    if figure == "exposure":
        return exposure(run.own, run.times(corner), run.model).exposed
    timeline = run.timeline(corner)
    return timeline.makespan if figure == "makespan" else figures(timeline).bubble


def _decide(run: _Runs, bound: Bound) -> Finding | str:
    """The finding of a bound that fails, why it is open, or nothing if it holds."""
    figure = bound.figure
    if figure == "exposure" and not has_encoder(run.program):
        return "`require exposure` asks for a Replicated region at the beginning of the cut"
    breaks = lambda value: value > bound.limit or (bound.strict and value == bound.limit)
    if not run.assumes:
        value = _value(run, figure, ())
        return _finding(run, bound, value, (), "") if breaks(value) else ""
    if figure == "makespan" or (figure == "exposure" and _encoder_alone(run)):
        value = _value(run, figure, run.high)    # no longer path where every duration is smaller
        return _finding(run, bound, value, run.high, _first_to_break(run, bound, breaks)) if breaks(value) else ""
    if len(run.assumes) > CORNERS:
        return f"`require {figure}` over {len(run.assumes)} intervals has too many corners to try"
    for corner in itertools.product((1, 0), repeat=len(run.assumes)):
        value = _value(run, figure, corner)
        if breaks(value):
            return _finding(run, bound, value, corner, _where(run, corner))
    return _by_solver(run, bound, breaks)


def _encoder_alone(run: _Runs) -> bool:
    """Whether only layers of stage 0 are assumed: then the makespan without it is a constant."""
    last = run.program.stages[0].last
    return all(l < last for a in run.assumes for l in a.layers)


def _finding(run: _Runs, bound: Bound, value, corner, where: str) -> Finding:
    code, rule = CODES[bound.figure]
    said = percent if bound.figure == "bubble" else duration
    timeline = run.timeline(corner, critical=True)
    rows = _rows_judged(run, timeline)
    asked = f"`require {bound.figure} {'<' if bound.strict else '<='} {said(bound.limit)}`"
    message = f"the {bound.figure} is {said(value)}{where and f' {where}'}, and {asked}"
    shown = [run.judged.show(i) for i in rows]
    path = " ".join(shown if len(shown) <= 8 else [*shown[:5], "..", *shown[-3:]])
    message += f"; the critical path is {path} ({len(shown)} operations)"
    data = {"figure": bound.figure, "value": value, "limit": bound.limit, "makespan": timeline.makespan, "critical_path": shown}
    return Finding(code, rule, message, (), _help(bound.figure), data=data)


def _help(figure: str) -> str:
    return {"makespan": "shorten what is on the critical path: balance the stages, or split their backwards",
            "bubble": "more microbatches, more chunks, or a skeleton that fills its bubbles with weight gradients",
            "exposure": "another owner map (`owner: balanced`), late gathers, or fewer layers in the Replicated region"}[figure]


def _rows_judged(run: _Runs, timeline) -> list[int]:
    """Rows of the judged program on the critical path; transfers only where the judged program lists them."""
    if len(timeline.program.order) == len(run.judged.order):
        return list(timeline.critical)
    back = {int(row): i for i, row in enumerate(compute_rows(run.judged, timeline.program))}
    return [back[i] for i in timeline.critical if i in back]


# ---- intervals -----------------------------------------------------------------------------------------------


def _named(run: _Runs, a: Assumption) -> str:
    names = [run.program.layers[l].name for l in a.layers]
    return f"{names[0].split('[')[0] if len(names) > 1 else names[0]}.{a.property}"


def _where(run: _Runs, corner) -> str:
    return "at " + ", ".join(f"{_named(run, a)} = {duration((a.high if side else a.low).value)}" for a, side in zip(run.assumes, corner))


def _first_to_break(run: _Runs, bound: Bound, breaks: Callable) -> str:
    """The smallest value that breaks a monotone figure, of one assumption; the upper ends of several."""
    if len(run.assumes) != 1:
        return _where(run, run.high)
    a = run.assumes[0]
    def at(value: int):
        moved = replace(a, high=replace(a.high, value=value))
        return _value(_Runs(run.schedule, run.judged, run.model, [moved]), bound.figure, (1,))
    low, high = a.low.value, a.high.value
    if breaks(at(low)):
        return f"at every {_named(run, a)}, and at {duration(high)}"
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if breaks(at(middle)) else (middle, high)
    return f"at {_named(run, a)} = {duration(a.high.value)} (it breaks from {duration(high)} on)"


def _by_solver(run: _Runs, bound: Bound, breaks: Callable) -> Finding | str:
    """Between the corners: asked of z3 where durations are sums of what is assumed and transfers are edges."""
    figure = bound.figure
    open_ = f"`require {figure}` holds at every corner of what is assumed, and in between "
    if not run.free:
        return open_ + "it is decided where transfers are inserted only"
    low = run.times(run.low)
    facts = Facts(run.own)
    found = compute.needs(facts)
    lag = compute.lags(facts, found, low)
    if figure == "bubble" and lag is not None:
        return open_ + "it is decided where no transfer takes time only"
    if figure == "exposure" and not breaks(_never_more(run)):
        return ""
    if run.machine.speeds or len(found.need) > SEARCH_ROWS:
        return open_ + f"it is decided for schedules of at most {SEARCH_ROWS:,} operations only"
    groups = list(_variables(run, low))
    if groups and groups[0] is None or len(groups) > SEARCH_VARIABLES:
        return open_ + "it is decided where durations are sums of what is assumed only"
    steps = _steps(found, low.row, lag, [g.factors for g in groups])
    P = run.own.ranks
    if figure == "bubble":                       # (P T - C) / (P T) > limit
        share = bound.limit
        heads = np.flatnonzero(facts.overlap_head == np.arange(facts.n))
        whole = int(low.row[heads].sum())
        work = tuple((-share.denominator * int(g.factors[heads].sum()), i) for i, g in enumerate(groups))
        excess = Excess(P * (share.denominator - share.numerator), 0, (-share.denominator * whole, work), -int(bound.strict))
        alone: list[Step] = []
    else:
        muted = without(facts, low)
        own = facts.stage != 0
        alone = _steps(found, muted.row, compute.lags(facts, found, muted), [np.where(own, g.factors, 0) for g in groups])
        excess = Excess(1, 1, (0, ()), int(bound.limit) - int(bound.strict))
    answer = too_long([g.range for g in groups], steps, alone, excess, SEARCH_MS)
    if isinstance(answer, Unknown):
        return open_ + answer.reason
    if answer is None:
        return ""
    values = _layer_values(run, groups, answer)
    inside = _Inside(run, values)
    value = _value(inside, figure, run.low)
    said = ", ".join(f"{_named(run, a)} = {'..'.join(duration(v) for v in sorted({values[i, l] for l in a.layers})[::max(1, len({values[i, l] for l in a.layers}) - 1)])}"
                     for i, a in enumerate(run.assumes))
    if not breaks(value):
        return open_ + "the solver's answer does not stand up to the simulator"
    return _finding(inside, bound, value, run.low, f"at {said}")


def _never_more(run: _Runs) -> int | float:
    """No value of what is assumed exposes more of a frozen encoder: its encodes at their longest against the earliest starts of what they feed.

    (A latest start is no earlier than an earliest one, and that is monotone in all durations.)
    """
    high, low = run.times(run.high), run.times(run.low)
    facts = Facts(run.own)
    if ((facts.stage == 0) & (facts.kind != Kind.F)).any():
        return float("inf")
    d = deadlines(run.own, high)
    first = earliest(run.own, low)
    return exposed_by(run.own.stages[0].owner, encodes(run.own, high), replace(d, feeds=first.feeds, begins=first.begins))


class _Inside(_Runs):
    """The same schedule with a value for every layer assumed."""

    def __init__(self, run: _Runs, values: dict[tuple[int, int], int]):
        super().__init__(run.schedule, run.judged, run.model, run.assumes)
        self._values = values

    def layer_times(self, corner, layers=()):
        out = list(self.schedule.times)
        for i, a in enumerate(self.assumes):
            for l in a.layers:
                v = self._values[i, l]
                out[l] = replace(out[l], **{a.property: Size(0, v) if a.high.per_image else Size(v)})
        return out


@dataclass(frozen=True)
class _Variable:
    """What layers of one assumption, which all rows count alike, take above their lower ends together: 0 .. range. factors[row]."""

    assumption: int
    layers: tuple[int, ...]
    range: int
    factors: np.ndarray


def _variables(run: _Runs, low: Durations) -> Iterator[_Variable | None]:
    """None if a duration is no sum."""
    alike: dict[tuple[int, bytes], list[int]] = {}
    total = low.row.copy()
    for i, a in enumerate(run.assumes):
        width = a.high.value - a.low.value
        if not width:
            continue
        for l in a.layers:
            more = run.times(run.low, ((i, l),)).row - low.row
            if (more % width).any():
                yield None
            total += more
            alike.setdefault((i, (more // width).tobytes()), []).append(l)
    if (total != run.times(run.high).row).any():
        yield None
    for (i, factors), layers in alike.items():
        a = run.assumes[i]
        yield _Variable(i, tuple(layers), len(layers) * (a.high.value - a.low.value), np.frombuffer(factors, dtype=np.int64))


def _layer_values(run: _Runs, groups: Sequence[_Variable], answer: Sequence[int]) -> dict[tuple[int, int], int]:
    out = {(i, l): a.low.value for i, a in enumerate(run.assumes) for l in a.layers}
    for group, value in zip(groups, answer):
        each, more = divmod(value, len(group.layers))
        for n, l in enumerate(group.layers):
            out[group.assumption, l] += each + (n < more)
    return out


def _steps(found: compute.Needs, row: np.ndarray, lag: np.ndarray | None, factors: Sequence[np.ndarray]) -> list[Step]:
    """The rows of a program as steps; both rows of an overlap, the first of which takes no time and the second all of it."""
    halves = set(found.halves.tolist())
    first = set(found.start.tolist())
    out = []
    for i in range(len(row)):
        quiet = i + 1 in halves
        before = [] if i in first else [(i - 1, 0)]
        if found.need[i] >= 0:
            before.append((int(found.need[i]), int(lag[i]) if lag is not None else 0))
        mine = () if quiet else tuple((int(f[i]), v) for v, f in enumerate(factors) if f[i])
        out.append(Step(0 if quiet else int(row[i]), mine, tuple(before)))
    return out
