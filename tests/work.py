"""How much work a call does, counted: the same on every machine, however busy it is."""

from __future__ import annotations

import sys
from collections.abc import Callable


def count_lines(work: Callable[[], object]) -> int:
    """The lines of Python that `work` executes."""
    count = 0

    def trace(frame, event, argument):
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def grows_linearly(work: Callable[[int], object], size: int) -> bool:
    """Whether twice the size is at most two and a half times the work."""
    return count_lines(lambda: work(2 * size)) <= 2.5 * count_lines(lambda: work(size))
