"""What each operation of a program with written transfers requires to be there: condition (b) of the
invariance query.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from interlock.program.facts import Facts
from interlock.program.ir import Kind
from interlock.program.transfers import tie_ranks


@dataclass(frozen=True)
class Prerequisite:
    """`required[i]` (-1: not listed) has to be there where `rows[i]` is.

    `code`: of the rule that its absence breaks; `as_weight`: rows count by their W half.
    """

    rows: np.ndarray
    required: np.ndarray
    code: str
    what: str
    as_weight: bool = False


def list_prerequisites(facts: Facts) -> Iterator[Prerequisite]:
    """R-DEP-1 to R-DEP-5, R-COM-1, R-RANK."""
    if facts.S and facts.M:
        yield from _list_of_computation(facts)
        yield from _list_of_transfers(facts)
        yield from _list_of_reductions(facts)
        yield from _list_of_ties(facts)


def _listed(table: np.ndarray) -> np.ndarray:
    return table[table >= 0]


def _look_up(facts: Facts, table: np.ndarray, stage: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The entry of a (stage, microbatch) table for the microbatch of each row."""
    entries: np.ndarray = table[stage * facts.M + facts.mb[rows]]
    return entries


def _list_of_computation(facts: Facts) -> Iterator[Prerequisite]:
    """R-DEP-1 to R-DEP-4."""
    footprint = facts.footprint
    f, x, w = _listed(facts.first_F), _listed(facts.first_X), _listed(facts.first_W)
    before, after = facts.neighbour(footprint.prev, f), facts.neighbour(footprint.next, x)
    fed, given = f[before >= 0], x[after >= 0]
    before, after = before[before >= 0], after[after >= 0]
    yield Prerequisite(fed, _look_up(facts, facts.first_F, before, fed), "IL302", "the forward before it")
    yield Prerequisite(x, _look_up(facts, facts.first_F, facts.stage[x], x), "IL302", "its forward")
    yield Prerequisite(
        given, _look_up(facts, facts.first_X, after, given), "IL601", "the backward that gives its gradient"
    )
    yield Prerequisite(w, _look_up(facts, facts.first_X, facts.stage[w], w), "IL305", "its input half")
    if (facts.first_LOSS >= 0).any():
        last = f[facts.neighbour(footprint.next, f) < 0]
        yield Prerequisite(
            last, _look_up(facts, facts.first_LOSS, facts.stage[last], last), "IL302", "its loss"
        )
    for rows, other, kind in ((fed, before, Kind.RECV_F), (given, after, Kind.RECV_B)):
        away = rows[facts.rank_at(other, facts.mb[rows]) != facts.rank[rows]]
        yield Prerequisite(
            away, _look_up(facts, facts.first(kind), facts.stage[away], away), "IL401", f"its {kind.name}"
        )


def _list_of_transfers(facts: Facts) -> Iterator[Prerequisite]:
    """R-COM-1: the other end of a transfer, what it sends, and the send that a wait is for."""
    footprint = facts.footprint
    for kind, other, neighbours in (
        (Kind.SEND_F, Kind.RECV_F, footprint.next),
        (Kind.RECV_F, Kind.SEND_F, footprint.prev),
        (Kind.RECV_B, Kind.SEND_B, footprint.next),
        (Kind.SEND_B, Kind.RECV_B, footprint.prev),
    ):
        rows = _listed(facts.first(kind))
        stage = facts.neighbour(neighbours, rows)
        there = _look_up(facts, facts.first(other), np.maximum(stage, 0), rows)
        yield Prerequisite(rows, np.where(stage >= 0, there, -1), "IL401", f"its {other.name}")
    for kind, table, code, what in (
        (Kind.SEND_F, facts.first_F, "IL302", "what it sends"),
        (Kind.SEND_B, facts.first_X, "IL601", "what it sends"),
        (Kind.WAIT_F, facts.first(Kind.SEND_F), "IL312", "its send"),
        (Kind.WAIT_B, facts.first(Kind.SEND_B), "IL312", "its send"),
    ):
        rows = _listed(facts.first(kind))
        yield Prerequisite(rows, _look_up(facts, table, facts.stage[rows], rows), code, what)


def _list_of_reductions(facts: Facts) -> Iterator[Prerequisite]:
    """R-DEP-5, R-RANK. Every member requires that of the next rank, and so each requires all."""
    p = facts.program
    rows = np.flatnonzero((facts.kind == Kind.REDUCE) & facts.placed)
    table = np.full(p.ranks * facts.S, -1, dtype=np.int64)
    table[(facts.rank[rows] * facts.S + facts.stage[rows])[::-1]] = rows[::-1]
    if not p.reductions_inserted:
        weights = np.flatnonzero(((facts.kind == Kind.W) | (facts.kind == Kind.B)) & facts.placed)
        own = table[facts.rank[weights] * facts.S + facts.stage[weights]]
        yield Prerequisite(weights, own, "IL308", "the reduction of its gradients", as_weight=True)
    shared = rows[facts.is_replicated[facts.stage[rows]]]
    following = (facts.rank[shared] + 1) % p.ranks
    yield Prerequisite(
        shared, table[following * facts.S + facts.stage[shared]], "IL605", "that of the next rank"
    )


def _list_of_ties(facts: Facts) -> Iterator[Prerequisite]:
    """R-DEP-5 of tied parameters: every member requires that of the tie's next rank."""
    p = facts.program
    for tie in p.ties:
        ranks = tie_ranks(p, tie)
        name = p.names.index(tie.name) if tie.name in p.names else -1
        rows = np.flatnonzero((facts.kind == Kind.REDUCE_TIE) & (facts.name == name))
        rows = rows[np.isin(facts.rank[rows], ranks)]
        first = dict(zip(facts.rank[rows].tolist()[::-1], rows.tolist()[::-1]))
        following = dict(zip(ranks, ranks[1:] + ranks[:1]))
        required = [first.get(following[r], -1) for r in facts.rank[rows].tolist()]
        yield Prerequisite(rows, np.array(required, dtype=np.int64), "IL308", "that of the next rank")
