"""The final inspection: what is listed too much, too little, on the wrong rank or without its other end (the
rules of presence).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from interlock.witness.executor.ledger import Problem
from interlock.witness.executor.world import (
    COMPUTE,
    PIPELINE,
    TRANSFER,
    WITH_MICROBATCH,
    WITH_STAGE,
    Op,
    World,
)


def inspect(world: World, model: str) -> Iterator[Problem]:
    yield from _places(world)
    yield from _twice(world)
    yield from _mixed_backwards(world)
    yield from _members(world)
    yield from _collectives(world)
    yield from _creation(world)
    yield from _channels(world, model)
    if not world.fragment:
        yield from _forwards(world)
        yield from _footprint(world)
        yield from _steps(world)
        if not world.inserted:
            yield from _boundaries(world)
        if world.reductions_written:
            yield from _reductions(world)


def _places(w: World) -> Iterator[Problem]:
    for op in w.ops:
        if op.kind in WITH_STAGE and not w.stage_exists(op):
            yield Problem("IL314", (op.row,), f"{op}: there is no stage {op.stage}")
        if op.kind in WITH_MICROBATCH and not 0 <= op.mb < w.mbs:
            yield Problem("IL306", (op.row,), f"{op}: there is no microbatch {op.mb}")
        elif op.kind in WITH_MICROBATCH and w.stage_exists(op) and op.stage not in w.turn[op.mb]:
            yield Problem("IL306", (op.row,), f"{op}: microbatch {op.mb} does not pass stage {op.stage}")
        if op.kind in (*COMPUTE, *PIPELINE) and w.stage_exists(op) and 0 <= op.mb < w.mbs:
            home = w.rank(op.stage, op.mb)
        elif op.kind == "REDUCE" and w.stage_exists(op) and not w.replicated(op.stage):
            home = w.stages[op.stage]["rank"]
        else:
            home = op.rank
        if home != op.rank:
            yield Problem("IL304", (op.row,), f"{op} is on rank {op.rank} and belongs on rank {home}")
        elif op.kind in TRANSFER and (op.kind not in PIPELINE or w.in_place(op)) and w.far_end(op) is None:
            yield Problem("IL401", (op.row,), f"{op} on rank {op.rank} has no other rank to go to")


def _twice(w: World) -> Iterator[Problem]:
    for kind, s, m in {(op.kind, op.stage, op.mb): None for op in w.ops if op.kind in COMPUTE}:
        if len(rows := w.rows(kind, s, m)) > 1:
            yield Problem("IL303", rows, f"{s}{kind}{m} runs {len(rows)} times")


def _mixed_backwards(w: World) -> Iterator[Problem]:
    for s, m in {(op.stage, op.mb): None for op in w.ops if op.kind in "BIW"}:
        whole, half, weight = (w.rows(kind, s, m) for kind in "BIW")
        if whole and (half or weight):
            yield Problem("IL305", whole + half + weight, f"stage {s}, microbatch {m}: B runs beside I or W")
        elif weight and not half and not w.fragment:
            yield Problem("IL305", weight, f"{s}W{m} finds nothing that {s}I{m} left for it")


def _forwards(w: World) -> Iterator[Problem]:
    for m in range(w.mbs):
        for s in w.path[m]:
            if not w.rows("F", s, m):
                yield Problem("IL302", (), f"{s}F{m} never runs")
    losses = [op for op in w.ops if op.kind == "LOSS"]
    for m in range(w.mbs) if losses else ():
        if w.path[m] and not w.rows("LOSS", w.path[m][-1], m):
            yield Problem("IL302", (), f"microbatch {m} has no LOSS")
    for op in losses:
        if 0 <= op.mb < w.mbs and w.stage_exists(op) and w.path[op.mb][-1:] != [op.stage]:
            yield Problem("IL302", (op.row,), f"{op} is not on the last stage of microbatch {op.mb}")


def _footprint(w: World) -> Iterator[Problem]:
    """IL601, IL602: what differentiation ran against what is listed."""
    for m in range(w.mbs):
        for s, work in w.work[m].items():

            def has(kind):
                return bool(w.rows(kind, s, m))  # noqa: B023

            if work.back and not has("B") and not (has("I") and (has("W") or not work.weights)):
                yield Problem("IL601", (), f"the backward of stage {s}, microbatch {m} is not all there")
            if w.placeholders:
                continue
            excluded = [] if work.back else list("BIW")
            if not w.crossing(w.neighbour(s, m, 1), m):
                excluded = [*excluded, "RECV_B"]
            if not work.cross:
                excluded = [*excluded, "SEND_B", "WAIT_B"]
            for kind in excluded:
                if has(kind):
                    yield Problem(
                        "IL602",
                        w.rows(kind, s, m),
                        f"{s}{kind}{m} is listed and differentiation has no such work",
                    )


def _steps(w: World) -> Iterator[Problem]:
    stepping = {op.rank for op in w.ops if op.kind == "STEP"}
    for rank in range(w.ranks) if stepping else ():
        if rank not in stepping:
            yield Problem("IL311", (), f"rank {rank} makes no STEP and others do")


def _reductions(w: World) -> Iterator[Problem]:  # noqa: C901, PLR0912
    found: dict[int, list[Op]] = defaultdict(list)
    for op in w.ops:
        if op.kind == "REDUCE" and w.stage_exists(op):
            found[op.stage].append(op)
    for s in range(len(w.stages)):
        rows = tuple(op.row for op in found[s])
        on = Counter(op.rank for op in found[s])
        if not w.trains(s):
            if rows and not w.placeholders:
                yield Problem("IL308", rows, f"stage {s} has nothing to reduce")
        elif w.replicated(s):
            for rank in range(w.ranks):
                if on[rank] != 1:
                    yield Problem(
                        "IL605", rows, f"rank {rank} enters the reduction of stage {s} {on[rank]} times"
                    )
        else:
            if not on[w.stages[s]["rank"]]:
                yield Problem("IL308", (), f"the gradient of stage {s} is never reduced")
            if len(rows) > 1:
                yield Problem("IL308", rows, f"the gradient of stage {s} is reduced {len(rows)} times")
    for tie in w.ties:
        lies_on = {rank for s in tie["stages"] for rank in w.ranks_of(s)}
        if len(lies_on) < 2 or not any(w.trains(s) for s in tie["stages"]):
            continue
        for rank in sorted(lies_on):
            own = [
                op
                for op in w.by_rank[rank]
                if op.kind == "REDUCE_TIE" and op.name == tie["name"] and op.comm == tie["comm"]
            ]
            if len(own) != 1:
                yield Problem(
                    "IL308",
                    tuple(op.row for op in own),
                    f"rank {rank} sums the tie {tie['name']} {len(own)} times",
                )


def _members(w: World) -> Iterator[Problem]:
    for op in w.ops:
        members = w.comms[op.comm]["ranks"]
        users = []
        if op.kind in TRANSFER:
            users = [op.rank] + ([w.far_end(op)] if w.takes_part(op) else [])
        elif w.is_collective(op):
            users = [op.rank]
        for rank in users:
            if rank not in members:
                yield Problem(
                    "IL406",
                    (op.row,),
                    f"{op} uses {w.comms[op.comm]['name']}, of which rank {rank} is no member",
                )


def _collectives(w: World) -> Iterator[Problem]:
    """IL404: what the k-th meetings of a communicator's members look like."""
    for number, comm in enumerate(w.comms):
        calls = {
            rank: [op for op in w.by_rank[rank] if op.comm == number and w.is_collective(op)]
            for rank in comm["ranks"]
        }
        for k in range(max(map(len, calls.values()), default=0)):
            come = [ops[k] for ops in calls.values() if k < len(ops)]
            if len(come) < len(calls) or len({w.signature(op) for op in come}) > 1:
                yield Problem(
                    "IL404",
                    tuple(op.row for op in come),
                    f"{comm['name']}: the members' collectives number {k} are "
                    + ", ".join(f"{op} on rank {op.rank}" for op in come),
                )
                break


def _creation(w: World) -> Iterator[Problem]:
    """IL405: follows "created directly before" from each communicator; none comes back to itself."""
    later: dict[int, set[int]] = defaultdict(set)
    for ops in w.by_rank:
        made = [op.comm for op in ops if op.kind == "INIT"]
        for c, d in zip(made, made[1:]):
            later[c].add(d)
    for c in sorted(later):
        reached: set[int] = set()
        front = set(later[c])
        while front:
            reached |= front
            front = {e for d in front for e in later.get(d, ())} - reached
        if c in reached:
            rows = tuple(op.row for op in w.ops if op.kind == "INIT" and op.comm == c)
            yield Problem(
                "IL405", rows, f"{w.comms[c]['name']} is created before itself on a way over the ranks"
            )


def _ends(w: World) -> dict[tuple, tuple[list[Op], list[Op]]]:
    """By channel the sends and the receives, in the order in which they are listed."""
    ends: dict[tuple, tuple[list[Op], list[Op]]] = {}
    for op in w.ops:
        if op.kind in TRANSFER and w.takes_part(op):
            ends.setdefault(w.channel(op), ([], []))[not op.kind.startswith("SEND")].append(op)
    return ends


def _mixed_up(w: World, ends: tuple[list[Op], list[Op]]) -> list[tuple[Op, Op]]:
    """Pairs that meet and differ, on a channel whose ends are equally many."""
    sends, receives = ends
    return [
        (a, b)
        for a, b in zip(sends, receives)
        if len(sends) == len(receives) and w.payload(a) != w.payload(b)
    ]


def _channels(w: World, model: str) -> Iterator[Problem]:
    for (source, destination, comm), (sends, receives) in _ends(w).items():
        if len(sends) != len(receives):
            k = min(len(sends), len(receives))
            yield Problem(
                "IL401",
                tuple(op.row for op in (sends + receives if k == 0 else sends[k:] + receives[k:])),
                f"from rank {source} to {destination} on {w.comms[comm]['name']}: {len(sends)} sends, "
                f"{len(receives)} receives",
            )
        for a, b in _mixed_up(w, (sends, receives)):
            yield Problem("IL403", (a.row, b.row), f"{b} on rank {destination} gets the payload of {a}")
        for a, b in zip(sends, receives):
            if model == "pair" and (a.launch >= 0) != (b.launch >= 0):
                yield Problem(
                    "IL408", (a.row, b.row), f"{a} and {b} meet, and only one of them is in a grouped launch"
                )


def _boundaries(w: World) -> Iterator[Problem]:
    """IL401: each boundary between ranks is passed once a microbatch, and once back where the gradient
    crosses.
    """
    swapped = {channel[:2] for channel, ends in _ends(w).items() if _mixed_up(w, ends)}
    for m in range(w.mbs):
        for p, n in zip(w.path[m], w.path[m][1:]):
            a, b = w.rank(p, m), w.rank(n, m)
            if a == b:
                continue
            for kinds, stages, asked, way in (
                (("SEND_F", "RECV_F"), (p, n), True, (a, b)),
                (("SEND_B", "RECV_B"), (n, p), w.crossing(n, m), (b, a)),
            ):
                rows = [
                    tuple(r for r in w.rows(kind, s, m) if w.takes_part(w.ops[r]))
                    for kind, s in zip(kinds, stages)
                ]
                count = tuple(map(len, rows))
                fine = count == (1, 1) if asked else count == (0, 0) or w.placeholders and count == (1, 1)
                if not fine and way not in swapped:
                    yield Problem(
                        "IL401",
                        rows[0] + rows[1],
                        f"{stages[0]}{kinds[0]}{m} is listed {count[0]} times, "
                        f"{stages[1]}{kinds[1]}{m} {count[1]} times, each {'once' if asked else 'never'} "
                        "asked for",
                    )
