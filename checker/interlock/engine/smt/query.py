"""A question as SMT-LIB text, and z3's answer to it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

TIMEOUT_MS = 30_000
TRUE, FALSE = "true", "false"


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


@dataclass
class Query:
    """Symbols and assertions. An assertion is named GROUP.NUMBER; `title` says what sat and unsat mean, `notes` what a symbol means."""

    title: str
    logic: str
    sorts: dict[str, str] = field(default_factory=dict)
    groups: dict[str, list[str]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)

    def boolean(self, symbol: str) -> str:
        return self._declare(symbol, "Bool")

    def integer(self, symbol: str) -> str:
        return self._declare(symbol, "Int")

    def _declare(self, symbol: str, sort: str) -> str:
        if symbol in self.sorts:
            raise ValueError(f"{symbol} is declared twice")
        self.sorts[symbol] = sort
        return symbol

    def add(self, group: str, term: str) -> None:
        self.groups.setdefault(group, []).append(term)

    def define(self, group: str, symbol: str, term: str) -> str:
        """A Boolean symbol that stands for the term."""
        self.add(group, f"(= {self.boolean(symbol)} {term})")
        return symbol

    def names(self, group: str) -> list[str]:
        return [f"{group}.{i}" for i in range(len(self.groups[group]))]

    def text(self, wrap: str = "(assert {term})") -> str:
        """Declarations and assertions alone, as z3 is given them. `wrap` may use {name}."""
        lines = [f"(declare-const {symbol} {sort})" for symbol, sort in self.sorts.items()]
        for group, terms in self.groups.items():
            lines += [wrap.format(name=f"{group}.{i}", term=term) for i, term in enumerate(terms)]
        return "\n".join(lines)


def emit(query: Query) -> str:
    """The query as an SMT-LIB file for any solver, assertions named by their group."""
    lines = [f"; {query.title}", f"(set-logic {query.logic})"]
    lines += [f"(declare-const {symbol} {sort})" + (f" ; {query.notes[symbol]}" if symbol in query.notes else "")
              for symbol, sort in query.sorts.items()]
    for group, terms in query.groups.items():
        lines.append(f"; group {group}")
        lines += [f"(assert (! {term} :named {name}))" for name, term in zip(query.names(group), terms)]
    return "\n".join([*lines, "(check-sat)", ""])


def decide(query: Query, timeout_ms: int = TIMEOUT_MS) -> Sat | Unsat | Unknown:
    return Session(query, timeout_ms).check()


def unsat_core(query: Query, timeout_ms: int = TIMEOUT_MS) -> Sat | Unsat | Unknown:
    """As `decide`, with the core of an unsat. Asks about three times the time of `decide`."""
    session = Session(query, timeout_ms, "(declare-const {name} Bool) (assert (=> {name} {term}))")
    return session.check([name for group in query.groups for name in query.names(group)])


class Session:
    """A solver that holds a query. The time limit is for all checks together."""

    def __init__(self, query: Query, timeout_ms: int, wrap: str = "(assert {term})"):
        import z3
        self._z3, self._sorts = z3, query.sorts
        self._limit, self._until = timeout_ms, time.monotonic() + timeout_ms / 1000
        # difference constraints: measured 100 times faster than QF_IDL's tactic
        self._solver = z3.SimpleSolver()
        self._solver.set("arith.solver", 1)
        self._solver.from_string(query.text(wrap))

    def check(self, assume: Iterable[str] = (), at_most: tuple[Sequence[str], int] | None = None) -> Sat | Unsat | Unknown:
        """`assume`: Boolean symbols taken as true. `at_most`: (Boolean symbols, how many of them may be false)."""
        z3, solver = self._z3, self._solver
        left = int((self._until - time.monotonic()) * 1000)
        if left <= 0:
            return self._unknown("timeout")
        solver.set("timeout", left)
        try:
            if at_most is not None:              # push only here: it costs the first check its preprocessing
                symbols, bound = at_most
                solver.push()
                solver.add(z3.AtMost(*(z3.Not(z3.Bool(s)) for s in symbols), bound))
            answer = solver.check(*(z3.Bool(s) for s in assume))
            if answer == z3.sat:
                model = solver.model()
                values = {d.name(): model.get_interp(d) for d in model.decls()}
                return Sat(lambda symbol: self._plain(symbol, values.get(symbol)))
            if answer == z3.unsat:
                return Unsat(tuple(str(c) for c in solver.unsat_core()) if assume else ())
            return self._unknown(solver.reason_unknown())
        except z3.Z3Exception as error:
            return self._unknown(str(error))
        finally:
            if at_most is not None:
                solver.pop()

    def _unknown(self, why: str) -> Unknown:
        if why in ("timeout", "canceled"):
            return Unknown(f"z3 gave no answer in {self._limit} ms; a longer limit or the graph engine may decide it")
        return Unknown(f"z3 gave no answer: {why}")

    def _plain(self, symbol: str, value) -> int | bool:
        """A value of a model. What a model leaves open may be anything: 0."""
        if value is None:
            return 0
        return value.as_long() if self._sorts[symbol] == "Int" else self._z3.is_true(value)


def either(*terms: str) -> str:
    """Disjunction, with constants folded so that the text stays readable."""
    kept = list(dict.fromkeys(t for t in terms if t != FALSE))
    if TRUE in kept:
        return TRUE
    return kept[0] if len(kept) == 1 else f"(or {' '.join(kept)})" if kept else FALSE


def both(*terms: str) -> str:
    """Conjunction, folded likewise."""
    kept = list(dict.fromkeys(t for t in terms if t != TRUE))
    if FALSE in kept:
        return FALSE
    return kept[0] if len(kept) == 1 else f"(and {' '.join(kept)})" if kept else TRUE


def no(term: str) -> str:
    return {TRUE: FALSE, FALSE: TRUE}.get(term) or f"(not {term})"
