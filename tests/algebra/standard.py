"""The standard skeletons as the tests see them: which sizes they are for, and what `spec/std` claims of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from interlock.algebra.expr import evaluate
from interlock.algebra.instance import chunk_parameter
from interlock.language import ast
from interlock.language.parse import parse
from interlock.program.ir import Program
from interlock.program.kinds import Kind
from interlock.text import resources
from interlock.text.source import Sources


@dataclass(frozen=True)
class Standard:
    """chunks: the numbers of chunks to try; smallest(P): the least M; x, w (P, M, V, r): the most stashes of
    a rank until I or B, until W.
    """

    chunks: tuple[int, ...]
    x: Callable[[int, int, int, int], int]
    w: Callable[[int, int, int, int], int]
    smallest: Callable[[int], int] = lambda P: 1

    def sizes(self, P: int, Ms) -> list[tuple[int, int]]:
        return [(M, V) for M in Ms if self.smallest(P) <= M for V in self.chunks]


def first_round(P: int, M: int) -> int:
    return M // max(1, M // P) + M % max(1, M // P)


def _same(bound, *rest, **more):
    return Standard(*rest, bound, bound, **more)


# the table of the theorems (T7), and the bounds of the skeletons it does not list
STANDARD = {
    "1f1b": _same(lambda P, M, V, r: min(M, P - r), (1,)),
    "gpipe": _same(lambda P, M, V, r: M * V, (1, 2, 3)),
    "breadth_first": _same(lambda P, M, V, r: M * V, (1, 2, 3)),
    "eager": _same(lambda P, M, V, r: min(M, 2 * (P - 1 - r) + 1), (1,)),
    "interleaved": _same(
        lambda P, M, V, r: min(M * V, (V - 1) * first_round(P, M) + 2 * (P - 1 - r) + 1), (1, 2, 3)
    ),
    "zb_h1": Standard((1,), lambda P, M, V, r: min(M, P - r), lambda P, M, V, r: min(M, P)),
    "zb_h2": Standard(
        (1,), lambda P, M, V, r: min(M, 2 * (P - 1 - r) + 1), lambda P, M, V, r: min(M, 2 * P - 1)
    ),
    "interleaved_zb": Standard(
        (1, 2, 3),
        lambda P, M, V, r: min(M * V, (V - 1) * first_round(P, M) + P - r),
        lambda P, M, V, r: min(M * V, (V - 1) * first_round(P, M) + P),
    ),
    "zb_v": _same(lambda P, M, V, r: min(2 * M, 2 * P, M + 1 + r), (2,)),
    "dualpipev": _same(
        lambda P, M, V, r: 2 * P + 1 if M >= 2 * P else min(2 * P + 1, 2 * P + r),
        (2,),
        smallest=lambda P: 2 * P - 1,
    ),
    "hanayo": _same(lambda P, M, V, r: (V - 2) * min(M, P) + min(2 * M, 2 * P, M + 1 + r), (2, 4, 6)),
}
# of V-Min the largest rank's number is published, not each rank's
LARGEST = {
    "v_min": Standard(
        (2,),
        lambda P, M, V, r: min(2 * M, 2 * ((P + 3) // 3)),
        lambda P, M, V, r: min(2 * M, 2 * ((P + 4) // 3)),
    )
}
ALL = STANDARD | LARGEST


def written(name: str, V: int) -> str:
    """The skeleton as a cut names it."""
    return f"{name}(chunks: {V})" if chunk_parameter(skeleton(name)) else name


@cache
def skeleton(name: str) -> ast.Skeleton:
    [found] = parse(Sources().add(f"{name}.sched", resources.read_text(f"spec/std/{name}.sched"))).skeletons
    return found


def claimed(name: str, P: int, M: int, V: int, r: int) -> dict[str, int]:
    """The bounds in the `prove` block of spec/std/NAME.sched, by figure."""
    node = skeleton(name)
    env = dict(zip([p.text for p in node.parameters], (P, M, V))) | {"r": r}
    return {
        c.condition.left.function.text: evaluate(c.condition.right, env)
        for p in node.proves
        for c in p.claims
        if isinstance(c.condition, ast.Compare)
    }


def stashes(program: Program) -> list[tuple[int, int]]:
    """(until I or B, until W or B) at most on each rank, in program order."""
    out = []
    for first, end in zip(program.order.start[:-1], program.order.start[1:]):
        kinds = program.order.kind[first:end]

        def live(ends):
            return int(np.cumsum((kinds == Kind.F).astype(int) - np.isin(kinds, ends)).max())

        out.append((live([Kind.I, Kind.B]), live([Kind.W, Kind.B])))
    return out
