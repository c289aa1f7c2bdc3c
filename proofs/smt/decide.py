"""Has z3 and cvc5 decide the SMT-LIB files of this folder: `make proofs`. Fails unless both say unsat to every query.

python proofs/smt/decide.py [FILE...]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from interlock.engine.smt import cvc5_solver, z3_solver

TIMEOUT_MS = 60_000


def decide(path: Path) -> tuple[str, bool]:
    """A row of the table, and whether every query is unsat for both."""
    text = path.read_text(encoding="utf-8")
    theorem = text.split(",")[0].removeprefix("; ")
    asked = text.count("(check-sat)")
    cells, good = [], True
    for solver in (z3_solver.decide_text, cvc5_solver.decide_text):
        began = time.perf_counter()
        try:
            answers = solver(text, TIMEOUT_MS)
        except Exception as error:
            answers = [str(error).strip().splitlines()[0]]
        unsat = asked > 0 and answers == ["unsat"] * asked
        good &= unsat
        said = (
            f"unsat x {asked}"
            if unsat
            else ", ".join(f"{i}: {a}" for i, a in enumerate(answers, 1) if a != "unsat")
            or f"{len(answers)} of {asked} answers"
        )
        cells += [said, f"{(time.perf_counter() - began) * 1000:.0f}"]
    return f"{path.name:24} {theorem:8} {cells[0]:12} {cells[2]:12} {cells[1]:>6} {cells[3]:>6}", good


def main(arguments: list[str]) -> int:
    if not cvc5_solver.is_installed():
        print("cvc5 is missing: `make proofs` installs it", file=sys.stderr)
        return 2
    paths = [Path(a) for a in arguments] or sorted(Path(__file__).parent.glob("*.smt2"))
    print(f"{'file':24} {'theorem':8} {'z3':12} {'cvc5':12} {'z3 ms':>6} {'cvc5 ms':>6}")
    fine = bool(paths)
    for path in paths:
        row, good = decide(path)
        print(row, flush=True)
        fine &= good
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
