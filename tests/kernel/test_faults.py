"""Every static rule: a program that fails, with the rows it must touch, and the nearest one that holds."""

import pytest

from interlock.kernel import Judge, judge
from interlock.kernel.faults import find_faults

from .build import claim, plain

# two stages on two ranks, one microbatch, transfers written
PAIR = ("0F0 0SEND_F0 0RECV_B0 0B0", "1RECV_F0 1F0 1B0 1SEND_B0")
TWO = " | ".join(PAIR)
CHAIN = "0F0 1F0 1B0 0B0"
REPLICATED = [[0], 1]  # stage 0 on both ranks, run by rank 0; stage 1 on rank 1
TIE = dict(stages=2, ties=[("emb", [0, 1], 0)], inserted=True, reductions="written")
FRAGMENT = dict(fragment=True)


def P(order, **more):
    return plain(order, **({"stages": 2} | more))


FAULTS = [  # code, failing program, rows of one error, program that holds
    ("IL301", P("1F0 0F0 1B0 0B0"), [1, 0], P(CHAIN)),
    ("IL301", P("0F0 1F0 0B0 1B0"), [3, 2], P(CHAIN)),
    ("IL301", P("{0F0 0B0}", stages=1), [0, 1], P("0F0 {0B0 0F1} 0B1", stages=1)),
    ("IL301", P("0F0 0LOSS0 0W0 0I0", stages=1), [3, 2], P("0F0 0LOSS0 0I0 0W0", stages=1)),
    ("IL301", P("0F0 0I0 0LOSS0 0W0", stages=1), [2, 1], P("0F0 0LOSS0 0I0 0W0", stages=1)),
    ("IL302", P("0F0 0B0", trainable="00", placeholders=True), [], P("0F0 1F0", trainable="00")),
    ("IL302", P("0F0 0LOSS0 0B0 0F1 0B1", stages=1), [], P("0F0 0LOSS0 0B0 0F1 0LOSS1 0B1", stages=1)),
    ("IL302", P("0F0 0LOSS0 1F0 1B0 0B0"), [1], P("0F0 1F0 1LOSS0 1B0 0B0")),
    ("IL303", P("0F0 1F0 0F0 1B0 0B0"), [0, 2], P(CHAIN)),
    ("IL303", P("0LOSS0 0LOSS0", stages=1, fragment=True), [0, 1], P("0LOSS0", stages=1, fragment=True)),
    (
        "IL304",
        P("1F0 | 0F0", inserted=True, trainable="00"),
        [1],
        P("0F0 | 1F0", inserted=True, trainable="00"),
    ),
    (
        "IL304",
        P("0F0 | 1F0 0REDUCE", inserted=True, trainable="00", placeholders=True, reductions="written"),
        [2],
        P("0F0 0REDUCE | 1F0", inserted=True, trainable="00", placeholders=True, reductions="written"),
    ),
    ("IL304", P("0RECV_B0 | 0RECV_F0", fragment=True), [1], P("0F0 | 1F0", **FRAGMENT)),
    ("IL305", P("0F0 0B0 0W0", stages=1), [1, 2], P("0F0 0I0 0W0", stages=1)),
    ("IL305", P("0F0 0B0 0I0", stages=1, fragment=True), [1, 2], P("0F0 0W0", stages=1, fragment=True)),
    ("IL305", P("0F0 0W0", stages=1), [1], P("0F0 0I0 0W0", stages=1)),
    ("IL306", P("0F0 0F7 0B0", stages=1, mbs=1), [1], P("0F0 0B0", stages=1, mbs=1)),
    (
        "IL306",
        P("0F0 1F0 1B0", layers={0: {"modality": "vision"}}, modalities={"vision": []}),
        [0],
        P("1F0 1B0", layers={0: {"modality": "vision"}}, modalities={"vision": []}),
    ),
    (
        "IL308",
        P(CHAIN + " 0REDUCE", reductions="written"),
        [],
        P(CHAIN + " 0REDUCE 1REDUCE", reductions="written"),
    ),
    (
        "IL308",
        P(CHAIN + " 0REDUCE 1REDUCE 1REDUCE", reductions="written"),
        [5, 6],
        P(CHAIN, reductions="written", fragment=True),
    ),
    (
        "IL308",
        P("0F0 1F0 1B0 0REDUCE 1REDUCE", trainable="01", reductions="written"),
        [3],
        P("0F0 1F0 1B0 1REDUCE", trainable="01", reductions="written"),
    ),
    (
        "IL308",
        P("0F0 0B0 tie(emb) 0REDUCE | 1F0 1B0 1REDUCE", **TIE),
        [],
        P("0F0 0B0 tie(emb) 0REDUCE | 1F0 1B0 tie(emb) 1REDUCE", **TIE),
    ),
    ("IL308", P("data(x) data(x)", **FRAGMENT), [0, 1], P("data(x) data(y)", **FRAGMENT)),
    (
        "IL309",
        P("0F0 0REDUCE 0B0", stages=1, reductions="written"),
        [1, 2],
        P("0F0 0B0 0REDUCE", stages=1, reductions="written"),
    ),
    (
        "IL309",
        P("0F0 0I0 tie(emb) 0W0", stages=1, ties=[("emb", [0], 0)]),
        [2, 3],
        P("0F0 0I0 0W0 tie(emb)", stages=1, ties=[("emb", [0], 0)]),
    ),
    ("IL310", P("data(x) tie(x)", **FRAGMENT), [0, 1], P("tie(x) data(x)", **FRAGMENT)),
    (
        "IL310",
        P("0REDUCE tie(x)", fragment=True, reductions="written", ties=[("x", [0], 0)]),
        [0, 1],
        P("tie(x) 0REDUCE", fragment=True, reductions="written", ties=[("x", [0], 0)]),
    ),
    (
        "IL311",
        P("STEP | ZERO", stages=1, trainable="0", fragment=False, inserted=True),
        [],
        P("STEP | ZERO", stages=1, fragment=True),
    ),
    ("IL311", P("STEP STEP", **FRAGMENT), [0, 1], P("STEP", **FRAGMENT)),
    ("IL311", P("0F0 STEP 0B0", stages=1), [1, 2], P("0F0 0B0 STEP", stages=1)),
    (
        "IL312",
        P("0SEND_F0 0F0 | 1RECV_F0 1F0", trainable="00"),
        [0, 1],
        P("0F0 0SEND_F0 | 1RECV_F0 1F0", trainable="00"),
    ),
    (
        "IL312",
        P("0F0 0SEND_F0 | 1F0 1RECV_F0", trainable="00"),
        [3, 2],
        P("0F0 0SEND_F0 | 1RECV_F0 1F0", trainable="00"),
    ),
    (
        "IL312",
        P("0I0 0RECV_B0 | 1I0 1SEND_B0", fragment=True),
        [1, 0],
        P("0RECV_B0 0I0 | 1I0 1SEND_B0", fragment=True),
    ),
    (
        "IL312",
        P("0WAIT_F0 0SEND_F0 | 1RECV_F0", fragment=True),
        [0, 1],
        P("0SEND_F0 0WAIT_F0 | 1RECV_F0", fragment=True),
    ),
    ("IL312", P("wait(x)", **FRAGMENT), [0], P("send(1,x) wait(x) | recv(0,x)", **FRAGMENT)),
    (
        "IL313",
        P("0B0 ZERO STEP", stages=1, fragment=True),
        [0, 1],
        P("ZERO 0B0 STEP ZERO", stages=1, fragment=True),
    ),
    ("IL313", P("0B0 ZERO", stages=1, fragment=True), [0, 1], P("0I0 ZERO", stages=1, fragment=True)),
    ("IL314", P("2UNSHARD", **FRAGMENT), [0], P("1UNSHARD", **FRAGMENT)),
    (
        "IL314",
        P("0F0 0B0 1REDUCE", stages=1, reductions="written", placeholders=True),
        [2],
        P("0F0 0B0 0REDUCE", stages=1, reductions="written", placeholders=True),
    ),
    ("IL401", P(TWO.replace("0RECV_B0 ", "")), [6], P(TWO)),
    ("IL401", P("0F0 0B0 | 1F0 1B0"), [], P(TWO)),
    (
        "IL401",
        P("0F0 0SEND_F0 0SEND_F0 0RECV_B0 0B0 | 1RECV_F0 1RECV_F0 1F0 1B0 1SEND_B0"),
        [1, 2, 5, 6],
        P(TWO),
    ),
    ("IL401", P("send(1,x) | ZERO", **FRAGMENT), [0], P("send(1,x) | recv(0,x)", **FRAGMENT)),
    ("IL401", P("send(0,x)", **FRAGMENT), [0], P("send(1,x) | recv(0,x)", **FRAGMENT)),
    ("IL401", P("0F0 | 1F0 1SEND_F0", **FRAGMENT), [2], P("0F0 | 1F0", **FRAGMENT)),
    (
        "IL401",
        P("0F0 0SEND_F0 | 1RECV_F0 1F0 1SEND_B0", trainable="00", placeholders=True),
        [4],
        P("0F0 0SEND_F0 0RECV_B0 | 1RECV_F0 1F0 1SEND_B0", trainable="00", placeholders=True),
    ),
    (
        "IL403",
        P("send(1,x) send(1,y) | recv(0,y) recv(0,x)", **FRAGMENT),
        [0, 2],
        P("send(1,x) send(1,y) | recv(0,x) recv(0,y)", **FRAGMENT),
    ),
    (
        "IL403",
        P("0SEND_F0 0SEND_F1 | 1RECV_F1 1RECV_F0", **FRAGMENT),
        [1, 3],
        P("0SEND_F0 0SEND_F1@1 | 1RECV_F1@1 1RECV_F0", comms=[[0, 1]], **FRAGMENT),
    ),
    (
        "IL404",
        P("coll(x) coll(y) | coll(y) coll(x)", **FRAGMENT),
        [0, 2],
        P("coll(x) coll(y) | coll(x) coll(y)", **FRAGMENT),
    ),
    ("IL404", P("coll(x) | ZERO", **FRAGMENT), [0], P("coll(x)@1 | ZERO", comms=[[0]], **FRAGMENT)),
    (
        "IL404",
        P("init@1 init@1 | init@1", comms=[[0, 1]], **FRAGMENT),
        [1],
        P("init@1 | init@1", comms=[[0, 1]], **FRAGMENT),
    ),
    (
        "IL404",
        P("init@1 coll(x)@1 | coll(x)@1 init@1", comms=[[0, 1]], **FRAGMENT),
        [0, 2],
        P("init@1 coll(x)@1 | init@1 coll(x)@1", comms=[[0, 1]], **FRAGMENT),
    ),
    (
        "IL405",
        P("init@1 init@2 | init@2 init@1", comms=[[0, 1], [0, 1]], **FRAGMENT),
        [0, 1, 2, 3],
        P("init@1 init@2 | init@1 init@2", comms=[[0, 1], [0, 1]], **FRAGMENT),
    ),
    (
        "IL406",
        P("coll(x)@1 | coll(x)@1", comms=[[0]], **FRAGMENT),
        [1],
        P("coll(x)@1 | ZERO", comms=[[0]], **FRAGMENT),
    ),
    (
        "IL406",
        P("send(1,x)@1 | recv(0,x)@1", comms=[[0]], **FRAGMENT),
        [0],
        P("send(1,x)@1 | recv(0,x)@1", comms=[[0, 1]], **FRAGMENT),
    ),
    (
        "IL407",
        P("send(1,x) free(x) | recv(0,x)", **FRAGMENT),
        [0, 1],
        P("send(1,x) wait(x) free(x) | recv(0,x)", **FRAGMENT),
    ),
    (
        "IL407",
        P("send(1,x) send(1,x) | recv(0,x) recv(0,x)", **FRAGMENT),
        [2, 3],
        P("send(1,x) send(1,x) | recv(0,x) wait(x) recv(0,x)", **FRAGMENT),
    ),
    (
        "IL407",
        P("recv(1,x) send(1,x) | send(0,x) wait(x) recv(0,x)", **FRAGMENT),
        [0, 1],
        P("recv(1,x) wait(x) send(1,x) | send(0,x) wait(x) recv(0,x)", **FRAGMENT),
    ),
    (
        "IL407",
        P("{recv(1,x)} {send(1,x)} | {send(0,x)} wait(x) {recv(0,x)}", **FRAGMENT),
        [0, 1],
        P("{recv(1,x) send(1,x)} | {send(0,x) recv(0,x)}", **FRAGMENT),
    ),
    ("IL408", P("{send(1,x)} | recv(0,x)", **FRAGMENT), [0, 1], P("{send(1,x)} | {recv(0,x)}", **FRAGMENT)),
    (
        "IL501",
        P(
            "0F0 0B0",
            stages=1,
            layers={0: {"activation": [7, 0]}},
            memory={"capacity": [6], "gradient": [1, 1], "optimizer": [0, 1]},
        ),
        [0, 1],
        P(
            "0F0 0B0",
            stages=1,
            layers={0: {"activation": [7, 0]}},
            memory={"capacity": [7], "gradient": [1, 1], "optimizer": [0, 1]},
        ),
    ),
    ("IL601", P("0F0 1F0 1B0"), [], P("0F0 1F0 1B0", trainable="01")),
    ("IL601", P("0F0 0I0", stages=1), [1], P("0F0 1F0 1I0 0I0 0W0", trainable="10")),
    (
        "IL602",
        P("0F0 1F0 1B0 0B0", trainable="01"),
        [3],
        P("0F0 1F0 1B0 0B0", trainable="01", placeholders=True),
    ),
    (
        "IL602",
        P(TWO.replace(" 0B0", ""), trainable="01"),
        [2],
        P("0F0 0SEND_F0 | 1RECV_F0 1F0 1B0", trainable="01"),
    ),
    (
        "IL605",
        P(
            "0F0 0B0 0REDUCE | 1F0 1B0",
            stages=REPLICATED,
            trainable="10",
            inserted=True,
            reductions="written",
        ),
        [],
        P(
            "0F0 0B0 0REDUCE | 1F0 1B0 0REDUCE",
            stages=REPLICATED,
            trainable="10",
            inserted=True,
            reductions="written",
        ),
    ),
    (
        "IL605",
        P(
            "0F0 0B0 0REDUCE 0REDUCE | 1F0 1B0 0REDUCE 0REDUCE",
            stages=REPLICATED,
            trainable="10",
            inserted=True,
            reductions="written",
        ),
        [2, 3],
        P("0F0 0B0 | 1F0 1B0", stages=REPLICATED, trainable="10", inserted=True, reductions="inserted"),
    ),
]


@pytest.mark.parametrize("code, bad, rows, good", FAULTS, ids=lambda x: x if isinstance(x, str) else "")
def test_rule(code, bad, rows, good):
    fault = {"claim": "invalid", "model": "pair", "fault": {"code": code, "rows": rows}}
    assert judge(bad, fault).accepted
    assert not judge(
        bad,
        {"claim": "valid", "model": "pair", "times": list(range(bad["order"]["start"][-1])), "launches": {}},
    ).accepted
    assert list(find_faults(Judge(good).matched, "pair")) == []
    fault["fault"]["rows"] = []
    assert judge(good, fault).reason == "the rule finds no such error"


@pytest.mark.parametrize("code, bad, rows, good", FAULTS, ids=lambda x: x if isinstance(x, str) else "")
def test_the_good_one_is_valid_under_every_model(code, bad, rows, good):
    for model in ("buffered", "edge", "pair", "rank"):
        valid = claim(good, model)
        if good["memory"] is None or good["transfers"] != "inserted":
            assert valid and judge(good, valid).accepted, (model, judge(good, valid) if valid else "cycle")


def test_rows_must_be_touched():
    bad = P("0F0 0REDUCE 0B0", stages=1, reductions="written")
    assert not judge(
        bad, {"claim": "invalid", "model": "pair", "fault": {"code": "IL309", "rows": [0]}}
    ).accepted


def test_grouping_is_asked_under_pair_alone():
    program = P("{send(1,x)} | recv(0,x)", **FRAGMENT)
    assert judge(program, claim(program, "edge")).accepted
    assert not judge(program, claim(program, "pair")).accepted


def test_crossed_payloads_are_il403_in_place_of_il401():
    program = P("0F0 0SEND_F0 0SEND_F0 0F1 | 1RECV_F0 1F0 1RECV_F1 1F1", trainable="00")
    found = list(find_faults(Judge(program).matched, "edge"))
    assert ("IL403", (2, 6)) in found
    assert [rows for code, rows in found if code == "IL401"] == [()]  # the missing SEND_F of microbatch 1
