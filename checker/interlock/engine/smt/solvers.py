"""A query decided by z3, and by cvc5 beside it where it is asked for."""

from __future__ import annotations

from interlock.engine.smt import cvc5_solver
from interlock.engine.smt.query import TIMEOUT_MS, Answer, Contradiction, Query, Sat, Unknown, Unsat
from interlock.engine.smt.z3_solver import Session


def decide(query: Query, timeout_ms: int = TIMEOUT_MS, *, second: bool = False) -> Answer:
    """z3's answer; `second`: with cvc5's beside it (`confirm`)."""
    answer = Session(query, timeout_ms).check()
    return confirm(query, answer, timeout_ms) if second else answer


def confirm(query: Query, answer: Answer, timeout_ms: int) -> Answer:
    """z3's answer, after cvc5 has decided the same text if it is installed and the text is not too long.

    Where z3 has none, a model of cvc5 is the answer: the times in it are a certificate or they are not, and
    the kernel says which. Raises Contradiction if one says sat and the other unsat.
    """
    other = cvc5_solver.decide(query, timeout_ms)
    if isinstance(answer, Unknown) and isinstance(other, Sat):
        return other
    if {type(answer), type(other)} == {Sat, Unsat}:
        first, second = (type(a).__name__.lower() for a in (answer, other))
        raise Contradiction(f"z3 says {first} and cvc5 {second}: {query.title}")
    return answer
