"""Leaps over the part of a run that repeats itself, of inserted transfers: rows whose times are known before anything of them has been walked through.

If every rank's last rows are those of k microbatches before, each g later, and the rows to come are like them (the same times, waits for the row that
lies one period on), then they too end g after those before them: a (max,+) system that has reached a period keeps it. Nothing is guessed.
"""

from __future__ import annotations

import numpy as np


def leap(
    found, row: np.ndarray, lag: np.ndarray | None, time: np.ndarray, at: np.ndarray, window: int
) -> np.ndarray | None:
    """Writes the times of rows that repeat what has just been done, and returns where each rank stands then; None: nothing repeats.

    found: compute.Needs; time: the ends of the rows before at[r] on each rank r, -1 behind; window: rows of a rank that are searched for a period.
    """
    ranks = np.flatnonzero(at < found.start[1:])
    begin, end = found.start[ranks], at[ranks] - 1
    if not len(ranks) or (end <= begin).any():
        return None
    f = found.facts
    back = end[:, None] - np.arange(1, window + 1)  # the latest first
    like = back >= begin[:, None]
    back = np.maximum(back, 0)
    like &= (f.kind[back] == f.kind[end][:, None]) & (f.stage[back] == f.stage[end][:, None])
    ago = np.where(like, f.mb[end][:, None] - f.mb[back], 0)  # microbatches since the same operation
    for k in np.unique(ago[0][ago[0] > 0]).tolist():
        step = np.zeros(len(at), dtype=np.int64)  # rows of a rank in a period of k microbatches
        step[ranks] = np.where((ago == k).any(axis=1), (ago == k).argmax(axis=1) + 1, 0)
        growth = time[end] - time[end - step[ranks]]
        few = ranks[[0, len(ranks) // 2, -1]].tolist()  # most k fail on these already
        if (
            step[ranks].all()
            and (growth == growth[0]).all()
            and all(_grew(time, int(found.start[r]), int(at[r]), int(step[r]), growth[0]) for r in few)
        ):
            ahead = _repeat(found, row, lag, time, at, ranks, step, int(growth[0]))
            if ahead is not None:
                return ahead
    return None


def _grew(time: np.ndarray, begin: int, at: int, step: int, g: int) -> bool:
    """Whether the last `step` rows before `at` end g after those before them."""
    return at - 2 * step >= begin and bool(
        (time[at - step : at] - time[at - 2 * step : at - step] == g).all()
    )


def _repeat(found, row, lag, time, at, ranks, step, g: int) -> np.ndarray | None:
    begin, rank = found.start[:-1], found.facts.rank
    if (at - 2 * step < begin)[ranks].any():
        return None
    periods = _alike(found, row, lag, at, ranks, step)
    used = found.need[span(at, at + step * (periods > 0))]
    used = used[used >= 0]
    home = rank[used]
    if not periods or (used >= (at + step)[home]).any() or not step[home].all():
        return None
    oldest = at - step  # what the first period builds on must have grown by g as well
    np.minimum.at(oldest, home, used)
    rows = span(oldest, at)
    before = rows - step[rank[rows]]
    if (oldest - step < begin)[ranks].any() or (time[rows] - time[before] != g).any():
        return None
    for a, q in zip(at[ranks].tolist(), step[ranks].tolist()):
        time[a : a + periods * q] = (time[a - q : a] + g * np.arange(1, periods + 1)[:, None]).reshape(-1)
    return at + periods * step


def _alike(found, row, lag, at, ranks, step) -> int:
    """How many periods to come are like the one before them on every rank."""
    rank, need = found.facts.rank, found.need
    done, size, most = 0, 4, int(((found.start[1:] - at)[ranks] // step[ranks]).min())
    while done < most:
        upto = min(done + size, most)
        rows = span(at + done * step, at + upto * step)
        before = rows - step.take(rank.take(rows))
        now, then = need.take(rows), need.take(before)
        same = (row.take(rows) == row.take(before)) & np.where(
            now >= 0, (then >= 0) & (now - then == step.take(rank.take(now))), then < 0
        )
        if lag is not None:
            same &= lag.take(rows) == lag.take(before)
        if not same.all():
            bad = rows[~same]
            return int(((bad - at[rank[bad]]) // step[rank[bad]]).min())
        done, size = upto, 4 * size
    return done


def span(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The rows low[0] .. high[0] - 1, low[1] .. high[1] - 1, and so on."""
    count = high - low
    ends = np.cumsum(count)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(low - ends + count, count)
