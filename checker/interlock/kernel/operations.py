"""The static rules of operations (spec/dependency.md, spec/footprint.md).

Here and in reductions.py and exchange.py each function is a rule: it yields (code, rows) for each error, with
every row that the error touches.
"""

from __future__ import annotations

from collections.abc import Iterator

from interlock.kernel.placement import NONE, Placed, find_dependencies
from interlock.kernel.program import Kind

Faults = Iterator[tuple[str, tuple[int, ...]]]

WAITED_FOR = {Kind.WAIT_F: (Kind.SEND_F,), Kind.WAIT_B: (Kind.SEND_B,), Kind.WAIT: (Kind.SEND, Kind.RECV)}


def check_stage_numbers(placed: Placed) -> Faults:
    """IL314, R-ONCE: 0 <= stage < number of stages."""
    for i in (*placed.out_of_range, *placed.order.rows_of(*Kind.WITH_STAGE - Kind.WITH_MICROBATCH)):
        if not 0 <= placed.order.stage[i] < len(placed.program.stages):
            yield "IL314", (i,)


def check_microbatches(placed: Placed) -> Faults:
    """IL306, R-MB: every microbatch index lies in 0 .. M-1, and m's path contains the stage that runs it."""
    beyond = (i for i in placed.out_of_range if not 0 <= placed.order.mb[i] < placed.program.microbatches)
    yield from (("IL306", (i,)) for i in (*beyond, *placed.off_path))


def check_ranks(placed: Placed) -> Faults:
    """IL304, R-ONCE: an operation is on the rank of its stage."""
    order, stages = placed.order, placed.program.stages
    yield from (("IL304", (i,)) for i in placed.misplaced if order.kind[i] in Kind.COMPUTE | Kind.PIPELINE)
    for i in order.rows[Kind.REDUCE]:
        if 0 <= order.stage[i] < len(stages) and stages[order.stage[i]].rank != order.rank[i]:
            yield "IL304", (i,)


def check_forwards(placed: Placed) -> Faults:
    """IL302, R-ONCE: F(s, m) is listed for every s on path(m)."""
    f = placed.listed[Kind.F]
    listed = sum(map(len, f.values())) - sum(1 for s, m in placed.nowhere if m in f[s])
    if not placed.program.fragment and listed < placed.sum_over_paths(
        [len(path.stages) for path in placed.paths]
    ):
        yield "IL302", ()


def check_losses(placed: Placed) -> Faults:
    """IL302, R-ONCE: LOSS is listed for every microbatch or for none, on the last stage of path(m)."""
    losses = [(s, m) for s, rows in placed.listed[Kind.LOSS].items() for m in rows]
    if placed.program.fragment or not losses:
        return
    last = {(s, m) for s, m in losses if (s, m) not in placed.nowhere and placed.path[m].next[s] == NONE}
    if len(last) < sum(1 for path in placed.path if path.stages):
        yield "IL302", ()
    for i in placed.order.rows[Kind.LOSS]:
        if placed.is_in_range(i) and (placed.order.stage[i], placed.order.mb[i]) not in last:
            yield "IL302", (i,)


def check_repeats(placed: Placed) -> Faults:
    """IL303, R-ONCE: no two rows have the same kind, stage and microbatch, for F, B, I, W, LOSS."""
    stage, mb = placed.order.stage, placed.order.mb
    repeated: dict[int, list[int]] = {}
    for kind in Kind.COMPUTE:
        first, rows = placed.listed[kind], placed.order.rows[kind]
        for i in rows if sum(map(len, first.values())) < len(rows) else ():
            if first[stage[i]][mb[i]] != i:
                repeated.setdefault(first[stage[i]][mb[i]], []).append(i)
    yield from (("IL303", (first, *rows)) for first, rows in repeated.items())


def check_backward_halves(placed: Placed) -> Faults:
    """IL305, R-ONCE: not both B and one of I, W; W(s, m) asks for I(s, m) (not in a fragment)."""
    b, i, w = (placed.listed[kind] for kind in (Kind.B, Kind.I, Kind.W))
    for halves in (i, w):
        for s in b.keys() & halves.keys():
            yield from (("IL305", (b[s][m], halves[s][m])) for m in b[s].keys() & halves[s].keys())
    for s, rows in w.items() if not placed.program.fragment else ():
        yield from (("IL305", (row,)) for m, row in rows.items() if m not in i[s] and m not in b[s])


def check_backwards(placed: Placed) -> Faults:
    """IL601, R-FOOT-1: where back(s, m), B is listed, or I, and with I also W if wwork(s, m)."""
    if placed.program.fragment:
        return
    path, nowhere = placed.path, placed.nowhere
    b, i, w = (placed.listed[kind] for kind in (Kind.B, Kind.I, Kind.W))
    listed = 0
    for s in b.keys() | i.keys():
        mbs = b[s].keys() | i[s].keys() if b[s] and i[s] else b[s] or i[s]
        listed += sum(1 for m in mbs if (s, m) not in nowhere and path[m].back[s])
    if listed < placed.sum_over_paths([sum(path.back) for path in placed.paths]):
        yield "IL601", ()
    for s, rows in i.items():
        for m, row in rows.items():
            if m not in w[s] and m not in b[s] and (s, m) not in nowhere and path[m].wwork[s]:
                yield "IL601", (row,)


def check_exclusions(placed: Placed) -> Faults:
    """IL602, R-FOOT-2: no B, I, W without back(s, m), no transfer and no wait of what does not cross."""
    if placed.program.fragment or placed.program.placeholders:
        return
    order = placed.order
    for i in order.rows_of(Kind.B, Kind.I, Kind.W, Kind.SEND_B, Kind.WAIT_B, Kind.RECV_B):
        if placed.is_in_range(i):
            path, s = placed.path[order.mb[i]], order.stage[i]
            sender = path.next[s] if order.kind[i] == Kind.RECV_B else s
            exists = path.back[s] if order.kind[i] in Kind.COMPUTE else sender >= 0 and path.cross[sender]
            if not exists:
                yield "IL602", (i,)


def check_dependencies(placed: Placed) -> Faults:
    """IL301, R-DEP-1 to 4: if a -> b on one rank, a is listed before b, and they are not one overlap."""
    rank, launch = placed.order.rank, placed.order.launch
    for a, b in find_dependencies(placed):
        if rank[a] == rank[b] and (a > b or launch[a] == launch[b] >= 0):
            yield "IL301", (a, b)


def check_producers(placed: Placed) -> Faults:
    """IL312, R-DEP-7: a send follows its producer, a receive precedes its consumers, on their rank."""
    order, f, w, x = placed.order, placed.first[Kind.F], placed.first[Kind.W], placed.x
    beside = {Kind.SEND_F: (f,), Kind.RECV_F: (f,), Kind.SEND_B: (x,), Kind.RECV_B: (x, w)}
    for i in (i for i in order.rows_of(*Kind.PIPELINE) if i not in placed.stray):
        for rows in beside[order.kind[i]]:
            other = rows[order.stage[i]].get(order.mb[i])
            if other is not None and (i < other) == (order.kind[i] in Kind.SENDS):
                yield "IL312", (i, other)


def check_waits(placed: Placed) -> Faults:
    """IL312, R-DEP-7: a wait follows its send, or at least one transfer of its name, on its rank."""
    order = placed.order
    for wait, sent in WAITED_FOR.items():
        if order.rows[wait]:
            what = order.name if wait == Kind.WAIT else list(zip(order.stage, order.mb))
            earliest = {(order.rank[i], what[i]): i for i in reversed(order.rows_of(*sent))}
            for i in order.rows[wait]:
                send = earliest.get((order.rank[i], what[i]))
                if send is None or send > i:
                    yield "IL312", (i,) if send is None else (i, send)
