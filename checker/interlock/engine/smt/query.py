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


class Contradiction(Exception):
    """Two solvers, or two answers of one, contradict each other: an internal error."""


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

    def function(self, symbol: str, argument: str, result: str) -> str:
        """An uninterpreted function of one argument."""
        return self._declare(symbol, f"({argument}) {result}")

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

    def number(self, group: str, symbol: str, term: str) -> str:
        """An integer symbol that stands for the term."""
        self.add(group, f"(= {self.integer(symbol)} {term})")
        return symbol

    def names(self, group: str) -> list[str]:
        return [f"{group}.{i}" for i in range(len(self.groups[group]))]

    def text(self, wrap: str = "(assert {term})") -> str:
        """Declarations and assertions alone, as z3 is given them. `wrap` may use {name}."""
        lines = [declaration(symbol, sort) for symbol, sort in self.sorts.items()]
        for group, terms in self.groups.items():
            lines += [wrap.format(name=f"{group}.{i}", term=term) for i, term in enumerate(terms)]
        return "\n".join(lines)


def declaration(symbol: str, sort: str) -> str:
    return f"(declare-{'fun' if sort.startswith('(') else 'const'} {symbol} {sort})"


def emit(query: Query, expected: str | None = None, head: Sequence[str] = ()) -> str:
    """The query as an SMT-LIB file for any solver, assertions named by their group. `expected`: sat or unsat; `head`: lines of comment."""
    lines = [f"; {line}".rstrip() for line in (*head, query.title)]
    lines += [f"(set-info :status {expected})"] if expected else []
    lines += [f"(set-logic {query.logic})"]
    lines += [
        declaration(symbol, sort) + (f" ; {query.notes[symbol]}" if symbol in query.notes else "")
        for symbol, sort in query.sorts.items()
    ]
    for group, terms in query.groups.items():
        lines.append(f"; group {group}")
        lines += [f"(assert (! {term} :named {name}))" for name, term in zip(query.names(group), terms)]
    return "\n".join([*lines, "(check-sat)", ""])


def read(text: str, timeout_ms: int = TIMEOUT_MS) -> list[str]:
    """What z3 answers to each check-sat of a file: sat, unsat or unknown, whatever status the file expects. The time limit is for each check.

    Raises ValueError for a text that z3 cannot read.
    """
    import z3

    context = z3.Context()
    lines = [
        line for line in text.splitlines() if not line.startswith("(set-info :status")
    ]  # z3 takes another answer for an error
    try:
        said = z3.Z3_eval_smtlib2_string(
            context.ref(), "\n".join([f"(set-option :timeout {timeout_ms})", *lines])
        )
    except z3.Z3Exception as error:
        raise ValueError(f"z3: {error.args[0]}") from None
    return said.split()


def decide(query: Query, timeout_ms: int = TIMEOUT_MS, *, second: bool = False) -> Sat | Unsat | Unknown:
    """z3's answer, or the model of cvc5 where it has none (`second_opinion`)."""
    answer = Session(query, timeout_ms).check()
    return second_opinion(query, answer, timeout_ms) if second else answer


def second_opinion(query: Query, answer: Sat | Unsat | Unknown, timeout_ms: int) -> Sat | Unsat | Unknown:
    """z3's answer after cvc5, if it is installed and the text not too long, has decided the same text. Raises Contradiction if it says the opposite.

    Where z3 has none, a model of cvc5 is the answer: the times in it are a certificate or they are not, and the kernel says which.
    """
    from interlock.engine.smt import second

    other = second.decide(query, timeout_ms)
    if isinstance(answer, Unknown) and isinstance(other, Sat):
        return other
    if {type(answer), type(other)} == {Sat, Unsat}:
        raise Contradiction(
            f"z3 says {type(answer).__name__.lower()} and cvc5 {type(other).__name__.lower()}: {query.title}"
        )
    return answer


def maximum(query: Query, symbol: str, timeout_ms: int = TIMEOUT_MS) -> int | None | Unsat | Unknown:
    """The largest value of an integer symbol with which the query is satisfiable; None: there is none."""
    import z3

    solver = z3.Optimize()
    solver.set("timeout", max(timeout_ms, 1))
    solver.from_string(query.text())
    goal = solver.maximize(z3.Int(symbol))
    answer = solver.check()
    if answer == z3.unsat:
        return Unsat()
    if answer == z3.sat:
        value = solver.upper(goal)
        return value.as_long() if z3.is_int_value(value) else None
    return _unknown(solver.reason_unknown(), timeout_ms)


def _unknown(why: str, limit: int, solver: str = "z3") -> Unknown:
    if why in ("timeout", "canceled"):
        return Unknown(
            f"{solver} gave no answer in {limit} ms; a longer limit or the graph engine may decide it"
        )
    return Unknown(f"{solver} gave no answer: {why}")


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
        # difference constraints: measured 100 times faster than QF_IDL's tactic; it knows no sums
        self._solver = z3.SimpleSolver()
        self._solver.set("arith.solver", 1 if query.logic == "QF_IDL" else 6)
        self._solver.from_string(query.text(wrap))

    def check(
        self, assume: Iterable[str] = (), at_most: tuple[Sequence[str], int] | None = None
    ) -> Sat | Unsat | Unknown:
        """`assume`: Boolean symbols taken as true. `at_most`: (Boolean symbols, how many of them may be false)."""
        z3, solver = self._z3, self._solver
        left = int((self._until - time.monotonic()) * 1000)
        if left <= 0:
            return self._unknown("timeout")
        solver.set("timeout", left)
        try:
            if at_most is not None:  # push only here: it costs the first check its preprocessing
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
        return _unknown(why, self._limit)

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


def add(*terms: tuple[int, str]) -> str:
    """The sum of (factor, term), with numerals folded."""
    factors: dict[str, int] = {}
    constant = 0
    for factor, term in terms:
        if term.isdigit():
            constant += factor * int(term)
        else:
            factors[term] = factors.get(term, 0) + factor
    parts = [
        term if factor == 1 else f"(* {numeral(factor)} {term})" for term, factor in factors.items() if factor
    ]
    parts += [numeral(constant)] if constant or not parts else []
    return parts[0] if len(parts) == 1 else f"(+ {' '.join(parts)})"


def numeral(value: int) -> str:
    return str(value) if value >= 0 else f"(- {-value})"


def no(term: str) -> str:
    return {TRUE: FALSE, FALSE: TRUE}.get(term) or f"(not {term})"
