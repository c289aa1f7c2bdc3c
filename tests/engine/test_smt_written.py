"""Invariance over freezings of programs with written transfers: one query a model, against enumeration."""

from dataclasses import replace
from itertools import combinations
from random import Random

import pytest

from agreement.generate import make_schedule
from agreement.lists import list_operations, replace_operations
from agreement.mutants import stir
from algebra import judging
from emitted import queries_of
from engine.programs import frozen_to, pipeline
from engine.test_smt_memory import give_sizes
from interlock.check.certificates import certificates
from interlock.check.freezings import check_invariance
from interlock.check.program import check_program
from interlock.check.verdict import Verdict
from interlock.engine import graph, smt
from interlock.engine.smt import invariance as smt_invariance
from interlock.engine.smt.gates import GATES
from interlock.engine.smt.query import Sat, Unsat
from interlock.engine.smt.z3_solver import Session, decide_text
from interlock.load import Question
from interlock.program.facts import Facts
from interlock.program.ir import Kind
from interlock.program.transfers import insert
from interlock.rules import communication, dependency, footprint
from interlock.rules.usage import Usage
from interlock.rules.waits import MODELS, wait_graph

NOT_ASKED = {"IL311", "IL404"}  # of what a lost operation brings: rules/ asks it of the fully trained program
SHAPES = [
    dict(gpipe=g, **extra)
    for g in (False, True)
    for extra in ({}, {"encoder": True}, {"encoder": True, "text_only": (1,)}, {"depth": 2})
]


def errors(program, model: str) -> set[str]:
    facts = Facts(program)
    transfers = communication.Transfers(facts)
    found = {
        f.code
        for f in (*dependency.check(facts), *footprint.check(facts), *communication.check(facts, transfers))
        if f.is_error
    }
    return found or (set() if graph.solve(wait_graph(facts, transfers, model)).acyclic else {"IL402"})


def enumerated(program, layers, model: str) -> int | None:
    """The least number of frozen layers that fails, one freezing after the other; None: no freezing does."""
    for number in range(len(layers) + 1):
        for frozen in combinations(layers, number):
            if errors(frozen_to(program, frozen) if frozen else program, model):
                return number
    return None


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_inserted_transfers_written_out(shape):
    program = insert(pipeline(2 if "depth" in shape else 3, 3, **shape))
    layers = range(min(4, len(program.layers)))
    for model in MODELS:
        assert smt.check_freezings(program, layers, model=model) == smt.Holds(1)
        assert enumerated(program, layers, model) is None


def test_a_lost_operation():
    held = 0
    for seed in range(60):
        rng = Random(seed)
        program = stir(insert(make_schedule(rng)), rng)
        if any(errors(program, m) for m in MODELS[:2]):
            continue
        lists = list_operations(program)
        ops = rng.choice([ops for ops in lists if ops])
        if seed % 4:
            ops.pop(rng.randrange(len(ops)))
        program = replace_operations(program, lists)
        layers = rng.sample(range(len(program.layers)), min(len(program.layers), 3))
        model = rng.choice(MODELS)
        if {f.code for f in communication.collectives(Facts(program))} | errors(
            program, "buffered"
        ) & NOT_ASKED:
            continue
        answer, expected = (
            smt.check_freezings(replace(program, memory=None), layers, model=model),
            enumerated(program, layers, model),
        )
        held += expected is None
        if expected is None:
            assert isinstance(answer, smt.Holds), seed
        else:
            assert isinstance(answer, smt.Fails) and len(answer.bits) == expected, seed
    assert 5 < held < 45


@pytest.mark.parametrize(
    "kind, span, frozen, code",
    [
        (
            Kind.SEND_B,
            lambda s: range(s.first + 1),
            1,
            "IL401",
        ),  # `<=` for `<`: of three layers one choice tells
        (Kind.WAIT_B, lambda s: range(s.first + 1), 1, "IL312"),
        (Kind.RECV_B, lambda s: range(s.first), 0, "IL401"),
        (Kind.B, lambda s: range(s.first), 0, "IL601"),
        (Kind.REDUCE, lambda s: range(s.last), 1, "IL308"),
        (Kind.REDUCE, lambda s: range(s.first, s.last - 1), 0, "IL308"),
    ],
)
def test_a_wrong_gate_is_found(monkeypatch, kind, span, frozen, code):
    program = insert(pipeline(3, 3))
    monkeypatch.setitem(GATES, kind, span)
    answer = smt.check_freezings(program, range(3), model="rank")
    assert (
        isinstance(answer, smt.Fails)
        and len(answer.bits) == frozen
        and answer.code == code
        and answer.program is program
    )


ONE_OF_FOUR = """schedule s { ranks 2  microbatches 2  modality vision in microbatches 0
  model { layer a { modality vision }  layer b { }  layer c { } }
  place { rank 0: 0, 2  rank 1: 1 }
  order transfers written reductions inserted {
    rank 0: 0F0 0SEND_F0 2RECV_F0 2F0 2B0 2SEND_B0 2RECV_F1 2F1 2B1 2SEND_B1 0RECV_B0 0B0
    rank 1: 1RECV_F0 1F0 1SEND_F0 1RECV_B0 1B0 1F1 1SEND_F1 1SEND_B0 1RECV_B1 1B1
  } }"""


def test_a_deadlock_of_one_choice_of_bits_alone():
    """1SEND_B0 is there while a is trained, 2SEND_B1 while b is: then each rank sends before it receives."""
    program = judging.schedule(ONE_OF_FOUR).program
    assert [errors(frozen_to(program, frozen), "pair") for frozen in ((), (0,), (1,), (0, 1))] == [
        {"IL402"},
        set(),
        set(),
        set(),
    ]
    answer = smt.check_freezings(program, [0, 1], model="pair")
    assert (answer.bits, answer.code) == ((), "IL402")
    assert {"1SEND_B0", "2SEND_B1"} <= {program.show(r) for r in answer.rows}
    assert smt.check_freezings(program, [0, 1], model="edge") == smt.Holds(1)
    for frozen in ([0], [1]):
        assert smt.check_freezings(frozen_to(program, frozen), [1 - frozen[0]], model="pair") == smt.Holds(1)


def test_a_launch_is_there_while_one_of_its_members_is(monkeypatch):
    """A wrong time of a launch is found, of one with gradients alone only while they cross."""
    lists = list_operations(insert(pipeline(2, 2)))
    for ops in lists:
        for x in ops:
            if x["kind"] in (Kind.SEND_F, Kind.RECV_F, Kind.SEND_B, Kind.RECV_B):
                x["launch"] = object()
    program = replace_operations(insert(pipeline(2, 2)), lists)
    right = graph.solve

    def late(waits):
        solution = right(waits)
        time = solution.time.copy()
        g = list(waits.launches).index(program.order.launch[row])
        time[waits.n + 2 * g + 1] = -1
        return replace(solution, time=time)

    monkeypatch.setattr(smt_invariance.graph_engine, "solve", late)
    for kind, ever in ((Kind.SEND_F, True), (Kind.SEND_B, False)):
        row = int((program.order.kind == kind).nonzero()[0][0])
        query = smt.build_invariance_query(program, [0, 1], model="edge")
        session = Session(query, 10_000)
        assert isinstance(session.check(["fails.dep", "trainable.0"]), Sat)
        query.groups["chosen"] = ["(not trainable.0)"]
        assert isinstance(Session(query, 10_000).check(["fails.dep"]), Sat if ever else Unsat)


def test_bytes_are_asked_too():
    program = give_sizes(insert(pipeline(3, 3, encoder=True)), Random(2))
    peaks = Usage(Facts(program)).peaks
    layers = range(len(program.layers))
    assert smt.check_freezings(program, layers, model="pair", limits=peaks) == smt.Holds(1)
    for r in range(3):
        answer = smt.check_freezings(
            program, layers, model="pair", limits=[p - (q == r) for q, p in enumerate(peaks)]
        )
        assert isinstance(answer, smt.Fails) and answer.code == "IL501" and answer.bits == ()


def test_the_failing_freezing_is_shown(monkeypatch):
    """The answer is that of the program which the freezing leaves, here over a limit by the rules as well."""
    program = give_sizes(insert(pipeline(2, 2)), Random(3))
    [under] = check_program(program, ("pair",))
    peaks = Usage(Facts(program)).peaks
    assert check_invariance(program, [0, 1], under=under, peak=peaks).verdict is Verdict.VALID
    answer = check_invariance(program, [0, 1], under=under, peak=[p - 1 for p in peaks])
    assert (
        answer.verdict is Verdict.INVALID
        and [f.code for f in answer.errors] == ["IL606", "IL701"]
        and certificates(answer)
    )
    monkeypatch.setitem(GATES, Kind.SEND_B, lambda s: range(s.first + 1))
    answer = check_invariance(program, [0, 1], under=under)
    assert answer.verdict is Verdict.INVALID and [f.code for f in answer.errors] == ["IL606"]
    assert "with l0 frozen" in answer.errors[0].message and len(answer.program.order) < len(program.order)


def test_fragments_are_unknown():
    program = replace(pipeline(2, 2), fragment=True)
    answer = check_invariance(program, [0])
    assert answer.verdict is Verdict.UNKNOWN and "fragment" in answer.reason


def test_it_does_not_grow_with_the_microbatches():
    small, large = (
        smt.build_invariance_query(insert(pipeline(4, m)), range(4), model="rank").groups for m in (8, 800)
    )
    assert {g: len(t) for g, t in small.items()} == {g: len(t) for g, t in large.items()}


def test_what_is_emitted():
    text = """schedule s { ranks 2 microbatches 4 communicator seam = ranks 0..1
      model { layer vit { } layers llm[2] { } }
      cut { e = vit : transpose(gather: late, gather_on: seam, scatter_on: seam)  b = llm : 1f1b }
      for any freezing of vit, llm }"""
    found = {q.name: q.text for q in queries_of("a.sched", text.encode(), Question(models=("edge", "pair")))}
    assert (
        "(set-info :status unsat)" in found["s.invariance-edge"]
        and "under the model edge" in found["s.invariance-edge"]
    )
    assert decide_text(found["s.invariance-edge"]) == ["unsat"]
    assert found["s.invariance-pair"].endswith(
        "; not written: with all of these layers trained it is invalid\n"
    )
