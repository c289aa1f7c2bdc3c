"""Whether durations within intervals make a longest path too long: spec/cost.md, "Intervals".

A path is chosen by the solver (each start is at most the largest end before it), so that the end it reaches
is the length of a path; a run without the encoder is any run that keeps every wait, so that its end is no
less than the longest path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from interlock.engine.smt.query import TIMEOUT_MS, Query, Unknown, Unsat
from interlock.engine.smt.solvers import decide
from interlock.engine.smt.terms import disjoin, sum_terms

RANGE, PATH, RUN, BREAK = "range", "path", "run", "break"


@dataclass(frozen=True)
class Step:
    """An operation of `fixed + sum of factor * variable` ns.

    `factors`: (factor, number of a variable); `before`: (number of a step that it waits for, ns in between).
    """

    fixed: int
    factors: tuple[tuple[int, int], ...]
    before: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Excess:
    """What breaks the requirement: path * T + work . (fixed, variables) - run * T0 > limit.

    `work`: (fixed, ((factor, variable), ..)).
    """

    path: int
    run: int
    work: tuple[int, tuple[tuple[int, int], ...]]
    limit: int


def find_excess(
    ranges: Sequence[int],
    steps: Sequence[Step],
    without: Sequence[Step],
    excess: Excess,
    timeout_ms: int = TIMEOUT_MS,
) -> list[int] | None | Unknown:
    """Values of the variables that break the requirement; None: there are none. Arguments of
    `build_excess_query`.
    """
    answer = decide(build_excess_query(ranges, steps, without, excess), timeout_ms)
    if isinstance(answer, Unknown):
        return answer
    return None if isinstance(answer, Unsat) else [answer.value(f"x{i}") for i in range(len(ranges))]


def build_excess_query(
    ranges: Sequence[int], steps: Sequence[Step], without: Sequence[Step], excess: Excess
) -> Query:
    """Sat iff the requirement breaks for variables 0 <= x_i <= ranges[i].

    `without`: the steps of the run that is subtracted (T0), () if there is none.
    """
    query = Query(
        "sat: durations within their intervals that break the requirement; unsat: none do", "QF_LIA"
    )
    variables = [query.declare_integer(f"x{i}") for i in range(len(ranges))]
    for variable, width in zip(variables, ranges):
        query.add(RANGE, f"(and (<= 0 {variable}) (<= {variable} {width}))")
    total = _state_path(query, steps, variables)
    terms = [(excess.path, total), *((factor, variables[i]) for factor, i in excess.work[1])]
    if excess.run:
        terms.append((-excess.run, _state_run(query, without, variables)))
    bound = sum_terms((excess.limit - excess.work[0], "1"))
    query.add(BREAK, f"(> {sum_terms(*terms)} {bound})")
    return query


def _sum_duration(step: Step, variables: Sequence[str]) -> str:
    return sum_terms(*((factor, variables[i]) for factor, i in step.factors), (1, str(step.fixed)))


def _state_path(query: Query, steps: Sequence[Step], variables: Sequence[str]) -> str:
    """A symbol that is at most the length of some path."""
    for i, step in enumerate(steps):
        begin, end = query.declare_integer(f"s{i}"), query.declare_integer(f"e{i}")
        query.add(PATH, f"(= {end} {sum_terms((1, begin), (1, _sum_duration(step, variables)))})")
        ends = (sum_terms((1, f"e{j}"), (1, str(lag))) for j, lag in step.before)
        query.add(PATH, disjoin(f"(<= {begin} 0)", *(f"(<= {begin} {before})" for before in ends)))
    total = query.declare_integer("T")
    query.add(PATH, disjoin(*(f"(<= {total} e{i})" for i in _find_last(steps))))
    return total


def _state_run(query: Query, steps: Sequence[Step], variables: Sequence[str]) -> str:
    """A symbol that is at least the length of every path."""
    alone = query.declare_integer("T0")
    durations = [_sum_duration(step, variables) for step in steps]
    for i, step in enumerate(steps):
        begin = query.declare_integer(f"a{i}")
        query.add(RUN, f"(<= 0 {begin})")
        for j, lag in step.before:
            query.add(RUN, f"(<= {sum_terms((1, f'a{j}'), (1, durations[j]), (1, str(lag)))} {begin})")
    for i in _find_last(steps):
        query.add(RUN, f"(<= {sum_terms((1, f'a{i}'), (1, durations[i]))} {alone})")
    return alone


def _find_last(steps: Sequence[Step]) -> list[int]:
    """Steps that no other waits for."""
    awaited = {j for step in steps for j, _ in step.before}
    return [i for i in range(len(steps)) if i not in awaited]
