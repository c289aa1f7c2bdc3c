"""Every owner map at once: a leading Replicated region whose hand-overs are a prefix waits in no cycle, whoever owns what (proofs: T8).

The owner map is an uninterpreted function from microbatches to ranks. A rank encodes what it owns, hands it over, does the backbone's work, takes
gradients back and does the region's backwards. That order depends on the map, the times below do not: encodes and hand-overs by the
turn in which the first stage after the region runs its forwards, the backbone's as they are but later, gradients by the turn of that
stage's input gradients. Asked is for a map under which a wait does not go forward in time. A hand-over is one event of both its ranks,
and each rank does its events in order: the waits of `blocking`, which contain those of the other models.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from interlock.engine.smt.footprint import Suspects
from interlock.engine.smt.invariance import Fails, Holds
from interlock.engine.smt.query import TIMEOUT_MS, Query, Unknown, Unsat, both, decide
from interlock.program.facts import Facts
from interlock.program.ir import Kind, Program
from interlock.program.linearise import compute_times
from interlock.rules.communication import Transfers
from interlock.rules.waits import wait_graph

MOST_MICROBATCHES = 200  # each pair of them is asked
NOT_LEADING = "owner maps are quantified for an order with inserted transfers and one Replicated region, which comes first"


@dataclass(frozen=True)
class _Prefix:
    """Of a program as above, by microbatches on the region's path: turns of forwards and of input gradients, the rank of the stage after it."""

    facts: Facts
    times: np.ndarray
    body: np.ndarray  # mask of the rows of other stages
    forward: dict[int, int]
    backward: dict[int, int]
    beside: dict[int, int]


def any_owner(
    program: Program, *, timeout_ms: int = TIMEOUT_MS, second: bool = False
) -> Holds | Fails | Unknown:
    """Whether no owner map of the program's leading Replicated region makes it wait in a cycle, its transfers as described above.

    Fails has no bits; it says which wait, of the program as it is if that waits in a cycle itself. `second`: cvc5 is asked too.
    """
    found = _prefix(program)
    if isinstance(found, (Unknown, Fails)):
        return found
    query, suspects = _question(found)
    answer = decide(query, timeout_ms, second=second)
    if isinstance(answer, Unknown):
        return answer
    if isinstance(answer, Unsat):
        return Holds(1)
    wrong = suspects.found(answer.value)[0]
    owners = ", ".join(str(answer.value(f"owner.{m}")) for m in found.forward)
    return Fails((), f"with owners {owners}: {wrong.what}", wrong.rows, program, wrong.code)


def owner_query(program: Program) -> Query:
    """The query that `any_owner` asks: unsat iff no owner map makes it wait in a cycle. Raises ValueError where none is asked."""
    found = _prefix(program)
    if isinstance(found, Unknown):
        raise ValueError(found.reason)
    if isinstance(found, Fails):
        raise ValueError(found.what)
    return _question(found)[0]


def _prefix(program: Program) -> _Prefix | Fails | Unknown:
    replicated = [s for s, stage in enumerate(program.stages) if stage.replicated]
    if replicated != [0] or not program.inserted or not program.reductions_inserted or program.fragment:
        return Unknown(NOT_LEADING)
    facts = Facts(program)
    times = compute_times(facts)
    if not times.complete:
        return Fails(
            (),
            "the program waits in a cycle as it is",
            tuple(r for r in times.stuck if r >= 0),
            program,
            "IL307",
        )
    fp, M = facts.footprint, facts.M
    visited = [m for m in range(M) if fp.on_path[fp.of[m], 0] and fp.next[fp.of[m], 0] >= 0]
    if len(visited) > MOST_MICROBATCHES:
        return Unknown(
            f"the region has {len(visited):,} microbatches; owner maps of up to {MOST_MICROBATCHES:,} are put to a solver"
        )
    beside = {m: int(fp.next[fp.of[m], 0]) for m in visited}
    first = lambda table, s, m: int(table[s * M + m])
    turns = []
    for table in (facts.first_F, facts.first_X):
        rows = {m: first(table, s, m) for m, s in beside.items() if first(table, s, m) >= 0}
        turns.append({m: turn for turn, m in enumerate(sorted(rows, key=rows.get))})
    forward, backward = turns
    if not fp.back[:, 0].any():
        backward = {}
    body = facts.stage != 0
    for r in range(program.ranks):
        rows = np.arange(*program.order.start[r : r + 2])
        inner = rows[body[rows]]
        mine = [m for m in visited if program.stages[0].owner[m] == r]
        before, after = (
            (rows[rows < inner[0]], rows[rows > inner[-1]])
            if len(inner)
            else (rows[facts.kind[rows] == Kind.F], rows[facts.kind[rows] != Kind.F])
        )
        encodes = facts.mb[before].tolist()
        gradients = list(dict.fromkeys(facts.mb[after].tolist()))
        in_turn = lambda turn: sorted((m for m in mine if m in turn), key=turn.get)
        if (
            len(before) + len(inner) + len(after) != len(rows)
            or encodes != in_turn(forward)
            or gradients != in_turn(backward)
        ):
            return Unknown(
                f"rank {r} does not encode first and take gradients back last, each in the first stage's order; {NOT_LEADING}"
            )
    return _Prefix(
        facts, times.time, body, forward, backward, {m: program.stages[s].rank for m, s in beside.items()}
    )


def _question(prefix: _Prefix) -> tuple[Query, Suspects]:
    facts, p = prefix.facts, prefix.facts.program
    query = Query(
        "sat: an owner map under which a wait does not go forward in these times; unsat: none waits in a cycle",
        "QF_UFLIA",
    )
    query.function("owner", "Int", "Int")
    owner = {}
    for m in prefix.forward:
        owner[m] = query.number("map", f"owner.{m}", f"(owner {m})")
        query.add("map", f"(and (<= 0 {owner[m]}) (< {owner[m]} {p.ranks}))")
    count, end = len(prefix.forward), int(prefix.times.max(initial=0)) + 1
    time = lambda symbol, value: query.number("time", symbol, str(value))
    encode = {m: time(f"encode.{m}", turn) for m, turn in prefix.forward.items()}
    hand = {m: time(f"hand_over.{m}", count + turn) for m, turn in prefix.forward.items()}
    back = {m: time(f"hand_back.{m}", 2 * count + end + turn) for m, turn in prefix.backward.items()}
    decode = {m: time(f"decode.{m}", 3 * count + end + turn) for m, turn in prefix.backward.items()}
    row_time = lambda row: str(2 * count + int(prefix.times[row]))
    suspects = Suspects(query, "dep")

    def wait(a: str, b: str, guard: str, what: str, *rows: int) -> None:
        suspects.add(both(guard, f"(not (< {a} {b}))"), "IL307", what, rows)

    away = {m: f"(distinct {owner[m]} {q})" for m, q in prefix.beside.items()}
    for turn, done, moved, what in (
        (prefix.forward, encode, hand, "encode"),
        (prefix.backward, decode, back, "decode"),
    ):
        for a, b in combinations(turn, 2):  # in turn: a before b
            same = f"(= {owner[a]} {owner[b]})"
            wait(done[a], done[b], same, f"{what} {b} does not come after {what} {a}")
            wait(
                moved[a],
                moved[b],
                both(away[a], away[b], _meet(owner, prefix.beside, a, b)),
                f"the hand-over of {b} does not come after that of {a}",
            )
            for x, y in ((a, b), (b, a)):
                early, late = (done[x], moved[y]) if what == "encode" else (moved[y], done[x])
                at = f"(or {same} (= {owner[x]} {prefix.beside[y]}))"
                wait(
                    early,
                    late,
                    both(away[y], at),
                    f"{what} {x} and the hand-over of {y} stand the wrong way round",
                )
        for m in turn:
            early, late = (done[m], moved[m]) if what == "encode" else (moved[m], done[m])
            wait(early, late, away[m], f"{what} {m} and its hand-over stand the wrong way round")
    for r in range(p.ranks):
        rows = facts.on_rank(np.flatnonzero(prefix.body), r)
        if not len(rows):
            continue
        first, last = (
            row_time(rows[np.argmin(prefix.times[rows])]),
            row_time(rows[np.argmax(prefix.times[rows])]),
        )
        for m in prefix.forward:
            mine = f"(= {owner[m]} {r})"
            wait(encode[m], first, mine, f"rank {r} begins the backbone before encode {m}")
            wait(
                hand[m],
                first,
                both(away[m], mine if prefix.beside[m] != r else "true"),
                f"rank {r} begins the backbone before the hand-over of {m}",
            )
        for m in prefix.backward:
            mine = f"(= {owner[m]} {r})"
            wait(last, decode[m], mine, f"rank {r} ends the backbone after decode {m}")
            wait(
                last,
                back[m],
                both(away[m], mine if prefix.beside[m] != r else "true"),
                f"rank {r} ends the backbone after the gradient of {m} goes back",
            )
    for a, b in _within(prefix):
        wait(row_time(a), row_time(b), "true", f"{p.show(b)} does not come after {p.show(a)}", a, b)
    query.add("ask", suspects.any)
    return query, suspects


def _meet(owner: dict[int, str], beside: dict[int, int], a: int, b: int) -> str:
    """The hand-overs of two microbatches have a rank in common."""
    if beside[a] == beside[b]:
        return "true"
    return f"(or (= {owner[a]} {owner[b]}) (= {owner[a]} {beside[b]}) (= {owner[b]} {beside[a]}))"


def _within(prefix: _Prefix) -> Iterator[tuple[int, int]]:
    """Of the backbone's own waits from one rank to another (or the same), the one with the least time between its ends."""
    facts = prefix.facts
    graph = wait_graph(facts, Transfers(facts), "blocking")
    inner = np.flatnonzero(prefix.body[graph.src] & prefix.body[graph.dst])
    src, dst = graph.src[inner], graph.dst[inner]
    index = np.argsort(prefix.times[dst] - prefix.times[src], kind="stable")
    pair = facts.rank[src[index]].astype(np.int64) * facts.program.ranks + facts.rank[dst[index]]
    for e in index[np.unique(pair, return_index=True)[1]].tolist():
        yield int(src[e]), int(dst[e])
