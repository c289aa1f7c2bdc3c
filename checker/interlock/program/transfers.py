"""Transfers placed along one linearisation, and what freezing leaves of a program (spec/communication.md, "Inserted transfers")."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from interlock.program.facts import IS_COMPUTE, Facts
from interlock.program.ir import Kind, Layer, Order, Program
from interlock.program.linearise import Times, compute_times

_COLUMNS = ("kind", "stage", "mb", "peer", "name", "comm", "launch", "at", "width")


@dataclass(frozen=True)
class Late:
    """Transfers across the right border of `stage` that leave as soon as their payload is there, on communicators of their own for each direction.

    Their waits come after the sender's operations of the consumer's time. `posted`: forward receives are posted at the start of their rank.
    """

    stage: int
    forward: int
    backward: int
    posted: bool = False


def insert(program: Program, times: Times | None = None, comm_of=None, late: Late | None = None) -> Program:
    """The program with its transfers (and reductions and STEP, if those are inserted) written.

    `program` is the fully trained one, its compute order acyclic (`times.complete`). `comm_of(stage)` names the
    communicator of the transfers that leave `stage` forward or enter it backward; default 0. Raises ValueError if the order is cyclic.
    """
    facts = Facts(program)
    times = times or compute_times(facts)
    if not times.complete:
        raise ValueError("the compute order is cyclic: transfers cannot be inserted")
    key = _moments(facts, times)
    gaps = _Gaps()
    _legs(facts, key, gaps, comm_of or (lambda stage: 0), late)
    if program.reductions_inserted:
        _reductions(facts, gaps)
    return program.with_order(gaps.merge(program.order), inserted=False, reductions_inserted=False)


def _moments(facts: Facts, times: Times) -> np.ndarray:
    """The place of each row in the linearisation by (time, rank); a row without an event shares its predecessor's."""
    time = times.time.copy()
    for r in range(facts.program.ranks):
        a, b = facts.program.order.start[r : r + 2]
        np.maximum.accumulate(time[a:b], out=time[a:b])
    return (time + 1) * facts.program.ranks + facts.rank


class _Gaps:
    """Operations to be put before row `gap` of a rank, in the order of (moment, turn)."""

    def __init__(self):
        self.parts: list[dict] = []

    def add(self, rank, gap, moment, turn, kind, stage, mb, comm=0, name=-1):
        n = len(rank)
        fields = dict(
            rank=rank, gap=gap, moment=moment, turn=turn, kind=kind, stage=stage, mb=mb, comm=comm, name=name
        )
        self.parts.append(
            {k: np.broadcast_to(np.asarray(v, dtype=np.int64), (n,)) for k, v in fields.items()}
        )

    def merge(self, order: Order) -> Order:
        n, ranks = len(order), len(order.start) - 1
        own = np.repeat(np.arange(ranks), np.diff(order.start))
        if not self.parts:
            return order
        new = {k: np.concatenate([p[k] for p in self.parts]) for k in self.parts[0]}
        rank = np.concatenate([own, new["rank"]])
        gap = np.concatenate([np.arange(n), new["gap"]])
        is_old = np.r_[np.ones(n, dtype=bool), np.zeros(len(new["gap"]), dtype=bool)]
        moment = np.concatenate([np.zeros(n, dtype=np.int64), new["moment"]])
        turn = np.concatenate([np.zeros(n, dtype=np.int64), new["turn"]])
        index = np.lexsort((turn, moment, is_old, gap, rank))
        absent = {"peer": -1, "launch": -1, "at": -1, "width": 0}
        columns = {}
        for c in _COLUMNS:
            old = getattr(order, c)
            add = new[c] if c in new else np.full(len(new["gap"]), absent[c])
            columns[c] = np.concatenate([old, add.astype(old.dtype)])[index]
        start = np.searchsorted(rank[index], np.arange(ranks + 1))
        return Order(start.astype(np.int64), *(columns[c] for c in _COLUMNS))


_AT_ONCE = np.iinfo(np.int64).min // 2  # before all else that is put into a gap


def _legs(facts: Facts, key: np.ndarray, gaps: _Gaps, comm_of, late: Late | None) -> None:
    edges = facts.data
    away = facts.rank[edges.src] != facts.rank[edges.dst]
    src, dst = edges.src[away], edges.dst[away]
    comms = np.array([comm_of(s) for s in range(facts.S)] or [0], dtype=np.int64)
    forward = facts.kind[dst] == Kind.F
    head = facts.overlap_head[dst]
    moment = key[head]
    # directly before the consumer; on the sender, before its first row of the consumer's time or later
    time, ranks = moment - moment % facts.program.ranks, facts.program.ranks
    before = _first_row_at(facts, key, src, time)
    boundary = np.where(forward, facts.stage[src], facts.stage[dst])  # the stage left of the boundary
    comm, turn = comms[boundary], np.where(forward, 0, 3)
    kind = lambda f, b: np.where(forward, int(f), int(b))
    stage, mb = facts.stage, facts.mb
    leaves, leaves_at, ends, ends_at, comes, comes_at = before, moment, before, moment, head, moment
    if late is not None:
        seam = boundary == late.stage
        comm = np.where(seam, np.where(forward, late.forward, late.backward), comm)
        leaves, leaves_at = (
            np.where(seam, _end_of(facts, src) + 1, before),
            np.where(seam, _AT_ONCE + key[src], moment),
        )
        ends, ends_at = (
            np.where(seam, _first_row_at(facts, key, src, time + ranks), before),
            np.where(seam, time + ranks - 1, moment),
        )
        posted = seam & forward & late.posted
        comes = np.where(posted, facts.program.order.start[facts.rank[dst]], head)
        comes_at = np.where(posted, _AT_ONCE + moment, np.where(seam, time + ranks, moment))
    gaps.add(
        facts.rank[src], leaves, leaves_at, turn, kind(Kind.SEND_F, Kind.SEND_B), stage[src], mb[src], comm
    )
    gaps.add(facts.rank[src], ends, ends_at, turn + 1, kind(Kind.WAIT_F, Kind.WAIT_B), stage[src], mb[src])
    gaps.add(
        facts.rank[dst], comes, comes_at, turn + 2, kind(Kind.RECV_F, Kind.RECV_B), stage[dst], mb[dst], comm
    )


def _first_row_at(facts: Facts, key: np.ndarray, rows: np.ndarray, moment: np.ndarray) -> np.ndarray:
    """On the rank of each row its first row with a key of `moment` or more; its end, if none has."""
    out = np.empty(len(rows), dtype=np.int64)
    for r in range(facts.program.ranks):
        mine = facts.rank[rows] == r
        a, b = facts.program.order.start[r : r + 2]
        out[mine] = a + np.searchsorted(key[a:b], moment[mine], side="left")
    return out


def _end_of(facts: Facts, rows: np.ndarray) -> np.ndarray:
    """The last row of the operation that each row belongs to: the second half of an overlap, else itself."""
    after = np.minimum(rows + 1, facts.n - 1)
    return np.where(facts.overlap_head[after] == rows, after, rows)


def _reductions(facts: Facts, gaps: _Gaps) -> None:
    program, fp = facts.program, facts.footprint
    end = program.order.start[1:]
    late = np.iinfo(np.int64).max
    weight = np.flatnonzero(((facts.kind == Kind.W) | (facts.kind == Kind.B)) & facts.placed)
    everywhere = np.arange(program.ranks)
    turn = len(program.ties)  # at the end: ties, then stages, then STEP
    for number, tie in enumerate(program.ties):
        ranks = tie_ranks(program, tie)
        if len(ranks) > 1 and any(fp.reduce[s] for s in tie.stages):
            gaps.add(
                ranks,
                end[ranks],
                late,
                number,
                Kind.REDUCE_TIE,
                -1,
                -1,
                tie.comm,
                program.names.index(tie.name),
            )
    tied = {s for tie in program.ties for s in tie.stages}
    for s, stage in enumerate(program.stages):
        if not fp.reduce[s]:
            continue
        rows = weight[facts.stage[weight] == s]
        if stage.replicated:
            gaps.add(everywhere, end, late, turn + s, Kind.REDUCE, s, -1)
        elif s in tied or not len(rows):
            gaps.add([stage.rank], end[[stage.rank]], late, turn + s, Kind.REDUCE, s, -1)
        else:
            gap = rows.max() + 1
            if gap < facts.n and facts.overlap_head[gap] == gap - 1:
                gap += 1
            gaps.add([stage.rank], [gap], -1, s, Kind.REDUCE, s, -1)
    if not (facts.kind == Kind.STEP).any():
        gaps.add(everywhere, end, late, turn + facts.S, Kind.STEP, -1, -1)


def tie_ranks(program: Program, tie) -> list[int]:
    """The ranks that hold a stage of the tie, ascending."""
    ranks: set[int] = set()
    for s in tie.stages:
        stage = program.stages[s]
        ranks |= set(range(program.ranks)) if stage.replicated else {stage.rank}
    return sorted(ranks)


def restrict(program: Program, layers: tuple[Layer, ...]) -> Program:
    """What the footprint of `layers` (the same chain, with other trainable bits) leaves of a fully trained program.

    Deletes and moves nothing; a B whose W half would be idle becomes an I.
    """
    changed = replace(program, layers=layers)
    facts, o = Facts(changed), program.order
    fp = facts.footprint
    kind = facts.kind
    stage, cls = np.clip(facts.stage, 0, max(facts.S - 1, 0)), facts.cls
    keep = facts.mb_ok.copy()

    def gate(kinds, answer):
        rows = np.flatnonzero(np.isin(kind, [int(k) for k in kinds]))
        keep[rows] &= answer(rows)

    at = lambda table: lambda rows: table[cls[rows], stage[rows]]
    gate((Kind.B, Kind.I), at(fp.back))
    gate((Kind.W,), at(fp.wwork))
    gate((Kind.SEND_B, Kind.WAIT_B), at(fp.cross))
    gate((Kind.RECV_B,), at(fp.back))  # cross(next) = back
    gate((Kind.REDUCE,), lambda rows: fp.reduce[stage[rows]])
    tied = {changed.names.index(t.name): any(fp.reduce[s] for s in t.stages) for t in changed.ties}
    gate(
        (Kind.REDUCE_TIE,),
        lambda rows: np.array([tied.get(int(x), True) for x in facts.name[rows]], dtype=bool),
    )
    passes = (kind == Kind.B) & keep
    passes[passes] = ~fp.wwork[cls[passes], stage[passes]]
    columns = {c: getattr(o, c)[keep] for c in _COLUMNS}
    columns["kind"] = np.where(passes, int(Kind.I), kind).astype(np.uint8)[keep]
    columns["launch"] = _without_lone_overlaps(columns["launch"], columns["kind"])
    kept_before = np.concatenate([[0], np.cumsum(keep)])
    return replace(
        changed, order=Order(kept_before[o.start].astype(np.int64), *(columns[c] for c in _COLUMNS))
    )


def _without_lone_overlaps(launch: np.ndarray, kind: np.ndarray) -> np.ndarray:
    launch = launch.copy()
    rows = np.flatnonzero((launch >= 0) & IS_COMPUTE[kind])
    numbers, counts = np.unique(launch[rows], return_counts=True)
    launch[rows[np.isin(launch[rows], numbers[counts == 1])]] = -1
    return launch
