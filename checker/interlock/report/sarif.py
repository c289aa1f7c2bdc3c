"""SARIF 2.1.0 as GitHub's code scanning reads it: results are findings only, a wait cycle has a thread flow
for each rank.

Source: OASIS SARIF 2.1.0, and "SARIF support for code scanning" for what GitHub uses of it and its limits.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from interlock import __version__
from interlock.check.verdict import CaseResult
from interlock.program.facts import Facts
from interlock.program.ir import Program
from interlock.report import diagnostics, explain
from interlock.report.items import Item, Position, SourcesOf, find_position, items
from interlock.report.json import to_json_values
from interlock.report.outcome import OUTCOMES, MergedFinding, Unread, counts, exit_code, is_expected, summary
from interlock.report.style import safe
from interlock.report.uri import uri
from interlock.text.codes import CODES, FAMILIES
from interlock.text.source import Sources, Span
from interlock.witness.story import name, sentences
from interlock.witness.walk import row_of

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
MOST_RESULTS, SHOWN_RESULTS = 25_000, 5_000  # of a run: what GitHub takes, and what it keeps
MOST_STEPS = 10_000  # locations of the thread flows of one result
MOST_RELATED = 100  # GitHub shows no more places of one result
MOST_BYTES = 10_000_000  # of the file, compressed by gzip
MOST_TEXT = 1_024  # characters of a description


def render(
    checked: Sequence[CaseResult],
    sources_of: SourcesOf,
    *,
    unread: Sequence[Unread] = (),
    paths: Sequence[str] = (),
    internal: bool = False,
) -> str:
    """One run. Beyond GitHub's limits the errors come first, and a notification says what was left out."""
    seen: Counter = Counter()
    found = [_Result(item, seen) for item in items(checked, sources_of, unread, paths)]
    found.sort(key=lambda r: r.item.level != "error")
    kept = min(len(found), MOST_RESULTS)
    while True:
        text = _log(found, kept, checked, sources_of, unread, internal)
        if kept == 0 or len(text) <= MOST_BYTES or len(gzip.compress(text.encode("ascii"), 6)) <= MOST_BYTES:
            return text
        kept //= 2


class _Result:
    """An item with its fingerprint, which needs the items before it: how often the same line has the same
    code.
    """

    def __init__(self, item: Item, seen: Counter):
        self.item = item
        line = re.sub(r"\s+", "", item.at.text)
        seen[item.at.file, item.code, line] += 1
        digest = hashlib.sha256(f"{item.code}\0{line}".encode("utf-8", "backslashreplace")).hexdigest()[:16]
        self.fingerprint = f"{digest}:{seen[item.at.file, item.code, line]}"


def _log(
    found: Sequence[_Result],
    kept: int,
    checked: Sequence[CaseResult],
    sources_of: SourcesOf,
    unread: Sequence[Unread],
    internal: bool,
) -> str:
    notices: list[str] = []
    if kept < len(found):
        notices.append(
            f"{len(found) - kept} of {len(found)} results are left out: GitHub takes {MOST_RESULTS} and "
            f"{MOST_BYTES} bytes, compressed"
        )
    elif kept > SHOWN_RESULTS:
        notices.append(f"GitHub keeps {SHOWN_RESULTS} of these {kept} results, errors first")
    rules = _rules([r.item for r in found[:kept]])
    number = {rule["id"]: i for i, rule in enumerate(rules)}
    results = [_result(r, number[r.item.code], sources_of, notices) for r in found[:kept]]
    notes = [("error", "internal error (IL902): not every file has a verdict")] * internal + [
        ("warning", text) for text in notices
    ]
    run = {
        "tool": {
            "driver": {
                "name": "Interlock",
                "version": __version__,
                "semanticVersion": __version__,
                "rules": rules,
            }
        },
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {
                "executionSuccessful": not internal,
                "exitCode": exit_code(checked, unread, internal),
                "toolExecutionNotifications": [
                    {"level": level, "message": {"text": text}} for level, text in notes
                ],
            }
        ],
        "results": results,
        "properties": _verdicts(checked, unread),
    }
    return (
        json.dumps(
            to_json_values({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}),
            indent=1,
            ensure_ascii=True,
            allow_nan=False,
        )
        + "\n"
    )


def _verdicts(checked: Sequence[CaseResult], unread: Sequence[Unread]) -> dict:
    """What passes is no result: it stands here, as far as there is room."""
    of = counts(checked)
    each = (
        {
            "file": uri(c.path),
            "schedule": safe(c.name),
            "target" if a.target else "model": a.model,
            "verdict": a.verdict,
            "asExpected": is_expected(c, a),
        }
        for c in checked
        for a in c.answers
    )
    return {
        "summary": summary(checked, unread),
        "outcomes": {o: of[o] for o in OUTCOMES if of[o]},
        "verdicts": [v for _, v in zip(range(MOST_RESULTS), each)],
    }


# ---- rules ----------------------------------------------------------------------------------------


def _rules(found: Sequence[Item]) -> list[dict]:
    """A rule for each code with a result, from its section in spec/."""
    try:
        sections = {s.code: s for s in explain.sections()}
    except FileNotFoundError:
        sections = {}
    levels: dict[str, str] = {}
    for item in found:
        levels[item.code] = "error" if "error" in (levels.get(item.code), item.level) else item.level
    return [_rule(code, level, sections.get(code)) for code, level in sorted(levels.items())]


def _rule(code: str, level: str, s: explain.Section | None) -> dict:
    properties = {
        "precision": "very-high",
        "problem.severity": level,
        "tags": ["pipeline-parallelism", FAMILIES.get(code[2:3], "other")],
    }
    rule = {"id": code, "defaultConfiguration": {"level": level}, "properties": properties}
    if s is None:
        return rule | {key: {"text": code} for key in ("shortDescription", "fullDescription", "help")}
    title = CODES[code].title
    prose = next((" ".join(explain.strip_markdown(p).split()) for p in s.parts if isinstance(p, str)), title)
    return rule | {
        "name": "".join(w.capitalize() for w in re.findall(r"[A-Za-z0-9]+", title)),
        "shortDescription": {"text": _cut(title)},
        "fullDescription": {"text": _cut(prose)},
        "help": {"text": explain.to_text(s), "markdown": explain.to_markdown(s)},
        "properties": properties | {"rule": s.rule},
    }


def _cut(text: str) -> str:
    return text if len(text) <= MOST_TEXT else text[: MOST_TEXT - 3] + "..."


# ---- results --------------------------------------------------------------------------------------


def _result(r: _Result, number: int, sources_of: SourcesOf, notices: list[str]) -> dict:
    item = r.item
    result = {
        "ruleId": item.code,
        "ruleIndex": number,
        "level": item.level,
        "message": _message(item.text),
        "locations": [_location(item.at)],
        "partialFingerprints": {"primaryLocationLineHash": r.fingerprint},
        "properties": {
            key: value
            for key, value in (
                ("schedule", safe(item.schedule)),
                ("models", list(item.models)),
                ("rule", item.diagnostic.rule),
            )
            if value
        },
    }
    others = [
        _location(p, id=i, message=p.label)
        for i, p in enumerate(item.others[:MOST_RELATED], 1)
        if not p.standard
    ]
    if others:
        result["relatedLocations"] = others
    s = item.finding
    if s is not None and s.finding.walk and s.program is not None:
        result["codeFlows"] = [_flow(s, item, sources_of(item.path), notices)]
    return result


def _location(p: Position, **more) -> dict:
    location = {
        key: _message(value) if key == "message" else value
        for key, value in more.items()
        if value not in ("", None)
    }
    return location | {
        "physicalLocation": {
            "artifactLocation": {"uri": uri(p.file)},
            "region": {
                "startLine": p.line,
                "startColumn": p.column,
                "endLine": p.end_line,
                "endColumn": p.end_column,
            },
        }
    }


def _message(text: str) -> dict:
    """`[text](where)` would be a link (section 3.11.6): its brackets are escaped."""
    text = "\n".join(safe(line) for line in text.split("\n"))
    return {"text": re.sub(r"([\\\[\]])", r"\\\1", text) if "](" in text else text}


def _flow(s: MergedFinding, item: Item, sources: Sources | None, notices: list[str]) -> dict:
    """The circle of waits: of each rank its operations in program order, each with what it waits for."""
    ranks: dict[int, list[dict]] = {}
    order = s.program.order
    steps = list(_steps(s.program, s))
    for row, text in steps[:MOST_STEPS]:
        at = (
            find_position(sources, Span(int(order.at[row]), int(order.width[row])))
            if order.at[row] >= 0
            else None
        )
        if at is None or at.standard:  # inserted, or written in a standard skeleton
            at, text = item.at, f"{diagnostics.operation(s.program, row)}: {text}"
        ranks.setdefault(s.program.rank_of(row), []).append({"location": _location(at, message=text)})
    if len(steps) > MOST_STEPS:
        notices.append(
            f"{item.code} of {safe(item.schedule)}: of its {len(steps)} places on the way {MOST_STEPS} are "
            "told"
        )
    return {
        "message": _message(item.diagnostic.message),
        "threadFlows": [
            {"id": f"rank {r}", "message": {"text": f"rank {r}"}, "locations": on}
            for r, on in sorted(ranks.items())
        ],
    }


def _steps(program: Program, s: MergedFinding) -> Iterator[tuple[int, str]]:
    """Each row of the walk and what to say of it, rank by rank along the program."""
    walk = [((*a,), reason, (*b,)) for a, reason, b in s.finding.walk]
    names = {row_of(program, event): name(program, event) for a, _, b in walk for event in (a, b)}
    texts: dict[int, list[str]] = {row: [] for row in names}
    for event, sentence in sentences(Facts(program), s.finding.data.get("model", s.answer.model), walk):
        texts[row_of(program, event)].append(sentence)
    for row, waits in sorted(texts.items()):
        yield row, "; ".join(dict.fromkeys(waits)) or names[row]
