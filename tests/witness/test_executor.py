"""The executor against programs whose fate is known, and against itself: order of firing, strength of the
models.
"""

import random
import re

import pytest

from interlock.witness.executor import MODELS, replay, run, verdict
from interlock.witness.executor.world import World
from witness.build import build, layer, one_f_one_b

FROZEN = layer(trainable=False)


def codes(program, model="edge"):
    return {problem.code for problem in run(program, model).problems}


def two(zero="0F0 0SEND_F0 0RECV_B0 0B0", one="1RECV_F0 1F0 1B0 1SEND_B0", **options):
    """Two ranks, one microbatch, written transfers."""
    return build(zero, one, **options)


def inserted(*orders, **options):
    return build(*orders, inserted=True, **options)


def fragment(*orders, **options):
    return build(*orders, place=options.pop("place", [0]), fragment=True, **options)


def reduced(*orders, **options):
    return build(*orders, inserted=True, reductions=True, **options)


ON_BOTH = [[0], 0]  # a Replicated stage owned by rank 0, then a Sharded one there
TIE = dict(comms={"t": [0, 1]}, ties=[("emb", [0, 1], "t")])
INITS = dict(comms={"c": [0, 1], "d": [0, 1]})
SMALL = dict(layers=[layer(activation=10), layer(activation=10)])

# code, a program in which it is found, one in which nothing is; both under `edge` unless a model is named
TABLE = [
    ("IL301", inserted("0B0 0F0"), inserted("0F0 0B0")),
    ("IL301", inserted("overlap(0F0 0B0)"), inserted("0F0 overlap(0F1 0B0) 0B1")),
    ("IL301", inserted("0F0 0W0 0I0"), inserted("0F0 0I0 0W0")),
    ("IL301", inserted("0F0 0B0 0LOSS0"), inserted("0F0 0LOSS0 0B0")),
    ("IL302", inserted("0F0 0B0", "1B0"), inserted("0F0 0B0", "1F0 1B0")),
    ("IL302", inserted("0F0 0B0 0F1 0LOSS1 0B1"), inserted("0F0 0LOSS0 0B0 0F1 0LOSS1 0B1")),
    ("IL302", inserted("0F0 0LOSS0 0B0", "1F0 1LOSS0 1B0"), inserted("0F0 0B0", "1F0 1LOSS0 1B0")),
    ("IL303", fragment("0F0 0F0"), fragment("0F0 0F1")),
    ("IL304", fragment("", "0F0"), fragment("0F0", "")),
    ("IL304", fragment("0F0 0F1", "", place=[[0, 1]]), fragment("0F0", "0F1", place=[[0, 1]])),
    ("IL305", fragment("0F0 0B0 0I0"), fragment("0F0 0I0 0W0")),
    ("IL305", inserted("0F0 0W0"), inserted("0F0 0B0")),
    ("IL306", fragment("0F0 0F3", mbs=2), fragment("0F0 0F1", mbs=2)),
    (
        "IL306",
        inserted(
            "0F0 0B0 0F1", "1F0 1B0 1F1 1B1", layers=[layer(modality="v"), layer()], modalities={"v": [0]}
        ),
        inserted("0F0 0B0", "1F0 1B0 1F1 1B1", layers=[layer(modality="v"), layer()], modalities={"v": [0]}),
    ),
    (
        "IL307",
        inserted("0F0 coll(default, x) 0F1 0B1 0B0", "1F1 1B1 coll(default, x) 1F0 1B0"),
        inserted("0F0 0F1 coll(default, x) 0B1 0B0", "1F1 1B1 coll(default, x) 1F0 1B0"),
    ),
    ("IL308", reduced("0F0 0B0"), reduced("0F0 0B0 0REDUCE")),
    ("IL308", reduced("0F0 0B0 0REDUCE 0REDUCE"), reduced("0F0 0B0 0REDUCE")),
    ("IL308", reduced("0F0 0REDUCE", layers=[FROZEN]), reduced("0F0", layers=[FROZEN])),
    (
        "IL308",
        reduced("0F0 0REDUCE", layers=[FROZEN]),
        reduced("0F0 0REDUCE", layers=[FROZEN], placeholders=True),
    ),
    (
        "IL308",
        reduced("0F0 0B0 0REDUCE", "1F0 1B0 1REDUCE", **TIE),
        reduced("0F0 0B0 tie(emb)@t 0REDUCE", "1F0 1B0 tie(emb)@t 1REDUCE", **TIE),
    ),
    ("IL308", fragment("data(x) data(x)"), fragment("data(x) data(y)")),
    ("IL309", fragment("0F0 0I0 0REDUCE 0W0"), fragment("0F0 0I0 0W0 0REDUCE")),
    (
        "IL309",
        fragment("tie(emb)@t 0W0", "1W0 tie(emb)@t", place=[0, 1], **TIE),
        fragment("0W0 tie(emb)@t", "1W0 tie(emb)@t", place=[0, 1], **TIE),
    ),
    ("IL310", fragment("data(x) tie(x)"), fragment("tie(x) data(x)")),
    (
        "IL310",
        fragment("0REDUCE tie(emb)@t", "tie(emb)@t", place=[0, 1], **TIE),
        fragment("tie(emb)@t 0REDUCE", "tie(emb)@t", place=[0, 1], **TIE),
    ),
    ("IL311", fragment("STEP 0W0"), fragment("0W0 STEP")),
    ("IL311", fragment("STEP STEP"), fragment("STEP")),
    ("IL311", inserted("0F0 0B0 STEP", "1F0 1B0"), inserted("0F0 0B0 STEP", "1F0 1B0 STEP")),
    ("IL312", two(zero="0SEND_F0 0F0 0RECV_B0 0B0"), two()),
    ("IL312", two(one="1RECV_F0 1F0 1SEND_B0 1B0"), two()),
    ("IL312", two(one="1F0 1RECV_F0 1B0 1SEND_B0"), two()),
    ("IL312", two(zero="0F0 0SEND_F0 0B0 0RECV_B0"), two()),
    ("IL312", two(zero="0F0 0WAIT_F0 0SEND_F0 0RECV_B0 0B0"), two(zero="0F0 0SEND_F0 0WAIT_F0 0RECV_B0 0B0")),
    ("IL312", fragment("wait(x)"), fragment("send(1, x) wait(x)", "recv(0, x)")),
    ("IL313", fragment("0W0 ZERO STEP"), fragment("ZERO 0W0 STEP ZERO")),
    ("IL313", fragment("0B0 ZERO"), fragment("0I0 ZERO")),
    ("IL314", fragment("7REDUCE"), fragment("0REDUCE")),
    ("IL401", two(one="1F0 1B0 1SEND_B0"), two()),
    ("IL401", two(zero="0F0 0B0", one="1F0 1B0"), two()),
    (
        "IL401",
        fragment("send(1, a) send(1, b)", "recv(0, a)"),
        fragment("send(1, a) send(1, b)", "recv(0, a) recv(0, b)"),
    ),
    ("IL401", fragment("send(0, a)", ""), fragment("send(1, a)", "recv(0, a)")),
    (
        "IL401",
        build("0F0 0SEND_F0 1F0 1B0 0B0", place=[0, 0], fragment=True),
        build("0F0 1F0 1B0 0B0", place=[0, 0]),
    ),
    (
        "IL403",
        fragment("send(1, a) send(1, b)", "recv(0, b) recv(0, a)"),
        fragment("send(1, a) send(1, b)", "recv(0, a) recv(0, b)"),
    ),
    (
        "IL404",
        fragment("coll(default, x) coll(default, y)", "coll(default, y) coll(default, x)"),
        fragment("coll(default, x) coll(default, y)", "coll(default, x) coll(default, y)"),
    ),
    ("IL404", fragment("coll(default, x)", ""), fragment("coll(c, x)", "", comms={"c": [0]})),
    ("IL404", fragment("tie(x)", "coll(default, x)"), fragment("tie(x)", "tie(x)")),
    (
        "IL405",
        fragment("init(c) init(d)", "init(d) init(c)", **INITS),
        fragment("init(c) init(d)", "init(c) init(d)", **INITS),
    ),
    (
        "IL406",
        fragment("coll(c, x)", "coll(c, x)", comms={"c": [0]}),
        fragment("coll(c, x)", "coll(c, x)", comms={"c": [0, 1]}),
    ),
    (
        "IL406",
        fragment("send(1, x)@c", "recv(0, x)@c", comms={"c": [0]}),
        fragment("send(1, x)@c", "recv(0, x)@c", comms={"c": [0, 1]}),
    ),
    (
        "IL407",
        fragment("send(1, x) free(x)", "recv(0, x)"),
        fragment("send(1, x) wait(x) free(x)", "recv(0, x)"),
    ),
    (
        "IL407",
        fragment("send(1, x) recv(1, x)", "recv(0, x) wait(x) send(0, x)"),
        fragment("send(1, x) wait(x) recv(1, x)", "recv(0, x) wait(x) send(0, x)"),
    ),
    (
        "IL407",
        fragment("recv(1, x) send(1, x)", "send(0, x) wait(x) recv(0, x)"),
        fragment("recv(1, x) wait(x) send(1, x)", "send(0, x) wait(x) recv(0, x)"),
    ),
    (
        "IL407",
        fragment("send(1, x) send(1, y) recv(1, x)", "recv(0, x) recv(0, y) wait(x) send(0, x)"),
        fragment("{send(1, x) recv(1, x)}", "{send(0, x) recv(0, x)}"),
    ),
    (
        "IL408",
        (fragment("{send(1, x)}", "recv(0, x)"), "pair"),
        (fragment("{send(1, x)}", "{recv(0, x)}"), "pair"),
    ),
    (
        "IL408",
        (fragment("{send(1, x)}", "recv(0, x)"), "pair"),
        (fragment("{send(1, x)}", "recv(0, x)"), "rank"),
    ),
    (
        "IL501",
        two(memory={"capacity": [9, None], "gradient": [1, 1], "optimizer": [0, 1]}, **SMALL),
        two(memory={"capacity": [10, None], "gradient": [1, 1], "optimizer": [0, 1]}, **SMALL),
    ),
    ("IL601", inserted("0F0", "1F0 1B0"), inserted("0F0 0B0", "1F0 1B0")),
    ("IL601", inserted("0F0 0B0", "1F0 1I0"), inserted("0F0 0B0", "1F0 1I0", layers=[layer(), FROZEN])),
    (
        "IL602",
        inserted("0F0 0B0", "1F0 1B0", layers=[FROZEN, layer()]),
        inserted("0F0", "1F0 1B0", layers=[FROZEN, layer()]),
    ),
    (
        "IL602",
        inserted("0F0 0B0", "1F0 1B0", layers=[FROZEN, layer()]),
        inserted("0F0 0B0", "1F0 1B0", layers=[FROZEN, layer()], placeholders=True),
    ),
    (
        "IL602",
        two(zero="0F0 0SEND_F0 0RECV_B0", layers=[FROZEN, layer()]),
        two("0F0 0SEND_F0", "1RECV_F0 1F0 1B0", layers=[FROZEN, layer()]),
    ),
    (
        "IL605",
        reduced("0F0 1F0 1B0 0B0 0REDUCE 1REDUCE", "", place=ON_BOTH),
        reduced("0F0 1F0 1B0 0B0 0REDUCE 1REDUCE", "0REDUCE", place=ON_BOTH),
    ),
]


@pytest.mark.parametrize("code, bad, good", TABLE)
def test_code_is_found_where_it_is_and_nowhere_else(code, bad, good):
    bad, bad_model = bad if isinstance(bad, tuple) else (bad, "edge")
    good, good_model = good if isinstance(good, tuple) else (good, "edge")
    result, problems = verdict(bad, bad_model)
    assert (result, code in {p.code for p in problems}) == ("invalid", True)
    assert verdict(good, good_model) == ("valid", [])


@pytest.mark.parametrize(
    "code, bad",
    [
        (c, b)
        for c, b, _ in TABLE
        if c in ("IL303", "IL308", "IL310", "IL313", "IL314", "IL403", "IL405", "IL407")
    ],
)
def test_some_mistakes_are_exactly_one_problem(code, bad):
    assert codes(bad) == {code}


def outcome(program):
    """The models under which a program runs to its end."""
    return [model for model in MODELS if run(program, model).finished]


CROSSED = "recv({0}, {1}) wait({1}) send({0}, {2})"
SEPARATING = [
    # both ranks send first
    (["buffered", "edge"], ["send(1, a) recv(1, b)", "send(0, b) recv(0, a)"]),
    # the launch holds back what `edge` would still let go
    (
        ["buffered"],
        ["send(1, a) {send(1, b) recv(1, x)} recv(1, y)", "send(0, x) {send(0, y) recv(0, a)} recv(0, b)"],
    ),
    # ring of three, everyone sends first: no pair is opposed
    (
        ["buffered", "edge", "pair"],
        ["send(1, a) recv(2, c)", "send(2, b) recv(0, a)", "send(0, c) recv(1, b)"],
    ),
    # two communicators, used in opposite order
    (["buffered", "edge", "pair", "rank"], ["send(1, a) recv(1, b)@c", "send(0, b)@c recv(0, a)"]),
    # a collective and a transfer in opposite order
    (["buffered", "edge", "pair"], ["coll(default, x) send(1, a)", "recv(0, a) coll(default, x)"]),
    (["buffered", "edge", "pair", "rank"], ["coll(c, x) send(1, a)", "recv(0, a) coll(c, x)"]),
    # grouped, the same exchange is free of it
    (list(MODELS), ["{send(1, a) recv(1, b)}", "{send(0, b) recv(0, a)}"]),
    # a host that waits for what its peer only sends after its own wait
    ([], [CROSSED.format(1, "a", "b"), CROSSED.format(0, "b", "a")]),
    # each waits for its send to be received before it receives
    (["buffered"], ["send(1, a) wait(a) recv(1, b)", "send(0, b) wait(b) recv(0, a)"]),
    # a plain and a grouped transfer of one pair are in different queues under `pair`
    (["buffered", "edge", "pair"], ["send(1, a) {recv(1, b)}", "{send(0, b)} recv(0, a)"]),
    # the two ends of an INIT
    ([], ["init(c) send(1, a)", "recv(0, a) wait(a) init(c)"]),
]


@pytest.mark.parametrize("models, orders", SEPARATING)
def test_models_are_told_apart(models, orders):
    program = fragment(*orders, comms={"c": list(range(len(orders)))})
    assert outcome(program) == models
    for model in set(MODELS) - set(models):
        result = run(program, model)
        assert result.circular and result.stuck
        assert verdict(program, model)[0] == "invalid"


@pytest.mark.parametrize("grouped, models", [(True, list(MODELS)), (False, ["buffered", "edge"])])
def test_one_f_one_b(grouped, models):
    program = build(*one_f_one_b(4, 8, grouped=grouped))
    assert outcome(program) == models
    for model in models:
        result = run(program, model)
        assert (result.problems, result.wrong) == ([], [])


def test_swapped_sends_are_wrong_data_and_no_hang():
    zero = "0F0 0F1 0SEND_F1 0SEND_F0 0RECV_B0 0B0 0RECV_B1 0B1"
    one = "1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1"
    result = run(build(zero, one), "edge")
    assert result.finished
    f0, f1 = ("F", 0, 0), ("F", 0, 1)
    assert [(got, need) for _, got, need in result.wrong] == [(f1, f0), (f1, f0), (f0, f1), (f0, f1)]
    assert {p.code for p in result.problems} == {"IL403"}


def test_an_activation_is_not_a_gradient():
    """Two ranks, four stages: the next and the previous rank are the same peer."""
    zero = "0F0 0SEND_F0 2RECV_F0 2F0 2SEND_F0 2RECV_B0 2B0 2SEND_B0 0RECV_B0 0B0"
    one = "1RECV_F0 1F0 1SEND_F0 3RECV_F0 3F0 3B0 {} 1RECV_B0 1B0 {}"
    good = build(zero, one.format("3SEND_B0", "1SEND_B0"), place=[0, 1, 0, 1])
    assert verdict(good, "edge") == ("valid", [])
    bad = build(
        zero.replace("2RECV_F0 2F0 2SEND_F0 2RECV_B0", "2RECV_B0 2F0 2SEND_F0 2RECV_F0"),
        one.format("3SEND_B0", "1SEND_B0"),
        place=[0, 1, 0, 1],
    )
    assert "IL403" in codes(bad)


def test_peaks_of_one_f_one_b_are_the_warmup_depth():
    ranks = 4
    program = build(*one_f_one_b(ranks, 8), layers=[layer(activation=7)] * ranks)
    assert run(program, "pair").peaks == [7 * (ranks - r) for r in range(ranks)]


def test_peaks_by_hand():
    layers = [
        layer(weights=100, activation=10, until_weight=4, output=1),
        layer(weights=10, activation=20, until_weight=5, workspace=50),
    ]
    memory = {"capacity": [None, None], "gradient": [1, 2], "optimizer": [1, 3]}
    program = two(
        "0F0 0SEND_F0 0WAIT_F0 0RECV_B0 0I0 0W0",
        "1RECV_F0 1F0 1I0 1SEND_B0 1W0",
        layers=layers,
        memory=memory,
    )
    # rank 0: 100 + 50 + 34 and, at 0F0, the stash and the output; at 0I0 the stash and the received gradient
    # rank 1: 10 + 5 + 4 and, at 1I0, the stash, the sent gradient and the workspace
    assert run(program, "edge").peaks == [184 + 10 + 1, 19 + 20 + 1 + 50]


def test_until_weight_outlives_the_input_half():
    layers = [layer(activation=10, until_weight=4)]
    split = build("0F0 0I0 0F1 0I1 0W0 0W1", layers=layers)
    assert run(split, "edge").peaks == [14]
    whole = build("0F0 0F1 0B0 0B1", layers=layers)
    assert run(whole, "edge").peaks == [20]


def test_halves_of_an_overlap_are_live_together():
    program = build("0F0 overlap(0F1 0B0) 0B1", layers=[layer(activation=10, workspace=3)])
    assert run(program, "edge").peaks == [26]


def test_inserted_programs_have_no_peaks_yet():
    assert run(inserted("0F0 0B0", layers=[layer(activation=5)]), "edge").peaks == []


def test_frozen_encoder_has_no_backward_and_no_stash():
    layers = [layer(trainable=False, activation=9), layer(activation=9), layer(trainable=False, activation=9)]
    orders = ("0F0 0SEND_F0", "1RECV_F0 1F0 1SEND_F0 1RECV_B0 1B0", "2RECV_F0 2F0 2I0 2SEND_B0")
    result = run(build(*orders, layers=layers), "blocking")
    assert (result.finished, result.problems) == (True, [])
    assert result.peaks == [0, 9, 9]
    more = (orders[0] + " 0RECV_B0 0B0", orders[1] + " 1SEND_B0", orders[2])
    assert {"IL602"} <= codes(build(*more, layers=layers))
    assert codes(build(*more, layers=layers, placeholders=True)) == set()


def test_text_only_microbatches_go_round_the_encoder():
    layers = [layer(), layer(modality="vision"), layer()]
    options = dict(layers=layers, modalities={"vision": [0]}, images=[1, 0])
    zero = "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1"
    one = "1RECV_F0 1F0 1SEND_F0 1RECV_B0 1B0 1SEND_B0"
    head = "2RECV_F1 2F1 2B1 2SEND_B1 2RECV_F0 2F0 2B0 2SEND_B0"
    assert verdict(build(zero, one, head, **options), "blocking")[0] == "invalid"  # rank 0 hands 1 over first
    assert verdict(build(zero, one, head, **options), "edge") == ("valid", [])
    assert {"IL306"} <= codes(build(zero, one + " 1F1", head, **options))


def test_replicated_stage_runs_where_its_owner_is():
    good = inserted("0F0 1F0 1B0 0B0 1F1 1B1", "0F1 0B1", place=[[0, 1], 0])
    assert verdict(good, "pair") == ("valid", [])
    assert "IL304" in codes(inserted("0F0 1F0 1B0 0B0 0F1 1F1 1B1 0B1", "", place=[[0, 1], 0]))


def test_stuck_says_what_each_rank_waits_for():
    result = run(fragment("send(1, a) recv(1, b)", "send(0, b) recv(0, a)"), "pair")
    assert result.done == frozenset()
    assert result.stuck == {
        0: [
            (0, "SEND(a) waits for RECV(a), which has not started, on rank 1"),
            (1, "RECV(b) waits for its turn in a queue of rank 0 (pair) behind SEND(a)"),
        ],
        1: [
            (2, "SEND(b) waits for RECV(b), which has not started, on rank 0"),
            (3, "RECV(a) waits for its turn in a queue of rank 1 (pair) behind SEND(b)"),
        ],
    }


def test_a_missing_partner_hangs_and_is_no_circle():
    result = run(build("0F0 0SEND_F0", "1F0 1B0"), "edge")
    assert (result.finished, result.circular) == (False, False)
    assert result.stuck == {0: [(1, "0SEND_F0 waits for a partner, which is not listed, on rank 1")]}


def test_replay_confirms_a_deadlock_and_refutes_none():
    program = fragment("send(1, a) recv(1, b)", "send(0, b) recv(0, a)")
    assert replay(program, "pair", [0, 1, 2, 3]).circular
    with pytest.raises(ValueError, match="row 0 ends"):
        replay(program, "edge", [0])


def test_malformed_programs_are_refused():
    for program in (build("overlap(0F0 0F1)"), inserted("send(1, a)", "")):
        with pytest.raises(ValueError):
            run(program, "edge")
    with pytest.raises(ValueError):
        run(build("0F0 0B0"), "nccl")


def random_program(rng):
    """A fragment: transfers among two to four ranks, some grouped, with waits, collectives and creations;
    often it hangs.
    """
    ranks = rng.randint(2, 4)
    orders = [[] for _ in range(ranks)]
    for number in range(rng.randint(2, 12)):
        at = f"@{rng.choice('cd')}" if rng.random() < 0.3 else ""
        what = rng.random()
        if what < 0.8:
            a, b = rng.sample(range(ranks), 2)
            orders[a].append(f"send({b}, x{number}){at}")
            orders[b].append(f"recv({a}, x{number}){at}")
            for rank in (a, b):
                if rng.random() < 0.3:
                    orders[rank].append(f"wait(x{number})")
        else:
            for order in orders:
                order.append(f"coll(c, y{number})" if what < 0.9 else "init(d)" if what < 0.95 else "STEP")
    for order in orders:
        for _ in range(rng.randint(0, 2)):
            if len(order) > 1:
                i = rng.randrange(len(order) - 1)
                order[i], order[i + 1] = order[i + 1], order[i]
        if rng.random() < 0.1 and order:
            order.pop(rng.randrange(len(order)))
    texts = []
    for order in orders:
        i, text = 0, []
        while i < len(order):
            j = i
            while j < len(order) and order[j].startswith(("send", "recv")) and j - i < 3:
                j += 1
            grouped = j > i and rng.random() < 0.4
            text.append("{" + " ".join(order[i:j]) + "}" if grouped else order[i])
            i = j if grouped else i + 1
        texts.append(" ".join(text))
    return fragment(*texts, comms={"c": list(range(ranks)), "d": list(range(ranks))})


def test_differentiation_is_the_closed_footprint():
    rng = random.Random(1)
    for _ in range(300):
        layers = [
            [layer(rng.random() < 0.3, rng.choice([None, None, "a", "v"])) for _ in range(rng.randint(1, 3))]
            for _ in range(rng.randint(1, 4))
        ]
        program = build(
            "", place=[0] * len(layers), layers=layers, mbs=4, modalities={"a": [0, 1], "v": [0, 2]}
        )
        world = World(program)
        for m in range(4):
            before = []  # trainable bits of the present layers of the earlier stages
            for s, own in enumerate(layers):
                here = [l["trainable"] for l in own if m in program["modalities"].get(l["modality"], [m])]
                assert (s in world.path[m]) == bool(here)
                if here:
                    work = world.work[m][s]
                    assert (work.cross, work.back, work.inputs, work.weights) == (
                        any(before),
                        any(before + here),
                        any(before + here[:-1]),
                        any(here),
                    )
                before += here


@pytest.mark.parametrize("start", range(0, 200, 20))
def test_every_order_of_firing_comes_to_the_same_end(start):
    for number in range(start, start + 20):
        program = random_program(random.Random(number))
        for model in MODELS:
            plain = run(program, model)
            for seed in range(3):
                other = run(program, model, seed=seed)
                assert (other.done, other.stuck, sorted(other.wrong)) == (
                    plain.done,
                    plain.stuck,
                    sorted(plain.wrong),
                ), (number, model, seed)


def mutants(orders, rng, count):
    """Orders with one operation deleted, doubled, moved or swapped with its neighbour, and what was done."""
    for _ in range(count):
        texts = [re.findall(r"\{[^}]*\}|\S+", order) for order in orders]
        text = rng.choice([t for t in texts if len(t) > 1])
        i, how = rng.randrange(1, len(text)), rng.choice(["delete", "double", "move", "swap"])
        token = text[i]
        if how == "delete":
            del text[i]
        elif how == "double":
            text.insert(rng.randrange(len(text) + 1), token)
        elif how == "move":
            text.insert(rng.randrange(len(text)), text.pop(i))
        else:
            text[i - 1], text[i] = text[i], text[i - 1]
        yield [" ".join(t) for t in texts], how, token


def test_mutants_of_one_f_one_b_end_alike_and_lose_no_operation_unseen():
    rng = random.Random(7)
    for orders, how, token in mutants(one_f_one_b(3, 4), rng, 120):
        program = build(*orders, mbs=4)
        done = []
        for model in MODELS:
            result = run(program, model)
            assert run(program, model, seed=5).done == result.done
            done.append(result.done)
            if how in ("delete", "double") and "WAIT" not in token:
                assert result.problems, (orders, how, token)
            if result.finished and not result.problems:
                assert result.wrong == [] and result.stuck == {}
        for weak, strong in zip(done, done[1:]):
            assert strong <= weak


def test_inserted_programs_depend_on_no_model_and_no_order():
    rng = random.Random(3)
    compute = [
        re.sub(r"\S*(SEND|RECV|WAIT)\S*|[{}]", "", order) + " coll(default,x)" for order in one_f_one_b(3, 4)
    ]
    fates = set()
    for orders, _, _ in mutants(compute, rng, 60):
        program = inserted(*orders, mbs=4)
        runs = [run(program, model, seed=seed) for model in MODELS for seed in (None, 1)]
        assert len({r.done for r in runs}) == 1
        fates.add((runs[0].finished, runs[0].circular))
        assert ("IL307" in {p.code for p in runs[0].problems}) == runs[0].circular
    assert fates == {(True, False), (False, True), (False, False)}


def test_a_constant_column_may_be_one_integer():
    program = inserted("0F0 0B0", "1F0 1B0")
    short = {
        k: v[0] if k in ("mb", "peer", "name", "comm", "launch") else v for k, v in program["order"].items()
    }
    assert run(program | {"order": short}, "edge") == run(program, "edge")


def test_a_stronger_model_gets_no_further():
    finished = {model: 0 for model in MODELS}
    for number in range(400):
        program = random_program(random.Random(number))
        done = [run(program, model).done for model in MODELS]
        for weak, strong in zip(done, done[1:]):
            assert strong <= weak, number
        for model, rows in zip(MODELS, done):
            finished[model] += len(rows) == program["order"]["start"][-1]
    assert (
        finished["buffered"]
        > finished["edge"]
        > finished["pair"]
        > finished["rank"]
        > finished["blocking"]
        > 20
    )


def test_wrong_data_of_a_finished_run_is_what_the_lists_say():
    wrong = 0
    for number in range(400):
        result = run(random_program(random.Random(number)), "buffered")
        if result.finished:
            assert not result.wrong or {"IL401", "IL403"} & {p.code for p in result.problems}, number
            assert result.wrong or "IL403" not in {p.code for p in result.problems}, number
            wrong += bool(result.wrong)
    assert wrong > 10


def test_five_thousand_operations():
    program = build(*one_f_one_b(8, 90), mbs=90)
    assert program["order"]["start"][-1] > 5000
    assert verdict(program, "pair") == ("valid", [])
