"""The report for programs: one object, the same for the same input."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from enum import Enum
from numbers import Integral, Rational
from typing import Any

import numpy as np

from interlock import __version__
from interlock.check.verdict import Answer, CaseResult, Expectation
from interlock.program.ir import Program
from interlock.report.items import SourcesOf, group_by_file
from interlock.report.outcome import OUTCOMES, Unread, counts, exit_code, is_expected, outcome
from interlock.text.finding import Finding
from interlock.text.source import Sources

FORMAT = "interlock.report/1"


def render(
    checked: Sequence[CaseResult],
    sources_of: SourcesOf,
    *,
    unread: Sequence[Unread] = (),
    paths: Sequence[str] = (),
    internal: bool = False,
) -> str:
    """Lines and columns count from 1, columns in characters, `end_column` is the first one after;
    operations count from 1 along their rank.

    `files` are in the order they were checked; those that could not be read have `errors` and no schedules.
    Schema: spec/report.schema.json.
    """
    of = [
        {
            "path": path,
            "as_expected": all(u.as_expected for u in refused) if refused else None,
            "errors": [encode_input_finding(d, sources_of(path), path) for u in refused for d in u.findings],
            "schedules": [_encode_schedule(c, sources_of(path)) for c in schedules],
        }
        for path, refused, schedules in group_by_file(checked, unread, paths)
    ]
    report = {
        "format": FORMAT,
        "interlock": __version__,
        "files": of,
        "summary": encode_summary(checked, unread, len(of)),
        "exit_code": exit_code(checked, unread, internal),
    }
    return json.dumps(to_json_values(report), indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def encode_summary(checked: Sequence[CaseResult], unread: Sequence[Unread], files: int) -> dict:
    found = counts(checked)
    return {
        "files": files,
        "schedules": len(checked),
        "not readable": sum(not u.as_expected for u in unread),
        "refused as expected": sum(u.as_expected for u in unread),
    } | {o: found[o] for o in OUTCOMES}


def _encode_schedule(c: CaseResult, sources: Sources | None) -> dict:
    return {
        "name": c.name,
        **encode_outcome(c, sources),
        "answers": [encode_answer(c, a, sources) for a in c.answers],
        "expectations": [encode_expectation(e) for e in c.expectations],
        "warnings": [encode_input_finding(d, sources, c.path) for d in c.warnings],
        "figures": c.figures,
    }


def encode_outcome(c: CaseResult, sources: Sources | None) -> dict:
    """What a schedule comes to."""
    return {
        "place": _encode_place(c.at, c.width, sources, c.path),
        "verdict": c.verdict,
        "outcome": outcome(c),
        "excused": c.excused,
        "waived": [
            {
                "code": w.code,
                "message": w.message,
                "reason": w.reason,
                "place": _encode_place(w.at, w.width, sources, c.path),
            }
            for w in c.waived
        ],
    }


def encode_answer(c: CaseResult, a: Answer, sources: Sources | None) -> dict:
    return {
        "target" if a.target else "model": a.model,
        "verdict": a.verdict,
        "as_expected": is_expected(c, a),
        "reason": a.reason if a.verdict.value in ("unknown", "vacuous") else None,
        "claims": [c.statement["claim"] for c in a.claims],
        "replayed": a.replay is not None,
        "findings": [encode_finding(f, a.program, sources, c.path) for f in a.findings],
    }


def encode_finding(f: Finding, program: Program | None, sources: Sources | None, path: str) -> dict:
    return {
        "code": f.code,
        "rule": f.rule,
        "severity": f.severity,
        "message": f.message,
        "help": f.help or None,
        "rank": f.rank,
        "places": [_encode_mark(m.row, m.label, program, sources, path) for m in f.marks],
        "walk": [[list(a), reason, list(b)] for a, reason, b in f.walk],
        "figures": f.data,
        "raised": f.raised,
        "known": f.known,
    }


def _encode_mark(row: int, label: str, program: Program | None, sources: Sources | None, path: str) -> dict:
    at, width, about = -1, 0, {"operation": None, "rank": None, "number": None, "row": row}
    if program is not None:
        at, width = int(program.order.at[row]), int(program.order.width[row])
        rank = program.rank_of(row)
        about = {
            "operation": program.show(row),
            "rank": rank,
            "number": row - int(program.order.start[rank]) + 1,
            "row": row,
        }
    return _encode_place(at, width, sources, path) | about | {"label": label}


def _encode_place(at: int, width: int, sources: Sources | None, path: str) -> dict:
    source = sources.of(at) if sources is not None else None
    if source is None:
        return {"file": path, "line": None, "column": None, "end_line": None, "end_column": None}
    line, column = source.line_column(at)
    end_line, end_column = source.line_column(at + max(width, 0))
    return {
        "file": source.name,
        "line": line,
        "column": column,
        "end_line": end_line,
        "end_column": end_column,
    }


def encode_input_finding(d: Finding, sources: Sources | None, path: str) -> dict:
    return {
        "code": d.code,
        "rule": d.rule or None,
        "severity": d.severity,
        "message": d.message,
        "help": d.help or None,
        "places": [
            _encode_place(m.span.at, m.span.width, sources, path) | {"label": m.label} for m in d.marks
        ],
        "detail": list(d.detail),
        "known": d.known,
    }


def encode_expectation(e: Expectation) -> dict:
    return {"verdict": e.verdict, "code": e.code, "models": list(e.models), "met": e.met}


def to_json_values(value: Any):
    """Numbers of numpy as integers, exact fractions as text, sets sorted."""
    match value:
        case None | bool() | str() | int() | float() if not isinstance(value, Enum):
            finite = not isinstance(value, float) or math.isfinite(value)
            return value if finite else None
        case Enum():
            return value.value
        case dict():
            return {str(to_json_values(k)): to_json_values(v) for k, v in value.items()}
        case list() | tuple():
            return [to_json_values(v) for v in value]
        case set() | frozenset():
            return sorted(to_json_values(v) for v in value)
        case np.ndarray():
            return value.tolist()
    if isinstance(value, (Integral, np.integer)):
        return int(value)
    if isinstance(value, np.floating):
        return to_json_values(float(value))
    return str(value) if isinstance(value, Rational) else str(value)
