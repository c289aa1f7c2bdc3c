"""Random programs for the judges to agree on: schedules, written transfers, traces, mutants of them all."""

from __future__ import annotations

from random import Random

from interlock.program.facts import Facts
from interlock.program.footprint import footprint, with_trainable
from interlock.program.ir import Communicator, Kind, Layer, Program, Stage
from interlock.program.linearise import compute_times
from interlock.program.transfers import insert, restrict

from .lists import (
    Operation,
    build_order,
    make_operation,
    replace_operations,
)
from .mutants import group_transfers, mutate, stir, swap_neighbours

Key = tuple[Kind, int, int]  # kind, stage, microbatch


def make_program(rng: Random) -> tuple[Program, str]:
    """A program and what it is: schedule, written, stirred, trace or edge, and `+mutant` for half of them."""
    x = rng.random()
    if x < 0.2:
        program, what = make_schedule(rng), "schedule"
        if rng.random() < 0.5:
            program = freeze(program, rng)
    elif x < 0.7:
        program, what = insert(make_schedule(rng)), "written"
        if rng.random() < 0.4:
            program = freeze(program, rng)
        if rng.random() < 0.8:
            program, what = stir(program, rng), "stirred"
    elif x < 0.92:
        program, what = make_trace(rng), "trace"
    else:
        program, what = make_edge_example(rng), "edge"
    if rng.random() < 0.56:
        for _ in range(rng.choice((1, 1, 2))):
            program, _ = mutate(program, rng)
        what += "+mutant"
    return program, what


def freeze(program: Program, rng: Random) -> Program:
    return restrict(program, with_trainable(program.layers, [rng.random() < 0.6 for _ in program.layers]))


def make_schedule(rng: Random) -> Program:
    """A random valid schedule: fully trained, transfers inserted."""
    ranks, microbatches = rng.choice((1, 2, 2, 2, 3, 3, 4)), rng.randint(1, 4)
    replicated = rng.random() < 0.25
    sharded = rng.randint(1, min(2 * ranks, 5))
    modalities = {}
    if rng.random() < 0.25:
        modalities["vision"] = frozenset(m for m in range(microbatches) if rng.random() < 0.6)
    stages: list[Stage] = []
    layers: list[Layer] = []
    for s in range(sharded + replicated):
        first = len(layers)
        sees = "vision" if "vision" in modalities and s == 0 and sharded + replicated > 1 else None
        for _ in range(rng.choice((1, 1, 1, 2))):
            layers.append(Layer(f"l{len(layers)}", modality=sees))
        if replicated and s == 0:
            owner = tuple(rng.randrange(ranks) for _ in range(microbatches))
            stages.append(Stage("encoder", first, len(layers), owner=owner))
        else:
            stages.append(Stage("backbone", first, len(layers), rank=rng.randrange(ranks)))
    program = Program(
        ranks,
        microbatches,
        tuple(layers),
        tuple(stages),
        build_order([[] for _ in range(ranks)]),
        modalities=modalities,
        inserted=True,
        reductions_inserted=True,
    )
    while True:
        ordered = program.with_order(build_order(_make_order(program, rng)))
        if _is_acyclic(ordered):
            return ordered


def _is_acyclic(program: Program) -> bool:
    facts = Facts(program)
    fused_badly = (facts.overlap_head[facts.data.src] == facts.overlap_head[facts.data.dst]).any()
    return not fused_badly and compute_times(facts).complete


def _make_order(program: Program, rng: Random) -> list[list[Operation]]:
    """Some linearisation of all the work, operation by operation."""
    todo = _list_work(program, rng)
    lists: list[list[Operation]] = [[] for _ in range(program.ranks)]
    done: set[Key] = set()
    keen = rng.random()  # on backward work
    while todo:
        ready = [key for key, before in todo.items() if done.issuperset(before)]
        backward = [key for key in ready if key[0] != Kind.F]
        key = rng.choice(backward if backward and rng.random() < keen else ready)
        kind, s, m = key
        stage = program.stages[s]
        rank = stage.owner[m] if stage.owner is not None else stage.rank
        lists[rank].append(make_operation(kind, s, m))
        done.add(key)
        del todo[key]
    if rng.random() < 0.3:
        _fuse_overlaps(lists, rng)
    return lists


def _list_work(program: Program, rng: Random) -> dict[Key, list[Key]]:
    """All operations, each with those that come before it; some stages with split backwards, or losses."""
    path = footprint(program)
    backward = {s: Kind.I if rng.random() < 0.4 else Kind.B for s in range(len(program.stages))}
    losses = rng.random() < 0.1
    todo: dict[Key, list[Key]] = {}
    for m in range(program.microbatches):
        cls = path.of[m]
        for s in range(len(program.stages)):
            if not path.on_path[cls, s]:
                continue
            previous, following = int(path.prev[cls, s]), int(path.next[cls, s])
            todo[Kind.F, s, m] = [(Kind.F, previous, m)] if previous >= 0 else []
            before = [(Kind.F, s, m)]
            if following >= 0:
                before.append((backward[following], following, m))
            elif losses:
                todo[Kind.LOSS, s, m] = [(Kind.F, s, m)]
                before.append((Kind.LOSS, s, m))
            todo[backward[s], s, m] = before
            if backward[s] == Kind.I:
                todo[Kind.W, s, m] = [(Kind.I, s, m)]
    return todo


def _fuse_overlaps(lists: list[list[Operation]], rng: Random) -> None:
    for operations in lists:
        for a, b in zip(operations, operations[1:]):
            kinds = {a["kind"], b["kind"]}
            halves = Kind.F in kinds and kinds & {Kind.B, Kind.I}
            if a["launch"] is None and halves and a["mb"] != b["mb"] and rng.random() < 0.3:
                a["launch"] = b["launch"] = object()


def make_trace(rng: Random) -> Program:
    """Named transfers, collectives, communicator creation and buffers on two to four ranks."""
    ranks = rng.choice((2, 2, 3, 4))
    names = tuple("abcdefgh")
    communicators = [Communicator("default", tuple(range(ranks)))]
    for k in range(rng.choice((0, 1, 2))):
        members = tuple(sorted(rng.sample(range(ranks), rng.randint(2, ranks))))
        communicators.append(Communicator(f"c{k}", members))
    lists: list[list[Operation]] = [[] for _ in range(ranks)]
    for _ in range(rng.randint(1, 6)):  # events in one global order: valid until neighbours are swapped
        _append_event(lists, communicators, len(names), rng)
    for _ in range(rng.choice((0, 0, 1, 2))):
        operations = rng.choice(lists)
        if len(operations) > 1:
            swap_neighbours(operations, rng)
    if rng.random() < 0.5:
        group_transfers(lists, rng)
    return _make_fragment(lists, names, tuple(communicators))


def _append_event(
    lists: list[list[Operation]], communicators: list[Communicator], names: int, rng: Random
) -> None:
    """A transfer, a collective, a creation, or an operation of one rank."""
    comm = rng.randrange(len(communicators))
    members = communicators[comm].ranks
    x = rng.random()
    if x < 0.7:
        _append_transfer(lists, members, comm, names, rng)
    elif x < 0.85:
        name = rng.randrange(names)
        kind = rng.choice((Kind.COLL, Kind.COLL, Kind.REDUCE_TIE))
        for rank in members:
            lists[rank].append(make_operation(kind, name=name, comm=comm))
    elif comm:
        for rank in members:
            lists[rank].append(make_operation(Kind.INIT, comm=comm))
    else:
        operations = lists[rng.randrange(len(lists))]
        kind = rng.choice((Kind.ZERO, Kind.STEP, Kind.REDUCE_DATA))
        name = rng.randrange(names) if kind == Kind.REDUCE_DATA else -1
        operations.append(make_operation(kind, name=name))


def _append_transfer(
    lists: list[list[Operation]], members: tuple[int, ...], comm: int, names: int, rng: Random
) -> None:
    source, destination = rng.sample(members, 2)
    name = rng.randrange(names)
    lists[source].append(make_operation(Kind.SEND, peer=destination, name=name, comm=comm))
    lists[destination].append(make_operation(Kind.RECV, peer=source, name=name, comm=comm))
    if rng.random() < 0.4:
        operations = lists[rng.choice((source, destination))]
        operations.append(make_operation(Kind.WAIT, name=name))
        if rng.random() < 0.5:
            operations.append(make_operation(Kind.FREE, name=name))


def make_edge_example(rng: Random) -> Program:
    """Programs in which `buffered` and `edge` differ, with the payloads of the ring shuffled and padded."""
    ranks = rng.choice((2, 2, 3))
    lists: list[list[Operation]] = []
    for rank in range(ranks):
        after, before = (rank + 1) % ranks, (rank - 1) % ranks
        first = make_operation(Kind.SEND, peer=after, name=rank)
        launch = object()
        group = [
            make_operation(Kind.SEND, peer=after, name=ranks + rank, launch=launch),
            make_operation(Kind.RECV, peer=before, name=before, launch=launch),
        ]
        rng.shuffle(group)
        lists.append([first, *group, make_operation(Kind.RECV, peer=before, name=ranks + before)])
    program = _make_fragment(lists, tuple("abcdefghijkl"))
    return mutate(program, rng)[0] if rng.random() < 0.4 else program


def _make_fragment(
    lists: list[list[Operation]], names: tuple[str, ...], communicators: tuple[Communicator, ...] = ()
) -> Program:
    ranks = len(lists)
    empty = build_order([[] for _ in range(ranks)])
    program = Program(ranks, 1, (), (), empty, fragment=True, communicators=communicators, names=names)
    return replace_operations(program, lists)
