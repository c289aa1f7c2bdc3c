"""A picture from its parts, and several of them below a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from interlock.report.timeline.axis import show_tick, ticks
from interlock.report.timeline.lanes import COMPUTE
from interlock.report.timeline.layout import Scene
from interlock.report.timeline.palette import STOP, fills
from interlock.report.timeline.svg.boxes import draw_boxes
from interlock.report.timeline.svg.deadlock import STOP_TEXT_ROOM, draw_deadlock
from interlock.report.timeline.svg.elements import coordinate, element, escape_xml
from interlock.report.timeline.svg.frame import COMPUTE_HEIGHT, LEFT, LEFT_OUT, MEMORY_HEIGHT, TOP, Frame
from interlock.report.timeline.svg.legend import draw_legend, legend_key
from interlock.rules.memory import show_bytes

CAPTION_GLYPH = 5.6  # width of a letter in the caption
CELL_GLYPH = 6.3  # of a letter in a table, generous
CELL_GAP, ROW_STEP, TABLE_TOP, MARGIN = 18, 17, 22, 12
LEGEND_STEP = 26  # from the ranks to their legend
TRACK_HEIGHT = MEMORY_HEIGHT - 2
TICK_STEP = 110  # between two times of the axis, at least
_STYLE = (
    'text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue","DejaVu Sans",sans-serif;'
    "font-size:11px}\n"
    ".p{fill:#fff}.i{fill:#16181d}.s{fill:#5c6370}.l{fill:#f0f1f4}.g{fill:#e3e6eb}.m{fill:#c3c8d1}"
    ".d{stroke:#b9bfca}.c{stroke:#16181d}"
    ".h{paint-order:stroke;stroke:#fff;stroke-width:3px;stroke-linejoin:round}\n"
    "@media (prefers-color-scheme:dark){"
    ".p{fill:#14161a}.i{fill:#eceef2}.s{fill:#a2a9b6}.l{fill:#1d2026}.g{fill:#2b3038}.m{fill:#4a515d}"
    ".d{stroke:#4c535f}.c{stroke:#fff}.h{stroke:#14161a}}"
)


def render(scene: Scene, *, width: int = 1200) -> str:
    """The picture as the text of an SVG file. Beyond MOST_RANKS the ranks in the middle are left out."""
    frame = Frame(scene, width)
    body = list(_body(frame))
    legend, bottom = draw_legend(frame, frame.bottom + LEGEND_STEP)
    about = f"{scene.summary}. " + ", ".join(f"{name} {value}" for name, value in scene.figures)
    lines = [
        *_opening(width, bottom + 8, scene.headline, about),
        element("defs", "".join(_patterns(frame))),
        _text(MARGIN, 20, scene.headline, "i", style="font-size:14px;font-weight:600"),
        _text(MARGIN, 37, _caption(frame), "s"),
        *body,
        *legend,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def compare(scenes: Sequence[Scene], table: Sequence[Sequence[str]], *, width: int = 1200) -> str:
    """The table, then the ranks of every schedule over one axis of time, without their memory."""
    frames = [Frame(s, width, memory=False, tag=f"s{i}") for i, s in enumerate(scenes)]
    until = max(1, *(s.makespan for s in scenes))
    scale = min(f.room for f in frames) / until
    body, y = _table(table, width)
    for i, frame in enumerate(frames):
        frame.stretch(scale, until)
        title = _text(MARGIN, 20, frame.scene.name, "i", style="font-size:13px;font-weight:600")
        lines, height = [title + _text(LEFT, 37, _caption(frame), "s"), *_body(frame)], frame.bottom
        is_last = i + 1 == len(frames)
        if is_last or legend_key(frame) != legend_key(frames[i + 1]):
            legend, height = draw_legend(frame, frame.bottom + LEGEND_STEP)
            lines += legend
        body.append(f'<g transform="translate(0 {coordinate(y)})">')
        body.append(element("defs", "".join(_patterns(frame))))
        body += [*lines, "</g>"]
        y += height + 16
    names = ", ".join(s.name for s in scenes)
    about = f"{names}. " + ". ".join(f"{s.name}: {s.summary}" for s in scenes)
    opening = _opening(width, y, f"{len(scenes)} schedules compared", about)
    return "\n".join([*opening, *body, "</svg>"]) + "\n"


def _opening(width: float, height: float, title: str, about: str) -> Iterator[str]:
    size = coordinate(height)
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{size}" '
        f'viewBox="0 0 {width} {size}" role="img" aria-labelledby="t d">'
    )
    yield element("title", escape_xml(title), id="t") + element("desc", escape_xml(about), id="d")
    yield element("style", _STYLE)
    yield element("rect", class_="p", width=width, height=height)


def _text(
    x: float, y: float, text: str, role: str, anchor: str | None = None, style: str | None = None
) -> str:
    return element("text", escape_xml(text), class_=role, x=x, y=y, text_anchor=anchor, style=style)


def _table(table: Sequence[Sequence[str]], width: int) -> tuple[list[str], float]:
    """Cells in columns, and where they end; what does not fit into the last one is cut."""
    columns = range(len(table[0]))
    widths = [max(len(row[i]) for row in table) * CELL_GLYPH + CELL_GAP for i in columns]
    left = [MARGIN + sum(widths[:i]) for i in columns]
    most = max(int((width - MARGIN - left[-1]) / CELL_GLYPH), 4)
    out = []
    for n, row in enumerate(table):
        role, y = "i" if n else "s", TABLE_TOP + ROW_STEP * n
        *cells, last = row
        for i, cell in enumerate([*cells, last if len(last) <= most else last[: most - 1] + "…"]):
            is_figure = 0 < i < len(row) - 1
            x = left[i] + (widths[i] - CELL_GAP if is_figure else 0)
            out.append(_text(x, y, cell, role, anchor="end" if is_figure else None))
    return out, TABLE_TOP + ROW_STEP * len(table)


def _body(frame: Frame) -> Iterator[str]:
    yield from _grid(frame)
    for rank in frame.ranks:
        yield from _rank(frame, rank, frame.y[rank])
    if not frame.scene.walk:
        yield from _critical_path(frame)
    yield from draw_deadlock(frame)


def _caption(frame: Frame) -> str:
    """As many figures as there is room for; all of them are in the description."""
    parts = [f"{name} {value}" for name, value in frame.scene.figures]
    ends = accumulate(len(part) + 3 for part in parts)
    return " · ".join(p for p, end in zip(parts, ends) if end * CAPTION_GLYPH <= frame.width - 2 * MARGIN)


def _patterns(frame: Frame) -> Iterator[str]:
    yield _pattern(f"{frame.tag}idle", 6, element("path", class_="d", d="M0 0V6"))
    for region, kind in sorted(frame.used):
        if kind == "W":
            own = fills(region, frame.scene.has_whole_backward)
            ground = element("path", fill=own["W"], d="M0 0h4v4H0z")
            line = element("path", d="M0 0V4", stroke=own["line"], stroke_width=2.4)
            yield _pattern(f"{frame.tag}w{region}", 4, ground + line)


def _pattern(name: str, size: int, content: str) -> str:
    return element(
        "pattern",
        content,
        id=name,
        width=size,
        height=size,
        patternUnits="userSpaceOnUse",
        patternTransform="rotate(45)",
    )


def _grid(frame: Frame) -> Iterator[str]:
    scene = frame.scene
    stop, reserved = frame.x(scene.makespan), max(frame.behind, STOP_TEXT_ROOM) + 12
    for time in ticks(frame.until, int(frame.room // TICK_STEP), scene.unit):
        x = frame.x(time)
        if frame.slot and -12 < x - stop < reserved:
            continue  # there it says that nothing moves
        line = element("rect", class_="g", x=x, y=TOP - 4, width=1, height=frame.bottom - TOP)
        yield line + element(
            "text", show_tick(time, scene.unit), class_="s", x=x, y=TOP - 8, text_anchor="middle"
        )


def _rank(frame: Frame, rank: int, y: float) -> Iterator[str]:
    scene = frame.scene
    if rank == LEFT_OUT:
        yield _text(LEFT, y + 13, f"{scene.ranks - len(frame.ranks) + 1} more ranks", "s")
        return
    yield _text(LEFT - 8, y + 17, f"rank {rank}", "i", anchor="end", style="font-weight:600")
    width = scene.makespan * frame.scale if scene.makespan else frame.room
    yield element("rect", class_="l", x=LEFT, y=y, width=width, height=COMPUTE_HEIGHT)
    yield from _bubbles(frame, rank, y)
    yield from draw_boxes(frame, rank, y)
    if frame.memory:
        yield from _memory(frame, rank, y + frame.body_height(rank) + 2)


def _bubbles(frame: Frame, rank: int, y: float) -> Iterator[str]:
    bubbles = frame.scene.bubbles
    own = bubbles.rank == rank
    shapes = []
    for start, end in zip(bubbles.start[own].tolist(), bubbles.end[own].tolist()):
        if (end - start) * frame.scale >= 0.5:
            x0, x1 = coordinate(frame.x(start)), coordinate(frame.x(end))
            shapes.append(f"M{x0} {coordinate(y)}H{x1}v{COMPUTE_HEIGHT}H{x0}z")
    if shapes:
        yield element("path", fill=frame.idle_pattern, d="".join(shapes))


def _memory(frame: Frame, rank: int, y: float) -> Iterator[str]:
    scene, track = frame.scene, frame.scene.tracks[rank]
    base = y + TRACK_HEIGHT
    shape = _steps(frame, rank, base)
    yield element("path", class_="m", d=shape)
    if track.limit is not None:
        top = base - _height(scene, track.limit)
        if track.is_over:
            window = element("rect", x=LEFT, y=y, width=frame.room, height=top - y)
            clip = element("clipPath", window, id=f"o{rank}")
            yield clip + element("path", fill=STOP, clip_path=f"url(#o{rank})", d=shape)
        line = f"M{LEFT} {coordinate(top)}h{coordinate(frame.room)}"
        yield element("path", d=line, stroke=STOP, stroke_dasharray="5 3")
    style = "font-size:10px;font-weight:700" if track.is_over else "font-size:10px"
    yield element("text", _peak(scene, rank), class_="i h", x=LEFT + 4, y=base - 3, style=style)


def _height(scene: Scene, value: float) -> float:
    return value / scene.memory_top * TRACK_HEIGHT


def _steps(frame: Frame, rank: int, base: float) -> str:
    """The track as a closed path; of what lies within a pixel the highest."""
    track = frame.scene.tracks[rank]
    parts, drawn_at, top = [f"M{LEFT} {coordinate(base)}"], -9.0, 0.0
    for time, value in zip(track.time.tolist(), track.value.tolist()):
        x = frame.x(time)
        if x - drawn_at < 1:
            top = max(top, value)
            parts.pop()
        else:
            drawn_at, top = x, value
        parts.append(f"H{coordinate(drawn_at)}V{coordinate(base - _height(frame.scene, top))}")
    return "".join([*parts, f"H{coordinate(LEFT + frame.room)}V{coordinate(base)}z"])


def _peak(scene: Scene, rank: int) -> str:
    track = scene.tracks[rank]
    if scene.in_bytes:
        limit = "" if track.limit is None else f" of {show_bytes(track.limit)}"
        text = f"peak {show_bytes(track.peak)}{limit}"
    else:
        text = f"{track.peak} in flight"
    return f"{text} (too much)" if track.is_over else text


def _critical_path(frame: Frame) -> Iterator[str]:
    """A line from rank to rank; none where there would be too many to follow."""
    scene, lines = frame.scene, []
    rows = [row for row in scene.timeline.critical if scene.lane[row] == COMPUTE]
    for a, b in zip(rows, rows[1:]):
        source, target = int(scene.facts.rank[a]), int(scene.facts.rank[b])
        if source == target or source not in frame.y or target not in frame.y:
            continue
        down = target > source
        y0, y1 = frame.y[source] + COMPUTE_HEIGHT * down, frame.y[target] + COMPUTE_HEIGHT * (not down)
        x0, x1 = frame.x(int(scene.end[a])), frame.x(int(scene.start[b]))
        lines.append(f"M{coordinate(x0)} {coordinate(y0)}L{coordinate(x1)} {coordinate(y1)}")
    if 0 < len(lines) < frame.room / 8:
        yield element("path", class_="c", fill="none", stroke_opacity=".7", d="".join(lines))
