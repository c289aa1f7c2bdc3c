"""Lists of words in a sentence, and what was meant by a name nobody declared."""

from __future__ import annotations

from collections.abc import Iterable


def suggest(text: str, known: Iterable[str]) -> str:
    """A sentence that proposes the nearest known name, or ''."""
    from difflib import get_close_matches

    found = get_close_matches(text, list(known), n=1, cutoff=0.6)
    return f"did you mean `{found[0]}`?" if found else ""


def shorten(text: str, width: int = 40) -> str:
    """The text, or its beginning and `...`, in so many characters."""
    return text if len(text) <= width else text[: width - 3] + "..."


def list_names(known: Iterable[str]) -> str:
    """Each name in backquotes, in alphabetical order."""
    return ", ".join(f"`{k}`" for k in sorted(known)) or "none"


def join_all(items: Iterable[object], last: str = "and") -> str:
    """`0, 1 and 2`."""
    words = [str(i) for i in items]
    if not words:
        return "none"
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def join_words(items: Iterable[object], last: str = "and", limit: int = 8) -> str:
    """As `join_all`, but of more than `limit` the first ones and how many more there are."""
    words = [str(i) for i in items]
    if len(words) > limit:
        return f"{', '.join(words[:limit])} and {len(words) - limit} more"
    return join_all(words, last)
