"""cvc5 beside z3: the same text, the same answer."""

from random import Random

import pytest

from agreement.generate import make_program
from engine.programs import pipeline
from interlock.check.obligation import Disagreement
from interlock.check.program import check_program
from interlock.check.verdict import Verdict
from interlock.engine import smt
from interlock.engine.smt import cvc5_solver, z3_solver
from interlock.engine.smt.query import Contradiction, Query, Sat, Unknown, Unsat
from interlock.engine.smt.solvers import confirm, decide
from interlock.kernel.judge import judge
from interlock.program.facts import Facts
from interlock.program.plain import plain_form
from interlock.program.transfers import insert
from interlock.rules.communication import Transfers
from interlock.rules.waits import wait_graph

pytest.importorskip("cvc5")


def waits_of(program, model="pair"):
    facts = Facts(program)
    return wait_graph(facts, Transfers(facts), model)


def small() -> Query:
    query = Query("a small one", "QF_LIA")
    query.define_integer("size", "x", "7")
    query.define_boolean("ask", "large", "(> x 6)")
    return query


def test_answers_and_models():
    query = small()
    answer = cvc5_solver.decide(query, 5_000)
    assert isinstance(answer, Sat) and answer.value("x") == 7 and answer.value("large") is True
    query.add("ask", "(not large)")
    assert cvc5_solver.decide(query, 5_000) == Unsat()


def test_times_of_cvc5_are_a_certificate(monkeypatch):
    """Where z3 has no answer, cvc5's times are used, and the kernel judges them."""
    program = insert(pipeline(3, 3))
    monkeypatch.setattr(z3_solver.Session, "check", lambda self: Unknown("z3 gave up"))
    assert isinstance(smt.solve(waits_of(program)), Unknown)
    solution = smt.solve(waits_of(program), second=True)
    claim = {
        "claim": "valid",
        "model": "pair",
        "times": solution.time[: len(program.order)].tolist(),
        "launches": {},
    }
    assert judge(plain_form(program), claim).accepted


def test_an_unsat_of_cvc5_alone_is_no_answer():
    assert isinstance(confirm(contradictory(), Unknown("z3 gave up"), 5_000), Unknown)


def contradictory() -> Query:
    query = small()
    query.add("ask", "(not large)")
    return query


def test_a_contradiction_is_an_error(monkeypatch):
    with pytest.raises(Contradiction, match="z3 says unsat and cvc5 sat: a small one"):
        confirm(small(), Unsat(), 5_000)
    monkeypatch.setattr(cvc5_solver, "decide", lambda query, timeout: Unsat())
    with pytest.raises(Disagreement, match="z3 says sat and cvc5 unsat"):
        check_program(insert(pipeline(2, 2)), engine="both")
    assert check_program(insert(pipeline(2, 2)), engine="smt")[0].verdict is Verdict.VALID


def test_both_solvers_on_random_programs():
    asked = 0
    for seed in range(0, 300, 7):
        program, _ = make_program(Random(seed))
        if program.inserted or len(program.order) > 60:
            continue
        queries = [smt.build_dependency_query(waits_of(program, model)) for model in ("buffered", "pair")] + [
            smt.build_footprint_query(program)
        ] * (not program.fragment)
        for query in queries:
            assert type(decide(query)) is type(cvc5_solver.decide(query, 5_000)), seed
            asked += 1
    assert asked > 40


def test_too_long_or_missing_is_unknown(monkeypatch):
    monkeypatch.setattr(cvc5_solver, "MAX_CHARACTERS", 10)
    assert "up to 10" in cvc5_solver.decide(small(), 5_000).reason
    monkeypatch.setattr(cvc5_solver, "is_installed", lambda: False)
    assert "interlock[prove]" in cvc5_solver.decide(small(), 5_000).reason
    assert isinstance(decide(small(), second=True), Sat)


def test_whole_files():
    text = (
        "(set-logic QF_LIA)\n(declare-const x Int)\n"
        "(push 1)\n(assert (< x 3))\n(check-sat)\n(pop 1)\n(assert (< x x))\n(check-sat)\n"
    )
    for solver in (z3_solver, cvc5_solver):
        assert solver.decide_text(text, 5_000) == ["sat", "unsat"]
        with pytest.raises((ValueError, RuntimeError)):
            solver.decide_text("(assert (< y 3))\n(check-sat)\n", 5_000)
