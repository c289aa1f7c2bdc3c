"""SMT-LIB terms as text, with constants folded so that a query stays readable."""

from __future__ import annotations

TRUE, FALSE = "true", "false"


def disjoin(*terms: str) -> str:
    """The disjunction of Boolean terms, each once."""
    return _join("or", terms, neutral=FALSE, absorbing=TRUE)


def conjoin(*terms: str) -> str:
    """The conjunction of Boolean terms, each once."""
    return _join("and", terms, neutral=TRUE, absorbing=FALSE)


def _join(operator: str, terms: tuple[str, ...], neutral: str, absorbing: str) -> str:
    kept = list(dict.fromkeys(term for term in terms if term != neutral))
    if absorbing in kept:
        return absorbing
    if not kept:
        return neutral
    return kept[0] if len(kept) == 1 else f"({operator} {' '.join(kept)})"


def negate(term: str) -> str:
    if term == TRUE:
        return FALSE
    return TRUE if term == FALSE else f"(not {term})"


def sum_terms(*terms: tuple[int, str]) -> str:
    """The sum of (factor, term), with numerals folded."""
    factors: dict[str, int] = {}
    constant = 0
    for factor, term in terms:
        if term.isdigit():
            constant += factor * int(term)
        else:
            factors[term] = factors.get(term, 0) + factor
    parts = [
        term if factor == 1 else f"(* {write_integer(factor)} {term})"
        for term, factor in factors.items()
        if factor
    ]
    if constant or not parts:
        parts.append(write_integer(constant))
    return parts[0] if len(parts) == 1 else f"(+ {' '.join(parts)})"


def write_integer(value: int) -> str:
    return str(value) if value >= 0 else f"(- {-value})"
