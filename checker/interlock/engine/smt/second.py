"""cvc5, the second solver: it decides the text that z3 decides. Optional: the extra `prove` installs it."""

from __future__ import annotations

from importlib.util import find_spec

from interlock.engine.smt.query import Query, Sat, Unknown, Unsat

MOST_TEXT = {
    "QF_IDL": 20_000
}  # characters of a query that is put to it, for an answer in a second: its time limit is a loose one
MOST_OTHER_TEXT = 100_000


def installed() -> bool:
    return find_spec("cvc5") is not None


def decide(query: Query, timeout_ms: int) -> Sat | Unsat | Unknown:
    """Unknown where cvc5 is not installed, the text is too long for it, or it has no answer in time."""
    if not installed():
        return Unknown("cvc5 is not installed; `pip install interlock[prove]` does it")
    text = f"(set-logic {query.logic})\n{query.text()}\n(check-sat)\n"
    most = MOST_TEXT.get(query.logic, MOST_OTHER_TEXT)
    if len(text) > most:
        return Unknown(f"the query has {len(text):,} characters; up to {most:,} are put to cvc5")
    answers, solver, symbols = run(text, timeout_ms)
    match answers:
        case ["sat"]:
            terms = {str(t): t for t in symbols.getDeclaredTerms()}
            return Sat(lambda symbol: _plain(solver.getValue(terms[symbol]), query.sorts[symbol]))
        case ["unsat"]:
            return Unsat()
    return Unknown(f"cvc5 gave no answer in {timeout_ms} ms")


def run(text: str, timeout_ms: int) -> tuple[list[str], object, object]:
    """What cvc5 answers to each check-sat of a file, and its solver and symbols after it. The time limit is for each check."""
    import cvc5

    solver = cvc5.Solver()
    solver.setOption("tlimit-per", str(max(timeout_ms, 1)))
    solver.setOption("produce-models", "true")
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, text, "query")
    answers = []
    while True:
        command = parser.nextCommand()
        if command.isNull():
            break
        said = command.invoke(solver, parser.getSymbolManager()).strip()
        if command.getCommandName() == "check-sat":
            answers.append(said)
        elif "error" in said:
            raise ValueError(f"cvc5: {said}")
    return answers, solver, parser.getSymbolManager()


def _plain(value, sort: str) -> int | bool:
    return int(value.getIntegerValue()) if sort == "Int" else value.getBooleanValue()
