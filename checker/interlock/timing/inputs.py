"""What each operation of a program with inserted transfers waits for on another rank, and how long that
travels.

Every rank does its rows in order; besides, a row waits for the output of at most one row of another rank.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from interlock.program.facts import Facts
from interlock.program.kinds import Kind
from interlock.timing.durations import Durations


@dataclass(frozen=True)
class Inputs:
    """source[i]: the row of another rank whose end row i waits for, -1: none.

    producer[i]: the row that makes the input: `source`, except that an overlap ends with its second half,
    whichever half produces.
    """

    start: np.ndarray  # first row of each rank, and the end
    source: np.ndarray
    producer: np.ndarray
    second_halves: np.ndarray  # second rows of overlaps
    facts: Facts | None = None  # of the program; None where the rows are no program's


def find_inputs(facts: Facts) -> Inputs:
    """Asks that the program is one that `check` finds valid but for cycles between ranks, without collectives
    in its order."""
    producer = np.full(facts.n, -1, dtype=np.int64)
    fp = facts.footprint
    if facts.n and facts.S and facts.M:
        gradient_crosses = np.take_along_axis(fp.cross, fp.next, axis=1) & (fp.next >= 0)
        for table, neighbour, crosses in (
            (facts.first_F, fp.prev, fp.prev >= 0),
            (facts.first_X, fp.next, gradient_crosses),
        ):
            consumer, source = _rows_across_ranks(facts, table, neighbour, crosses)
            producer[consumer] = source
    source = producer
    second_halves = facts.second_halves
    if len(second_halves):
        ends = np.arange(facts.n)
        ends[second_halves - 1] = second_halves
        source = np.where(producer >= 0, ends[producer], -1)
    return Inputs(facts.program.order.start.astype(np.int64), source, producer, second_halves, facts)


def _rows_across_ranks(
    facts: Facts, table: np.ndarray, neighbour: np.ndarray, crosses: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of `table` (stage, microbatch), and those of the neighbouring stage, where the two lie on
    different ranks.

    neighbour, crosses: [classes, stages], the stage beside, and whether anything comes from it.
    """
    rows = table.reshape(facts.S, facts.M)
    if len(neighbour) == 1 and not facts.is_replicated.any():  # every microbatch goes the same way
        rank = facts.rank_at(np.arange(facts.S), np.zeros(facts.S, dtype=np.int64))
        stages = np.flatnonzero(crosses[0] & (rank != rank[neighbour[0]]))
        consumer, source = rows[stages].reshape(-1), rows[neighbour[0, stages]].reshape(-1)
        apart = (consumer >= 0) & (source >= 0)
    else:
        of = facts.footprint.of
        stages, mbs = np.nonzero(crosses[of].T)
        consumer, source = rows[stages, mbs], rows[neighbour[of[mbs], stages], mbs]
        apart = (facts.rank.take(consumer) != facts.rank.take(source)) & (consumer >= 0) & (source >= 0)
    return (consumer, source) if apart.all() else (consumer[apart], source[apart])


def crossing_outputs(facts: Facts, inputs: Inputs, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(stage, microbatch) of the output that crosses, or whose gradient does, to rows with an input: the
    stage on the left."""
    left = np.where(facts.kind[rows] == Kind.F, facts.stage[inputs.producer[rows]], facts.stage[rows])
    return left, facts.mb[rows]


def travel_times(facts: Facts, inputs: Inputs, durations: Durations) -> np.ndarray | None:
    """ns that the input of each row travels; None if nothing takes any time."""
    if durations.every_lag is not None:
        return np.where(inputs.source >= 0, durations.every_lag, 0) if durations.every_lag else None
    rows = np.flatnonzero(inputs.source >= 0)
    stage, mb = crossing_outputs(facts, inputs, rows)
    time = durations.lag(stage, mb, facts.rank[inputs.source[rows]], facts.rank[rows])
    if not time.any():
        return None
    lag = np.zeros(len(inputs.source), dtype=np.int64)
    lag[rows] = time
    return lag
