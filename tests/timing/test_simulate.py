"""Longest paths: two fast ways and the wait graph give the same times; models are ordered; figures satisfy
their identity, measured apart.
"""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

from interlock.algebra.machine import machine_of
from interlock.algebra.standard import derive_standard, elaborate_text
from interlock.program.facts import Facts
from interlock.program.kinds import Kind
from interlock.program.transfers import insert
from interlock.rules.usage import Usage
from interlock.rules.waits import MODELS
from interlock.timing.durations import DataParallel, Link, Machine, compute_durations, durations_by_kind
from interlock.timing.figures import compute_figures, memory_over_time
from interlock.timing.inputs import find_inputs, travel_times
from interlock.timing.longest_path import Cyclic, compute_ends, compute_tails
from interlock.timing.simulate import FREE, makespan, simulate
from timing import oracle

SKELETONS = [
    ("1f1b", 1),
    ("gpipe", 2),
    ("eager", 1),
    ("interleaved", 3),
    ("zb_h1", 1),
    ("zb_h2", 1),
    ("zb_v", 2),
    ("dualpipev", 2),
    ("hanayo", 4),
    ("v_min", 2),
]
TIMES = {Kind.F: 10, Kind.B: 21, Kind.I: 9, Kind.W: 12}


def random_durations(program, seed: int):
    """A different duration for every stage, and transfers of 4."""
    pick = random.Random(seed)

    def each(low, high):
        return [pick.randint(low, high) for _ in program.stages]

    return durations_by_kind(
        program,
        {Kind.F: each(1, 20), Kind.B: each(1, 40), Kind.I: each(1, 20), Kind.W: each(0, 20)},
        pick.choice((0, 4)),
    )


@pytest.mark.parametrize("name, V", SKELETONS)
def test_the_ways_agree(name, V):
    for seed, (P, M) in enumerate([(1, 3), (2, 4), (3, 6), (4, 9)]):
        program = derive_standard(name, P, M, V)
        d = random_durations(program, seed)
        facts = Facts(program)
        found = find_inputs(facts)
        lag = travel_times(facts, found, d)
        rows, wave = (compute_ends(found, d.row, lag, all_ranks=w) for w in (False, True))
        assert (rows == wave).all() and (rows == oracle.step_by_step(program, d)).all()
        tail = compute_tails(found, d.row, lag)
        assert tail.max() == rows.max() == (rows - d.row + tail).max()
        written = insert(program)
        one, other = simulate(program, d), simulate(written, d.on(written), FREE)
        busy = written.order.kind < Kind.WAIT_F
        assert (one.start[busy] == other.start[busy]).all() and (one.end[busy] == other.end[busy]).all()
        assert makespan(program, d) == one.makespan == rows.max()


@pytest.mark.parametrize("name, V", SKELETONS)
def test_a_stronger_model_is_not_faster(name, V):
    for seed, (P, M) in enumerate([(2, 4), (3, 6), (4, 8)]):
        program = derive_standard(name, P, M, V)
        d = random_durations(program, seed + 10)
        written = insert(program)
        found = [simulate(program, d).makespan] + [
            simulate(written, d.on(written), model).makespan for model in ("edge", "pair", "rank", "blocking")
        ]
        assert found == sorted(found)


def run_lengths(timeline, row: int) -> int:
    return int(timeline.end[row] - timeline.start[row])


@pytest.mark.parametrize("name, V", SKELETONS)
@pytest.mark.parametrize("model", [FREE, *MODELS])
def test_the_identity_with_idle_time_measured_apart_and_the_critical_path(name, V, model):
    program = derive_standard(name, 3, 6, V)
    d = random_durations(program, 3)
    written = insert(program)
    timeline = simulate(written, d.on(written), model) if model != FREE else simulate(program, d)
    found = compute_figures(timeline)
    T = timeline.makespan
    for r in found.ranks:
        assert (r.compute + r.communication) + r.bubble - r.overlap == T
        assert r.bubble == r.warmup + r.residual + r.cooldown
    work = sum(
        run_lengths(timeline, i)
        for i in range(len(written.order))
        if written.order.kind[i] < Kind.LOSS and Facts(written).overlap_head[i] == i
    )
    assert sum(r.compute for r in found.ranks) == work
    path = timeline.critical
    spans = oracle.union(np.array([[timeline.start[i], timeline.end[i]] for i in path]))
    assert spans.tolist() == [[0, T]], "the path has no gap"
    assert all(timeline.start[a] <= timeline.start[b] for a, b in zip(path, path[1:]))


def test_idle_time_by_hand():
    """1F1B at P = 2, M = 2, F = 1, B = 2, a transfer 1: rank 0 F F . . . B . B; rank 1 . . F B F B."""
    program = derive_standard("1f1b", 2, 2)
    found = compute_figures(simulate(program, durations_by_kind(program, TIMES | {Kind.F: 1, Kind.B: 2}, 1)))
    # rank 1: F0 2..3, B0 3..5, F1 5..6, B1 6..8; rank 0: F0 0..1, F1 1..2, B0 6..8, B1 9..11
    assert found.makespan == 11
    assert [
        (r.compute, r.communication, r.overlap, r.warmup, r.residual, r.cooldown) for r in found.ranks
    ] == [(6, 4, 1, 0, 2, 0), (6, 4, 2, 1, 0, 2)]
    assert found.bubble == Fraction(2 + 3, 22)
    assert found.span_bubble == Fraction(11 - 6, 11)


def test_periods():
    def found(name, P, M, V, times, comm=0):
        return compute_figures(
            simulate(
                derive_standard(name, P, M, V), durations_by_kind(derive_standard(name, P, M, V), times, comm)
            )
        ).period

    assert found("1f1b", 4, 32, 1, TIMES) == 31
    assert found("zb_h1", 4, 32, 1, TIMES) == 31
    assert found("interleaved", 4, 64, 2, TIMES) == 62
    assert found("1f1b", 4, 5, 1, TIMES) is None
    uneven = {k: [v + 5 * (s == 2) for s in range(4)] for k, v in TIMES.items()}
    assert found("1f1b", 4, 48, 1, uneven) == 41
    assert found("1f1b", 4, 64, 1, TIMES, 3) == 31 + Fraction(
        2 * 3 * 3, 4
    )  # rank 0 has P microbatches on their way, each 2(P-1) transfers


def test_memory_over_time_has_the_peak_of_program_order():
    e = elaborate_text(
        "schedule s { ranks 3 microbatches 7 model { layers u[6] { forward 3us backward 5us activation 7MB "
        "until_weight 2MB output 1MB weights 3MB workspace 100KB } }"
        " memory { capacity 1GB } link { latency 1us } cut { x = u : 1f1b } }"
    )
    timeline = simulate(e.program, compute_durations(e.program, e.times, machine_of(e)))
    held = memory_over_time(timeline)
    assert [int(b.max()) for _, b in held] == Usage(Facts(timeline.program)).peaks
    assert all((np.diff(t) > 0).all() and t[0] == 0 for t, _ in held)


def test_reductions_beside_compute_and_in_its_way():
    e = elaborate_text(
        "schedule s { ranks 2 microbatches 4 model { layers u[4] { forward 1us backward 2us weights 1MB } } "
        "cut { x = u : interleaved(chunks: 2) } }"
    )

    def length(**data):
        return makespan(
            e.program,
            compute_durations(
                e.program, e.times, Machine(data=DataParallel(2, **data)) if data else Machine()
            ),
        )

    alone = length()
    # 2 x (1 MB / 2 at 1 GB/s) = 1 ms each: chunk 1 of a rank has its last W earlier than chunk 0, and the two
    # follow one another
    beside, within = length(link=Link(0, 10**9)), length(link=Link(0, 10**9), overlap=False)
    assert alone + 1_000_000 < beside <= within


def test_orders_that_wait_in_a_circle_have_no_times():
    crossed = elaborate_text(
        "schedule s { ranks 2 microbatches 2 place { rank 0: 0, 3 rank 1: 1, 2 } order transfers inserted {"
        " rank 0: 3F0 0F0 0F1 3F1 rank 1: 1F0 2F0 1F1 2F1 } }"
    )
    facts = Facts(crossed.program)
    found = find_inputs(facts)
    for wave in (False, True):
        with pytest.raises(Cyclic):
            compute_ends(found, np.ones(facts.n, dtype=np.int64), all_ranks=wave)
