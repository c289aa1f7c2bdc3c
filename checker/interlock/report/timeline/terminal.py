"""A run in a terminal: for each rank a line of compute, one of transfers, one of memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from interlock.program.facts import IS_SEND, IS_TRANSFER
from interlock.program.kinds import TRANSFER, Kind
from interlock.report.style import display_width, safe
from interlock.report.timeline.axis import show_time, ticks
from interlock.report.timeline.lanes import COMPUTE
from interlock.report.timeline.layout import Scene
from interlock.report.timeline.palette import HUES_256
from interlock.rules.memory import show_bytes
from interlock.witness.lines import picture

LETTERS = {int(Kind.F): "F", int(Kind.B): "B", int(Kind.I): "I", int(Kind.W): "W", int(Kind.LOSS): "L"}
FILL = {"F": "░", "I": "▒", "B": "▓", "W": "╱", "L": "•"}
ASCII_FILL = {"F": "-", "I": "+", "B": "=", "W": "/", "L": "*"}
WORDS = {"F": "forward", "B": "backward", "I": "backward, input half", "W": "backward, weight half"}
EIGHTHS = " ▁▂▃▄▅▆▇█"
ASCII_LEVELS = " .:-=+*#%"
NARROWEST = 40
WIDE_ENOUGH = 40  # columns for time; with fewer the capacities are left out


def render(
    scene: Scene, *, width: int = 100, height: int | None = None, color: bool = False, box: bool = True
) -> str:
    """Lines of at most `width` columns; ranks are left out in the middle beyond `height` lines. `box`: more than ASCII may be written."""
    draw = _Draw(scene, max(width, NARROWEST), color, box)
    lines = [*_head(scene, draw), ""]
    room = None if height is None else max(height - len(lines) - 8, 3)
    lines += draw.ranks(room)
    lines += [draw.axis(), "", *_foot(scene, draw)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def compare(
    scenes: Sequence[Scene],
    table: Sequence[Sequence[str]],
    *,
    width: int = 100,
    color: bool = False,
    box: bool = True,
) -> str:
    """The table, then the compute lines of every schedule over one axis of time."""
    width = max(width, NARROWEST)
    until = max(s.makespan for s in scenes)
    blocks = _columns(table, width, box, color)
    for scene in scenes:
        draw = _Draw(scene, width, color, box, until)
        blocks += [
            "",
            draw.bold(f"{scene.name}  {scene.figures[0][1]}") + (f"  ({scene.path})" if scene.path else ""),
        ]
        blocks += draw.ranks(12, memory=False, transfers=False)
    blocks += [
        draw.axis(),
        "",
        *draw.legend(scenes, transfers=False),
        *(_note(n, width) for n in dict.fromkeys(n for s in scenes for n in s.notes)),
    ]
    return "\n".join(line.rstrip() for line in blocks) + "\n"


def _columns(table: Sequence[Sequence[str]], width: int, box: bool, color: bool) -> list[str]:
    """Rows of cells as aligned columns; the first row heads them, the first column is text, the others are figures."""
    table = [[safe(cell) for cell in row] for row in table]
    widths = [max(display_width(row[i]) for row in table) for i in range(len(table[0]))]
    pad = lambda cell, i: (
        cell + " " * (widths[i] - display_width(cell))
        if i in (0, len(widths) - 1)
        else " " * (widths[i] - display_width(cell)) + cell
    )
    lines = ["  ".join(pad(cell, i) for i, cell in enumerate(row)) for row in table]
    rule = ("─" if box else "-") * min(max(map(display_width, lines)), width)
    return [f"\x1b[1m{lines[0]}\x1b[0m" if color else lines[0], rule, *lines[1:]]


def _head(scene: Scene, draw: _Draw) -> Iterator[str]:
    yield draw.bold(safe(scene.headline))
    yield safe(scene.summary) if scene.summary else scene.verdict


def _foot(scene: Scene, draw: _Draw) -> Iterator[str]:
    yield from draw.legend()
    yield from _wrapped([f"{name} {value}" for name, value in scene.figures], draw.width)
    if scene.timeline.critical and not scene.walk:
        yield from _wrapped(["critical path: " + _path(scene)], draw.width)
    for note in scene.notes:
        yield _note(note, draw.width)
    if scene.walk:
        done = np.flatnonzero(scene.start >= 0)
        yield ""
        yield from (
            safe(line) for line in picture(scene.program, done.tolist(), scene.walk, draw.width, box=draw.box)
        )


def _note(text: str, width: int) -> str:
    return "\n".join(_wrapped(text.split(" "), width, " "))


def _wrapped(parts: Sequence[str], width: int, between: str = ", ") -> list[str]:
    lines, line = [], ""
    for part in map(safe, parts):
        if line and display_width(line) + display_width(between) + display_width(part) > width:
            lines.append(line)
            line = ""
        line += (between if line else "") + part
    return [*lines, line] if line else lines


def _path(scene: Scene) -> str:
    """The critical path's operations on each rank it visits, in the order of time: `rank 0: 3, rank 1: 12, ...`."""
    rows = np.array([r for r in scene.timeline.critical if scene.lane[r] == COMPUTE], dtype=np.int64)
    if not len(rows):
        return "no compute"
    ranks = scene.facts.rank[rows]
    cuts = np.r_[0, np.flatnonzero(ranks[1:] != ranks[:-1]) + 1, len(rows)]
    name = scene.program.show
    parts = [
        f"rank {ranks[a]} {name(int(rows[a]))}" + (f" to {name(int(rows[b - 1]))}" if b - a > 1 else "")
        for a, b in zip(cuts[:-1], cuts[1:])
    ]
    if len(parts) > 7:
        parts = [*parts[:4], f"... {len(parts) - 6} more", *parts[-2:]]
    return "; ".join(parts)


class _Draw:
    """One scene on a grid of columns."""

    def __init__(self, scene: Scene, width: int, color: bool, box: bool, until: int | None = None):
        self.scene, self.width, self.color, self.box = scene, width, color, box
        self.left = len(f"rank {max(scene.ranks - 1, 0)}") + 2
        peaks = lambda: (
            max((display_width(self._peak(t)) + 1 for t in scene.tracks), default=0) if until is None else 0
        )
        self.short = False
        self.short = width - self.left - peaks() < WIDE_ENOUGH
        self.right = peaks()
        self.room = max(width - self.left - self.right, 16)
        self.until = max(until or scene.makespan, 1)
        self.critical = np.zeros(len(scene.program.order), dtype=bool)
        self.critical[list(scene.timeline.critical)] = True
        self.idle = "·" if box else "."

    def bold(self, text: str) -> str:
        return f"\x1b[1m{text}\x1b[0m" if self.color else text

    def dim(self, text: str) -> str:
        return f"\x1b[2m{text}\x1b[0m" if self.color else text

    # ---- ranks -------------------------------------------------------------------------------------

    def ranks(self, room: int | None, memory: bool = True, transfers: bool = True) -> list[str]:
        scene, lines = self.scene, []
        each = 1 + transfers + (memory and bool(scene.tracks))
        most = scene.ranks if room is None else max(room // each, 1)
        if scene.ranks <= most:
            shown = list(range(scene.ranks))
        else:
            head = max((most + 1) // 2, 1)
            shown = [*range(head), -1, *range(scene.ranks - (most - head), scene.ranks)]
        for r in shown:
            if r < 0:
                lines.append(
                    self.dim(f"{'⋮' if self.box else ':'} {scene.ranks - len(shown) + 1} more ranks")
                )
                continue
            lines.append(f"{f'rank {r}':<{self.left}}{self.compute(r)}")
            if transfers:
                lines.append(" " * self.left + self.transfers(r))
            if memory and scene.tracks:
                lines.append(" " * self.left + self.memory(r))
        return lines

    def _cells(self, rank: int, lane) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Drawn rows of a rank on `lane` in the order of time, with their first and last column (exclusive, at least one)."""
        scene = self.scene
        a, b = (int(x) for x in scene.program.order.start[rank : rank + 2])
        rows = a + np.flatnonzero(lane[a:b])
        rows = rows[np.argsort(scene.start[rows], kind="stable")]
        scale = self.room / self.until
        first = np.minimum(np.rint(scene.start[rows] * scale).astype(int), self.room - 1)
        last = np.maximum(np.rint(scene.end[rows] * scale).astype(int), first)
        return rows, first, last

    def compute(self, rank: int) -> str:
        scene = self.scene
        rows, first, last = self._cells(rank, (scene.lane == COMPUTE) & (scene.end > scene.start))
        owner = np.full(self.room, -1)
        for i, (a, b) in enumerate(zip(first.tolist(), last.tolist())):
            owner[a : max(b, a + 1)] = np.where(
                (owner[a : max(b, a + 1)] < 0) | (b > a), i, owner[a : max(b, a + 1)]
            )
        end = int(np.ceil(scene.makespan * self.room / self.until))
        out = []
        for a, b in _runs(owner):
            if owner[a] < 0:
                idle = self.idle * max(min(b, end) - a, 0)
                out.append(self.dim(idle) + " " * (b - a - len(idle)))
            else:
                i = int(owner[a])
                both = i + 1 < len(rows) and scene.half[rows[i]] == 1
                out.append(self._box(int(rows[i]), b - a, int(rows[i + 1]) if both else None))
        return "".join(out)

    def _box(self, row: int, width: int, other: int | None) -> str:
        o = self.scene.program.order
        kind, stage, mb = LETTERS.get(int(o.kind[row]), "S"), int(o.stage[row]), int(o.mb[row])
        forms = [self.scene.program.show(row), f"{kind}{mb}", str(mb), ""]
        if other is not None:
            forms = [f"{forms[0]}+{self.scene.program.show(other)}", f"{mb}+{int(o.mb[other])}", *forms[2:]]
        free = width if self.color else width - 1  # without colour the fill says which kind it is
        label = next((f for f in forms if len(f) <= free), "")
        fill = " " if self.color else (FILL if self.box else ASCII_FILL).get(kind, "#")
        if self.color and width > len(label) + 1:
            label = " " + label
        text = label + fill * (width - len(label))
        if not self.color:
            return text
        light, dark = (
            HUES_256[self.scene.stage_region[stage] % len(HUES_256)]
            if 0 <= stage < len(self.scene.stage_region)
            else (250, 241)
        )
        style = {
            "F": f"48;5;{light};38;5;16",
            "B": f"48;5;{dark};38;5;231",
            "I": f"48;5;{dark};38;5;231",
            "W": f"48;5;254;38;5;{dark}",
        }.get(kind, "7")
        if kind == "W" and not text.strip():
            text = ("╱" if self.box else "/") * width
        more = ";1;4" if self.critical[row] else ""
        edge = "▏" if self.box and width > 2 and text[0] == " " else text[0]
        return f"\x1b[{style}{more}m{edge}{text[1:]}\x1b[0m"

    def transfers(self, rank: int) -> str:
        """Arrow heads where a transfer begins: filled for a send, hollow for a receive, down to a higher rank and up to a lower; dashes while it lasts."""
        scene, kind = self.scene, self.scene.program.order.kind
        rows, first, last = self._cells(rank, scene.lane > COMPUTE)
        peer = self._peers
        cells = [" "] * self.room
        for row, a, b in zip(rows.tolist(), first.tolist(), last.tolist()):
            line = (
                ("─" if self.box else "-")
                if kind[row] in (Kind.SEND_F, Kind.RECV_F, Kind.SEND, Kind.RECV)
                else ("╌" if self.box else "~")
            )
            for c in range(a + 1, b):
                if cells[c] == " ":
                    cells[c] = line
        for row, a in zip(rows.tolist(), first.tolist()):
            if IS_TRANSFER[kind[row]]:
                down = peer[row] > rank
                send = bool(IS_SEND[kind[row]])
                head = ("▼" if down else "▲") if send else ("▿" if not down else "▵")
                cells[a] = head if self.box else ("v" if down else "^") if send else "r"
            else:
                cells[a] = "Σ" if self.box else "S"
        return self.dim("".join(cells).rstrip())

    @property
    def _peers(self) -> np.ndarray:
        if not hasattr(self, "_peer"):
            self._peer = np.full(len(self.scene.program.order), -1, dtype=np.int64)
            sends, receives = self.scene.pairs
            self._peer[sends], self._peer[receives] = (
                self.scene.facts.rank[receives],
                self.scene.facts.rank[sends],
            )
        return self._peer

    def memory(self, rank: int) -> str:
        scene, track = self.scene, self.scene.tracks[rank]
        levels = EIGHTHS if self.box else ASCII_LEVELS
        edges = np.arange(self.room + 1) * (self.until / self.room)
        begin = np.searchsorted(track.time, edges[:-1], side="right") - 1
        finish = np.searchsorted(track.time, edges[1:], side="left")
        top = [
            track.value[max(a, 0) : max(b, a + 1, 1)].max() for a, b in zip(begin.tolist(), finish.tolist())
        ]
        end = int(np.ceil(scene.makespan * self.room / self.until))
        over = track.limit is not None and track.peak > track.limit
        bars = ""
        for column, value in enumerate(top[:end]):
            bar = levels[min(int(np.ceil(value / scene.memory_top * 8)), 8)] if value > 0 else " "
            bars += f"\x1b[38;5;166m{bar}\x1b[0m" if self.color and over and value > track.limit else bar
        plain = self.room - min(end, len(top))
        peak = self._peak(track)
        return bars + " " * (plain + 1) + (f"\x1b[1;38;5;166m{peak}\x1b[0m" if self.color and over else peak)

    def _peak(self, track) -> str:
        if not self.scene.in_bytes:
            return f"{track.peak} in flight"
        over = "!" if track.limit is not None and track.peak > track.limit else ""
        return (
            show_bytes(track.peak)
            + (f" of {show_bytes(track.limit)}" if track.limit is not None and not self.short else "")
            + over
        )

    # ---- axis and legend -----------------------------------------------------------------------------

    def axis(self) -> str:
        line = [" "] * (self.room + 12)
        for t in ticks(self.until, max(self.room // 14, 1), self.scene.unit):
            at = int(t * self.room / self.until)
            label = ("╵" if self.box else "|") + (
                f"{t / self.scene.unit:g}" if self.scene.unit else "0" if not t else show_time(t)
            )
            if at + len(label) <= min(len(line), self.width - self.left) and all(
                c == " " for c in line[at : at + len(label)]
            ):
                line[at : at + len(label)] = label
        return self.dim(" " * self.left + "".join(line).rstrip()[: self.width - self.left])

    def legend(self, scenes: Sequence[Scene] = (), transfers: bool = True) -> list[str]:
        """What signs and colours mean; of several scenes if given."""
        scenes = scenes or (self.scene,)
        kinds = set().union(*(s.program.order.kind.tolist() for s in scenes))
        fill = FILL if self.box else ASCII_FILL
        used = [k for k in "FBIW" if int(Kind[k]) in kinds]
        if self.color:
            names = list(dict.fromkeys((i, name) for s in scenes for i, name in enumerate(s.regions)))
            parts = [f"{safe(name)} " + " ".join(self._sample(i, k) for k in used) for i, name in names]
        else:
            parts = [f"{k}{fill[k] * 2} {WORDS[k]}" for k in used]
        if any((s.end > s.start)[s.program.order.kind == Kind.STEP].any() for s in scenes):
            parts.append("# step")
        parts.append(f"{self.idle * 3} idle")
        if transfers and kinds & {int(k) for k in TRANSFER}:
            parts.append(
                "▼▲ sends to a higher, lower rank, ▿▵ receives"
                if self.box
                else "v^ sends to a higher, lower rank, r receives"
            )
        if self.color and any(s.timeline.critical and not s.walk for s in scenes):
            parts.append("\x1b[1;4mcritical path\x1b[0m")
        lines, line = [], ""
        for part in parts:
            if line and len(_plain(line)) + 3 + len(_plain(part)) > self.width:
                lines.append(line)
                line = ""
            line += ("   " if line else "") + part
        return [*lines, line]

    def _sample(self, region: int, kind: str) -> str:
        light, dark = HUES_256[region % len(HUES_256)]
        style = {
            "F": f"48;5;{light};38;5;16",
            "B": f"48;5;{dark};38;5;231",
            "I": f"48;5;{dark};38;5;231",
            "W": f"48;5;254;38;5;{dark}",
        }[kind]
        return f"\x1b[{style}m {kind} \x1b[0m"


def _runs(owner: np.ndarray) -> Iterator[tuple[int, int]]:
    cuts = np.r_[0, np.flatnonzero(owner[1:] != owner[:-1]) + 1, len(owner)]
    yield from zip(cuts[:-1].tolist(), cuts[1:].tolist())


def _plain(text: str) -> str:
    return re.sub("\x1b\\[[0-9;]*m", "", text)
