"""Validity of the standard skeletons under every model, and what they hold: exactly the bounds of the
theorems (T7).
"""

from __future__ import annotations

import random

import pytest

from algebra.standard import ALL, LARGEST, STANDARD, claimed, skeleton, stashes, written
from interlock.check.program import check_program
from interlock.check.verdict import Verdict
from interlock.program.facts import Facts
from interlock.program.linearise import compute_times
from interlock.rules.memory import in_flight
from interlock.rules.waits import MODELS
from interlock.text import resources


def test_every_file_of_the_library_is_here():
    names = {
        f.name.removesuffix(".sched")
        for f in (resources.find_folder() / "spec" / "std").iterdir()
        if f.name.endswith(".sched")
    }
    assert names == {*ALL, "transpose"} and all(skeleton(n).proves for n in names)


@pytest.mark.parametrize("name", ALL)
def test_valid_under_every_model(single, name, pytestconfig):
    standard = ALL[name]
    grid = [(P, M, V) for P in range(1, 9) for M, V in standard.sizes(P, range(1, 25))]
    edges = [(P, M, V) for P, M, V in grid if standard.smallest(P) == M and P in (1, 2, 8)]
    sample = grid if pytestconfig.getoption("--thorough") else edges + random.Random(name).sample(grid, 6)
    for P, M, V in sample:
        for answer in check_program(single(written(name, V), P, M, V), MODELS):
            assert answer.verdict is Verdict.VALID, (P, M, V, answer)


def grid(standard, thorough):
    for P in range(1, 9):
        for M, V in standard.sizes(
            P, range(1, 25) if thorough else sorted({1, 2, 3, 7, P, 2 * P - 1, 2 * P, 24})
        ):
            yield P, M, V


@pytest.mark.parametrize("name", STANDARD)
def test_each_rank_holds_what_the_table_says(single, name, pytestconfig):
    standard = STANDARD[name]
    for P, M, V in grid(standard, pytestconfig.getoption("--thorough")):
        program = single(written(name, V), P, M, V)
        assert stashes(program) == [(standard.x(P, M, V, r), standard.w(P, M, V, r)) for r in range(P)], (
            P,
            M,
            V,
        )
        assert compute_times(Facts(program)).complete


@pytest.mark.parametrize("name", LARGEST)
def test_the_fullest_rank_holds_what_is_published(single, name, pytestconfig):
    standard = LARGEST[name]
    for P, M, V in grid(standard, pytestconfig.getoption("--thorough")):
        program = single(written(name, V), P, M, V)
        assert compute_times(Facts(program)).complete
        assert tuple(map(max, zip(*stashes(program)))) == (standard.x(P, M, V, 0), standard.w(P, M, V, 0)), (
            P,
            M,
            V,
        )


@pytest.mark.parametrize("name", ALL)
def test_the_claims_in_the_files_are_these_bounds(name):
    standard, split = ALL[name], name.startswith(("zb_h", "interleaved_zb", "v_min"))
    for P, M, V in grid(standard, True):
        for r in range(P):
            expected = {"in_flight": standard.x(P, M, V, r)} | (
                {"in_flight_until_weight": standard.w(P, M, V, r)} if split else {}
            )
            assert claimed(name, P, M, V, r) == expected, (P, M, V, r)


def test_the_rules_count_the_same(single):
    for name in ALL:
        P, M, V = 4, 9, ALL[name].chunks[-1]
        program = single(written(name, V), P, M, V)
        facts = Facts(program)
        assert list(zip(in_flight(facts, "X"), in_flight(facts, "W"))) == stashes(program), name


def test_neighbouring_zb_h1_regions_are_woven(elaborated, single, rows):
    woven = elaborated(
        "schedule s { ranks 3 microbatches 7 model { layers u[6] {} } cut { a = u[0..2] : zb_h1  b = "
        "u[3..5] : zb_h1 } }"
    )
    assert rows(woven.program) == rows(single("interleaved_zb(chunks: 2)", 3, 7, 2)) and not woven.warnings
    for P, M in ((1, 1), (3, 2), (4, 4), (4, 11)):
        assert rows(single("interleaved_zb(chunks: 1)", P, M)) == rows(single("zb_h1", P, M))


def test_skeletons_are_used_for_the_sizes_they_are_for(refused):
    schedule = (
        "schedule s {{ ranks 2 microbatches {M} model {{ layers u[8] {{}} }} cut {{ x = u : {use} }} }}"
    )
    for use, M in (("dualpipev", 2), ("hanayo(chunks: 3)", 4)):
        assert refused(schedule.format(use=use, M=M))[0] == "IL207"
