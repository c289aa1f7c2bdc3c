"""`hyperparallel`: the steps of `exec_order`, as interchange/hyperparallel.py reads them, and MPipe's for a
leading Replicated region.
"""

from __future__ import annotations

import json
from collections import Counter

from interlock.interchange import hyperparallel
from interlock.interchange.plan import Plan, program_head
from interlock.lower.backends import LoweringOptions, NotExpressible
from interlock.lower.rank_rows import Row, rows_of, unlaunched, with_rows
from interlock.lower.rewrites import HELD_SENDS, TRAINERS, Rewrite
from interlock.program.ir import Communicator, Program
from interlock.program.kinds import COMPUTE, Kind
from interlock.text.source import Sources

BODY = {
    Kind.F: "FWD",
    Kind.B: "BWD",
    Kind.I: "BWD_INPUT",
    Kind.W: "BWD_WEIGHT",
    Kind.SEND_F: "FWD_SEND",
    Kind.RECV_F: "FWD_RECV",
    Kind.SEND_B: "BWD_SEND",
    Kind.RECV_B: "BWD_RECV",
}
INJECTED = (
    Kind.REDUCE,
    Kind.REDUCE_TIE,
    Kind.UNSHARD,
    Kind.RESHARD,
)  # the runtime's, or the trainer's, in the body


def encoder(program: Program) -> bool:
    return program.stages[0].replicated


def trained(program: Program) -> bool:
    return encoder(program) and any(l.trainable for l in program.layers[: program.stages[0].last])


def _first(program: Program) -> int:
    return program.stages[1].rank if len(program.stages) > 1 else 0


def _gather(row: Row) -> bool:
    return (row.kind, row.stage) in ((Kind.SEND_F, 0), (Kind.RECV_F, 1))


# ---- rewrites
# ------------------------------------------------------------------------------------------------------------


def mpipe_form(program: Program, trained: Program | None = None) -> Program:
    """Gathers as one block before the body, Scatters as one after it, both as the owners encode; the
    backwards of the first rank's own encodes right after the input gradient they take: shapes go ahead of
    every tensor by a blocking exchange, and that of an own encode has no step.
    """
    if not encoder(program):
        return program
    first, out = _first(program), []
    for r, rank in enumerate(rows_of(program)):
        gathers = [row for row in rank if _gather(row)]
        scatters = [row for row in rank if (row.kind, row.stage) == (Kind.SEND_B, 1)]
        own = {row.mb: row for row in rank if r == first and row.kind is Kind.B and row.stage == 0}
        apart = {*gathers, *scatters, *own.values()}
        rest = [row for row in rank if row not in apart]
        rest = [
            x
            for row in rest
            for x in (
                [row, own[row.mb]]
                if row.stage == 1 and row.kind in (Kind.B, Kind.I) and row.mb in own
                else [row]
            )
        ]
        start = next(
            (
                i
                for i, row in enumerate(rest)
                if not (row.kind is Kind.F and row.stage == 0) and row.kind is not Kind.COLL
            ),
            len(rest),
        )
        end = max(
            (
                i + 1
                for i, row in enumerate(rest)
                if row.kind in BODY and (row.stage > 0 or own.get(row.mb) == row)
            ),
            default=start,
        )

        def key(row):
            return row.mb

        out.append(
            rest[:start] + sorted(gathers, key=key) + rest[start:end] + sorted(scatters, key=key) + rest[end:]
        )
    return with_rows(program, out)


def _check_mpipe(before: Program, after: Program) -> str:
    """The rest stands as it stood; what moved stands where it should, and nothing came or went."""
    first = _first(before) if encoder(before) else -1

    def moved(r: int, row: Row) -> bool:
        return encoder(before) and (
            _gather(row)
            or (row.kind, row.stage) == (Kind.SEND_B, 1)
            or (r == first and row.kind is Kind.B and row.stage == 0)
        )

    for r, (a, b) in enumerate(
        zip(map(unlaunched, rows_of(before)), map(unlaunched, rows_of(after)), strict=True)
    ):
        if Counter(a) != Counter(b) or [x for x in a if not moved(r, x)] != [x for x in b if not moved(r, x)]:
            return f"more changed on rank {r} than the transfers of the encoder"
        for i, row in enumerate(b):
            if moved(r, row) and _gather(row) and any(x.kind in COMPUTE and x.stage > 0 for x in b[:i]):
                return f"a hand-over of microbatch {row.mb} stands in the body of rank {r}"
            if (
                moved(r, row)
                and row.kind is Kind.SEND_B
                and any(x.kind in COMPUTE and x.stage > 0 for x in b[i:])
            ):
                return f"a gradient of microbatch {row.mb} goes back within the body of rank {r}"
            if (
                moved(r, row)
                and row.kind is Kind.B
                and not (b[i - 1].stage == 1 and b[i - 1].mb == row.mb and b[i - 1].kind in (Kind.B, Kind.I))
            ):
                return (
                    f"the encoder's backward of microbatch {row.mb} does not follow the one it takes its "
                    "gradient from"
                )
    return "" if program_head(before) == program_head(after) else "the program's head changed"


MPIPE_FORM = Rewrite("mpipe_form", mpipe_form, _check_mpipe)


def broadcast(program: Program, _: Program | None = None) -> Program:
    """A trained encoder's parameters are sent from rank 0 to all before anything else: HyperParallel's
    replicas are overwritten in every step.
    """
    if not trained(program) or "params" in program.names:
        return program
    comm, name = len(program.communicators), len(program.names)
    ranks = [[Row(Kind.COLL, -1, -1, name=name, comm=comm), *rank] for rank in rows_of(program)]
    return with_rows(
        program,
        ranks,
        names=(*program.names, "params"),
        communicators=(*program.communicators, Communicator("replicas", tuple(range(program.ranks)))),
    )


def _check_broadcast(before: Program, after: Program) -> str:
    if before is after:
        return ""
    new = [unlaunched(r) for r in rows_of(after)]
    added = all(
        rank
        and rank[0].kind is Kind.COLL
        and after.names[rank[0].name] == "params"
        and after.communicators[rank[0].comm].name == "replicas"
        for rank in new
    )
    kept = [rank[1:] for rank in new] == [unlaunched(r) for r in rows_of(before)]
    heads = {k: v for k, v in program_head(before).items() if k not in ("names", "communicators")} == {
        k: v for k, v in program_head(after).items() if k not in ("names", "communicators")
    }
    return (
        ""
        if added
        and kept
        and heads
        and after.names[:-1] == before.names
        and after.communicators[:-1] == before.communicators
        else "more than one collective at the start of each rank changed"
    )


BROADCAST = Rewrite("broadcast", broadcast, _check_broadcast)


# ---- the back end
# --------------------------------------------------------------------------------------------------------


class HyperParallel:
    name = "hyperparallel"
    models = ("pair",)
    targets = ("hyperparallel",)
    inserts = False

    def rewrites(self, program: Program, options: LoweringOptions):
        yield WRITTEN, True
        yield TRAINERS, True
        yield HELD_SENDS, True
        yield MPIPE_FORM, True
        yield BROADCAST, True

    def write(self, plan: Plan, program: Program) -> str:
        encodes = (program.order.stage == 0) & (program.order.kind == int(Kind.F))
        if encoder(program) and (
            apart := sorted(set(range(program.microbatches)) - set(program.order.mb[encodes].tolist()))
        ):
            raise NotExpressible(
                f"microbatch {apart[0]} does not visit the encoder, and the lists encode every microbatch"
            )
        ranks = [list(_steps(plan.program, r, rank)) for r, rank in enumerate(rows_of(plan.program))]
        body = ",\n".join(
            f' "{r}": [\n' + ",\n".join(f"  {json.dumps(step)}" for step in steps) + "\n ]"
            for r, steps in enumerate(ranks)
        )
        return "{\n" + body + "\n}\n"

    def read(self, text: str, program: Program) -> Program:
        """Layers, sizes, ties and the reductions of the body are the program's: the lists have none."""
        found = hyperparallel.read(Sources().add("plan.json", text)).program
        named = [[replace_name(row, found, program) for row in rank] for rank in rows_of(found)]
        return with_rows(program, [_said(rank, encoder(program)) for rank in named])

    def expected_readback(self, plan: Plan, program: Program) -> Program:
        return with_rows(program, [_said(rank, encoder(program)) for rank in rows_of(program)])


def replace_name(row: Row, found: Program, program: Program) -> Row:
    """A collective's name and communicator by their numbers in the program."""
    if row.kind is not Kind.COLL:
        return row
    comms = [c.name for c in program.communicators]
    return row._replace(
        name=program.names.index(found.names[row.name]), comm=comms.index(found.communicators[row.comm].name)
    )


def _said(rank: list[Row], encoder: bool) -> list[Row]:
    """What the lists hold: not the reductions, which are the runtime's but for the encoder's, at the end."""
    return [row for row in rank if row.kind not in INJECTED] + [
        row for row in rank if encoder and (row.kind, row.stage) == (Kind.REDUCE, 0)
    ]


def _steps(program: Program, r: int, rank: list[Row]):
    """The steps of one rank: texts, and lists for composites, their type first."""
    shift, mpipe, first = int(encoder(program)), trained(program), _first(program)
    i = 0
    while i < len(rank):
        j = i + 1
        while j < len(rank) and rank[i].launch >= 0 and rank[j].launch == rank[i].launch:
            j += 1
        texts = [t for k in range(i, j) if (t := _step(program, r, rank, k, shift, first)) is not None]
        if rank[i].launch < 0 or len(texts) < 2:
            yield from texts
        else:
            overlap = "OVERLAP_F_B" if rank[i].kind is Kind.F else "OVERLAP_B_F"
            yield [overlap if rank[i].kind in COMPUTE else "BATCH_SEND_RECV", *texts]
        i = j
    if mpipe:
        yield "MPIPE_GRAD_REDUCE - 0"


def _step(program: Program, r: int, rank: list[Row], i: int, shift: int, first: int) -> str | None:
    row = rank[i]
    m, s = row.mb, row.stage - shift
    if row.kind is Kind.COLL and program.names[row.name] == "params":
        if not trained(program):
            raise NotExpressible(
                "parameters of a frozen encoder are broadcast: its backward is recomputed on the first "
                "rank, which only HyperParallel's own schedule does"
            )
        return f"MPIPE_PARAM_BROADCAST {r} -1"
    if row.kind in INJECTED:
        return None
    if row.kind not in BODY:
        raise NotExpressible(
            f"there is no step for {program.show(int(program.order.start[r]) + i)} on rank {r}"
        )
    if shift and _gather(row):
        return f"MPIPE_{'FWD_SEND' if row.kind is Kind.SEND_F else 'FWD_RECV'} {m} -1"
    if shift and row.stage == 0:
        if row.kind is Kind.F:
            return f"MPIPE_TRANSPOSE_FWD {m} -1"
        if row.kind is Kind.RECV_B:
            if not (i + 1 < len(rank) and rank[i + 1].kind is Kind.B and rank[i + 1].key == row.key):
                raise NotExpressible(
                    f"the gradient of microbatch {m} is received, and its encoder's backward does not "
                    "follow at once"
                )
            return f"MPIPE_GRAD_RECV_WITH_BACKWARD {m} 0"
        if row.kind is Kind.B:
            return None  # part of the receive, or on the first rank of BWD(m, 0)
        raise NotExpressible(f"the encoder's backward of microbatch {m} is split")
    if shift and (row.kind, row.stage) == (Kind.SEND_B, 1):
        return f"MPIPE_GRAD_SEND {m} 0"
    return f"{BODY[row.kind]} {m} {s}"


def _insert_transfers(program: Program, full: Program | None = None) -> Program:
    from interlock.check.subject import write_transfers

    return write_transfers(program, full if full is not None and full.inserted else None) or program


def _check_written(before: Program, after: Program) -> str:
    from interlock.lower.rewrites import _check_insertion

    return (
        _check_insertion(before, after)
        if before.inserted
        else ""
        if before is after
        else "a written program changed"
    )


WRITTEN = Rewrite(
    "insertion", lambda p, full=None: _insert_transfers(p, full) if p.inserted else p, _check_written
)
BACKEND = HyperParallel()
