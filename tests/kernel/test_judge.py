"""Certificates: accepted as they are, rejected when anything in them is changed."""

import copy
import random

import pytest

from interlock.kernel import Judge, Judgement, judge, judge_all, verify

from .build import claim, graph_of, one_f_one_b, plain, waits_of

WRITTEN = plain(
    "0F0 {0SEND_F0} 0F1 {0SEND_F1 0RECV_B0} 0B0 {0RECV_B1} 0B1 STEP | "
    "{1RECV_F0} 1F0 1B0 {1RECV_F1 1SEND_B0} 1F1 1B1 {1SEND_B1} STEP",
    stages=2,
)
PROGRAMS = [
    WRITTEN,
    one_f_one_b(2, 3),
    one_f_one_b(3, 4, split=True),
    plain("0F0 1F0 {1B0 0F1} 1F1 1B1 0B0 0B1", stages=[0, 0]),
]


def document(program, *claims):
    return {"format": "interlock.certificate/1", "program": program, "claims": list(claims)}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("model", ["buffered", "edge", "pair", "rank"])
def test_valid_claims_and_every_tight_time(program, model):
    """No longest-path time can be raised to its follower's or lowered to its producer's."""
    valid = claim(program, model)
    assert judge(program, valid).accepted
    shifted = valid | {
        "times": [3 * t + 7 for t in valid["times"]],
        "launches": {l: [3 * t + 7 for t in ts] for l, ts in valid["launches"].items()},
    }
    assert judge(program, shifted).accepted
    for row, time in enumerate(valid["times"]):
        changed = copy.deepcopy(valid)
        changed["times"][row] = -1 if time else 10**6
        assert not judge(program, changed).accepted
        changed["times"][row] = time + 0.0
        assert not judge(program, changed).accepted
    for launch in valid["launches"]:
        for end in (0, 1):
            changed = copy.deepcopy(valid)
            changed["launches"][launch][end] = (10**6, -1)[end]
            assert not judge(program, changed).accepted
    assert not judge(program, valid | {"times": valid["times"][:-1]}).accepted
    assert not judge(program, valid | {"times": valid["times"] + [99]}).accepted
    assert not judge(program, valid | {"launches": valid["launches"] | {"77": [0, 1]}}).accepted


def test_a_changed_program_is_rejected():
    valid = claim(WRITTEN, "pair")
    order = WRITTEN["order"]
    for row in range(order["start"][-1]):
        if order["kind"][row] != 21:  # without STEP another rule decides
            changed = copy.deepcopy(WRITTEN)
            changed["order"]["mb"][row] ^= 1
            assert not judge(changed, valid).accepted
        dropped = copy.deepcopy(WRITTEN)
        for column in dropped["order"].values():
            if len(column) == order["start"][-1]:
                del column[row]
        dropped["order"]["start"] = [s - (s > row) for s in dropped["order"]["start"]]
        times = valid["times"][:row] + valid["times"][row + 1 :]
        assert not judge(dropped, valid | {"times": times}).accepted


def test_random_swaps_of_times_agree_with_the_waits():
    program, rng = one_f_one_b(3, 3), random.Random(5)
    valid = claim(program)
    graph = [(a, b) for a, _, b in waits_of(graph_of(program, "pair"))]
    for _ in range(200):
        times = list(valid["times"])
        i, j = rng.randrange(len(times)), rng.randrange(len(times))
        times[i], times[j] = times[j], times[i]
        assert judge(program, valid | {"times": times}).accepted == all(times[a] < times[b] for a, b in graph)


def test_verify():
    program = one_f_one_b(2, 3)
    good = document(program, claim(program, "pair"), claim(program, "blocking"))
    assert verify(good) == [Judgement(True, "no rule finds an error and every wait goes forward in time")] * 2
    assert verify(good | {"path": "a.sched"})[0].accepted
    for bad in (
        {},
        [],
        None,
        3,
        good | {"format": "interlock.certificate/2"},
        good | {"claims": []},
        good | {"claims": {}},
        good | {"program": None},
    ):
        judgements = verify(bad)
        assert judgements and not any(j.accepted for j in judgements)
    extra = verify(
        document(
            program,
            claim(program),
            {"claim": "fast"},
            7,
            {"claim": ["valid"]},
            {"claim": "valid"},
            {"claim": "invalid", "model": "pair"},
        )
    )
    assert [j.accepted for j in extra] == [True, False, False, False, False, False]


def test_inserted_with_a_capacity_is_not_judged():
    memory = {"capacity": [None, 10], "gradient": [1, 1], "optimizer": [0, 1]}
    program = one_f_one_b(2, 2) | {"memory": memory}
    assert "capacity" in judge(program, claim(program)).reason
    program["memory"] = memory | {"capacity": [None, None]}
    assert judge(program, claim(program)).accepted


def test_that_a_program_is_a_fragment_is_said():
    """A program without its backward is valid as a fragment: who reads the judgement is told so."""
    bare = plain("0F0 0SEND_F0 | 1RECV_F0 1F0", stages=2)
    assert not judge(bare, claim(bare)).accepted
    said = judge(bare | {"fragment": True}, claim(bare))
    assert said.accepted and said.reason.endswith("a fragment: what it lacks is not asked")


def invariant(program, bits):
    return judge(program, claim(program) | {"claim": "invariant", "bits": bits})


def test_invariant():
    program = one_f_one_b(3, 3, split=True)
    assert all(invariant(program, bits).accepted for bits in ([0, 1, 2], [1], []))
    for bits in ([3], [0, 0], [True], [-1], "0", None):
        assert not invariant(program, bits).accepted
    frozen = copy.deepcopy(program)
    frozen["layers"][0]["trainable"] = False
    assert not invariant(frozen, [0]).accepted
    assert not judge(program, claim(program) | {"claim": "invariant"}).accepted
    assert invariant(WRITTEN, [0, 1]).accepted
    late = claim(program) | {"claim": "invariant", "bits": [0]}
    late["times"][-1] = -1
    assert not judge(program, late).accepted


def test_invariance_of_placeholders():
    """Stage 0 is frozen for good: its listed backward is a placeholder, never present, and needs nothing."""
    program = one_f_one_b(2, 2) | {"placeholders": True}
    program["layers"][0]["trainable"] = False
    assert invariant(program, [1]).accepted


def test_many_claims_read_the_program_once():
    program = one_f_one_b(2, 3)
    assert [
        j.accepted
        for j in judge_all(
            program, [claim(program, m) for m in ("buffered", "edge", "pair", "rank", "blocking")]
        )
    ] == [True] * 5


def test_one_judge_for_many_claims():
    program = one_f_one_b(2, 3)
    of_the_program = Judge(program)
    assert all(of_the_program.judge(claim(program, m)).accepted for m in ("pair", "rank"))
    assert not of_the_program.judge({"claim": "in_flight", "counts": [0, 0]}).accepted
    assert Judge(None).judge(claim(program)).reason.startswith("ill-formed program: ")
