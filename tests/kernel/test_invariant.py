"""Invariance over freezings, transfers written: every clause of the kernel's judgement, broken once."""

import copy

import pytest

from interlock.kernel import Judge, invariant, judge
from interlock.kernel.program import WORDS, Kind

from .build import claim, plain

# three stages; a tie of the outer ones, a launch, sends that are waited for, written reductions
PROGRAM = plain(
    "0F0 {0SEND_F0} 0WAIT_F0 0F1 {0SEND_F1 0RECV_B0} 0B0 {0RECV_B1} 0B1 tie(emb)@1 0REDUCE STEP | "
    "{1RECV_F0} 1F0 {1SEND_F0 1RECV_F1} 1F1 {1SEND_F1 1RECV_B0} 1B0 {1SEND_B0} 1WAIT_B0 "
    "{1RECV_B1} 1I1 {1SEND_B1} 1W1 1REDUCE STEP | "
    "{2RECV_F0} 2F0 2B0 {2SEND_B0} {2RECV_F1} 2F1 2B1 {2SEND_B1} tie(emb)@1 2REDUCE STEP",
    stages=3,
    comms=[[0, 2]],
    ties=[("emb", [0, 2], 1)],
    reductions="written",
)
# a Replicated stage before them: its reduction is a collective
REPLICATED = plain(
    "0F0 1F0 1B0 {1RECV_F1} 1F1 1B1 {1SEND_B1} 0B0 0REDUCE 1REDUCE STEP | "
    "0F1 {0SEND_F1} {0RECV_B1} 0B1 0REDUCE STEP",
    stages=[[0, 1], 0],
    reductions="written",
)
MODELS = ("buffered", "edge", "pair", "rank")


def placed(program):
    return Judge(program).matched.placed


def invariant_claim(program, model="pair", bits=(0, 1, 2)):
    return claim(program, model) | {"claim": "invariant", "bits": list(bits)}


def verdict(program, changed) -> bool:
    return judge(program, changed).accepted


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("bits", [(), (0,), (1, 2), (2, 0, 1)])
def test_accepted(model, bits):
    assert verdict(PROGRAM, invariant_claim(PROGRAM, model, bits))


@pytest.mark.parametrize(
    "change, sentence",
    [
        ({"bits": [0, 0]}, "twice"),
        ({"bits": [3]}, "bits"),
        ({"bits": [True]}, "bits"),
        ({"bits": None}, "bits"),
        ({"bits": [-1]}, "bits"),
        ({"model": "fast"}, "unknown model"),
        ({"model": None}, "unknown model"),
        ({"times": [0]}, "times"),
        ({"launches": {}}, "launches"),
    ],
)
def test_the_claim_itself(change, sentence):
    said = judge(PROGRAM, invariant_claim(PROGRAM) | change)
    assert not said.accepted and sentence in said.reason
    without = {k: x for k, x in invariant_claim(PROGRAM).items() if k not in change}
    assert not verdict(PROGRAM, without)


def test_every_time_is_asked():
    good = invariant_claim(PROGRAM)
    for row, time in enumerate(good["times"]):
        changed = copy.deepcopy(good)
        changed["times"][row] = -1 if time else 10**6
        assert not verdict(PROGRAM, changed), row
    for launch in good["launches"]:
        changed = copy.deepcopy(good)
        changed["launches"][launch] = changed["launches"][launch][::-1]
        assert not verdict(PROGRAM, changed), launch


def test_times_of_a_weaker_model_do_not_do():
    """Rank 0 sends twice before it receives, rank 1 likewise: under `pair` they wait for each other."""
    program = plain(
        "0F0 0SEND_F0 1RECV_F1 1F1 1B1 0RECV_B0 1SEND_B1 0B0 | "
        "0F1 0SEND_F1 1RECV_F0 1F0 1B0 0RECV_B1 1SEND_B0 0B1",
        stages=[[0, 1], [1, 0]],
    )
    assert claim(program, "pair") is None
    edge = invariant_claim(program, "edge", (0, 1))
    assert verdict(program, edge)
    assert not any(verdict(program, edge | {"model": model}) for model in ("pair", "rank", "blocking"))


def changed(**changes) -> dict:
    return copy.deepcopy(PROGRAM) | changes


def test_the_program_is_the_fully_trained_one():
    good = invariant_claim(PROGRAM)
    frozen = changed()
    frozen["layers"][1]["trainable"] = False
    assert not verdict(frozen, good)
    idle = plain(
        "0F0 0SEND_F0 0RECV_B0 0B0 | 1RECV_F0 1F0 1B0 1SEND_B0", stages=2, trainable="10"
    )  # weight work that every freezing deletes
    assert verdict(idle, invariant_claim(idle, bits=(0,))) and not verdict(
        idle, invariant_claim(idle, bits=(0, 1))
    )
    assert not verdict(changed(fragment=True), good)


@pytest.mark.parametrize("row", range(PROGRAM["order"]["start"][-1]))
def test_no_operation_can_be_left_out(row):
    """But a wait or a STEP, which nothing needs."""
    program = changed()
    kind = WORDS[program["order"]["kind"][row]]
    for column in program["order"].values():
        if len(column) == PROGRAM["order"]["start"][-1]:
            del column[row]
    program["order"]["start"] = [s - (s > row) for s in program["order"]["start"]]
    found = claim(program)
    assert (
        found is not None and verdict(program, found | {"claim": "invariant", "bits": [0, 1, 2]})
    ) == kind.startswith("WAIT"), kind


BROKEN = [
    (PROGRAM, word, drop, why)
    for word, drop, why in (
        ("0F0", True, "computed from"),
        ("1F0", True, "computed from"),
        ("1B0", True, "computed from"),
        ("1I1", True, "computed from"),
        ("0SEND_F0", True, "its send"),
        ("1RECV_F0", True, "its receive"),
        ("1SEND_B0", True, "its send"),
        ("0RECV_B0", True, "its receive"),
        ("0B0", False, "computed from"),
        ("1SEND_B0", False, "its receive"),
        ("0RECV_B0", False, "its send"),
        ("1WAIT_B0", False, "waits for"),
    )
]
BROKEN += [(REPLICATED, "0REDUCE", True, "other members"), (PROGRAM, "tie", True, "other members")]


@pytest.mark.parametrize("program, word, drop, why", BROKEN)
def test_a_wrong_presence_is_found(monkeypatch, program, word, drop, why):
    """A row is there for no choice of the bits, or for all: it and another that needs it fall apart."""
    right = invariant.find_presence
    row = plain_row(program, word)

    def wrong(placed, bits):
        there = right(placed, bits)
        there[row] = 0 if drop else invariant.ALWAYS
        return there

    bits = range(len(program["layers"]))
    assert verdict(program, invariant_claim(program, bits=bits))
    monkeypatch.setattr(invariant, "find_presence", wrong)
    said = judge(program, invariant_claim(program, bits=bits))
    assert not said.accepted and "one it needs is not" in said.reason
    needs = list(invariant.find_needs(Judge(program).matched))
    assert any(why in reason for a, b, reason in needs if row in (a, b))


def plain_row(program, word: str) -> int:
    order = program["order"]
    for i, kind in enumerate(order["kind"]):
        text = f"{order['stage'][i]}{WORDS[kind]}" + (str(order["mb"][i]) if order["mb"][i] >= 0 else "")
        if word == text or word == "tie" and kind == Kind.REDUCE_TIE:
            return i
    raise ValueError(word)


@pytest.mark.parametrize(
    "table, kind", [("cross", "SEND_B"), ("cross", "RECV_B"), ("back", "SEND_B"), ("wwork", "RECV_B")]
)
def test_a_gate_that_is_wrong_for_one_choice(monkeypatch, table, kind):
    """A send that asks for a layer too many, a receive for one too few: one assignment of the bits tells."""
    one = {"cross": range, "back": lambda s: range(s + 1), "wwork": lambda s: range(s, s + 1)}
    right = {"SEND_B": "cross", "RECV_B": "back"}[kind]
    presence = invariant.find_presence

    def wrong(placed, bits):
        there = presence(placed, bits)
        for i in placed.order.rows[WORDS.index(kind)]:
            there[i] = sum(1 << bits.index(l) for l in one[table](placed.order.stage[i]))
        return there

    monkeypatch.setattr(invariant, "find_presence", wrong)
    assert verdict(PROGRAM, invariant_claim(PROGRAM)) == (table == right)


def test_both_ends_of_a_gradient_are_there_by_the_same_bits():
    """Stage 1 is there by layer 0 or 1, its gradient to stage 0 by layer 0 alone, W by its own."""
    there = invariant.find_presence(placed(PROGRAM), [0, 1, 2])
    expected = {
        "0B0": 0b001,
        "0RECV_B0": 0b001,
        "1SEND_B0": 0b001,
        "1WAIT_B0": 0b001,
        "1B0": 0b011,
        "1RECV_B0": 0b011,
        "2SEND_B0": 0b011,
        "1W1": 0b010,
        "1I1": 0b011,
        "2B0": 0b111,
        "1REDUCE": 0b010,
        "tie": 0b101,
        "0SEND_F0": -1,
        "2F1": -1,
    }
    assert {word: there[plain_row(PROGRAM, word)] for word in expected} == expected
    frozen = changed()
    frozen["layers"][0]["trainable"] = False  # for good, and layer 1 trained for good
    there = invariant.find_presence(placed(frozen), [2])
    assert [
        there[plain_row(PROGRAM, word)] for word in ("0B0", "1SEND_B0", "0REDUCE", "1B0", "2SEND_B0", "tie")
    ] == [0, 0, 0, -1, -1, 1]


def test_a_text_only_microbatch():
    """Microbatch 1 does not visit stage 0: nothing of it goes back beyond stage 1, whatever is trained."""
    program = plain(
        "0F0 {0SEND_F0 0RECV_B0} 0B0 | {1RECV_F0} 1F0 1B0 {1SEND_B0} 1F1 1B1",
        stages=2,
        layers={0: {"modality": "x"}},
        modalities={"x": [0]},
    )
    assert verdict(program, invariant_claim(program, bits=(0, 1)))
    there = invariant.find_presence(placed(program), [0, 1])
    assert [there[plain_row(program, word)] for word in ("1B0", "1B1", "1SEND_B0")] == [0b11, 0b10, 0b01]


def test_placeholders():
    """Stage 0 is frozen for good and lists its backward: there for no choice, and nothing needs it."""
    program = plain(
        "0F0 0SEND_F0 0RECV_B0 0B0 | 1RECV_F0 1F0 1B0 1SEND_B0", stages=2, trainable="01", placeholders=True
    )
    assert verdict(program, invariant_claim(program, bits=(1,)))
    bare = plain(
        "0F0 0SEND_F0 0RECV_B0 | 1RECV_F0 1F0 1SEND_B0", stages=2, trainable="00", placeholders=True
    )  # no backward at all, and its transfers
    assert verdict(bare, invariant_claim(bare, bits=()))
