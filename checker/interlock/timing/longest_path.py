"""Longest paths of a program whose transfers are inserted: edges between ranks that take their time and wait for nothing.

Every rank does its rows in order; a row needs at most one row of another rank, and its input comes `lag` later. Two ways to the same numbers:
row by row for few ranks, and for many ranks by a wave that advances every rank at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from interlock.program.facts import Facts
from interlock.program.ir import Kind
from interlock.timing.durations import Durations
from interlock.timing.leaps import leap
from interlock.timing.rows import WINDOW, Cyclic, by_rows

MANY_RANKS = 20  # from here on the wave is faster (benchmarks/simulate.py)
LONG = (
    64  # a run repeats itself after some rounds of all ranks; what has fewer rows than that is not searched
)
LOOK = 64  # waves until it is looked for a period, at first


@dataclass(frozen=True)
class Needs:
    """need[i]: the row of another rank whose end row i waits for, -1: none; raw[i]: the same, where an overlap's end is that of the half that feeds."""

    start: np.ndarray  # first row of each rank, and the end
    need: np.ndarray
    raw: np.ndarray
    halves: np.ndarray  # second rows of overlaps
    facts: Facts | None = None  # of the program; None where the rows are no program's


def needs(facts: Facts) -> Needs:
    """Asks that the program is one that `check` finds valid but for cycles between ranks, without collectives in its order."""
    need = np.full(facts.n, -1, dtype=np.int64)
    fp = facts.footprint
    if facts.n and facts.S and facts.M:
        for table, beside, crossing in (
            (facts.first_F, fp.prev, fp.prev >= 0),
            (facts.first_X, fp.next, np.take_along_axis(fp.cross, fp.next, axis=1) & (fp.next >= 0)),
        ):
            dst, src = _beside(facts, table, beside, crossing)
            need[dst] = src
    raw = need
    halves = facts.second_halves
    if len(halves):  # the event of an overlap ends with its second row
        ends = np.arange(facts.n)
        ends[halves - 1] = halves
        need = np.where(need >= 0, ends[need], -1)
    return Needs(facts.program.order.start.astype(np.int64), need, raw, halves, facts)


def _beside(
    facts: Facts, table: np.ndarray, beside: np.ndarray, asked: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of `table` (stage, microbatch), and those of the stage `beside` theirs that lie on another rank. beside, asked: [classes, stages]."""
    rows = table.reshape(facts.S, facts.M)
    if len(beside) == 1 and not facts.is_replicated.any():  # every microbatch goes the same way
        rank = facts.rank_at(np.arange(facts.S), np.zeros(facts.S, dtype=np.int64))
        stages = np.flatnonzero(asked[0] & (rank != rank[beside[0]]))
        dst, src = rows[stages].reshape(-1), rows[beside[0, stages]].reshape(-1)
        away = (dst >= 0) & (src >= 0)
    else:
        of = facts.footprint.of
        stages, mbs = np.nonzero(asked[of].T)
        dst, src = rows[stages, mbs], rows[beside[of[mbs], stages], mbs]
        away = (facts.rank.take(dst) != facts.rank.take(src)) & (dst >= 0) & (src >= 0)
    return (dst, src) if away.all() else (dst[away], src[away])


def payload(facts: Facts, found: Needs, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(stage, microbatch) of the output that crosses, or whose gradient does, to rows that need one: the stage on its left."""
    return np.where(facts.kind[rows] == Kind.F, facts.stage[found.raw[rows]], facts.stage[rows]), facts.mb[
        rows
    ]


def lags(facts: Facts, found: Needs, durations: Durations) -> np.ndarray | None:
    """ns that the input of each row travels, None if nothing takes any time."""
    if durations.every_lag is not None:
        return np.where(found.need >= 0, durations.every_lag, 0) if durations.every_lag else None
    rows = np.flatnonzero(found.need >= 0)
    time = durations.lag(*payload(facts, found, rows), facts.rank[found.need[rows]], facts.rank[rows])
    if not time.any():
        return None
    lag = np.zeros(len(found.need), dtype=np.int64)
    lag[rows] = time
    return lag


def ends(
    found: Needs,
    row: np.ndarray,
    lag: np.ndarray | None = None,
    *,
    release: np.ndarray | None = None,
    wave: bool | None = None,
) -> np.ndarray:
    """When each row ends, from the durations of the rows. release[r]: rank r does nothing before. Raises Cyclic.

    Linear in rows. `wave`: which of the two ways; None: by the number of ranks.
    """
    if len(found.halves):  # the first half waits for its input, the second takes the time
        row = row.copy()
        row[found.halves - 1] = 0
    ranks = len(found.start) - 1
    out = (_wave if (ranks >= MANY_RANKS if wave is None else wave) else by_rows)(found, row, lag, release)
    if len(found.halves):
        out[found.halves - 1] = out[found.halves]
    return out


def _wave(found: Needs, row: np.ndarray, lag: np.ndarray | None, release) -> np.ndarray:
    """One row of every rank that can go on, again and again; leaps where that repeats itself (leaps.py)."""
    n, first, last = len(row), found.start[:-1], found.start[1:]
    time = np.full(n + 1, -1, dtype=np.int64)
    time[n] = 0  # the end of a need that is none
    need = np.where(found.need >= 0, found.need, n)
    place, clock = (
        first.copy(),
        np.zeros(len(first), dtype=np.int64) if release is None else release.astype(np.int64),
    )
    looks = found.facts is not None and n >= LONG * len(first) ** 2
    waves, look = 0, LOOK if looks else n + 1
    while (going := np.flatnonzero(place < last)).size:
        at, now = place[going], clock[going]
        for _ in range(min(look - waves, int((last[going] - at).min()))):
            waves += 1
            came = time.take(need.take(at))
            if came.min() >= 0:
                if lag is not None:
                    came += lag.take(at)
                np.maximum(now, came, out=now)
                now += row.take(at)
                time[at] = now
                at += 1
            else:
                go = np.flatnonzero(came >= 0)
                if not len(go):
                    raise Cyclic
                rows, came = at.take(go), came.take(go)
                if lag is not None:
                    came += lag.take(rows)
                np.maximum(now.take(go), came, out=came)
                came += row.take(rows)
                time[rows] = now[go] = came
                at[go] = rows + 1
        place[going], clock[going] = at, now
        if waves == look:
            look += max(LOOK, waves // 4)
            ahead = leap(found, row, lag, time, place, WINDOW)
            if ahead is not None:
                place, clock = ahead, time[ahead - 1]
    return time[:n]


def tails(found: Needs, row: np.ndarray, lag: np.ndarray | None = None, **how) -> np.ndarray:
    """The longest path from the start of each row to the end of the step, its own duration included: `ends` of the program run backwards.

    Asks that a row feeds one row of another rank at most, which R-DEP-1 to R-DEP-4 imply.
    """
    n = len(row)
    mirror = lambda rows: n - 1 - rows
    users = np.flatnonzero(found.raw >= 0)
    begins = np.arange(n)
    begins[found.halves] = found.halves - 1  # backwards, an overlap ends with its first row
    need, travel = np.full(n, -1, dtype=np.int64), None
    need[mirror(found.raw[users])] = mirror(begins[users])
    if lag is not None:
        travel = np.zeros(n, dtype=np.int64)
        travel[mirror(found.raw[users])] = lag[users]
    reverse = Needs(n - found.start[::-1], need, need, mirror(found.halves - 1)[::-1])
    return ends(reverse, row[::-1], travel, **how)[::-1]
