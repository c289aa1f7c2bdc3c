"""What the fills and signs of a picture mean."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from interlock.report.timeline.palette import fills, ink
from interlock.report.timeline.svg.boxes import LETTERS
from interlock.report.timeline.svg.elements import element, escape_xml, fold_words
from interlock.report.timeline.svg.frame import LEFT, RIGHT, Frame

WORDS = {"F": "forward", "B": "backward", "I": "backward, input half", "W": "backward, weight half"}
LETTER_WIDTH = 6.1
SWATCH_STEP = 18
LINE_STEP, TEXT_STEP = 20, 16  # between items, and between the lines of one
OUTLINE = "none"  # stands where a fill would: an operation of the critical path


@dataclass(frozen=True)
class _Swatch:
    fill: str
    letter: str = ""


@dataclass(frozen=True)
class _Item:
    swatches: tuple[_Swatch, ...]
    text: str

    @property
    def width(self) -> float:
        return SWATCH_STEP * len(self.swatches) + len(self.text) * LETTER_WIDTH + 22


def legend_key(frame: Frame) -> tuple:
    """What a legend would say: equal for pictures that can share one."""
    scene = frame.scene
    return (
        tuple(scene.regions),
        scene.has_whole_backward,
        frozenset(scene.program.order.kind.tolist()) & frozenset(LETTERS),
        scene.notes,
        any(scene.stage_chunk),
        bool(scene.walk),
    )


def draw_legend(frame: Frame, y: float) -> tuple[list[str], float]:
    """The elements, and where they end."""
    x, out = float(LEFT), []
    most = int((frame.width - LEFT - RIGHT) / LETTER_WIDTH)
    for item in _items(frame):
        if x > LEFT and x + item.width > frame.width:
            x, y = float(LEFT), y + LINE_STEP
        for i, swatch in enumerate(item.swatches):
            out += _draw_swatch(swatch, x + SWATCH_STEP * i, y)
        left = x + SWATCH_STEP * len(item.swatches) + 5 * bool(item.swatches)
        lines = fold_words(item.text, most)
        for i, line in enumerate(lines):
            out.append(element("text", escape_xml(line), class_="s", x=left, y=y + TEXT_STEP * i))
        y += TEXT_STEP * (len(lines) - 1)
        x += item.width
    return out, y


def _items(frame: Frame) -> Iterator[_Item]:
    scene = frame.scene
    kinds = [k for k in "FBIW" if any(kind == k for _, kind in frame.used)]
    if len(scene.regions) == 1:
        for k in kinds:
            yield _Item((_swatch(frame, 0, k),), WORDS[k])
    else:
        for i, name in enumerate(scene.regions):
            yield _Item(tuple(_swatch(frame, i, k) for k in kinds if (i, k) in frame.used), name)
        yield _Item((), ", ".join(f"{k} {WORDS[k]}" for k in kinds))
    yield _Item((_Swatch(frame.idle_pattern),), "bubble")
    if any(scene.stage_chunk):
        yield _Item((), "a dot: second stage of the rank")
    if scene.timeline.critical and not scene.walk:
        yield _Item((_Swatch(OUTLINE),), "critical path")
    for note in scene.notes:
        yield _Item((), note)


def _swatch(frame: Frame, region: int, letter: str) -> _Swatch:
    if letter == "W":
        return _Swatch(frame.weight_pattern(region), letter)
    return _Swatch(fills(region, frame.scene.has_whole_backward)[letter], letter)


def _draw_swatch(swatch: _Swatch, x: float, y: float) -> Iterator[str]:
    if swatch.fill == OUTLINE:
        yield element(
            "rect", class_="c", x=x + 1, y=y - 10, width=15, height=12, fill="none", stroke_width=1.6
        )
        return
    yield element("rect", x=x, y=y - 11, width=17, height=14, fill=swatch.fill)
    if swatch.letter:
        on_pattern = swatch.letter == "W"
        yield element(
            "text",
            swatch.letter,
            x=x + 8.5,
            y=y,
            text_anchor="middle",
            fill="#000000" if on_pattern else ink(swatch.fill),
            style="font-size:10px;font-weight:700" if on_pattern else "font-size:10px",
        )
