"""Longest paths row by row, for few ranks: a window of rows on each, then a leap (leaps.py) if what was done in it repeats itself."""

from __future__ import annotations

import numpy as np

from interlock.timing.leaps import leap, span

WINDOW = 256  # rows of each rank between two looks


class Cyclic(Exception):
    """The order waits in a circle (IL307, IL402): it has no times."""


def by_rows(found, row: np.ndarray, lag: np.ndarray | None, release: np.ndarray | None) -> np.ndarray:
    """The end of each row; `found` is a compute.Needs. Raises Cyclic. Linear in rows."""
    n, begin, last = len(row), found.start[:-1], found.start[1:]
    time = np.full(n + 1, -1, dtype=np.int64)
    at = begin.copy()
    clock = np.zeros(len(at), dtype=np.int64) if release is None else release.astype(np.int64)
    lag = np.zeros(n, dtype=np.int64) if lag is None else lag
    fails, look = 0, 2  # a look in vain doubles the way to the next one
    while (at < last).any():
        done = _window(found.need, row, lag, time, at, np.minimum(at + WINDOW, last), clock)
        if (done == at).all():
            raise Cyclic
        at = done
        look -= 1
        if not look and found.facts is not None:
            ahead = leap(found, row, lag, time, at, WINDOW)
            fails = fails + 1 if ahead is None else 0
            look = 1 << fails
            if ahead is not None:
                at = ahead
                clock = np.where(at > begin, time[at - 1], clock)
    return time[:n]


def _window(
    need: np.ndarray,
    row: np.ndarray,
    lag: np.ndarray,
    time: np.ndarray,
    at: np.ndarray,
    upto: np.ndarray,
    clock: np.ndarray,
) -> np.ndarray:
    """Every rank as far as it comes, from row `at` and not beyond `upto`; writes `time` and `clock`. Returns where each stands."""
    ranks = len(at)
    base = np.concatenate([[0], np.cumsum(upto - at)])
    rows = span(at, upto)
    other = need[rows]
    came = np.where(other >= 0, time[other] + lag[rows], 0)  # of what is there already
    open_ = (other >= 0) & (time[other] < 0)
    inside = np.flatnonzero(open_)
    home = np.searchsorted(at, other[inside], side="right") - 1  # ranks that own what is needed
    within = np.full(len(rows), -1, dtype=np.int64)
    within[inside] = np.where(other[inside] < upto[home], other[inside] - at[home] + base[home], len(rows))
    wait, came, takes, travel = within.tolist(), came.tolist(), row[rows].tolist(), lag[rows].tolist()
    ends = [-1] * (len(rows) + 1)  # below -1: rank -2 - ends[i] sleeps until row i ends
    more: dict[int, list[int]] = {}  # further sleepers
    now_of, position, stop = clock.tolist(), base[:-1].tolist(), base[1:].tolist()
    ready = list(range(ranks))[::-1]
    while ready:
        r = ready.pop()
        now = now_of[r]
        for i in range(position[r], stop[r]):
            other = wait[i]
            if other < 0:
                arrives = came[i]
            else:
                arrives = ends[other]
                if arrives < 0:
                    if arrives == -1:
                        ends[other] = -2 - r
                    else:
                        more.setdefault(other, []).append(r)
                    position[r] = i
                    break
                arrives += travel[i]
            now = max(now, arrives)
            now += takes[i]
            sleeper = ends[i]
            ends[i] = now
            if sleeper != -1:
                ready.append(-2 - sleeper)
                if i in more:
                    ready += more.pop(i)
        else:
            position[r] = stop[r]
        now_of[r] = now
    time[rows] = np.maximum(ends[:-1], -1)
    clock[:] = now_of
    return at + np.array(position, dtype=np.int64) - base[:-1]
