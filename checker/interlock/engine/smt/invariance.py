"""One query over all freezings: does the order of the fully trained program serve every one of them (spec/footprint.md)?

Its transfers are written, or put in along its linearisation, once. A freezing deletes from that program what the gates of
program/transfers.py's `restrict` close (gates.py). Asked is for trainable bits under which

* (a) two present operations stand against a wait between them, the times of the fully trained certificate fixed. Transfers inserted: those of
  the compute order, and those of the written program under `blocking`, whose waits contain the other models'. Transfers written: those of the
  one model asked. Deleting operations adds no wait that these do not contain: prev and next don't depend on the bits, both ends of a transfer
  are deleted together, and `order`, `queue` and `block` are chains along a rank.
* (b) an operation is present and one it needs is not, the other end of a transfer and the other members of a reduction included.
* (c) what is present differs from the footprint.
* (d) where the program carries bytes, a rank holds more than its capacity, or more than it ever does with all of the layers trained.

Operations of one kind, stage and class are present together, so the query does not grow with the number of microbatches. That the fully
trained program keeps the rules that no freezing touches (IL303, IL304, IL309 to IL311, IL403, ..) is not asked here but by rules/.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from interlock.engine import graph as graph_engine
from interlock.engine.smt.footprint import Feet, Suspects, compare
from interlock.engine.smt.gates import Gates
from interlock.engine.smt.live import TooLarge
from interlock.engine.smt.memory import bound
from interlock.engine.smt.needs import needs
from interlock.engine.smt.query import (
    FALSE,
    TIMEOUT_MS,
    Query,
    Session,
    Unknown,
    Unsat,
    both,
    either,
    no,
    numeral,
    second_opinion,
)
from interlock.engine.smt.sizes import Bytes
from interlock.program.facts import Facts
from interlock.program.ir import Kind, Program
from interlock.program.linearise import compute_times
from interlock.program.transfers import insert
from interlock.rules.communication import Transfers
from interlock.rules.waits import REASONS, WaitGraph, wait_graph

ALL_MODELS = "blocking"  # the strongest: its waits contain those of every other model


@dataclass(frozen=True)
class Holds:
    """Invariant under every freezing, in that many queries."""

    queries: int


@dataclass(frozen=True)
class Fails:
    """`bits`: the layers that are frozen, as few as fail; `rows` of `program`, which has its transfers written; `code`: the rule broken.

    The failing program is what freezing these layers leaves of `program`.
    """

    bits: tuple[int, ...]
    what: str
    rows: tuple[int, ...]
    program: Program
    code: str = ""


def invariant(
    trained: Program,
    layers: Sequence[int],
    *,
    model: str | None = None,
    written: Program | None = None,
    limits: Sequence[int | None] | None = None,
    timeout_ms: int = TIMEOUT_MS,
    second: bool = False,
) -> Holds | Fails | Unknown:
    """Whether the fully trained program serves every freezing of any of the layers.

    `model`: under which, if its transfers are written; if they are inserted the answer is that of every model. `written`: an inserted program with
    its transfers where derive places them; default: along its own linearisation. Where it carries bytes, (d) is asked too, with `limits` (default:
    its capacities) for the ranks. Other layers keep their bits. `second`: cvc5 is asked too (query.py). Raises ValueError for a fragment, and if a
    layer is frozen or out of range.
    """
    try:
        question = _Question(trained, layers, model, written, limits)
    except _Cyclic as cycle:
        return cycle.fails
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
            break  # what was found stands, though a smaller one may exist
        if not isinstance(fewer, Unsat):
            answer = fewer
            break
    found = [d for s in question.suspects for d in s.found(answer.value)][0]
    frozen = tuple(l for l in sorted(set(layers)) if not answer.value(f"trainable.{l}"))
    return Fails(frozen, found.what, found.rows, question.written, found.code)


def invariance_query(
    trained: Program,
    layers: Sequence[int],
    *,
    model: str | None = None,
    written: Program | None = None,
    limits: Sequence[int | None] | None = None,
) -> Query:
    """The query that `invariant` asks: unsat iff the order serves every freezing; `fails.dep` is (a) and (b), `fails.foot` (c), `fails.mem` (d).

    Raises ValueError likewise, and for a cyclic order; TooLarge if there are too many bytes to tell apart.
    """
    return _Question(trained, layers, model, written, limits).query


def freezing_query(written: Program, layers: Sequence[int]) -> Query:
    """Sat iff there are sizes of all layers, and bits of these, with which some rank holds more than it ever does with these trained.

    `written` has its transfers written and the layers trained; its own sizes are not used. Raises TooLarge.
    """
    query = Query(
        "sat: sizes and a freezing with which a rank's peak rises; unsat: no freezing raises a peak, whatever the sizes",
        "QF_LIA",
    )
    facts = Facts(written)
    symbolic = frozenset(layers)
    feet = Feet(query, written, facts.footprint.present, symbolic)
    gates = Gates(query, written, feet, "mem")
    suspects = Suspects(query, "mem")
    size = Bytes(query, facts, feet, symbolic, open_sizes=True, gate=gates.of)
    bound(
        query,
        facts,
        size,
        suspects,
        gates.groups(facts),
        gates.of,
        (None,) * written.ranks,
        against_trained=True,
    )
    query.add("ask", suspects.any)
    return query


class _Cyclic(ValueError):
    """The fully trained program itself fails: it waits in a cycle."""

    def __init__(self, rows: Sequence[int], program: Program, code: str):
        self.fails = Fails((), "the fully trained program waits in a cycle", tuple(rows), program, code)
        super().__init__(self.fails.what)


def _checked(trained: Program, layers: Sequence[int], model: str | None) -> Facts:
    if trained.fragment or not (trained.inserted or model):
        raise ValueError(
            "invariance is asked of a complete program, under a model if its transfers are written"
        )
    wrong = [l for l in layers if not 0 <= l < len(trained.layers) or not trained.layers[l].trainable]
    if wrong:
        raise ValueError(f"not a trained layer: {', '.join(map(str, wrong))}")
    return Facts(trained)


class _Question:
    def __init__(
        self,
        trained: Program,
        layers: Sequence[int],
        model: str | None,
        placed: Program | None,
        limits: Sequence[int | None] | None,
    ):
        self.query = Query(
            "sat: bits of a freezing that the order of the fully trained program does not serve; unsat: it serves every one",
            "QF_LIA",
        )
        facts, symbolic = _checked(trained, layers, model), frozenset(layers)
        self.written, self._code = trained, "IL307" if trained.inserted else "IL402"
        if trained.inserted:
            model, times = ALL_MODELS, compute_times(facts)
            if not times.complete:
                raise _Cyclic([r for r in times.stuck if r >= 0], trained, self._code)
            self.written = placed or insert(trained, times)
        written = Facts(self.written)
        feet = Feet(self.query, trained, facts.footprint.present, symbolic)
        self._gates = Gates(self.query, self.written, feet)
        dep, foot = Suspects(self.query, "dep"), Suspects(self.query, "foot")
        parts = {"dep": dep, "foot": foot}
        if trained.inserted:
            self._waits(facts, wait_graph(facts, Transfers(facts), model), times.time, dep)
        waits = wait_graph(written, Transfers(written), model)
        solution = graph_engine.solve(waits)
        if solution.walk and not trained.inserted:
            raise _Cyclic(
                [e for a, _, _ in solution.walk for word, e in (a,) if word == "op"], self.written, self._code
            )
        self._waits(written, waits, solution.time, dep)
        self._needs(written, dep)
        compare(written, feet, self._gates.present, foot, exact=True)
        if self.written.memory is not None:
            parts["mem"] = Suspects(self.query, "mem")
            size = Bytes(self.query, written, feet, symbolic, gate=self._gates.of)
            bound(
                self.query,
                written,
                size,
                parts["mem"],
                self._gates.groups(written),
                self._gates.of,
                self.written.memory.capacity if limits is None else limits,
                against_trained=True,
            )
        self.suspects = tuple(parts.values())
        self.query.add(
            "ask",
            either(*(self.query.define("ask", f"fails.{name}", part.any) for name, part in parts.items())),
        )

    def _waits(self, facts: Facts, graph: WaitGraph, time: np.ndarray, suspects: Suspects) -> None:
        """(a): of the waits between two groups, the one with the least time between its ends. A launch is there while one of its members is."""
        group, gates = self._groups(facts, graph)
        row = self._written_rows(facts)
        slack = time[graph.dst] - time[graph.src]
        index = np.lexsort((slack, group[graph.dst], group[graph.src]))
        left, right = group[graph.src[index]], group[graph.dst[index]]
        new = np.ones(len(index), dtype=bool)
        new[1:] = (left[1:] != left[:-1]) | (right[1:] != right[:-1])
        show = lambda e: facts.program.show(e) if e < facts.n else "a launch"
        for e in index[new].tolist():
            a, b = int(graph.src[e]), int(graph.dst[e])
            late = f"(not (< {numeral(time[a])} {numeral(time[b])}))"
            what = f"{show(b)} does not come after {show(a)} ({REASONS[graph.reason[e]]})"
            suspects.add(
                both(gates(int(group[a])), gates(int(group[b])), late),
                self._code,
                what,
                [row[x] for x in (a, b) if x < facts.n],
            )

    def _groups(self, facts: Facts, graph: WaitGraph) -> tuple[np.ndarray, Callable[[int], str]]:
        """The group of each event, and the gate of a group: those of the rows, and below 0 those of launches, by the groups of their members."""
        group = self._gates.groups(facts)
        if not len(graph.launches):
            return group, self._gates.of
        number: dict[tuple[int, ...], int] = {}
        launch = facts.launch
        members: dict[int, set[int]] = {int(l): set() for l in graph.launches}
        for row in np.flatnonzero(np.isin(launch, graph.launches)).tolist():
            members[int(launch[row])].add(int(group[row]))
        of = [-1 - number.setdefault(tuple(sorted(members[int(l)])), len(number)) for l in graph.launches]
        kinds = list(number)
        gates = lambda g: self._gates.of(g) if g >= 0 else either(*map(self._gates.of, kinds[-1 - g]))
        return np.concatenate([group, np.repeat(np.array(of, dtype=group.dtype), 2)]), gates

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
                suspects.add(
                    both(here, no(self._gates.of(int(group[b])) if b >= 0 else FALSE)),
                    need.code,
                    what,
                    [a, b],
                )
