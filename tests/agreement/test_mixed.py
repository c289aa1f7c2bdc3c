"""The judges agree on schedules with foreign operations among their own.

Named transfers, collectives, communicator creation, buffers, ZERO.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

from interlock.program.ir import Communicator, Kind, Program
from interlock.program.transfers import insert

from . import judges
from .generate import make_schedule
from .lists import Operation, list_operations, make_operation, replace_operations
from .mutants import group_transfers

FOREIGN = ("coll", "init", "zero", "data")


def make_mixed_program(rng: Random) -> Program:
    program = make_schedule(rng)
    if rng.random() < 0.8:
        program = insert(program)
    ranks, first = program.ranks, len(program.names)
    communicators = list(program.communicators)
    for k in range(rng.randint(0, 2)):
        members = tuple(sorted(rng.sample(range(ranks), rng.randint(1, ranks))))
        communicators.append(Communicator(f"k{k}", members))
    lists = list_operations(program)
    for _ in range(rng.randint(1, 4)):
        name, comm = first + rng.randrange(3), rng.randrange(len(communicators))
        members = communicators[comm].ranks
        what = rng.choice(FOREIGN if program.inserted else ("pair", "pair", *FOREIGN))
        if what == "pair" and len(members) > 1:
            put_transfer(lists, members, name, comm, rng)
        elif what == "coll":
            for rank in members:
                put(lists[rank], make_operation(Kind.COLL, name=name, comm=comm), rng)
        elif what == "init":
            for rank in members:
                put(lists[rank], make_operation(Kind.INIT, comm=comm), rng)
        elif what == "zero":
            put(rng.choice(lists), make_operation(Kind.ZERO), rng)
        else:
            put(rng.choice(lists), make_operation(Kind.REDUCE_DATA, name=name), rng)
    if rng.random() < 0.3 and not program.inserted:
        group_transfers(lists, rng)
    program = replace(program, communicators=tuple(communicators), names=(*program.names, "a", "b", "c"))
    return replace_operations(program, lists)


def put(operations: list[Operation], operation: Operation, rng: Random) -> None:
    operations.insert(rng.randint(0, len(operations)), operation)


def put_transfer(
    lists: list[list[Operation]], members: tuple[int, ...], name: int, comm: int, rng: Random
) -> None:
    a, b = rng.sample(members, 2)
    put(lists[a], make_operation(Kind.SEND, peer=b, name=name, comm=comm), rng)
    put(lists[b], make_operation(Kind.RECV, peer=a, name=name, comm=comm), rng)
    for kind in (Kind.WAIT, Kind.FREE):
        if rng.random() < 0.3:
            put(lists[rng.choice((a, b))], make_operation(kind, name=name), rng)


def agree(seeds: range) -> tuple[Counter, list]:
    counts: Counter = Counter()
    wrong: list[tuple] = []
    for seed in seeds:
        verdicts, differ = judges.judge_by_all(make_mixed_program(Random(seed)), seed=seed % 3 or None)
        counts[sum(verdicts)] += 1
        wrong += [(seed, *d) for d in differ]
    return counts, wrong


def test_foreign_operations(pytestconfig):
    counts, wrong = (
        judges.sum_over_processes(agree, 5_000) if pytestconfig.getoption("--thorough") else agree(range(80))
    )
    assert not wrong
    assert counts[5] > 10 and counts[0] > 10 and sum(counts.values()) > counts[5] + counts[0] + 4
