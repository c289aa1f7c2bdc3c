"""What a solver is asked, as SMT-LIB text, and what it answers (spec/smt.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

TIMEOUT_MS = 30_000
ASSERT = "(assert {term})"


@dataclass(frozen=True)
class Unknown:
    """No answer, and what would give one. Never valid, never invalid."""

    reason: str


@dataclass(frozen=True)
class Sat:
    """A model: the value of a declared symbol."""

    value: Callable[[str], int | bool]


@dataclass(frozen=True)
class Unsat:
    """`core`: the names of assertions that contradict each other; () where they were not asked for."""

    core: tuple[str, ...] = ()


Answer = Sat | Unsat | Unknown


class Contradiction(Exception):
    """Two solvers, or two answers of one, contradict each other: an internal error."""


@dataclass
class Query:
    """Symbols and assertions.

    `title` says what sat and unsat mean; `sorts`: the sort of each symbol; `groups`: the assertions, named
    GROUP.NUMBER; `notes`: what a symbol means.
    """

    title: str
    logic: str
    sorts: dict[str, str] = field(default_factory=dict)
    groups: dict[str, list[str]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)

    def declare_boolean(self, symbol: str) -> str:
        return self._declare(symbol, "Bool")

    def declare_integer(self, symbol: str) -> str:
        return self._declare(symbol, "Int")

    def declare_function(self, symbol: str, argument: str, result: str) -> str:
        """An uninterpreted function of one argument."""
        return self._declare(symbol, f"({argument}) {result}")

    def _declare(self, symbol: str, sort: str) -> str:
        """Raises ValueError if the symbol is declared already."""
        if symbol in self.sorts:
            raise ValueError(f"{symbol} is declared twice")
        self.sorts[symbol] = sort
        return symbol

    def add(self, group: str, term: str) -> None:
        self.groups.setdefault(group, []).append(term)

    def define_boolean(self, group: str, symbol: str, term: str) -> str:
        """A Boolean symbol that stands for the term."""
        self.add(group, f"(= {self.declare_boolean(symbol)} {term})")
        return symbol

    def define_integer(self, group: str, symbol: str, term: str) -> str:
        """An integer symbol that stands for the term."""
        self.add(group, f"(= {self.declare_integer(symbol)} {term})")
        return symbol

    def name_assertions(self, group: str) -> list[str]:
        return [f"{group}.{i}" for i in range(len(self.groups[group]))]

    def write(self, assertion: str = ASSERT) -> str:
        """Declarations and assertions alone, as solvers are given them; `assertion` may use {name} and
        {term}.
        """
        lines = [write_declaration(symbol, sort) for symbol, sort in self.sorts.items()]
        for group, terms in self.groups.items():
            names = self.name_assertions(group)
            lines += [assertion.format(name=name, term=term) for name, term in zip(names, terms)]
        return "\n".join(lines)


def write_declaration(symbol: str, sort: str) -> str:
    return f"(declare-{'fun' if sort.startswith('(') else 'const'} {symbol} {sort})"


def emit(query: Query, expected: str | None = None, head: Sequence[str] = ()) -> str:
    """The query as an SMT-LIB file for any solver, assertions named by their group.

    `expected`: sat or unsat; `head`: lines of comment.
    """
    lines = [f"; {line}".rstrip() for line in (*head, query.title)]
    if expected:
        lines.append(f"(set-info :status {expected})")
    lines.append(f"(set-logic {query.logic})")
    for symbol, sort in query.sorts.items():
        note = f" ; {query.notes[symbol]}" if symbol in query.notes else ""
        lines.append(write_declaration(symbol, sort) + note)
    for group, terms in query.groups.items():
        lines.append(f"; group {group}")
        names = query.name_assertions(group)
        lines += [f"(assert (! {term} :named {name}))" for name, term in zip(names, terms)]
    return "\n".join([*lines, "(check-sat)", ""])
