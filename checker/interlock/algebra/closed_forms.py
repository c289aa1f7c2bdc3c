"""Closed forms of the standard skeletons, fitted exactly and claimed only where every point of a grid agrees
(spec/cost.md, "Closed forms").

Equal stages, transfers that take no time. A form is a sum of rational multiples of products of a size (1, P,
M, V, P V, M V; r) and a duration (or none), solved for from
simulated runs in exact arithmetic, and then compared with the simulator on a grid that it was not made from.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import sympy

from interlock.algebra.standard import derive_standard
from interlock.program.facts import Facts
from interlock.program.kinds import Kind
from interlock.rules.memory import in_flight
from interlock.timing.durations import Machine, durations_by_kind
from interlock.timing.inputs import find_inputs
from interlock.timing.longest_path import compute_ends

P, M, V, r = sympy.symbols("P M V r", integer=True, positive=True)
F, B, I, W = sympy.symbols("F B I W", positive=True)

SKELETONS: dict[str, tuple[int, ...]] = {  # chunks to fit over
    "1f1b": (1,),
    "eager": (1,),
    "gpipe": (1, 2, 3),
    "breadth_first": (1, 2, 3),
    "interleaved": (1, 2, 3),
    "zb_h1": (1,),
    "zb_h2": (1,),
    "interleaved_zb": (1, 2, 3),
    "zb_v": (2,),
    "dualpipev": (2,),
    "hanayo": (2, 4),
    "v_min": (2,),
}
SPLIT = frozenset({"zb_h1", "zb_h2", "interleaved_zb", "zb_v", "v_min", "dualpipev"})
FIGURES = ("makespan", "span bubble", "in flight", "in flight until W")


@dataclass(frozen=True)
class Sizes:
    """Where a form is claimed, from general to special."""

    text: str
    holds: Callable[[int, int], bool]


@dataclass(frozen=True)
class Rates:
    """Durations a form is claimed for. draw(pick): durations of F, I, W (B = I + W) of a chunk."""

    text: str
    draw: Callable[[random.Random], tuple[int, int, int]]


SIZES = (
    Sizes("M >= 1", lambda p, m: True),
    Sizes("M >= P", lambda p, m: m >= p),
    Sizes("M >= 2 P", lambda p, m: m >= 2 * p),
    Sizes("M >= 2 P, P divides M", lambda p, m: m >= 2 * p and m % p == 0),
)


def _small(pick, most=9):
    return pick.randint(1, most)


def _w_least(pick):
    w = _small(pick, 5)
    return w + pick.randint(0, 5), w + pick.randint(0, 5), w


RATES = (
    Rates("any durations", lambda pick: (_small(pick), _small(pick), _small(pick))),
    Rates("W <= F, W <= I", _w_least),
    Rates("B = 2 F, I = W = F", lambda pick: (t := _small(pick), t, t)),
)
FUSED = (
    RATES[0],
    Rates("B >= F", lambda pick: (f := _small(pick), f + pick.randint(0, 5), pick.randint(0, 4))),
    Rates("B = 2 F", lambda pick: (t := _small(pick), t, t)),
)


@dataclass(frozen=True)
class Form:
    """`expression` is the figure exactly, for `sizes` and `rates`, as `checked` simulated points agree; None:
    no form was found, none is claimed.
    """

    skeleton: str
    figure: str
    expression: sympy.Expr | None
    sizes: str = ""
    rates: str = ""
    checked: int = 0

    def __str__(self) -> str:
        if self.expression is None:
            return f"{self.skeleton}: {self.figure}: none is claimed"
        return (
            f"{self.skeleton}: {self.figure} = {self.expression}  "
            f"({', '.join(x for x in (self.sizes, self.rates) if x)}; {self.checked} points)"
        )


@cache
def measure(skeleton: str, p: int, m: int, v: int, f: int, i: int, w: int) -> tuple[int, int]:
    """(makespan, idle time within the longest span of a rank) of a run. An overlap takes F + B."""
    source = derive_standard(skeleton, p, m, v)
    d = durations_by_kind(
        source, {Kind.F: f, Kind.B: i + w, Kind.I: i, Kind.W: w}, machine=Machine(overlap=f + i + w)
    )
    facts, found = _facts(skeleton, p, m, v)
    end = compute_ends(found, d.row)
    start = end - d.row
    own = facts.overlap_head == np.arange(facts.n)
    order = source.order.start
    spans = [
        (int(end[b - 1] - start[a]), int(d.row[a:b][own[a:b]].sum())) for a, b in zip(order[:-1], order[1:])
    ]
    span, work = max(spans)
    return int(end.max()), span - work


@cache
def _facts(skeleton: str, p: int, m: int, v: int):
    facts = Facts(derive_standard(skeleton, p, m, v))
    return facts, find_inputs(facts)


@cache
def _stashes(skeleton: str, p: int, m: int, v: int, until: str) -> tuple[int, ...]:
    return tuple(in_flight(_facts(skeleton, p, m, v)[0], until))


def points(skeleton: str, most_ranks: int, most: int, sizes: Sizes) -> Iterator[tuple[int, int, int]]:
    """(P, M, V) of a grid where the skeleton is defined."""
    for v in SKELETONS[skeleton]:
        for p in range(1, most_ranks + 1):
            for m in range(1, most + 1):
                if sizes.holds(p, m) and (skeleton != "dualpipev" or m >= 2 * p - 1):
                    yield p, m, v


def close(skeleton: str, figure: str, *, most_ranks: int = 5, most: int = 14, seed: int = 0) -> Form:
    """The most general form found, or the finding that there is none."""
    timed = figure in ("makespan", "span bubble")
    if figure == "in flight until W" and skeleton not in SPLIT:
        return Form(skeleton, figure, None)
    for rates, sizes in itertools.product(
        (RATES if skeleton in SPLIT else FUSED) if timed else (Rates("", lambda pick: (1, 1, 1)),), SIZES
    ):
        grid = list(points(skeleton, most_ranks, most, sizes))
        found = _fit(skeleton, figure, grid, rates, random.Random(seed))
        if found is not None:
            text = (
                "M >= 2 P - 1"
                if skeleton == "dualpipev" and sizes.text in ("M >= 1", "M >= P")
                else sizes.text
            )
            return Form(skeleton, figure, found[0], text, rates.text, found[1])
    return Form(skeleton, figure, None)


def _fit(
    skeleton: str, figure: str, grid: Sequence[tuple[int, int, int]], rates: Rates, pick: random.Random
) -> tuple[sympy.Expr, int] | None:
    timed = figure in ("makespan", "span bubble")
    several = len(SKELETONS[skeleton]) > 1
    sizes = [sympy.Integer(1), P, M, *((V, P * V, M * V) if several else ())]
    basis = [s * d for s in sizes for d in (F, I, W)] if timed else [*sizes, r]

    def sample(point) -> list[tuple[list[int], int]]:
        p, m, v = point
        numbers = [1, p, m, *((v, p * v, m * v) if several else ())]
        if timed:
            d = rates.draw(pick)
            return [
                ([n * t for n in numbers for t in d], measure(skeleton, p, m, v, *d)[figure != "makespan"])
            ]
        counts = _stashes(skeleton, p, m, v, "X" if figure == "in flight" else "W")
        return [([*numbers, rank], count) for rank, count in enumerate(counts)]

    seen = [line for point in pick.sample(grid, min(len(grid), 4 * len(basis))) for line in sample(point)]
    weights = _solve([x for x, _ in seen], [y for _, y in seen], len(basis))
    if weights is None:
        return None
    fresh = [line for _ in range(3 if timed else 1) for point in grid for line in sample(point)]
    if any(sum(a * x for a, x in zip(weights, line)) != y for line, y in fresh):
        return None
    expression = sympy.Add(*(a * b for a, b in zip(weights, basis)))
    if timed and skeleton not in SPLIT:
        halves = sympy.expand(expression.subs(I, B - W))
        if W in halves.free_symbols:
            return None
        expression = halves
    return _tidy(expression), len(fresh)


def _tidy(expression: sympy.Expr) -> sympy.Expr:
    """As a product, or else by what grows with M and what does not."""
    whole = sympy.factor(expression)
    if not whole.is_Add:
        return whole
    expanded = sympy.expand(expression)
    return M * sympy.factor(expanded.coeff(M, 1)) + sympy.factor(expanded.coeff(M, 0))


def _solve(rows: list[list[int]], values: list[int], unknowns: int) -> list[sympy.Rational] | None:
    """Exact solution of a linear system with more equations than unknowns; what it leaves open is 0; None if
    it has none.
    """
    matrix = sympy.Matrix(rows).row_join(sympy.Matrix(values))
    reduced, pivots = sympy.polys.matrices.DomainMatrix.from_Matrix(matrix).to_field().rref()
    if unknowns in pivots:
        return None
    solution = [sympy.Integer(0)] * unknowns
    table = reduced.to_Matrix()
    for line, column in enumerate(pivots):
        solution[column] = table[line, unknowns]
    return solution
