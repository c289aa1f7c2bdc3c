"""z3, the first solver. No other module of the project imports it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from interlock.engine.smt.query import ASSERT, TIMEOUT_MS, Answer, Query, Sat, Unknown, Unsat

STATUS = "(set-info :status"
TRACKED_ASSERT = "(declare-const {name} Bool) (assert (=> {name} {term}))"
DIFFERENCES_ONLY = (
    1  # z3's arith.solver for difference constraints: 100 times faster than its tactic for QF_IDL
)
ANY_ARITHMETIC = 6


class Session:
    """A solver that holds a query. The time limit is for all checks together."""

    def __init__(self, query: Query, timeout_ms: int, assertion: str = ASSERT):
        import z3

        self._z3, self._sorts = z3, query.sorts
        self._limit, self._until = timeout_ms, time.monotonic() + timeout_ms / 1000
        self._solver = z3.SimpleSolver()
        self._solver.set("arith.solver", DIFFERENCES_ONLY if query.logic == "QF_IDL" else ANY_ARITHMETIC)
        self._solver.from_string(query.write(assertion))

    def check(self, assume: Iterable[str] = (), at_most: tuple[Sequence[str], int] | None = None) -> Answer:
        """`assume`: Boolean symbols taken as true. `at_most`: Boolean symbols, and how many of them may be
        false.
        """
        z3, solver = self._z3, self._solver
        left = int((self._until - time.monotonic()) * 1000)
        if left <= 0:
            return self._explain("timeout")
        solver.set("timeout", left)
        try:
            if at_most is not None:  # push only here: it costs the first check its preprocessing
                symbols, bound = at_most
                solver.push()
                solver.add(z3.AtMost(*(z3.Not(z3.Bool(s)) for s in symbols), bound))
            answer = solver.check(*(z3.Bool(s) for s in assume))
            if answer == z3.sat:
                return self._read_model()
            if answer == z3.unsat:
                return Unsat(tuple(str(c) for c in solver.unsat_core()) if assume else ())
            return self._explain(solver.reason_unknown())
        except z3.Z3Exception as error:
            return self._explain(str(error))
        finally:
            if at_most is not None:
                solver.pop()

    def _explain(self, why: str) -> Unknown:
        return _explain_unknown(why, self._limit)

    def _read_model(self) -> Sat:
        model = self._solver.model()
        values = {d.name(): model.get_interp(d) for d in model.decls()}

        def read_value(symbol: str) -> int | bool:
            return self._read_value(symbol, values.get(symbol))

        return Sat(read_value)

    def _read_value(self, symbol: str, value: Any) -> int | bool:
        """A value of a model. What a model leaves open may be anything: 0."""
        if value is None:
            return 0
        return int(value.as_long()) if self._sorts[symbol] == "Int" else bool(self._z3.is_true(value))


def find_unsat_core(query: Query, timeout_ms: int = TIMEOUT_MS) -> Answer:
    """As one `check` of a Session, with the core of an unsat. Takes about three times as long."""
    session = Session(query, timeout_ms, TRACKED_ASSERT)
    return session.check([name for group in query.groups for name in query.name_assertions(group)])


def maximise(query: Query, symbol: str, timeout_ms: int = TIMEOUT_MS) -> int | None | Unsat | Unknown:
    """The largest value of an integer symbol with which the query is satisfiable; None: there is none."""
    import z3

    solver = z3.Optimize()
    solver.set("timeout", max(timeout_ms, 1))
    solver.from_string(query.write())
    goal = solver.maximize(z3.Int(symbol))
    answer = solver.check()
    if answer == z3.unsat:
        return Unsat()
    if answer == z3.sat:
        value = solver.upper(goal)
        return int(value.as_long()) if z3.is_int_value(value) else None
    return _explain_unknown(solver.reason_unknown(), timeout_ms)


def decide_text(text: str, timeout_ms: int = TIMEOUT_MS) -> list[str]:
    """The answer to each check-sat of a file: sat, unsat or unknown, whatever status the file expects.

    The time limit is for each check. Raises ValueError for a text that z3 cannot read.
    """
    import z3

    context = z3.Context()
    # z3 takes another answer than the expected one for an error
    lines = [line for line in text.splitlines() if not line.startswith(STATUS)]
    lines.insert(0, f"(set-option :timeout {timeout_ms})")
    try:
        answers: str = z3.Z3_eval_smtlib2_string(context.ref(), "\n".join(lines))
    except z3.Z3Exception as error:
        raise ValueError(f"z3: {error.args[0]}") from None
    return answers.split()


def _explain_unknown(why: str, limit: int) -> Unknown:
    if why in ("timeout", "canceled"):
        return Unknown(f"z3 gave no answer in {limit} ms; a longer limit or the graph engine may decide it")
    return Unknown(f"z3 gave no answer: {why}")
