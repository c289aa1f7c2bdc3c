"""What is found at once for all ranks is what plain sweeps find rank by rank; where a run repeats itself,
skipping it changes no number.
"""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from interlock.algebra.standard import derive_standard, elaborate_text
from interlock.program.facts import Facts
from interlock.program.kinds import Kind
from interlock.program.transfers import insert
from interlock.rules.waits import MODELS
from interlock.text.finding import InputError
from interlock.timing import longest_path, sweeps
from interlock.timing.durations import DataParallel, Link, Machine, compute_durations, durations_by_kind
from interlock.timing.figures import compute_figures
from interlock.timing.inputs import find_inputs, travel_times
from interlock.timing.longest_path import Cyclic, compute_ends
from interlock.timing.repetition import repeat_period
from interlock.timing.simulate import FREE, has_timed_reductions, rows_within, simulate, simulate_figures
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

VLM = """schedule s {{
  ranks {P} microbatches {M}  images [{images}]
  model {{ layers vit[{E}] {{ forward {f}us per image  backward 3us per image  output 2MB per image {frozen} }}
          layers llm[{L}] {{ forward 4us backward_input 3us backward_weight {w}us output 1MB }} }}
  link {{ latency {latency}us bandwidth 1TB/s }}  link 0-1 {{ latency {other}us }}
  cut {{ encoder = vit : {first}  backbone = llm : 1f1b }}
}}"""


def random_durations(program, pick):
    def each(low, high):
        return [pick.randint(low, high) for _ in program.stages]

    times = (
        TIMES
        if pick.random() < 0.3
        else {Kind.F: each(1, 20), Kind.B: each(1, 40), Kind.I: each(0, 20), Kind.W: each(0, 20)}
    )
    machine = Machine(
        overhead=pick.choice((0, 2)),
        speeds=tuple(Fraction(pick.randint(1, 3), pick.randint(1, 3)) for _ in range(program.ranks))
        if pick.random() < 0.4
        else (),
    )
    return durations_by_kind(program, times, pick.choice((0, 4, 50)), machine)


def vlm(pick):
    M, P = pick.randint(1, 9), pick.randint(2, 4)
    images = (
        ", ".join(str(pick.randint(0, 3) if i else 1) for i in range(M))
        if pick.random() < 0.5
        else ", ".join("2" for _ in range(M))
    )
    return elaborate_text(
        VLM.format(
            P=P,
            M=M,
            E=pick.randint(1, 2) * P,
            L=P * pick.randint(1, 2),
            f=pick.randint(1, 6),
            w=pick.randint(0, 5),
            latency=pick.choice((0, 1, 9)),
            other=pick.choice((0, 2)),
            images=images,
            frozen=pick.choice(("", "frozen")),
            first="transpose(owner: round_robin)",
        )
    )


def cases(thorough: bool):
    """Programs and their durations."""
    pick = random.Random(5)
    for _turn in range(8 if thorough else 1):
        for name, V in SKELETONS:
            for _ in range(2):
                P, M = pick.randint(1, 5), pick.randint(1, 14) if pick.random() < 0.7 else 40
                try:
                    program = derive_standard(name, P, M, V)
                except InputError:  # not all skeletons exist for few microbatches
                    continue
                yield program, random_durations(program, pick)
        for _ in range(6):
            e = vlm(pick)
            yield (
                e.program,
                compute_durations(
                    e.program,
                    e.times,
                    Machine(
                        Link(pick.choice((0, 3000)), pick.choice((None, 10**12))),
                        {(0, 1): Link(pick.choice((0, 5000)))} if pick.random() < 0.5 else {},
                    ),
                ),
            )


def test_figures_are_those_of_plain_sweeps(pytestconfig):
    periods = set()
    for program, d in cases(pytestconfig.getoption("--thorough")):
        timeline = simulate(program, d, critical=False)
        expected = oracle.figures(timeline)
        assert compute_figures(timeline) == expected == simulate_figures(program, d)
        periods.add(expected.every)
        written = insert(program)
        for model in (FREE, *MODELS):
            timeline = simulate(written, d.on(written), model, critical=False)
            assert compute_figures(timeline) == oracle.figures(timeline)
    assert {None, 1} < periods, "some repeat themselves after one microbatch, some after more, some never"


def test_needs_and_ends_are_those_of_the_rules(pytestconfig):
    for program, d in cases(pytestconfig.getoption("--thorough")):
        facts = Facts(program)
        found = find_inputs(facts)
        assert (found.source == oracle.needs(facts)).all()
        ends = compute_ends(found, d.row, travel_times(facts, found, d))
        assert (ends == oracle.step_by_step(program, d)).all()
        if not has_timed_reductions(program, d):
            timeline = simulate(program, d)
            own = rows_within(program, timeline.program)
            assert (timeline.end[own] == ends).all() and (timeline.start[own] == ends - d.row).all()


def test_times_too_large_for_one_axis_are_summed_rank_by_rank():
    program = derive_standard("1f1b", 32, 1)
    d = durations_by_kind(program, {Kind.F: 3 << 50, Kind.B: 3 << 50}, 5)
    found = simulate_figures(program, d)
    assert found == oracle.figures(simulate(program, d)) and found.makespan * 32 >= 1 << 62


def test_a_rank_that_does_nothing_is_in_its_warmup():
    program = elaborate_text(
        "schedule s { ranks 2 microbatches 3 model { layers a[1] { } } place { rank 0: 0 } order transfers "
        "inserted { rank 0: 0F0 0B0 0F1 0B1 0F2 0B2 rank 1: } }"
    ).program
    found = simulate_figures(program, durations_by_kind(program, TIMES))
    assert found.ranks[1].warmup == found.makespan == found.ranks[1].bubble and found == oracle.figures(
        simulate(program, durations_by_kind(program, TIMES))
    )


# ---- repetition -------------------------------------------------------------------------------------------


@pytest.fixture
def skipped(monkeypatch):
    """Rows that were skipped, each time a period was found: [by sweep_rows, by sweep_ranks]."""
    seen, running = ([], []), [0]

    def watch(which, sweep):
        def run(*arguments):
            running[0] = which
            return sweep(*arguments)

        return run

    def count(inputs, row, lag, time, at, window):
        ahead = repeat_period(inputs, row, lag, time, at, window)
        if ahead is not None:
            seen[running[0]].append(int((ahead - at).sum()))
        return ahead

    for which, name in enumerate(("sweep_rows", "sweep_ranks")):
        monkeypatch.setattr(longest_path, name, watch(which, getattr(sweeps, name)))
    monkeypatch.setattr(sweeps, "repeat_period", count)
    monkeypatch.setattr(sweeps, "WINDOW", 48)
    monkeypatch.setattr(sweeps, "FIRST_SEARCH", 20)
    monkeypatch.setattr(sweeps, "LONG", 1)
    return seen


@pytest.mark.parametrize("name, V", SKELETONS)
def test_skipping_changes_no_number(name, V, skipped, pytestconfig):
    pick = random.Random(len(name) + V)
    for _turn in range(24 if pytestconfig.getoption("--thorough") else 3):
        program = derive_standard(name, pick.randint(1, 4), pick.randint(100, 300), V)
        d = random_durations(program, pick)
        row = d.row.copy()
        for _ in range(pick.choice((0, 0, 1, 5))):  # the rhythm is broken here and there
            i = pick.randrange(len(row))
            row[i] += pick.randint(1, 30)
            if i in d.facts.second_halves or i + 1 in d.facts.second_halves:
                row[i - 1 if i in d.facts.second_halves else i + 1] = row[i]
        found = find_inputs(d.facts)
        lag = travel_times(d.facts, found, d)
        if lag is not None and lag.any() and pick.random() < 0.3:
            lag[pick.choice(np.flatnonzero(lag).tolist())] += 7
        release = (
            np.array([pick.randint(0, 90) for _ in range(program.ranks)]) if pick.random() < 0.3 else None
        )
        plain = replace(found, facts=None)  # without facts nothing is skipped
        expected = compute_ends(plain, row, lag, all_ranks=False, release=release)
        for each in (found, plain):
            for wave in (False, True):
                assert (compute_ends(each, row, lag, all_ranks=wave, release=release) == expected).all()
    assert all(sum(each) > 100 for each in skipped)


def test_most_of_a_steady_run_is_skipped(skipped):
    program = derive_standard("1f1b", 4, 2000)
    d = durations_by_kind(program, TIMES, 3)
    simulate_figures(program, d)
    assert len(skipped[0]) == 1 and skipped[0][0] > 0.9 * len(program.order)


def test_an_order_that_waits_in_a_circle_late_in_the_run_has_no_times(skipped):
    def forwards(stage):
        return " ".join(f"{stage}F{m}" for m in range(199))

    program = elaborate_text(
        "schedule s { ranks 2 microbatches 200 place { rank 0: 0, 3 rank 1: 1, 2 } order transfers inserted {"
        f" rank 0: {forwards(0)} 3F199 0F199 rank 1: {forwards(1)} 1F199 2F199 }} }}"
    ).program
    found = find_inputs(Facts(program))
    for wave in (False, True):
        with pytest.raises(Cyclic):
            compute_ends(found, np.full(len(found.source), 10), all_ranks=wave)
    assert all(skipped)


# ---- the period ------------------------------------------------------------------------------------------


def cycle_ratio(program, d, k: int) -> Fraction:
    """The largest mean weight of a circle in the graph of k microbatches that repeat: nodes (kind, stage, m
    mod k), edges by their shift.

    By bisection over whole numbers of ns in k microbatches: a circle of positive weight, by Bellman and Ford,
    means that the ratio is larger.
    """
    f, o = d.facts, program.order
    middle = program.microbatches // 2 // k * k
    node = {}
    edges = []
    found = find_inputs(f)
    lag, row = travel_times(f, found, d), d.row.copy()
    row[f.second_halves - 1] = 0  # of an overlap the second row takes the time

    def key(i):
        return (int(o.kind[i]), int(o.stage[i]), int(o.mb[i]) % k)

    for i in range(len(o)):
        if not middle <= o.mb[i] < middle + k:
            continue
        before = [(i - 1, 0)] if i not in o.start else []
        if found.source[i] >= 0:
            before.append((int(found.source[i]), int(lag[i]) if lag is not None else 0))
        for j, more in before:
            edges.append(
                (
                    node.setdefault(key(j), len(node)),
                    node.setdefault(key(i), len(node)),
                    int(row[i]) + more,
                    int(o.mb[i]) // k - int(o.mb[j]) // k,
                )
            )

    def positive(g: int) -> bool:
        """Whether a circle weighs more than g times its shift."""
        at = [0] * len(node)
        for _ in range(len(node) + 1):
            changed = False
            for a, b, weight, shift in edges:
                if at[a] + weight - g * shift > at[b]:
                    at[b], changed = at[a] + weight - g * shift, True
            if not changed:
                return False
        return True

    low, high = 0, int(d.row.sum()) + 1
    while low < high:  # the smallest g without a positive circle
        g = (low + high) // 2
        low, high = (g + 1, high) if positive(g) else (low, g)
    return Fraction(low, k)


@pytest.mark.parametrize("name, V", [s for s in SKELETONS if s[0] != "gpipe"])
def test_the_period_is_the_largest_mean_of_a_circle(name, V):
    pick = random.Random(V)
    met = 0
    for P, transfer in ((2, 0), (3, 5), (4, 0)):
        program = derive_standard(name, P, 96 // P * P, V)
        times = {kind: [pick.randint(1, 20) for _ in range(P * V)] for kind in TIMES}
        d = durations_by_kind(program, times, transfer)
        found = simulate_figures(program, d)
        if found.period is not None:
            met += 1
            assert found.period == cycle_ratio(program, d, found.every), (name, P, transfer)
    assert met


def test_periods_of_known_schedules():
    def unit(name, P, M, V=1):
        return simulate_figures(
            derive_standard(name, P, M, V),
            durations_by_kind(derive_standard(name, P, M, V), {Kind.F: 1, Kind.B: 2, Kind.I: 1, Kind.W: 1}),
        )

    for name, V, per in (
        ("1f1b", 1, 3),
        ("zb_h1", 1, 3),
        ("interleaved", 2, 6),
        ("zb_v", 2, 6),
        ("dualpipev", 2, None),
    ):
        found = unit(name, 4, 64, V)
        assert found.period == per or (per is None and found.period is not None)
    assert (unit("1f1b", 4, 64).period, unit("1f1b", 4, 64).every) == (3, 1)
    assert unit("1f1b", 4, 6).period is None
    uneven = elaborate_text(
        "schedule s {{ ranks 2 microbatches 24 images [{}] model {{ layers a[2] {{ forward 1us per image "
        "backward 2us per image }} }} cut {{ x = a : 1f1b }} }}".format(
            ", ".join(str(1 + m * m % 5 + m % 7) for m in range(24))
        )
    )
    assert simulate_figures(uneven.program, compute_durations(uneven.program, uneven.times)).period is None


def test_reductions_beside_compute_are_in_the_figures():
    e = elaborate_text(
        "schedule s { ranks 2 microbatches 4 model { layers u[4] { forward 1us backward 2us weights 1MB } } "
        "cut { x = u : interleaved(chunks: 2) } }"
    )
    d = compute_durations(e.program, e.times, Machine(data=DataParallel(2, Link(0, 10**9))))
    assert (
        simulate_figures(e.program, d)
        == compute_figures(simulate(e.program, d))
        == oracle.figures(simulate(e.program, d))
    )
    assert simulate_figures(e.program, d).ranks[0].communication > 0
