"""Where the keys of a TOML text stand, which tomllib does not say. The text is one that tomllib has read."""

from __future__ import annotations

import re
from collections import Counter

from interlock.text.source import Source, Span

Path = tuple[str | int, ...]  # ("layer", 3, "forward"): the fourth [[layer]]

_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?!")|\'\'\'.*?\'\'\'(?!\')|"(?:\\[^\n]|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*|\n|[][{}=,]|[^\s"\'#\[\]{}=,]+',
    re.S,
)
_PART = re.compile(r'"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|[A-Za-z0-9_-]+')


def many_parts(source: Source, most: int = 8) -> Span | None:
    """Where a line has more dots than that outside texts: tomllib takes time with the square of the parts of
    a key.
    """
    dots = 0
    for token in _TOKEN.finditer(source.text):
        if token[0] == "\n":
            dots = 0
        elif token[0][0] not in "\"'#":
            dots += token[0].count(".")
            if dots > most:
                return Span(source.base + token.start(), len(token[0]))
    return None


class Places:
    """The places of keys, of their values, and of the headers of tables."""

    def __init__(self, source: Source):
        self._base = source.base
        self._keys: dict[Path, Span] = {}
        self._values: dict[Path, Span] = {}
        self._tables: Counter[Path] = Counter()  # of each array of tables, how many there are so far
        self._read(source.text)

    def key(self, *path: str | int) -> Span:
        """Of the key, or of what it stands in where it has no place of its own (in a table in braces)."""
        return self._nearest(self._keys, path)

    def value(self, *path: str | int) -> Span:
        return self._nearest(self._values, path)

    def _nearest(self, table: dict[Path, Span], path: Path) -> Span:
        for length in range(len(path), 0, -1):
            found = table.get(path[:length]) or self._keys.get(path[:length])
            if found is not None:
                return found
        return Span(self._base)

    def _read(self, text: str) -> None:
        here: Path = ()  # the table that keys belong to
        path: Path | None = None  # the key whose value is being read
        start = end = None  # of the words of a statement, then of its value
        depth = 0
        for token in [*_TOKEN.finditer(text), None]:
            word = token[0] if token else "\n"
            if word[0] == "#":
                continue
            if path is None and word == "=" and start is not None:
                path = here + _parts(text[start:end])
                self._keys.setdefault(path, Span(self._base + start, end - start))
                start = end = None
            elif word == "\n" and depth == 0:
                if start is not None and path is not None:
                    self._values.setdefault(path, Span(self._base + start, end - start))
                elif start is not None:
                    here = self._header(text[start:end], start)
                path = start = end = None
            elif word != "\n":
                depth += (word in "[{") - (word in "]}") if len(word) == 1 and path is not None else 0
                start, end = token.start() if start is None else start, token.end()

    def _header(self, text: str, start: int) -> Path:
        parts = _parts(text)
        here = tuple(
            x
            for n, part in enumerate(parts)
            for x in (part, *([self._tables[parts[: n + 1]] - 1] if parts[: n + 1] in self._tables else []))
        )
        if text.startswith("[["):
            here = here[:-1] if isinstance(here[-1], int) else here
            here += (self._tables[parts],)
            self._tables[parts] += 1
        self._keys.setdefault(here, Span(self._base + start, len(text)))
        return here


def _parts(text: str) -> Path:
    return tuple(p[1:-1] if p[0] in "\"'" else p for p in _PART.findall(text))
