"""Times in words, and the round times of an axis."""

from __future__ import annotations

import math

UNIT = 1000  # ns drawn as one unit where a schedule says no durations
_STEPS = (1, 2, 5, 10)


def show_time(ns: float, unit: int = 0) -> str:
    """A time as people read it; in units if `unit` ns are one."""
    if unit:
        return f"{ns / unit:.10g} units" if ns != unit else "1 unit"
    for name, size in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if abs(ns) >= size:
            return f"{ns / size:.4g} {name}" if abs(ns) < 1000 * size else f"{ns / size:,.0f} {name}"
    return f"{ns:.0f} ns"


def show_tick(ns: float, unit: int = 0) -> str:
    """A time below an axis, which says itself what its units are."""
    if unit:
        return f"{ns / unit:g}"
    return show_time(ns) if ns else "0"


def ticks(until: float, most: int, unit: int = 0) -> list[float]:
    """Round times from 0 up to `until`, about `most` of them."""
    if until <= 0:
        return [0]
    least = until / max(most, 1)
    base = unit or 1
    size = 10.0 ** math.floor(math.log10(least / base)) * base
    step = next(size * k for k in _STEPS if size * k >= least)
    return [float(step * i) for i in range(int(until / step) + 1)]
