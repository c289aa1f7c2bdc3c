"""List scheduling: an order for cuts that no single skeleton covers (spec/algebra.md, "List scheduling").

Every operation takes one unit and every transfer none. At each step each rank does, of what is ready, a
backward before
a forward, then the lower microbatch, then the later stage.
"""

from __future__ import annotations

import heapq

import numpy as np

from interlock.algebra.skeleton import Budget, too_many
from interlock.program.footprint import Footprint
from interlock.program.ir import Stage
from interlock.program.kinds import Kind

LIMIT = 4_000_000  # of operations: they are scheduled one by one


def list_schedule(
    ranks: int, microbatches: int, stages: tuple[Stage, ...], footprint: Footprint, budget: Budget, span
) -> list[np.ndarray]:
    """For each rank its operations in order, columns [kind, stage, mb]. The model is fully trained: every
    stage on a path runs F and B.
    """
    paths = [np.flatnonzero(on).tolist() for on in footprint.on_path]
    of = footprint.of.tolist()
    count = sum(2 * len(paths[c]) for c in of)
    if count > LIMIT:
        raise too_many(LIMIT, span)
    budget.take(count, span)

    def rank(s: int, m: int) -> int:
        stage = stages[s]
        return stage.owner[m] if stage.replicated else stage.rank

    # an operation is (forward?, microbatch, -stage): the tuple's order is the priority
    ready: list[list[tuple[int, int, int]]] = [[] for _ in range(ranks)]
    position = [0] * microbatches  # steps done of m's chain: forwards along the path, then backwards
    rows: list[list[tuple[int, int, int]]] = [[] for _ in range(ranks)]

    def release(m: int) -> int:
        path = paths[of[m]]
        i = position[m]
        if i == 2 * len(path):
            return -1
        s = path[i] if i < len(path) else path[2 * len(path) - 1 - i]
        r = rank(s, m)
        heapq.heappush(ready[r], (int(i < len(path)), m, -s))
        return r

    busy = {release(m) for m in range(microbatches)}
    while busy:
        done = []
        for r in busy:
            forward, m, minus = heapq.heappop(ready[r])
            rows[r].append((Kind.F if forward else Kind.B, -minus, m))
            done.append(m)
        for m in done:
            position[m] += 1
        more = {release(m) for m in done}
        busy = {r for r in busy | more if r >= 0 and ready[r]}
    return [np.array(r, dtype=np.int64).reshape(-1, 3).T for r in rows]
