"""The group `mem`: whether every rank has room, for the sizes given or for those that parameters allow, and the largest size that fits.

Derived anew from spec/memory.md (live.py, sizes.py), so that `--engine smt` decides R-MEM-1 without rules/memory.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from interlock.engine.smt.footprint import Feet, Suspects
from interlock.engine.smt.live import Moment, TooLarge, moments
from interlock.engine.smt.query import (
    TIMEOUT_MS,
    TRUE,
    Contradiction,
    Query,
    Unknown,
    Unsat,
    both,
    decide,
    maximum,
)
from interlock.engine.smt.sizes import MEM, PROPERTIES, SIZE, Bytes, Parameter
from interlock.program.facts import Facts
from interlock.program.ir import Program


@dataclass(frozen=True)
class Fits:
    queries: int


@dataclass(frozen=True)
class Over:
    """`rows`: for each rank that holds more than its limit, a row while which it does; `values`: of the parameters."""

    rows: dict[int, int]
    values: dict[str, int]


@dataclass(frozen=True)
class Largest:
    """The largest value of a parameter with which the program fits; None: it fits with any."""

    value: int | None


def bound(
    query: Query,
    facts: Facts,
    size: Bytes,
    suspects: Suspects,
    group: np.ndarray,
    gate: Callable[[int], str],
    limits: Sequence[int | None],
    against_trained: bool,
) -> list[int]:
    """Suspects: a moment with more bytes than the rank's limit, and, if asked, than any moment of the fully trained program.

    Returns the rank of each. Raises TooLarge.
    """
    p = facts.program
    found = moments(facts, group, size.linear)
    ranks: list[int] = []
    for r in range(p.ranks):
        mine = [m for m in found if m.rank == r]
        if not mine and limits[r] is not None:
            mine = [Moment(r, -1, 0, {})]  # a rank without rows holds what is static
        peak = ""
        if against_trained and mine:
            tops = [query.number(MEM, f"trained.live.r{r}.{m.row}", size.live(m, trained=True)) for m in mine]
            peak = query.integer(f"trained.peak.r{r}")
            query.notes[peak] = f"most bytes of rank {r} with all of the layers trained"
            for top in tops:
                query.add(MEM, f"(<= {top} {peak})")
            query.add(MEM, f"(or {' '.join(f'(= {top} {peak})' for top in tops)})")
        limit = ""
        if limits[r] is not None:
            limit = query.number(SIZE, f"capacity.r{r}", str(limits[r]))
        for m in mine if peak or limit else ():
            doing = f"while {p.show(m.row)} runs" if m.row >= 0 else "throughout"
            symbol = f"live.r{r}.{m.row}" if m.row >= 0 else f"live.r{r}"
            query.notes[symbol] = f"bytes of rank {r} {doing}"
            here = query.number(MEM, symbol, size.live(m))
            ranks += [r] * (bool(peak) + bool(limit))
            if peak:
                suspects.add(
                    both(gate(m.gate), f"(> {here} {peak})"),
                    "IL606",
                    f"rank {r} holds more {doing} than with all of them trained",
                    [m.row],
                )
            if limit:
                suspects.add(
                    both(gate(m.gate), f"(> {here} {limit})"),
                    "IL501",
                    f"rank {r} holds more than its capacity {doing}",
                    [m.row],
                )
    return ranks


def memory_query(
    program: Program,
    parameters: Sequence[Parameter] = (),
    bounds: Mapping[str, tuple[int, int | None]] | None = None,
    limits: Sequence[int | None] | None = None,
    *,
    fit: bool = False,
) -> Query:
    """Sat iff a rank holds more than its limit (`fit`: iff none does) for some values of the parameters in their bounds, else from 0.

    The program's transfers are written. `limits`: bytes for each rank, None where there is none; default: the capacities. Raises TooLarge,
    and ValueError for inserted transfers.
    """
    return _question(program, parameters, bounds or {}, limits, fit)[0]


def _question(program, parameters, bounds, limits, fit=False) -> tuple[Query, Suspects, list[int]]:
    more, none = "a rank holds more than its capacity", "every rank fits"
    query = Query(f"sat: {none if fit else more}; unsat: {more if fit else none}", "QF_LIA")
    _declare(query, program, parameters, bounds)
    facts = Facts(program)
    limits = (
        limits
        if limits is not None
        else program.memory.capacity
        if program.memory
        else (None,) * program.ranks
    )
    feet = Feet(
        Query("", ""), program, facts.footprint.present, frozenset()
    )  # no bit is open: none of its symbols is used
    size = Bytes(query, facts, feet, frozenset(), parameters)
    suspects = Suspects(query, MEM)
    ranks = bound(
        query,
        facts,
        size,
        suspects,
        np.zeros(facts.n, dtype=np.int64),
        lambda group: TRUE,
        limits,
        against_trained=False,
    )
    query.add("ask", f"(not {suspects.any})" if fit else suspects.any)
    return query, suspects, ranks


def _declare(
    query: Query,
    program: Program,
    parameters: Sequence[Parameter],
    bounds: Mapping[str, tuple[int, int | None]],
) -> None:
    unknown = set(bounds) - {p.name for p in parameters}
    if unknown:
        raise ValueError(f"bounds of what is no parameter: {', '.join(sorted(unknown))}")
    for p in parameters:
        if p.property not in PROPERTIES or not all(0 <= l < len(program.layers) for l in p.layers):
            raise ValueError(
                f"parameter {p.name} is {p.property} of layers {p.layers}; there are {', '.join(PROPERTIES)} and {len(program.layers)} layers"
            )
        low, high = bounds.get(p.name, (0, None))
        if low < 0:
            raise ValueError(f"{p.name} is a number of bytes: from 0")
        query.integer(p.name)
        query.notes[p.name] = f"{p.property} of {len(p.layers)} layers"
        query.add(SIZE, f"(<= {low} {p.name})")
        if high is not None:
            query.add(SIZE, f"(<= {p.name} {high})")


def fits(
    program: Program,
    parameters: Sequence[Parameter] = (),
    bounds: Mapping[str, tuple[int, int | None]] | None = None,
    limits: Sequence[int | None] | None = None,
    *,
    timeout_ms: int = TIMEOUT_MS,
    second: bool = False,
) -> Fits | Over | Unknown:
    """Whether no rank holds more than its limit for any values of the parameters within their bounds: R-MEM-1 without rules/memory.py.

    Without parameters, `Over` names every rank that does. `second`: cvc5 decides too. Arguments and errors as of `memory_query`.
    """
    try:
        query, suspects, ranks = _question(program, parameters, bounds or {}, limits)
    except TooLarge as reason:
        return Unknown(str(reason))
    answer = decide(query, timeout_ms, second=second)
    if isinstance(answer, Unknown):
        return answer
    if isinstance(answer, Unsat):
        return Fits(1)
    rows: dict[int, int] = {}
    for (symbol, difference), r in zip(suspects.all, ranks):
        if answer.value(symbol):
            rows.setdefault(r, difference.rows[0] if difference.rows else -1)
    return Over(rows, {p.name: answer.value(p.name) for p in parameters})


def largest(
    program: Program,
    parameter: Parameter,
    bounds: tuple[int, int | None] = (0, None),
    limits: Sequence[int | None] | None = None,
    *,
    timeout_ms: int = TIMEOUT_MS,
) -> Largest | Over | Unknown:
    """The largest value of the parameter within its bounds with which every rank fits; Over: with none it does."""
    try:
        query, *_ = _question(program, [parameter], {parameter.name: bounds}, limits, fit=True)
    except TooLarge as reason:
        return Unknown(str(reason))
    answer = maximum(query, parameter.name, timeout_ms)
    if isinstance(answer, Unsat):
        over = fits(
            program, [parameter], {parameter.name: (bounds[0], bounds[0])}, limits, timeout_ms=timeout_ms
        )
        if isinstance(over, Fits):
            raise Contradiction("z3 says that no size fits, and that the smallest does")
        return over
    return answer if isinstance(answer, Unknown) else Largest(answer)
