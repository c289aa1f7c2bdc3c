"""Indices of stages, ranks and microbatches that a schedule names."""

from __future__ import annotations

from collections.abc import Iterable

from interlock.language import ast
from interlock.text.finding import error


def indices(ranges: Iterable[ast.IndexRange], end: int, what: str, code: str) -> list[int]:
    """The indices of `0, 2..5`, each below `end`."""
    out: list[int] = []
    for r in ranges:
        if r.last >= end or r.first > r.last:
            have = f"the {what}s are 0..{end - 1}" if end > 1 else f"the only {what} is 0"
            raise error(
                code,
                f"there is no {what} {max(r.last, r.first)}: {have}"
                if r.last >= end
                else f"the range {r.first}..{r.last} is empty",
                r.span,
            )
        out += range(r.first, r.last + 1)
    return out
