"""Source texts and places in them. A place is one integer: sources of a run lie end to end, as in one long
text.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple


class Span(NamedTuple):
    """Characters [at, at + width) of the sources, counted over all of them (see `Sources`)."""

    at: int
    width: int = 1

    def to(self, other: Span) -> Span:
        return Span(self.at, max(other.at + other.width - self.at, 0))


@dataclass(frozen=True)
class Source:
    """A text with its name as shown to the user; `base` is the place of its first character."""

    name: str
    text: str
    base: int = 0
    _lines: list[int] = field(default_factory=list, compare=False, repr=False)

    def __post_init__(self):
        self._lines.append(0)
        start = self.text.find("\n") + 1
        while start:
            self._lines.append(start)
            start = self.text.find("\n", start) + 1

    def line_column(self, at: int) -> tuple[int, int]:
        """1-based line and column (in characters) of a place in this source."""
        offset = at - self.base
        line = bisect_right(self._lines, offset)
        return line, offset - self._lines[line - 1] + 1

    def line(self, number: int) -> str:
        start = self._lines[number - 1]
        end = self._lines[number] if number < len(self._lines) else len(self.text)
        return self.text[start:end].rstrip("\r\n")

    @property
    def line_count(self) -> int:
        return len(self._lines)


class Sources:
    """The sources of one run: the file checked, and the standard skeletons it uses."""

    def __init__(self) -> None:
        self._sources: list[Source] = []

    def add(self, name: str, text: str) -> Source:
        base = self._sources[-1].base + len(self._sources[-1].text) + 1 if self._sources else 0
        source = Source(name, text, base)
        self._sources.append(source)
        return source

    def __iter__(self) -> Iterator[Source]:
        return iter(self._sources)

    def of(self, at: int) -> Source | None:
        """The source a place lies in; None for -1."""
        index = bisect_right([s.base for s in self._sources], at) - 1
        return self._sources[index] if at >= 0 and index >= 0 else None
