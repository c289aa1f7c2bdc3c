"""The part of a run that repeats itself, of inserted transfers: rows whose times are known before anything of
them has been swept through.

If every rank's last rows are those of k microbatches before, each g later, and the rows to come are like them
(the same times, waits for the row that lies one period on), then they too end g after those before them: a
(max,+) system that has reached a period keeps it. Nothing is guessed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from interlock.program.facts import Facts
from interlock.timing.inputs import Inputs


@dataclass(frozen=True)
class _Run:
    """A sweep so far. time: the ends of the rows before at[r] on each rank r, -1 from there on. unfinished:
    ranks with rows to come."""

    inputs: Inputs
    facts: Facts
    row: np.ndarray
    lag: np.ndarray | None
    time: np.ndarray
    at: np.ndarray
    unfinished: np.ndarray


def repeat_period(
    inputs: Inputs, row: np.ndarray, lag: np.ndarray | None, time: np.ndarray, at: np.ndarray, window: int
) -> np.ndarray | None:
    """Writes the times of rows that repeat what has just been done, and returns where each rank stands then;
    None: nothing repeats.

    time: the ends of the rows before at[r] on each rank r, -1 from there on; window: rows of a rank that are
    searched for a period.
    """
    facts = inputs.facts
    assert facts is not None, "rows that are no program's have no microbatches to repeat"
    ranks = np.flatnonzero(at < inputs.start[1:])
    begin, end = inputs.start[ranks], at[ranks] - 1
    if not len(ranks) or (end <= begin).any():
        return None
    run = _Run(inputs, facts, row, lag, time, at, ranks)
    back = end[:, None] - np.arange(1, window + 1)  # the latest first
    like = back >= begin[:, None]
    back = np.maximum(back, 0)
    like &= (facts.kind[back] == facts.kind[end][:, None]) & (facts.stage[back] == facts.stage[end][:, None])
    ago = np.where(like, facts.mb[end][:, None] - facts.mb[back], 0)  # microbatches since the same operation
    for k in np.unique(ago[0][ago[0] > 0]).tolist():
        step = np.zeros(len(at), dtype=np.int64)  # rows of a rank in a period of k microbatches
        step[ranks] = np.where((ago == k).any(axis=1), (ago == k).argmax(axis=1) + 1, 0)
        growth = time[end] - time[end - step[ranks]]
        if (
            step[ranks].all()
            and (growth == growth[0]).all()
            and _some_ranks_grew(run, step, int(growth[0]))
            and (ahead := _repeat(run, step, int(growth[0]))) is not None
        ):
            return ahead
    return None


def _some_ranks_grew(run: _Run, step: np.ndarray, g: int) -> bool:
    """Whether the last period of a few ranks ends g after the one before: most k fail on these already."""
    for r in run.unfinished[[0, len(run.unfinished) // 2, -1]].tolist():
        at, rows = int(run.at[r]), int(step[r])
        if at - 2 * rows < int(run.inputs.start[r]):
            return False
        if not (run.time[at - rows : at] - run.time[at - 2 * rows : at - rows] == g).all():
            return False
    return True


def _repeat(run: _Run, step: np.ndarray, g: int) -> np.ndarray | None:
    """Checks that all ranks have a period of `step` rows that grows by g, and writes the periods to come that
    are like it."""
    inputs, time, at, ranks = run.inputs, run.time, run.at, run.unfinished
    begin, rank = inputs.start[:-1], run.facts.rank
    if (at - 2 * step < begin)[ranks].any():
        return None
    periods = _count_like_periods(run, step)
    used = inputs.source[row_ranges(at, at + step * (periods > 0))]
    used = used[used >= 0]
    home = rank[used]
    if not periods or (used >= (at + step)[home]).any() or not step[home].all():
        return None
    oldest = at - step  # what the first period builds on must have grown by g as well
    np.minimum.at(oldest, home, used)
    rows = row_ranges(oldest, at)
    before = rows - step[rank[rows]]
    if (oldest - step < begin)[ranks].any() or (time[rows] - time[before] != g).any():
        return None
    growth = g * np.arange(1, periods + 1)[:, None]
    for a, rows_of_period in zip(at[ranks].tolist(), step[ranks].tolist()):
        time[a : a + periods * rows_of_period] = (time[a - rows_of_period : a] + growth).reshape(-1)
    return at + periods * step


def _count_like_periods(run: _Run, step: np.ndarray) -> int:
    """How many periods to come are like the one before them on every rank."""
    rank, source, row, lag = run.facts.rank, run.inputs.source, run.row, run.lag
    at, ranks = run.at, run.unfinished
    done, size = 0, 4
    most = int(((run.inputs.start[1:] - at)[ranks] // step[ranks]).min())
    while done < most:
        upto = min(done + size, most)
        rows = row_ranges(at + done * step, at + upto * step)
        before = rows - step.take(rank.take(rows))
        now, then = source.take(rows), source.take(before)
        shifted = (then >= 0) & (now - then == step.take(rank.take(now)))
        like = (row.take(rows) == row.take(before)) & np.where(now >= 0, shifted, then < 0)
        if lag is not None:
            like &= lag.take(rows) == lag.take(before)
        if not like.all():
            unlike = rows[~like]
            return int(((unlike - at[rank[unlike]]) // step[rank[unlike]]).min())
        done, size = upto, 4 * size
    return done


def row_ranges(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The rows low[0] .. high[0] - 1, low[1] .. high[1] - 1, and so on."""
    count = high - low
    ends = np.cumsum(count)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(low - ends + count, count)
