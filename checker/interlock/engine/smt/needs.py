"""What each operation of a program with written transfers needs to be there: condition (b) of the invariance query."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from interlock.program.facts import Facts
from interlock.program.kinds import INSERTED, Kind
from interlock.program.transfers import tie_ranks


@dataclass(frozen=True)
class Need:
    """`needed[i]` (-1: not listed) has to be there where `rows[i]` is. `code`: what its absence is; `as_weight`: rows count by their W half."""

    rows: np.ndarray
    needed: np.ndarray
    code: str
    what: str
    as_weight: bool = False


def needs(facts: Facts) -> Iterator[Need]:
    """R-DEP-1 to R-DEP-5, R-COM-1, R-RANK."""
    if facts.S and facts.M:
        yield from _computing(facts)
        yield from _transfers(facts)
        yield from _reductions(facts)


def _listed(table: np.ndarray) -> np.ndarray:
    return table[table >= 0]


def _at(facts: Facts, table: np.ndarray, stage: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The entry of a (stage, microbatch) table for the microbatch of each row."""
    return table[stage * facts.M + facts.mb[rows]]


def _computing(facts: Facts) -> Iterator[Need]:
    fp = facts.footprint
    f, x, w = _listed(facts.first_F), _listed(facts.first_X), _listed(facts.first_W)
    before, after = facts.neighbour(fp.prev, f), facts.neighbour(fp.next, x)
    fed, asked = f[before >= 0], x[after >= 0]
    before, after = before[before >= 0], after[after >= 0]
    yield Need(fed, _at(facts, facts.first_F, before, fed), "IL302", "the forward before it")
    yield Need(x, _at(facts, facts.first_F, facts.stage[x], x), "IL302", "its forward")
    yield Need(
        asked, _at(facts, facts.first_X, after, asked), "IL601", "the backward that gives its gradient"
    )
    yield Need(w, _at(facts, facts.first_X, facts.stage[w], w), "IL305", "its input half")
    if (facts.first_LOSS >= 0).any():
        last = f[facts.neighbour(fp.next, f) < 0]
        yield Need(last, _at(facts, facts.first_LOSS, facts.stage[last], last), "IL302", "its loss")
    for rows, other, kind in ((fed, before, Kind.RECV_F), (asked, after, Kind.RECV_B)):
        away = facts.rank_at(other, facts.mb[rows]) != facts.rank[rows]
        yield Need(
            rows[away],
            _at(facts, facts.first(kind), facts.stage[rows[away]], rows[away]),
            "IL401",
            f"its {kind.name}",
        )


def _transfers(facts: Facts) -> Iterator[Need]:
    fp = facts.footprint
    first = {kind: facts.first(kind) for kind in INSERTED}
    for kind, other, ahead in (
        (Kind.SEND_F, Kind.RECV_F, True),
        (Kind.RECV_F, Kind.SEND_F, False),
        (Kind.RECV_B, Kind.SEND_B, True),
        (Kind.SEND_B, Kind.RECV_B, False),
    ):
        rows = _listed(first[kind])
        stage = facts.neighbour(fp.next if ahead else fp.prev, rows)
        there = _at(facts, first[other], np.maximum(stage, 0), rows)
        yield Need(rows, np.where(stage >= 0, there, -1), "IL401", f"its {other.name}")
    for kind, table, code, what in (
        (Kind.SEND_F, facts.first_F, "IL302", "what it sends"),
        (Kind.SEND_B, facts.first_X, "IL601", "what it sends"),
        (Kind.WAIT_F, first[Kind.SEND_F], "IL312", "its send"),
        (Kind.WAIT_B, first[Kind.SEND_B], "IL312", "its send"),
    ):
        rows = _listed(first[kind])
        yield Need(rows, _at(facts, table, facts.stage[rows], rows), code, what)


def _reductions(facts: Facts) -> Iterator[Need]:
    p = facts.program
    weights = np.flatnonzero(((facts.kind == Kind.W) | (facts.kind == Kind.B)) & facts.placed)
    rows = np.flatnonzero((facts.kind == Kind.REDUCE) & facts.placed)
    table = np.full(p.ranks * facts.S, -1, dtype=np.int64)
    table[(facts.rank[rows] * facts.S + facts.stage[rows])[::-1]] = rows[::-1]
    if not p.reductions_inserted:
        yield Need(
            weights,
            table[facts.rank[weights] * facts.S + facts.stage[weights]],
            "IL308",
            "the reduction of its gradients",
            as_weight=True,
        )
    shared = rows[facts.is_replicated[facts.stage[rows]]]
    around = (facts.rank[shared] + 1) % p.ranks  # every member needs the next one: so each needs all
    yield Need(shared, table[around * facts.S + facts.stage[shared]], "IL605", "that of the next rank")
    for tie in p.ties:
        ranks = tie_ranks(p, tie)
        name = p.names.index(tie.name) if tie.name in p.names else -1
        mine = np.flatnonzero((facts.kind == Kind.REDUCE_TIE) & (facts.name == name))
        mine = mine[np.isin(facts.rank[mine], ranks)]
        row = dict(zip(facts.rank[mine].tolist()[::-1], mine.tolist()[::-1]))
        following = dict(zip(ranks, ranks[1:] + ranks[:1]))
        needed = [row.get(following[r], -1) for r in facts.rank[mine].tolist()]
        yield Need(mine, np.array(needed, dtype=np.int64), "IL308", "that of the next rank")
