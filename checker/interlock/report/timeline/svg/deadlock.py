"""A run that stops: the operations that never run, and who waits for whom."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from interlock.report.timeline.blocked import SKIPPED, Ghost
from interlock.report.timeline.palette import STOP
from interlock.report.timeline.svg.elements import coordinate, element, escape_xml
from interlock.report.timeline.svg.frame import LEFT_OUT, TOP, Frame

STOP_TEXT_ROOM = 185  # for `here nothing moves any more`
GHOST_GLYPH = 6.4  # width of a letter in the name of an operation
ARROW_LENGTH, ARROW_HALF_WIDTH = 9, 4  # of the head
ARROW_SHIFT = 0.18  # of a box's width, so that arrows down and up do not meet


@dataclass(frozen=True)
class _Place:
    left: float
    top: float
    width: float
    height: float


def draw_deadlock(frame: Frame) -> Iterator[str]:
    scene = frame.scene
    if not scene.walk:
        return
    stop = frame.x(scene.makespan or frame.until)
    yield _stop_text(frame, stop)
    places: dict[int, _Place] = {}
    for ghost in scene.ghosts:
        if ghost.rank in frame.y:
            place = _place_of(frame, stop, ghost)
            yield from _draw_ghost(frame, ghost, place)
            if ghost.row != SKIPPED:
                places[ghost.row] = place
    for rank in frame.ranks:
        if rank != LEFT_OUT:
            height = frame.body_height(rank) + 6
            yield element("rect", x=stop - 1, y=frame.y[rank] - 3, width=2, height=height, fill=STOP)
    for number, (waiting, awaited) in enumerate(scene.arrows, 1):
        if waiting in places and awaited in places:
            yield from _draw_arrow(places[waiting], places[awaited], number)


def _stop_text(frame: Frame, stop: float) -> str:
    has_room = frame.width - stop > STOP_TEXT_ROOM
    return element(
        "text",
        "here nothing moves any more" if has_room else "stops",
        fill=STOP,
        x=stop + 8 if has_room else frame.width - 4,
        y=TOP - 8,
        text_anchor="start" if has_room else "end",
        style="font-weight:600",
    )


def _place_of(frame: Frame, stop: float, ghost: Ghost) -> _Place:
    left = stop + ghost.slot * frame.slot + 3
    return _Place(left, frame.y[ghost.rank], frame.slot - 6, frame.body_height(ghost.rank))


def _draw_ghost(frame: Frame, ghost: Ghost, place: _Place) -> Iterator[str]:
    middle, base = place.left + place.width / 2, place.top + place.height / 2 + 4
    if ghost.row == SKIPPED:
        yield element("text", f"{ghost.skipped} more", class_="s", x=middle, y=base, text_anchor="middle")
        return
    yield element(
        "rect",
        x=place.left,
        y=place.top,
        width=place.width,
        height=place.height,
        fill="none",
        stroke=STOP if ghost.blocked else None,
        stroke_width=2 if ghost.blocked else None,
        class_=None if ghost.blocked else "d",
        stroke_dasharray="5 3" if ghost.blocked else "3 3",
    )
    text = frame.scene.program.show(ghost.row)
    too_long = len(text) * GHOST_GLYPH > place.width - 6
    yield element(
        "text",
        escape_xml(text),
        class_="i" if ghost.blocked else "s",
        x=middle,
        y=base,
        text_anchor="middle",
        textLength=place.width - 6 if too_long else None,
        lengthAdjust="spacingAndGlyphs" if too_long else None,
    )


def _draw_arrow(waiting: _Place, awaited: _Place, number: int) -> Iterator[str]:
    """From what waits to what it waits for, with its number in the circle."""
    down = awaited.top > waiting.top
    share = 0.5 - ARROW_SHIFT if down else 0.5 + ARROW_SHIFT
    x0, y0 = waiting.left + waiting.width * share, waiting.top + waiting.height * down
    x1, y1 = awaited.left + awaited.width * share, awaited.top + awaited.height * (not down)
    length = max(math.hypot(x1 - x0, y1 - y0), 1)
    ux, uy = (x1 - x0) / length, (y1 - y0) / length
    bx, by = x1 - ARROW_LENGTH * ux, y1 - ARROW_LENGTH * uy  # where the head begins
    sx, sy = ARROW_HALF_WIDTH * uy, ARROW_HALF_WIDTH * ux
    line = f"M{coordinate(x0)} {coordinate(y0)}L{coordinate(bx)} {coordinate(by)}"
    head = (
        f"M{coordinate(x1)} {coordinate(y1)}L{coordinate(bx - sx)} {coordinate(by + sy)}"
        f"L{coordinate(bx + sx)} {coordinate(by - sy)}z"
    )
    yield element("path", d=line, stroke=STOP, stroke_width=2) + element("path", d=head, fill=STOP)
    cx, cy = x0 + (x1 - x0) * 0.35, y0 + (y1 - y0) * 0.35
    circle = element("circle", cx=cx, cy=cy, r=7.5, fill=STOP)
    yield circle + element(
        "text",
        str(number),
        x=cx,
        y=cy + 3.8,
        text_anchor="middle",
        fill="#ffffff",
        style="font-weight:600",
    )
