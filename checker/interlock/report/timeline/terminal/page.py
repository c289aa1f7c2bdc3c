"""A scene with its head and its figures; several scenes below a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from interlock.report.style import display_width, safe
from interlock.report.timeline.lanes import COMPUTE
from interlock.report.timeline.layout import Scene
from interlock.report.timeline.terminal.canvas import Canvas
from interlock.report.timeline.terminal.signs import ASCII, UNICODE, paint
from interlock.witness.lines import picture

NARROWEST = 40
COMPARED_LINES = 12  # for the ranks of each of several schedules
MOST_VISITS = 7  # of ranks by a critical path that are told


def render(
    scene: Scene, *, width: int = 100, height: int | None = None, color: bool = False, box: bool = True
) -> str:
    """Lines of at most `width` columns; ranks are left out in the middle beyond `height` lines.

    `box`: more than ASCII may be written.
    """
    canvas = Canvas(scene, max(width, NARROWEST), color, box)
    head = [canvas.bold(safe(scene.headline)), safe(scene.summary) if scene.summary else scene.verdict, ""]
    room = None if height is None else max(height - len(head) - 8, 3)
    lines = [*head, *canvas.draw_ranks(room), canvas.draw_axis(), "", *_foot(scene, canvas, box)]
    return _join(lines)


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
    lines = _table(table, width, box, color)
    canvases = [Canvas(scene, width, color, box, until) for scene in scenes]
    for scene, canvas in zip(scenes, canvases):
        path = f"  ({scene.path})" if scene.path else ""
        lines += ["", canvas.bold(f"{scene.name}  {scene.figures[0][1]}") + path]
        lines += canvas.draw_ranks(COMPARED_LINES, memory=False, transfers=False)
    lines += [canvases[-1].draw_axis(), "", *canvases[-1].draw_legend(scenes, transfers=False)]
    for note in dict.fromkeys(note for s in scenes for note in s.notes):
        lines += _wrap(note.split(" "), width, " ")
    return _join(lines)


def _join(lines: Sequence[str]) -> str:
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _table(rows: Sequence[Sequence[str]], width: int, box: bool, color: bool) -> list[str]:
    """Cells in aligned columns below a head. First and last column are text, the others figures."""
    rows = [[safe(cell) for cell in row] for row in rows]
    widths = [max(display_width(cell) for cell in column) for column in zip(*rows)]
    head, *body = [_join_cells(row, widths) for row in rows]
    rule = (UNICODE if box else ASCII).rule * min(max(map(display_width, [head, *body])), width)
    return [paint(head, "1") if color else head, rule, *body]


def _join_cells(cells: Sequence[str], widths: Sequence[int]) -> str:
    out = []
    for i, (cell, width) in enumerate(zip(cells, widths)):
        space = " " * (width - display_width(cell))
        out.append(cell + space if i in (0, len(widths) - 1) else space + cell)
    return "  ".join(out)


def _foot(scene: Scene, canvas: Canvas, box: bool) -> Iterator[str]:
    yield from canvas.draw_legend()
    yield from _wrap([f"{name} {value}" for name, value in scene.figures], canvas.width)
    if scene.timeline.critical and not scene.walk:
        yield from _wrap(["critical path: " + _critical_path(scene)], canvas.width)
    for note in scene.notes:
        yield from _wrap(note.split(" "), canvas.width, " ")
    if scene.walk:
        done = np.flatnonzero(scene.start >= 0).tolist()
        yield ""
        yield from map(safe, picture(scene.program, done, scene.walk, canvas.width, box=box))


def _wrap(parts: Sequence[str], width: int, between: str = ", ") -> list[str]:
    lines, line = [], ""
    for part in map(safe, parts):
        if line and display_width(line) + display_width(between) + display_width(part) > width:
            lines.append(line)
            line = ""
        line += (between if line else "") + part
    return [*lines, line] if line else lines


def _critical_path(scene: Scene) -> str:
    """Its operations on each rank it visits, in the order of time: `rank 0 0F0 to 0F3; rank 1 1F3; ...`."""
    rows = np.array([r for r in scene.timeline.critical if scene.lane[r] == COMPUTE], dtype=np.int64)
    if not len(rows):
        return "no compute"
    ranks = scene.facts.rank[rows]
    cuts = np.r_[0, np.flatnonzero(ranks[1:] != ranks[:-1]) + 1, len(rows)].tolist()
    visits = [_visit(scene, rows[a:b].tolist()) for a, b in zip(cuts, cuts[1:])]
    if len(visits) > MOST_VISITS:
        visits = [*visits[:4], f"... {len(visits) - 6} more", *visits[-2:]]
    return "; ".join(visits)


def _visit(scene: Scene, rows: Sequence[int]) -> str:
    name = scene.program.show
    text = f"rank {scene.facts.rank[rows[0]]} {name(rows[0])}"
    return f"{text} to {name(rows[-1])}" if len(rows) > 1 else text
