"""What a timeline says of a schedule: busy and idle time of every rank, bubble rates, memory over time, the steady period (spec/cost.md, "Figures")."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ..program.facts import IS_COMPUTE, IS_TRANSFER, Facts
from ..program.ir import Kind
from ..rules.memory import Usage
from .timeline import Timeline


@dataclass(frozen=True)
class Rank:
    """ns of one rank. T = (compute + communication) + bubble - overlap, where T is the makespan and bubble is measured apart.

    communication: the union of its transfers and collectives; overlap: the part of it under compute; bubble = warmup + residual + cooldown.
    span: from the start of its first compute operation to the end of its last.
    """

    compute: int
    communication: int
    overlap: int
    bubble: int
    warmup: int
    residual: int
    cooldown: int
    span: int

    @property
    def exposed(self) -> int:
        """Communication that no compute hides."""
        return self.communication - self.overlap


@dataclass(frozen=True)
class Figures:
    """Of a step: the makespan in ns, those of each rank, and rates.

    bubble: idle time over all ranks / (ranks * makespan). span_bubble: that of the zero-bubble paper, (cost - work) / cost, cost the largest
    span of a rank and work the compute of that rank. period: ns a microbatch once the schedule repeats itself, None where it does not.
    """

    makespan: int
    ranks: tuple[Rank, ...]
    bubble: Fraction
    span_bubble: Fraction
    period: Fraction | None = None

    def shown(self) -> dict:
        """By name, in the words of the report."""
        out = {"makespan": duration(self.makespan), "bubble": percent(self.bubble),
               "compute by rank": [duration(r.compute) for r in self.ranks]}
        if any(r.exposed for r in self.ranks):
            out["exposed communication by rank"] = [duration(r.exposed) for r in self.ranks]
        if self.period is not None:
            out["steady period"] = duration(self.period)
        return out


def figures(timeline: Timeline) -> Figures:
    """The figures of a run."""
    p, T = timeline.program, timeline.makespan
    busy, talks = _intervals(timeline)
    ranks = tuple(_rank(T, busy[r], talks[r]) for r in range(p.ranks))
    idle = sum(r.bubble for r in ranks)
    longest = max(ranks, key=lambda r: r.span, default=None)
    return Figures(T, ranks, Fraction(idle, p.ranks * T) if T else Fraction(0),
                   Fraction(longest.span - longest.compute, longest.span) if longest and longest.span else Fraction(0), period(timeline))


def _intervals(timeline: Timeline) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """[n, 2] of each rank: its compute operations (an overlap once), and the unions of its transfers and collectives; in order of time."""
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
    length = lambda x: int((x[:, 1] - x[:, 0]).sum())
    K = length(talk)
    overlap = length(_common(talk, work))
    first, last = (int(work[:, 0].min()), int(work[:, 1].max())) if len(work) else (T, T)
    warmup = residual = cooldown = 0
    at = 0
    for a, b in [*union(np.concatenate([work, talk])).tolist(), [T, T]]:      # gaps in which the rank neither computes nor talks
        low, high = at, a
        warmup += max(0, min(high, first) - low)
        cooldown += max(0, high - max(low, last))
        residual += max(0, min(high, last) - max(low, first))
        at = max(at, b)
    return Rank(length(work), K, overlap, _idle(T, work, talk), warmup, residual, cooldown, last - first)


def _idle(T: int, work: np.ndarray, talk: np.ndarray) -> int:
    """Time in [0, T] at which a rank does nothing, by a sweep over all begins and ends."""
    events = sorted([(int(t), +1) for t in np.concatenate([work[:, 0], talk[:, 0]])] + [(int(t), -1) for t in np.concatenate([work[:, 1], talk[:, 1]])])
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


def memory_over_time(timeline: Timeline) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each rank (times, bytes): from times[i] on it holds bytes[i], static bytes included.

    What is live during a row by spec/memory.md is held from the row's start until the next row of its rank that has a time. So the largest value is the peak.
    """
    usage = Usage(Facts(timeline.program))
    out = []
    for r, (a, b) in enumerate(zip(timeline.program.order.start[:-1], timeline.program.order.start[1:])):
        start, live = timeline.start[a:b], usage.live[a:b]
        has = start >= 0
        times, first = np.unique(np.maximum.accumulate(start[has]), return_index=True)
        held = np.maximum.reduceat(live[has], first) if len(first) else live[:0]
        out.append((np.r_[0, times] if not len(times) or times[0] else times,
                    (np.r_[0, held] if not len(times) or times[0] else held) + usage.static[r]))
    return out


def period(timeline: Timeline) -> Fraction | None:
    """ns a microbatch in the repeating part: the (max,+) eigenvalue, measured as the growth between microbatches k apart.

    The smallest k for which every stage's F and backward of microbatch m + k end exactly g after those of m, over a stretch of max(2k, 8) microbatches
    or more; then g / k. None where there is no such stretch (few microbatches, or unequal ones).
    """
    ends = _by_microbatch(timeline)
    for k in range(1, ends.shape[1] // 3 + 1):
        growth = ends[:, k:] - ends[:, :-k]
        steady = (growth == growth[:1]).all(axis=0) & np.r_[False, growth[0, 1:] == growth[0, :-1]]
        run = _longest_run(steady)
        if run is not None and run[1] - run[0] >= max(2 * k, 8) - 1:
            return Fraction(int(growth[0, run[0]]), k)
    return None


def _longest_run(flags: np.ndarray) -> tuple[int, int] | None:
    edges = np.flatnonzero(np.diff(np.r_[False, flags, False].astype(np.int8)))
    if not len(edges):
        return None
    starts, stops = edges[::2], edges[1::2]
    i = int(np.argmax(stops - starts))
    return int(starts[i]), int(stops[i])


def _by_microbatch(timeline: Timeline) -> np.ndarray:
    """[2 * stages, M] ends of F and of I or B, for the stages that every microbatch visits with both, else only F."""
    facts = Facts(timeline.program)
    S, M = facts.S, facts.M
    lines = []
    for table in (facts.first_F, facts.first_X):
        rows = table.reshape(S, M) if S and M else np.empty((0, 0), dtype=np.int64)
        lines += [timeline.end[line] for line in rows if (line >= 0).all()]
    return np.array(lines, dtype=np.int64) if lines else np.empty((0, 0), dtype=np.int64)


# ---- in words --------------------------------------------------------------------------------------------


def duration(ns: int | Fraction) -> str:
    """`133.121 ms`, exact where three decimals are."""
    for unit, size in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if ns >= size:
            return f"{_decimal(Fraction(ns) / size)} {unit}"
    return f"{_decimal(Fraction(ns))} ns"


def percent(share: Fraction) -> str:
    return f"{_decimal(share * 100, 2)} %"


def _decimal(value: Fraction, places: int = 3) -> str:
    text = f"{float(round(value, places)):.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


