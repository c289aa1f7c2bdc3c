"""Every rewrite of random valid programs passes its own check and leaves them valid; a check sees what a
mutation changed beside it.
"""

from random import Random

import pytest

from interlock.check.program import check_program
from interlock.check.subject import write_transfers
from interlock.check.verdict import Verdict
from interlock.interchange.plan import describe_difference
from interlock.lower import rewrites
from interlock.lower.rewrites import (
    EARLY_TRANSFERS,
    GROUPED,
    HELD_SENDS,
    PLACEHOLDERS,
    REDUCTIONS,
    TRAINERS,
    WHOLE_BACKWARD,
    WHOLE_INSERTION,
)
from interlock.program.kinds import COMPUTE, Kind

from ..agreement.generate import freeze, make_schedule
from ..agreement.mutants import mutate
from ..runtime.support import lowered

ALL = [r for r in vars(rewrites).values() if isinstance(r, rewrites.Rewrite)]
STAND_STILL = (
    TRAINERS,
    HELD_SENDS,
    WHOLE_BACKWARD,
    REDUCTIONS,
)  # what else changes is an error, without exception


def programs(count: int):
    for seed in range(count):
        rng = Random(seed)
        program = make_schedule(rng)
        yield seed, rng, freeze(program, rng) if seed % 3 == 0 else program


def placed(program):
    return write_transfers(program) if program.inserted else program


@pytest.fixture(scope="module")
def count(request):
    return 1500 if request.config.getoption("--thorough") else 100


def valid(program, model: str = "pair") -> bool:
    return check_program(program, (model,))[0].verdict is Verdict.VALID


def test_there_are_eight():
    assert (
        sorted(r.name for r in ALL)
        == sorted(r.name for r in (*STAND_STILL, PLACEHOLDERS, WHOLE_INSERTION, EARLY_TRANSFERS, GROUPED))
        and len(ALL) == 8
    )


def test_a_rewrite_passes_its_check_and_leaves_a_valid_program_valid(count):
    seen = set()
    for seed, _rng, program in programs(count):
        if not valid(program):
            continue
        for rewrite in (PLACEHOLDERS, WHOLE_BACKWARD):
            after = rewrite.apply(program, None)
            assert rewrite.check(program, after) == "" and valid(after), (seed, rewrite.name)
            seen |= {rewrite.name} if describe_difference(program, after) else set()
            program = after
        before = placed(program)
        for rewrite in (REDUCTIONS, EARLY_TRANSFERS, GROUPED):
            after = rewrite.apply(before, None)
            assert rewrite.check(before, after) == "" and valid(after), (seed, rewrite.name)
            seen |= {rewrite.name} if describe_difference(before, after) else set()
        for rewrite in (TRAINERS, HELD_SENDS):
            after = rewrite.apply(before, None)
            assert rewrite.check(before, after) == "", (seed, rewrite.name)
            seen |= {rewrite.name} if describe_difference(before, after) else set()
    assert seen >= {"placeholders", "early_transfers", "grouped", "trainer", "held_sends"}


def test_early_transfers_are_worse_under_no_model_with_queues(count):
    for seed, _rng, program in programs(count // 3):
        before = placed(program)
        if before is None:
            continue
        after = EARLY_TRANSFERS.apply(before, None)
        for model in ("buffered", "edge", "pair", "rank"):
            assert not valid(before, model) or valid(after, model), (seed, model)


def test_a_check_sees_what_else_changed(count):
    caught = 0
    for seed, rng, program in programs(count):
        before = placed(program)
        if before is None:
            continue
        for rewrite in STAND_STILL:
            after = rewrite.apply(before, None)
            other, what = mutate(after, rng)
            undone = (
                rewrite is WHOLE_BACKWARD and what == "kind"
            )  # may be a B that is an I again: less than may change
            if describe_difference(after, other) and not only_launches(after, other) and not undone:
                assert rewrite.check(before, other) != "", (seed, rewrite.name, what)
                caught += 1
    assert caught > count


def only_launches(a, b) -> bool:
    columns = ("kind", "stage", "mb", "peer", "name", "comm")
    return (
        len(a.order) == len(b.order)
        and (a.order.start == b.order.start).all()
        and all((getattr(a.order, c) == getattr(b.order, c)).all() for c in columns)
    )


def test_a_check_of_early_transfers_sees_what_moved_the_other_way(count):
    caught = 0
    for _seed, _rng, program in programs(count):
        before = placed(program)
        if before is None:
            continue
        after = EARLY_TRANSFERS.apply(before, None)
        if describe_difference(before, after):
            assert EARLY_TRANSFERS.check(after, before) != ""  # the way back is no such rewrite
            caught += 1
    assert caught > count // 4


def test_early_receives_stand_before_compute_operations():
    text = "schedule s { ranks 3 microbatches 6 model { layers u[3] { } } cut { all = u : 1f1b } }"
    early, late = lowered(text).plan.program, lowered(text, transfers="inserted").plan.program

    def before(program) -> int:
        """Compute operations that stand before receives, summed over all of them."""
        total = 0
        for r in range(program.ranks):
            done = 0
            for kind in program.order.kind[program.order.start[r] : program.order.start[r + 1]].tolist():
                done += Kind(kind) in COMPUTE
                total += done if Kind(kind) in (Kind.RECV_F, Kind.RECV_B) else 0
        return total

    assert before(early) < before(late)
