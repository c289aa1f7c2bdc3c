"""The operations of one rank as boxes with labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from interlock.program.kinds import Kind
from interlock.report.timeline.lanes import COMM, Half
from interlock.report.timeline.palette import OTHER_TRANSFER, fills, ink
from interlock.report.timeline.svg.elements import coordinate, element, rectangle
from interlock.report.timeline.svg.frame import COMPUTE_HEIGHT, LINE_HEIGHT, Frame

GLYPH = 6.7  # width of a digit at 11 px, generous
INK = "ink"  # stands where a fill would: the colour of text
LETTERS = {Kind.F: "F", Kind.B: "B", Kind.I: "I", Kind.W: "W"}
FORWARD_TRANSFERS = (Kind.SEND_F, Kind.RECV_F)
BACKWARD_TRANSFERS = (Kind.SEND_B, Kind.RECV_B)
LINE_GAP = 1.5  # above the line of a transfer
HEAD_WIDTH = 4  # of the arrow head that stands for a transfer too short to be seen
DOT, DOT_STEP = 3, 5  # size and distance of the dots that count chunks


@dataclass(frozen=True)
class _Box:
    row: int
    x: float
    top: float
    width: float
    height: float


@dataclass
class _Layer:
    """What one rank draws. Boxes of one fill are one path: the file stays small."""

    paths: dict[str, list[str]] = field(default_factory=dict)
    outlines: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)

    def add(self, fill: str, shape: str) -> None:
        self.paths.setdefault(fill, []).append(shape)

    def elements(self) -> Iterator[str]:
        for fill, shapes in self.paths.items():
            if fill == INK:
                yield element("path", class_="i", d="".join(shapes))
            else:
                yield element("path", fill=fill, d="".join(shapes))
        if self.outlines:
            yield element("path", class_="c", fill="none", stroke_width="1.6", d="".join(self.outlines))
        yield from self.labels


def draw_boxes(frame: Frame, rank: int, y: float) -> Iterator[str]:
    """`y`: where the rank begins."""
    scene, layer = frame.scene, _Layer()
    critical = set(scene.timeline.critical) if not scene.walk else set()
    for row in _visible_rows(frame, rank):
        kind = Kind(int(scene.program.order.kind[row]))
        if scene.lane[row] >= COMM:
            _add_transfer(layer, frame, rank, row, y)
        elif kind in LETTERS:
            _add_compute(layer, frame, _box(frame, row, y), LETTERS[kind], row in critical)
        else:
            box = _box(frame, row, y)
            layer.add(INK, rectangle(box.x, box.top, 1.5, box.height))
    yield from layer.elements()


def _visible_rows(frame: Frame, rank: int) -> Iterator[int]:
    """Lane by lane in the order of time; of those within a pixel the first."""
    scene = frame.scene
    a, b = (int(x) for x in scene.program.order.start[rank : rank + 2])
    rows = a + np.flatnonzero(scene.lane[a:b] >= 0)
    rows = rows[np.lexsort((scene.start[rows], scene.lane[rows]))]
    drawn_at: dict[tuple[int, int], float] = {}
    for row in rows.tolist():
        key = (int(scene.lane[row]), int(scene.half[row]))
        x, end = frame.x(int(scene.start[row])), frame.x(int(scene.end[row]))
        if end - x >= 1 or x - drawn_at.get(key, -9) >= 1:
            drawn_at[key] = x
            yield row


def _box(frame: Frame, row: int, y: float) -> _Box:
    scene, half = frame.scene, frame.scene.half[row]
    x, end = frame.x(int(scene.start[row])), frame.x(int(scene.end[row]))
    height = COMPUTE_HEIGHT if half == Half.WHOLE else COMPUTE_HEIGHT / 2
    top = y + COMPUTE_HEIGHT / 2 * (half == Half.LOWER)
    return _Box(row, x, top, max(end - x - (0.7 if end - x > 3 else 0), 0.4), height)


def _add_transfer(layer: _Layer, frame: Frame, rank: int, row: int, y: float) -> None:
    """A bar while it lasts, or an arrow head."""
    scene = frame.scene
    line = min(int(scene.lane[row]), scene.comm_lines[rank]) - COMM
    x = frame.x(int(scene.start[row]))
    width, height = frame.x(int(scene.end[row])) - x, LINE_HEIGHT - LINE_GAP
    top = y + COMPUTE_HEIGHT + LINE_GAP + line * LINE_HEIGHT
    if width >= 2:
        shape = rectangle(x, top, width, height)
    else:
        down = coordinate(height / 2)
        shape = f"M{coordinate(x)} {coordinate(top)}l{HEAD_WIDTH} {down}l-{HEAD_WIDTH} {down}z"
    layer.add(_transfer_fill(frame, row), shape)


def _transfer_fill(frame: Frame, row: int) -> str:
    order = frame.scene.program.order
    kind, region = Kind(int(order.kind[row])), frame.region_of(int(order.stage[row]))
    if kind in FORWARD_TRANSFERS:
        return fills(region)["F"]
    if kind in BACKWARD_TRANSFERS:
        return fills(region)["B"]
    return OTHER_TRANSFER


def _add_compute(layer: _Layer, frame: Frame, box: _Box, letter: str, critical: bool) -> None:
    scene = frame.scene
    stage = int(scene.program.order.stage[box.row])
    region, whole = frame.region_of(stage), scene.half[box.row] == Half.WHOLE
    frame.used.add((region, letter))
    own = fills(region, scene.has_whole_backward)[letter]
    fill, text_ink = (frame.weight_pattern(region), "#000000") if letter == "W" else (own, ink(own))
    layer.add(fill, rectangle(box.x, box.top, box.width, box.height - (0 if whole else 1)))
    chunk = frame.chunk_of(stage)
    if chunk and box.width > 9 and whole:
        layer.add(text_ink, _dots(box, min(chunk, int((box.width - 4) / 5))))
    if critical and box.width > 3:
        layer.outlines.append(rectangle(box.x + 0.8, box.top + 0.8, box.width - 1.6, box.height - 1.6))
    _add_label(layer, frame, box, letter, text_ink)


def _dots(box: _Box, count: int) -> str:
    return "".join(
        f"M{coordinate(box.x + 3 + DOT_STEP * i)} {coordinate(box.top + box.height - 6)}h{DOT}v{DOT}h-{DOT}z"
        for i in range(count)
    )


def _add_label(layer: _Layer, frame: Frame, box: _Box, letter: str, text_ink: str) -> None:
    """The longest name there is room for; on a pattern it has a ground of its own."""
    order = frame.scene.program.order
    stage, microbatch = int(order.stage[box.row]), int(order.mb[box.row])
    forms = (f"{stage}{letter}{microbatch}", f"{letter}{microbatch}", str(microbatch))
    label = next((text for text in forms if len(text) * GLYPH <= box.width - 2), None)
    if label is None:
        return
    middle, centre = box.x + box.width / 2, box.top + box.height / 2
    if letter == "W":
        width = min(len(label) * GLYPH + 3, box.width - 4)
        ground = fills(frame.region_of(stage))["W"]
        layer.labels.append(
            element("rect", x=middle - width / 2, y=centre - 6.5, width=width, height=13, fill=ground)
        )
    layer.labels.append(element("text", label, x=middle, y=centre + 4, text_anchor="middle", fill=text_ink))
