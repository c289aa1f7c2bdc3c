"""What a timeline says of a schedule: busy and idle time, bubble rates, memory over time, period
(spec/cost.md, "Figures")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from interlock.program.facts import IS_COMPUTE, IS_TRANSFER, Facts
from interlock.program.kinds import Kind
from interlock.rules.usage import Usage
from interlock.timing.timeline import Timeline


@dataclass(frozen=True)
class Rank:
    """ns of one rank.

    T = (compute + communication) + bubble - overlap, where T is the makespan and bubble is measured apart.

    communication: the union of its transfers and collectives; overlap: the part of it under compute; bubble =
    warmup + residual + cooldown. span: from the start of its first compute operation to the end of its last.
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

    bubble: idle time over all ranks / (ranks * makespan). span_bubble: that of the zero-bubble paper, (cost -
    work) / cost, cost the largest span of a rank and work the compute of that rank. period: ns a microbatch
    once the schedule repeats itself, which it does every `every` microbatches; None where it does not.
    """

    makespan: int
    ranks: tuple[Rank, ...]
    bubble: Fraction
    span_bubble: Fraction
    period: Fraction | None = None
    every: int | None = None

    def shown(self) -> dict[str, str | list[str]]:
        """By name, in the words of the report."""
        out: dict[str, str | list[str]] = {
            "makespan": format_duration(self.makespan),
            "bubble": format_percent(self.bubble),
            "compute by rank": [format_duration(r.compute) for r in self.ranks],
        }
        if any(r.exposed for r in self.ranks):
            out["exposed communication by rank"] = [format_duration(r.exposed) for r in self.ranks]
        if self.period is not None:
            out["steady period"] = format_duration(self.period)
        return out


def compute_figures(timeline: Timeline) -> Figures:
    """The figures of a run."""
    facts = Facts(timeline.program)
    takes = timeline.end > timeline.start
    work = np.flatnonzero(takes & IS_COMPUTE[facts.kind] & (facts.overlap_head == np.arange(facts.n)))
    talk = np.flatnonzero(
        takes
        & (
            IS_TRANSFER[facts.kind]
            | facts.is_collective
            | (facts.kind == Kind.REDUCE)
            | (facts.kind == Kind.REDUCE_DATA)
        )
    )
    period = find_period(facts, timeline.end)
    busy, transfers = (
        Intervals(facts.rank[rows], timeline.start[rows], timeline.end[rows]) for rows in (work, talk)
    )
    return summarise(timeline.program.ranks, timeline.makespan, busy, (transfers,), period)


def summarise(
    ranks: int, makespan: int, work: Intervals, talk: Sequence[Intervals], steady: Period | None
) -> Figures:
    """Figures from what is busy when. work: disjoint on each rank and in the order of time; talk: transfers
    and collectives, in any order."""
    found = _ranks(ranks, makespan, work, talk)
    idle = sum(r.bubble for r in found)
    longest = max(found, key=lambda r: r.span, default=None)
    return Figures(
        makespan,
        found,
        Fraction(idle, ranks * makespan) if makespan else Fraction(0),
        Fraction(longest.span - longest.compute, longest.span) if longest and longest.span else Fraction(0),
        steady.rate if steady else None,
        steady.every if steady else None,
    )


@dataclass(frozen=True)
class Intervals:
    """[start[i], end[i]) on rank[i], none empty; those of work are ordered by rank."""

    rank: np.ndarray
    start: np.ndarray
    end: np.ndarray

    def on(self, begin: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(starts, ends) on one axis, where that of rank r begins at begin[r]."""
        base = begin.take(self.rank)
        return self.start + base, self.end + base

    def of(self, rank: int) -> Intervals:
        mine = self.rank == rank
        return Intervals(self.rank[mine] - rank, self.start[mine], self.end[mine])


def _ranks(P: int, T: int, work: Intervals, talk: Sequence[Intervals]) -> tuple[Rank, ...]:
    """All ranks at once: their axes of time are laid behind one another, with a gap of one between them."""
    if P > 1 and P * (T + 1) >= 1 << 62:  # they do not fit
        return tuple(rank for r in range(P) for rank in _ranks(1, T, work.of(r), [x.of(r) for x in talk]))
    begin = np.arange(P + 1) * (T + 1)
    start, end = work.on(begin)
    a, b = _union([x.on(begin) for x in talk])
    busy = _union([(start, end), (a, b)])
    cut = np.searchsorted(start, begin)  # first operation of each rank, and the end
    has = cut[1:] > cut[:-1]
    first, last = begin[:-1] + T, begin[:-1] + T  # of a rank that computes nothing all is warmup
    first[has], last[has] = start[cut[:-1][has]], end[cut[1:][has] - 1]
    compute, comm, either = (_lengths(x, y, begin) for x, y in ((start, end), (a, b), busy))
    bubble = T - either
    low, high = np.concatenate([begin[:-1], last]), np.concatenate([first, begin[:-1] + T])
    warmup, cooldown = (high - low - _between(a, b, low, high)).reshape(2, P)
    rows = np.stack(
        [
            compute,
            comm,
            compute + comm - either,
            bubble,
            warmup,
            bubble - warmup - cooldown,
            cooldown,
            last - first,
        ],
        axis=1,
    )
    return tuple(Rank(*line) for line in rows.tolist())


def _lengths(start: np.ndarray, end: np.ndarray, begin: np.ndarray) -> np.ndarray:
    """How long disjoint intervals in order are together, on each rank."""
    cut = np.searchsorted(start, begin)
    has = cut[1:] > cut[:-1]
    out = np.zeros(len(has), dtype=np.int64)
    if has.any():
        out[has] = np.add.reduceat(end - start, cut[:-1][has])
    return out


def _union(parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """The union of intervals (starts, ends) as disjoint ones in order. Which end is whose does not matter."""
    parts = [p for p in parts if len(p[0])]
    if not parts:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    lengths = {int(x) for a, b in parts for x in ((b - a).min(), (b - a).max())}
    start = np.concatenate([a for a, _ in parts])
    start.sort(kind="stable")  # fast where they come in a few ascending runs
    if len(lengths) == 1:
        end = start + lengths.pop()
    else:
        end = np.concatenate([b for _, b in parts])
        end.sort(kind="stable")
    new = np.flatnonzero(start[1:] > end[:-1])  # as many have ended as had begun
    return start[np.r_[0, new + 1]], end[np.r_[new, len(end) - 1]]


def _between(start: np.ndarray, end: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """How much of disjoint intervals in order lies in each [low, high)."""
    if not len(start):
        return np.zeros(len(low), dtype=np.int64)
    total = np.concatenate([[0], np.cumsum(end - start)])

    def before(times: np.ndarray) -> np.ndarray:
        begun = np.searchsorted(start, times, side="right")
        return total[begun] - np.where(begun > 0, np.maximum(end[begun - 1] - times, 0), 0)

    return before(high) - before(low)


def memory_over_time(timeline: Timeline) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each rank (times, bytes): from times[i] on it holds bytes[i], static bytes included.

    What is live during a row by spec/memory.md is held from the row's start until the next row of its rank
    that has a time. So the largest value is the peak.
    """
    usage = Usage(Facts(timeline.program))
    out = []
    for r, (a, b) in enumerate(zip(timeline.program.order.start[:-1], timeline.program.order.start[1:])):
        start, live = timeline.start[a:b], usage.live[a:b]
        has = start >= 0
        times, first = np.unique(np.maximum.accumulate(start[has]), return_index=True)
        held = np.maximum.reduceat(live[has], first) if len(first) else live[:0]
        out.append(
            (
                np.r_[0, times] if not len(times) or times[0] else times,
                (np.r_[0, held] if not len(times) or times[0] else held) + usage.static[r],
            )
        )
    return out


@dataclass(frozen=True)
class Period:
    """Every `every` microbatches take `every * rate` ns."""

    rate: Fraction
    every: int


def find_period(facts: Facts, end: np.ndarray) -> Period | None:
    """The (max,+) eigenvalue of the repeating part, measured as the growth between microbatches k apart;
    `end` of each row.

    The smallest k for which every stage's F and backward of microbatch m + k end exactly g after those of m,
    over a stretch of max(2k, 8) microbatches or more; then g / k. k goes up to a third of the microbatches,
    and to `_longest_k`. None where there is no such stretch (few microbatches, or unequal ones).
    """
    ends = _by_microbatch(facts, end)
    lines, M = ends.shape
    if not lines:
        return None
    few = ends[np.unique(np.linspace(0, lines - 1, 9).astype(int))]  # most k fail on these already
    for k in range(1, min(M // 3, _longest_k(facts)) + 1):
        found: int | None = None
        for part in (few[:1], few, ends):
            found = _stretch(part, k)
            if found is None:
                break
        if found is not None:
            return Period(Fraction(found, k), k)
    return None


def _longest_k(facts: Facts) -> int:
    """Microbatches in flight, twice over: schedules repeat after no more, and the search stays linear in the
    operations."""
    return max(64, 2 * facts.S)


def _stretch(ends: np.ndarray, k: int) -> int | None:
    """The growth over k microbatches in the longest stretch in which it is the same on all lines, if that is
    long enough."""
    growth = ends[:, k:] - ends[:, :-k]
    steady = np.r_[False, growth[0, 1:] == growth[0, :-1]]
    need = max(2 * k, 8) - 1
    if np.count_nonzero(steady) < need:
        return None
    if len(growth) > 1:
        steady &= (growth == growth[:1]).all(axis=0)
    edges = np.flatnonzero(np.diff(np.r_[False, steady, False].astype(np.int8)))
    lengths = edges[1::2] - edges[::2]
    return (
        int(growth[0, edges[2 * int(np.argmax(lengths))]]) if len(lengths) and lengths.max() >= need else None
    )


def _by_microbatch(facts: Facts, end: np.ndarray) -> np.ndarray:
    """[2 * stages, M] ends of F and of I or B, for the stages that every microbatch visits with both, else
    only F."""
    if not facts.S or not facts.M:
        return np.empty((0, 0), dtype=np.int64)
    rows = np.concatenate([facts.first_F.reshape(facts.S, facts.M), facts.first_X.reshape(facts.S, facts.M)])
    return end.take(rows[(rows >= 0).all(axis=1)])


# ---- in words --------------------------------------------------------------------------------------------


def format_duration(ns: int | Fraction) -> str:
    """`133.121 ms`, exact where three decimals are."""
    for unit, size in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if ns >= size:
            return f"{_decimal(Fraction(ns) / size)} {unit}"
    return f"{_decimal(Fraction(ns))} ns"


def format_percent(share: Fraction) -> str:
    return f"{_decimal(share * 100, 2)} %"


def _decimal(value: Fraction, places: int = 3) -> str:
    text = f"{float(round(value, places)):.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
