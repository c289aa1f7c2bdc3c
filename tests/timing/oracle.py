"""Slow and plain ways to what timing/ computes at once: dependencies, ends, and figures, each by its
definition.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from interlock.program.facts import IS_COMPUTE, IS_TRANSFER, Facts
from interlock.program.kinds import Kind
from interlock.timing.figures import Figures, Rank
from interlock.timing.timeline import Timeline


def needs(facts: Facts) -> np.ndarray:
    """The row of another rank that each row waits for, from the dependencies that the rules use; an overlap's
    by its second row.
    """
    need, edges = np.full(facts.n, -1, dtype=np.int64), facts.data
    away = facts.rank[edges.src] != facts.rank[edges.dst]
    need[edges.dst[away]] = edges.src[away]
    last = np.arange(facts.n)
    halves = np.flatnonzero(facts.overlap_head != np.arange(facts.n))
    last[halves - 1] = halves
    return np.where(need >= 0, last[need], -1)


def step_by_step(program, d) -> np.ndarray:
    """Ends of all rows by repeated relaxation of every wait."""
    f = Facts(program)
    end, edges = d.row.copy(), f.data
    away = f.rank[edges.src] != f.rank[edges.dst]
    lag = np.zeros(len(edges.src), dtype=np.int64)
    for i in np.flatnonzero(away).tolist():
        a, b = int(edges.src[i]), int(edges.dst[i])
        left = int(f.stage[a] if f.kind[b] == Kind.F else f.stage[b])
        link = d.machine.between(int(f.rank[a]), int(f.rank[b]))
        lag[i] = d.fixed if d.fixed is not None else link.time(int(d.payload[d.kind_of[f.mb[b]], left]))
    head = f.overlap_head
    while True:
        begin = np.zeros(f.n, dtype=np.int64)
        np.maximum.at(begin, head[edges.dst], end[edges.src] + lag)
        for a, b in zip(program.order.start[:-1], program.order.start[1:]):
            for i in range(a + 1, b):
                if head[i] == i:
                    begin[i] = max(begin[i], end[i - 1])
        new = begin[head] + d.row
        if (new == end).all():
            return end
        end = new


def figures(timeline) -> Figures:
    """Rank by rank: sweeps over the begins and ends of what is busy."""
    p, T = timeline.program, timeline.makespan
    busy, talks = _intervals(timeline)
    ranks = tuple(_rank(T, busy[r], talks[r]) for r in range(p.ranks))
    idle = sum(r.bubble for r in ranks)
    longest = max(ranks, key=lambda r: r.span, default=None)
    found = period(timeline)
    return Figures(
        T,
        ranks,
        Fraction(idle, p.ranks * T) if T else Fraction(0),
        Fraction(longest.span - longest.compute, longest.span) if longest and longest.span else Fraction(0),
        *(found or (None, None)),
    )


def _intervals(timeline: Timeline) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """[n, 2] of each rank: its compute operations (an overlap once), and the unions of its transfers and
    collectives; in order of time.
    """
    facts = Facts(timeline.program)
    takes = timeline.end > timeline.start
    collective = facts.is_collective | (facts.kind == Kind.REDUCE) | (facts.kind == Kind.REDUCE_DATA)
    busy, talks = [], []
    for a, b in zip(facts.program.order.start[:-1], facts.program.order.start[1:]):
        rows = np.arange(a, b)[takes[a:b]]
        work = rows[IS_COMPUTE[facts.kind[rows]] & (facts.overlap_head[rows] == rows)]
        busy.append(np.stack([timeline.start[work], timeline.end[work]], axis=1))
        talk = rows[IS_TRANSFER[facts.kind[rows]] | collective[rows]]
        talks.append(union(np.stack([timeline.start[talk], timeline.end[talk]], axis=1)))
    return busy, talks


def union(intervals: np.ndarray) -> np.ndarray:
    """The union of intervals [n, 2] as disjoint intervals in order."""
    if not len(intervals):
        return intervals.reshape(0, 2)
    ordered = intervals[np.argsort(intervals[:, 0], kind="stable")]
    reach = np.maximum.accumulate(ordered[:, 1])
    new = np.r_[True, ordered[1:, 0] > reach[:-1]]
    last = np.flatnonzero(np.r_[new[1:], True])
    return np.stack([ordered[new, 0], reach[last]], axis=1)


def _rank(T: int, work: np.ndarray, talk: np.ndarray) -> Rank:
    def length(x):
        return int((x[:, 1] - x[:, 0]).sum())

    K = length(talk)
    overlap = length(_common(talk, work))
    first, last = (int(work[:, 0].min()), int(work[:, 1].max())) if len(work) else (T, T)
    warmup = residual = cooldown = 0
    at = 0
    for a, b in [
        *union(np.concatenate([work, talk])).tolist(),
        [T, T],
    ]:  # gaps in which the rank neither computes nor talks
        low, high = at, a
        warmup += max(0, min(high, first) - low)
        cooldown += max(0, high - max(low, last))
        residual += max(0, min(high, last) - max(low, first))
        at = max(at, b)
    return Rank(length(work), K, overlap, _idle(T, work, talk), warmup, residual, cooldown, last - first)


def _idle(T: int, work: np.ndarray, talk: np.ndarray) -> int:
    """Time in [0, T] at which a rank does nothing, by a sweep over all begins and ends."""
    events = sorted(
        [(int(t), +1) for t in np.concatenate([work[:, 0], talk[:, 0]])]
        + [(int(t), -1) for t in np.concatenate([work[:, 1], talk[:, 1]])]
    )
    idle, at, depth = 0, 0, 0
    for t, step in events:
        if depth == 0:
            idle += t - at
        depth, at = depth + step, t
    return idle + T - at


def _common(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The intersection of two lists of disjoint intervals, each in order of time."""
    b = b[np.argsort(b[:, 0], kind="stable")]
    out, i, j = [], 0, 0
    a, b = a.tolist(), b.tolist()
    while i < len(a) and j < len(b):
        low, high = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if low < high:
            out.append((low, high))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return np.array(out, dtype=np.int64).reshape(-1, 2)


def period(timeline):
    """(g / k, k) for the smallest k such that microbatches k apart end exactly g apart on every stage, over a
    long enough stretch.
    """
    ends = _by_microbatch(timeline)
    for k in range(1, ends.shape[1] // 3 + 1):
        growth = ends[:, k:] - ends[:, :-k]
        run = best = 0
        for m in range(1, growth.shape[1]):
            run = run + 1 if (growth[:, m] == growth[0, m - 1]).all() else 0
            if run > best:
                best, g = run, int(growth[0, m])
        if best >= max(2 * k, 8) - 1:
            return Fraction(g, k), k
    return None


def _by_microbatch(timeline: Timeline) -> np.ndarray:
    """[2 * stages, M] ends of F and of I or B, for the stages that every microbatch visits with both, else
    only F.
    """
    facts = Facts(timeline.program)
    S, M = facts.S, facts.M
    lines = []
    for table in (facts.first_F, facts.first_X):
        rows = table.reshape(S, M) if S and M else np.empty((0, 0), dtype=np.int64)
        lines += [timeline.end[line] for line in rows if (line >= 0).all()]
    return np.array(lines, dtype=np.int64) if lines else np.empty((0, 0), dtype=np.int64)
