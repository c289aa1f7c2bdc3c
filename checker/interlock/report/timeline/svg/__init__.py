"""A run as a still picture for papers and READMEs: text is text, dark where the reader prefers it."""

from __future__ import annotations

from interlock.report.timeline.svg.picture import compare, render

__all__ = ["compare", "render"]
