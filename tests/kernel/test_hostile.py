"""Nothing that JSON can hold makes the kernel raise, hang, or accept."""

import copy
import json
import random

import pytest

from interlock.kernel import judge, judge_all, verify
from interlock.kernel.fields import Malformed
from interlock.kernel.wellformed import read
from work import count_lines, grows_linearly

from .build import claim, one_f_one_b, plain

PROGRAM = plain(
    "0F0 {0SEND_F0} {0RECV_B0} 0B0 tie(emb) | {1RECV_F0} 1F0 1B0 {1SEND_B0} tie(emb) coll(x)@1",
    stages=2,
    comms=[[1]],
    layers={0: {"modality": "vision"}},
    modalities={"vision": [0]},
    ties=[("emb", [0, 1], 0)],
    memory={"capacity": [None, 99], "gradient": [1, 1], "optimizer": [0, 1]},
)
CLAIMS = [
    claim(PROGRAM),
    {"claim": "peak", "peaks": [0, 0]},
    {"claim": "invariant", "bits": [0], "times": [0]},
    {
        "claim": "invalid",
        "model": "pair",
        "walk": [[["op", 0], "after", ["start", 0]], [["end", 0], "same", ["op", 0]]],
    },
    {"claim": "invalid", "model": "pair", "fault": {"code": "IL301", "rows": [0]}},
]
JUNK = [
    None,
    True,
    False,
    -1,
    0,
    1,
    2,
    7,
    10**30,
    0.5,
    float("nan"),
    "",
    "F",
    "1",
    [],
    [0],
    [[]],
    {},
    {"a": 1},
    [None],
    10**7,
    "written",
]


def places(x, path=()):
    yield path
    for key, value in x.items() if isinstance(x, dict) else enumerate(x) if isinstance(x, list) else ():
        yield from places(value, (*path, key))


def with_junk(x, path, junk):
    if not path:
        return junk
    x = copy.copy(x)
    x[path[0]] = with_junk(x[path[0]], path[1:], junk)
    return x


def test_the_document_itself():
    judgements = judge_all(PROGRAM, CLAIMS)
    assert [j.accepted for j in judgements] == [True, True, False, False, False], judgements


@pytest.mark.parametrize("junk", JUNK, ids=repr)
def test_junk_in_every_place(junk):
    for path in places(PROGRAM):
        for judgement in judge_all(with_junk(PROGRAM, path, junk), CLAIMS):
            assert type(judgement.accepted) is bool and judgement.reason
    for _n, one in enumerate(CLAIMS):
        judge_all(PROGRAM, [with_junk(one, path, junk) for path in places(one)])
    verify(junk)


def test_keys_left_out():
    for path in places(PROGRAM):
        if path and isinstance(path[-1], str) and path[-1] not in ("region", "vision"):
            holder = copy.deepcopy(PROGRAM)
            x = holder
            for key in path[:-1]:
                x = x[key]
            del x[path[-1]]
            judgement = judge(holder, CLAIMS[0])
            assert not judgement.accepted or path[-1] == "name", (
                path
            )  # names of layers and communicators are for people


def test_random_rows_never_raise():
    rng = random.Random(1)
    for _ in range(300):
        program = copy.deepcopy(PROGRAM)
        for column in ("kind", "stage", "mb", "peer", "name", "comm", "launch"):
            program["order"][column] = [
                rng.choice([x, x, x, rng.randint(-1, 3), rng.randint(0, 23)])
                for x in program["order"][column]
            ]
        for judgement in judge_all(program, CLAIMS):
            assert judgement.reason


@pytest.mark.parametrize(
    "order, sentence",
    [
        ("{0F0 0SEND_F0} | 1RECV_F0", "overlap"),
        ("{0F0 0F1} | ZERO", "overlap"),
        ("{0F0} | ZERO", "overlap"),
        ("{0B0 0W0} | ZERO", "overlap"),
        ("{0F0 0B0 0F1} | ZERO", "overlap"),
        ("{coll(x)} | ZERO", "overlap"),
        ("{0F0 0LOSS0} | ZERO", "overlap"),
        ("F0 | ZERO", "no stage"),
        ("0F | ZERO", "no mb"),
        ("send(x) | ZERO", "no peer"),
        ("coll | ZERO", "no name"),
        ("send(5,x) | ZERO", "the order's peer"),
        ("coll(x)@3 | ZERO", "the order's comm"),
    ],
)
def test_rows_that_are_not_well_formed(order, sentence):
    assert sentence in judge(plain(order, stages=2, fragment=True), {"claim": "peak", "peaks": [0, 0]}).reason


def test_inserted_programs_list_no_transfer_and_no_reduction():
    for order in (
        "0SEND_F0 | 1RECV_F0",
        "send(1,x) | recv(0,x)",
        "0WAIT_F0 | ZERO",
        "wait(x) | ZERO",
        "free(x) | ZERO",
    ):
        with pytest.raises(Malformed):
            read(plain(order, stages=2, inserted=True, fragment=True))
    with pytest.raises(Malformed):
        read(plain("0REDUCE", stages=1, reductions="inserted", fragment=True))


def test_launches_that_are_torn():
    for launch in ([0, -1, 0, -1], [1, 1, 0, 0], [-1, 0, 0, -1], [-2, -1, -1, -1]):
        program = plain("send(1,x) send(1,y) | recv(0,x) recv(0,y)", stages=2, fragment=True)
        program["order"]["launch"] = launch
        with pytest.raises(Malformed):
            read(program)


@pytest.mark.parametrize(
    "change",
    [
        {"ranks": 10**9},
        {"ranks": 10**7},
        {"microbatches": 10**7},
        {"microbatches": 10**40},
        {
            "order": {
                "start": [0, 10**12],
                "kind": 0,
                "stage": 0,
                "mb": 0,
                "peer": -1,
                "name": -1,
                "comm": 0,
                "launch": -1,
            }
        },
        {
            "order": {
                "start": [0, 10**12],
                "kind": 0,
                "stage": [0],
                "mb": 0,
                "peer": -1,
                "name": -1,
                "comm": 0,
                "launch": -1,
            }
        },
    ],
)
def test_declared_sizes_cost_nothing(change):
    judgements = []
    claim = {"claim": "peak", "peaks": []}
    lines = count_lines(lambda: judgements.append(judge(plain("0F0 0B0", stages=1) | change, claim)))
    assert not judgements[0].accepted and lines < 5_000


def judge_many(many: int) -> None:
    """Many stages, no rows; many waits of one buffer; many transfers of one launch."""
    names = " ".join(["send(1,x)"] * many), " ".join(["recv(0,x) wait(x)"] * many)
    assert not judge(
        plain("ZERO", stages=[0] * (many // 10), mbs=20000),
        {"claim": "invalid", "model": "pair", "fault": {"code": "IL401", "rows": []}},
    ).accepted
    for order in (
        " | ".join(names),
        "{" + names[0] + "} | " + " ".join(["recv(0,x)"] * many + ["wait(x)"] * many),
        "ZERO " * many + "STEP " * many + " 0B0 " * many,
    ):
        program = plain(order, stages=[0], fragment=True)
        judge_all(
            program,
            [
                {
                    "claim": "valid",
                    "model": model,
                    "times": [0] * program["order"]["start"][-1],
                    "launches": {"0": [0, 0]} if "{" in order else {},
                }
                for model in ("pair", "edge")
            ]
            + [
                {
                    "claim": "invalid",
                    "model": "pair",
                    "walk": [[["op", 0], "order", ["op", 1]], [["op", 1], "order", ["op", 0]]],
                },
                {"claim": "invalid", "model": "pair", "fault": {"code": "IL999", "rows": []}},
            ],
        )
    program = plain(
        "{" + names[0] + "} " + "wait(x) " * many + "| " + "recv(0,x) wait(x) " * many,
        stages=[0],
        fragment=True,
    )
    walk = [
        step
        for row in range(many)
        for step in ([["end", 0], "consume", ["op", many + row]], [["op", many + row], "order", ["end", 0]])
    ]
    assert not judge(program, {"claim": "invalid", "model": "edge", "walk": walk}).accepted


def test_work_is_bounded_by_the_input():
    judge_many(20_000)
    assert grows_linearly(judge_many, 500)


def test_no_product_of_two_lengths():
    """A tie of many stages on many ranks; many ties of one name; many bits of one stage: in linear time."""
    many = 2000
    tied = plain(
        " | ".join(["tie(x)"] * many),
        stages=[[0]] * many,
        trainable="0" * many,
        mbs=1,
        ties=[("x", list(range(many)), 0)],
        fragment=True,
    )
    assert judge(tied, {"claim": "valid", "model": "buffered", "times": [0] * many}).accepted
    assert (
        "one name"
        in judge(
            plain("tie(x)", stages=[[0]], ties=[("x", [0], 0)] * 2), {"claim": "peak", "peaks": [0]}
        ).reason
    )
    deep = plain("0F0 0B0", stages=1, inserted=True)
    deep["layers"], deep["stages"][0]["layers"] = deep["layers"] * (many * 20), [0, many * 20]
    assert judge(deep, claim(deep) | {"claim": "invariant", "bits": list(range(many * 20))}).accepted


def test_constant_columns():
    program = one_f_one_b(2, 2)
    valid = claim(program)
    for column, value in (("peer", -1), ("name", -1), ("comm", 0), ("launch", -1)):
        program["order"][column] = value
    assert judge(json.loads(json.dumps(program)), json.loads(json.dumps(valid))).accepted
