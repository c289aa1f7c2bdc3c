"""Programs with one change, and transfers grouped and moved about."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from interlock.program.facts import Facts
from interlock.program.ir import Communicator, Kind, Layer, Memory, Program, Size, Tie
from interlock.program.plain import plain_form
from interlock.rules.usage import Usage

from .lists import (
    TRANSFERS,
    Operation,
    list_operations,
    make_operation,
    replace_operations,
)

NO_CHANGE = "none"
CHANGES = ("drop", "twice", "swap", "swap", "move", "mb", "stage", "rank", "group", "kind", "comm")
OTHER_KIND = {
    Kind.B: Kind.I,
    Kind.I: Kind.B,
    Kind.SEND_F: Kind.SEND_B,
    Kind.RECV_F: Kind.RECV_B,
    Kind.W: Kind.B,
    Kind.F: Kind.B,
}
# what a transfer may not pass: its producer, its consumer, its wait
TIED = {
    Kind.SEND_F: (Kind.F, Kind.WAIT_F),
    Kind.RECV_F: (Kind.F,),
    Kind.SEND_B: (Kind.B, Kind.I, Kind.WAIT_B),
    Kind.RECV_B: (Kind.B, Kind.I),
}


def mutate(program: Program, rng: Random) -> tuple[Program, str]:
    """The program with a change, and its sort: one of CHANGES, `bit`, or NO_CHANGE where none is found."""
    for _ in range(20):
        mutant, change = _try_change(program, rng)
        if plain_form(mutant) != plain_form(program):
            return mutant, change
    return program, NO_CHANGE


def _try_change(program: Program, rng: Random) -> tuple[Program, str]:
    if program.layers and rng.random() < 0.08:
        return _flip_bit(program, rng), "bit"
    lists = list_operations(program)
    filled = [rank for rank, operations in enumerate(lists) if operations]
    if not filled:
        return program, NO_CHANGE
    operations = lists[rng.choice(filled)]
    row, change = rng.randrange(len(operations)), rng.choice(CHANGES)
    if change in ("mb", "stage", "kind", "comm"):
        _retarget(program, operations[row], change, rng)
    elif change == "group" and not program.inserted:
        group_transfers([operations], rng)
    else:
        _rearrange(lists, operations, row, change, rng)
    return replace_operations(program, lists), change


def _flip_bit(program: Program, rng: Random) -> Program:
    flipped = rng.randrange(len(program.layers))
    layers = tuple(
        replace(layer, trainable=layer.trainable ^ (l == flipped)) for l, layer in enumerate(program.layers)
    )
    return replace(program, layers=layers, placeholders=rng.random() < 0.3)


def _retarget(program: Program, operation: Operation, change: str, rng: Random) -> None:
    """Another microbatch, stage, kind or communicator, where the operation has one."""
    if change == "mb" and operation["mb"] >= 0:
        operation["mb"] = rng.randrange(program.microbatches + (rng.random() < 0.1))
    elif change == "stage" and operation["stage"] >= 0:
        operation["stage"] = rng.randrange(len(program.stages) + (rng.random() < 0.1))
    elif change == "kind":
        operation["kind"] = OTHER_KIND.get(operation["kind"], operation["kind"])
    elif change == "comm" and len(program.communicators) > 1 and operation["kind"] in TRANSFERS:
        operation["comm"] = rng.randrange(len(program.communicators))


def _rearrange(
    lists: list[list[Operation]], operations: list[Operation], row: int, change: str, rng: Random
) -> None:
    """An operation dropped, listed twice, swapped with the next, moved along its rank or to another."""
    if change == "drop":
        operations.pop(row)
    elif change == "twice":
        operations.insert(rng.randrange(len(operations) + 1), dict(operations[row], launch=None))
    elif change == "swap" and len(operations) > 1:
        swap_neighbours(operations, rng)
    elif change == "move":
        operations.insert(rng.randrange(len(operations)), dict(operations.pop(row), launch=None))
    elif change == "rank":
        lists[rng.randrange(len(lists))].append(dict(operations.pop(row), launch=None))


def swap_neighbours(operations: list[Operation], rng: Random) -> None:
    row = rng.randrange(len(operations) - 1)
    operations[row], operations[row + 1] = operations[row + 1], operations[row]


def group_transfers(lists: list[list[Operation]], rng: Random) -> None:
    """Some runs of up to four neighbouring transfers as one launch."""
    for operations in lists:
        start = 0
        while start < len(operations):
            end = start
            while end < len(operations) and end - start < 4 and _may_be_grouped(operations[end]):
                end += 1
            if end > start and rng.random() < 0.6:
                launch = object()
                for operation in operations[start:end]:
                    operation["launch"] = launch
            start = max(end, start + 1)


def _may_be_grouped(operation: Operation) -> bool:
    return operation["kind"] in TRANSFERS and operation["launch"] is None


def stir(program: Program, rng: Random) -> Program:
    """Transfers moved about, waits dropped, neighbours grouped, some on a communicator of their own.

    Often valid, often under some models only.
    """
    lists = list_operations(program)
    if rng.random() < 0.7:
        waits = (Kind.WAIT_F, Kind.WAIT_B)
        lists = [[x for x in ops if x["kind"] not in waits or rng.random() < 0.2] for ops in lists]
    if rng.random() < 0.5:
        lists = [[x for x in ops if x["kind"] != Kind.STEP] for ops in lists]
    for _ in range(rng.randint(0, 6)):
        _move_a_transfer(rng.choice(lists), rng)
    communicators = program.communicators
    if rng.random() < 0.15:
        communicators += (Communicator("seam", tuple(range(program.ranks))),)
        _move_to_communicator(lists, rng.randrange(len(program.stages)), len(communicators) - 1)
    if rng.random() < 0.5:
        group_transfers(lists, rng)
    program = replace(program, communicators=communicators)
    tied = _tie_stages(program, lists, rng)
    return weigh(replace_operations(tied, lists), rng)


def _move_a_transfer(operations: list[Operation], rng: Random) -> None:
    """A send later, a receive earlier, as far as it may go."""
    transfers = [row for row, operation in enumerate(operations) if operation["kind"] in TRANSFERS]
    if not transfers:
        return
    row = rng.choice(transfers)
    moved = operations[row]
    step = -1 if moved["kind"] in (Kind.RECV_F, Kind.RECV_B) else 1
    target = row
    for _ in range(rng.randint(1, 4)):
        following = target + step
        if not 0 <= following < len(operations) or _is_tied(moved, operations[following]):
            break
        target = following
    operations.insert(target, operations.pop(row))


def _is_tied(moved: Operation, passed: Operation) -> bool:
    if (moved["stage"], moved["mb"]) != (passed["stage"], passed["mb"]):
        return False
    return passed["kind"] in TIED.get(moved["kind"], ())


def _move_to_communicator(lists: list[list[Operation]], stage: int, communicator: int) -> None:
    """The forward transfers that leave the stage."""
    offset = {Kind.SEND_F: 0, Kind.RECV_F: -1}
    for operations in lists:
        for operation in operations:
            if operation["kind"] in offset and operation["stage"] + offset[operation["kind"]] == stage:
                operation["comm"] = communicator


def _tie_stages(program: Program, lists: list[list[Operation]], rng: Random) -> Program:
    """Sometimes two Sharded stages tied, with the reductions of their ranks."""
    sharded = [s for s, stage in enumerate(program.stages) if not stage.replicated]
    if len(sharded) < 2 or rng.random() >= 0.2:
        return replace(program, ties=())
    stages = tuple(sorted(rng.sample(sharded, 2)))
    ranks = tuple(sorted({program.stages[s].rank for s in stages}))
    communicators = (*program.communicators, Communicator("emb", ranks))
    comm = len(communicators) - 1
    for rank in ranks if len(ranks) > 1 or rng.random() < 0.2 else ():
        operations = lists[rank]
        reductions = [
            row for row, x in enumerate(operations) if x["kind"] == Kind.REDUCE and x["stage"] in stages
        ]
        place = min(reductions, default=len(operations)) if rng.random() < 0.7 else len(operations)
        operations.insert(place, make_operation(Kind.REDUCE_TIE, name=0, comm=comm))
    return replace(program, communicators=communicators, names=("emb",), ties=(Tie("emb", stages, comm),))


def weigh(program: Program, rng: Random) -> Program:
    """Sometimes sizes, and a capacity near the peak."""
    if rng.random() < 0.6:
        return program
    recompute = rng.random() < 0.4
    layers = tuple(make_sizes(layer, rng, until_weight=3, recompute=recompute) for layer in program.layers)
    images = tuple(rng.randint(0, 3) for _ in range(program.microbatches))
    memory = Memory((None,) * program.ranks, (1, 1), (rng.randint(0, 3), 2))
    program = replace(program, layers=layers, images=images, memory=memory)
    peaks = Usage(Facts(program)).peaks
    capacity = tuple(
        None if rng.random() < 0.3 else max(peak + rng.choice((-1, 0, 0, 1, 5)), 0) for peak in peaks
    )
    return replace(program, memory=replace(memory, capacity=capacity))


def make_sizes(layer: Layer, rng: Random, *, until_weight: int, recompute: bool) -> Layer:
    """The layer with random sizes; `until_weight`: the largest fixed one; `recompute`: it may recompute."""
    return replace(
        layer,
        weights=rng.randint(0, 5),
        activation=make_size(9, rng),
        until_weight=make_size(until_weight, rng),
        output=make_size(4, rng),
        workspace=make_size(2, rng),
        recompute=recompute and rng.random() < 0.6,
    )


def make_size(largest: int, rng: Random) -> Size:
    """Up to so many bytes fixed, and sometimes some for each image."""
    return Size(rng.randint(0, largest), rng.choice((0, 0, rng.randint(0, 3))))
