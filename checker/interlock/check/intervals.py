"""Between the corners of intervals of durations: a bound, then z3, whether any values break a requirement
(spec/cost.md, "Intervals").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from interlock.algebra.requirements import Bound
from interlock.check.runs import Breaks, Runs, finding, value_of
from interlock.check.sizes import name_assumption
from interlock.engine.smt.longest_path import Excess, Step, find_excess
from interlock.engine.smt.query import Unknown
from interlock.program.facts import Facts
from interlock.program.ir import Kind, Size
from interlock.text.finding import Finding
from interlock.timing.durations import Durations
from interlock.timing.exposure import (
    earliest_deadlines,
    encode_times,
    exposure_of_owners,
    latest_deadlines,
    without_encoder,
)
from interlock.timing.figures import format_duration
from interlock.timing.inputs import Inputs, find_inputs, travel_times
from interlock.timing.layer_times import LayerTimes

SEARCH_ROWS, SEARCH_VARIABLES, SEARCH_MS = 1_500, 256, 5_000


def by_solver(run: Runs, bound: Bound, breaks: Breaks) -> Finding | str:
    """Asked of z3 where durations are sums of what is assumed, and transfers are edges."""
    figure = bound.figure
    open_ = f"`require {figure}` holds at every corner of what is assumed, and in between "
    if not run.free:
        return open_ + "it is decided where transfers are inserted and reductions take no time only"
    low = run.times(run.low)
    facts = Facts(run.own)
    found = find_inputs(facts)
    lag = travel_times(facts, found, low)
    if figure == "bubble" and lag is not None:
        return open_ + "it is decided where no transfer takes time only"
    if figure == "exposure" and _is_bounded(run, breaks):
        return ""
    if run.machine.speeds:
        return open_ + "it is decided where no rank has a speed of its own only"
    if len(found.source) > SEARCH_ROWS:
        return open_ + f"it is decided for schedules of at most {SEARCH_ROWS:,} operations only"
    groups = _variables(run, low)
    if groups is None or len(groups) > SEARCH_VARIABLES:
        return open_ + "it is decided where durations are sums of what is assumed only"
    steps = _steps(found, low.row, lag, [g.factors for g in groups])
    P = run.own.ranks
    if figure == "bubble":  # (P T - C) / (P T) > limit
        share = bound.limit
        heads = np.flatnonzero(facts.overlap_head == np.arange(facts.n))
        whole = int(low.row[heads].sum())
        work = tuple((-share.denominator * int(g.factors[heads].sum()), i) for i, g in enumerate(groups))
        excess = Excess(
            P * (share.denominator - share.numerator),
            0,
            (-share.denominator * whole, work),
            -int(bound.strict),
        )
        alone: list[Step] = []
    else:
        muted = without_encoder(facts, low)
        own = facts.stage != 0
        alone = _steps(
            found, muted.row, travel_times(facts, found, muted), [np.where(own, g.factors, 0) for g in groups]
        )
        excess = Excess(1, 1, (0, ()), int(bound.limit) - int(bound.strict))
    answer = find_excess([g.range for g in groups], steps, alone, excess, SEARCH_MS)
    if isinstance(answer, Unknown):
        return open_ + answer.reason
    if answer is None:
        return ""
    values = _layer_values(run, groups, answer)
    inside = _Inside(run, values)
    value = value_of(inside, figure, run.low)
    said = ", ".join(
        f"{name_assumption(run.program, a)} = {_show_range([values[i, l] for l in a.layers])}"
        for i, a in enumerate(run.assumes)
    )
    if not breaks(value):
        return open_ + "the solver's answer does not stand up to the simulator"
    return finding(inside, bound, value, run.low, f"at {said}")


def _show_range(values: Sequence[int]) -> str:
    """`2 ms`, or `2 ms..3 ms`."""
    ends = sorted({min(values), max(values)})
    return "..".join(format_duration(v) for v in ends)


def _is_bounded(run: Runs, breaks: Breaks) -> bool:
    """Whether the encodes at their longest, against the earliest starts of what they feed, keep the bound: no
    value of what is assumed exposes more of a frozen encoder.

    (A latest start is no earlier than an earliest one, and that is monotone in all durations.)
    """
    high, low = run.times(run.high), run.times(run.low)
    facts = Facts(run.own)
    if ((facts.stage == 0) & (facts.kind != Kind.F)).any():
        return False
    d = latest_deadlines(run.own, high)
    first = earliest_deadlines(run.own, low)
    owner = run.own.stages[0].owner
    assert owner is not None
    deadlines = replace(d, feeds=first.feeds, begins=first.begins)
    return not breaks(exposure_of_owners(owner, encode_times(run.own, high), deadlines))


class _Inside(Runs):
    """The same schedule with a value for every layer assumed."""

    def __init__(self, run: Runs, values: dict[tuple[int, int], int]):
        super().__init__(run.schedule, run.judged, run.model, run.assumes, run.frozen)
        self._values = values

    def layer_times(self, corner: Sequence[int], layers: Sequence[tuple[int, int]] = ()) -> list[LayerTimes]:
        out = list(self.schedule.times)
        for i, a in enumerate(self.assumes):
            for l in a.layers:
                v = self._values[i, l]
                out[l] = replace(out[l], **{a.property: Size(0, v) if a.high.per_image else Size(v)})
        return out


@dataclass(frozen=True)
class _Variable:
    """What layers of one assumption, which all rows count alike, take above their lower ends together: 0 ..
    range. factors[row].
    """

    assumption: int
    layers: tuple[int, ...]
    range: int
    factors: np.ndarray


def _variables(run: Runs, low: Durations) -> list[_Variable] | None:
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
                return None
            total += more
            alike.setdefault((i, (more // width).tobytes()), []).append(l)
    if (total != run.times(run.high).row).any():
        return None
    return [
        _Variable(
            i,
            tuple(layers),
            len(layers) * (run.assumes[i].high.value - run.assumes[i].low.value),
            np.frombuffer(factors, dtype=np.int64),
        )
        for (i, factors), layers in alike.items()
    ]


def _layer_values(
    run: Runs, groups: Sequence[_Variable], answer: Sequence[int]
) -> dict[tuple[int, int], int]:
    out = {(i, l): a.low.value for i, a in enumerate(run.assumes) for l in a.layers}
    for group, value in zip(groups, answer):
        each, more = divmod(value, len(group.layers))
        for n, l in enumerate(group.layers):
            out[group.assumption, l] += each + (n < more)
    return out


def _steps(
    found: Inputs, row: np.ndarray, lag: np.ndarray | None, factors: Sequence[np.ndarray]
) -> list[Step]:
    """The rows of a program as steps; both rows of an overlap, the first of which takes no time and the
    second all of it.
    """
    halves = set(found.second_halves.tolist())
    first = set(found.start.tolist())
    out = []
    for i in range(len(row)):
        quiet = i + 1 in halves
        before = [] if i in first else [(i - 1, 0)]
        if found.source[i] >= 0:
            before.append((int(found.source[i]), int(lag[i]) if lag is not None else 0))
        mine = () if quiet else tuple((int(f[i]), v) for v, f in enumerate(factors) if f[i])
        out.append(Step(0 if quiet else int(row[i]), mine, tuple(before)))
    return out
