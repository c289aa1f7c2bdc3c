"""The wait graph of each model, closed walks accepted and rejected."""

import random

import pytest

from interlock.kernel import judge
from interlock.kernel.waits import MODELS

from .build import claim, graph_of, plain, waits_of

FRAGMENT = dict(stages=2, fragment=True)


def op(row):
    return ["op", row]


def accepted(program, model, *walk):
    return judge(program, {"claim": "invalid", "model": model, "walk": list(walk)}).accepted


def graph(program, model, *names):
    return sorted((a, b) for a, name, b in waits_of(graph_of(program, model)) if name in names)


@pytest.mark.parametrize(
    "order, hangs",
    [
        ("send(1,x) recv(1,y) | send(0,y) recv(0,x)", {"pair", "rank", "blocking"}),  # both send first
        ("send(1,x) recv(1,y) | recv(0,x) send(0,y)", set()),
        ("{send(1,x) recv(1,y)} | {send(0,y) recv(0,x)}", set()),
        ("{send(1,x)} {recv(1,y)} | {send(0,y)} {recv(0,x)}", {"pair", "rank", "blocking"}),
        ("send(1,x) send(1,y)@1 | recv(0,y)@1 recv(0,x)", {"blocking"}),  # communicators differ
        ("send(1,x) recv(2,z) | recv(0,x) send(2,y) | recv(1,y) send(0,z)", set()),
        ("recv(2,z) send(1,x) | recv(0,x) send(2,y) | recv(1,y) send(0,z)", {"rank", "blocking"}),  # a ring
        ("recv(1,y) wait(y) send(1,x) | recv(0,x) wait(x) send(0,y)", set(MODELS)),  # both wait first
        ("coll(c) send(1,x) | recv(0,x) coll(c)", {"rank", "blocking"}),
        ("coll(a)@1 coll(b) | coll(b) coll(a)@1", {"blocking"}),
        ("init@1 send(1,x) | recv(0,x) wait(x) init@1", set(MODELS)),
        ("{send(1,x) recv(1,y)} wait(y) | recv(0,x) wait(x) send(0,y)", set()),
    ],
)
def test_which_models_hang(order, hangs):
    program = plain(order, comms=[[0, 1]], **FRAGMENT)
    assert {model for model in MODELS if claim(program, model) is None} == hangs


def test_models_are_ordered_by_strength():
    program = plain(
        "0F0 {0SEND_F0 2RECV_F0} 2F0 0F1 0SEND_F1 2RECV_F1 2F1 | "
        "1RECV_F0 1F0 {1SEND_F0 1RECV_F1} 1F1 1SEND_F1",
        stages=[0, 1, 0],
        trainable="000",
    )
    hang = [claim(program, model) is None for model in MODELS]
    assert hang == sorted(hang)


def test_deadlock_walk():
    program = plain("send(1,x) recv(1,y) | send(0,y) recv(0,x)", **FRAGMENT)
    walk = [[op(0), "queue", op(1)], [op(1), "same", op(2)], [op(2), "queue", op(3)], [op(3), "same", op(0)]]
    assert accepted(program, "pair", *walk)
    assert not accepted(program, "edge", *walk)
    assert accepted(program, "blocking", *walk)
    assert accepted(program, "blocking", *[[a, name.replace("queue", "block"), b] for a, name, b in walk])
    assert not accepted(program, "pair", *walk[:-1])  # not closed
    assert not accepted(program, "pair", *walk[::-1])
    assert not accepted(program, "pair", *[[b, name, a] for a, name, b in walk[::-1]])  # against the waits
    assert not accepted(program, "pair", *[[a, "order", b] for a, name, b in walk])  # the names are wrong
    assert not accepted(program, "pair")
    assert not accepted(program, "pair", [op(1), "same", op(2)], [op(2), "same", op(1)])
    assert not accepted(program, "pair", [op(0), "queue", op(0)])
    assert not accepted(program, "queue", *walk)


def test_order_may_jump_and_data_may_not():
    program = plain("1F0 ZERO ZERO 0F0", stages=[0, 0], trainable="00", inserted=True)
    assert accepted(program, "rank", [op(0), "order", op(3)], [op(3), "data", op(0)])
    assert accepted(program, "rank", [op(0), "order", op(1)], [op(1), "order", op(3)], [op(3), "data", op(0)])
    assert not accepted(program, "rank", [op(3), "order", op(0)], [op(0), "order", op(3)])
    assert not accepted(program, "rank", [op(0), "data", op(3)], [op(3), "data", op(0)])
    assert not accepted(program, "rank", [op(0), "order", op(3)], [op(3), "order", op(0)])


def test_inserted_cycle_between_ranks():
    program = plain("2F0 0F0 | 1F0", stages=[0, 1, 0], trainable="000", inserted=True)
    assert all(claim(program, model) is None for model in MODELS)
    for model in MODELS:
        assert accepted(
            program, model, [op(0), "order", op(1)], [op(1), "data", op(2)], [op(2), "data", op(0)]
        )


def a_cycle(program, model):
    """A closed walk of the wait graph as a claim writes it, by depth-first search; None if there is none."""
    waits = graph_of(program, model)
    rows, launches = len(waits.order.kind), list(waits.order.grouped)
    after = {}
    for a, name, b in waits_of(waits):
        after.setdefault(a, []).append((name, b))
    for a, b in waits.find_shared_events():
        after.setdefault(a, []).append(("same", b))
        after.setdefault(b, []).append(("same", a))

    def event(e):
        return op(e) if e < rows else [("start", "end")[(e - rows) % 2], launches[(e - rows) // 2]]

    for first in after:
        paths, reached = [(first, [])], set()
        while paths:
            a, path = paths.pop(0)
            for name, b in after.get(a, ()):
                if b == first and any(n != "same" for _, n, _ in [*path, (a, name, b)]):
                    return [[event(x), n, event(y)] for x, n, y in [*path, (a, name, b)]]
                if (b, name == "same" and not path) not in reached:
                    reached.add((b, name == "same" and not path))
                    paths.append((b, [*path, (a, name, b)]))
    return None


def test_random_programs_have_times_or_a_walk():
    rng, counts = random.Random(3), [0, 0]
    for _ in range(150):
        ranks = [[], []]
        for n in range(5):
            comm, a = rng.choice(["", "@1"]), rng.randrange(2)
            for r, word in ((a, "send"), (1 - a, "recv")):
                ranks[r].insert(
                    rng.randint(0, len(ranks[r])),
                    f"{word}({1 - r},x{n}){comm} " + rng.choice(["", f"wait(x{n})"]),
                )
        order = " | ".join(
            " ".join("{ " + ops + " }" if rng.random() < 0.2 and "wait" not in ops else ops for ops in rank)
            for rank in ranks
        )
        program = plain(order, comms=[[0, 1]], **FRAGMENT)
        for model in MODELS:
            valid, walk = claim(program, model), a_cycle(program, model)
            assert (valid is None) == (walk is not None)
            counts[valid is None] += 1
            if walk:
                assert accepted(program, model, *walk)
                assert len(walk) == 1 or not accepted(program, model, *walk[:-1])
                for n, (a, name, b) in enumerate(walk):
                    assert not accepted(program, model, *walk[:n], [a, name + "x", b], *walk[n + 1 :])
    assert min(counts) > 100


def test_overlap_is_one_event():
    program = plain("0F0 {0F1 0B0} 0B1", stages=1, inserted=True)
    assert list(graph_of(program, "edge").find_shared_events()) == [(1, 2)]
    assert graph(program, "edge", "order") == [(0, 1), (1, 3), (2, 3)]
    assert accepted(
        plain("{1F0 0B1} {0F0 1B1}", stages=[0, 0], inserted=True),
        "edge",
        [op(0), "order", op(3)],
        [op(3), "same", op(2)],
        [op(2), "data", op(0)],
    )


def test_grouped_launch_has_a_start_and_an_end():
    program = plain("0F0 {0SEND_F0 0RECV_B1} 0F1 STEP | {1RECV_F0 1SEND_B1} 1F0 STEP", **FRAGMENT)
    start, end = 9, 10  # of the first launch
    assert graph(program, "edge", "member") == sorted(
        [(start, 1), (start, 2), (1, end), (2, end), (11, 5), (11, 6), (5, 12), (6, 12)]
    )
    assert graph(program, "edge", "after") == [(0, start)]
    assert graph(program, "edge", "step") == [(end, 4), (12, 8)]
    assert graph(program, "edge", "consume") == [(12, 7)]


def test_waits_of_named_transfers_and_jumps():
    program = plain(
        "send(1,x) wait(x) send(1,x) wait(x) STEP | recv(0,x) wait(x) recv(0,x) wait(x)", **FRAGMENT
    )
    assert graph(program, "edge", "consume") == [(0, 1), (2, 3), (5, 6), (7, 8)]
    waits = graph_of(program, "edge")
    assert (
        waits.covers("consume", 1, 3)
        and not waits.covers("consume", 3, 1)
        and not waits.covers("consume", 1, 6)
    )


def test_consumers_of_a_received_gradient():
    assert graph(plain("0RECV_B0 0I0 0W0 | 1SEND_B0", **FRAGMENT), "edge", "consume") == [(0, 1)]
    assert graph(plain("0RECV_B0 0W0 | 1SEND_B0", **FRAGMENT), "edge", "consume") == [(0, 1)]
    assert graph(plain("0SEND_F0 0WAIT_F0 | 1RECV_F0", **FRAGMENT), "edge", "consume") == [(0, 1)]


def test_launch_events_in_walks():
    program = plain("{send(1,x)} {recv(1,y)} | {send(0,y)} {recv(0,x)}", **FRAGMENT)
    s, e = lambda l: ["start", l], lambda l: ["end", l]
    walk = []
    for sent, received, l in ((0, 1, 0), (2, 3, 2)):
        walk += [
            [op(sent), "member", e(l)],
            [e(l), "queue", s(l + 1)],
            [s(l + 1), "member", op(received)],
            [op(received), "same", op((received + 1) % 4)],
        ]
    assert accepted(program, "pair", *walk)
    assert not accepted(program, "edge", *walk)
    assert not accepted(program, "pair", *walk[:1] + [[e(0), "queue", s(3)]] + walk[2:])
    assert accepted(program, "blocking", *[[a, name.replace("queue", "block"), b] for a, name, b in walk])


def test_collectives_share_an_event():
    program = plain("0F0 coll(c) 1F0 | coll(c) ZERO", stages=[0, 0], fragment=True)
    assert list(graph_of(program, "edge").find_shared_events()) == [(1, 3)]
    assert (
        accepted(
            plain("0F0 coll(c) | coll(c) 1F0 coll(d)@1", comms=[[1]], inserted=True, **FRAGMENT),
            "edge",
            [op(1), "same", op(2)],
            [op(2), "order", op(1)],
        )
        is False
    )
