"""The static rules of operations and reductions (spec/dependency.md, spec/footprint.md).

Each function is one rule: it yields (code, rows) for each error, `rows` holding every row the error touches.
"""

from __future__ import annotations

from collections.abc import Iterator

from . import exchange
from .footprint import BACK, CROSS, ON, WWORK
from .listing import at_home, data, gradient_row, in_range
from .memory import overflows
from .wellformed import (
    COMPUTE,
    LOSS,
    PIPELINE,
    RECV,
    RECV_B,
    RECV_F,
    REDUCE,
    REDUCE_ALL,
    REDUCE_DATA,
    REDUCE_TIE,
    SEND,
    SEND_B,
    SEND_F,
    STEP,
    WAIT,
    WAIT_B,
    WAIT_F,
    WITH_MICROBATCH,
    WITH_STAGE,
    ZERO,
    B,
    F,
    I,
    View,
    W,
)

Faults = Iterator[tuple[str, tuple[int, ...]]]


def faults(v: View, model: str, *, timed: bool = False) -> Faults:
    """Every error of a static rule. Cycles (IL307, IL402) are not static: see waits.py.

    `timed`: IL301 is left out, since times that go forward along data and program order rule it out (judge.py, valid).
    """
    for rule in (stage_numbers, microbatches, places, complete, once, one_backward, backward_complete, excluded, *(() if timed else (listed_after,)),
                 reductions, replicated_reductions, after_works, ties_first, step_last, sends_and_receives, cleared, overflows):
        yield from rule(v)
    yield from exchange.faults(v, model)


def _by_rank(v: View, *kinds: int, column: list[int] | None = None) -> dict:
    """Rows of these kinds, ascending, by rank, or by (rank, value in the column)."""
    rows: dict = {}
    for i in sorted(i for k in kinds for i in v.rows[k]):
        rows.setdefault(v.rank[i] if column is None else (v.rank[i], column[i]), []).append(i)
    return rows


def _inversion(early: list[int], late: list[int]) -> tuple[int, ...]:
    """The rows at fault where every one of `early` must stand before every one of `late` (both ascending); () if they do."""
    if not early or not late or early[-1] < late[0]:
        return ()
    return (*(i for i in early if i > late[0]), *(i for i in late if i < early[-1]))


def stage_numbers(v: View) -> Faults:
    """IL314, R-ONCE: 0 <= stage < number of stages."""
    stage, S = v.stage, v.S
    for k in WITH_STAGE:
        for i in v.rows[k]:
            if not 0 <= stage[i] < S:
                yield "IL314", (i,)


def microbatches(v: View) -> Faults:
    """IL306, R-MB: every microbatch index lies in 0 .. M-1, and m's path contains the stage that runs it."""
    stage, mb, S, M, cls, flags = v.stage, v.mb, v.S, v.M, v.cls, v.flags
    for k in WITH_MICROBATCH:
        for i in v.rows[k]:
            m, s = mb[i], stage[i]
            if not 0 <= m < M or (0 <= s < S and not flags[cls[m]][s]):
                yield "IL306", (i,)


def places(v: View) -> Faults:
    """IL304, R-ONCE: an operation is on the rank of its stage."""
    for k in COMPUTE | PIPELINE:
        for i in v.astray.get(k, ()) if k in COMPUTE else v.rows[k]:
            if in_range(v, i) and not at_home(v, i):
                yield "IL304", (i,)
    for i in v.rows[REDUCE]:
        if 0 <= v.stage[i] < v.S and v.home[v.stage[i]] != v.rank[i]:
            yield "IL304", (i,)


def complete(v: View) -> Faults:
    """IL302, R-ONCE: F(s, m) is listed for every s on path(m); LOSS for every microbatch or none, on the last stage of path(m)."""
    if v.fragment:
        return
    M, cls, flags = v.M, v.cls, v.flags
    listed = sum(1 for key in v.seen[F] if type(key) is int and flags[cls[key % M]][key // M] & ON)
    lengths = [len(p.stages) for p in v.paths]
    if listed < sum(lengths[c] for c in cls):
        yield "IL302", ()
    if v.seen[LOSS]:
        last = {key for key in v.seen[LOSS] if type(key) is int and v.next[cls[key % M]][key // M] == -1}
        if len(last) < sum(1 for c in cls if lengths[c]):
            yield "IL302", ()
        for i in v.rows[LOSS]:
            if in_range(v, i) and v.stage[i] * M + v.mb[i] not in last:
                yield "IL302", (i,)


def once(v: View) -> Faults:
    """IL303, R-ONCE: no two rows have the same kind, stage and microbatch, for F, B, I, W, LOSS."""
    groups: dict = {}
    for i in v.repeated:
        key = v.stage[i] * v.M + v.mb[i] if in_range(v, i) else (v.stage[i], v.mb[i])
        groups.setdefault((v.kind[i], key), [v.seen[v.kind[i]][key]]).append(i)
    for rows in groups.values():
        yield "IL303", tuple(rows)


def one_backward(v: View) -> Faults:
    """IL305, R-ONCE: not both B and one of I, W; W(s, m) asks for I(s, m) (not in a fragment)."""
    b, i, w = v.seen[B], v.seen[I], v.seen[W]
    for halves in (i, w):
        for key in b.keys() & halves.keys() if b else ():
            yield "IL305", (b[key], halves[key])
    if not v.fragment:
        for key, row in w.items():
            if key not in i and key not in b:
                yield "IL305", (row,)


def backward_complete(v: View) -> Faults:
    """IL601, R-FOOT-1: where back(s, m), B is listed, or I, and with I also W if wwork(s, m)."""
    if v.fragment:
        return
    b, i, w = v.seen[B], v.seen[I], v.seen[W]
    M, cls, flags = v.M, v.cls, v.flags
    needed = sum(v.paths[c].backward for c in cls)
    listed = sum(1 for key in (b.keys() | i.keys() if b and i else b or i) if type(key) is int and flags[cls[key % M]][key // M] & BACK)
    if listed < needed:
        yield "IL601", ()
    for key, row in i.items():
        if key not in w and key not in b and type(key) is int and flags[cls[key % M]][key // M] & WWORK:
            yield "IL601", (row,)


def excluded(v: View) -> Faults:
    """IL602, R-FOOT-2: B, I, W without back(s, m), and transfers and waits of a gradient that does not cross."""
    if v.fragment or v.placeholders:
        return
    for kinds, flag, upward in (((B, I, W), BACK, False), ((SEND_B, WAIT_B), CROSS, False), ((RECV_B,), CROSS, True)):
        for k in kinds:
            for i in v.rows[k]:
                if in_range(v, i):
                    c, s = v.cls[v.mb[i]], v.stage[i]
                    s = v.next[c][s] if upward else s
                    if s < 0 or not v.flags[c][s] & flag:
                        yield "IL602", (i,)


def listed_after(v: View) -> Faults:
    """IL301, R-DEP-1 to 4: if a -> b and both are on one rank, a is listed before b, and they are not one overlap."""
    rank, launch = v.rank, v.launch
    for a, b in data(v):
        if rank[a] == rank[b] and (a > b or launch[a] == launch[b] >= 0):
            yield "IL301", (a, b)


def reductions(v: View) -> Faults:
    """IL308, R-DEP-5: one REDUCE of each Sharded stage that trains; one REDUCE_TIE of each tie that trains on each of its ranks."""
    for k in (REDUCE_DATA, REDUCE_TIE):
        for rows in _by_rank(v, k, column=v.name).values():
            if len(rows) > 1:
                yield "IL308", tuple(rows)
    if v.fragment or v.reductions_inserted:
        return
    listed: dict = {}
    for i in v.rows[REDUCE]:
        listed.setdefault(v.stage[i], []).append(i)
    for s in range(v.S):
        rows = listed.get(s, [])
        if v.home[s] >= 0 and (len(rows) > 1 or v.reduces[s] and [v.rank[i] for i in rows] != [v.home[s]]):
            yield "IL308", tuple(rows)
    for i in v.rows[REDUCE] + v.rows[REDUCE_ALL]:
        if 0 <= v.stage[i] < v.S and not v.reduces[v.stage[i]] and not v.placeholders:
            yield "IL308", (i,)
    for (_, s), rows in _by_rank(v, REDUCE_ALL, column=v.stage).items():
        if len(rows) > 1 and not v.reduces[s]:
            yield "IL308", tuple(rows)
    tied = _by_rank(v, REDUCE_TIE, column=v.name)
    for name, stages, comm in v.ties:
        ranks = range(v.P) if any(v.home[s] < 0 for s in stages) else {v.home[s] for s in stages}
        if len(ranks) > 1 and any(v.reduces[s] for s in stages):
            for r in ranks:
                rows = tied.get((r, name), [])
                if [v.comm[i] for i in rows] != [comm]:
                    yield "IL308", tuple(rows)
                    if not rows:
                        break


def replicated_reductions(v: View) -> Faults:
    """IL605, R-RANK: a Replicated stage with a trainable layer has exactly one REDUCE on every rank."""
    if v.fragment or v.reductions_inserted:
        return
    listed = _by_rank(v, REDUCE_ALL, column=v.stage)
    for s in range(v.S):
        if v.home[s] < 0 and v.reduces[s]:
            if any((r, s) not in listed for r in range(v.P)):
                yield "IL605", ()
    for (_, s), rows in listed.items():
        if len(rows) > 1 and v.reduces[s]:
            yield "IL605", tuple(rows)


def _tied_on_rank(v: View) -> Iterator[tuple[int, list[int], list[int]]]:
    """(rank, rows of REDUCE_TIE of one name there, stages of the tie declared under that name of which the rank lists work or a reduction)."""
    stages_of = {name: stages for name, stages, _ in v.ties}
    tied = _by_rank(v, REDUCE_TIE, column=v.name)
    here: dict = {}
    for i in (i for k in (W, B, REDUCE, REDUCE_ALL) for i in v.rows[k]) if tied else ():
        here.setdefault(v.rank[i], set()).add(v.stage[i])
    for (r, name), rows in tied.items():
        yield r, rows, [s for s in stages_of.get(name, frozenset()) & here.get(r, set()) if v.home[s] in (r, -1)]


def after_works(v: View) -> Faults:
    """IL309, R-DEP-5: REDUCE(s) stands after every W and B of s on its rank, REDUCE_TIE after those of the tied stages."""
    closers = _by_rank(v, REDUCE, REDUCE_ALL, column=v.stage)
    for r, rows, stages in _tied_on_rank(v):
        for s in stages:
            closers.setdefault((r, s), []).extend(rows)
    for rows in closers.values():
        rows.sort()
    late: dict = {}
    for i in sorted(v.rows[W] + v.rows[B]) if closers else ():
        rows = closers.get((v.rank[i], v.stage[i]))
        if rows and rows[0] < i:
            late.setdefault((v.rank[i], v.stage[i]), []).append(i)
    for key, works in late.items():
        yield "IL309", _inversion(works, closers[key])


def ties_first(v: View) -> Faults:
    """IL310, R-DEP-5: REDUCE_TIE(x) stands before REDUCE_DATA(x) and before REDUCE(s) of every stage of the tie x."""
    named = _by_rank(v, REDUCE_DATA, column=v.name)
    of_stage = _by_rank(v, REDUCE, REDUCE_ALL, column=v.stage)
    for r, rows, stages in _tied_on_rank(v):
        later = sorted([*named.get((r, v.name[rows[0]]), ()), *(i for s in stages for i in of_stage.get((r, s), ()))])
        if at_fault := _inversion(rows, later):
            yield "IL310", at_fault


def step_last(v: View) -> Faults:
    """IL311, R-DEP-5: STEP on every rank or none (not in a fragment), at most once a rank, after every gradient work and reduction."""
    steps = _by_rank(v, STEP)
    if steps and len(steps) < v.P and not v.fragment:
        yield "IL311", tuple(v.rows[STEP])
    for rows in steps.values():
        if len(rows) > 1:
            yield "IL311", tuple(rows)
    if steps:
        for r, works in _by_rank(v, W, B, I, REDUCE, REDUCE_ALL, REDUCE_DATA, REDUCE_TIE).items():
            if at_fault := _inversion(works, steps.get(r, [])):
                yield "IL311", at_fault


def sends_and_receives(v: View) -> Faults:
    """IL312, R-DEP-7: a send follows its producer, a receive precedes its consumers, a wait follows its send; all on one rank."""
    if v.inserted:
        return
    consumers = lambda key: (gradient_row(v, key), v.first[W].get(key))
    beside = {SEND_F: lambda key: (v.first[F].get(key),), SEND_B: lambda key: (gradient_row(v, key),),
              RECV_F: lambda key: (v.first[F].get(key),), RECV_B: consumers}
    for k, others in beside.items():
        for i in v.rows[k]:
            if at_home(v, i):
                for other in others(v.stage[i] * v.M + v.mb[i]):
                    if other is not None and (i < other) == (k in (SEND_F, SEND_B)):
                        yield "IL312", (i, other)
    for wait, sent in ((WAIT_F, (SEND_F,)), (WAIT_B, (SEND_B,)), (WAIT, (SEND, RECV))):
        identity = v.name if wait == WAIT else list(zip(v.stage, v.mb)) if v.rows[wait] else []
        earliest = {(v.rank[i], identity[i]): i for i in sorted((i for k in sent for i in v.rows[k]), reverse=True)} if v.rows[wait] else {}
        for i in v.rows[wait]:
            send = earliest.get((v.rank[i], identity[i]))
            if send is None or send > i:
                yield "IL312", (i,) if send is None else (i, send)


def cleared(v: View) -> Faults:
    """IL313, R-DEP-5: ZERO does not stand after a W, B or REDUCE with the STEP (or, without STEP, the end) still to come."""
    steps, zeros = _by_rank(v, STEP), _by_rank(v, ZERO)
    works = _by_rank(v, W, B, REDUCE, REDUCE_ALL) if zeros else {}
    for r, rows in zeros.items():
        rows = [z for z in rows if r not in steps or z < steps[r][-1]]
        if rows and r in works and works[r][0] < rows[-1]:
            yield "IL313", _inversion(rows, works[r])
