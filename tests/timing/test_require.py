"""`require` of bubble, exposure and makespan, at written durations and over intervals; the solver's answers
against brute force.
"""

from __future__ import annotations

import itertools
import random

import pytest

from interlock.algebra.standard import elaborate_text
from interlock.check.certificates import certificates
from interlock.check.files import check_file
from interlock.engine.smt.longest_path import Excess, Step, find_excess
from interlock.load import Question
from interlock.program.facts import Facts
from interlock.timing.durations import compute_durations, durations_by_kind
from interlock.timing.exposure import compute_exposure
from interlock.timing.figures import compute_figures
from interlock.timing.inputs import find_inputs, travel_times
from interlock.timing.longest_path import compute_ends
from interlock.timing.simulate import simulate


def check(text: str, **options):
    result = check_file("t.sched", text.encode(), Question(**options))
    assert not result.errors, result.errors
    return result.checked[0]


def derived(
    requires: str,
    more: str = "",
    layers: str = "forward 1ms  backward_input 1ms  backward_weight 1ms",
    body: str = "1f1b",
    M: int = 4,
    before: str = "",
    cut: str = "",
) -> str:
    return (
        f"schedule s {{ ranks 2 microbatches {M} model {{ {before} layers u[4] {{ {layers} output 1MB }} }} "
        f"cut {{ {cut} x = u : {body} }} {more}"
        f" require {{ {requires} }} }}"
    )


ENCODER = dict(before="layer vit { forward 1ms frozen }", cut="enc = vit : transpose")


@pytest.mark.parametrize(
    "requires, verdict, code",
    [
        ("makespan <= 28ms", "invalid", "IL705"),
        ("makespan <= 29ms", "valid", ""),
        ("makespan < 29ms", "invalid", "IL705"),
        ("bubble <= 24.14%", "valid", ""),
        ("bubble <= 24.13%", "invalid", "IL703"),
        ("makespan <= 29ms bubble <= 90%", "valid", ""),
    ],
)
def test_at_written_durations(requires, verdict, code):
    """Rank 1 takes 2 + 4 ms a microbatch, rank 0 one less: 2 + 24 + 3 ms; idle are 9 + 5 of 58."""
    found = check(derived(requires))
    assert found.verdict.value == verdict and {f.code for a in found.answers for f in a.errors} == {code} - {
        ""
    }
    assert bool(certificates(found.answers[0])) == (verdict == "valid")
    assert found.figures["makespan"] == "29 ms"


def test_what_a_finding_says():
    (answer,) = check(derived("makespan <= 20ms")).answers
    (finding,) = answer.errors
    assert (
        "29 ms" in finding.message
        and "`require makespan <= 20 ms`" in finding.message
        and "0F0 1F0 1B0" in finding.message
    )
    assert finding.data["makespan"] == 29_000_000 and finding.data["critical_path"][0] == "0F0"


def test_a_model_of_its_own():
    text = derived("makespan <= 29ms under pair", more="link { latency 1ms }")
    answers = {a.model: a.verdict.value for a in check(text, models=("edge", "pair")).answers}
    assert answers == {"edge": "valid", "pair": "invalid"}


def test_written_transfers_go_by_the_model():
    text = (
        "schedule s { ranks 2 microbatches 2 model { layers u[2] { forward 1ms backward 1ms output 1MB } } "
        "link { latency 3ms } place { rank 0: 0 rank 1: 1 }"
        " order transfers written reductions inserted { rank 0: 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 "
        "0RECV_B1 0B1"
        " rank 1: 1RECV_F0 1F0 1RECV_F1 1F1 1B0 1SEND_B0 1B1 1SEND_B1 } require { makespan <= %s } }"
    )
    span = {
        a.model: int(a.errors[0].data["makespan"])
        for a in check(text % "1ns", models=("buffered", "pair", "blocking")).answers
    }
    assert span["buffered"] <= span["pair"] <= span["blocking"]


@pytest.mark.parametrize(
    "requires, more, reason",
    [
        ("exposure <= 1ms", "", "Replicated"),
        ("bubble <= 90%", "assume u.forward in [1ms, 2ms] link { latency 1us }", "no transfer takes time"),
        ("bubble <= 90%", "assume u.forward in [1ms, 2ms] device { speed 0.5 }", "no rank has a speed"),
        (
            "bubble <= 90%",
            "assume u.forward in [1ms, 2ms] replicas 2 { latency 1us }",
            "reductions take no time",
        ),
        ("makespan <= 1s", "assume u.flops in [1GFLOP, 2GFLOP]", "`assume flops in`"),
    ],
)
def test_what_stays_open_says_why(requires, more, reason):
    found = check(derived(requires, more))
    assert found.verdict.value == "unknown" and reason in found.answers[0].reason


def test_durations_that_are_not_given():
    found = check(derived("makespan <= 1s", layers="forward 1ms"))
    assert found.verdict.value == "unknown" and "`u[1]` has no `backward` time" in found.answers[0].reason
    assert (
        check(
            derived("makespan <= 1s", layers="forward 1ms", more="assume u.backward in [1ms, 2ms]")
        ).verdict.value
        == "valid"
    )


def test_freezing_never_takes_longer():
    assert (
        check(derived("makespan <= 29ms", "freeze u[0..1] for any freezing of u[0..1]")).verdict.value
        == "valid"
    )
    frozen = check(derived("makespan <= 28ms", "freeze u[0..1] for any freezing of u[0..1]"))
    assert (
        frozen.verdict.value == "invalid"
        and check(derived("makespan <= 28ms", "freeze u[0..1]")).verdict.value == "valid"
    )


def test_the_smallest_value_that_breaks_a_makespan():
    found = check(derived("makespan <= 40ms", "assume u.forward in [1ms, 9ms]"))
    (finding,) = found.answers[0].errors
    # T = 29 ms + 10 (f - 1) ms: two layers a stage, M + P - 1 = 5 of them one after the other
    assert "it breaks from 2.1 ms on" in finding.message and finding.data["makespan"] == 109_000_000
    assert check(derived("makespan <= 109ms", "assume u.forward in [1ms, 9ms]")).verdict.value == "valid"


def test_an_exposure_over_an_interval_of_the_encoder():
    def over(limit):
        return check(derived(f"exposure <= {limit}ms", "assume vit.forward in [1ms, 6ms]", **ENCODER))

    assert over(12).verdict.value == "valid" and over(6).verdict.value == "invalid"
    assert "it breaks from" in over(6).answers[0].errors[0].message


def test_exposures_and_bubbles_in_between_are_asked_of_z3():
    """Stage 1 between 1 and 9: idle where it is faster or slower than stage 0, in between both corners are
    worse.
    """
    layers = dict(before="", cut="", M=3)
    free = "assume u[2..3].forward in [1ms, 9ms]"
    assert check(derived("bubble <= 60%", free, **layers)).verdict.value == "valid"
    assert check(derived("bubble <= 30%", free, **layers)).verdict.value == "invalid"
    held = check(derived("exposure <= 2ms", "assume u[0..1].forward in [1ms, 2ms]", **ENCODER, M=2))
    assert held.verdict.value in ("valid", "invalid")


def test_the_solver_against_brute_force():
    pick, sat = random.Random(11), 0
    for _ in range(12):
        P, M = pick.choice(((2, 2), (2, 3), (3, 2)))
        owner = [pick.randrange(P) for _ in range(M)]
        e = elaborate_text(
            f"schedule s {{ ranks {P} microbatches {M} model {{ layer vit {{ frozen }} layers u[{P}] {{ }} "
            f"}} cut {{ enc = vit : transpose(owner: {owner}) x = u : 1f1b }} }}"
        )
        base = {k: [pick.randint(1, 4) for _ in e.program.stages] for k in (0, 1)}
        slow = pick.sample(range(P + 1), 2)
        ranges = [pick.randint(1, 3) for _ in slow]

        def at(values):
            return durations_by_kind(
                e.program,
                {
                    0: [v + sum(x for x, s in zip(values, slow) if s == i) for i, v in enumerate(base[0])],
                    1: base[1],
                },
            )

        facts = Facts(e.program)
        found = find_inputs(facts)
        low = at((0, 0))
        factors = [(facts.stage == s) & (facts.kind == 0) for s in slow]

        def steps(muted: bool):
            out = []
            for i in range(facts.n):
                quiet = muted and facts.stage[i] == 0
                before = [(i - 1, 0)] if i not in found.start else []
                before += [(int(found.source[i]), 0)] if found.source[i] >= 0 else []
                out.append(
                    Step(
                        0 if quiet else int(low.row[i]),
                        () if quiet else tuple((1, v) for v, f in enumerate(factors) if f[i]),
                        tuple(before),
                    )
                )
            return out

        worst = max(
            compute_exposure(e.program, at(v)).exposed
            for v in itertools.product(*(range(r + 1) for r in ranges))
        )

        def ask(limit):
            return find_excess(ranges, steps(False), steps(True), Excess(1, 1, (0, ()), limit))

        assert ask(worst) is None
        if worst:
            values = ask(worst - 1)
            assert compute_exposure(e.program, at(values)).exposed == worst
            sat += 1
        compute_ends(found, low.row, travel_times(facts, found, low))
    assert sat


def test_figures_at_a_corner_are_those_of_the_simulator():
    e = elaborate_text(derived("makespan <= 1s").replace("require", "freeze u[0] require"))
    timeline = simulate(e.program, compute_durations(e.program, e.times))
    assert check(derived("makespan <= 1s", "freeze u[0]")).figures == compute_figures(timeline).shown()


@pytest.mark.parametrize(
    "requires, code",
    [
        ("makespan >= 1ms", "IL210"),
        ("makespan <= 3", "IL210"),
        ("bubble <= 3ms", "IL210"),
        ("exposure <= 4%", "IL210"),
        ("bubbles <= 4%", "IL107"),
    ],
)
def test_requirements_that_say_nothing(requires, code):
    result = check_file("t.sched", derived(requires).encode(), Question())
    assert [d.code for d in result.errors] == [code]
