"""Orders and traces as written, to a program: placement, names, communicators, launches."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from interlock.algebra.indices import indices
from interlock.algebra.model import LAYER_LIMIT, Chain
from interlock.algebra.partition import even
from interlock.algebra.setting import MICROBATCH_LIMIT, RANK_LIMIT, comm_number
from interlock.language import ast
from interlock.language.expand import expand
from interlock.program.ir import COLUMNS, Communicator, Layer, Order, Program, Stage
from interlock.program.kinds import WITH_MICROBATCH, WITH_STAGE, Kind
from interlock.text.finding import Finding, InputError, Mark, error
from interlock.text.source import Span

_TIED = Kind.REDUCE_TIE
_COLUMNS = (*COLUMNS, "at", "width")


class Lister:
    """The operations of an order, rank by rank, with what they say of ranks, stages and microbatches."""

    def __init__(self, order: ast.Order):
        self.order = order
        self.ranks: dict[int, ast.RankOrder] = {}
        for line in order.ranks:
            other = self.ranks.setdefault(line.rank.value, line)
            if other is not line:
                raise InputError(
                    Finding.of_input(
                        "IL204",
                        f"rank {line.rank.value} is listed twice",
                        (Mark(line.rank.span, "here"), Mark(other.rank.span, "and here")),
                        "put its operations into one line",
                    )
                )
        self.where: dict[int, tuple[int, Span]] = {}  # stage -> rank and place where it is listed first
        self.last_microbatch: tuple[int, Span | None] = (-1, None)
        for r in sorted(self.ranks):
            for op in self.operations(r):
                kind = Kind[op.kind]
                if kind in WITH_STAGE and op.stage not in self.where:
                    self.where[op.stage] = (r, op.span)
                if kind in WITH_MICROBATCH and op.mb > self.last_microbatch[0]:
                    self.last_microbatch = (op.mb, op.span)

    def items(self, rank: int):
        """What a rank lists, repeats written out. They are made anew at each call, so that long repeats take
        no room.
        """
        return expand(self.ranks[rank].items) if rank in self.ranks else ()

    def operations(self, rank: int):
        for item in self.items(rank):
            if isinstance(item, ast.Op):
                yield item
            else:
                yield from item.items


def sizes(schedule: ast.Schedule, lister: Lister) -> tuple[int, int]:
    """Ranks and microbatches: those written, else as many as the order lists. Raises IL104, IL204, IL206."""
    for what, node in (("ranks", schedule.ranks), ("microbatches", schedule.microbatches)):
        if node is not None and node.value < 1:
            raise error("IL206", f"a schedule with {node.value} {what}", node.span, help="write 1 or more")
    last = max(lister.ranks, default=0)
    for line in schedule.place.lines if schedule.place else ():
        if isinstance(line, ast.PlaceRank):
            last = max(last, line.rank.value)
    ranks = schedule.ranks.value if schedule.ranks is not None else last + 1
    for r, line in lister.ranks.items():
        if r >= ranks:
            raise error(
                "IL204",
                f"there is no rank {r}: the ranks are 0..{ranks - 1}",
                line.rank.span,
                help=f"write `ranks {r + 1}`, or correct the number",
            )
    if ranks > RANK_LIMIT:
        raise error(
            "IL104",
            f"{ranks:,} ranks are too many",
            schedule.ranks.span if schedule.ranks else lister.ranks[last].rank.span,
            help=f"the most is {RANK_LIMIT:,}",
        )
    mb, span = lister.last_microbatch
    microbatches = schedule.microbatches.value if schedule.microbatches is not None else max(mb + 1, 1)
    if microbatches > MICROBATCH_LIMIT:
        raise error(
            "IL104",
            f"{microbatches:,} microbatches are too many",
            schedule.microbatches.span if schedule.microbatches else span,
            help=f"the most is {MICROBATCH_LIMIT:,}",
        )
    return ranks, microbatches


def placed(
    schedule: ast.Schedule, lister: Lister, ranks: int, microbatches: int
) -> list[tuple[int | None, tuple[int, ...] | None]]:
    """(rank, owner) of each stage: by `place`, else where the order lists it first. Raises IL204, IL209."""
    if schedule.place is None:
        count = len(lister.where)
        if missing := [s for s in range(count) if s not in lister.where]:
            top = max(lister.where)
            raise error(
                "IL204",
                f"stage {missing[0]} is listed on no rank",
                lister.where[top][1],
                f"there is a stage {top}",
                "number the stages from 0, without gaps, or write a `place` block",
            )
        return [(lister.where[s][0], None) for s in range(count)]
    at: dict[int, tuple[tuple[int | None, tuple[int, ...] | None], Span]] = {}

    def put(stage: int, place, span: Span) -> None:
        if stage in at:
            raise InputError(
                Finding.of_input(
                    "IL204",
                    f"stage {stage} is placed twice",
                    (Mark(span, "here"), Mark(at[stage][1], "and here")),
                    "a stage lies on one rank; one that lies on all of them is written `replicated 0: owner "
                    "[..]`",
                )
            )
        at[stage] = (place, span)

    for line in schedule.place.lines:
        if isinstance(line, ast.PlaceReplicated):
            put(line.stage.value, (None, _owner(line, ranks, microbatches)), line.span)
            continue
        if line.rank.value >= ranks:
            raise error(
                "IL204", f"there is no rank {line.rank.value}: the ranks are 0..{ranks - 1}", line.rank.span
            )
        for r in line.stages:
            if r.last >= LAYER_LIMIT:
                raise error(
                    "IL104",
                    f"a stage {r.last:,} is too much",
                    r.span,
                    help=f"a schedule has at most {LAYER_LIMIT:,} stages",
                )
            for stage in indices([r], LAYER_LIMIT, "stage", "IL204"):
                put(stage, (line.rank.value, None), r.span)
    missing = next(s for s in range(len(at) + 1) if s not in at)
    if missing < len(at):
        raise error(
            "IL204",
            f"stage {missing} is placed on no rank",
            schedule.place.span,
            "not placed here",
            "stages are numbered from 0, without gaps",
        )
    return [at[s][0] for s in range(len(at))]


def _owner(line: ast.PlaceReplicated, ranks: int, microbatches: int) -> tuple[int, ...]:
    for m, r in enumerate(line.owner):
        if r.value >= ranks:
            raise error(
                "IL209",
                f"the owner of microbatch {m} is rank {r.value}, and the ranks are 0..{ranks - 1}",
                r.span,
            )
    if len(line.owner) != microbatches:
        raise error(
            "IL209",
            f"the owner map of stage {line.stage.value} has {len(line.owner)} entries for {microbatches} "
            "microbatches",
            line.span,
            help="give the rank of each microbatch, in order",
        )
    return tuple(r.value for r in line.owner)


def stages_of(places, chain: Chain | None, span: Span) -> tuple[tuple[Layer, ...], tuple[Stage, ...]]:
    """Layers and stages: the model's layers spread evenly, or one layer a stage where there is no model.
    Raises IL205.
    """
    if chain is None:
        layers = tuple(Layer(f"stage {s}") for s in range(len(places)))
        counts = [1] * len(places)
    else:
        layers = chain.layers
        borders = [l for l in range(len(layers)) if l not in chain.glued or l == 0] + [len(layers)]
        atoms = [b - a for a, b in zip(borders, borders[1:])]
        if len(atoms) < len(places):
            raise error(
                "IL205",
                f"the order has {len(places)} stages and the model {len(atoms)} layers",
                span,
                help="give the model more layers",
            )
        counts = even(atoms, len(places)) if places else []
    stages, at = [], 0
    for count, (rank, owner) in zip(counts, places):
        stages.append(Stage("order", at, at + count, rank, owner))
        at += count
    return layers, tuple(stages)


def fill(program: Program, lister: Lister, comms: Sequence[Communicator]) -> Program:
    """The program with the order's operations in it. Raises IL107 (an unknown communicator), IL204 (an
    unknown peer).
    """
    order = lister.order
    tie_comm = {t.name: t.comm for t in program.ties}
    names: dict[str, int] = {name: i for i, name in enumerate(program.names)}
    comm_cache: dict[str | None, int] = {None: 0}
    table = array("q")  # rows of _COLUMNS, end to end
    start, launch = [0], -1

    def one(op: ast.Op, launch: int) -> None:
        kind = Kind[op.kind]
        if op.comm not in comm_cache:
            comm_cache[op.comm] = comm_number(op.comm, op.span, comms)
        comm = comm_cache[op.comm]
        if kind is _TIED and op.comm is None:
            comm = tie_comm.get(op.name, 0)
        if op.peer >= program.ranks:
            raise error(
                "IL204",
                f"there is no rank {op.peer}: the ranks are 0..{program.ranks - 1}",
                op.span,
                help=f"write `ranks {op.peer + 1}`, or correct the number",
            )
        name = -1 if op.name is None else names.setdefault(op.name, len(names))
        table.extend((kind, op.stage, op.mb, op.peer, name, comm, launch, op.span.at, op.span.width))

    for r in range(program.ranks):
        for item in lister.items(r):
            if isinstance(item, ast.Op):
                one(item, -1)
            else:
                launch += 1
                for op in item.items:
                    one(op, launch)
        start.append(len(table) // len(_COLUMNS))
    rows = (
        np.frombuffer(table, dtype=np.int64).reshape(-1, len(_COLUMNS))
        if table
        else np.empty((0, len(_COLUMNS)), dtype=np.int64)
    )
    columns = {
        c: rows[:, i].astype({"kind": np.uint8, "at": np.int64}.get(c, np.int32))
        for i, c in enumerate(_COLUMNS)
    }
    return replace(
        program,
        order=Order(np.array(start, dtype=np.int64), **columns),
        names=tuple(names),
        inserted=order.transfers == "inserted",
        reductions_inserted=order.reductions == "inserted",
        fragment=order.fragment or order.form == "trace",
    )
