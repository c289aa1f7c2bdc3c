"""A line on stderr for work that takes longer than a second, if a person is looking."""

from __future__ import annotations

import sys
import time

from interlock.report.style import can_redraw, display_width, safe

WAIT, EVERY = 1.0, 0.1  # seconds until the line appears, and between two drawings


class Progress:
    """`with Progress(total, "checking") as p: ...; p.step("vlm.sched")`.

    Draws nothing on what is no terminal; the line is gone at the end, also after Ctrl-C.
    """

    def __init__(self, total: int, label: str, stream=None, clock=time.monotonic):
        self.total, self.label, self.done = total, label, 0
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._live = can_redraw(self._stream)
        self._next = clock() + WAIT
        self._drawn = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_) -> None:
        self._write("")

    def step(self, what: str = "", by: int = 1) -> None:
        """`by` more of the total is done; `what` is at hand now."""
        self.done += by
        if self._live and self._clock() >= self._next:
            self._next = self._clock() + EVERY
            self._write(safe(f"{self.label} {self.done}/{self.total}" + (f" {what}" if what else "")))

    def _write(self, text: str) -> None:
        if not self._live or not (text or self._drawn):
            return
        text = _cut(text, 78)
        try:
            self._stream.write(
                f"\r{text}{' ' * (self._drawn - display_width(text))}" + ("" if text else "\r")
            )
            self._stream.flush()
        except (OSError, ValueError):
            self._live = False
        self._drawn = display_width(text)


def _cut(text: str, width: int) -> str:
    """The text, its end left out if it takes more columns."""
    if display_width(text) <= width:
        return text
    while display_width(text) > width - 3:
        text = text[:-1]
    return text + "..."
