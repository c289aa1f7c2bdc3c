"""Has z3 and cvc5 decide the SMT-LIB files of this folder: `make proofs`.

    python proofs/smt/decide.py [FILE...]

Fails unless both say unsat to every query.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

from interlock.engine.smt import cvc5_solver, z3_solver

TIMEOUT_MS = 60_000
HEAD = f"{'file':24} {'theorem':8} {'z3':12} {'cvc5':12} {'z3 ms':>6} {'cvc5 ms':>6}"


def decide(path: Path) -> tuple[str, bool]:
    """A row of the table, and whether every query is unsat for both."""
    text = path.read_text(encoding="utf-8")
    theorem = text.split(",")[0].removeprefix("; ")
    queries = text.count("(check-sat)")
    first, first_ms, first_unsat = _decide_by(z3_solver.decide_text, text, queries)
    second, second_ms, second_unsat = _decide_by(cvc5_solver.decide_text, text, queries)
    row = f"{path.name:24} {theorem:8} {first:12} {second:12} {first_ms:6.0f} {second_ms:6.0f}"
    return row, first_unsat and second_unsat


def _decide_by(solver: Callable[[str, int], list[str]], text: str, queries: int) -> tuple[str, float, bool]:
    """The answers in words, the time in ms, and whether they are all unsat."""
    start = time.perf_counter()
    try:
        answers = solver(text, TIMEOUT_MS)
    except Exception as error:  # whatever a solver raises is its answer
        answers = [str(error).strip().splitlines()[0]]
    unsat = queries > 0 and answers == ["unsat"] * queries
    return _summarize(answers, queries, unsat), (time.perf_counter() - start) * 1000, unsat


def _summarize(answers: list[str], queries: int, unsat: bool) -> str:
    if unsat:
        return f"unsat x {queries}"
    others = [f"{number}: {answer}" for number, answer in enumerate(answers, 1) if answer != "unsat"]
    return ", ".join(others) or f"{len(answers)} of {queries} answers"


def main(arguments: list[str]) -> int:
    if not cvc5_solver.is_installed():
        print("cvc5 is missing: `make proofs` installs it", file=sys.stderr)
        return 2
    paths = [Path(a) for a in arguments] or sorted(Path(__file__).parent.glob("*.smt2"))
    print(HEAD)
    all_unsat = bool(paths)
    for path in paths:
        row, unsat = decide(path)
        print(row, flush=True)
        all_unsat &= unsat
    return 0 if all_unsat else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
