"""One query over all freezings: does the order of the fully trained program serve every one of them (spec/footprint.md)?

The program's transfers are put in along its linearisation, once. For a freezing, derive deletes from that program what the gates of
program/transfers.py's `restrict` close (gates.py). Asked is for trainable bits under which

* (a) two present operations stand against a wait between them, the times of the fully trained certificate fixed: those of the compute
  order, and those of the written program under `blocking`, whose waits contain the other models'. Deleting operations adds no wait
  that these do not contain: prev and next don't depend on the bits, and `order` and `block` are chains along a rank.
* (b) an operation is present and one it needs is not, the other end of a transfer and the other members of a reduction included.
* (c) what is present differs from the footprint.
* (d) where the program carries bytes, a rank holds more than its capacity, or more than it ever does with all of the layers trained.

Operations of one kind, stage and class are present together, so the query does not grow with the number of microbatches. That the fully
trained program keeps the rules that no freezing touches (IL303, IL304, IL309 to IL311, IL403, ..) is not asked here but by rules/.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...program.facts import Facts
from ...program.ir import Kind, Program
from ...program.linearise import Times, compute_times
from ...program.transfers import insert
from ...rules.communication import Transfers
from ...rules.waits import REASONS, WaitGraph, wait_graph
from .. import graph as graph_engine
from .footprint import Feet, Suspects, compare
from .gates import Gates
from .live import TooLarge
from .memory import bound
from .needs import needs
from .query import FALSE, TIMEOUT_MS, Query, Session, Unknown, Unsat, both, either, no, numeral, second_opinion
from .sizes import Bytes

ALL_MODELS = "blocking"                     # the strongest: its waits contain those of every other model


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


def invariant(trained: Program, layers: Sequence[int], *, written: Program | None = None, limits: Sequence[int | None] | None = None,
              timeout_ms: int = TIMEOUT_MS, second: bool = False) -> Holds | Fails | Unknown:
    """Whether the fully trained program, its transfers inserted, serves every freezing of any of the layers.

    `written`: the program with its transfers where derive places them; default: along its own linearisation. Where it carries bytes, (d) is
    asked too, with `limits` (default: its capacities) for the ranks. Other layers keep their bits. `second`: cvc5 is asked too (query.py).
    Raises ValueError if transfers of `trained` are written, or a layer is frozen or out of range.
    """
    facts = _checked(trained, layers)
    times = compute_times(facts)
    if not times.complete:
        rows = tuple(r for r in times.stuck if r >= 0)
        return Fails((), "the fully trained program waits in a cycle", rows, trained, "IL307")
    try:
        question = _Question(trained, layers, facts, times, written, limits)
    except TooLarge as reason:
        return Unknown(str(reason))
    session = Session(question.query, timeout_ms)
    answer = session.check()
    if second:
        second_opinion(question.query, answer, timeout_ms)
    if isinstance(answer, Unknown):
        return answer
    if isinstance(answer, Unsat):
        return Holds(1)
    bits = [f"trainable.{l}" for l in sorted(set(layers))]
    for most in range(len(bits) + 1):
        fewer = session.check(at_most=(bits, most))
        if isinstance(fewer, Unknown):
            break                            # what was found stands, though a smaller one may exist
        if not isinstance(fewer, Unsat):
            answer = fewer
            break
    found = [d for s in question.suspects for d in s.found(answer.value)][0]
    frozen = tuple(l for l in sorted(set(layers)) if not answer.value(f"trainable.{l}"))
    return Fails(frozen, found.what, found.rows, question.written, found.code)


def invariance_query(trained: Program, layers: Sequence[int], *, written: Program | None = None, limits: Sequence[int | None] | None = None) -> Query:
    """The query that `invariant` asks: unsat iff the order serves every freezing; `fails.dep` is (a) and (b), `fails.foot` (c), `fails.mem` (d).

    Raises ValueError likewise, and for a cyclic order; TooLarge if there are too many bytes to tell apart.
    """
    facts = _checked(trained, layers)
    return _Question(trained, layers, facts, compute_times(facts), written, limits).query


def freezing_query(written: Program, layers: Sequence[int]) -> Query:
    """Sat iff there are sizes of all layers, and bits of these, with which some rank holds more than it ever does with these trained.

    `written` has its transfers written and the layers trained; its own sizes are not used. Raises TooLarge.
    """
    query = Query("sat: sizes and a freezing with which a rank's peak rises; unsat: no freezing raises a peak, whatever the sizes", "QF_LIA")
    facts = Facts(written)
    symbolic = frozenset(layers)
    feet = Feet(query, written, facts.footprint.present, symbolic)
    gates = Gates(query, written, feet, "mem")
    suspects = Suspects(query, "mem")
    size = Bytes(query, facts, feet, symbolic, open_sizes=True, gate=gates.of)
    bound(query, facts, size, suspects, gates.groups(facts), gates.of, (None,) * written.ranks, against_trained=True)
    query.add("ask", suspects.any)
    return query


def _checked(trained: Program, layers: Sequence[int]) -> Facts:
    if not trained.inserted or trained.fragment:
        raise ValueError("invariance is asked of a complete program whose transfers are inserted")
    wrong = [l for l in layers if not 0 <= l < len(trained.layers) or not trained.layers[l].trainable]
    if wrong:
        raise ValueError(f"not a trained layer: {', '.join(map(str, wrong))}")
    return Facts(trained)


class _Question:
    def __init__(self, trained: Program, layers: Sequence[int], facts: Facts, times: Times, placed: Program | None, limits):
        self.query = Query("sat: bits of a freezing that the order of the fully trained program does not serve; unsat: it serves every one", "QF_LIA")
        self.written = placed or insert(trained, times)
        written, symbolic = Facts(self.written), frozenset(layers)
        feet = Feet(self.query, trained, facts.footprint.present, symbolic)
        self._gates = Gates(self.query, self.written, feet)
        dep, foot = Suspects(self.query, "dep"), Suspects(self.query, "foot")
        parts = {"dep": dep, "foot": foot}
        self._waits(facts, wait_graph(facts, Transfers(facts), ALL_MODELS), times.time, dep)
        waits = wait_graph(written, Transfers(written), ALL_MODELS)
        self._waits(written, waits, graph_engine.solve(waits).time, dep)
        self._needs(written, dep)
        compare(written, feet, self._gates.present, foot, exact=True)
        if self.written.memory is not None:
            parts["mem"] = Suspects(self.query, "mem")
            size = Bytes(self.query, written, feet, symbolic, gate=self._gates.of)
            bound(self.query, written, size, parts["mem"], self._gates.groups(written), self._gates.of,
                  self.written.memory.capacity if limits is None else limits, against_trained=True)
        self.suspects = tuple(parts.values())
        self.query.add("ask", either(*(self.query.define("ask", f"fails.{name}", part.any) for name, part in parts.items())))

    def _waits(self, facts: Facts, graph: WaitGraph, time: np.ndarray, suspects: Suspects) -> None:
        """(a): of the waits between two groups, the one with the least time between its ends."""
        group = self._gates.groups(facts)
        row = self._written_rows(facts)
        slack = time[graph.dst] - time[graph.src]
        index = np.lexsort((slack, group[graph.dst], group[graph.src]))
        left, right = group[graph.src[index]], group[graph.dst[index]]
        new = np.ones(len(index), dtype=bool)
        new[1:] = (left[1:] != left[:-1]) | (right[1:] != right[:-1])
        for e in index[new].tolist():
            a, b = int(graph.src[e]), int(graph.dst[e])
            late = f"(not (< {numeral(time[a])} {numeral(time[b])}))"
            what = f"{facts.program.show(b)} does not come after {facts.program.show(a)} ({REASONS[graph.reason[e]]})"
            suspects.add(both(self._gates.of(int(group[a])), self._gates.of(int(group[b])), late), "IL307", what, [row[a], row[b]])

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
        group, show = self._gates.groups(facts), facts.program.show
        for need in needs(facts):
            there = np.where(need.needed >= 0, group[np.maximum(need.needed, 0)], -1)
            _, one = np.unique(np.stack([group[need.rows], there]), axis=1, return_index=True)
            for a, b in zip(need.rows[one].tolist(), need.needed[one].tolist()):
                here = self._gates.of(int(group[a]))
                if need.as_weight and facts.kind[a] == Kind.B:
                    here = both(here, self._gates.present(Kind.W, int(facts.cls[a]), int(facts.stage[a])))
                what = f"{show(a)} is there and {need.what if b < 0 else show(b)} is not"
                suspects.add(both(here, no(self._gates.of(int(group[b])) if b >= 0 else FALSE)), need.code, what, [a, b])

