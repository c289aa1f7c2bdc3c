"""Two sweeps over the rows of all ranks that find the same ends: row by row, for few ranks, and all ranks a
row at a time, for many.

Both skip what repeats itself (repetition.py).
"""

from __future__ import annotations

import numpy as np

from interlock.timing.inputs import Inputs
from interlock.timing.repetition import repeat_period, row_ranges

WINDOW = 256  # rows of each rank between two searches for a period, and rows searched
LONG = 64  # runs with fewer rows than this many rounds of all ranks are not searched by `sweep_ranks`
FIRST_SEARCH = 64  # rounds before `sweep_ranks` first searches for a period


class Cyclic(Exception):
    """The order waits in a circle (IL307, IL402): it has no times."""


def sweep_rows(
    inputs: Inputs, row: np.ndarray, lag: np.ndarray | None, release: np.ndarray | None
) -> np.ndarray:
    """The end of each row, a window of rows on each rank at a time. Raises Cyclic. Linear in rows."""
    n, begin, last = len(row), inputs.start[:-1], inputs.start[1:]
    time = np.full(n + 1, -1, dtype=np.int64)
    at = begin.copy()
    clock = np.zeros(len(at), dtype=np.int64) if release is None else release.astype(np.int64)
    lag = np.zeros(n, dtype=np.int64) if lag is None else lag
    failures, windows = 0, 2  # a search in vain doubles the way to the next one
    while (at < last).any():
        done = _sweep_window(inputs.source, row, lag, time, at, np.minimum(at + WINDOW, last), clock)
        if (done == at).all():
            raise Cyclic
        at = done
        windows -= 1
        if not windows and inputs.facts is not None:
            ahead = repeat_period(inputs, row, lag, time, at, WINDOW)
            failures = failures + 1 if ahead is None else 0
            windows = 1 << failures
            if ahead is not None:
                at = ahead
                clock = np.where(at > begin, time[at - 1], clock)
    return time[:n]


def _sweep_window(
    source: np.ndarray,
    row: np.ndarray,
    lag: np.ndarray,
    time: np.ndarray,
    at: np.ndarray,
    upto: np.ndarray,
    clock: np.ndarray,
) -> np.ndarray:
    """Every rank as far as it comes, from row `at` and not beyond `upto`; writes `time` and `clock`.

    Returns where each stands.
    """
    base = np.concatenate([[0], np.cumsum(upto - at)])
    rows = row_ranges(at, upto)
    other = source[rows]
    ready_at = np.where(other >= 0, time[other] + lag[rows], 0)  # of inputs that are there already
    waits_for = _places_in_window(other, (other >= 0) & (time[other] < 0), at, upto, base)
    ends, positions = _run_ranks(
        waits_for.tolist(),
        ready_at.tolist(),
        row[rows].tolist(),
        lag[rows].tolist(),
        (clocks := clock.tolist()),
        base[:-1].tolist(),
        base[1:].tolist(),
    )
    time[rows] = np.maximum(ends[:-1], -1)
    clock[:] = clocks
    return at + np.array(positions, dtype=np.int64) - base[:-1]


def _places_in_window(
    other: np.ndarray, open_: np.ndarray, at: np.ndarray, upto: np.ndarray, base: np.ndarray
) -> np.ndarray:
    """For each row of a window the place in it of the row it still waits for; the window's length if that
    lies beyond it, -1: none."""
    waiting = np.flatnonzero(open_)
    awaited = other[waiting]
    home = np.searchsorted(at, awaited, side="right") - 1  # the rank of the row that is waited for
    places = np.full(len(other), -1, dtype=np.int64)
    places[waiting] = np.where(awaited < upto[home], awaited - at[home] + base[home], len(other))
    return places


def _run_ranks(
    waits_for: list[int],
    ready_at: list[int],
    takes: list[int],
    travel: list[int],
    clocks: list[int],
    positions: list[int],
    stops: list[int],
) -> tuple[list[int], list[int]]:
    """Runs each rank until it stops or waits for a row of another that has not ended, and again when that
    has.

    Returns the end of each row (negative: not reached) and the position of each rank; writes `clocks`.
    """
    ends = [-1] * (len(takes) + 1)  # below -1: rank -2 - ends[i] sleeps until row i ends
    more: dict[int, list[int]] = {}  # further sleepers
    ready = list(range(len(clocks)))[::-1]
    while ready:
        r = ready.pop()
        now = clocks[r]
        for i in range(positions[r], stops[r]):
            other = waits_for[i]
            if other < 0:
                arrives = ready_at[i]
            else:
                arrives = ends[other]
                if arrives < 0:
                    if arrives == -1:
                        ends[other] = -2 - r
                    else:
                        more.setdefault(other, []).append(r)
                    positions[r] = i
                    break
                arrives += travel[i]
            if arrives > now:  # noqa: PLR1730 (a call of `max` would take a quarter of the time of this loop)
                now = arrives
            now += takes[i]
            sleeper = ends[i]
            ends[i] = now
            if sleeper != -1:
                ready.append(-2 - sleeper)
                if i in more:
                    ready += more.pop(i)
        else:
            positions[r] = stops[r]
        clocks[r] = now
    return ends, positions


def sweep_ranks(
    inputs: Inputs, row: np.ndarray, lag: np.ndarray | None, release: np.ndarray | None
) -> np.ndarray:
    """The end of each row, one row of every rank that can go on in each round.

    Raises Cyclic. Linear in rows.
    """
    n, first, last = len(row), inputs.start[:-1], inputs.start[1:]
    time = np.full(n + 1, -1, dtype=np.int64)
    time[n] = 0  # the end of a source that is none
    source = np.where(inputs.source >= 0, inputs.source, n)
    at = first.copy()
    clock = np.zeros(len(first), dtype=np.int64) if release is None else release.astype(np.int64)
    searched = inputs.facts is not None and n >= LONG * len(first) ** 2
    rounds, next_search = 0, FIRST_SEARCH if searched else n + 1
    while (going := np.flatnonzero(at < last)).size:
        place, now = at[going], clock[going]
        for _ in range(min(next_search - rounds, int((last[going] - place).min()))):
            rounds += 1
            arrives = time.take(source.take(place))
            if arrives.min() >= 0:
                if lag is not None:
                    arrives += lag.take(place)
                np.maximum(now, arrives, out=now)
                now += row.take(place)
                time[place] = now
                place += 1
            else:
                go = np.flatnonzero(arrives >= 0)
                if not len(go):
                    raise Cyclic
                rows, arrives = place.take(go), arrives.take(go)
                if lag is not None:
                    arrives += lag.take(rows)
                np.maximum(now.take(go), arrives, out=arrives)
                arrives += row.take(rows)
                time[rows] = now[go] = arrives
                place[go] = rows + 1
        at[going], clock[going] = place, now
        if rounds == next_search:
            next_search += max(FIRST_SEARCH, rounds // 4)
            ahead = repeat_period(inputs, row, lag, time, at, WINDOW)
            if ahead is not None:
                at, clock = ahead, time[ahead - 1]
    return time[:n]
