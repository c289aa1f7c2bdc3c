"""Which operations a freezing keeps: the gates of program/transfers.py's `restrict`, stated again as terms over the trainable bits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from interlock.engine.smt.footprint import Feet
from interlock.engine.smt.query import TRUE, Query, either
from interlock.program.facts import Facts
from interlock.program.ir import Kind, Program, Stage

_up_to: Callable[[Stage], range] = lambda stage: range(stage.last)
_before: Callable[[Stage], range] = lambda stage: range(stage.first)
_own: Callable[[Stage], range] = lambda stage: range(stage.first, stage.last)

# the layers that keep an operation of a stage, one of them trained: present ones for a microbatch, all for REDUCE. W: also the W half of B
GATES = {
    Kind.B: _up_to,
    Kind.I: _up_to,
    Kind.W: _own,
    Kind.SEND_B: _before,
    Kind.WAIT_B: _before,
    Kind.RECV_B: _up_to,
    Kind.REDUCE: _own,
}


class Gates:
    """Rows that one gate holds are a group, named by a number; 0: rows that are always there."""

    def __init__(self, query: Query, program: Program, feet: Feet, group: str = "dep"):
        self._query, self._program, self._feet, self._in = query, program, feet, group
        self._places = max(len(program.stages), len(program.ties) + 1)
        self._symbols: dict[tuple[Kind, int, int], str] = {}

    def present(self, kind: Kind, cls: int, at: int) -> str:
        """The gate of a kind of operation in a class at a stage (REDUCE_TIE: of a tie)."""
        key = (kind, cls, at)
        if key not in self._symbols:
            term = self._gate(kind, cls, at)
            self._symbols[key] = (
                term if term == TRUE else self._query.define(self._in, f"has.{kind.name}.s{at}.c{cls}", term)
            )
        return self._symbols[key]

    def _gate(self, kind: Kind, cls: int, at: int) -> str:
        stages, ties, bit = self._program.stages, self._program.ties, self._feet.bit
        if kind == Kind.REDUCE_TIE:
            if at == len(ties):
                return TRUE  # no declared tie: never dropped
            return either(*(bit[l] for s in ties[at].stages for l in GATES[Kind.REDUCE](stages[s])))
        if kind not in GATES:
            return TRUE
        span = [l for l in GATES[kind](stages[at]) if l < len(bit)]
        return either(*(bit[l] for l in (span if kind == Kind.REDUCE else self._feet.layers(cls, span))))

    def groups(self, facts: Facts) -> np.ndarray:
        """The group of each row."""
        p, kind = self._program, facts.kind.astype(np.int64)
        tie = np.full(len(p.names) + 1, len(p.ties), dtype=np.int64)
        for number, declared in reversed(list(enumerate(p.ties))):
            if declared.name in p.names:
                tie[p.names.index(declared.name)] = number
        at = np.where(kind == Kind.REDUCE_TIE, tie[facts.name], facts.stage)
        cls = np.where((kind == Kind.REDUCE) | (kind == Kind.REDUCE_TIE), 0, facts.cls)
        gated = np.isin(kind, [int(k) for k in (*GATES, Kind.REDUCE_TIE)]) & facts.stage_ok
        return np.where(gated, 1 + (kind * self._places + at) * len(self._feet.present) + cls, 0)

    def of(self, group: int) -> str:
        """The gate of a group."""
        if group == 0:
            return TRUE
        rest, cls = divmod(group - 1, len(self._feet.present))
        kind, at = divmod(rest, self._places)
        return self.present(Kind(kind), cls, at)
