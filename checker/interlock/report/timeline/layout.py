"""What is where in the picture of a run, before anything is drawn: what every renderer draws from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from interlock.program.facts import IS_COMPUTE, IS_SEND, IS_TRANSFER, Facts
from interlock.program.ir import Program
from interlock.program.kinds import Kind
from interlock.report.timeline import blocked, lanes, tracks
from interlock.report.timeline.axis import UNIT, show_time
from interlock.report.timeline.blocked import Ghost
from interlock.report.timeline.lanes import Bubbles
from interlock.report.timeline.tracks import Track
from interlock.rules.communication import Transfers
from interlock.rules.memory import in_flight, show_bytes
from interlock.rules.usage import STATIC, Usage
from interlock.text.source import Sources
from interlock.timing.figures import Period, find_period
from interlock.timing.timeline import Timeline
from interlock.witness.walk import Leg, legs


@dataclass(frozen=True)
class Scene:
    """A run and what is said of it.

    verdict   a word of verdict.Verdict; `summary`: the line about it
    unit      ns that are one unit; 0: real times
    walk      the closed walk of waits, if it stops
    notes     what a caption must say
    marks     rows a finding is about
    sound     its memory may be counted
    measured  and not predicted
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
    sound: bool = True
    measured: bool = False

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

    # ---- regions -----------------------------------------------------------------------------------

    @cached_property
    def regions(self) -> list[str]:
        """Names, that with most compute operations first."""
        order, stages = self.program.order, self.program.stages
        names = list(dict.fromkeys(s.region for s in stages))
        rows = np.flatnonzero(IS_COMPUTE[order.kind] & self.facts.stage_ok)
        counts = [0] * len(names)
        if len(rows):
            index = np.array([names.index(s.region) for s in stages] or [0])
            counts = np.bincount(index[order.stage[rows]], minlength=len(names)).tolist()
        return [names[i] for i in sorted(range(len(names)), key=lambda i: (-counts[i], i))]

    @cached_property
    def stage_region(self) -> list[int]:
        return [self.regions.index(s.region) for s in self.program.stages]

    @cached_property
    def stage_chunk(self) -> list[int]:
        """Of each stage how many of its region come before it on its rank: chunks of interleaving."""
        before: dict[tuple, int] = {}
        chunks = []
        for s in self.program.stages:
            key = (s.region, s.rank)
            chunks.append(before.get(key, 0))
            before[key] = chunks[-1] + 1
        return chunks

    @property
    def has_whole_backward(self) -> bool:
        """Whether a backward is one operation anywhere, and not only I and W."""
        return bool(np.any(self.program.order.kind == Kind.B))

    # ---- lanes -------------------------------------------------------------------------------------

    @cached_property
    def drawn(self) -> np.ndarray:
        """Mask of the rows that have a place in the picture."""
        return lanes.find_drawn(self.timeline)

    @cached_property
    def half(self) -> np.ndarray:
        """Of each row its lanes.Half."""
        return lanes.find_halves(self.facts)

    @cached_property
    def lane(self) -> np.ndarray:
        """Of each row lanes.COMPUTE, lanes.COMM + line, or lanes.NOT_DRAWN."""
        return lanes.assign_lanes(self.timeline, self.facts, self.drawn)

    @cached_property
    def comm_lines(self) -> list[int]:
        """Lines for transfers of each rank."""
        return lanes.count_lines(self.lane, self.facts, self.ranks)

    @cached_property
    def busy(self) -> list[np.ndarray]:
        """[rank]: the union of its compute as rows (start, end)."""
        compute = self.lane == lanes.COMPUTE
        return [lanes.unite_intervals(self.timeline, r, compute) for r in range(self.ranks)]

    @cached_property
    def bubbles(self) -> Bubbles:
        return lanes.find_bubbles(self.timeline, self.drawn, self.busy, self.makespan)

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
        if self.in_bytes:
            return tracks.byte_tracks(self.timeline, self.usage, self.half)
        return tracks.stash_tracks(self.timeline, self.facts, self.half)

    @cached_property
    def memory_top(self) -> float:
        """The top of the memory scale, in the units of the tracks."""
        limits = [t.limit for t in self.tracks if t.limit is not None]
        return float(max([1, *(t.peak for t in self.tracks), *limits]))

    # ---- deadlock ----------------------------------------------------------------------------------

    @cached_property
    def circle(self) -> list[Leg]:
        return legs(self.program, self.walk) if self.walk else []

    @cached_property
    def ghosts(self) -> list[Ghost]:
        """What would come next on each rank that stops."""
        return blocked.list_ghosts(self.timeline, self.facts, self.circle) if self.walk else []

    @cached_property
    def arrows(self) -> list[tuple[int, int]]:
        """(row that waits, row it waits for), in the order of the circle."""
        return blocked.list_waits(self.circle)

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
    def steady_period(self) -> str:
        """`35.5 units a microbatch (142 units every 4)`, or `none`."""
        found = self.steady
        if found is None:
            return "none"
        text = f"{self.time(float(found.rate))} a microbatch"
        if found.every > 1:
            text += f" ({self.time(int(found.rate * found.every))} every {found.every})"
        return text

    @cached_property
    def figures(self) -> list[tuple[str, str]]:
        """What the caption and the table say, in order."""
        kind = self.program.order.kind
        sends = int(np.count_nonzero(IS_SEND[kind]))
        return [
            *self._time_figures(),
            *self._memory_figures(),
            ("transfers", "not placed" if self.program.inserted else f"{sends:,}"),
            ("operations", f"{int(np.count_nonzero(IS_COMPUTE[kind])):,}"),
            *self._static_figures(),
        ]

    def _time_figures(self) -> list[tuple[str, str]]:
        makespan = self.time(self.makespan)
        if self.walk:
            return [("stops at", makespan)]
        figures = [("makespan", makespan), ("bubble", f"{self.bubble_rate:.1%}")]
        return figures if self.measured else [*figures, ("steady period", self.steady_period)]

    @property
    def _largest_rank(self) -> int:
        """The rank with the highest peak, the first of several."""
        return max(range(self.ranks), key=lambda r: self.tracks[r].peak)

    def _memory_figures(self) -> list[tuple[str, str]]:
        if not self.tracks:
            return []
        stashes = ("in flight", str(max(in_flight(self.facts), default=0)))
        if not self.in_bytes:
            return [stashes]
        track = self.tracks[self._largest_rank]
        limit = "" if track.limit is None else f" of {show_bytes(track.limit)}"
        return [("peak memory", f"{show_bytes(track.peak)} on rank {self._largest_rank}{limit}"), stashes]

    def _static_figures(self) -> list[tuple[str, str]]:
        rank = self._largest_rank if self.in_bytes else None
        if self.usage is None or rank is None or not self.usage.static[rank]:
            return []
        parts = zip(STATIC, self.usage.static_parts[rank])
        sizes = [f"{name} {show_bytes(size)}" for name, size in parts if size]
        return [(f"static on rank {rank}", " + ".join(sizes))]

    @property
    def headline(self) -> str:
        ranks, microbatches = self.program.ranks, self.program.microbatches
        return (
            f"{self.name}: {ranks} rank{'s' * (ranks != 1)}, "
            f"{microbatches} microbatch{'es' * (microbatches != 1)}, {self.transport}"
        )

    @property
    def transport(self) -> str:
        model = self.timeline.model
        return "transfers at once" if model == "free" else f"transfers under {model}"
