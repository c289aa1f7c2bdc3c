"""JUnit XML as CI systems read it: a suite for each file, a case for each schedule and model.

Of Jenkins' junit-10.xsd, what all of them know.

What is unknown or vacuous is an `error`, never `skipped`: gates let skipped cases pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from interlock.check.verdict import Answer, CaseResult, Verdict
from interlock.report import diagnostics
from interlock.report.items import UNMET, SourcesOf, explain_unmet, group_by_file, show_expectation
from interlock.report.outcome import Unread, exit_code, is_expected
from interlock.report.style import count, safe
from interlock.text.finding import Finding
from interlock.text.source import Sources

MOST_FINDINGS = 20  # of one case that are told in full
WIDTH = 100


@dataclass(frozen=True)
class Case:
    """`kind`: failure or error, "" if it passes.

    `type`: a code, or the verdict. `text`: the report, `out`: what else there is to know.
    """

    name: str
    kind: str = ""
    type: str = ""
    message: str = ""
    text: str = ""
    out: str = ""
    seconds: float = 0.0


def render(
    checked: Sequence[CaseResult],
    sources_of: SourcesOf,
    *,
    unread: Sequence[Unread] = (),
    paths: Sequence[str] = (),
    internal: bool = False,
) -> str:
    suites = [
        (
            path,
            [case for u in refused for case in _input_cases(u, sources_of(path))]
            + [case for c in schedules for case in _schedule_cases(c, sources_of(path))],
        )
        for path, refused, schedules in group_by_file(checked, unread, paths)
    ]
    if internal:
        suites.append(
            ("interlock", [Case("check", "error", "IL902", "internal error: not every file has a verdict")])
        )
    elif not any(cases for _, cases in suites) and exit_code(checked, unread):
        suites.append(("interlock", [Case("check", "error", "nothing checked", "nothing was checked")]))
    every = [case for _, cases in suites for case in cases]
    out = ['<?xml version="1.0" encoding="utf-8"?>', f'<testsuites name="interlock" {_totals(every)}>']
    for path, cases in suites:
        out.append(f'  <testsuite name={_attribute(path)} {_totals(cases)} skipped="0">')
        out += [line for case in cases for line in _case(path, case)]
        out.append("  </testsuite>")
    return "\n".join([*out, "</testsuites>"]) + "\n"


# ---- cases ----------------------------------------------------------------------------------------


def _input_cases(u: Unread, sources: Sources | None) -> Iterator[Case]:
    told = "\n\n".join(_render(d, sources, u.path) for d in u.findings)
    if u.as_expected:
        yield Case("read", out=f"refused as expected\n\n{told}")
    else:
        first = u.findings[0] if u.findings else Finding.of_input("unreadable", "the file could not be read")
        yield Case("read", "error", first.code, first.message, told)


def _schedule_cases(c: CaseResult, sources: Sources | None) -> Iterator[Case]:
    """One for each answer; one for each expectation that is not met, and for each warning of the text that
    the configuration raised.
    """
    seconds = c.seconds / max(len(c.answers), 1)
    for a in c.answers:
        yield _answer_case(c, a, sources, seconds)
    if not c.answers:
        yield Case(c.name, "error", "unknown", "no communication model was asked", seconds=seconds)
    for e in c.expectations:
        if not e.met and not c.excused:
            yield Case(
                f"{c.name}: expect {show_expectation(e)}",
                "failure",
                UNMET,
                explain_unmet(c, e),
                explain_unmet(c, e),
            )
    for d in c.warnings:
        if d.is_error and not d.known:
            yield Case(f"{c.name}: {d.code}", "failure", d.code, d.message, _render(d, sources, c.path))


def _answer_case(c: CaseResult, a: Answer, sources: Sources | None, seconds: float) -> Case:
    """It fails by what the verdict does not excuse: errors neither expected nor known, and what the
    configuration raised.
    """
    name = f"{c.name} for the target {a.model}" if a.target else f"{c.name} under {a.model}"
    hoped = is_expected(c, a)
    failing = [f for f in a.findings if f.is_error and not f.known and (f.raised or not hoped)]
    others = [f for f in a.findings if f not in failing]
    told = "\n\n".join(
        [*(_render_finding(f, c, a, sources) for f in failing[:MOST_FINDINGS]), *_more(failing)]
    )
    head = (
        [f"{a.verdict.value} as expected"]
        if hoped and a.verdict is not Verdict.VALID
        else ["known: in the baseline"]
        if any(f.known for f in others)
        else []
    )
    reason = [a.reason] if a.verdict is Verdict.VACUOUS and hoped else []
    out = "\n\n".join(
        [
            *head,
            *reason,
            *(_render_finding(f, c, a, sources) for f in others[:MOST_FINDINGS]),
            *_more(others),
            *(_render(d, sources, c.path) for d in c.warnings if not d.is_error),
        ]
    )
    if a.verdict is Verdict.UNKNOWN or a.verdict is Verdict.VACUOUS and not hoped:
        return Case(
            name,
            "error",
            a.verdict.value,
            f"{a.verdict.value}: {a.reason}",
            "\n\n".join(filter(None, (a.reason, told))),
            out,
            seconds,
        )
    if failing:
        return Case(name, "failure", failing[0].code, failing[0].message, told, out, seconds)
    if a.verdict is Verdict.INVALID and not hoped and not a.errors:
        return Case(name, "failure", "invalid", "invalid", out=out, seconds=seconds)
    return Case(name, out=out, seconds=seconds)


def _more(found: Sequence[Finding]) -> list[str]:
    return [f"... {count(len(found) - MOST_FINDINGS, 'more finding')}"] if len(found) > MOST_FINDINGS else []


def _render_finding(f: Finding, c: CaseResult, a: Answer, sources: Sources | None) -> str:
    return _render(diagnostics.locate(f, a.program, c.at, c.width), sources, c.path)


def _render(d: Finding, sources: Sources | None, path: str) -> str:
    return "\n".join(line.rstrip() for line in diagnostics.render(d, sources, path, width=WIDTH))


# ---- XML ------------------------------------------------------------------------------------------


def _totals(cases: Sequence[Case]) -> str:
    kinds = [case.kind for case in cases]
    seconds = sum(case.seconds for case in cases)
    return (
        f'tests="{len(cases)}" failures="{kinds.count("failure")}" errors="{kinds.count("error")}" '
        f'time="{seconds:.3f}"'
    )


def _case(path: str, case: Case) -> Iterator[str]:
    head = (
        f'    <testcase classname={_attribute(path)} name={_attribute(case.name)} time="{case.seconds:.3f}"'
    )
    if not case.kind and not case.out:
        yield f"{head}/>"
        return
    yield f"{head}>"
    if case.kind:
        yield (
            f"      <{case.kind} type={_attribute(case.type)} "
            f"message={_attribute(case.message)}>{_text(case.text)}</{case.kind}>"
        )
    if case.out:
        yield f"      <system-out>{_text(case.out)}</system-out>"
    yield "    </testcase>"


def _text(text: str) -> str:
    """XML has no way to write most control characters, nor half a pair of surrogates: they are shown as
    escapes.
    """
    return "\n".join(escape(safe(line)) for line in text.split("\n"))


def _attribute(text: str) -> str:
    return quoteattr(safe(text))
