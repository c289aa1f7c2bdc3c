"""The static rules of reductions, ties, STEP and ZERO (spec/dependency.md, spec/footprint.md)."""

from __future__ import annotations

from collections.abc import Iterator

from interlock.kernel.operations import Faults
from interlock.kernel.placement import Placed
from interlock.kernel.program import REPLICATED, Kind

Groups = dict[tuple[int, int], list[int]]  # rows, ascending, by rank and something else


def _check_turns(code: str, early: Groups, late: Groups) -> Faults:
    """The rows at fault where each row of `early` must stand before each of the same group of `late`."""
    for group, rows in early.items():
        after = late.get(group)
        if rows and after and rows[-1] > after[0]:
            yield code, (*(i for i in rows if i > after[0]), *(i for i in after if i < rows[-1]))


def check_names(placed: Placed) -> Faults:
    """IL308, R-DEP-5: REDUCE_DATA and REDUCE_TIE of one name occur at most once on a rank."""
    for kind in (Kind.REDUCE_DATA, Kind.REDUCE_TIE):
        groups = placed.order.by_rank(kind, column=placed.order.name).values()
        yield from (("IL308", tuple(rows)) for rows in groups if len(rows) > 1)


def _asks_for_reductions(placed: Placed) -> bool:
    return not placed.program.fragment and not placed.program.reductions_inserted


def check_stage_reductions(placed: Placed) -> Faults:
    """IL308, R-DEP-5: a Sharded stage that trains has exactly one REDUCE, on its rank; no other has one."""
    if not _asks_for_reductions(placed):
        return
    order, stages, reduces = placed.order, placed.program.stages, placed.reduces
    listed: dict[int, list[int]] = {}
    for i in order.rows[Kind.REDUCE]:
        listed.setdefault(order.stage[i], []).append(i)
    for s, stage in enumerate(stages):
        rows = listed.get(s, [])
        lacking = reduces[s] and [order.rank[i] for i in rows] != [stage.rank]
        if stage.rank != REPLICATED and (len(rows) > 1 or lacking):
            yield "IL308", tuple(rows)
    for i in order.rows_of(*Kind.REDUCES) if not placed.program.placeholders else ():
        if 0 <= order.stage[i] < len(stages) and not reduces[order.stage[i]]:
            yield "IL308", (i,)
    for (_, s), rows in order.by_rank(Kind.REDUCE_REPLICATED, column=order.stage).items():
        if len(rows) > 1 and not reduces[s]:
            yield "IL308", tuple(rows)


def check_tie_reductions(placed: Placed) -> Faults:
    """IL308, R-DEP-5: a tie that trains and is on several ranks has one REDUCE_TIE on each, as declared."""
    tied = placed.order.by_rank(Kind.REDUCE_TIE, column=placed.order.name)
    for tie in placed.program.ties if _asks_for_reductions(placed) else ():
        homes = {placed.program.stages[s].rank for s in tie.stages}
        ranks = range(placed.program.ranks) if REPLICATED in homes else homes
        for r in ranks if len(ranks) > 1 and any(placed.reduces[s] for s in tie.stages) else ():
            rows = tied.get((r, tie.name), [])
            if [placed.order.comm[i] for i in rows] != [tie.comm]:
                yield "IL308", tuple(rows)
                if not rows:
                    break  # one is enough, and keeps this linear in the rows


def check_replicated_reductions(placed: Placed) -> Faults:
    """IL605, R-RANK: a Replicated stage with a trainable layer has exactly one REDUCE on every rank."""
    if not _asks_for_reductions(placed):
        return
    listed = placed.order.by_rank(Kind.REDUCE_REPLICATED, column=placed.order.stage)
    for s, stage in enumerate(placed.program.stages):
        asked = stage.rank == REPLICATED and placed.reduces[s]
        if asked and any((r, s) not in listed for r in range(placed.program.ranks)):
            yield "IL605", ()
    yield from (
        ("IL605", tuple(rows)) for (_, s), rows in listed.items() if len(rows) > 1 and placed.reduces[s]
    )


def _ties_by_rank(placed: Placed) -> Iterator[tuple[int, list[int], list[int]]]:
    """(rank, its REDUCE_TIEs of one name, the stages of that tie of which it lists work or a reduction)."""
    order, stages = placed.order, placed.program.stages
    tied = order.by_rank(Kind.REDUCE_TIE, column=order.name)
    worked = order.by_rank(Kind.W, Kind.B, *Kind.REDUCES, column=order.stage).keys() if tied else ()
    of_rank: dict[int, set[int]] = {}
    for r, s in worked:
        of_rank.setdefault(r, set()).add(s)
    stages_of = {tie.name: tie.stages for tie in placed.program.ties}
    for (r, name), rows in tied.items():
        here = stages_of.get(name, frozenset()) & of_rank.get(r, set())
        yield r, rows, [s for s in here if stages[s].rank in (r, REPLICATED)]


def check_reduction_order(placed: Placed) -> Faults:
    """IL309, R-DEP-5: REDUCE(s) stands after every W and B of s on its rank, REDUCE_TIE after its stages'."""
    order = placed.order
    late = order.by_rank(*Kind.REDUCES, column=order.stage)
    for r, rows, stages in _ties_by_rank(placed):
        late |= {(r, s): sorted([*rows, *late.get((r, s), [])]) for s in stages}
    works = order.by_rank(Kind.W, Kind.B, column=order.stage) if late else {}
    yield from _check_turns("IL309", works, late)


def check_tie_order(placed: Placed) -> Faults:
    """IL310, R-DEP-5: REDUCE_TIE(x) stands before REDUCE_DATA(x) and REDUCE(s) of every stage of tie x."""
    order = placed.order
    named = order.by_rank(Kind.REDUCE_DATA, column=order.name)
    of_stage = order.by_rank(*Kind.REDUCES, column=order.stage)
    for r, rows, stages in _ties_by_rank(placed):
        tie = (r, order.name[rows[0]])
        late = sorted([*named.get(tie, []), *(i for s in stages for i in of_stage.get((r, s), []))])
        yield from _check_turns("IL310", {tie: rows}, {tie: late})


def check_steps(placed: Placed) -> Faults:
    """IL311, R-DEP-5: STEP on every rank or none (not in a fragment), once, after all work and reductions."""
    order = placed.order
    steps = order.by_rank(Kind.STEP)
    if steps and len(steps) < placed.program.ranks and not placed.program.fragment:
        yield "IL311", tuple(order.rows[Kind.STEP])
    yield from (("IL311", tuple(rows)) for rows in steps.values() if len(rows) > 1)
    works = (Kind.W, Kind.B, Kind.I, *Kind.REDUCES, Kind.REDUCE_DATA, Kind.REDUCE_TIE) if steps else ()
    yield from _check_turns("IL311", order.by_rank(*works), steps)


def check_zeros(placed: Placed) -> Faults:
    """IL313, R-DEP-5: no ZERO after a W, B or REDUCE with the STEP (without one, the end) still to come."""
    order = placed.order
    steps, zeros = order.by_rank(Kind.STEP), order.by_rank(Kind.ZERO)
    early = {
        rank: [i for i in rows if rank not in steps or i < steps[rank][-1]] for rank, rows in zeros.items()
    }
    yield from _check_turns("IL313", early, order.by_rank(Kind.W, Kind.B, *Kind.REDUCES) if zeros else {})
