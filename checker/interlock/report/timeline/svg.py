"""A run as a still picture for papers and READMEs: text is text, dark where the reader prefers it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import accumulate

import numpy as np

from interlock.program.ir import Kind
from interlock.report.timeline.layout import COMM, COMPUTE, Scene, show_time, ticks
from interlock.report.timeline.palette import STOP, fills, ink
from interlock.rules.memory import show_bytes

COMPUTE_HEIGHT, LINE_HEIGHT, MEMORY_HEIGHT, GAP = 26, 6, 24, 10
TOP, LEFT, RIGHT = 66, 62, 14
MOST_RANKS = 32
CAPTION = 5.6  # of a letter there
CELL = 6.3  # of a letter in a table, generous
GLYPH = 6.7  # width of a digit at 11 px, generous
_KINDS = {int(Kind.F): "F", int(Kind.B): "B", int(Kind.I): "I", int(Kind.W): "W"}
_STYLE = """text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue","DejaVu Sans",sans-serif;font-size:11px}
.p{fill:#fff}.i{fill:#16181d}.s{fill:#5c6370}.l{fill:#f0f1f4}.g{fill:#e3e6eb}.m{fill:#c3c8d1}.d{stroke:#b9bfca}.c{stroke:#16181d}.h{paint-order:stroke;stroke:#fff;stroke-width:3px;stroke-linejoin:round}
@media (prefers-color-scheme:dark){.p{fill:#14161a}.i{fill:#eceef2}.s{fill:#a2a9b6}.l{fill:#1d2026}.g{fill:#2b3038}.m{fill:#4a515d}.d{stroke:#4c535f}.c{stroke:#fff}.h{stroke:#14161a}}"""


def render(scene: Scene, *, width: int = 1200) -> str:
    """The picture as the text of an SVG file. Beyond MOST_RANKS the ranks in the middle are left out."""
    return "\n".join(_Picture(scene, width).lines()) + "\n"


def compare(scenes: Sequence[Scene], table: Sequence[Sequence[str]], *, width: int = 1200) -> str:
    """The table, then the ranks of every schedule over one axis of time, without their memory."""
    pictures = [_Picture(s, width, memory=False, tag=f"s{i}") for i, s in enumerate(scenes)]
    until = max(max(s.makespan for s in scenes), 1)
    scale = min(p.room for p in pictures) / until
    body, y = _rows(table, width)
    for i, p in enumerate(pictures):
        p.scale, p.until = scale, until
        name = f'<text class="i" x="12" y="20" style="font-size:13px;font-weight:600">{_x(p.scene.name)}</text><text class="s" x="{LEFT}" y="37">{_x(p.caption())}</text>'
        lines, height = [name, *p.body()], p.bottom
        same = i + 1 < len(pictures) and p.key() == pictures[i + 1].key()
        if not same:  # one legend for schedules of the same regions and kinds
            legend, height = p.legend(p.bottom + 26)
            lines += legend
        body += [
            f'<g transform="translate(0 {_n(y)})">',
            "<defs>" + "".join(p.patterns()) + "</defs>",
            *lines,
            "</g>",
        ]
        y += height + 16
    names = ", ".join(s.name for s in scenes)
    return (
        "\n".join(
            [
                *_opening(
                    width,
                    y,
                    f"{len(scenes)} schedules compared",
                    f"{names}. " + ". ".join(f"{s.name}: {s.summary}" for s in scenes),
                ),
                *body,
                "</svg>",
            ]
        )
        + "\n"
    )


def _opening(width: float, height: float, title: str, about: str) -> Iterator[str]:
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{_n(height)}" viewBox="0 0 {width} {_n(height)}" '
        f'role="img" aria-labelledby="t d">'
    )
    yield f'<title id="t">{_x(title)}</title><desc id="d">{_x(about)}</desc>'
    yield f"<style>{_STYLE}</style>"
    yield f'<rect class="p" width="{width}" height="{_n(height)}"/>'


def _rows(table: Sequence[Sequence[str]], width: int) -> tuple[list[str], float]:
    """Cells in columns, and where they end; what does not fit into the last one is cut."""
    wide = [max(len(row[i]) for row in table) * CELL + 18 for i in range(len(table[0]))]
    left = [12 + sum(wide[:i]) for i in range(len(wide))]
    most = max(int((width - 12 - left[-1]) / CELL), 4)
    out = []
    for n, row in enumerate(table):
        cells = [*row[:-1], row[-1] if len(row[-1]) <= most else row[-1][: most - 1] + "…"]
        for i, cell in enumerate(cells):
            figure = 0 < i < len(row) - 1
            out.append(
                f'<text class="{"s" if not n else "i"}" x="{_n(left[i] + (wide[i] - 18 if figure else 0))}" y="{22 + 17 * n}"{" text-anchor=" + chr(34) + "end" + chr(34) if figure else ""}>{_x(cell)}</text>'
            )
    return out, 22 + 17 * len(table)


class _Picture:
    """One scene. tag: before the ids of its patterns, of which several may stand in one file."""

    def __init__(self, scene: Scene, width: int, memory: bool = True, tag: str = ""):
        self.scene, self.width, self.tag, self.until = scene, width, tag, max(scene.makespan, 1)
        self.ranks = (
            list(range(scene.ranks))
            if scene.ranks <= MOST_RANKS
            else [*range(MOST_RANKS // 2), -1, *range(scene.ranks - MOST_RANKS // 2 + 1, scene.ranks)]
        )
        self.memory = MEMORY_HEIGHT if memory and scene.tracks else 0
        slots = max((g.slot + 1 for g in scene.ghosts), default=0)
        self.slot = min(110, (width - LEFT - RIGHT) * 0.6 / slots) if slots else 0
        self.behind = slots * self.slot  # what is drawn there, behind the point where it stops
        self.room = width - LEFT - RIGHT - self.behind
        self.scale = self.room / self.until
        self.y: dict[int, float] = {}
        y = TOP
        for r in self.ranks:
            if r < 0:
                self.y[r], y = y, y + 22
                continue
            self.y[r] = y
            y += COMPUTE_HEIGHT + self._lines(r) * LINE_HEIGHT + self.memory + GAP
        self.bottom = y
        self.used: set[tuple[int, str]] = set()

    def _lines(self, rank: int) -> int:
        return self.scene.comm_lines[rank]

    def x(self, ns: float) -> float:
        return LEFT + ns * self.scale

    def lines(self) -> Iterator[str]:
        scene = self.scene
        body = self.body()
        legend, after = self.legend(self.bottom + 26)
        yield from _opening(
            self.width,
            after + 8,
            scene.headline,
            f"{scene.summary}. " + ", ".join(f"{k} {v}" for k, v in scene.figures),
        )
        yield "<defs>" + "".join(self.patterns()) + "</defs>"
        yield f'<text class="i" x="12" y="20" style="font-size:14px;font-weight:600">{_x(scene.headline)}</text>'
        yield f'<text class="s" x="12" y="37">{_x(self.caption())}</text>'
        yield from body
        yield from legend
        yield "</svg>"

    def body(self) -> list[str]:
        return [
            *self._grid(),
            *self._ranks(),
            *(self._critical() if not self.scene.walk else ()),
            *self._circle(),
        ]

    def key(self) -> tuple:
        """What a legend would say."""
        scene = self.scene
        return (
            tuple(scene.regions),
            scene.whole,
            frozenset(scene.program.order.kind.tolist()) & frozenset(_KINDS),
            scene.notes,
            any(scene.stage_chunk),
            bool(scene.walk),
        )

    def caption(self) -> str:
        """As many figures as there is room for; all of them are in the description."""
        parts = [f"{k} {v}" for k, v in self.scene.figures]
        lengths = accumulate(len(part) + 3 for part in parts)
        return " · ".join(part for part, length in zip(parts, lengths) if length * CAPTION <= self.width - 24)

    def patterns(self) -> Iterator[str]:
        yield f'<pattern id="{self.tag}idle" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path class="d" d="M0 0V6"/></pattern>'
        for region, kind in sorted(self.used):
            if kind == "W":
                f = fills(region, self.scene.whole)
                yield (
                    f'<pattern id="{self.tag}w{region}" width="4" height="4" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path fill="{f["W"]}" d="M0 0h4v4H0z"/>'
                    f'<path d="M0 0V4" stroke="{f["line"]}" stroke-width="2.4"/></pattern>'
                )

    def _grid(self) -> Iterator[str]:
        scene = self.scene
        for t in ticks(self.until, int(self.room // 110), scene.unit):
            if self.slot and -12 < self.x(t) - self.x(scene.makespan) < max(self.behind, 185) + 12:
                continue  # there it says that nothing moves
            label = f"{t / scene.unit:g}" if scene.unit else show_time(t) if t else "0"
            yield f'<rect class="g" x="{_n(self.x(t))}" y="{TOP - 4}" width="1" height="{_n(self.bottom - TOP)}"/><text class="s" x="{_n(self.x(t))}" y="{TOP - 8}" text-anchor="middle">{label}</text>'

    def _ranks(self) -> Iterator[str]:
        scene = self.scene
        for r in self.ranks:
            y = self.y[r]
            if r < 0:
                yield f'<text class="s" x="{LEFT}" y="{_n(y + 13)}">{scene.ranks - len(self.ranks) + 1} more ranks</text>'
                continue
            yield f'<text class="i" x="{LEFT - 8}" y="{_n(y + 17)}" text-anchor="end" style="font-weight:600">rank {r}</text>'
            yield f'<rect class="l" x="{LEFT}" y="{_n(y)}" width="{_n(scene.makespan * self.scale if scene.makespan else self.room)}" height="{COMPUTE_HEIGHT}"/>'
            yield from self._idle(r, y)
            yield from self._boxes(r, y)
            if self.memory:
                yield from self._track(r, y + COMPUTE_HEIGHT + self._lines(r) * LINE_HEIGHT + 2)

    def _idle(self, rank: int, y: float) -> Iterator[str]:
        b = self.scene.bubbles
        hit = b.rank == rank
        d = "".join(
            f"M{_n(self.x(s))} {_n(y)}H{_n(self.x(e))}v{COMPUTE_HEIGHT}H{_n(self.x(s))}z"
            for s, e in zip(b.start[hit].tolist(), b.end[hit].tolist())
            if (e - s) * self.scale >= 0.5
        )
        if d:
            yield f'<path fill="url(#{self.tag}idle)" d="{d}"/>'

    def _boxes(self, rank: int, y: float) -> Iterator[str]:
        """Boxes of one fill are one path: the file stays small. Of those within a pixel the first is drawn."""
        scene, o = self.scene, self.scene.program.order
        a, b = (int(x) for x in o.start[rank : rank + 2])
        paths: dict[str, list[str]] = {}
        texts, critical = [], []
        on_path = set(scene.timeline.critical) if not scene.walk else set()
        rows = a + np.flatnonzero(scene.lane[a:b] >= 0)
        rows = rows[np.lexsort((scene.start[rows], scene.lane[rows]))]
        last: dict[int, float] = {}
        for row in rows.tolist():
            lane, half = int(scene.lane[row]), int(scene.half[row])
            x, end = self.x(int(scene.start[row])), self.x(int(scene.end[row]))
            if end - x < 1 and x - last.get(lane * 3 + half, -9) < 1:
                continue
            last[lane * 3 + half] = x
            if lane >= COMM:
                line = min(lane, self._lines(rank)) - COMM
                top, tall, wide = y + COMPUTE_HEIGHT + 1.5 + line * LINE_HEIGHT, LINE_HEIGHT - 1.5, end - x
                color = self._transfer_fill(row)
                shape = (
                    f"M{_n(x)} {_n(top)}h{_n(wide)}v{_n(tall)}h{_n(-wide)}z"
                    if wide >= 2
                    else f"M{_n(x)} {_n(top)}l4 {_n(tall / 2)}l-4 {_n(tall / 2)}z"
                )
                paths.setdefault(color, []).append(shape)
                continue
            top = y + COMPUTE_HEIGHT / 2 * (half == 2)
            tall = COMPUTE_HEIGHT / 2 if half else COMPUTE_HEIGHT
            kind = _KINDS.get(int(o.kind[row]))
            if kind is None:
                paths.setdefault("ink", []).append(f"M{_n(x)} {_n(top)}h1.5v{_n(tall)}h-1.5z")
                continue
            stage = int(o.stage[row])
            region = scene.stage_region[stage] if 0 <= stage < len(scene.stage_region) else 5
            self.used.add((region, kind))
            wide = max(end - x - (0.7 if end - x > 3 else 0), 0.4)
            color = f"url(#{self.tag}w{region})" if kind == "W" else fills(region, scene.whole)[kind]
            paths.setdefault(color, []).append(
                f"M{_n(x)} {_n(top)}h{_n(wide)}v{_n(tall - (1 if half else 0))}h{_n(-wide)}z"
            )
            text_ink = "#000000" if kind == "W" else ink(fills(region, scene.whole)[kind])
            if scene.stage_chunk[stage] and wide > 9 and not half:
                paths.setdefault(text_ink, []).append(
                    "".join(
                        f"M{_n(x + 3 + 5 * c)} {_n(top + tall - 6)}h3v3h-3z"
                        for c in range(min(scene.stage_chunk[stage], int((wide - 4) / 5)))
                    )
                )
            if row in on_path and wide > 3:
                critical.append(
                    f"M{_n(x + 0.8)} {_n(top + 0.8)}h{_n(wide - 1.6)}v{_n(tall - 1.6)}h{_n(1.6 - wide)}z"
                )
            mb = str(int(o.mb[row]))
            label = next(
                (t for t in (f"{stage}{kind}{mb}", f"{kind}{mb}", mb) if len(t) * GLYPH <= wide - 2), None
            )
            if label:
                if kind == "W":
                    w = min(len(label) * GLYPH + 3, wide - 4)
                    texts.append(
                        f'<rect x="{_n(x + wide / 2 - w / 2)}" y="{_n(top + tall / 2 - 6.5)}" width="{_n(w)}" height="13" fill="{fills(region)["W"]}"/>'
                    )
                texts.append(
                    f'<text x="{_n(x + wide / 2)}" y="{_n(top + tall / 2 + 4)}" text-anchor="middle" fill="{text_ink}">{label}</text>'
                )
        for color, shapes in paths.items():
            yield f'<path {"class=" + chr(34) + "i" + chr(34) if color == "ink" else f"fill={chr(34)}{color}{chr(34)}"} d="{"".join(shapes)}"/>'
        if critical:
            yield f'<path class="c" fill="none" stroke-width="1.6" d="{"".join(critical)}"/>'
        yield from texts

    def _transfer_fill(self, row: int) -> str:
        o = self.scene.program.order
        stage, kind = int(o.stage[row]), Kind(int(o.kind[row]))
        region = self.scene.stage_region[stage] if 0 <= stage < len(self.scene.stage_region) else 5
        return (
            fills(region)["F"]
            if kind in (Kind.SEND_F, Kind.RECV_F)
            else fills(region)["B"]
            if kind in (Kind.SEND_B, Kind.RECV_B)
            else "#7b8494"
        )

    def _track(self, rank: int, y: float) -> Iterator[str]:
        scene, track = self.scene, self.scene.tracks[rank]
        tall = MEMORY_HEIGHT - 2
        base = y + tall
        Y = lambda v: base - v / scene.most * tall
        d, last, top = [f"M{LEFT} {_n(base)}"], -9.0, 0.0
        for t, v in zip(track.time.tolist(), track.value.tolist()):
            x = self.x(t)
            if x - last < 1:  # the highest of what lies within a pixel
                top = max(top, v)
                d[-1] = f"H{_n(last)}V{_n(Y(top))}"
                continue
            d.append(f"H{_n(x)}V{_n(Y(v))}")
            last, top = x, v
        d.append(f"H{_n(LEFT + self.room)}V{_n(base)}z")
        yield f'<path class="m" d="{"".join(d)}"/>'
        over = track.limit is not None and track.peak > track.limit
        if track.limit is not None:
            if over:
                yield f'<clipPath id="o{rank}"><rect x="{LEFT}" y="{_n(y)}" width="{_n(self.room)}" height="{_n(Y(track.limit) - y)}"/></clipPath><path fill="{STOP}" clip-path="url(#o{rank})" d="{"".join(d)}"/>'
            yield f'<path d="M{LEFT} {_n(Y(track.limit))}h{_n(self.room)}" stroke="{STOP}" stroke-dasharray="5 3"/>'
        label = (
            f"{track.peak} in flight"
            if not scene.in_bytes
            else f"peak {show_bytes(track.peak)}"
            + (f" of {show_bytes(track.limit)}" if track.limit is not None else "")
        )
        yield f'<text class="i h" x="{LEFT + 4}" y="{_n(base - 3)}" style="font-size:10px{";font-weight:700" if over else ""}">{label}{" (too much)" if over else ""}</text>'

    def _critical(self) -> Iterator[str]:
        scene, d = self.scene, []
        rows = [r for r in scene.timeline.critical if scene.lane[r] == COMPUTE]
        for a, b in zip(rows, rows[1:]):
            p, q = int(scene.facts.rank[a]), int(scene.facts.rank[b])
            if p == q or p not in self.y or q not in self.y:
                continue
            down = q > p
            y0, y1 = self.y[p] + COMPUTE_HEIGHT * down, self.y[q] + COMPUTE_HEIGHT * (not down)
            d.append(f"M{_n(self.x(int(scene.end[a])))} {_n(y0)}L{_n(self.x(int(scene.start[b])))} {_n(y1)}")
        if 0 < len(d) < self.room / 8:
            yield f'<path class="c" fill="none" stroke-opacity=".7" d="{"".join(d)}"/>'

    def _circle(self) -> Iterator[str]:
        """What never runs, and who waits for whom."""
        scene = self.scene
        if not scene.walk:
            return
        x = self.x(scene.makespan or self.until)
        room = self.width - x > 185
        yield f'<text fill="{STOP}" x="{_n(x + 8 if room else self.width - 4)}" y="{TOP - 8}" text-anchor="{"start" if room else "end"}" style="font-weight:600">{"here nothing moves any more" if room else "stops"}</text>'
        at = {}
        for g in scene.ghosts:
            if g.rank not in self.y:
                continue
            y, tall = self.y[g.rank], COMPUTE_HEIGHT + self._lines(g.rank) * LINE_HEIGHT
            left, wide = x + g.slot * self.slot + 3, self.slot - 6
            if g.row < 0:
                yield f'<text class="s" x="{_n(left + wide / 2)}" y="{_n(y + tall / 2 + 4)}" text-anchor="middle">{g.skipped} more</text>'
                continue
            at[g.row] = (left, y, wide, tall)
            stroke = (
                f'stroke="{STOP}" stroke-width="2" stroke-dasharray="5 3"'
                if g.blocked
                else 'class="d" stroke-dasharray="3 3"'
            )
            yield f'<rect x="{_n(left)}" y="{_n(y)}" width="{_n(wide)}" height="{_n(tall)}" fill="none" {stroke}/>'
            text = scene.program.show(g.row)
            fit = (
                f' textLength="{_n(wide - 6)}" lengthAdjust="spacingAndGlyphs"'
                if len(text) * 6.4 > wide - 6
                else ""
            )
            yield f'<text class="{"i" if g.blocked else "s"}" x="{_n(left + wide / 2)}" y="{_n(y + tall / 2 + 4)}" text-anchor="middle"{fit}>{_x(text)}</text>'
        for r in self.ranks:
            if r >= 0:
                yield f'<rect x="{_n(x - 1)}" y="{_n(self.y[r] - 3)}" width="2" height="{COMPUTE_HEIGHT + self._lines(r) * LINE_HEIGHT + 6}" fill="{STOP}"/>'
        for number, (a, b) in enumerate(scene.arrows, 1):
            if a not in at or b not in at:
                continue
            p, q = at[a], at[b]
            down = q[1] > p[1]
            shift = -0.18 if down else 0.18
            x0, y0 = p[0] + p[2] * (0.5 + shift), p[1] + p[3] * down
            x1, y1 = q[0] + q[2] * (0.5 + shift), q[1] + q[3] * (not down)
            size = max(float(np.hypot(x1 - x0, y1 - y0)), 1)
            ux, uy = (x1 - x0) / size, (y1 - y0) / size
            bx, by = x1 - 9 * ux, y1 - 9 * uy
            cx, cy = x0 + (x1 - x0) * 0.35, y0 + (y1 - y0) * 0.35
            yield f'<path d="M{_n(x0)} {_n(y0)}L{_n(bx)} {_n(by)}" stroke="{STOP}" stroke-width="2"/><path d="M{_n(x1)} {_n(y1)}L{_n(bx - 4 * uy)} {_n(by + 4 * ux)}L{_n(bx + 4 * uy)} {_n(by - 4 * ux)}z" fill="{STOP}"/>'
            yield f'<circle cx="{_n(cx)}" cy="{_n(cy)}" r="7.5" fill="{STOP}"/><text x="{_n(cx)}" y="{_n(cy + 3.8)}" text-anchor="middle" fill="#ffffff" style="font-weight:600">{number}</text>'

    def legend(self, y: float) -> tuple[list[str], float]:
        scene = self.scene
        words = {"F": "forward", "B": "backward", "I": "backward, input half", "W": "backward, weight half"}
        kinds = [k for k in "FBIW" if any(kind == k for _, kind in self.used)]
        items: list[tuple[list[tuple[str, str]], str]] = []
        swatch = lambda region, k: (
            f"url(#{self.tag}w{region})" if k == "W" else fills(region, scene.whole)[k],
            k,
        )
        if len(scene.regions) == 1:
            items += [([swatch(0, k)], words[k]) for k in kinds]
        else:
            items += [
                ([swatch(i, k) for k in kinds if (i, k) in self.used], name)
                for i, name in enumerate(scene.regions)
            ]
            items.append(([], ", ".join(f"{k} {words[k]}" for k in kinds)))
        items.append(([(f"url(#{self.tag}idle)", "")], "bubble"))
        if any(scene.stage_chunk):
            items.append(([], "a dot: second stage of the rank"))
        x, out = float(LEFT), []
        for fills_of, text in (
            items
            + [([("none", "")], "critical path")] * bool(scene.timeline.critical and not scene.walk)
            + [([], t) for t in scene.notes]
        ):
            wide = 18 * len(fills_of) + len(text) * 6.1 + 22
            if x > LEFT and x + wide > self.width:
                x, y = float(LEFT), y + 20
            for i, (color, letter) in enumerate(fills_of):
                if color == "none":
                    out.append(
                        f'<rect class="c" x="{_n(x + 1)}" y="{_n(y - 10)}" width="15" height="12" fill="none" stroke-width="1.6"/>'
                    )
                    continue
                out.append(
                    f'<rect x="{_n(x + 18 * i)}" y="{_n(y - 11)}" width="17" height="14" fill="{color}"/>'
                )
                if letter and letter != "W":
                    out.append(
                        f'<text x="{_n(x + 18 * i + 8.5)}" y="{_n(y)}" text-anchor="middle" fill="{ink(color)}" style="font-size:10px">{letter}</text>'
                    )
                elif letter:
                    out.append(
                        f'<text x="{_n(x + 18 * i + 8.5)}" y="{_n(y)}" text-anchor="middle" fill="#000000" style="font-size:10px;font-weight:700">W</text>'
                    )
            for line in _fold(text, int((self.width - LEFT - RIGHT) / 6.1)):
                out.append(
                    f'<text class="s" x="{_n(x + 18 * len(fills_of) + 5 * bool(fills_of))}" y="{_n(y)}">{_x(line)}</text>'
                )
                y += 16
            y -= 16
            x += wide
        return out, y


def _fold(text: str, most: int) -> list[str]:
    lines, line = [], ""
    for word in text.split(" "):
        if line and len(line) + 1 + len(word) > most:
            lines.append(line)
            line = ""
        line += (" " if line else "") + word
    return [*lines, line]


def _n(value: float) -> str:
    """A coordinate, to a tenth."""
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


def _x(text: str) -> str:
    """Text for XML: escaped, and without the characters XML may not hold."""
    return escape("".join(c if c.isprintable() else "\ufffd" for c in text))
