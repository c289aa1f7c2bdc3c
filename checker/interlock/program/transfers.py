"""Transfers placed along one linearisation, freezings (spec/communication.md, "Inserted transfers")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from interlock.program.facts import IS_COMPUTE, Facts, mask
from interlock.program.ir import Layer, Order, Program, Tie
from interlock.program.kinds import Kind
from interlock.program.linearise import Times, compute_times

ABSENT = {"peer": -1, "launch": -1, "at": -1, "width": 0}
_AT_ONCE = np.iinfo(np.int64).min // 2  # before all else that is put into a gap
_AT_THE_END = np.iinfo(np.int64).max


@dataclass(frozen=True)
class LateBoundary:
    """Transfers across the right border of `stage` that leave as soon as their payload is there.

    Each direction has its own communicator. Waits come after the sender's operations of the consumer's time.
    `posted`: forward receives are posted at the start of their rank.
    """

    stage: int
    forward: int
    backward: int
    posted: bool = False


def insert(
    program: Program,
    times: Times | None = None,
    comm_of: Sequence[int] = (),
    late: LateBoundary | None = None,
) -> Program:
    """The program with its transfers (and reductions and STEP, if those are inserted) written.

    `program` is the fully trained one. `comm_of[s]`: the communicator of transfers across the right border of
    stage s; (): the default. Raises ValueError if the compute order is cyclic.
    """
    facts = Facts(program)
    times = times or compute_times(facts)
    if not times.complete:
        raise ValueError("the compute order is cyclic: transfers cannot be inserted")
    gaps = _Gaps()
    _place_transfers(facts, _moments(facts, times), gaps, comm_of, late)
    if program.reductions_inserted:
        _place_reductions(facts, gaps)
    return program.with_order(gaps.merge(program.order), inserted=False, reductions_inserted=False)


def _moments(facts: Facts, times: Times) -> np.ndarray:
    """Each row's place in the linearisation by (time, rank); a row without an event has its predecessor's."""
    time = times.time.copy()
    for r in range(facts.program.ranks):
        a, b = facts.program.order.start[r : r + 2]
        np.maximum.accumulate(time[a:b], out=time[a:b])
    moments: np.ndarray = (time + 1) * facts.program.ranks + facts.rank
    return moments


class _Gaps:
    """Operations to be put before row `gap` of a rank, in the order of (moment, turn)."""

    def __init__(self) -> None:
        self.parts: list[dict[str, np.ndarray]] = []

    def add(
        self,
        rank: ArrayLike,
        gap: ArrayLike,
        moment: ArrayLike,
        turn: ArrayLike,
        kind: ArrayLike,
        stage: ArrayLike = -1,
        mb: ArrayLike = -1,
        comm: ArrayLike = 0,
        name: ArrayLike = -1,
    ) -> None:
        """Arrays of the length of `rank`, or one value for all."""
        columns = {
            "rank": rank,
            "gap": gap,
            "moment": moment,
            "turn": turn,
            "kind": kind,
            "stage": stage,
            "mb": mb,
            "comm": comm,
            "name": name,
        }
        n = len(np.atleast_1d(rank))
        self.parts.append(
            {k: np.broadcast_to(np.asarray(column, dtype=np.int64), (n,)) for k, column in columns.items()}
        )

    def merge(self, order: Order) -> Order:
        if not self.parts:
            return order
        n, ranks = len(order), len(order.start) - 1
        new = {k: np.concatenate([part[k] for part in self.parts]) for k in self.parts[0]}
        added = len(new["gap"])
        own, old_first = np.zeros(n, dtype=np.int64), np.repeat([True, False], [n, added])
        rank = np.concatenate([np.repeat(np.arange(ranks), np.diff(order.start)), new["rank"]])
        gap = np.concatenate([np.arange(n), new["gap"]])
        moment, turn = (np.concatenate([own, new[k]]) for k in ("moment", "turn"))
        index = np.lexsort((turn, moment, old_first, gap, rank))
        columns = {}
        for name, old in order.columns().items():
            column = new[name] if name in new else np.full(added, ABSENT[name])
            columns[name] = np.concatenate([old, column.astype(old.dtype)])[index]
        start = np.searchsorted(rank[index], np.arange(ranks + 1))
        return Order(start.astype(np.int64), **columns)


class _Spots(NamedTuple):
    """Where operations are put: before which row, and the moment that orders them there."""

    gap: np.ndarray
    moment: np.ndarray

    def replaced(self, mask: np.ndarray, gap: np.ndarray, moment: np.ndarray) -> _Spots:
        return _Spots(np.where(mask, gap, self.gap), np.where(mask, moment, self.moment))


def _place_transfers(
    facts: Facts, key: np.ndarray, gaps: _Gaps, comm_of: Sequence[int], late: LateBoundary | None
) -> None:
    edges = facts.data
    away = facts.rank[edges.src] != facts.rank[edges.dst]
    src, dst = edges.src[away], edges.dst[away]
    forward = facts.kind[dst] == Kind.F
    boundary = np.where(forward, facts.stage[src], facts.stage[dst])  # the stage left of the boundary
    comm = np.array(list(comm_of) or [0] * max(facts.S, 1), dtype=np.int64)[boundary]
    head, moment = facts.overlap_head[dst], key[facts.overlap_head[dst]]
    # directly before the consumer; on the sender, before its first row of the consumer's time or later
    time, ranks = moment - moment % facts.program.ranks, facts.program.ranks
    sends = waits = _Spots(_first_row_at(facts, key, src, time), moment)
    receives = _Spots(head, moment)
    if late is not None:
        seam = boundary == late.stage
        comm = np.where(seam, np.where(forward, late.forward, late.backward), comm)
        sends = sends.replaced(seam, _end_of(facts, src) + 1, _AT_ONCE + key[src])
        waits = waits.replaced(seam, _first_row_at(facts, key, src, time + ranks), time + ranks - 1)
        receives = receives.replaced(seam, head, time + ranks)
        if late.posted:
            first = facts.program.order.start[facts.rank[dst]]
            receives = receives.replaced(seam & forward, first, _AT_ONCE + moment)
    turn = np.where(forward, 0, 3)
    for spots, rows, kinds, turns, comms in (
        (sends, src, (Kind.SEND_F, Kind.SEND_B), turn, comm),
        (waits, src, (Kind.WAIT_F, Kind.WAIT_B), turn + 1, 0),
        (receives, dst, (Kind.RECV_F, Kind.RECV_B), turn + 2, comm),
    ):
        kind = np.where(forward, *(int(k) for k in kinds))
        gaps.add(facts.rank[rows], *spots, turns, kind, facts.stage[rows], facts.mb[rows], comms)


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


def _place_reductions(facts: Facts, gaps: _Gaps) -> None:
    """A stage's after its last weight gradient, of several ranks at the end: ties, then stages, then STEP."""
    program, reduced = facts.program, facts.footprint.reduce
    end = program.order.start[1:]
    everywhere = np.arange(program.ranks)
    for number, tie in enumerate(program.ties):
        ranks = tie_ranks(program, tie)
        if len(ranks) > 1 and any(reduced[s] for s in tie.stages):
            name = program.names.index(tie.name)
            gaps.add(ranks, end[ranks], _AT_THE_END, number, Kind.REDUCE_TIE, comm=tie.comm, name=name)
    weight = np.flatnonzero(((facts.kind == Kind.W) | (facts.kind == Kind.B)) & facts.placed)
    tied = {s for tie in program.ties for s in tie.stages}
    turn = len(program.ties)
    for s in np.flatnonzero(reduced).tolist():
        stage, rows = program.stages[s], weight[facts.stage[weight] == s]
        if stage.rank is None:
            gaps.add(everywhere, end, _AT_THE_END, turn + s, Kind.REDUCE, s)
        elif s in tied or not len(rows):
            gaps.add([stage.rank], end[[stage.rank]], _AT_THE_END, turn + s, Kind.REDUCE, s)
        else:
            gaps.add([stage.rank], _end_of(facts, rows[-1:]) + 1, -1, s, Kind.REDUCE, s)
    if not (facts.kind == Kind.STEP).any():
        gaps.add(everywhere, end, _AT_THE_END, turn + facts.S, Kind.STEP)


def tie_ranks(program: Program, tie: Tie) -> list[int]:
    """The ranks that hold a stage of the tie, ascending."""
    ranks: set[int] = set()
    for s in tie.stages:
        rank = program.stages[s].rank
        ranks |= set(range(program.ranks)) if rank is None else {rank}
    return sorted(ranks)


def restrict(program: Program, layers: tuple[Layer, ...]) -> Program:
    """What the footprint of `layers` (the chain with other trainable bits) leaves of a fully trained program.

    Deletes and moves nothing; a B whose W half would be idle becomes an I.
    """
    changed = replace(program, layers=layers)
    facts, order = Facts(changed), changed.order
    keep = facts.mb_ok & _has_work(facts)
    whole = np.flatnonzero((order.kind == Kind.B) & keep)
    idle = whole[~facts.footprint.wwork[facts.cls[whole], facts.stage[whole]]]
    kind = order.kind.copy()
    kind[idle] = int(Kind.I)
    launch = order.launch.copy()
    launch[~keep] = -1
    return replace(
        changed, order=replace(order, kind=kind, launch=_drop_lone_halves(launch, kind)).select(keep)
    )


def _has_work(facts: Facts) -> np.ndarray:
    """Whether the footprint has the work of each row (R-FOOT); True for what is no backward work."""
    fp, program = facts.footprint, facts.program
    stage = np.clip(facts.stage, 0, max(facts.S - 1, 0))
    has_work = np.ones(facts.n, dtype=bool)
    for kinds, table in (
        ((Kind.B, Kind.I), fp.back),
        ((Kind.W,), fp.wwork),
        ((Kind.SEND_B, Kind.WAIT_B), fp.cross),
        ((Kind.RECV_B,), fp.back),  # cross(next) = back
    ):
        rows = np.flatnonzero(mask(kinds)[facts.kind])
        has_work[rows] = table[facts.cls[rows], stage[rows]]
    rows = np.flatnonzero(facts.kind == Kind.REDUCE)
    has_work[rows] = fp.reduce[stage[rows]]
    tied = {program.names.index(tie.name): any(fp.reduce[s] for s in tie.stages) for tie in program.ties}
    rows = np.flatnonzero(facts.kind == Kind.REDUCE_TIE)
    has_work[rows] = [tied.get(name, True) for name in facts.name[rows].tolist()]
    return has_work


def _drop_lone_halves(launch: np.ndarray, kind: np.ndarray) -> np.ndarray:
    """Launch numbers without those of overlaps that have lost a half."""
    rows = np.flatnonzero((launch >= 0) & IS_COMPUTE[kind])
    numbers, counts = np.unique(launch[rows], return_counts=True)
    launch[rows[np.isin(launch[rows], numbers[counts == 1])]] = -1
    return launch
