"""Memory of each rank over the time of a run, or microbatches in flight where no sizes are given."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from interlock.program.facts import IS_COMPUTE, Facts
from interlock.program.kinds import Kind
from interlock.report.timeline.lanes import Half
from interlock.rules.memory import count_stashes
from interlock.rules.usage import Usage
from interlock.timing.timeline import Timeline


@dataclass(frozen=True)
class Track:
    """Memory of one rank: `value[i]` from `time[i]` until `time[i + 1]`. `limit`: its capacity, or None."""

    time: np.ndarray
    value: np.ndarray
    peak: int
    limit: int | None

    @property
    def is_over(self) -> bool:
        return self.limit is not None and self.peak > self.limit


@dataclass(frozen=True)
class Levels:
    """What is live while each row runs, and from its end until the next one begins; static memory apart."""

    during: np.ndarray
    after: np.ndarray


def byte_tracks(timeline: Timeline, usage: Usage, halves: np.ndarray) -> list[Track]:
    memory, ranks = timeline.program.memory, range(timeline.program.ranks)
    limits = memory.capacity if memory is not None else (None,) * len(ranks)
    levels = _byte_levels(usage, len(timeline.program.order))
    return [_track(timeline, halves, r, levels, usage.static[r], limits[r]) for r in ranks]


def stash_tracks(timeline: Timeline, facts: Facts, halves: np.ndarray) -> list[Track]:
    levels = _stash_levels(facts)
    return [_track(timeline, halves, r, levels, 0, None) for r in range(timeline.program.ranks)]


def _byte_levels(usage: Usage, rows: int) -> Levels:
    live, held = usage.live, usage.intervals
    change = np.zeros(rows + 1, dtype=live.dtype)
    np.add.at(change, held.start, held.size)
    np.subtract.at(change, held.end, held.size)
    return Levels(live, np.cumsum(change)[:rows])


def _stash_levels(facts: Facts) -> Levels:
    live = count_stashes(facts, "X")
    ends = np.isin(facts.kind, [int(Kind.B), int(Kind.I)])
    following = np.r_[live[1:], 0]
    on_same_rank = np.r_[facts.rank[1:] == facts.rank[:-1], False]
    at_end = np.where(on_same_rank, np.minimum(following, live), np.maximum(live - 1, 0))
    return Levels(live, np.where(ends, at_end, live))


def _track(
    timeline: Timeline, halves: np.ndarray, rank: int, levels: Levels, static: int, limit: int | None
) -> Track:
    """Steps where an operation of the rank's own order starts and ends.

    Transfers are counted in the gap of that order in which they are listed.
    """
    order, live = timeline.program.order, levels.during
    begin, end = (int(x) for x in order.start[rank : rank + 2])
    ran = begin + np.flatnonzero(timeline.start[begin:end] >= 0)
    peak = static + (int(live[ran].max()) if len(ran) else 0)
    steps = ran[IS_COMPUTE[order.kind[ran]]]
    steps = steps[halves[steps] != Half.LOWER]
    if not len(steps):
        return Track(np.array([0]), np.array([peak]), peak, limit)
    last_row = steps + (halves[steps] == Half.UPPER)
    next_row = np.r_[steps[1:], int(ran[-1]) + 1]
    gaps = [_level_in_gap(levels, a, b) for a, b in zip(last_row.tolist(), next_row.tolist())]
    at_first = max((int(x) for x in live[begin : steps[0]]), default=0)
    time = np.r_[0, np.stack([timeline.start[steps], timeline.end[steps]], axis=1).reshape(-1)]
    pairs = np.stack([live[steps].astype(object), np.array(gaps, dtype=object)], axis=1)
    value = np.r_[[at_first], pairs.reshape(-1)].astype(float) + static
    return Track(*_merge_instants(time, value), peak, limit)


def _level_in_gap(levels: Levels, last: int, following: int) -> int:
    """The most that is live after row `last` and before row `following`, over the rows between them."""
    after = int(levels.after[last])
    between = [int(x) for x in levels.during[last + 1 : following]]
    return max(after, *between, 0) if between else after


def _merge_instants(time: np.ndarray, value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One step for each time: of several the highest."""
    last_of_time = np.r_[time[1:] > time[:-1], True]
    first_of_time = np.r_[0, np.flatnonzero(last_of_time[:-1]) + 1]
    return time[last_of_time].astype(np.int64), np.maximum.reduceat(value, first_of_time)
