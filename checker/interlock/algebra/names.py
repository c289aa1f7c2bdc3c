"""Names and indices nobody declared: what was meant, and what there is."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from interlock.language import ast
from interlock.text.finding import error


def nearest(text: str, known: Iterable[str]) -> str:
    """A sentence that proposes the nearest known name, or ''."""
    found = get_close_matches(text, list(known), n=1, cutoff=0.6)
    return f"did you mean `{found[0]}`?" if found else ""


def list_of(known: Iterable[str]) -> str:
    return ", ".join(f"`{k}`" for k in sorted(known)) or "none"


def listed(items: Iterable, last: str = "and", limit: int = 8) -> str:
    """`0, 1 and 2`."""
    items = [str(i) for i in items]
    if len(items) > limit:
        return ", ".join(items[:limit]) + f" and {len(items) - limit} more"
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} {last} {items[-1]}" if items else "none"


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
