"""Longest paths: when everything ends that starts as early as it can (spec/cost.md, "The makespan").

Two shapes of the same question. Rows of ranks with inputs from other ranks (inputs.py), which inserted
transfers give: `compute_ends`, by one of two sweeps (sweeps.py). Nodes and edges of any kind, which written
transfers give: `earliest_starts`.
"""

from __future__ import annotations

import numpy as np

from interlock.timing.inputs import Inputs
from interlock.timing.sweeps import Cyclic, sweep_ranks, sweep_rows

__all__ = ["MANY_RANKS", "Cyclic", "compute_ends", "compute_tails", "earliest_starts"]

MANY_RANKS = 20  # from here on it is faster to advance all ranks at once (benchmarks/simulate.py)


def compute_ends(
    inputs: Inputs,
    row: np.ndarray,
    lag: np.ndarray | None = None,
    *,
    release: np.ndarray | None = None,
    all_ranks: bool | None = None,
) -> np.ndarray:
    """When each row ends, from the durations of the rows. Raises Cyclic. Linear in rows.

    lag[i]: ns that the input of row i travels. release[r]: rank r does nothing before. all_ranks: which of
    the two sweeps; None: by the number of ranks.
    """
    halves = inputs.second_halves
    if len(halves):  # the first half waits for its input, the second takes the time
        row = row.copy()
        row[halves - 1] = 0
    if all_ranks is None:
        all_ranks = len(inputs.start) - 1 >= MANY_RANKS
    sweep = sweep_ranks if all_ranks else sweep_rows
    ends = sweep(inputs, row, lag, release)
    if len(halves):
        ends[halves - 1] = ends[halves]
    return ends


def compute_tails(
    inputs: Inputs, row: np.ndarray, lag: np.ndarray | None = None, *, all_ranks: bool | None = None
) -> np.ndarray:
    """The longest path from the start of each row to the end of the step, its own duration included:
    `compute_ends` of the program run backwards.

    Asks that a row feeds one row of another rank at most, which R-DEP-1 to R-DEP-4 imply.
    """
    last = len(row) - 1  # row i is row last - i of the mirrored program
    consumers = np.flatnonzero(inputs.producer >= 0)
    begins = np.arange(len(row))
    begins[inputs.second_halves] = inputs.second_halves - 1  # backwards, an overlap ends with its first row
    mirrored = last - inputs.producer[consumers]
    source = np.full(len(row), -1, dtype=np.int64)
    source[mirrored] = last - begins[consumers]
    travel = None
    if lag is not None:
        travel = np.zeros(len(row), dtype=np.int64)
        travel[mirrored] = lag[consumers]
    halves = last - (inputs.second_halves - 1)[::-1]
    backwards = Inputs(len(row) - inputs.start[::-1], source, source, halves)
    return compute_ends(backwards, row[::-1], travel, all_ranks=all_ranks)[::-1]


def earliest_starts(count: int, src: np.ndarray, dst: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """The earliest start of each of `count` nodes: dst[k] starts when src[k] has taken its cost.

    Raises Cyclic. Linear in nodes and edges.
    """
    index = np.argsort(src, kind="stable")
    targets = dst[index].tolist()
    first = np.searchsorted(src[index], np.arange(count + 1)).tolist()
    missing = np.bincount(dst, minlength=count).tolist()
    takes = cost.tolist()
    time = [0] * count
    ready = [node for node, edges in enumerate(missing) if edges == 0]
    for node in ready:  # grows while it runs
        end = time[node] + takes[node]
        for k in range(first[node], first[node + 1]):
            target = targets[k]
            if end > time[target]:  # noqa: PLR1730 (a call of `max` would take a quarter of the time of this loop)
                time[target] = end
            missing[target] -= 1
            if missing[target] == 0:
                ready.append(target)
    if len(ready) < count:
        raise Cyclic
    return np.array(time, dtype=np.int64)
