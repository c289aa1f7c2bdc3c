"""A run in a terminal: for each rank a line of compute, one of transfers, one of memory."""

from __future__ import annotations

from interlock.report.timeline.terminal.page import compare, render

__all__ = ["compare", "render"]
