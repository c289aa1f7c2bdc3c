"""Every owner map at once: a leading Replicated region whose hand-overs are a prefix waits in no cycle,
whoever owns what (proofs: T8).

The owner map is an uninterpreted function from microbatches to ranks. A rank encodes what it owns, hands it
over, does the backbone's work, takes gradients back and does the region's backwards. That order depends on
the map, the times below do not: encodes and hand-overs by the turn in which the first stage after the region
runs its forwards, the backbone's as they are but later, gradients by the turn of that stage's input
gradients. Asked is for a map under which a wait does not go forward in time. A hand-over is one event of both
its ranks, and each rank does its events in order: the waits of `blocking`, which contain those of the other
models.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from interlock.engine.smt.invariance import DEP, Fails, Holds
from interlock.engine.smt.query import TIMEOUT_MS, Query, Unknown, Unsat
from interlock.engine.smt.solvers import decide
from interlock.engine.smt.terms import TRUE, conjoin
from interlock.engine.smt.violations import ASK, Suspects
from interlock.program.facts import Facts
from interlock.program.ir import Kind, Program
from interlock.program.linearise import compute_times
from interlock.rules.communication import Transfers
from interlock.rules.waits import wait_graph

MAX_MICROBATCHES = 200  # each pair of them is asked
MAP, TIME = "map", "time"
NOT_LEADING = (
    "owner maps are quantified for an order with inserted transfers "
    "and one Replicated region, which comes first"
)


def check_owner_maps(
    program: Program, *, timeout_ms: int = TIMEOUT_MS, second: bool = False
) -> Holds | Fails | Unknown:
    """Whether no owner map of the program's leading Replicated region makes it wait in a cycle, its transfers
    as above.

    Fails has no bits; it says which wait, of the program as it is if that waits in a cycle itself. `second`:
    cvc5 is asked too (solvers.py).
    """
    prefix = _read_prefix(program)
    if isinstance(prefix, (Unknown, Fails)):
        return prefix
    question = _OwnerQuestion(prefix)
    answer = decide(question.query, timeout_ms, second=second)
    if isinstance(answer, Unknown):
        return answer
    if isinstance(answer, Unsat):
        return Holds(1)
    violation = question.suspects.select(answer)[0]
    owners = ", ".join(str(answer.value(f"owner.{m}")) for m in prefix.forward)
    return Fails((), f"with owners {owners}: {violation.what}", violation.rows, program, violation.code)


def build_owner_query(program: Program) -> Query:
    """The query of `check_owner_maps`: unsat iff no owner map makes it wait in a cycle.

    Raises ValueError where none is asked.
    """
    prefix = _read_prefix(program)
    if isinstance(prefix, Unknown):
        raise ValueError(prefix.reason)
    if isinstance(prefix, Fails):
        raise ValueError(prefix.what)
    return _OwnerQuestion(prefix).query


@dataclass(frozen=True)
class _Prefix:
    """A program whose region comes first.

    `times`: of each row; `body`: mask of the rows of other stages; `forward`, `backward`: the microbatches on
    the region's path in the turns of forwards and of input gradients of the stage after it; `beside`: the
    rank of that stage for each of them.
    """

    facts: Facts
    times: np.ndarray
    body: np.ndarray
    forward: tuple[int, ...]
    backward: tuple[int, ...]
    beside: dict[int, int]


def _read_prefix(program: Program) -> _Prefix | Fails | Unknown:
    replicated = [s for s, stage in enumerate(program.stages) if stage.replicated]
    if replicated != [0] or not program.inserted or not program.reductions_inserted or program.fragment:
        return Unknown(NOT_LEADING)
    facts = Facts(program)
    times = compute_times(facts)
    if not times.complete:
        rows = tuple(row for row in times.stuck if row >= 0)
        return Fails((), "the program waits in a cycle as it is", rows, program, "IL307")
    following = _find_stages_after(facts)
    if len(following) > MAX_MICROBATCHES:
        return Unknown(
            f"the region has {len(following):,} microbatches; "
            f"owner maps of up to {MAX_MICROBATCHES:,} are put to a solver"
        )
    forward = _sort_by_row(facts, facts.first_F, following)
    backward = _sort_by_row(facts, facts.first_X, following) if facts.footprint.back[:, 0].any() else ()
    body = facts.stage != 0
    owner = program.stages[0].owner or ()
    for rank in range(program.ranks):
        owned = [m for m in following if owner[m] == rank]
        encodes = [m for m in forward if m in owned]
        gradients = [m for m in backward if m in owned]
        if not _comes_first_and_last(facts, body, rank, encodes, gradients):
            return Unknown(
                f"rank {rank} does not encode first and take gradients back last, "
                f"each in the first stage's order; {NOT_LEADING}"
            )
    ranks = facts.rank_at(
        np.array(list(following.values()), dtype=np.int64), np.array(list(following), dtype=np.int64)
    )
    beside = dict(zip(following, ranks.tolist()))
    return _Prefix(facts, times.time, body, forward, backward, beside)


def _find_stages_after(facts: Facts) -> dict[int, int]:
    """The stage after the region, for each microbatch on its path that has one."""
    footprint = facts.footprint
    following = {}
    for m in range(facts.M):
        cls = footprint.of[m]
        if footprint.on_path[cls, 0] and footprint.next[cls, 0] >= 0:
            following[m] = int(footprint.next[cls, 0])
    return following


def _sort_by_row(facts: Facts, table: np.ndarray, stages: dict[int, int]) -> tuple[int, ...]:
    """The microbatches that the table lists at their stage, in the order of its rows."""
    rows = {m: int(table[s * facts.M + m]) for m, s in stages.items()}
    listed = {m: row for m, row in rows.items() if row >= 0}
    return tuple(sorted(listed, key=listed.__getitem__))


def _comes_first_and_last(
    facts: Facts, body: np.ndarray, rank: int, encodes: Sequence[int], gradients: Sequence[int]
) -> bool:
    """Whether the rank runs the region's forwards of `encodes`, its part of the body, and the backwards of
    `gradients`.
    """
    rows = np.arange(*facts.program.order.start[rank : rank + 2])
    inner = rows[body[rows]]
    if len(inner):
        before, after = rows[rows < inner[0]], rows[rows > inner[-1]]
    else:
        before, after = rows[facts.kind[rows] == Kind.F], rows[facts.kind[rows] != Kind.F]
    return (
        len(before) + len(inner) + len(after) == len(rows)
        and facts.mb[before].tolist() == list(encodes)
        and list(dict.fromkeys(facts.mb[after].tolist())) == list(gradients)
    )


@dataclass(frozen=True)
class _Phase:
    """What the region's ranks do in turn: their encodes, then hand-overs; or taking gradients back, then
    their backwards.

    `work`, `hand_over`: symbols of times, by microbatch.
    """

    name: str
    turn: Sequence[int]
    work: dict[int, str]
    hand_over: dict[int, str]
    work_first: bool

    def order(self, worked: int, moved: int) -> tuple[str, str]:
        """The times of the work of one microbatch and the hand-over of another, the one that comes first
        before.
        """
        ends = (self.work[worked], self.hand_over[moved])
        return ends if self.work_first else (ends[1], ends[0])


class _OwnerQuestion:
    """`query`, and the waits that it suspects of going backward in time."""

    def __init__(self, prefix: _Prefix):
        self._prefix, self._ranks = prefix, prefix.facts.program.ranks
        self.query = Query(
            "sat: an owner map under which a wait does not go forward in these times; "
            "unsat: none waits in a cycle",
            "QF_UFLIA",
        )
        self.suspects = Suspects(self.query, DEP)
        self._owner = self._declare_owners()
        self._away = {m: f"(distinct {self._owner[m]} {rank})" for m, rank in prefix.beside.items()}
        count, end = len(prefix.forward), int(prefix.times.max(initial=0)) + 1
        self._shift = 2 * count  # of the backbone's times, behind encodes and hand-overs
        encode = self._fix_times("encode", prefix.forward, 0)
        hand_over = self._fix_times("hand_over", prefix.forward, count)
        hand_back = self._fix_times("hand_back", prefix.backward, self._shift + end)
        decode = self._fix_times("decode", prefix.backward, 3 * count + end)
        self._forward = _Phase("encode", prefix.forward, encode, hand_over, work_first=True)
        self._backward = _Phase("decode", prefix.backward, decode, hand_back, work_first=False)
        for phase in (self._forward, self._backward):
            self._suspect_phase(phase)
        for rank in range(self._ranks):
            self._suspect_borders_of_body(rank)
        self._suspect_waits_of_body()
        self.query.add(ASK, self.suspects.disjunction)

    def _declare_owners(self) -> dict[int, str]:
        """The owner of each microbatch, any rank."""
        self.query.declare_function("owner", "Int", "Int")
        owner = {}
        for m in self._prefix.forward:
            owner[m] = self.query.define_integer(MAP, f"owner.{m}", f"(owner {m})")
            self.query.add(MAP, f"(and (<= 0 {owner[m]}) (< {owner[m]} {self._ranks}))")
        return owner

    def _fix_times(self, name: str, microbatches: Sequence[int], first: int) -> dict[int, str]:
        """Times of an event of each microbatch, one after the other."""
        return {
            m: self.query.define_integer(TIME, f"{name}.{m}", str(first + turn))
            for turn, m in enumerate(microbatches)
        }

    def _write_row_time(self, row: int) -> str:
        return str(self._shift + int(self._prefix.times[row]))

    def _suspect(self, before: str, after: str, guard: str, what: str, rows: Sequence[int] = ()) -> None:
        """That a wait, which is there under the guard, does not go forward in time."""
        self.suspects.add(conjoin(guard, f"(not (< {before} {after}))"), "IL307", what, rows)

    def _suspect_phase(self, phase: _Phase) -> None:
        for a, b in combinations(phase.turn, 2):
            one_owner = f"(= {self._owner[a]} {self._owner[b]})"
            self._suspect_turn(phase, a, b, one_owner)
            self._suspect_mixture(phase, a, b, one_owner)
            self._suspect_mixture(phase, b, a, one_owner)
        for m in phase.turn:
            before, after = phase.order(m, m)
            what = f"{phase.name} {m} and its hand-over stand the wrong way round"
            self._suspect(before, after, self._away[m], what)

    def _suspect_turn(self, phase: _Phase, a: int, b: int, one_owner: str) -> None:
        """An owner works in turn, and a rank's hand-overs stand in turn at both of their ends."""
        what = f"{phase.name} {b} does not come after {phase.name} {a}"
        self._suspect(phase.work[a], phase.work[b], one_owner, what)
        both = conjoin(self._away[a], self._away[b], self._share_rank(a, b, one_owner))
        what = f"the hand-over of {b} does not come after that of {a}"
        self._suspect(phase.hand_over[a], phase.hand_over[b], both, what)

    def _suspect_mixture(self, phase: _Phase, worked: int, moved: int, one_owner: str) -> None:
        """All the work of a rank comes before every hand-over that it takes part in, or after."""
        before, after = phase.order(worked, moved)
        takes_part = f"(or {one_owner} {self._own_beside(worked, moved)})"
        what = f"{phase.name} {worked} and the hand-over of {moved} stand the wrong way round"
        self._suspect(before, after, conjoin(self._away[moved], takes_part), what)

    def _own_beside(self, owned: int, moved: int) -> str:
        """The owner of one microbatch is the rank beside the region to which another is handed over."""
        return f"(= {self._owner[owned]} {self._prefix.beside[moved]})"

    def _share_rank(self, a: int, b: int, one_owner: str) -> str:
        """The hand-overs of two microbatches have a rank in common."""
        if self._prefix.beside[a] == self._prefix.beside[b]:
            return TRUE
        return f"(or {one_owner} {self._own_beside(a, b)} {self._own_beside(b, a)})"

    def _suspect_borders_of_body(self, rank: int) -> None:
        """The rank's part of the backbone comes after what it encodes and hands over, and before what it
        takes back.
        """
        prefix = self._prefix
        rows = prefix.facts.on_rank(np.flatnonzero(prefix.body), rank)
        if not len(rows):
            return
        first = self._write_row_time(rows[np.argmin(prefix.times[rows])])
        last = self._write_row_time(rows[np.argmax(prefix.times[rows])])
        begins, ends = f"rank {rank} begins the backbone", f"rank {rank} ends the backbone"
        for m in prefix.forward:
            encode, hand_over = self._forward.work[m], self._forward.hand_over[m]
            self._suspect(encode, first, self._owned_by(m, rank), f"{begins} before encode {m}")
            part = conjoin(self._away[m], self._takes_part(m, rank))
            self._suspect(hand_over, first, part, f"{begins} before the hand-over of {m}")
        for m in prefix.backward:
            decode, hand_back = self._backward.work[m], self._backward.hand_over[m]
            self._suspect(last, decode, self._owned_by(m, rank), f"{ends} after decode {m}")
            part = conjoin(self._away[m], self._takes_part(m, rank))
            self._suspect(last, hand_back, part, f"{ends} after the gradient of {m} goes back")

    def _owned_by(self, m: int, rank: int) -> str:
        return f"(= {self._owner[m]} {rank})"

    def _takes_part(self, m: int, rank: int) -> str:
        """The rank is one of the two of a hand-over."""
        return TRUE if self._prefix.beside[m] == rank else self._owned_by(m, rank)

    def _suspect_waits_of_body(self) -> None:
        """The backbone's own waits are those it had."""
        show = self._prefix.facts.program.show
        for a, b in _list_tightest_waits(self._prefix):
            before, after = self._write_row_time(a), self._write_row_time(b)
            self._suspect(before, after, TRUE, f"{show(b)} does not come after {show(a)}", (a, b))


def _list_tightest_waits(prefix: _Prefix) -> Iterator[tuple[int, int]]:
    """Of the backbone's own waits from one rank to another (or the same), the one with the least time between
    its ends.
    """
    facts = prefix.facts
    graph = wait_graph(facts, Transfers(facts), "blocking")
    inner = np.flatnonzero(prefix.body[graph.src] & prefix.body[graph.dst])
    src, dst = graph.src[inner], graph.dst[inner]
    index = np.argsort(prefix.times[dst] - prefix.times[src], kind="stable")
    pair = facts.rank[src[index]].astype(np.int64) * facts.program.ranks + facts.rank[dst[index]]
    for e in index[np.unique(pair, return_index=True)[1]].tolist():
        yield int(src[e]), int(dst[e])
