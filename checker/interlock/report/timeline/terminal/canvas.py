"""One scene on a grid of columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from interlock.program.facts import IS_SEND, IS_TRANSFER
from interlock.program.kinds import TRANSFER, Kind
from interlock.report.style import display_width, safe
from interlock.report.timeline.axis import show_tick, ticks
from interlock.report.timeline.lanes import COMPUTE, Half
from interlock.report.timeline.layout import Scene
from interlock.report.timeline.terminal.signs import (
    ASCII,
    LETTERS,
    STEP_LETTER,
    TOO_MUCH,
    UNICODE,
    WORDS,
    paint,
    style,
)
from interlock.report.timeline.tracks import Track
from interlock.rules.memory import show_bytes

WIDE_ENOUGH = 40  # columns for time; with fewer the capacities are left out
LEAST_ROOM = 16
TICK_STEP = 14  # columns between two times of the axis, at least
LEFT_OUT = -1  # stands in the list of ranks for those in the middle that are not drawn
FORWARD_LINES = (Kind.SEND_F, Kind.RECV_F, Kind.SEND, Kind.RECV)


@dataclass(frozen=True)
class _Cells:
    """Drawn rows of a rank in the order of time, with their first and last column (exclusive)."""

    row: np.ndarray
    first: np.ndarray
    last: np.ndarray

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        return zip(self.row.tolist(), self.first.tolist(), self.last.tolist())


class Canvas:
    """`until`: the end of an axis of time that several scenes share.

    Without it the peaks of memory stand at the right.
    """

    def __init__(self, scene: Scene, width: int, color: bool, box: bool, until: int | None = None):
        self.scene, self.width, self.color = scene, width, color
        self.signs = UNICODE if box else ASCII
        self.left = len(f"rank {max(scene.ranks - 1, 0)}") + 2
        self.short = False
        tracks = scene.tracks if until is None else []
        self.short = width - self.left - self._peak_width(tracks) < WIDE_ENOUGH
        self.room = max(width - self.left - self._peak_width(tracks), LEAST_ROOM)
        self.until = max(until or scene.makespan, 1)

    @property
    def indent(self) -> str:
        return " " * self.left

    @property
    def _end(self) -> int:
        """The column where the run ends."""
        return int(np.ceil(self.scene.makespan * self.room / self.until))

    @cached_property
    def _critical(self) -> np.ndarray:
        """Mask of the rows of the critical path."""
        critical = np.zeros(len(self.scene.program.order), dtype=bool)
        critical[list(self.scene.timeline.critical)] = True
        return critical

    def _region_of(self, stage: int) -> int:
        regions = self.scene.stage_region
        return regions[stage] if 0 <= stage < len(regions) else -1

    def bold(self, text: str) -> str:
        return paint(text, "1") if self.color else text

    def dim(self, text: str) -> str:
        return paint(text, "2") if self.color else text

    # ---- ranks -------------------------------------------------------------------------------------

    def draw_ranks(self, room: int | None, memory: bool = True, transfers: bool = True) -> Iterator[str]:
        """`room`: lines there are for them; None: as many as it takes."""
        memory = memory and bool(self.scene.tracks)
        most = None if room is None else max(room // (1 + transfers + memory), 1)
        shown = self._list_ranks(most)
        for rank in shown:
            if rank == LEFT_OUT:
                yield self.dim(f"{self.signs.more_ranks} {self.scene.ranks - len(shown) + 1} more ranks")
                continue
            yield f"{f'rank {rank}':<{self.left}}{self._draw_compute(rank)}"
            if transfers:
                yield self.indent + self._draw_transfers(rank)
            if memory:
                yield self.indent + self._draw_memory(rank)

    def _list_ranks(self, most: int | None) -> list[int]:
        ranks = self.scene.ranks
        if most is None or ranks <= most:
            return list(range(ranks))
        head = max((most + 1) // 2, 1)
        return [*range(head), LEFT_OUT, *range(ranks - (most - head), ranks)]

    def _cells(self, rank: int, drawn: np.ndarray) -> _Cells:
        """Of the rows of the rank in a mask."""
        scene = self.scene
        a, b = (int(x) for x in scene.program.order.start[rank : rank + 2])
        rows = a + np.flatnonzero(drawn[a:b])
        rows = rows[np.argsort(scene.start[rows], kind="stable")]
        scale = self.room / self.until
        first = np.minimum(np.rint(scene.start[rows] * scale).astype(int), self.room - 1)
        last = np.maximum(np.rint(scene.end[rows] * scale).astype(int), first)
        return _Cells(rows, first, last)

    def _draw_compute(self, rank: int) -> str:
        scene = self.scene
        cells = self._cells(rank, (scene.lane == COMPUTE) & (scene.end > scene.start))
        owner = np.full(self.room, -1)  # of each column a number of `cells`, or none
        for i, (_, first, last) in enumerate(cells):
            own = owner[first : max(last, first + 1)]
            own[(own < 0) | (last > first)] = i
        return "".join(self._draw_run(cells, int(owner[a]), a, b) for a, b in _runs(owner))

    def _draw_run(self, cells: _Cells, number: int, first: int, last: int) -> str:
        """Columns [first, last) of one owner."""
        if number < 0:
            idle = self.signs.idle * max(min(last, self._end) - first, 0)
            return self.dim(idle) + " " * (last - first - len(idle))
        row, shares = int(cells.row[number]), number + 1 < len(cells.row)
        shares = shares and self.scene.half[row] == Half.UPPER
        return self._draw_box(row, last - first, int(cells.row[number + 1]) if shares else None)

    def _draw_box(self, row: int, width: int, other: int | None) -> str:
        """`other`: the operation that shares the box."""
        letter = LETTERS.get(int(self.scene.program.order.kind[row]), STEP_LETTER)
        label = self._label(
            row, other, width if self.color else width - 1
        )  # of the fill at least one is seen
        if not self.color:
            return label + self.signs.fill.get(letter, "#") * (width - len(label))
        if width > len(label) + 1:
            label = " " + label
        text = label + " " * (width - len(label))
        region = self._region_of(int(self.scene.program.order.stage[row]))
        if letter == "W" and not text.strip():
            text = self.signs.fill["W"] * width
        edge = self.signs.edge if self.signs.edge and width > 2 and text[0] == " " else text[0]
        return paint(edge + text[1:], style(region, letter) + (";1;4" if self._critical[row] else ""))

    def _label(self, row: int, other: int | None, room: int) -> str:
        """The longest name that fits."""
        program = self.scene.program
        order, name = program.order, program.show(row)
        letter, microbatch = LETTERS.get(int(order.kind[row]), STEP_LETTER), int(order.mb[row])
        if other is None:
            forms = (name, f"{letter}{microbatch}", str(microbatch))
        else:
            shared = int(order.mb[other])
            forms = (f"{name}+{program.show(other)}", f"{microbatch}+{shared}", str(microbatch))
        return next((form for form in forms if len(form) <= room), "")

    def _draw_transfers(self, rank: int) -> str:
        """Arrow heads where a transfer begins, and a line while it lasts.

        Filled for a send, hollow for a receive, down to a higher rank and up to a lower.
        """
        kind, cells = self.scene.program.order.kind, self._cells(rank, self.scene.lane > COMPUTE)
        columns = [" "] * self.room
        for row, first, last in cells:
            line = self.signs.forward_line if kind[row] in FORWARD_LINES else self.signs.other_line
            for column in range(first + 1, last):
                if columns[column] == " ":
                    columns[column] = line
        for row, first, _ in cells:
            columns[first] = self._head(rank, row)
        return self.dim("".join(columns).rstrip())

    def _head(self, rank: int, row: int) -> str:
        kind, signs = self.scene.program.order.kind[row], self.signs
        if not IS_TRANSFER[kind]:
            return signs.collective
        down = self._peers[row] > rank
        if IS_SEND[kind]:
            return signs.send_down if down else signs.send_up
        return signs.receive_down if down else signs.receive_up

    @cached_property
    def _peers(self) -> np.ndarray:
        """Of each transfer the rank of its other end."""
        peers = np.full(len(self.scene.program.order), -1, dtype=np.int64)
        sends, receives = self.scene.pairs
        rank = self.scene.facts.rank
        peers[sends], peers[receives] = rank[receives], rank[sends]
        return peers

    def _draw_memory(self, rank: int) -> str:
        """The highest of each column, and the peak at the right."""
        track = self.scene.tracks[rank]
        bars = "".join(self._bar(track, value) for value in self._highest(track)[: self._end])
        peak = self._peak(track)
        if self.color and track.is_over:
            peak = paint(peak, f"1;{TOO_MUCH}")
        return bars + " " * (self.room - min(self._end, self.room) + 1) + peak

    def _highest(self, track: Track) -> list[float]:
        edges = np.arange(self.room + 1) * (self.until / self.room)
        begin = np.searchsorted(track.time, edges[:-1], side="right") - 1
        end = np.searchsorted(track.time, edges[1:], side="left")
        spans = zip(begin.tolist(), end.tolist())
        return [track.value[max(a, 0) : max(b, a + 1, 1)].max() for a, b in spans]

    def _bar(self, track: Track, value: float) -> str:
        if value <= 0:
            return " "
        bar = self.signs.levels[min(int(np.ceil(value / self.scene.memory_top * 8)), 8)]
        too_much = track.limit is not None and value > track.limit
        return paint(bar, TOO_MUCH) if self.color and too_much else bar

    def _peak(self, track: Track) -> str:
        if not self.scene.in_bytes:
            return f"{track.peak} in flight"
        limit = "" if track.limit is None or self.short else f" of {show_bytes(track.limit)}"
        return show_bytes(track.peak) + limit + ("!" if track.is_over else "")

    def _peak_width(self, tracks: Sequence[Track]) -> int:
        return max((display_width(self._peak(t)) + 1 for t in tracks), default=0)

    # ---- axis and legend ---------------------------------------------------------------------------

    def draw_axis(self) -> str:
        line = [" "] * (self.room + 12)
        most = min(len(line), self.width - self.left)
        for time in ticks(self.until, max(self.room // TICK_STEP, 1), self.scene.unit):
            at = int(time * self.room / self.until)
            label = self.signs.tick + show_tick(time, self.scene.unit)
            place = slice(at, at + len(label))
            if place.stop <= most and all(column == " " for column in line[place]):
                line[place] = label
        return self.dim(self.indent + "".join(line).rstrip()[: self.width - self.left])

    def draw_legend(self, scenes: Sequence[Scene] = (), transfers: bool = True) -> list[str]:
        """What signs and colours mean; of several scenes if given."""
        parts = list(self._legend(scenes or (self.scene,), transfers))
        lines, line = [], ""
        for part in parts:
            if line and len(_without_color(line)) + 3 + len(_without_color(part)) > self.width:
                lines.append(line)
                line = ""
            line += ("   " if line else "") + part
        return [*lines, line]

    def _legend(self, scenes: Sequence[Scene], transfers: bool) -> Iterator[str]:
        kinds = set().union(*(s.program.order.kind.tolist() for s in scenes))
        letters = [letter for letter in "FBIW" if Kind[letter] in kinds]
        if self.color:
            for region, name in dict.fromkeys(pair for s in scenes for pair in enumerate(s.regions)):
                samples = (paint(f" {letter} ", style(region, letter)) for letter in letters)
                yield f"{safe(name)} {' '.join(samples)}"
        else:
            yield from (f"{letter}{self.signs.fill[letter] * 2} {WORDS[letter]}" for letter in letters)
        if any((s.end > s.start)[s.program.order.kind == Kind.STEP].any() for s in scenes):
            yield "# step"
        yield f"{self.signs.idle * 3} idle"
        if transfers and kinds & TRANSFER:
            yield self.signs.transfers
        if self.color and any(s.timeline.critical and not s.walk for s in scenes):
            yield f"{paint('critical path', '1;4')}"


def _runs(owner: np.ndarray) -> Iterator[tuple[int, int]]:
    """First and last index (exclusive) of equal neighbours."""
    cuts = np.r_[0, np.flatnonzero(owner[1:] != owner[:-1]) + 1, len(owner)]
    return zip(cuts[:-1].tolist(), cuts[1:].tolist())


def _without_color(text: str) -> str:
    return re.sub("\x1b\\[[0-9;]*m", "", text)
