"""Which operations a freezing keeps: the gates of program/transfers.py's `restrict`, stated again over the
trainable bits.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from interlock.engine.smt.footprint import FootprintTerms
from interlock.engine.smt.query import Query
from interlock.engine.smt.terms import TRUE, disjoin
from interlock.program.facts import Facts
from interlock.program.ir import Kind, Program, Stage

UNGATED = 0  # the group of rows that are always there


def layers_up_to(stage: Stage) -> range:
    return range(stage.last)


def layers_before(stage: Stage) -> range:
    return range(stage.first)


def layers_of(stage: Stage) -> range:
    return range(stage.first, stage.last)


# An operation of a stage is kept iff one of these layers is trained, and present for the microbatch (REDUCE:
# present or not). W: also the W half of B.
GATES: dict[Kind, Callable[[Stage], range]] = {
    Kind.B: layers_up_to,
    Kind.I: layers_up_to,
    Kind.W: layers_of,
    Kind.SEND_B: layers_before,
    Kind.WAIT_B: layers_before,
    Kind.RECV_B: layers_up_to,
    Kind.REDUCE: layers_of,
}


class Gates:
    """Rows that one gate keeps are a group, named by a number; UNGATED: rows that are always there."""

    def __init__(self, query: Query, program: Program, footprint: FootprintTerms, group: str = "dep"):
        """`group`: of the query, in which the gates are defined."""
        self._query, self._program, self._footprint, self._in = query, program, footprint, group
        self._places = max(len(program.stages), len(program.ties) + 1)
        self._symbols: dict[tuple[Kind, int, int], str] = {}

    def find_gate(self, kind: Kind, cls: int, at: int) -> str:
        """The gate of a kind of operation in a class at a stage (REDUCE_TIE: of a tie)."""
        key = (kind, cls, at)
        if key not in self._symbols:
            term = self._state_gate(kind, cls, at)
            if term != TRUE:
                term = self._query.define_boolean(self._in, f"has.{kind.name}.s{at}.c{cls}", term)
            self._symbols[key] = term
        return self._symbols[key]

    def _state_gate(self, kind: Kind, cls: int, at: int) -> str:
        stages, ties, bit = self._program.stages, self._program.ties, self._footprint.bit
        if kind == Kind.REDUCE_TIE:
            if at == len(ties):
                return TRUE  # no declared tie: never dropped
            return disjoin(*(bit[l] for s in ties[at].stages for l in layers_of(stages[s])))
        if kind not in GATES:
            return TRUE
        layers = [l for l in GATES[kind](stages[at]) if l < len(bit)]
        if kind != Kind.REDUCE:
            layers = self._footprint.list_present(cls, layers)
        return disjoin(*(bit[l] for l in layers))

    def number_groups(self, facts: Facts) -> np.ndarray:
        """The group of each row."""
        p, kind = self._program, facts.kind.astype(np.int64)
        tie = np.full(len(p.names) + 1, len(p.ties), dtype=np.int64)
        for number, declared in reversed(list(enumerate(p.ties))):
            if declared.name in p.names:
                tie[p.names.index(declared.name)] = number
        at = np.where(kind == Kind.REDUCE_TIE, tie[facts.name], facts.stage)
        cls = np.where((kind == Kind.REDUCE) | (kind == Kind.REDUCE_TIE), 0, facts.cls)
        gated = np.isin(kind, [int(k) for k in (*GATES, Kind.REDUCE_TIE)]) & facts.stage_ok
        code = 1 + (kind * self._places + at) * len(self._footprint.present) + cls
        return np.where(gated, code, UNGATED)

    def find_group_gate(self, group: int) -> str:
        """The gate of a group that `number_groups` made."""
        if group == UNGATED:
            return TRUE
        place, cls = divmod(group - 1, len(self._footprint.present))
        kind, at = divmod(place, self._places)
        return self.find_gate(Kind(kind), cls, at)
