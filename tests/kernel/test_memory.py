"""Peaks by hand (spec/memory.md)."""

import pytest

from interlock.kernel import Judge, judge
from interlock.kernel.memory import count_live_bytes, find_peaks

from .build import plain

MEMORY = {"capacity": [None], "gradient": [1, 1], "optimizer": [0, 1]}


def program(order, layer, **more):
    ranks = order.count("|") + 1
    stages = more.setdefault("stages", 1)
    return plain(
        order,
        layers={s: layer for s in range(stages if isinstance(stages, int) else len(stages))},
        memory=MEMORY | {"capacity": [None] * ranks},
        **more,
    )


def live(*args, **more):
    return live_rows(program(*args, **more))


def live_rows(p):
    """The bytes live at each row, of each rank."""
    return [at_rows for _, *at_rows in count_live_bytes(Judge(p).matched)]


def test_static_is_rounded_up_and_replicated_stages_are_everywhere():
    p = program("0F0 0B0 | 1F0 1B0", {"weights": 5}, stages=[[0], 1], trainable="10", fragment=True)
    p["memory"] |= {"gradient": [1, 2], "optimizer": [1, 3]}
    assert find_peaks(Judge(p).matched) == [5 + 3 + 2, 5 + 3 + 2 + 5]


def test_stash_until_x_and_until_w():
    layer = {"activation": [10, 0], "until_weight": [4, 0]}
    assert live("0F0 0F1 0I0 0I1 0W0 0W1 ZERO", layer) == [[10, 20, 20, 14, 8, 4, 0]]
    assert live("0F0 0F1 0B0 0B1 ZERO", layer) == [[10, 20, 20, 10, 0]]
    assert live("0F0 ZERO", layer, fragment=True) == [[10, 10]]  # neither: the rank's end
    assert live("0F0 0I0 ZERO", layer, fragment=True) == [[10, 10, 0]]  # no W: until X
    assert live("0F0 0B0", layer, trainable="0", fragment=True) == [[0, 0]]


def test_layers_before_the_first_trainable_one_stash_nothing():
    layer = {"activation": [10, 0], "until_weight": [4, 0]}
    p = program("0F0 0I0 ZERO 0W0", layer, trainable="0")
    p["layers"] = [p["layers"][0] | {"trainable": t} for t in (False, True, False)]
    p["stages"] = [{"region": "all", "layers": [0, 3], "rank": 0}]
    assert live_rows(p) == [[20, 20, 4, 4]]


def test_outputs_and_gradients_on_one_rank():
    """An output until the next F, its gradient from X of stage 1 to X of stage 0; the last has none."""
    assert live("0F0 ZERO 1F0 ZERO 1B0 ZERO 0B0", {"output": [3, 0]}, stages=2) == [[3, 3, 3, 0, 3, 3, 3]]


def test_a_gradient_for_a_stage_that_lists_nothing_lasts_to_the_end():
    assert live("1B0 ZERO", {"output": [3, 0]}, stages=2, fragment=True) == [[3, 3]]
    assert live("1B0 ZERO 0B0 ZERO", {"output": [3, 0]}, stages=2, fragment=True) == [[3, 3, 3, 0]]


def test_outputs_and_gradients_between_ranks():
    order = "0F0 0SEND_F0 0WAIT_F0 ZERO 0RECV_B0 0B0 ZERO | 1RECV_F0 1F0 1B0 1SEND_B0 1WAIT_B0 ZERO"
    assert live(order, {"output": [3, 0]}, stages=2) == [[3, 3, 3, 0, 3, 3, 0], [3, 3, 3, 3, 3, 0]]
    order = order.replace("0WAIT_F0 ", "").replace("1WAIT_B0 ", "")
    assert live(order, {"output": [3, 0]}, stages=2) == [[3, 3, 3, 6, 6, 3], [3, 3, 3, 3, 3]]


def chain(order, *layers, stages=((0, None),), trainable=None):
    """Bytes of stages of layers, each with `activation`, `until_weight`, `output`, `recompute`."""
    p = program(order, {}, stages=[0] * len(layers), trainable=trainable)
    p["layers"] = [
        l
        | {"activation": [a, 0], "until_weight": [w, 0], "output": [o, 0]}
        | ({"recompute": True} if again else {})
        for l, (a, w, o, again) in zip(p["layers"], layers)
    ]
    borders = [first for first, _ in stages] + [len(layers)]
    p["stages"] = [
        {"region": "all", "layers": [a, b], "rank": r or 0} for (a, r), b in zip(stages, borders[1:])
    ]
    return live_rows(p)


def test_recomputed_layers_are_live_from_x():
    again, kept = (10, 4, 3, True), (10, 4, 3, False)
    assert chain("0F0 0F1 0I0 0I1 0W0 0W1 ZERO", again) == [[0, 0, 10, 14, 8, 4, 0]]
    assert chain("0F0 ZERO 0B0 ZERO", again) == [[0, 0, 10, 0]]
    # the run of two keeps the output of the layer before it until X, the first layer all of its own
    assert chain("0F0 ZERO 0I0 ZERO 0W0 ZERO", kept, again, again) == [[13, 13, 33, 12, 12, 0]]
    # two runs, the first of which begins with data
    assert chain("0F0 ZERO 0B0 ZERO", again, kept, again) == [[13, 13, 33, 0]]


def test_a_recomputed_run_goes_by_its_last_layer():
    again, kept = (10, 4, 3, True), (10, 4, 3, False)
    frozen_first = chain("0F0 ZERO 0I0 0W0", kept, again, again, trainable="001")
    assert frozen_first == [[3, 3, 13, 4]]  # the input of the run, then the stash of its last layer
    assert chain("0F0 ZERO 0I0", again, again, kept, trainable="000") == [[0, 0, 0]]


def test_a_payload_is_kept_until_x_where_the_stage_begins_with_recomputed_layers():
    again, kept = (10, 4, 3, True), (10, 4, 3, False)
    order = "0F0 0SEND_F0 0WAIT_F0 0RECV_B0 0B0 | 1RECV_F0 1F0 ZERO 1B0 1SEND_B0 1WAIT_B0"
    two = ((0, 0), (1, 1))
    assert chain(order, kept, again, stages=two)[1] == [3, 3, 3, 16, 3, 3]  # payload, + stash and gradient
    assert chain(order, kept, kept, stages=two)[1] == [3, 13, 10, 13, 3, 3]
    one = ((0, 0), (1, 0))
    assert chain("0F0 1F0 ZERO 1B0 0B0", kept, again, stages=one) == [[13, 13, 13, 26, 13]]
    assert chain("0F0 1F0 ZERO 1B0 0B0", kept, kept, stages=one) == [[13, 23, 20, 23, 13]]


@pytest.mark.parametrize("value", [1, None, "true"])
def test_recompute_is_true_or_false(value):
    p = program("0F0 0B0", {"recompute": value})
    assert not judge(p, {"claim": "peak", "peaks": [0]}).accepted


def test_named_transfers_hold_nothing():
    assert live("send(1,x) 0F0 | recv(0,x)", {"activation": [10, 0]}, stages=[0], fragment=True) == [
        [0, 10],
        [0],
    ]


def test_workspace_images_and_overlaps():
    assert live("0F0 ZERO 0B0", {"workspace": [2, 3]}, images=[2]) == [[8, 0, 8]]
    assert live("0F0 {0F1 0B0} 0B1", {"workspace": [2, 0]}) == [[2, 4, 4, 2]]
    assert live("0F0 {0F1 0B0} ZERO 0B1", {"activation": [10, 0]}) == [[10, 20, 20, 10, 10]]


@pytest.mark.parametrize(
    "claimed, accepted",
    [([20], True), ([19], False), ([20, 0], False), ([True], False), ([20.0], False), (None, False)],
)
def test_peak_claims(claimed, accepted):
    p = program("0F0 0F1 0B0 0B1", {"activation": [10, 0]})
    assert judge(p, {"claim": "peak", "peaks": claimed}).accepted == accepted
    assert not judge(p | {"memory": None}, {"claim": "peak", "peaks": claimed}).accepted
    assert not judge(p | {"transfers": "inserted"}, {"claim": "peak", "peaks": claimed}).accepted
