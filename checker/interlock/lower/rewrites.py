"""What a target may change in a program: each rewrite makes the change, and a check of its own says whether a
change is that and no more.

A check compares the two programs only, and knows nothing of how the change was made (spec/lowering.md,
"Rewrites"). It answers where they differ in anything else, "" if nowhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from interlock.interchange.plan import program_head
from interlock.lower.rank_rows import Row, rows_of, unlaunched, with_rows
from interlock.program.facts import Facts
from interlock.program.ir import Program
from interlock.program.kinds import COMPUTE, TRANSFER, Kind
from interlock.program.transfers import insert, tie_ranks

_WAITS = (Kind.WAIT_F, Kind.WAIT_B)
_FRONT = {Kind.SEND_F: Kind.F, Kind.SEND_B: Kind.I}


@dataclass(frozen=True)
class Rewrite:
    """`apply(program, trained)`: the program changed (itself, if there is nothing to change).

    `check(before, after)`: "", or what else changed.
    """

    name: str
    apply: Callable[[Program, Program | None], Program]
    check: Callable[[Program, Program], str]


def _differs(before: list[list[Row]], after: list[list[Row]], program: Program) -> str:
    for r, (a, b) in enumerate(zip(before, after, strict=True)):
        for x, y in zip(a, b):
            if x != y:
                return f"rank {r} lists {_show(y)} where {_show(x)} stood"
        if len(a) != len(b):
            return f"rank {r} lists {len(b)} operations where {len(a)} were to be left"
    return ""


def _show(row: Row) -> str:
    return (
        f"{row.stage}{row.kind.name}{row.mb}"
        if row.mb >= 0
        else f"{row.stage}{row.kind.name}"
        if row.stage >= 0
        else row.kind.name
    )


def _heads(before: Program, after: Program, may: tuple[str, ...] = ()) -> str:
    a, b = program_head(before), program_head(after)
    wrong = [k for k in a if a[k] != b[k] and k not in may]
    return f"{wrong[0]} changed" if wrong else ""


def _table(program: Program):
    """(stage, mb) -> the footprint's answers (back, cross, wwork) there; outside of the program none of them
    holds.
    """
    fp = Facts(program).footprint
    of, stages = fp.of.tolist(), len(program.stages)

    def answers(s: int, m: int) -> tuple[bool, bool, bool]:
        if not (0 <= s < stages and 0 <= m < len(of)):
            return False, False, False
        return bool(fp.back[of[m], s]), bool(fp.cross[of[m], s]), bool(fp.wwork[of[m], s])

    return answers


# ---- the trainer's operations, and waits for sends
# -----------------------------------------------------------------------


def _without(kinds: tuple[Kind, ...]):
    def apply(program: Program, trained: Program | None = None) -> Program:
        ranks = rows_of(program)
        if not any(row.kind in kinds for rank in ranks for row in rank):
            return program
        return with_rows(program, [[row for row in rank if row.kind not in kinds] for rank in ranks])

    def check(before: Program, after: Program) -> str:
        left = [[row for row in unlaunched(rank) if row.kind not in kinds] for rank in rows_of(before)]
        return _heads(before, after) or _differs(left, [unlaunched(rank) for rank in rows_of(after)], before)

    return apply, check


TRAINERS = Rewrite("trainer", *_without((Kind.ZERO, Kind.STEP, Kind.LOSS)))
HELD_SENDS = Rewrite("held_sends", *_without(_WAITS))


# ---- I and W to B
# --------------------------------------------------------------------------------------------------------


def whole_backward(program: Program, trained: Program | None = None) -> Program:
    """On the first trainable stage after a frozen prefix B stands in the place of I, and W goes (IL802); so
    does an I whose W is idle.
    """
    answers = _table(program)
    ranks = rows_of(program)
    weights = {row.key for rank in ranks for row in rank if row.kind is Kind.W}

    def turned(row: Row) -> bool:
        back, cross, wwork = answers(*row.key)
        return (row.stage > 0 and wwork and not cross) or (row.kind is Kind.I and row.key not in weights)

    out = [
        [
            row._replace(kind=Kind.B) if row.kind is Kind.I and turned(row) else row
            for row in rank
            if not (row.kind is Kind.W and turned(row))
        ]
        for rank in ranks
    ]
    return program if out == ranks else with_rows(program, out)


def _check_whole(before: Program, after: Program) -> str:
    """Every B that came in stands for an I and a W that went, in the place of I, where IL802 asks for it, or
    for an I that had no W.
    """
    old, new = [unlaunched(r) for r in rows_of(before)], [unlaunched(r) for r in rows_of(after)]
    answers = _table(before)

    def count(ranks):
        return Counter((row.kind, row.key) for rank in ranks for row in rank)

    went, came = count(old) - count(new), count(new) - count(old)
    weights = {row.key for rank in old for row in rank if row.kind is Kind.W}
    for (kind, key), n in came.items():
        back, cross, wwork = answers(*key)
        split = went.get((Kind.I, key)) == 1 and went.get((Kind.W, key)) == 1 and wwork and not cross
        lone = went.get((Kind.I, key)) == 1 and key not in weights
        if kind is not Kind.B or n != 1 or not (split or lone):
            return f"{key[0]}{kind.name}{key[1]} came in"
    if any((Kind.B, key) not in came or kind not in (Kind.I, Kind.W) for kind, key in went):
        return "an operation went"
    split = {key for _, key in came}
    back_again = [
        [row._replace(kind=Kind.I) if row.kind is Kind.B and row.key in split else row for row in rank]
        for rank in new
    ]
    left = [[row for row in rank if not (row.kind is Kind.W and row.key in split)] for rank in old]
    return _heads(before, after) or _differs(left, back_again, before)


WHOLE_BACKWARD = Rewrite("whole_backward", whole_backward, _check_whole)


# ---- placeholders
# --------------------------------------------------------------------------------------------------------


def placeholders(program: Program, trained: Program | None = None) -> Program:
    """A backward for every stage and microbatch, also where the footprint excludes it (IL803).

    Where the program was restricted from a trained one the placeholders stand where that has them, else at
    the end of each rank, microbatch by microbatch from the last stage down, with their transfers if transfers
    are written.
    """
    answers, facts = _table(program), Facts(program)
    ranks = rows_of(program)
    there = {row.key for rank in ranks for row in rank if row.kind in (Kind.B, Kind.I)}
    forwards = {row.key: r for r, rank in enumerate(ranks) for row in rank if row.kind is Kind.F}
    missing = sorted(
        (key for key in forwards if key not in there and not answers(*key)[0]), key=lambda k: (k[1], -k[0])
    )
    if not missing:
        return replace(program, placeholders=True)
    if trained is not None and program.inserted:
        out = [_where_trained(mine, theirs, set(missing)) for mine, theirs in zip(ranks, rows_of(trained))]
    else:
        out = [list(rank) for rank in ranks]
        fp = facts.footprint
        for s, m in missing:
            after = int(fp.next[fp.of[m], s])
            if not program.inserted and after >= 0 and forwards[after, m] != forwards[s, m]:
                out[forwards[after, m]].append(Row(Kind.SEND_B, after, m))
                out[forwards[s, m]].append(Row(Kind.RECV_B, s, m))
            out[forwards[s, m]].append(Row(Kind.B, s, m))
        out = [_before_the_end(rank, len(old)) for rank, old in zip(out, ranks)]
    return with_rows(program, out, placeholders=True)


def _before_the_end(rank: list[Row], old: int) -> list[Row]:
    """What was added comes before the reductions and STEP at the end of the rank."""
    end = old
    while end and rank[end - 1].kind in (
        Kind.REDUCE,
        Kind.REDUCE_TIE,
        Kind.REDUCE_DATA,
        Kind.STEP,
        Kind.RESHARD,
    ):
        end -= 1
    return rank[:end] + rank[old:] + rank[end:old]


def _where_trained(mine: list[Row], theirs: list[Row], missing: set) -> list[Row]:
    """`mine` with the backwards that are `missing`, each after what precedes it in the trained order."""
    out, i = [], 0

    def same(a, b):
        return a.key == b.key and (a.kind is b.kind or (a.kind, b.kind) == (Kind.I, Kind.B))

    for row in theirs:
        if i < len(mine) and same(mine[i], row):
            out.append(mine[i])
            i += 1
        elif row.kind in (Kind.B, Kind.I) and row.key in missing:
            out.append(row._replace(kind=Kind.B, launch=-1))
    return out + mine[i:]


def _check_placeholders(before: Program, after: Program) -> str:
    """Only backwards came in that the footprint excludes, one where there was none, after their forward, and
    transfers for them in pairs.
    """
    answers = _table(before)
    old, new = [unlaunched(r) for r in rows_of(before)], [unlaunched(r) for r in rows_of(after)]
    there = {row.key for rank in old for row in rank if row.kind in (Kind.B, Kind.I, Kind.W)}

    def added(row: Row) -> bool:
        if row.kind is Kind.B:
            return row.key not in there and not answers(*row.key)[0]
        return (
            row.kind is Kind.RECV_B
            and not answers(*row.key)[0]
            or row.kind is Kind.SEND_B
            and not answers(*row.key)[1]
        )

    came = Counter((row.kind, row.key) for rank in new for row in rank if added(row))
    listed = Counter((row.kind, row.key) for rank in old for row in rank if added(row))
    if any(n > 1 for (kind, _), n in came.items() if kind is Kind.B):
        return "a placeholder came in twice"
    left = [[row for row in rank if not (added(row) and not listed[row.kind, row.key])] for rank in new]
    for rank in new:
        done = set()
        for row in rank:
            done |= {row.key} if row.kind is Kind.F else set()
            if row.kind is Kind.B and added(row) and row.key not in done:
                return f"{_show(row)} came in before its forward"
    return _heads(before, after, ("placeholders",)) or _differs(old, left, before)


PLACEHOLDERS = Rewrite("placeholders", placeholders, _check_placeholders)


# ---- reductions
# ----------------------------------------------------------------------------------------------------------


def reductions(program: Program, trained: Program | None = None) -> Program:
    """Where transfers are written and reductions are to be inserted: at the end of each rank, before its
    STEP, every tie, then every stage.
    """
    if program.inserted or not program.reductions_inserted:
        return program
    out = []
    for r, rank in enumerate(rows_of(program)):
        end = len(rank) - 1 if rank and rank[-1].kind is Kind.STEP else len(rank)
        step = rank[end:] or [Row(Kind.STEP, -1, -1)]
        out.append(rank[:end] + _reductions_of(program, r) + step)
    return with_rows(program, out, reductions_inserted=False)


def _reductions_of(program: Program, rank: int) -> list[Row]:
    reduces = Facts(program).footprint.reduce
    rows = []
    for tie in program.ties:
        ranks = tie_ranks(program, tie)
        if rank in ranks and len(ranks) > 1 and any(reduces[s] for s in tie.stages):
            rows.append(Row(Kind.REDUCE_TIE, -1, -1, name=program.names.index(tie.name), comm=tie.comm))
    return rows + [
        Row(Kind.REDUCE, s, -1)
        for s, stage in enumerate(program.stages)
        if reduces[s] and (stage.replicated or stage.rank == rank)
    ]


def _check_reductions(before: Program, after: Program) -> str:
    """Where they were to be inserted, each rank ends in one REDUCE_TIE a tie and one REDUCE a stage that its
    footprint asks for, and STEP.
    """
    old, new = [unlaunched(r) for r in rows_of(before)], [unlaunched(r) for r in rows_of(after)]
    if before.inserted or not before.reductions_inserted:
        return _heads(before, after) or _differs(old, new, before)
    reduces = Facts(before).footprint.reduce
    for r, rank in enumerate(old):
        steps = bool(rank) and rank[-1].kind is Kind.STEP
        end = len(rank) - steps
        added = new[r][end:]
        ties = [
            t.name
            for t in before.ties
            if r in tie_ranks(before, t)
            and len(tie_ranks(before, t)) > 1
            and any(reduces[s] for s in t.stages)
        ]
        stages = [
            s
            for s, st in enumerate(before.stages)
            if reduces[s] and r in (range(before.ranks) if st.replicated else (st.rank,))
        ]
        if new[r][:end] != rank[:end] or [
            before.names[x.name] if x.kind is Kind.REDUCE_TIE else (x.kind, x.stage) for x in added
        ] != [*ties, *((Kind.REDUCE, s) for s in stages), (Kind.STEP, -1)]:
            return f"rank {r} ends in other reductions than the footprint asks for, or more changed"
    return _heads(before, after, ("reductions",))


REDUCTIONS = Rewrite("reductions", reductions, _check_reductions)


# ---- transfers
# -----------------------------------------------------------------------------------------------------------


def whole_insertion(program: Program, trained: Program | None = None) -> Program:
    """Transfers for every backward listed, placeholders' too, along one linearisation; reductions of what is
    trained; none where they are written.
    """
    if not program.inserted:
        return program
    layers = tuple(replace(l, trainable=True) for l in program.layers)
    full = replace(insert(replace(program, layers=layers)), layers=program.layers)
    reduces = Facts(program).footprint.reduce
    tied = {t.name: any(reduces[s] for s in t.stages) for t in program.ties}

    def keep(row):
        return (
            reduces[row.stage]
            if row.kind is Kind.REDUCE
            else tied[full.names[row.name]]
            if row.kind is Kind.REDUCE_TIE
            else row.kind is not Kind.STEP
        )

    return with_rows(full, [[row for row in rank if keep(row)] for rank in rows_of(full)])


def _check_insertion(before: Program, after: Program) -> str:
    """The rest stands as it stood; the rules judge what was put in."""
    old, new = [unlaunched(r) for r in rows_of(before)], [unlaunched(r) for r in rows_of(after)]
    if not before.inserted:
        return _heads(before, after) or _differs(old, new, before)
    put_in = (
        *_WAITS,
        *TRANSFER,
        *((Kind.REDUCE, Kind.REDUCE_TIE, Kind.STEP) if before.reductions_inserted else ()),
    )
    old, new = ([[row for row in rank if row.kind not in put_in] for rank in ranks] for ranks in (old, new))
    return _heads(before, after, ("transfers", "reductions")) or _differs(old, new, before)


WHOLE_INSERTION = Rewrite("whole_insertion", whole_insertion, _check_insertion)


def early_transfers(program: Program, trained: Program | None = None) -> Program:
    """Receives are posted, and sends leave, as early as their queue allows: they move up past compute
    operations, never past a transfer, a collective or another launch. The wait for a send moves down, past
    compute operations only, to the next wait or transfer of its rank or, if that is never, before the end:
    nothing waits for a peer that has not come yet. Order among transfers stays, so no model gains a wait by
    it.
    """
    out = [_later_waits(_earlier(rank)) for rank in rows_of(program)]
    return program if out == rows_of(program) else with_rows(program, out)


def _earlier(rank: list[Row]) -> list[Row]:
    out: list[Row] = []
    i = 0
    while i < len(rank):
        j = i + 1
        while j < len(rank) and rank[i].launch >= 0 and rank[j].launch == rank[i].launch:
            j += 1
        unit = rank[i:j]
        at = len(out)
        if all(row.kind in (Kind.RECV_F, Kind.RECV_B, Kind.SEND_F, Kind.SEND_B) for row in unit):
            needs = {(row.kind, row.key) for row in unit if row.kind in _FRONT}
            while at and _passes(out[at - 1], needs):
                at -= 1
            while at and at < len(out) and out[at - 1].launch >= 0 and out[at - 1].launch == out[at].launch:
                at += 1  # never into an overlap
        out[at:at] = unit
        i = j
    return out


def _passes(row: Row, sends: set) -> bool:
    """Whether a unit with these sends may move up past `row`."""
    if row.kind not in COMPUTE:
        return False
    produced = {Kind.F: Kind.SEND_F, Kind.B: Kind.SEND_B, Kind.I: Kind.SEND_B}.get(row.kind)
    return (produced, row.key) not in sends


def _later_waits(rank: list[Row]) -> list[Row]:
    out: list[Row] = []
    held: list[Row] = []
    for row in rank:
        if row.kind in _WAITS:
            held.append(row)
            continue
        if row.kind not in COMPUTE and row.kind not in TRANSFER:
            out += held
            held = []
        elif row.kind in (Kind.SEND_F, Kind.SEND_B):
            for_this = [
                w for w in held if w.kind is (Kind.WAIT_F if row.kind is Kind.SEND_F else Kind.WAIT_B)
            ]
            out += for_this  # the last payload of this sort has left before the next one does
            held = [w for w in held if w not in for_this]
        out.append(row)
    return out + held


def _check_early(before: Program, after: Program) -> str:
    """The same operations; compute and collectives in the same order, transfers in the same order; receives,
    sends and launches no later among the compute operations than they were, waits no earlier; no send before
    what it sends, no wait before its send.
    """
    moving = (*TRANSFER, *_WAITS)
    for r, (a, b) in enumerate(
        zip(map(unlaunched, rows_of(before)), map(unlaunched, rows_of(after)), strict=True)
    ):
        for what, pick in (
            ("an operation that is no transfer", lambda k: k not in moving),
            ("a transfer", lambda k: k in TRANSFER),
        ):
            x, y = [row for row in a if pick(row.kind)], [row for row in b if pick(row.kind)]
            if x != y:
                return f"rank {r}: {what} changed its place among its like"
        if Counter(a) != Counter(b):
            return f"rank {r} has other operations"
        old, new = ({(row.kind, row.key): i for row, i in _counted(rank)} for rank in (a, b))
        for (kind, key), i in new.items():
            if kind in TRANSFER and i > old[kind, key]:
                return f"rank {r}: {key[0]}{kind.name}{key[1]} moved down"
            if kind in _WAITS and i < old[kind, key]:
                return f"rank {r}: {key[0]}{kind.name}{key[1]} moved up"
        done: set = set()
        for row in b:
            if (
                row.kind in _FRONT
                and not {(k, row.key) for k in ((Kind.F,) if row.kind is Kind.SEND_F else (Kind.I, Kind.B))}
                & done
            ):
                return f"rank {r}: {_show(row)} moved before what it sends"
            if (
                row.kind in _WAITS
                and (Kind.SEND_F if row.kind is Kind.WAIT_F else Kind.SEND_B, row.key) not in done
            ):
                return f"rank {r}: {_show(row)} moved before its send"
            done.add((row.kind, row.key))
    return _heads(before, after)


def _counted(rank: list[Row]):
    """Each row with the number of compute operations before it."""
    n = 0
    for row in rank:
        yield row, n
        n += row.kind in COMPUTE


EARLY_TRANSFERS = Rewrite("early_transfers", early_transfers, _check_early)


def grouped(program: Program, trained: Program | None = None) -> Program:
    """Every transfer is a grouped launch of its own: what transports ask for that match no batched operation
    with a plain one.
    """
    number = max((row.launch for rank in rows_of(program) for row in rank), default=-1)
    out = []
    for rank in rows_of(program):
        mine: list[Row] = []
        for row in rank:
            if row.kind in TRANSFER and row.launch < 0:
                number += 1
                row = row._replace(launch=number)
            mine.append(row)
        out.append(mine)
    return with_rows(program, out)


def _check_grouped(before: Program, after: Program) -> str:
    for rank in rows_of(after):
        if any(row.kind in TRANSFER and row.launch < 0 for row in rank):
            return "a transfer is in no launch"
    return _heads(before, after) or _differs(
        [unlaunched(r) for r in rows_of(before)], [unlaunched(r) for r in rows_of(after)], before
    )


GROUPED = Rewrite("grouped", grouped, _check_grouped)
