"""What may be printed, and in which colour.

Colours never carry meaning alone, and are told apart by the colour-blind.
"""

from __future__ import annotations

import os
import re
import sys
import unicodedata

ROLES = {
    "error": "1;38;5;166",
    "warning": "1;38;5;178",
    "note": "1;38;5;74",
    "help": "1;38;5;36",
    "gutter": "38;5;67",
    "bold": "1",
    "dim": "2",
    "valid": "1;38;5;36",
    "invalid": "1;38;5;166",
    "unknown": "1;38;5;178",
    "vacuous": "1;38;5;178",
    "F": "38;5;74",
    "B": "38;5;208",
    "I": "38;5;208",
    "W": "38;5;36",
    "transfer": "38;5;175",
}
_OPERATION = re.compile(
    r"\b\d+(?:(F|B|I|W)\d+|(?:SEND|RECV|WAIT)_[FB]\d+(?:@\w+)?)|\b(?:send|recv)\([^()]*\)(?:@\w+)?"
)


def use_color(stream=None) -> bool:
    """Whether to colour what goes to a stream: NO_COLOR, then FORCE_COLOR (0: no), else a terminal that is
    not `dumb`.
    """
    stream = sys.stdout if stream is None else stream
    if os.environ.get("NO_COLOR"):
        return False
    force = os.environ.get("FORCE_COLOR")
    if force:
        return force != "0"
    return os.environ.get("TERM") != "dumb" and _is_terminal(stream)


def can_redraw(stream) -> bool:
    """Whether a line that is drawn anew may go to a stream."""
    return os.environ.get("TERM") != "dumb" and _is_terminal(stream)


def _is_terminal(stream) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False


def can_encode_boxes(stream) -> bool:
    """Whether the encoding of a stream has box-drawing characters."""
    try:
        "┃─▶".encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


class Paint:
    """Colours by role, or leaves a text as it is."""

    def __init__(self, color: bool):
        self.color = color

    def __call__(self, text: str, role: str) -> str:
        return f"\x1b[{ROLES[role]}m{text}\x1b[0m" if self.color and text else text

    def operations(self, line: str) -> str:
        """A line of a picture, each operation in the colour of its kind."""
        if not self.color:
            return line
        return _OPERATION.sub(lambda m: self(m[0], m[1] or "transfer"), line)


def safe(text: str) -> str:
    """A text that cannot move the cursor, change colours or turn the direction of writing: such characters
    as escapes.
    """
    return text if text.isascii() and text.isprintable() else "".join(_shown(c) for c in text)


def _shown(c: str) -> str:
    if c == "\t":
        return "    "
    if c.isprintable() or c == "\u3000":
        return c
    if unicodedata.category(c) == "Zs":
        return " "
    n = ord(c)
    return f"\\x{n:02x}" if n < 0x100 else f"\\u{n:04x}" if n < 0x10000 else f"\\U{n:08x}"


def display_width(text: str) -> int:
    """Columns a safe text takes: two for wide characters, none for combining ones."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


def count(n: int, word: str) -> str:
    return f"{n} {word}{'' if n == 1 else 's'}"
