"""One query over all freezings: does the order of the fully trained program serve every one of them
(spec/footprint.md)?

Its transfers are written, or put in along its linearisation, once. A freezing deletes from that program what
the gates of program/transfers.py's `restrict` close (gates.py). Asked is for trainable bits under which

* (a) two present operations stand against a wait between them, the times of the fully trained certificate
  fixed. Transfers inserted: those of the compute order, and those of the written program under `blocking`,
  whose waits contain the other models'. Transfers written: those of the one model asked. Deleting operations
  adds no wait that these do not contain: prev and next don't depend on the bits, both ends of a transfer are
  deleted together, and `order`, `queue` and `block` are chains along a rank.
* (b) an operation is present and one it requires is not, the other end of a transfer and the other members of
  a reduction included.
* (c) what is present differs from the footprint.
* (d) where the program carries bytes, a rank holds more than its capacity, or more than it ever does with all
  of the layers trained.

Operations of one kind, stage and class are present together, so the query does not grow with the number of
microbatches. That the fully trained program keeps the rules that no freezing touches (IL303, IL304, IL309 to
IL311, IL403, ..) is not asked here but by rules/.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from interlock.engine import graph as graph_engine
from interlock.engine.smt.footprint import FOOT, FootprintTerms
from interlock.engine.smt.gates import Gates
from interlock.engine.smt.live import TooLarge
from interlock.engine.smt.memory import Limits, MemoryComparison
from interlock.engine.smt.prerequisites import Prerequisite, list_prerequisites
from interlock.engine.smt.presence import compare_presence
from interlock.engine.smt.query import TIMEOUT_MS, Query, Sat, Unknown, Unsat
from interlock.engine.smt.sizes import MEM, Bytes
from interlock.engine.smt.solvers import confirm
from interlock.engine.smt.terms import FALSE, conjoin, disjoin, negate, write_integer
from interlock.engine.smt.violations import ASK, Suspects
from interlock.engine.smt.z3_solver import Session
from interlock.program.facts import Facts
from interlock.program.ir import Kind, Program
from interlock.program.linearise import Times, compute_times
from interlock.program.transfers import insert
from interlock.rules.communication import Transfers
from interlock.rules.waits import REASONS, WaitGraph, wait_graph

DEP = "dep"
STRONGEST_MODEL = "blocking"  # its waits contain those of every other model


@dataclass(frozen=True)
class Holds:
    """Invariant under every freezing, in that many queries."""

    queries: int


@dataclass(frozen=True)
class Fails:
    """`bits`: the layers that are frozen, as few as fail; `rows` of `program`, which has its transfers
    written.

    `code`: of the rule broken. The failing program is what freezing these layers leaves of `program`.
    """

    bits: tuple[int, ...]
    what: str
    rows: tuple[int, ...]
    program: Program
    code: str = ""


def check_freezings(
    trained: Program,
    layers: Sequence[int],
    *,
    model: str | None = None,
    written: Program | None = None,
    limits: Limits | None = None,
    timeout_ms: int = TIMEOUT_MS,
    second: bool = False,
) -> Holds | Fails | Unknown:
    """Whether the fully trained program serves every freezing of any of the layers.

    `model`: under which, if its transfers are written; if they are inserted the answer is that of every
    model. `written`: an inserted program with its transfers where derive places them; default: along its own
    linearisation. Where it carries bytes, (d) is asked too, with `limits` (default: its capacities) for the
    ranks. Other layers keep their bits. `second`: cvc5 is asked too (solvers.py). Raises ValueError for a
    fragment, and if a layer is frozen or out of range.
    """
    try:
        question = _FreezingQuestion(trained, layers, model, written, limits)
    except _CyclicError as cycle:
        return cycle.fails
    except TooLarge as reason:
        return Unknown(str(reason))
    session = Session(question.query, timeout_ms)
    answer = session.check()
    if second:
        confirm(question.query, answer, timeout_ms)
    if isinstance(answer, Unknown):
        return answer
    if isinstance(answer, Unsat):
        return Holds(1)
    asked = sorted(set(layers))
    answer = _freeze_fewest(session, [f"trainable.{l}" for l in asked], answer)
    violation = next(v for suspects in question.suspects for v in suspects.select(answer))
    frozen = tuple(l for l in asked if not answer.value(f"trainable.{l}"))
    return Fails(frozen, violation.what, violation.rows, question.written, violation.code)


def _freeze_fewest(session: Session, bits: Sequence[str], found: Sat) -> Sat:
    """A model with as few layers frozen as can be; `found` if the solver gives up before."""
    for number in range(len(bits) + 1):
        answer = session.check(at_most=(bits, number))
        if isinstance(answer, Unknown):
            break
        if isinstance(answer, Sat):
            return answer
    return found


def build_invariance_query(
    trained: Program,
    layers: Sequence[int],
    *,
    model: str | None = None,
    written: Program | None = None,
    limits: Limits | None = None,
) -> Query:
    """The query of `check_freezings`: unsat iff the order serves every freezing.

    `fails.dep` is (a) and (b), `fails.foot` (c), `fails.mem` (d). Raises ValueError likewise, and for a
    cyclic order; TooLarge if there are too many bytes to tell apart.
    """
    return _FreezingQuestion(trained, layers, model, written, limits).query


def build_peak_query(written: Program, layers: Sequence[int]) -> Query:
    """Sat iff with some sizes, and some of these layers frozen, a rank holds more than it ever does with all
    trained.

    `written` has its transfers written and the layers trained; its own sizes are not used. Raises TooLarge.
    """
    query = Query(
        "sat: sizes and a freezing with which a rank's peak rises; "
        "unsat: no freezing raises a peak, whatever the sizes",
        "QF_LIA",
    )
    facts, symbolic = Facts(written), frozenset(layers)
    footprint = FootprintTerms(query, written, facts.footprint.present, symbolic)
    gates = Gates(query, written, footprint, MEM)
    suspects = Suspects(query, MEM)
    sizes = Bytes(query, facts, footprint, symbolic, open_sizes=True, gate=gates.find_group_gate)
    unlimited = (None,) * written.ranks
    MemoryComparison(
        query,
        facts,
        sizes,
        suspects,
        gates.number_groups(facts),
        gates.find_group_gate,
        unlimited,
        against_trained=True,
    ).suspect_all()
    query.add(ASK, suspects.disjunction)
    return query


class _CyclicError(ValueError):
    """The fully trained program itself fails: it waits in a cycle."""

    def __init__(self, rows: Sequence[int], program: Program, code: str):
        self.fails = Fails((), "the fully trained program waits in a cycle", tuple(rows), program, code)
        super().__init__(self.fails.what)


def _check_arguments(trained: Program, layers: Sequence[int], model: str | None) -> None:
    if trained.fragment or not (trained.inserted or model):
        raise ValueError(
            "invariance is asked of a complete program, under a model if its transfers are written"
        )
    wrong = [l for l in layers if not 0 <= l < len(trained.layers) or not trained.layers[l].trainable]
    if wrong:
        raise ValueError(f"not a trained layer: {', '.join(map(str, wrong))}")


class _FreezingQuestion:
    """`query`, its `suspects` by group, and the `written` program that their rows are of."""

    def __init__(
        self,
        trained: Program,
        layers: Sequence[int],
        model: str | None,
        written: Program | None,
        limits: Limits | None,
    ):
        _check_arguments(trained, layers, model)
        self.query = Query(
            "sat: bits of a freezing that the order of the fully trained program does not serve; "
            "unsat: it serves every one",
            "QF_LIA",
        )
        self._code = "IL307" if trained.inserted else "IL402"
        self._inserted, self._symbolic = trained.inserted, frozenset(layers)
        facts, times = Facts(trained), None
        self.written = trained
        if trained.inserted:
            times = self._compute_times(facts)
            self.written = written or insert(trained, times)
            model = STRONGEST_MODEL
        self._facts = Facts(self.written)
        self._footprint = FootprintTerms(self.query, trained, facts.footprint.present, self._symbolic)
        self._gates = Gates(self.query, self.written, self._footprint)
        dep, foot = Suspects(self.query, DEP), Suspects(self.query, FOOT)
        if times is not None:
            self._suspect_waits(facts, wait_graph(facts, Transfers(facts), STRONGEST_MODEL), times.time, dep)
        self._suspect_written_waits(model or STRONGEST_MODEL, dep)
        self._suspect_absent(dep)
        compare_presence(self._facts, self._footprint, self._gates.find_gate, foot, exact=True)
        self.suspects = [dep, foot]
        if self.written.memory is not None:
            self.suspects.append(
                self._suspect_memory(self.written.memory.capacity if limits is None else limits)
            )
        fails = [
            self.query.define_boolean(ASK, f"fails.{part.group}", part.disjunction) for part in self.suspects
        ]
        self.query.add(ASK, disjoin(*fails))

    def _compute_times(self, facts: Facts) -> Times:
        times = compute_times(facts)
        if not times.complete:
            raise _CyclicError([row for row in times.stuck if row >= 0], facts.program, self._code)
        return times

    def _suspect_written_waits(self, model: str, suspects: Suspects) -> None:
        """(a) in the program with its transfers."""
        waits = wait_graph(self._facts, Transfers(self._facts), model)
        solution = graph_engine.solve(waits)
        if solution.walk and not self._inserted:
            rows = [number for (word, number), _, _ in solution.walk if word == "op"]
            raise _CyclicError(rows, self.written, self._code)
        self._suspect_waits(self._facts, waits, solution.time, suspects)

    def _suspect_waits(self, facts: Facts, graph: WaitGraph, time: np.ndarray, suspects: Suspects) -> None:
        """(a): of the waits between two groups, the one with the least time between its ends."""
        events = _EventGroups(self._gates, facts, graph)
        row = self._find_written_rows(facts)
        left, right = events.group[graph.src], events.group[graph.dst]
        for e in _select_tightest(left, right, time[graph.dst] - time[graph.src]):
            a, b = int(graph.src[e]), int(graph.dst[e])
            late = f"(not (< {write_integer(time[a])} {write_integer(time[b])}))"
            reason = REASONS[graph.reason[e]]
            suspects.add(
                conjoin(events.find_gate(int(left[e])), events.find_gate(int(right[e])), late),
                self._code,
                f"{_show(facts, b)} does not come after {_show(facts, a)} ({reason})",
                [row[event] for event in (a, b) if event < facts.n],
            )

    def _find_written_rows(self, facts: Facts) -> np.ndarray:
        """Where each row stands in the written program; -1 if it is not clear."""
        if facts.program is self.written:
            return np.arange(facts.n)
        kinds = set(np.unique(facts.kind).tolist())
        old = np.flatnonzero(np.isin(self.written.order.kind, list(kinds)))
        return old if len(old) == facts.n else np.full(facts.n, -1)

    def _suspect_absent(self, suspects: Suspects) -> None:
        """(b)."""
        group = self._gates.number_groups(self._facts)
        for prerequisite in list_prerequisites(self._facts):
            rows, required = prerequisite.rows, prerequisite.required
            required_group = np.where(required >= 0, group[np.maximum(required, 0)], -1)
            _, first = np.unique(np.stack([group[rows], required_group]), axis=1, return_index=True)
            for a, b in zip(rows[first].tolist(), required[first].tolist()):
                here = self._find_row_gate(prerequisite, a, int(group[a]))
                there = self._gates.find_group_gate(int(group[b])) if b >= 0 else FALSE
                absent = _show(self._facts, b) if b >= 0 else prerequisite.what
                suspects.add(
                    conjoin(here, negate(there)),
                    prerequisite.code,
                    f"{_show(self._facts, a)} is there and {absent} is not",
                    [a, b],
                )

    def _find_row_gate(self, prerequisite: Prerequisite, row: int, group: int) -> str:
        gate = self._gates.find_group_gate(group)
        facts = self._facts
        if prerequisite.as_weight and facts.kind[row] == Kind.B:
            gate = conjoin(gate, self._gates.find_gate(Kind.W, int(facts.cls[row]), int(facts.stage[row])))
        return gate

    def _suspect_memory(self, limits: Limits) -> Suspects:
        """(d)."""
        suspects, gate = Suspects(self.query, MEM), self._gates.find_group_gate
        sizes = Bytes(self.query, self._facts, self._footprint, self._symbolic, gate=gate)
        group = self._gates.number_groups(self._facts)
        MemoryComparison(
            self.query, self._facts, sizes, suspects, group, gate, limits, against_trained=True
        ).suspect_all()
        return suspects


class _EventGroups:
    """`group` of each event: that of its row; below 0 those of launches, which are there while one of their
    members is.
    """

    def __init__(self, gates: Gates, facts: Facts, graph: WaitGraph):
        self._gates = gates
        row_group = gates.number_groups(facts)
        members: dict[int, set[int]] = {launch: set() for launch in graph.launches.tolist()}
        for row in np.flatnonzero(np.isin(facts.launch, graph.launches)).tolist():
            members[int(facts.launch[row])].add(int(row_group[row]))
        number: dict[tuple[int, ...], int] = {}
        launch_group = []
        for launch in graph.launches.tolist():
            groups = tuple(sorted(members[launch]))
            launch_group.append(-1 - number.setdefault(groups, len(number)))
        self._launches = list(number)  # the groups of the members, by number
        start_and_end = np.repeat(np.array(launch_group, dtype=row_group.dtype), 2)
        self.group = np.concatenate([row_group, start_and_end])

    def find_gate(self, group: int) -> str:
        if group >= 0:
            return self._gates.find_group_gate(group)
        return disjoin(*(self._gates.find_group_gate(member) for member in self._launches[-1 - group]))


def _select_tightest(left: np.ndarray, right: np.ndarray, slack: np.ndarray) -> list[int]:
    """Of the waits from one group to another, the one with the least slack; by groups."""
    index = np.lexsort((slack, right, left))
    first = np.ones(len(index), dtype=bool)
    left, right = left[index], right[index]
    first[1:] = (left[1:] != left[:-1]) | (right[1:] != right[:-1])
    return [int(e) for e in index[first]]


def _show(facts: Facts, event: int) -> str:
    return facts.program.show(event) if event < facts.n else "a launch"
