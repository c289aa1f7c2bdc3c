"""One finding for many alike operations: the first of each group is named, the others are counted."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

MANY = 20  # findings of one rule that are worth printing


def alike(rows: np.ndarray, *keys: np.ndarray) -> Iterator[tuple[int, int]]:
    """(first row, how many) for each combination of keys among the ascending rows (or other numbers), in
    their order; at most MANY.
    """
    if len(rows):
        _, first, counts = np.unique(np.stack(keys), axis=1, return_index=True, return_counts=True)
        for i in np.argsort(first)[:MANY]:
            yield int(rows[first[i]]), int(counts[i])


def more(count: int, where: str = "") -> str:
    """` (and 3 more on stage 0)`; nothing for one."""
    return f" (and {count - 1} more{' ' + where if where else ''})" if count > 1 else ""
