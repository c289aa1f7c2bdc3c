"""A schedule under one model, run at any values of what it assumes; what a requirement that fails says of its
run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property

from interlock.algebra.elaborate import Assumption, Elaborated
from interlock.algebra.machine import machine_of
from interlock.algebra.requirements import Bound
from interlock.check.sizes import name_assumption
from interlock.program.ir import Program, Size
from interlock.rules.memory import show_bytes
from interlock.text.finding import Finding
from interlock.timing.durations import Durations, compute_durations
from interlock.timing.exposure import compute_exposure
from interlock.timing.figures import compute_figures, format_duration, format_percent
from interlock.timing.layer_times import LayerTimes
from interlock.timing.simulate import has_timed_reductions, rows_within, simulate
from interlock.timing.timeline import Timeline

Value = int | Fraction  # ns, or a share
Breaks = Callable[[Value], bool]
Corner = Sequence[int]  # of each assumption 0 (low) or 1 (high)
CODES = {"bubble": ("IL703", "R-REQ-4"), "exposure": ("IL704", "R-REQ-5"), "makespan": ("IL705", "R-REQ-6")}


class Runs:
    """A schedule under one model, at any corner of its assumptions: a corner is, for each of them, 0 (low) or
    1 (high).

    `judged`: the program of the answer, with or without its transfers written. `frozen`: what of `for any
    freezing` is, in the words of a finding.
    """

    def __init__(
        self,
        schedule: Elaborated,
        judged: Program,
        model: str,
        assumes: Sequence[Assumption],
        frozen: str = "",
    ):
        self.schedule, self.judged, self.model, self.assumes, self.frozen = (
            schedule,
            judged,
            model,
            assumes,
            frozen,
        )
        self.own = schedule.program  # transfers inserted, or written by the schedule itself
        self.program = self.own
        self.high, self.low = (1,) * len(assumes), (0,) * len(assumes)
        self.machine = machine_of(schedule)

    def layer_times(self, corner: Sequence[int], layers: Sequence[tuple[int, int]] = ()) -> list[LayerTimes]:
        """The times of each layer at a corner. `layers`: pairs (assumption, layer) that are high instead."""
        out = list(self.schedule.times)
        for i, (assumption, side) in enumerate(zip(self.assumes, corner)):
            for l in assumption.layers:
                q = assumption.high if side or (i, l) in layers else assumption.low
                out[l] = replace(
                    out[l], **{assumption.property: Size(0, q.value) if q.per_image else Size(q.value)}
                )
        return out

    def times(self, corner: Sequence[int], layers: Sequence[tuple[int, int]] = ()) -> Durations:
        return compute_durations(self.own, self.layer_times(corner, layers), self.machine)

    def timeline(self, corner: Sequence[int], critical: bool = False) -> Timeline:
        placed = self.judged if self.own.inserted and not self.judged.inserted else None
        return simulate(self.own, self.times(corner), self.model, placed=placed, critical=critical)

    @cached_property
    def sized(self) -> list[Assumption]:
        """Assumptions about sizes on which times depend. The program has them at their upper ends."""
        m = self.machine
        moves = any(l.bandwidth for l in (m.links, *m.pairs.values(), *((m.data.link,) if m.data else ())))
        return [
            a
            for a in self.schedule.assumes
            if moves and a.property in ("output", "weights") and a.low.value < a.high.value
        ]

    @cached_property
    def free(self) -> bool:
        """Whether the run is one of edges between operations, so that a solver can be asked."""
        return self.own.inserted and not has_timed_reductions(self.own, self.times(self.high))


def value_of(run: Runs, figure: str, corner: Corner) -> Value:
    """ns of the makespan or the exposure, the bubble as a share."""
    if figure == "exposure":
        return compute_exposure(run.own, run.times(corner), run.model).exposed
    timeline = run.timeline(corner)
    return timeline.makespan if figure == "makespan" else compute_figures(timeline).bubble


def where(run: Runs, corner: Corner) -> str:
    """`at vit.forward = 2 ms`: a corner, and the sizes that times depend on."""
    return "at " + ", ".join(
        [
            *(
                f"{name_assumption(run.program, a)} = {format_duration((a.high if side else a.low).value)}"
                for a, side in zip(run.assumes, corner)
            ),
            *(f"{name_assumption(run.program, a)} = {show_bytes(a.high.value)}" for a in run.sized),
        ]
    )


def finding(run: Runs, bound: Bound, value: Value, corner: Corner, at: str) -> Finding:
    """Of a bound that a value exceeds, with the critical path of that corner. `at`: which values of what is
    assumed these are.
    """
    code, rule = CODES[bound.figure]

    def said(number: Value) -> str:
        return format_percent(Fraction(number)) if bound.figure == "bubble" else format_duration(number)

    timeline = run.timeline(corner, critical=True)
    rows = _rows_judged(run, timeline)
    asked = f"`require {bound.figure} {'<' if bound.strict else '<='} {said(bound.limit)}`"
    given = "".join(f" {part}" for part in (run.frozen, at) if part)
    message = f"the {bound.figure} is {said(value)}{given}, and {asked}"
    shown = [run.judged.show(i) for i in rows]
    path = " ".join(shown if len(shown) <= 8 else [*shown[:5], "..", *shown[-3:]])
    message += f"; the critical path is {path} ({len(shown)} operations)"
    data = {
        "figure": bound.figure,
        "value": value,
        "limit": bound.limit,
        "makespan": timeline.makespan,
        "critical_path": shown,
    }
    return Finding(code, rule, message, (), _help(bound.figure), data=data)


def _help(figure: str) -> str:
    return {
        "makespan": "shorten what is on the critical path: balance the stages, or split their backwards",
        "bubble": "more microbatches, more chunks, or a skeleton that fills its bubbles with weight "
        "gradients",
        "exposure": "another owner map (`owner: balanced`), late gathers, or fewer layers in the Replicated "
        "region",
    }[figure]


def _rows_judged(run: Runs, timeline: Timeline) -> list[int]:
    """Rows of the judged program on the critical path; transfers only where the judged program lists them."""
    if len(timeline.program.order) == len(run.judged.order):
        return list(timeline.critical)
    back = {int(row): i for i, row in enumerate(rows_within(run.judged, timeline.program))}
    return [back[i] for i in timeline.critical if i in back]
