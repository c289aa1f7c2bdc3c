"""The group `foot`: the backward footprint (spec/footprint.md) over one Bool a layer."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from interlock.engine.smt.query import Query
from interlock.engine.smt.terms import FALSE, TRUE, disjoin
from interlock.program.ir import Program

FOOT = "foot"


class FootprintTerms:
    """Symbols of the footprint: `cross`, `back`, `wwork` by (class, stage) on the path, `reduce` by stage,
    `bit` by layer; `wanted` by (class, layer): the gradient of the layer's output.

    As reverse-mode differentiation finds them, layer by layer: the gradient of a layer's input is wanted iff
    a present layer before it is trained (g_0 = false, g_{l+1} = g_l or t_l), that of its weights iff it is
    trained. Classes and their present layers are the program's (spec/program.md, Presence); nothing else is
    taken over from program/footprint.py.
    """

    def __init__(self, query: Query, program: Program, present: np.ndarray, symbolic: frozenset[int]):
        """`present`: whether a layer is present in a class, shape [classes, layers]; `symbolic`: layers whose
        bits are open.
        """
        self.present = present
        self.bit = [
            _declare_bit(query, l, layer.trainable, l in symbolic) for l, layer in enumerate(program.layers)
        ]
        self.cross: dict[tuple[int, int], str] = {}
        self.back: dict[tuple[int, int], str] = {}
        self.wwork: dict[tuple[int, int], str] = {}
        self.wanted: dict[tuple[int, int], str] = {}
        for cls in range(len(present)):
            self._define_class(query, program, cls)
        self.reduce = [
            query.define_boolean(FOOT, f"reduce.s{s}", disjoin(*self.bit[stage.first : stage.last]))
            for s, stage in enumerate(program.stages)
        ]

    def _define_class(self, query: Query, program: Program, cls: int) -> None:
        wanted = FALSE
        for s, stage in enumerate(program.stages):
            layers = self.list_present(cls, range(stage.first, stage.last))
            if not layers:
                continue
            at = f"c{cls}.s{s}"
            self.cross[cls, s] = query.define_boolean(FOOT, f"cross.{at}", wanted)
            for l in layers:
                symbol = f"wanted.c{cls}.l{l + 1}"
                wanted = query.define_boolean(FOOT, symbol, disjoin(wanted, self.bit[l]))
                self.wanted[cls, l] = wanted
            self.back[cls, s] = query.define_boolean(FOOT, f"back.{at}", wanted)
            trained = disjoin(*(self.bit[l] for l in layers))
            self.wwork[cls, s] = query.define_boolean(FOOT, f"wwork.{at}", trained)

    def list_present(self, cls: int, layers: Iterable[int]) -> list[int]:
        """Those of the layers that are present in the class."""
        return [l for l in layers if self.present[cls, l]]


def _declare_bit(query: Query, layer: int, trainable: bool, symbolic: bool) -> str:
    symbol = f"trainable.{layer}"
    if symbolic:
        return query.declare_boolean(symbol)
    return query.define_boolean(FOOT, symbol, TRUE if trainable else FALSE)
