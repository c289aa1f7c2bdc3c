"""The SMT engine against the graph engine, the rules and enumeration."""

from dataclasses import replace
from itertools import combinations
from random import Random

import pytest
import z3

from agreement.generate import make_program, make_schedule
from agreement.lists import list_operations, replace_operations
from engine.programs import frozen_to, pipeline
from interlock.engine import graph, smt
from interlock.engine.smt import invariance as smt_invariance
from interlock.engine.smt.gates import GATES
from interlock.engine.smt.query import Sat, Unsat
from interlock.engine.smt.z3_solver import Session
from interlock.kernel.judge import judge
from interlock.program.build import OrderBuilder
from interlock.program.facts import Facts
from interlock.program.footprint import with_trainable
from interlock.program.ir import Communicator, Kind, Program, Tie
from interlock.program.plain import plain_form
from interlock.program.transfers import insert
from interlock.rules import communication, dependency, footprint
from interlock.rules.waits import MODELS, wait_graph

PRESENCE = {"IL308", "IL601", "IL602", "IL605"}


def errors(program: Program) -> set[str]:
    """What the rules and the graph engine say, under every model; idle weight work is an error here."""
    facts = Facts(program)
    transfers = communication.Transfers(facts)
    findings = [*dependency.check(facts), *footprint.check(facts)]
    if not program.inserted:
        findings += communication.check(facts, transfers)
    found = {f.code for f in findings if f.is_error or f.code == "IL603"}
    return found or {m for m in MODELS if not graph.solve(wait_graph(facts, transfers, m)).acyclic}


def enumerated(trained: Program, layers) -> int | None:
    """The least number of frozen layers that fails, one freezing after the other; None: no freezing does."""
    try:
        written = insert(trained)
    except ValueError:
        return 0
    for number in range(len(layers) + 1):
        for frozen in combinations(layers, number):
            if errors(frozen_to(written, frozen)) or errors(frozen_to(trained, frozen)):
                return number
    return None


def waits_of(program: Program, model="pair"):
    facts = Facts(program)
    return wait_graph(facts, communication.Transfers(facts), model)


def answer_of(text: str) -> str:
    """What a fresh solver says to a file."""
    solver = z3.Solver()
    solver.from_string(text)
    return str(solver.check())


def crossed() -> Program:
    """Naive 1F1B: rank 0 sends 0F1 before it receives the gradient of 0F0, rank 1 the other way round."""
    base, order = pipeline(2, 2), OrderBuilder()
    K = Kind
    for ops in (
        [
            (K.F, 0, 0),
            (K.SEND_F, 0, 0),
            (K.F, 0, 1),
            (K.SEND_F, 0, 1),
            (K.RECV_B, 0, 0),
            (K.B, 0, 0),
            (K.RECV_B, 0, 1),
            (K.B, 0, 1),
        ],
        [
            (K.RECV_F, 1, 0),
            (K.F, 1, 0),
            (K.B, 1, 0),
            (K.SEND_B, 1, 0),
            (K.RECV_F, 1, 1),
            (K.F, 1, 1),
            (K.B, 1, 1),
            (K.SEND_B, 1, 1),
        ],
    ):
        for kind, stage, mb in ops:
            order.op(kind, stage, mb)
        order.op(K.REDUCE, stage)
        order.end_rank()
    return base.with_order(order.build(), inserted=False, reductions_inserted=False)


def test_dep_times_are_a_certificate():
    program = insert(pipeline(3, 4))
    for model in MODELS:
        solution = smt.solve(waits_of(program, model))
        assert solution.acyclic
        claim = {
            "claim": "valid",
            "model": model,
            "times": solution.time[: len(program.order)].tolist(),
            "launches": {},
        }
        assert judge(plain_form(program), claim).accepted


def test_dep_walk_is_a_certificate():
    program = crossed()
    assert smt.solve(waits_of(program, "edge")).acyclic
    solution = smt.solve(waits_of(program, "pair"))
    assert not solution.acyclic and not solution.shortest
    walk = [[list(a), reason, list(b)] for a, reason, b in solution.walk]
    assert judge(plain_form(program), {"claim": "invalid", "model": "pair", "walk": walk}).accepted


def test_engines_agree_on_random_programs():
    for seed in range(60):
        program, _ = make_program(Random(seed))
        facts = Facts(program)
        transfers = communication.Transfers(facts)
        foot = smt.check_footprint(program)
        found = {f.code for f in [*dependency.check(facts), *footprint.check(facts)] if f.is_error} & PRESENCE
        assert (set() if isinstance(foot, smt.Agrees) else set(foot.codes)) == (
            set() if program.fragment else found
        ), seed
        for model in MODELS if not any(f.is_error for f in communication.check(facts, transfers)) else ():
            waits = wait_graph(facts, transfers, model)
            solution = smt.solve(waits)
            assert solution.acyclic == graph.solve(waits).acyclic, (seed, model)
            assert not solution.acyclic or (solution.time[waits.src] < solution.time[waits.dst]).all()


@pytest.mark.parametrize("gpipe", [False, True])
@pytest.mark.parametrize("extra", [{}, {"encoder": True}, {"encoder": True, "text_only": (1,)}, {"depth": 2}])
def test_invariance_of_derived_schedules(gpipe, extra):
    program = pipeline(2 if "depth" in extra else 3, 3, gpipe=gpipe, **extra)
    layers = range(min(4, len(program.layers)))
    assert smt.check_freezings(program, layers) == smt.Holds(1)
    assert enumerated(program, layers) is None


def test_invariance_agrees_with_enumeration():
    """Random schedules, some with an operation lost or moved, some with layers that are frozen throughout."""
    held = 0
    for seed in range(80):
        rng = Random(seed)
        program = make_schedule(rng)
        if seed % 3 == 0:
            program = frozen_to(program, {i for i in range(len(program.layers)) if rng.random() < 0.3})
        lists = list_operations(program)
        if seed % 2 and (ops := rng.choice(lists)):
            moved = ops.pop(rng.randrange(len(ops)))
            if rng.random() < 0.5:
                ops.insert(rng.randint(0, len(ops)), moved)
            program = replace_operations(program, lists)
        trained = [i for i, l in enumerate(program.layers) if l.trainable]
        layers = rng.sample(trained, min(len(trained), 3))
        answer, expected = smt.check_freezings(program, layers), enumerated(program, layers)
        held += expected is None
        if expected is None:
            assert isinstance(answer, smt.Holds), seed
        else:
            assert (
                isinstance(answer, smt.Fails)
                and len(answer.bits) == expected
                and set(answer.bits) <= set(layers)
            ), seed
    assert 25 < held < 75


@pytest.mark.parametrize(
    "kind, span, frozen, code",
    [
        (Kind.SEND_B, lambda s: range(s.first + 1), 1, "IL401"),  # `<=` for `<`
        (Kind.WAIT_B, lambda s: range(s.first + 1), 1, "IL312"),
        (Kind.RECV_B, lambda s: range(s.first), 0, "IL401"),
        (Kind.B, lambda s: range(s.first), 0, "IL601"),
        (Kind.B, lambda s: range(s.last + 1), 1, "IL401"),
        (Kind.W, lambda s: range(s.last), 1, "IL308"),  # the W half where the gradient only passes through
        (Kind.REDUCE, lambda s: range(s.last), 1, "IL308"),
        (Kind.REDUCE, lambda s: range(s.first, s.last - 1), 0, "IL308"),
    ],
)
def test_a_wrong_gate_is_found(monkeypatch, kind, span, frozen, code):
    program = pipeline(3, 3)
    monkeypatch.setitem(GATES, kind, span)
    answer = smt.check_freezings(program, range(3))
    assert isinstance(answer, smt.Fails) and len(answer.bits) == frozen and answer.code == code
    assert all(0 <= row < len(answer.program.order) for row in answer.rows)


def test_a_wrong_footprint_is_found(monkeypatch):
    class Wrong(smt_invariance.FootprintTerms):
        def __init__(self, *args):
            super().__init__(*args)
            self.cross = self.back

    monkeypatch.setattr(smt_invariance, "FootprintTerms", Wrong)
    answer = smt.check_freezings(pipeline(3, 3), range(3))
    assert isinstance(answer, smt.Fails) and answer.code in ("IL401", "IL602")


def test_a_tie_is_reduced_while_one_of_its_stages_trains():
    program = replace(
        pipeline(3, 2),
        ties=(Tie("emb", (0, 2), 1),),
        names=("emb",),
        communicators=(Communicator("default", (0, 1, 2)), Communicator("emb", (0, 2))),
    )
    written = insert(program)
    assert smt.check_freezings(program, range(3)) == smt.Holds(1)
    for frozen in (s for n in range(4) for s in combinations(range(3), n)):
        assert smt.check_footprint(frozen_to(written, frozen)) == smt.Agrees(1)
    lone = list_operations(written)
    lone[2] = [x for x in lone[2] if x["kind"] != Kind.REDUCE_TIE]
    assert smt.check_footprint(replace_operations(written, lone)).codes == {"IL308"}


def test_bits_and_operations_of_a_failure():
    """0B1 is lost: the smallest freezing that fails is none, and says which operation."""
    program = pipeline(2, 2)
    lists = list_operations(program)
    lists[0] = [x for x in lists[0] if (x["kind"], x["mb"]) != (Kind.B, 1)]
    answer = smt.check_freezings(replace_operations(program, lists), [0, 1])
    assert (answer.bits, answer.code, answer.what) == ((), "IL601", "0B1 is missing")
    assert [answer.program.show(r) for r in answer.rows] == ["0F1"]


def test_an_order_that_is_no_certificate():
    lists = list_operations(pipeline(2, 2))
    lists[1][0], lists[1][1] = lists[1][1], lists[1][0]  # 1B0 before 1F0
    answer = smt.check_freezings(replace_operations(pipeline(2, 2), lists), [0])
    assert (answer.bits, answer.code) == ((), "IL307") and {"1F0", "1B0"} >= {
        answer.program.show(r) for r in answer.rows
    }
    lists = list_operations(pipeline(2, 2))
    lists[0].insert(0, lists[0].pop())  # 0B1 first of all
    assert smt.check_freezings(replace_operations(pipeline(2, 2), lists), [0]).code == "IL307"


def test_invariance_is_asked_of_trained_layers_of_whole_programs():
    program = pipeline(2, 2)
    with pytest.raises(ValueError, match="not a trained layer: 5"):
        smt.check_freezings(program, [5])
    with pytest.raises(ValueError, match="not a trained layer: 0"):
        smt.check_freezings(frozen_to(program, {0}), [0])
    for whole, model in ((insert(program), None), (replace(program, fragment=True), "pair")):
        with pytest.raises(
            ValueError, match="a complete program, under a model if its transfers are written"
        ):
            smt.check_freezings(whole, [0], model=model)


def test_groups_can_be_asked_apart():
    lists = list_operations(pipeline(2, 2))
    lists[1][0], lists[1][1] = lists[1][1], lists[1][0]
    session = Session(smt.build_invariance_query(replace_operations(pipeline(2, 2), lists), [0, 1]), 10_000)
    assert isinstance(session.check(["fails.dep"]), Sat)
    assert session.check(["fails.foot"]) == Unsat(("fails.foot",))


def test_the_query_does_not_grow_with_microbatches():
    small, large = (smt.build_invariance_query(pipeline(4, m), range(4)) for m in (8, 800))
    assert {g: len(t) for g, t in small.groups.items()} == {g: len(t) for g, t in large.groups.items()}


def test_out_of_time_is_unknown():
    waits = waits_of(pipeline(2, 2))
    for answer in (
        smt.solve(waits, timeout_ms=0),
        smt.check_freezings(pipeline(2, 2), [0], timeout_ms=0),
        smt.check_footprint(insert(pipeline(2, 2)), timeout_ms=0),
    ):
        assert isinstance(answer, smt.Unknown) and "0 ms" in answer.reason


def test_footprint_differences_name_operations():
    program = frozen_to(insert(pipeline(3, 2)), {0})
    assert smt.check_footprint(program) == smt.Agrees(1)
    frozen = replace(program, layers=with_trainable(program.layers, [False, False, True]))
    answer = smt.check_footprint(frozen)
    assert answer.codes == {"IL602", "IL308"}
    assert "1B0 must not exist" in {d.what for d in answer.differences}


def test_emitted_text_is_what_was_decided(monkeypatch):
    program = pipeline(3, 2)
    invariance = smt.emit(smt.build_invariance_query(program, range(3)))
    assert answer_of(invariance) == "unsat"
    for group in ("dep", "foot"):
        assert f"; group {group}" in invariance and f":named {group}.0)" in invariance
    monkeypatch.setitem(GATES, Kind.SEND_B, lambda s: range(s.first + 1))
    assert answer_of(smt.emit(smt.build_invariance_query(program, range(3)))) == "sat"
    assert answer_of(smt.emit(smt.build_footprint_query(insert(program)))) == "unsat"
    assert answer_of(smt.emit(smt.build_dependency_query(waits_of(program)))) == "sat"
    assert answer_of(smt.emit(smt.build_dependency_query(waits_of(crossed(), "pair")))) == "unsat"
