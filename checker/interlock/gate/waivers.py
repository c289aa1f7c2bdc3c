"""Waivers in a schedule's own text: `# interlock: allow IL502 because the encoder is small` (spec/gate.md,
IL906 and IL907).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from interlock.check import files
from interlock.check.files import FileResult
from interlock.check.verdict import Answer, CaseResult, Verdict, Waived
from interlock.gate import waivable
from interlock.load import Question, header_expects_errors
from interlock.text.codes import CODES
from interlock.text.finding import Finding, InputError, Mark, Severity
from interlock.text.source import Source, Span

RULE = "R-GATE-1"
FORM = "write `# interlock: allow IL502 because the encoder is small`"
_COMMENT = re.compile(r'"[^"\n]*"|#([^\n]*)')
_OURS = re.compile(r"\s*interlock\s*:\s*(.*?)\s*")
_ALLOW = re.compile(r"allow\s+(IL\d+(?:\s*,\s*IL\d+)*)(?:\s+because\b\s*(.*))?")


@dataclass(frozen=True)
class Waiver:
    """`line`: the line it is about: its own, or that below the comments it stands in."""

    codes: tuple[str, ...]
    reason: str
    line: int
    span: Span


def check_file(path: str, data: bytes, question: Question = Question()) -> FileResult:
    """A file checked, and what its own text lets pass taken out of the findings. Raises Disagreement."""
    result = files.check_file(path, data, question)
    if result.errors or PurePath(path).suffix.lower() in (".csv", ".json"):
        return result
    [source, *_] = result.sources
    try:
        return replace(result, checked=apply(result.checked, source, *read(source)))
    except InputError as refused:
        expected = header_expects_errors(source.text, refused.findings)
        return FileResult(path, result.sources, (), refused.findings, expected)


def read(source: Source) -> tuple[list[Waiver], list[Finding]]:
    """The waivers of a text, and what is wrong with them (IL906). Raises InputError (IL907) for one that
    names an error.
    """
    waivers, wrong, refused = [], [], []
    for text, span in _comments_to_interlock(source):
        match = _ALLOW.fullmatch(text)
        if match is None:
            wrong.append(_warning("this comment is no waiver", span, "after `interlock:`", FORM))
            continue
        codes = tuple(dict.fromkeys(re.split(r"\s*,\s*", match[1])))
        for code in codes:
            if code not in CODES:
                wrong.append(
                    _warning(
                        f"this waiver names `{code}`, which is no code",
                        span,
                        "",
                        "`interlock explain` lists the codes",
                    )
                )
            elif not waivable.is_waivable(code):
                refused.append(
                    Finding.of_input(
                        "IL907",
                        waivable.explain_refusal(code),
                        (Mark(span, "waives it"),),
                        waivable.suggest_instead(code),
                        rule="R-GATE-2",
                    )
                )
        if not match[2]:
            wrong.append(_warning("this waiver gives no reason, and waives nothing", span, "", FORM))
            continue
        waivers.append(
            Waiver(
                tuple(c for c in codes if waivable.is_waivable(c)),
                match[2],
                _line_covered(source, span),
                span,
            )
        )
    if refused:
        raise InputError(*refused)
    return waivers, wrong


def _comments_to_interlock(source: Source) -> Iterator[tuple[str, Span]]:
    """The comments that speak to Interlock: what they say, and their places."""
    if "interlock" not in source.text:
        return
    for match in _COMMENT.finditer(source.text):
        if match[1] is not None and (ours := _OURS.fullmatch(match[1])):
            yield ours[1], Span(source.base + match.start(), len(match[0].rstrip()))


def _line_covered(source: Source, span: Span) -> int:
    line, column = source.line_column(span.at)
    if source.line(line)[: column - 1].strip():
        return line
    while line <= source.line_count and source.line(line).lstrip().startswith("#"):
        line += 1
    return line


def apply(
    checked: Sequence[CaseResult], source: Source, waivers: Sequence[Waiver], wrong: Sequence[Finding]
) -> tuple[CaseResult, ...]:
    """Takes what is waived out of the findings, and reports waivers that are wrong or waive nothing
    (IL906).
    """
    if not waivers and not wrong:
        return tuple(checked)
    used: set[tuple[Waiver, str]] = set()

    def allowed(code: str, lines: set[int]) -> Waiver | None:
        found = next((w for w in waivers if code in w.codes and w.line in lines), None)
        if found is not None:
            used.add((found, code))
        return found

    out = [_waive_by_line(c, source, allowed) for c in checked]
    problems = [
        *wrong,
        *(
            _unused(w, code)
            for w in waivers
            for code in w.codes
            if (w, code) not in used and all(would_find(c, code) for c in checked)
        ),
    ]
    for d in sorted(problems, key=lambda d: d.marks[0].span.at):
        mine = max(
            (i for i, c in enumerate(out) if c.at <= d.marks[0].span.at), key=lambda i: out[i].at, default=0
        )
        if out:
            out[mine] = replace(out[mine], warnings=(*out[mine].warnings, d))
    return tuple(out)


def would_find(checked: CaseResult, code: str) -> bool:
    """Whether a finding with this code would have been found: nothing is open, and a target was asked if it
    is one of a target.
    """
    return checked.verdict is not Verdict.UNKNOWN and (
        code[:3] != "IL8" or any(a.target for a in checked.answers)
    )


def waive(checked: CaseResult, waiver_of) -> CaseResult:
    """Without what `waiver_of(finding or diagnostic, its place)` gives a waiver for (reason, place), if it is
    a warning or a note.
    """
    waived: dict[tuple, Waived] = {}

    def kept(items, at_of, mild_one):
        for item in items:
            found = (
                waiver_of(item.code, at_of(item))
                if mild_one(item) and waivable.is_waivable(item.code)
                else None
            )
            if found is None:
                yield item
            else:
                reason, span = found
                waived.setdefault(
                    (item.code, item.message), Waived(item.code, item.message, reason, span.at, span.width)
                )

    answers = tuple(
        replace(
            a,
            findings=tuple(
                kept(a.findings, lambda f, a=a: primary_place(f, a, checked), lambda f: not f.is_error)
            ),
        )
        for a in checked.answers
    )
    warnings = tuple(
        kept(
            checked.warnings,
            lambda d: d.marks[0].span.at if d.marks else checked.at,
            lambda d: not d.is_error,
        )
    )
    return (
        replace(checked, answers=answers, warnings=warnings, waived=(*checked.waived, *waived.values()))
        if waived
        else checked
    )


def primary_place(finding: Finding, answer: Answer, checked: CaseResult) -> int:
    """The finding's primary place in the sources: of its first operation that is written, else of the
    schedule.
    """
    places = (
        (int(answer.program.order.at[m.row]) for m in finding.marks) if answer.program is not None else ()
    )
    return next((at for at in places if at >= 0), checked.at)


def _waive_by_line(checked: CaseResult, source: Source, allowed) -> CaseResult:
    def line(at: int) -> set[int]:
        return {source.line_column(at)[0]} if source.base <= at <= source.base + len(source.text) else set()

    def waiver_of(code: str, at: int):
        found = allowed(code, line(at) | line(checked.at))
        return None if found is None else (found.reason, found.span)

    return waive(checked, waiver_of)


def _unused(waiver: Waiver, code: str) -> Finding:
    return _warning(
        f"this waiver waives nothing: there is no `{code}` here that could be waived",
        waiver.span,
        "",
        "delete it, or put it on the line of the finding, directly above, or at the schedule's line",
    )


def _warning(message: str, span: Span, label: str, help: str) -> Finding:
    return Finding.of_input("IL906", message, (Mark(span, label),), help, Severity.WARNING, RULE)
