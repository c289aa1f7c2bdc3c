"""What is where in the picture of a run, before anything is drawn: lanes, bubbles, memory over time, the operations that never run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from interlock.program.facts import IS_COMPUTE, IS_SEND, IS_TRANSFER, Facts, mask
from interlock.program.ir import Program
from interlock.program.kinds import COLLECTIVE, Kind
from interlock.program.kinds import COMPUTE as COMPUTE_KINDS
from interlock.rules.communication import Transfers
from interlock.rules.memory import STATIC, Usage, in_flight, show_bytes, stash_counts
from interlock.text.source import Sources
from interlock.timing.figures import Period, find_period
from interlock.timing.timeline import Timeline
from interlock.witness.walk import Leg, legs

UNIT = 1000  # ns drawn as one unit where a schedule says no durations
NONE, COMPUTE, COMM = -1, 0, 1
PHASES = ("warmup", "residual", "cooldown")
MOST_LANES = 4  # lines for transfers that run at once on one rank
MOST_GHOSTS = 9  # operations drawn behind the point where a rank stops
_DRAWN = mask(COMPUTE_KINDS | {Kind.STEP})
_COLLECTIVE = mask(COLLECTIVE | {Kind.REDUCE, Kind.REDUCE_DATA})


@dataclass(frozen=True)
class Track:
    """Memory of one rank: `value[i]` from `time[i]` until `time[i + 1]`. `limit`: its capacity; None: none."""

    time: np.ndarray
    value: np.ndarray
    peak: int
    limit: int | None


@dataclass(frozen=True)
class Ghost:
    """An operation that never runs, at place `slot` behind the point where its rank stops. row -1: `skipped` operations left out."""

    rank: int
    slot: int
    row: int
    blocked: bool
    skipped: int = 0


@dataclass(frozen=True)
class Bubbles:
    """Where a rank neither computes nor transfers: phase is a number of PHASES."""

    rank: np.ndarray
    start: np.ndarray
    end: np.ndarray
    phase: np.ndarray


@dataclass(frozen=True)
class Scene:
    """A run and what is said of it.

    verdict: a word of verdict.Verdict; summary: the line about it. unit: ns that are one unit, 0: real times. walk: the closed walk of waits,
    if it stops. notes: what a caption must say. marks: rows a finding is about.
    """

    name: str
    timeline: Timeline
    verdict: str = "unknown"
    summary: str = ""
    unit: int = UNIT
    walk: tuple = ()
    notes: tuple[str, ...] = ()
    marks: tuple[int, ...] = ()
    sources: Sources | None = None
    path: str = ""
    sound: bool = True  # its memory may be counted
    measured: bool = False  # and not predicted

    @property
    def program(self) -> Program:
        return self.timeline.program

    @cached_property
    def facts(self) -> Facts:
        return Facts(self.program)

    @property
    def start(self) -> np.ndarray:
        return self.timeline.start

    @property
    def end(self) -> np.ndarray:
        return self.timeline.end

    @property
    def makespan(self) -> int:
        return max(self.timeline.makespan, 0)  # nothing may have run

    @property
    def ranks(self) -> int:
        return self.program.ranks

    # ---- regions and lanes -------------------------------------------------------------------------

    @cached_property
    def regions(self) -> list[str]:
        """Names, that with most compute operations first."""
        o, stages = self.program.order, self.program.stages
        names = list(dict.fromkeys(s.region for s in stages))
        rows = np.flatnonzero(IS_COMPUTE[o.kind] & self.facts.stage_ok)
        index = np.array([names.index(s.region) for s in stages] or [0])
        counts = (
            np.bincount(index[o.stage[rows]], minlength=len(names))
            if len(rows)
            else np.zeros(len(names), dtype=int)
        )
        return [names[i] for i in sorted(range(len(names)), key=lambda i: (-counts[i], i))]

    @cached_property
    def stage_region(self) -> list[int]:
        return [self.regions.index(s.region) for s in self.program.stages]

    @cached_property
    def stage_chunk(self) -> list[int]:
        """The how-manieth stage of its region on its rank: chunks of an interleaved pipeline."""
        seen: dict[tuple, int] = {}
        out = []
        for s in self.program.stages:
            key = (s.region, s.rank)
            out.append(seen.get(key, 0))
            seen[key] = out[-1] + 1
        return out

    @property
    def whole(self) -> bool:
        """Whether a backward is one operation anywhere, and not only I and W."""
        return bool(np.any(self.program.order.kind == Kind.B))

    @cached_property
    def drawn(self) -> np.ndarray:
        """Rows that have a place in the picture."""
        kind = self.program.order.kind
        return (self.start >= 0) & (_DRAWN[kind] | IS_TRANSFER[kind] | _COLLECTIVE[kind])

    @cached_property
    def half(self) -> np.ndarray:
        """0: a whole box; 1, 2: the upper and the lower half of an overlap."""
        head = self.facts.overlap_head
        rows = np.flatnonzero(head != np.arange(len(head)))
        out = np.zeros(len(head), dtype=np.int8)
        out[rows], out[rows - 1] = 2, 1
        return out

    @cached_property
    def lane(self) -> np.ndarray:
        """COMPUTE, or COMM + line; NONE for rows that are not drawn. Boxes of one line do not overlap (but the last takes what is too much)."""
        kind = self.program.order.kind
        lane = np.where(_DRAWN[kind], COMPUTE, COMM).astype(np.int16)
        lane[~self.drawn] = NONE
        rows = np.flatnonzero(lane == COMM)
        rows = rows[np.lexsort((self.end[rows], self.start[rows], self.facts.rank[rows]))]
        start, end, rank = self.start[rows].tolist(), self.end[rows].tolist(), self.facts.rank[rows].tolist()
        sends = (IS_SEND[kind[rows]] | _COLLECTIVE[kind[rows]]).tolist()
        free: list[int] = []
        for i, row in enumerate(rows.tolist()):
            if not i or rank[i] != rank[i - 1]:
                free = [0, 0]  # receives above, sends below, more lines where they overlap
            order = ([1, 0] if sends[i] else [0, 1]) + list(range(2, len(free)))
            line = next((k for k in order if free[k] <= start[i]), len(free))
            if line == len(free):
                free.append(0)
            free[line] = max(end[i], free[line])
            lane[row] = COMM + line
        return lane

    @cached_property
    def comm_lines(self) -> list[int]:
        """Lines for transfers of each rank: at least 2, at most MOST_LANES."""
        top = np.full(self.ranks, 2)
        np.maximum.at(top, self.facts.rank, np.maximum(self.lane, 0))
        return np.minimum(top, MOST_LANES).tolist()

    @cached_property
    def busy(self) -> list[np.ndarray]:
        """[rank]: the union of its compute as rows (start, end)."""
        return [self._union(r, self.lane == COMPUTE) for r in range(self.ranks)]

    def _union(self, rank: int, rows: np.ndarray) -> np.ndarray:
        a, b = self.program.order.start[rank : rank + 2]
        hit = rows[a:b] & (self.end[a:b] > self.start[a:b])
        start, end = self.start[a:b][hit], self.end[a:b][hit]
        if not len(start):
            return np.empty((0, 2), dtype=np.int64)
        by = np.argsort(start, kind="stable")
        start, end = start[by], np.maximum.accumulate(end[by])
        new = np.r_[True, start[1:] > end[:-1]]
        last = np.r_[np.flatnonzero(new)[1:] - 1, len(end) - 1]
        return np.stack([start[new], end[last]], axis=1)

    @cached_property
    def bubbles(self) -> Bubbles:
        parts = []
        for r in range(self.ranks):
            used, compute = self._union(r, self.drawn), self.busy[r]
            edges = np.concatenate([[0], used.reshape(-1), [self.makespan]]).reshape(-1, 2)
            edges = edges[edges[:, 1] > edges[:, 0]]
            first, last = (compute[0, 0], compute[-1, 1]) if len(compute) else (self.makespan, self.makespan)
            phase = np.where(edges[:, 1] <= first, 0, np.where(edges[:, 0] >= last, 2, 1))
            parts.append((np.full(len(edges), r), edges[:, 0], edges[:, 1], phase))
        columns = [
            np.concatenate([p[i] for p in parts]) if parts else np.empty(0, dtype=np.int64) for i in range(4)
        ]
        return Bubbles(*columns)

    @cached_property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows of sends and of the receives that match them."""
        if self.program.inserted:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        transfers = Transfers(self.facts)
        sends, receives = transfers.pairs
        return transfers.rows[sends], transfers.rows[receives]

    @cached_property
    def payload(self) -> np.ndarray:
        """Bytes that a transfer carries, for each row; -1 where that is not known."""
        out = np.full(len(self.program.order), -1, dtype=object)
        if self.usage is not None:
            held = self.usage.intervals
            received = np.flatnonzero(IS_TRANSFER[self.program.order.kind[held.row]])
            out[held.row[received]] = held.size[received]
            sends, receives = self.pairs
            out[sends] = out[receives]
        return out

    # ---- memory ------------------------------------------------------------------------------------

    @cached_property
    def usage(self) -> Usage | None:
        return Usage(self.facts) if self.sound and not self.program.inserted else None

    @cached_property
    def in_bytes(self) -> bool:
        """Whether memory is drawn in bytes; else microbatches in flight are."""
        return self.usage is not None and (any(self.usage.static) or bool(np.any(self.usage.live)))

    @cached_property
    def tracks(self) -> list[Track]:
        """One for each rank; empty if there is nothing to count."""
        if self.usage is None:
            return []
        usage, n = self.usage, len(self.program.order)
        if self.in_bytes:
            live, i = usage.live, usage.intervals
            change = np.zeros(n + 1, dtype=live.dtype)
            np.add.at(change, i.start, i.size)
            np.subtract.at(change, i.end, i.size)
            between = np.cumsum(change)[:n]  # what stays when a row has ended
            static, memory = usage.static, self.program.memory
            limits = memory.capacity if memory is not None else (None,) * self.ranks
        else:
            live, between = _stashes(self.facts)
            static, limits = [0] * self.ranks, (None,) * self.ranks
        return [self._track(r, live, between, static[r], limits[r]) for r in range(self.ranks)]

    def _track(
        self, rank: int, live: np.ndarray, between: np.ndarray, static: int, limit: int | None
    ) -> Track:
        """Steps at the start and the end of what the rank does in its order; its transfers count for the gap they are listed in."""
        a, b = (int(x) for x in self.program.order.start[rank : rank + 2])
        rows = np.arange(a, b)
        ran = rows[(self.start[a:b] >= 0)]
        host = ran[IS_COMPUTE[self.program.order.kind[ran]]]
        host = host[self.half[host] != 2]
        peak = static + (int(live[ran].max()) if len(ran) else 0)
        if not len(host):
            return Track(
                np.array([0]), np.array([static + (int(live[ran].max()) if len(ran) else 0)]), peak, limit
            )
        stop = int(ran[-1]) + 1
        tail = host + (self.half[host] == 1)
        upto = np.r_[host[1:], stop]
        gap = np.array(
            [
                max(int(between[t]), *(int(x) for x in live[t + 1 : u]), 0) if u > t + 1 else int(between[t])
                for t, u in zip(tail.tolist(), upto.tolist())
            ],
            dtype=object,
        )
        first = max((int(x) for x in live[a : host[0]]), default=0)
        time = np.r_[0, np.stack([self.start[host], self.end[host]], axis=1).reshape(-1)]
        value = (
            np.r_[[first], np.stack([live[host].astype(object), gap], axis=1).reshape(-1)].astype(float)
            + static
        )
        keep = np.r_[time[1:] > time[:-1], True]
        value = np.maximum.reduceat(value, np.r_[0, np.flatnonzero(keep[:-1]) + 1])
        return Track(time[keep].astype(np.int64), value, peak, limit)

    @cached_property
    def most(self) -> float:
        """The top of the memory scale, in the units of the tracks."""
        return float(
            max([1, *(t.peak for t in self.tracks), *(t.limit for t in self.tracks if t.limit is not None)])
        )

    def amount(self, value: float) -> str:
        return show_bytes(int(value)) if self.in_bytes else f"{int(value)} in flight"

    # ---- deadlock ----------------------------------------------------------------------------------

    @cached_property
    def circle(self) -> list[Leg]:
        return legs(self.program, self.walk) if self.walk else []

    @cached_property
    def ghosts(self) -> list[Ghost]:
        """For each rank that stops, what would come next, up to the last operation of the circle; of many the first ones and those of the circle."""
        if not self.walk:
            return []
        blocked = {x for leg in self.circle for x in (leg.stop, leg.owed)}
        out = []
        for r in range(self.ranks):
            a, b = (int(x) for x in self.program.order.start[r : r + 2])
            left = [
                row
                for row in (a + np.flatnonzero((self.start[a:b] < 0) & self.facts.has_event[a:b])).tolist()
            ]
            if not left:
                continue
            mine = [x for x in left if x in blocked]
            left = left[: left.index(mine[-1]) + 1] if mine else left[:1]
            keep = (
                sorted(set(mine) | set(left[: max(MOST_GHOSTS - 2 * len(mine), 1)]))
                if len(left) > MOST_GHOSTS
                else left
            )
            slot, before = 0, None
            for row in keep:
                skipped = left.index(row) - (left.index(before) + 1 if before is not None else 0)
                if skipped:
                    out.append(Ghost(r, slot, -1, False, skipped))
                    slot += 1
                out.append(Ghost(r, slot, row, row in blocked))
                slot, before = slot + 1, row
        return out

    @cached_property
    def arrows(self) -> list[tuple[int, int]]:
        """(row that waits, row it waits for), in the order of the circle."""
        return (
            [(leg.stop, after.owed) for leg, after in zip(self.circle, self.circle[1:] + self.circle[:1])]
            if len(self.circle) > 1
            else []
        )

    # ---- figures -----------------------------------------------------------------------------------

    def time(self, ns: float) -> str:
        return show_time(ns, self.unit)

    @cached_property
    def bubble_rate(self) -> float:
        """Share of the ranks' time in which they neither compute nor transfer."""
        total = self.makespan * self.ranks
        return float((self.bubbles.end - self.bubbles.start).sum() / total) if total else 0.0

    @cached_property
    def steady(self) -> Period | None:
        """Of what is predicted: a measured run never repeats itself to the nanosecond."""
        return None if self.walk or self.measured else find_period(self.facts, self.end)

    @property
    def steady_at_length(self) -> str:
        """`35.5 units a microbatch (142 units every 4)`, or `none`."""
        found = self.steady
        if found is None:
            return "none"
        whole = (
            f" ({self.time(int(found.rate * found.every))} every {found.every})" if found.every > 1 else ""
        )
        return f"{self.time(float(found.rate))} a microbatch{whole}"

    @cached_property
    def figures(self) -> list[tuple[str, str]]:
        """What the caption and the table say, in order."""
        kind = self.program.order.kind
        time = self.time(self.makespan)
        out = (
            [("stops at", time)] if self.walk else [("makespan", time), ("bubble", f"{self.bubble_rate:.1%}")]
        )
        if not self.walk and not self.measured:
            out.append(("steady period", self.steady_at_length))
        if self.tracks:
            fullest = max(range(self.ranks), key=lambda r: self.tracks[r].peak)
            track = self.tracks[fullest]
            if self.in_bytes:
                out.append(
                    (
                        "peak memory",
                        f"{show_bytes(track.peak)} on rank {fullest}"
                        + (f" of {show_bytes(track.limit)}" if track.limit is not None else ""),
                    )
                )
            out.append(("in flight", str(max(in_flight(self.facts), default=0))))
        out.append(
            (
                "transfers",
                f"{int(np.count_nonzero(IS_SEND[kind])):,}" if not self.program.inserted else "not placed",
            )
        )
        out.append(("operations", f"{int(np.count_nonzero(IS_COMPUTE[kind])):,}"))
        if self.in_bytes and self.usage.static[fullest]:
            parts = [
                f"{name} {show_bytes(size)}"
                for name, size in zip(STATIC, self.usage.static_parts[fullest])
                if size
            ]
            out.append((f"static on rank {fullest}", " + ".join(parts)))
        return out

    @property
    def headline(self) -> str:
        program = self.program
        return f"{self.name}: {program.ranks} rank{'s' * (program.ranks != 1)}, {program.microbatches} microbatch{'es' * (program.microbatches != 1)}, {self.transport}"

    @property
    def transport(self) -> str:
        return (
            "transfers at once" if self.timeline.model == "free" else f"transfers under {self.timeline.model}"
        )


def _stashes(facts: Facts) -> tuple[np.ndarray, np.ndarray]:
    """Microbatches in flight while each row runs, and when it has ended."""
    live = stash_counts(facts, "X")
    ends = np.isin(facts.kind, [int(Kind.B), int(Kind.I)])
    after = np.r_[live[1:], 0]
    same = np.r_[facts.rank[1:] == facts.rank[:-1], False]
    return live, np.where(ends & same, np.minimum(after, live), np.where(ends, np.maximum(live - 1, 0), live))


def show_time(ns: float, unit: int = 0) -> str:
    """A time as people read it; in units if `unit` ns are one."""
    if unit:
        return f"{ns / unit:.10g} units" if ns != unit else "1 unit"
    for name, size in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if abs(ns) >= size:
            return f"{ns / size:.4g} {name}" if abs(ns) < 1000 * size else f"{ns / size:,.0f} {name}"
    return f"{ns:.0f} ns"


def ticks(until: float, most: int, unit: int = 0) -> list[float]:
    """Round times from 0 up to `until`, about `most` of them."""
    if until <= 0:
        return [0]
    rough = until / max(most, 1)
    base = (unit or 1) if unit else 1
    size = 10 ** np.floor(np.log10(rough / base)) * base
    step = next(size * k for k in (1, 2, 5, 10) if size * k >= rough)
    return [float(step * i) for i in range(int(until / step) + 1)]
