"""The group `mem`: whether every rank has room, for the sizes given or for those that parameters allow, and
the largest size that fits.

Derived from spec/memory.md alone (holdings.py, live.py, sizes.py), so that `--engine smt` decides R-MEM-1
without rules/memory.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from interlock.engine.smt.footprint import FootprintTerms
from interlock.engine.smt.live import Moment, TooLarge, find_moments
from interlock.engine.smt.query import TIMEOUT_MS, Contradiction, Query, Unknown, Unsat
from interlock.engine.smt.sizes import MEM, PROPERTIES, SIZE, Bytes, Parameter, always_open
from interlock.engine.smt.solvers import decide
from interlock.engine.smt.terms import conjoin
from interlock.engine.smt.violations import ASK, Suspects
from interlock.engine.smt.z3_solver import maximise
from interlock.program.facts import Facts
from interlock.program.ir import Program

Limits = Sequence[int | None]  # bytes for each rank, None where there is none
Bounds = Mapping[str, tuple[int, int | None]]  # of a parameter, by name: smallest value, largest or None

NO_ROW = -1
OVER, ALL_FIT = "a rank holds more than its capacity", "every rank fits"


@dataclass(frozen=True)
class Fits:
    """Every rank has room, by that many queries."""

    queries: int


@dataclass(frozen=True)
class Over:
    """`rows`: for each rank that holds more than its limit, a row while which it does; `values`: of the
    parameters.
    """

    rows: dict[int, int]
    values: dict[str, int]


@dataclass(frozen=True)
class Largest:
    """The largest value of a parameter with which the program fits; None: it fits with any."""

    value: int | None


@dataclass(frozen=True)
class MemoryComparison:
    """What suspects of memory are stated over.

    `group`: of each row, `gate`: of a group (gates.py); `limits`: suspected is a moment with more bytes than
    the rank's limit; `against_trained`: and one with more than any moment of the fully trained program.
    """

    query: Query
    facts: Facts
    sizes: Bytes
    suspects: Suspects
    group: np.ndarray
    gate: Callable[[int], str]
    limits: Limits
    against_trained: bool

    def suspect_all(self) -> list[int]:
        """Adds the suspects of every rank, and returns the rank of each. Raises TooLarge."""
        moments = find_moments(self.facts, self.group, self.sizes.linear)
        ranks: list[int] = []
        for rank in range(self.facts.program.ranks):
            own = [moment for moment in moments if moment.rank == rank]
            if not own and self.limits[rank] is not None:
                own = [Moment(rank, NO_ROW, 0, {})]  # a rank without rows holds what is static
            ranks += [rank] * self._suspect_rank(rank, own)
        return ranks

    def _suspect_rank(self, rank: int, moments: Sequence[Moment]) -> int:
        """The number of suspects added."""
        before = len(self.suspects.all)
        peak = self._define_trained_peak(rank, moments) if self.against_trained and moments else ""
        limit = ""
        if self.limits[rank] is not None:
            limit = self.query.define_integer(SIZE, f"capacity.r{rank}", str(self.limits[rank]))
        if peak or limit:
            for moment in moments:
                self._suspect_moment(moment, peak, limit)
        return len(self.suspects.all) - before

    def _define_trained_peak(self, rank: int, moments: Sequence[Moment]) -> str:
        """The largest sum over the moments of the rank, all of the layers trained."""
        query = self.query
        sums = [
            query.define_integer(
                MEM, f"trained.live.r{rank}.{moment.row}", self.sizes.sum_live(moment, trained=True)
            )
            for moment in moments
        ]
        peak = query.declare_integer(f"trained.peak.r{rank}")
        query.notes[peak] = f"most bytes of rank {rank} with all of the layers trained"
        for live in sums:
            query.add(MEM, f"(<= {live} {peak})")
        values = " ".join(f"(= {live} {peak})" for live in sums)
        query.add(MEM, f"(or {values})")
        return peak

    def _suspect_moment(self, moment: Moment, peak: str, limit: str) -> None:
        rank, symbol, when = moment.rank, f"live.r{moment.rank}", "throughout"
        if moment.row != NO_ROW:
            symbol += f".{moment.row}"
            when = f"while {self.facts.program.show(moment.row)} runs"
        self.query.notes[symbol] = f"bytes of rank {rank} {when}"
        live = self.query.define_integer(MEM, symbol, self.sizes.sum_live(moment))
        gate = self.gate(moment.gate)
        if peak:
            what = f"rank {rank} holds more {when} than with all of them trained"
            self.suspects.add(conjoin(gate, f"(> {live} {peak})"), "IL606", what, [moment.row])
        if limit:
            what = f"rank {rank} holds more than its capacity {when}"
            self.suspects.add(conjoin(gate, f"(> {live} {limit})"), "IL501", what, [moment.row])


def check_memory(
    program: Program,
    parameters: Sequence[Parameter] = (),
    bounds: Bounds | None = None,
    limits: Limits | None = None,
    *,
    timeout_ms: int = TIMEOUT_MS,
    second: bool = False,
) -> Fits | Over | Unknown:
    """Whether no rank holds more than its limit for any values of the parameters within their bounds
    (R-MEM-1).

    Without parameters, `Over` names every rank that does. `second`: cvc5 is asked too (solvers.py). Arguments
    and errors as of `build_memory_query`.
    """
    try:
        query, suspects, ranks = _ask(program, parameters, bounds or {}, limits)
    except TooLarge as reason:
        return Unknown(str(reason))
    answer = decide(query, timeout_ms, second=second)
    if isinstance(answer, Unknown):
        return answer
    if isinstance(answer, Unsat):
        return Fits(1)
    rows: dict[int, int] = {}
    for (symbol, violation), rank in zip(suspects.all, ranks):
        if answer.value(symbol):
            rows.setdefault(rank, violation.rows[0] if violation.rows else NO_ROW)
    return Over(rows, {p.name: answer.value(p.name) for p in parameters})


def find_largest_size(
    program: Program,
    parameter: Parameter,
    bounds: tuple[int, int | None] = (0, None),
    limits: Limits | None = None,
    *,
    timeout_ms: int = TIMEOUT_MS,
) -> Largest | Over | Unknown:
    """The largest value of the parameter within its bounds with which every rank fits; Over: with none it
    does.
    """
    try:
        query, *_ = _ask(program, [parameter], {parameter.name: bounds}, limits, fit=True)
    except TooLarge as reason:
        return Unknown(str(reason))
    answer = maximise(query, parameter.name, timeout_ms)
    if isinstance(answer, Unknown):
        return answer
    if not isinstance(answer, Unsat):
        return Largest(answer)
    smallest = {parameter.name: (bounds[0], bounds[0])}
    over = check_memory(program, [parameter], smallest, limits, timeout_ms=timeout_ms)
    if isinstance(over, Fits):
        raise Contradiction("z3 says that no size fits, and that the smallest does")
    return over


def build_memory_query(
    program: Program,
    parameters: Sequence[Parameter] = (),
    bounds: Bounds | None = None,
    limits: Limits | None = None,
    *,
    fit: bool = False,
) -> Query:
    """Sat iff a rank holds more than its limit (`fit`: iff none does) for some values of the parameters in
    their bounds.

    The program's transfers are written. `bounds` in bytes, default: from 0; `limits` in bytes, default: the
    capacities. Raises TooLarge, and ValueError for inserted transfers and for parameters and bounds that make
    no sense.
    """
    return _ask(program, parameters, bounds or {}, limits, fit)[0]


def _ask(
    program: Program,
    parameters: Sequence[Parameter],
    bounds: Bounds,
    limits: Limits | None,
    fit: bool = False,
) -> tuple[Query, Suspects, list[int]]:
    """The query, its suspects and the rank of each."""
    query = Query(f"sat: {ALL_FIT}; unsat: {OVER}" if fit else f"sat: {OVER}; unsat: {ALL_FIT}", "QF_LIA")
    _declare_parameters(query, program, parameters, bounds)
    if limits is None:
        limits = program.memory.capacity if program.memory else (None,) * program.ranks
    facts, suspects, no_bits = Facts(program), Suspects(query, MEM), frozenset[int]()
    unused = Query("", "")  # no bit is open: the symbols of the footprint are not used
    footprint = FootprintTerms(unused, program, facts.footprint.present, no_bits)
    sizes = Bytes(query, facts, footprint, no_bits, parameters)
    ungrouped = np.zeros(facts.n, dtype=np.int64)
    ranks = MemoryComparison(
        query, facts, sizes, suspects, ungrouped, always_open, limits, against_trained=False
    ).suspect_all()
    query.add(ASK, f"(not {suspects.disjunction})" if fit else suspects.disjunction)
    return query, suspects, ranks


def _declare_parameters(
    query: Query, program: Program, parameters: Sequence[Parameter], bounds: Bounds
) -> None:
    unknown = set(bounds) - {p.name for p in parameters}
    if unknown:
        raise ValueError(f"bounds of unknown parameters: {', '.join(sorted(unknown))}")
    for p in parameters:
        if p.property not in PROPERTIES or not all(0 <= l < len(program.layers) for l in p.layers):
            raise ValueError(
                f"parameter {p.name} is {p.property} of layers {p.layers}; "
                f"there are {', '.join(PROPERTIES)} and {len(program.layers)} layers"
            )
        low, high = bounds.get(p.name, (0, None))
        if low < 0:
            raise ValueError(f"{p.name} is a number of bytes: from 0")
        query.declare_integer(p.name)
        query.notes[p.name] = f"{p.property} of {len(p.layers)} layers"
        query.add(SIZE, f"(<= {low} {p.name})")
        if high is not None:
            query.add(SIZE, f"(<= {p.name} {high})")
