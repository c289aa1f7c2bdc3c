"""Patterns for paths: `*` and `?` within a name, `**` over folders; a pattern without `/` is about any name
of the path.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    out, i = "", 0
    while i < len(pattern):
        if pattern.startswith("**/", i):
            out, i = out + "(?:.*/)?", i + 3
        elif pattern.startswith("**", i):
            out, i = out + ".*", i + 2
        else:
            c = pattern[i]
            out, i = out + ("[^/]*" if c == "*" else "[^/]" if c == "?" else re.escape(c)), i + 1
    return re.compile(out)


def matches(path: str, pattern: str) -> bool:
    """Whether a pattern names a path (both with `/`, from the same folder), or a folder it lies in."""
    pattern = pattern.removeprefix("./").rstrip("/")
    parts = path.split("/")
    if "/" not in pattern:
        return any(_compiled(pattern).fullmatch(part) for part in parts)
    return any(_compiled(pattern).fullmatch("/".join(parts[:n])) for n in range(1, len(parts) + 1))


def any_of(path: str, patterns: Sequence[str]) -> bool:
    return any(matches(path, p) for p in patterns)
