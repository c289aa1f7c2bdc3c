"""Source lines with carets under places and labels beside or below them, in the manner of rustc."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from interlock.report.style import Paint, display_width, safe

GAP = "..."
CONTEXT = 24  # columns of a long line kept to the left of a place
LEAST = 8  # columns shown of a place, however many there are
HEAD = 16  # `rank 12:` and the like is kept at the front of a long line


@dataclass(frozen=True)
class Place:
    """Characters [first, last) of a line, counted from 0. `primary` ones have carets, others dashes."""

    first: int
    last: int
    label: str
    primary: bool


@dataclass(frozen=True)
class _Drawn:
    """A place in display columns."""

    first: int
    last: int
    label: str
    primary: bool


def lines_of(text: str, places: list[Place], width: int, paint: Paint, role: str) -> Iterator[str]:
    """The line and what stands below it, without the gutter.

    `width`: columns there are for it; `role` colours primary places.
    """
    shown, drawn = _display(
        text.rstrip("\r\n"), sorted(places, key=lambda p: (p.first, p.last, not p.primary)), width
    )
    yield shown
    if drawn:
        yield from _below(drawn, width, lambda text, place: paint(text, role if place.primary else "note"))


def _display(text: str, places: list[Place], width: int) -> tuple[str, list[_Drawn]]:
    """The line as shown: escaped, and cut to windows about the places if it is too long."""
    windows = [(0, len(text))]
    if len(text) > width or display_width(safe(text)) > width:
        windows = _windows(text, places, width)
    out, column = [], 0
    at: dict[int, int] = {}  # character -> display column
    for number, (a, b) in enumerate(windows):
        if a > 0:
            out.append(f"{' ' if number else ''}{GAP} ")
            column += len(out[-1])
        for i in range(a, b):
            at[i] = column
            out.append(safe(text[i]))
            column += display_width(out[-1])
        at[b] = column
    if windows[-1][1] < len(text):
        out.append(f" {GAP}")
    drawn = []
    for p in places:
        a, b = next(((a, b) for a, b in windows if a <= p.first <= b), windows[-1])
        first, last = (at[min(max(i, a), b)] for i in (p.first, p.last))
        drawn.append(_Drawn(first, max(last, first + 1), p.label, p.primary))
    return "".join(out), drawn


def _windows(text: str, places: list[Place], width: int) -> list[tuple[int, int]]:
    """Parts [a, b) of a long line that show every place, and as much about them as fits."""
    share = width
    while True:
        parts = _parts(text, places, share)
        taken = sum(b - a for a, b in parts) + (len(GAP) + 2) * (len(parts) + 1)
        if taken <= width or share <= LEAST:
            return parts
        share -= max(share // 8, 1)


def _parts(text: str, places: list[Place], share: int) -> list[tuple[int, int]]:
    """`share`: columns shown for each place. The head of the line stays."""
    colon = text.find(":", 0, HEAD)
    parts = [(0, colon + 1)] if colon >= 0 else [] if places else [(0, share - len(GAP) - 2)]
    for p in places:
        extent = min(max(p.last - p.first, 1), max(share, LEAST))
        around = max(share - extent, 0)
        left = min(around // 2, CONTEXT)
        a = _boundary(text, max(p.first - left, 0), p.first, 1)
        parts.append(
            (
                a,
                max(
                    _boundary(text, min(p.first + extent + around - left, len(text)), p.first + extent, -1),
                    p.first + extent,
                ),
            )
        )
    merged: list[tuple[int, int]] = []
    for a, b in sorted(parts):
        b = min(b, len(text))
        if merged and a <= merged[-1][1] + len(GAP) + 2:
            merged[-1] = (merged[-1][0], max(b, merged[-1][1]))
        else:
            merged.append((a, b))
    return merged


def _boundary(text: str, at: int, limit: int, step: int) -> int:
    """The nearest place towards `limit` where a word begins (step 1) or ends (-1)."""
    if step > 0:
        while at < limit and at > 0 and text[at - 1] != " ":
            at += 1
    else:
        while at > limit and at < len(text) and text[at] != " ":
            at -= 1
        while at > limit and text[at - 1] == " ":
            at -= 1
    return at


def _below(drawn: list[_Drawn], width: int, mark) -> Iterator[str]:
    """The line of carets, the last label beside it if there is room, and the others below it, from right to
    left.
    """
    last, end = drawn[-1], max(p.last for p in drawn)
    covered = any((p.first, p.last) != (last.first, last.last) and p.last > last.first for p in drawn)
    beside = (
        last if last.label and not covered and end + 1 + display_width(safe(last.label)) <= width else None
    )
    yield _carets(drawn, end, mark) + (f" {mark(safe(beside.label), beside)}" if beside else "")
    hanging = [p for p in drawn if p.label and p is not beside]
    if hanging:
        yield _stems(hanging, mark)[0]
    while hanging:
        place = hanging.pop()
        stems, at = _stems([p for p in hanging if p.first < place.first], mark)
        label = safe(place.label)
        left = max(min(place.first, width - display_width(label)), at + 1 if at else 0)
        yield stems + " " * (left - at) + mark(label, place)


def _stems(places: list[_Drawn], mark) -> tuple[str, int]:
    """A `|` under the front of each place, and the column after the last one."""
    out, at = "", 0
    for place in places:
        if place.first >= at:
            out += " " * (place.first - at) + mark("|", place)
            at = place.first + 1
    return out, at


def _carets(drawn: list[_Drawn], end: int, mark) -> str:
    """`^^^` under primary places, `---` under the others; where they overlap the primary one is seen."""
    owner: list[_Drawn | None] = [None] * end
    for p in sorted(drawn, key=lambda p: p.primary):
        owner[p.first : p.last] = [p] * (p.last - p.first)
    out, i = "", 0
    while i < end:
        j = i
        while j < end and owner[j] is owner[i]:
            j += 1
        p = owner[i]
        out += " " * (j - i) if p is None else mark(("^" if p.primary else "-") * (j - i), p)
        i = j
    return out
