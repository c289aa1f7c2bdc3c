"""Longest paths of a program whose transfers are inserted: edges between ranks that take their time and wait for nothing.

Every rank does its rows in order; a row needs at most one row of another rank, and its input comes `lag` later. Two ways to the same numbers:
row by row for few ranks, and for many ranks by a wave that advances every rank at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..program.facts import Facts
from ..program.ir import Program
from .durations import Durations

MANY_RANKS = 20                                  # from here on the wave is faster (benchmarks/simulate.py)


class Cyclic(Exception):
    """The order waits in a circle (IL307, IL402): it has no times."""


@dataclass(frozen=True)
class Needs:
    """need[i]: the row of another rank whose end row i waits for, -1: none; raw[i]: the same, where an overlap's end is that of the half that feeds."""

    program: Program
    start: np.ndarray                            # first row of each rank, and the end
    need: np.ndarray
    raw: np.ndarray
    halves: np.ndarray                           # second rows of overlaps
    stage: np.ndarray                            # of the payload that crosses, and its microbatch, where need >= 0
    mb: np.ndarray


def needs(facts: Facts) -> Needs:
    """Asks that the program is one that `check` finds valid but for cycles between ranks, without collectives in its order."""
    edges, rank = facts.data, facts.rank
    src_rank, dst_rank = rank[edges.src], rank[edges.dst]
    away = np.flatnonzero(src_rank != dst_rank)
    src, dst = edges.src[away], edges.dst[away]
    halves = np.flatnonzero(facts.overlap_head[1:] != np.arange(1, facts.n)) + 1 if facts.n else np.empty(0, dtype=np.int64)
    need = np.full(facts.n, -1, dtype=np.int64)
    need[dst] = src
    raw = need
    if len(halves):                              # the event of an overlap ends with its second row
        ends = np.arange(facts.n)
        ends[halves - 1] = halves
        need = np.where(need >= 0, ends[need], -1)
    left = np.where(edges.rule[away] == 1, facts.stage[src], facts.stage[dst])
    stage, mb = np.zeros(facts.n, dtype=np.int64), np.zeros(facts.n, dtype=np.int64)
    stage[dst], mb[dst] = left, facts.mb[dst]
    return Needs(facts.program, facts.program.order.start.astype(np.int64), need, raw, halves, stage, mb)


def lags(facts: Facts, found: Needs, durations: Durations) -> np.ndarray | None:
    """ns that the input of each row travels, None if nothing takes any time."""
    rows = np.flatnonzero(found.need >= 0)
    time = durations.lag(found.stage[rows], found.mb[rows], facts.rank[found.need[rows]], facts.rank[rows])
    if not time.any():
        return None
    lag = np.zeros(len(found.need), dtype=np.int64)
    lag[rows] = time
    return lag


def ends(found: Needs, row: np.ndarray, lag: np.ndarray | None = None, *, release: np.ndarray | None = None, wave: bool | None = None) -> np.ndarray:
    """When each row ends, from the durations of the rows. release[r]: rank r does nothing before. Raises Cyclic.

    Linear in rows. `wave`: which of the two ways; None: by the number of ranks.
    """
    if len(found.halves):                        # the first half waits for its input, the second takes the time
        row = row.copy()
        row[found.halves - 1] = 0
    ranks = len(found.start) - 1
    out = (_wave if (ranks >= MANY_RANKS if wave is None else wave) else _by_rows)(found, row, lag, release)
    if len(found.halves):
        out[found.halves - 1] = out[found.halves]
    return out


def _by_rows(found: Needs, row: np.ndarray, lag: np.ndarray | None, release) -> np.ndarray:
    """A rank goes on until it needs a row that has not ended; that row's rank wakes it."""
    n, ranks = len(row), len(found.start) - 1
    need, cost = found.need.tolist(), row.tolist()
    travel = lag.tolist() if lag is not None else [0] * n
    position, last = found.start[:-1].tolist(), found.start[1:].tolist()
    clock = release.tolist() if release is not None else [0] * ranks
    time = [-1] * n                              # below -1: rank -2 - time[i] sleeps until row i ends
    more: dict[int, list[int]] = {}              # further sleepers
    ready = list(range(ranks))[::-1]
    while ready:
        r = ready.pop()
        now = clock[r]
        for i in range(position[r], last[r]):
            other = need[i]
            if other >= 0:
                came = time[other]
                if came < 0:
                    if came == -1:
                        time[other] = -2 - r
                    else:
                        more.setdefault(other, []).append(r)
                    position[r] = i
                    break
                came += travel[i]
                if came > now:
                    now = came
            now += cost[i]
            sleeper = time[i]
            time[i] = now
            if sleeper != -1:
                ready.append(-2 - sleeper)
                if i in more:
                    ready += more.pop(i)
        else:
            position[r] = last[r]
        clock[r] = now
    if position != last:
        raise Cyclic
    return np.array(time, dtype=np.int64)


def _wave(found: Needs, row: np.ndarray, lag: np.ndarray | None, release) -> np.ndarray:
    """One row of every rank that can go on, again and again."""
    n = len(row)
    time = np.full(n + 1, -1, dtype=np.int64)
    time[n] = 0                                  # the end of a need that is none
    need = np.where(found.need >= 0, found.need, n)
    travel = lag if lag is not None else None
    going = np.flatnonzero(np.diff(found.start))
    at, last = found.start[:-1][going], found.start[1:][going]
    clock = (release if release is not None else np.zeros(len(found.start) - 1, dtype=np.int64))[going].astype(np.int64)
    while len(at):
        came = time[need[at]]
        ok = came >= 0
        if not ok.all():
            go = np.flatnonzero(ok)
            if not len(go):
                raise Cyclic
            rows = at[go]
            came = came[go]
            if travel is not None:
                came = came + travel[rows]
            now = np.maximum(clock[go], came)
            now += row[rows]
            clock[go] = now
            at[go] += 1
            time[rows] = now
        else:
            if travel is not None:
                came += travel[at]
            np.maximum(clock, came, out=clock)
            clock += row[at]
            time[at] = clock
            at += 1
        over = at == last
        if over.any():
            keep = ~over
            at, last, clock = at[keep], last[keep], clock[keep]
    return time[:n]


def tails(found: Needs, row: np.ndarray, lag: np.ndarray | None = None, **how) -> np.ndarray:
    """The longest path from the start of each row to the end of the step, its own duration included: `ends` of the program run backwards.

    Asks that a row feeds one row of another rank at most, which R-DEP-1 to R-DEP-4 imply.
    """
    n = len(row)
    mirror = lambda rows: n - 1 - rows
    users = np.flatnonzero(found.raw >= 0)
    begins = np.arange(n)
    begins[found.halves] = found.halves - 1      # backwards, an overlap ends with its first row
    need, travel = np.full(n, -1, dtype=np.int64), None
    need[mirror(found.raw[users])] = mirror(begins[users])
    if lag is not None:
        travel = np.zeros(n, dtype=np.int64)
        travel[mirror(found.raw[users])] = lag[users]
    reverse = Needs(found.program, n - found.start[::-1], need, need, mirror(found.halves - 1)[::-1], found.stage, found.mb)
    return ends(reverse, row[::-1], travel, **how)[::-1]
