"""Deadlocks told, repaired and drawn. The pictures as they are printed: tests/report/golden."""

import re

import pytest

from interlock.engine.graph import solve
from interlock.program.facts import Facts
from interlock.program.ir import Kind
from interlock.program.plain import plain_form
from interlock.rules.communication import Transfers
from interlock.rules.waits import MODELS, wait_graph
from interlock.witness import executor
from interlock.witness.lines import picture
from interlock.witness.story import deadlock
from interlock.witness.walk import legs
from report.sample import COMPUTE, LAUNCHES, RING, TWO_RANKS, VEE, sample, schedule

COLLECTIVES = schedule("collectives", "0F0 coll(a, x) coll(b, y)", "1F0 coll(b, y) coll(a, x)")
TIED = dict(comms=(("a", (0, 1)), ("b", (0, 1))), fragment=True)


def told(source, model, **options):
    program, _ = sample(source, **options)
    facts = Facts(program)
    solution = solve(wait_graph(facts, Transfers(facts), model))
    return program, deadlock(facts, model, solution.walk, solution.shortest)


def marks(program, finding):
    return [(program.show(m.row), m.label) for m in finding.marks]


def test_two_ranks():
    program, finding = told(TWO_RANKS, "pair")
    assert (finding.code, finding.rule) == ("IL402", "R-COM-3")
    assert finding.message == "deadlock under `pair`: ranks 0 and 1 wait for each other"
    assert marks(program, finding) == [
        ("0SEND_F1", "rank 0 sends 0F1; rank 1 receives it only after"),
        ("1SEND_B0", "this, which rank 0 receives only after its own send"),
        ("0RECV_B0", "rank 1 waits for this"),
        ("1RECV_F1", "rank 0 waits for this"),
    ]
    assert finding.data["story"] == [
        "rank 0: 0SEND_F1 ends only when rank 1 receives it in 1RECV_F1",
        "rank 1: 1RECV_F1 is behind 1SEND_B0 in the queue of ranks 0 and 1",
        "rank 1: 1SEND_B0 ends only when rank 0 receives it in 0RECV_B0",
        "rank 0: 0RECV_B0 is behind 0SEND_F1 in the queue of ranks 0 and 1",
    ]
    assert finding.help == (
        "put 0RECV_B0 before 0SEND_F1 on rank 0 (and likewise at 1 more place), or put each of these pairs "
        "in one launch { }: "
        "0SEND_F1 and 0RECV_B0; 1SEND_B0 and 1RECV_F1 (and likewise at 1 more place)"
    )


def test_the_repairs_proposed_are_repairs():
    """Both of the changes proposed for TWO_RANKS, made by hand."""
    moved, grouped = TWO_RANKS, TWO_RANKS
    for m in (0, 1):
        moved = moved.replace(f"0SEND_F{m + 1} 0RECV_B{m}", f"0RECV_B{m} 0SEND_F{m + 1}").replace(
            f"0F2 0RECV_B{m}", f"0F2 0RECV_B{m}"
        )
        grouped = grouped.replace(f"0SEND_F{m + 1} 0RECV_B{m}", f"{{ 0SEND_F{m + 1} 0RECV_B{m} }}")
        grouped = grouped.replace(f"1SEND_B{m} 1RECV_F{m + 1}", f"{{ 1SEND_B{m} 1RECV_F{m + 1} }}")
    for source in (moved, grouped):
        facts = Facts(sample(source)[0])
        assert solve(wait_graph(facts, Transfers(facts), "pair")).acyclic
        assert executor.run(plain_form(facts.program), "pair").finished


def test_three_ranks_in_a_circle():
    program, finding = told(RING, "rank", fragment=True)
    assert finding.message == "deadlock under `rank`: ranks 0, 1 and 2 wait in a circle"
    assert marks(program, finding)[0] == (
        "send(1, a)",
        "this cannot end: rank 1 receives it only after send(2, b)",
    )
    assert "in the one queue of rank 1" in finding.data["story"][1]


def test_one_thing_at_a_time():
    _, finding = told(RING, "blocking", fragment=True)
    assert (
        "rank 1: recv(0, a) starts only when send(2, b) has ended: one operation at a time"
        in finding.data["story"]
    )


def test_compute_is_told_the_same_under_every_model():
    for model in MODELS:
        program, finding = told(COMPUTE, model, inserted=True)
        assert (finding.code, finding.rule) == ("IL307", "R-DEP-6")
        assert finding.message == "a cyclic wait across ranks 0 and 1, under every model"
        assert marks(program, finding)[0] == (
            "0B0",
            "this cannot start: it needs 1B0, which rank 1 runs only after 1F1",
        )
        assert finding.help == "run 0F1 before 0B0 on rank 0"


def test_a_launch_is_named_by_what_is_in_it():
    _, finding = told(LAUNCHES, "edge")
    story = "\n".join(finding.data["story"])
    assert "1SEND_F1 is behind the launch { 1SEND_F0 1RECV_B0 } in the queue from rank 1 to rank 2" in story
    assert "the launch { 1SEND_F0 1RECV_B0 } ends only when all of it has, 1RECV_B0 among it" in story
    assert finding.help == "run 2B0 before 2F1 on rank 2"


def test_a_seam_is_given_its_own_communicator():
    _, finding = told(VEE, "pair", place=[0, 1, 1, 0])
    assert (
        "give the transfers between stages 2 and 3 a communicator of their own (3RECV_F0@seam)"
        in finding.help
    )


def test_collectives_that_cross():
    program, finding = told(COLLECTIVES, "blocking", **TIED)
    assert finding.message.endswith("ranks 0 and 1 wait for each other")
    assert "rank 0: coll(a, x) ends only when rank 1 enters it too" in finding.data["story"]
    assert "put coll(b, y) before coll(a, x) on rank 0" in finding.help


def test_receives_that_cross_under_buffered():
    source = schedule("receives", "recv(1, b) send(1, a) wait(b)", "recv(0, a) wait(a) send(0, b)")
    source = source.replace("recv(1, b) send(1, a) wait(b)", "recv(1, b) wait(b) send(1, a)")
    program, finding = told(source, "buffered", fragment=True)
    assert "rank 0: recv(1, b) ends only when rank 1 sends send(0, b)" in finding.data["story"]
    assert "rank 0: wait(b) waits for the end of recv(1, b)" in finding.data["story"]


@pytest.mark.parametrize(
    "source, options",
    [
        (TWO_RANKS, {}),
        (LAUNCHES, {}),
        (RING, {"fragment": True}),
        (VEE, {"place": [0, 1, 1, 0]}),
        (COLLECTIVES, TIED),
        (COMPUTE, {"inserted": True}),
    ],
)
@pytest.mark.parametrize("model", MODELS)
def test_what_holds_of_every_story(source, options, model):
    program, _ = sample(source, **options)
    facts = Facts(program)
    solution = solve(wait_graph(facts, Transfers(facts), model))
    if solution.acyclic:
        return
    finding = deadlock(facts, model, solution.walk, solution.shortest)
    circle = legs(program, solution.walk)
    assert circle[0].rank == min(leg.rank for leg in circle)
    steps = [s for leg in circle for s in leg.steps]
    assert len(steps) + len(circle) == len(solution.walk)  # each wait is in a leg or leads to the next
    done = executor.run(plain_form(program), model).done
    assert not {row for leg in circle for row in (leg.stop, leg.owed)} & set(done)
    assert not any(re.search(r"\b(start|end|event) \d", line) for line in finding.data["story"])
    for width in (64, 80, 200):
        lines = picture(program, done, solution.walk, width)
        assert max(map(len, lines)) <= width
        for leg in circle:
            line = next(l for l in lines if l.startswith(f"rank {leg.rank}"))
            assert f"[{program.show(leg.stop)}]" in line and f"[{program.show(leg.owed)}]" in line


def test_a_picture_of_many_ranks_and_operations():
    ranks, before = 512, 200
    orders = []
    for r in range(ranks):
        left, right = (r - 1) % ranks, (r + 1) % ranks
        orders.append(
            " ".join(
                ["ZERO"] * before + [f"send({right}, a{r})", f"recv({left}, a{left})"] + ["ZERO"] * before
            )
        )
    program, finding = told(schedule("ring", *orders), "rank", fragment=True)
    assert finding.message == "deadlock under `rank`: 512 ranks (0, 1, 2, 3, ..., 511) wait in a circle"
    done = [r for r in range(len(program.order)) if program.order.kind[r] == Kind.ZERO]
    lines = picture(program, done, finding.walk, 80)
    assert len(lines) < 24 and max(map(len, lines)) <= 80
    assert "rank   0  ... ZERO ZERO ZERO ZERO ZERO | [send(1, a0)] [recv(511, a511)] ..." in lines
    assert "504 other ranks: in the circle" in lines and "... 504 more waits" in lines
    assert len(finding.marks) == 12


def test_what_others_do_is_counted():
    source = schedule(
        "three", "send(1, a) recv(1, b)", "send(0, b) recv(0, a) recv(3, c)", "ZERO", "send(1, c)"
    )
    program, finding = told(source, "rank", fragment=True)
    done = executor.run(plain_form(program), "rank").done
    assert "2 other ranks: 1 stopped too, 1 finished" in picture(program, done, finding.walk, 80)
