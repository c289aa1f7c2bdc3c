"""What a query is asked for: violations of rules, each with the symbol that says whether it holds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from interlock.engine.smt.query import Query, Sat
from interlock.engine.smt.terms import FALSE, disjoin

ASK = "ask"


@dataclass(frozen=True)
class Violation:
    """`code`: of the rule that is broken; `rows`: one instance of it."""

    code: str
    what: str
    rows: tuple[int, ...]


class Suspects:
    """The violations of a group that may hold, each with its symbol `wrong.GROUP.NUMBER`."""

    def __init__(self, query: Query, group: str):
        self._query, self.group = query, group
        self.all: list[tuple[str, Violation]] = []

    def add(self, term: str, code: str, what: str, rows: Iterable[int]) -> None:
        """A violation that holds iff the term does; none for FALSE. Rows below 0 are left out."""
        if term == FALSE:
            return
        symbol = f"wrong.{self.group}.{len(self.all)}"
        violation = Violation(code, what, tuple(sorted({int(row) for row in rows if row >= 0})))
        self._query.notes[symbol] = f"{code}: {what}"
        self.all.append((self._query.define_boolean(self.group, symbol, term), violation))

    def select(self, answer: Sat) -> list[Violation]:
        """Those that hold in the model."""
        return [violation for symbol, violation in self.all if answer.value(symbol)]

    @property
    def disjunction(self) -> str:
        return disjoin(*(symbol for symbol, _ in self.all))
