"""One query over all freezings: does the order of the fully trained program serve every one of them (spec/footprint.md)?

The program's transfers are put in along its linearisation, once. For a freezing, derive deletes from that program what the gates of
program/transfers.py's `restrict` close. `GATES` states them again: a gate is open iff a present layer of a span is trained. Asked is
for trainable bits under which

* (a) two present operations stand against a wait between them, the times of the fully trained certificate fixed: those of the compute
  order, and those of the written program under `blocking`, whose waits contain the other models'. Deleting operations adds no wait
  that these do not contain: prev and next don't depend on the bits, and `order` and `block` are chains along a rank.
* (b) an operation is present and one it needs is not, the other end of a transfer and the other members of a reduction included.
* (c) what is present differs from the footprint.

Operations of one kind, stage and class are present together, so the query does not grow with the number of microbatches. That the fully
trained program keeps the rules that no freezing touches (IL303, IL304, IL309 to IL311, IL403, ..) is not asked here but by rules/.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ...program.facts import Facts
from ...program.ir import Kind, Program, Stage
from ...program.linearise import compute_times
from ...program.transfers import insert
from ...rules.communication import Transfers
from ...rules.waits import REASONS, WaitGraph, wait_graph
from .. import graph as graph_engine
from .footprint import Feet, Suspects, compare
from .needs import needs
from .query import FALSE, TIMEOUT_MS, TRUE, Query, Session, Unknown, Unsat, both, either, no

ALL_MODELS = "blocking"                     # the strongest: its waits contain those of every other model

_up_to: Callable[[Stage], range] = lambda stage: range(stage.last)
_before: Callable[[Stage], range] = lambda stage: range(stage.first)
_own: Callable[[Stage], range] = lambda stage: range(stage.first, stage.last)

# the layers that keep an operation of a stage: present ones for a microbatch, all for REDUCE. W: also the W half of B
GATES = {Kind.B: _up_to, Kind.I: _up_to, Kind.W: _own, Kind.SEND_B: _before, Kind.WAIT_B: _before, Kind.RECV_B: _up_to,
         Kind.REDUCE: _own}


@dataclass(frozen=True)
class Holds:
    """Invariant under every freezing, in that many queries."""

    queries: int


@dataclass(frozen=True)
class Fails:
    """`bits`: the layers that are frozen, as few as fail; `rows` of `program`, which has its transfers written; `code`: the rule broken."""

    bits: tuple[int, ...]
    what: str
    rows: tuple[int, ...]
    program: Program
    code: str = ""


def invariant(trained: Program, layers: Sequence[int], *, timeout_ms: int = TIMEOUT_MS) -> Holds | Fails | Unknown:
    """Whether the fully trained program, its transfers inserted, serves every freezing of any of the layers.

    Raises ValueError if transfers are written, or a layer is frozen or out of range. Other layers keep their bits.
    """
    facts = _checked(trained, layers)
    times = compute_times(facts)
    if not times.complete:
        rows = tuple(r for r in times.stuck if r >= 0)
        return Fails((), "the fully trained program waits in a cycle", rows, trained, "IL307")
    question = _Question(trained, layers, facts, times)
    session = Session(question.query, timeout_ms)
    answer = session.check()
    if isinstance(answer, Unknown):
        return answer
    if isinstance(answer, Unsat):
        return Holds(1)
    bits = [f"trainable.{l}" for l in sorted(set(layers))]
    for bound in range(len(bits) + 1):
        fewer = session.check(at_most=(bits, bound))
        if isinstance(fewer, Unknown):
            break                            # what was found stands, though a smaller one may exist
        if not isinstance(fewer, Unsat):
            answer = fewer
            break
    found = [d for s in question.suspects for d in s.found(answer.value)][0]
    frozen = tuple(l for l in sorted(set(layers)) if not answer.value(f"trainable.{l}"))
    return Fails(frozen, found.what, found.rows, question.written, found.code)


def invariance_query(trained: Program, layers: Sequence[int]) -> Query:
    """The query that `invariant` asks: unsat iff the order serves every freezing; `fails.dep` is (a) and (b), `fails.foot` is (c).

    Raises ValueError likewise, and for a cyclic order.
    """
    facts = _checked(trained, layers)
    return _Question(trained, layers, facts, compute_times(facts)).query


def _checked(trained: Program, layers: Sequence[int]) -> Facts:
    if not trained.inserted or trained.fragment:
        raise ValueError("invariance is asked of a complete program whose transfers are inserted")
    wrong = [l for l in layers if not 0 <= l < len(trained.layers) or not trained.layers[l].trainable]
    if wrong:
        raise ValueError(f"not a trained layer: {', '.join(map(str, wrong))}")
    return Facts(trained)


class _Question:
    def __init__(self, trained: Program, layers: Sequence[int], facts: Facts, times):
        self.query = Query("sat: bits of a freezing that the order of the fully trained program does not serve; unsat: it serves every one", "ALL")
        self.written = insert(trained, times)
        written = Facts(self.written)
        self._feet = Feet(self.query, trained, facts.footprint.present, frozenset(layers))
        self._places = max(len(trained.stages), len(trained.ties) + 1)
        self._symbols: dict[tuple[Kind, int, int], str] = {}
        dep, foot = Suspects(self.query, "dep"), Suspects(self.query, "foot")
        self.suspects = (dep, foot)
        self._waits(facts, wait_graph(facts, Transfers(facts), ALL_MODELS), times.time, dep)
        waits = wait_graph(written, Transfers(written), ALL_MODELS)
        self._waits(written, waits, graph_engine.solve(waits).time, dep)
        self._needs(written, dep)
        compare(written, self._feet, self.present, foot, exact=True)
        self.query.add("ask", either(*(self.query.define("ask", f"fails.{name}", part.any) for name, part in (("dep", dep), ("foot", foot)))))

    def present(self, kind: Kind, cls: int, at: int) -> str:
        """The gate of a kind of operation in a class at a stage (REDUCE_TIE: of a tie)."""
        key = (kind, cls, at)
        if key not in self._symbols:
            term = self._gate(kind, cls, at)
            self._symbols[key] = term if term == TRUE else self.query.define("dep", f"has.{kind.name}.s{at}.c{cls}", term)
        return self._symbols[key]

    def _gate(self, kind: Kind, cls: int, at: int) -> str:
        stages, ties, bit = self.written.stages, self.written.ties, self._feet.bit
        if kind == Kind.REDUCE_TIE:
            if at == len(ties):
                return TRUE                                    # no declared tie: never dropped
            return either(*(bit[l] for s in ties[at].stages for l in GATES[Kind.REDUCE](stages[s])))
        if kind not in GATES:
            return TRUE
        span = [l for l in GATES[kind](stages[at]) if l < len(bit)]
        return either(*(bit[l] for l in (span if kind == Kind.REDUCE else self._feet.layers(cls, span))))

    def _groups(self, facts: Facts) -> np.ndarray:
        """A number for each row, equal for rows that one gate holds; 0: none does."""
        p, kind = self.written, facts.kind.astype(np.int64)
        tie = np.full(len(p.names) + 1, len(p.ties), dtype=np.int64)
        for number, declared in reversed(list(enumerate(p.ties))):
            if declared.name in p.names:
                tie[p.names.index(declared.name)] = number
        at = np.where(kind == Kind.REDUCE_TIE, tie[facts.name], facts.stage)
        cls = np.where((kind == Kind.REDUCE) | (kind == Kind.REDUCE_TIE), 0, facts.cls)
        gated = np.isin(kind, [int(k) for k in (*GATES, Kind.REDUCE_TIE)]) & facts.stage_ok
        return np.where(gated, 1 + (kind * self._places + at) * len(self._feet.present) + cls, 0)

    def _of(self, group: int) -> str:
        """The gate of a group of rows."""
        if group == 0:
            return TRUE
        rest, cls = divmod(group - 1, len(self._feet.present))
        kind, at = divmod(rest, self._places)
        return self.present(Kind(kind), cls, at)

    def _waits(self, facts: Facts, graph: WaitGraph, time: np.ndarray, suspects: Suspects) -> None:
        """(a): of the waits between two groups, the one with the least time between its ends."""
        group = self._groups(facts)
        row = self._written_rows(facts)
        slack = time[graph.dst] - time[graph.src]
        index = np.lexsort((slack, group[graph.dst], group[graph.src]))
        left, right = group[graph.src[index]], group[graph.dst[index]]
        new = np.ones(len(index), dtype=bool)
        new[1:] = (left[1:] != left[:-1]) | (right[1:] != right[:-1])
        for e in index[new].tolist():
            a, b = int(graph.src[e]), int(graph.dst[e])
            late = f"(not (< {_numeral(time[a])} {_numeral(time[b])}))"
            what = f"{facts.program.show(b)} does not come after {facts.program.show(a)} ({REASONS[graph.reason[e]]})"
            suspects.add(both(self._of(int(group[a])), self._of(int(group[b])), late), "IL307", what, [row[a], row[b]])

    def _written_rows(self, facts: Facts) -> np.ndarray:
        """Where each row stands in the written program; -1 if it is not clear."""
        if facts.program is self.written:
            return np.arange(facts.n)
        kind = self.written.order.kind
        added = set(Kind) - {Kind(k) for k in np.unique(facts.kind).tolist()}
        old = np.flatnonzero(~np.isin(kind, [int(k) for k in added]))
        return old if len(old) == facts.n else np.full(facts.n, -1)

    def _needs(self, facts: Facts, suspects: Suspects) -> None:
        """(b)."""
        group, show = self._groups(facts), facts.program.show
        for need in needs(facts):
            there = np.where(need.needed >= 0, group[np.maximum(need.needed, 0)], -1)
            _, one = np.unique(np.stack([group[need.rows], there]), axis=1, return_index=True)
            for a, b in zip(need.rows[one].tolist(), need.needed[one].tolist()):
                here = self._of(int(group[a]))
                if need.as_weight and facts.kind[a] == Kind.B:
                    here = both(here, self.present(Kind.W, int(facts.cls[a]), int(facts.stage[a])))
                what = f"{show(a)} is there and {need.what if b < 0 else show(b)} is not"
                suspects.add(both(here, no(self._of(int(group[b])) if b >= 0 else FALSE)), need.code, what, [a, b])


def _numeral(value: int) -> str:
    return str(value) if value >= 0 else f"(- {-value})"
