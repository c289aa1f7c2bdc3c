"""Whether durations within intervals make a longest path too long: spec/cost.md, "Intervals".

A path is chosen by the solver (each start is at most the largest end before it), so that the end it reaches is the length of a path; a run without the
encoder is any run that keeps every wait, so that its end is no less than the longest path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from interlock.engine.smt.query import TIMEOUT_MS, Query, Unknown, Unsat, add, decide, either

RANGE, PATH, RUN, BREAK = "range", "path", "run", "break"


@dataclass(frozen=True)
class Step:
    """An operation of `fixed + sum of factor * variable` ns. before: (step, ns in between) it waits for, by number."""

    fixed: int
    factors: tuple[tuple[int, int], ...]
    before: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Excess:
    """What breaks the requirement: path * T + work . (fixed, variables) - run * T0 > limit. work: (fixed, ((factor, variable), ..))."""

    path: int
    run: int
    work: tuple[int, tuple[tuple[int, int], ...]]
    limit: int


def too_long_query(
    ranges: Sequence[int], steps: Sequence[Step], without: Sequence[Step], excess: Excess
) -> Query:
    """Satisfiable iff the requirement breaks for variables 0 <= x_i <= ranges[i]. `without`: the steps of the run that is subtracted (T0); () if none."""
    query = Query(
        "sat: durations within their intervals that break the requirement; unsat: none do", "QF_LIA"
    )
    x = [query.integer(f"x{i}") for i in range(len(ranges))]
    for name, most in zip(x, ranges):
        query.add(RANGE, f"(and (<= 0 {name}) (<= {name} {most}))")
    takes = lambda s: add(*((f, x[i]) for f, i in s.factors), (1, str(s.fixed)))
    for i, step in enumerate(steps):
        begin, end = query.integer(f"s{i}"), query.integer(f"e{i}")
        query.add(PATH, f"(= {end} {add((1, begin), (1, takes(step)))})")
        query.add(
            PATH,
            either(
                f"(<= {begin} 0)",
                *(f"(<= {begin} {add((1, f'e{j}'), (1, str(lag)))})" for j, lag in step.before),
            ),
        )
    total = query.integer("T")
    query.add(PATH, either(*(f"(<= {total} e{i})" for i in _last(steps))))
    terms = [(excess.path, total), *((f, x[i]) for f, i in excess.work[1])]
    if excess.run:
        alone = query.integer("T0")
        for i, step in enumerate(without):
            begin = query.integer(f"a{i}")
            query.add(RUN, f"(<= 0 {begin})")
            for j, lag in step.before:
                query.add(RUN, f"(<= {add((1, f'a{j}'), (1, takes(without[j])), (1, str(lag)))} {begin})")
        for i in _last(without):
            query.add(RUN, f"(<= {add((1, f'a{i}'), (1, takes(without[i])))} {alone})")
        terms.append((-excess.run, alone))
    query.add(BREAK, f"(> {add(*terms)} {add((1, '0'), (excess.limit - excess.work[0], '1'))})")
    return query


def _last(steps: Sequence[Step]) -> list[int]:
    """Steps that no other waits for."""
    awaited = {j for step in steps for j, _ in step.before}
    return [i for i in range(len(steps)) if i not in awaited]


def too_long(ranges, steps, without, excess, timeout_ms: int = TIMEOUT_MS) -> list[int] | None | Unknown:
    """Values of the variables that break the requirement; None: there are none."""
    answer = decide(too_long_query(ranges, steps, without, excess), timeout_ms)
    if isinstance(answer, Unknown):
        return answer
    return None if isinstance(answer, Unsat) else [answer.value(f"x{i}") for i in range(len(ranges))]
