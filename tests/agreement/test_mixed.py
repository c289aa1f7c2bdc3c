"""The judges agree on schedules with foreign operations among their own: named transfers, collectives, communicator creation, buffers, ZERO."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

from interlock.program.ir import Communicator, Kind, Program
from interlock.program.transfers import insert

from . import generate, judges
from .generate import lists_of, op, with_lists


def mixed(rng: Random) -> Program:
    program = generate.schedule(rng)
    if rng.random() < 0.8:
        program = insert(program)
    ranks, first = program.ranks, len(program.names)
    comms = [
        *program.communicators,
        *(
            Communicator(f"k{k}", tuple(sorted(rng.sample(range(ranks), rng.randint(1, ranks)))))
            for k in range(rng.randint(0, 2))
        ),
    ]
    lists = lists_of(program)
    put = lambda r, x: lists[r].insert(rng.randint(0, len(lists[r])), x)
    for _ in range(rng.randint(1, 4)):
        name, c = first + rng.randrange(3), rng.randrange(len(comms))
        members = comms[c].ranks
        what = rng.choice(
            ("pair", "pair", "coll", "init", "zero", "data")
            if not program.inserted
            else ("coll", "init", "zero", "data")
        )
        if what == "pair" and len(members) > 1:
            a, b = rng.sample(members, 2)
            put(a, op(Kind.SEND, peer=b, name=name, comm=c))
            put(b, op(Kind.RECV, peer=a, name=name, comm=c))
            for kind in (Kind.WAIT, Kind.FREE):
                if rng.random() < 0.3:
                    put(rng.choice((a, b)), op(kind, name=name))
        elif what in ("coll", "init"):
            for r in members:
                put(r, op(Kind.COLL, name=name, comm=c) if what == "coll" else op(Kind.INIT, comm=c))
        else:
            put(rng.randrange(ranks), op(Kind.ZERO) if what == "zero" else op(Kind.REDUCE_DATA, name=name))
    if rng.random() < 0.3 and not program.inserted:
        generate._group(lists, rng)
    return with_lists(
        replace(program, communicators=tuple(comms), names=(*program.names, "a", "b", "c")), lists
    )


def agree(seeds: range) -> tuple[Counter, list]:
    counts, wrong = Counter(), []
    for seed in seeds:
        verdicts, differ = judges.all_of(mixed(Random(seed)), seed=seed % 3 or None)
        counts[sum(verdicts)] += 1
        wrong += [(seed, *d) for d in differ]
    return counts, wrong


def test_foreign_operations(pytestconfig):
    counts, wrong = (
        judges.in_processes(agree, 5_000) if pytestconfig.getoption("--thorough") else agree(range(80))
    )
    assert not wrong
    assert counts[5] > 10 and counts[0] > 10 and sum(counts.values()) > counts[5] + counts[0] + 4
