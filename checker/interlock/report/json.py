"""The report for programs: one object, the same for the same input."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from enum import Enum
from numbers import Integral, Rational
from typing import Any

import numpy as np

from ..language.diagnostics import Diagnostic
from ..language.source import Sources
from ..program.ir import Program
from ..rules.finding import Finding
from ..verdict import Answer, Checked, Expectation
from .outcome import OUTCOMES, Unread, counts, exit_code, expected, outcome

FORMAT = "interlock.report/1"


def render(checked: Sequence[Checked], sources_of: Callable[[str], Sources | None], *, unread: Sequence[Unread] = (), internal: bool = False) -> str:
    """Lines and columns count from 1, columns in characters, `end_column` is the first one after; operations count from 1 along their rank.

    `files` are in the order they were checked; those that could not be read have `errors` and no schedules.
    """
    files: dict[str, dict] = {}
    for u in unread:
        file = files.setdefault(u.path, {"path": u.path, "errors": [], "schedules": []})
        file["as_expected"] = u.as_expected
        file["errors"] += [_diagnostic(d, sources_of(u.path), u.path) for d in u.diagnostics]
    for c in checked:
        file = files.setdefault(c.path, {"path": c.path, "errors": [], "schedules": []})
        file["schedules"].append(_schedule(c, sources_of(c.path)))
    found = counts(checked)
    report = {
        "format": FORMAT,
        "files": list(files.values()),
        "summary": {"files": len(files), "schedules": len(checked), "not readable": sum(not u.as_expected for u in unread),
                    "refused as expected": sum(u.as_expected for u in unread)} | {o: found[o] for o in OUTCOMES},
        "exit_code": exit_code(checked, unread, internal),
    }
    return json.dumps(_plain(report), indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def _schedule(c: Checked, sources: Sources | None) -> dict:
    return {
        "name": c.name, "place": _place(c.at, c.width, sources, c.path), "verdict": c.verdict, "outcome": outcome(c),
        "answers": [_answer(c, a, sources) for a in c.answers],
        "expectations": [_expectation(e) for e in c.expectations],
        "warnings": [_diagnostic(d, sources, c.path) for d in c.warnings],
        "figures": c.figures,
    }


def _answer(c: Checked, a: Answer, sources: Sources | None) -> dict:
    return {
        "target" if a.target else "model": a.model, "verdict": a.verdict, "as_expected": expected(c, a),
        "reason": a.reason if a.verdict.value in ("unknown", "vacuous") else None,
        "claims": [claim.get("claim") for document in a.certificates for claim in document.get("claims", ())],
        "replayed": a.replay is not None,
        "findings": [_finding(f, a.program, sources, c.path) for f in a.findings],
    }


def _finding(f: Finding, program: Program | None, sources: Sources | None, path: str) -> dict:
    return {
        "code": f.code, "rule": f.rule, "severity": f.severity, "message": f.message, "help": f.help or None, "rank": f.rank,
        "places": [_mark(m.row, m.label, program, sources, path) for m in f.marks],
        "walk": [[list(a), reason, list(b)] for a, reason, b in f.walk],
        "figures": f.data,
    }


def _mark(row: int, label: str, program: Program | None, sources: Sources | None, path: str) -> dict:
    at, width, about = -1, 0, {"operation": None, "rank": None, "number": None, "row": row}
    if program is not None:
        at, width = int(program.order.at[row]), int(program.order.width[row])
        rank = program.rank_of(row)
        about = {"operation": program.show(row), "rank": rank, "number": row - int(program.order.start[rank]) + 1, "row": row}
    return _place(at, width, sources, path) | about | {"label": label}


def _place(at: int, width: int, sources: Sources | None, path: str) -> dict:
    source = sources.of(at) if sources is not None else None
    if source is None:
        return {"file": path, "line": None, "column": None, "end_line": None, "end_column": None}
    line, column = source.line_column(at)
    end_line, end_column = source.line_column(at + max(width, 0))
    return {"file": source.name, "line": line, "column": column, "end_line": end_line, "end_column": end_column}


def _diagnostic(d: Diagnostic, sources: Sources | None, path: str) -> dict:
    return {"code": d.code, "rule": d.rule or None, "severity": d.severity, "message": d.message, "help": d.help or None,
            "places": [_place(l.span.at, l.span.width, sources, path) | {"label": l.text} for l in d.labels], "detail": list(d.detail)}


def _expectation(e: Expectation) -> dict:
    return {"verdict": e.verdict, "code": e.code, "models": list(e.models), "met": e.met}


def _plain(value: Any):
    """Numbers of numpy as integers, exact fractions as text, sets sorted."""
    match value:
        case None | bool() | str() | int() | float() if not isinstance(value, Enum):
            return value if value == value and value not in (float("inf"), float("-inf")) else None
        case Enum():
            return value.value
        case dict():
            return {str(_plain(k)): _plain(v) for k, v in value.items()}
        case list() | tuple():
            return [_plain(v) for v in value]
        case set() | frozenset():
            return sorted(_plain(v) for v in value)
        case np.ndarray():
            return value.tolist()
    if isinstance(value, (Integral, np.integer)):
        return int(value)
    if isinstance(value, np.floating):
        return _plain(float(value))
    return str(value) if isinstance(value, Rational) else str(value)
