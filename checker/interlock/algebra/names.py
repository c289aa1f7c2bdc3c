"""Names nobody declared: what was meant, and what there is."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Iterable


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
