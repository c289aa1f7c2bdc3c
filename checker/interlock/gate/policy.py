"""A configuration applied to what was found: its waivers, then its severities. Errors of rules are left as
they are (spec/gate.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from interlock.check.verdict import CaseResult
from interlock.gate import globs
from interlock.gate.config import Allow, Config
from interlock.gate.waivers import RULE, waive, would_find
from interlock.text.finding import Finding, Mark, Severity
from interlock.text.source import Span


def apply(results: Sequence, config: Config) -> list:
    """The FileResults as the configuration wants them. A waiver of it that waives nothing in the files it
    names is reported (IL906).
    """
    results, used = list(results), set()
    for number, result in enumerate(results):
        mine = [a for a in config.allow if globs.matches(config.relative(result.path), a.path)]
        if mine:
            results[number] = _allow(result, mine, used, config)
    for allow in config.allow:
        if allow not in used:
            _report(results, allow, config)
    return (
        [replace(r, checked=tuple(_severities(c, config.severity) for c in r.checked)) for r in results]
        if config.severity
        else results
    )


def _allow(result, mine: Sequence[Allow], used: set[Allow], config: Config):
    base = None

    def waiver_of(code: str, _: int):
        nonlocal base
        allow = next((a for a in mine if a.code == code), None)
        if allow is None:
            return None
        used.add(allow)
        if base is None:
            base = _base(result, config)
        return allow.reason, Span(base + allow.span.at, allow.span.width)

    return replace(result, checked=tuple(waive(c, waiver_of) for c in result.checked))


def _base(result, config: Config) -> int:
    """Where the configuration lies in the sources of a file; it is added to them once."""
    name, text = config.source.name, config.source.text
    found = next((s for s in result.sources if (s.name, s.text) == (name, text)), None)
    return (found or result.sources.add(name, text)).base


def _report(results: list, allow: Allow, config: Config) -> None:
    """At the first schedule of the files it names, if all of them were decided."""
    named = [
        n for n, r in enumerate(results) if r.checked and globs.matches(config.relative(r.path), allow.path)
    ]
    if not named or not all(would_find(c, allow.code) for n in named for c in results[n].checked):
        return
    result = results[named[0]]
    base = _base(result, config)
    d = Finding.of_input(
        "IL906",
        f"this waiver waives nothing: no `{allow.code}` that could be waived was found in {allow.path}",
        (Mark(Span(base + allow.span.at, allow.span.width), ""),),
        "delete it",
        Severity.WARNING,
        RULE,
    )
    first = result.checked[0]
    results[named[0]] = replace(
        result, checked=(replace(first, warnings=(*first.warnings, d)), *result.checked[1:])
    )


def _severities(checked: CaseResult, severity: dict[str, str]) -> CaseResult:
    answers = tuple(
        replace(a, findings=tuple(f for g in a.findings if (f := _finding(g, severity)) is not None))
        for a in checked.answers
    )
    warnings = tuple(d for e in checked.warnings if (d := _diagnostic(e, severity)) is not None)
    return replace(checked, answers=answers, warnings=warnings)


def _finding(finding, severity: dict[str, str]):
    wanted = severity.get(finding.code)
    if wanted is None or finding.is_error:
        return finding
    return None if wanted == "off" else replace(finding, severity=Severity(wanted), raised=wanted == "error")


def _diagnostic(diagnostic: Finding, severity: dict[str, str]):
    wanted = severity.get(diagnostic.code)
    return (
        diagnostic
        if wanted is None
        else None
        if wanted == "off"
        else replace(diagnostic, severity=Severity(wanted))
    )
