"""Renderers of what was checked, one module a format; outcome.py says what counts and which exit code
follows. Spec: verdicts.md.

Every renderer is a function `render(checked, sources_of, *, unread=(), paths=(), internal=False) -> str`:
`sources_of(path)` gives the sources of a file, `paths` the files in the order they were checked. Those for
people take `color`, `width`, `verbose` and `box` besides.
"""

from __future__ import annotations

from importlib import import_module

from interlock.report.outcome import exit_code
from interlock.report.style import use_color

__all__ = ["FORMATS", "exit_code", "is_human_readable", "render", "use_color"]

FORMATS = {
    "text": "text",
    "json": "json",
    "json-lines": "jsonlines",
    "concise": "concise",
    "sarif": "sarif",
    "github": "github",
    "junit": "junit",
}
_HUMAN = frozenset({"text", "concise"})


def is_human_readable(format: str) -> bool:
    """Whether people read it: it may be coloured, and other lines may stand around it."""
    return format in _HUMAN


def render(
    format: str, checked, sources_of, *, unread=(), paths=(), internal: bool = False, **terminal
) -> str:
    """The report in one of FORMATS.

    `terminal`: color, width, verbose, box, for the formats that people read.
    """
    module = import_module(f".{FORMATS[format]}", __name__)
    return module.render(
        checked,
        sources_of,
        unread=unread,
        paths=paths,
        internal=internal,
        **(terminal if is_human_readable(format) else {}),
    )
