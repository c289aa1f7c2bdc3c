"""cvc5, the second solver: it decides the text that z3 decides. Optional: the extra `prove` installs it."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from interlock.engine.smt.query import Answer, Query, Sat, Unknown, Unsat

MAX_CHARACTERS_OF_DIFFERENCES = (
    20_000  # of a QF_IDL query: an answer in a second, for its time limit is a loose one
)
MAX_CHARACTERS = 100_000


def is_installed() -> bool:
    return find_spec("cvc5") is not None


def decide(query: Query, timeout_ms: int) -> Answer:
    """Unknown where cvc5 is not installed, the text is too long for it, or it has no answer in time."""
    if not is_installed():
        return Unknown("cvc5 is not installed; `pip install interlock[prove]` does it")
    text = f"(set-logic {query.logic})\n{query.write()}\n(check-sat)\n"
    limit = MAX_CHARACTERS_OF_DIFFERENCES if query.logic == "QF_IDL" else MAX_CHARACTERS
    if len(text) > limit:
        return Unknown(f"the query has {len(text):,} characters; up to {limit:,} are put to cvc5")
    answers, solver, symbols = _run(text, timeout_ms)
    match answers:
        case ["sat"]:
            return Sat(_value_reader(query, solver, symbols))
        case ["unsat"]:
            return Unsat()
    return Unknown(f"cvc5 gave no answer in {timeout_ms} ms")


def decide_text(text: str, timeout_ms: int) -> list[str]:
    """The answer to each check-sat of a file: sat, unsat or unknown. The time limit is for each check.

    Raises ValueError or RuntimeError for a text that cvc5 cannot read.
    """
    return _run(text, timeout_ms)[0]


def _run(text: str, timeout_ms: int) -> tuple[list[str], Any, Any]:
    """The answers to each check-sat, and the solver and the symbols after them."""
    import cvc5

    solver = cvc5.Solver()
    solver.setOption("tlimit-per", str(max(timeout_ms, 1)))
    solver.setOption("produce-models", "true")
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, text, "query")
    symbols = parser.getSymbolManager()
    answers: list[str] = []
    while not (command := parser.nextCommand()).isNull():
        output = command.invoke(solver, symbols).strip()
        if command.getCommandName() == "check-sat":
            answers.append(output)
        elif "error" in output:
            raise ValueError(f"cvc5: {output}")
    return answers, solver, symbols


def _value_reader(query: Query, solver: Any, symbols: Any) -> Callable[[str], int | bool]:
    terms = {str(term): term for term in symbols.getDeclaredTerms()}

    def read_value(symbol: str) -> int | bool:
        value = solver.getValue(terms[symbol])
        return int(value.getIntegerValue()) if query.sorts[symbol] == "Int" else bool(value.getBooleanValue())

    return read_value
