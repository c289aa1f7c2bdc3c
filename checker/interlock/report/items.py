"""What a run has to say, one item each, file by file: what fails, and what warns.

What is as expected or in the baseline is no item, nor are notes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from interlock.check.verdict import Answer, CaseResult, Expectation, Verdict
from interlock.report import diagnostics
from interlock.report.outcome import MergedFinding, Unread, concerns, is_expected, merge_findings
from interlock.text.codes import rule_of
from interlock.text.finding import Finding, Mark, Severity
from interlock.text.phrases import join_all
from interlock.text.source import Sources, Span

SourcesOf = Callable[[str], Sources | None]
UNDECIDED, VACUOUS, UNMET = "IL903", "IL904", "IL905"


@dataclass(frozen=True)
class Position:
    """A place in a file, as people count: lines and columns (in characters) from 1; `end_column` is the
    first one after. `text`: its line.
    """

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    label: str = ""
    text: str = ""

    @property
    def standard(self) -> bool:
        """In a standard skeleton, which comes with Interlock and is no file of the user's."""
        return self.file.startswith("spec/std/")


@dataclass(frozen=True)
class Item:
    """`at` lies in the file checked, or in one it uses; `others` are the further places.

    `schedule` and `models` are empty for input errors.

    `level`: error or warning. `finding`: what was found, for what is more than a diagnostic.
    """

    path: str
    diagnostic: Finding
    at: Position
    others: tuple[Position, ...] = ()
    schedule: str = ""
    models: tuple[str, ...] = ()
    finding: MergedFinding | None = None

    @property
    def code(self) -> str:
        return self.diagnostic.code

    @property
    def level(self) -> str:
        return self.diagnostic.severity

    @property
    def text(self) -> str:
        """The message, what the notes say, and the help, a line each."""
        d = self.diagnostic
        where = [
            f"{o.label}: {o.file}:{o.line}:{o.column}"
            for o in (self.at, *self.others)
            if o.label not in ("", diagnostics.WHOLE)
        ]
        return "\n".join([d.message, *where, *d.detail, *([f"help: {d.help}"] if d.help else [])])


def group_by_file(
    checked: Sequence[CaseResult], unread: Sequence[Unread], paths: Sequence[str]
) -> Iterator[tuple[str, list[Unread], list[CaseResult]]]:
    """The files in the order they were checked, each with what kept it from being read and with its
    schedules.
    """
    found: dict[str, tuple[list[Unread], list[CaseResult]]] = {path: ([], []) for path in paths}
    for which, things in enumerate((unread, checked)):
        for thing in things:
            found.setdefault(thing.path, ([], []))[which].append(thing)
    yield from ((path, *of) for path, of in found.items())


def items(
    checked: Sequence[CaseResult],
    sources_of: SourcesOf,
    unread: Sequence[Unread] = (),
    paths: Sequence[str] = (),
) -> Iterator[Item]:
    """Of each file its input errors, then schedule by schedule: expectations not met, verdicts that say
    nothing, warnings, findings.
    """
    for path, refused, schedules in group_by_file(checked, unread, paths):
        sources = sources_of(path)
        for d in (d for u in refused if not u.as_expected for d in u.findings if not d.known):
            yield _item(path, d, sources)
        for c in schedules:
            yield from _schedule_items(c, sources)


def _schedule_items(c: CaseResult, sources: Sources | None) -> Iterator[Item]:
    for e in c.expectations:
        if not e.met and not c.excused:
            yield _item(
                c.path,
                _finding_at_schedule(c, UNMET, f"{c.name}: {explain_unmet(c, e)}"),
                sources,
                c,
                e.models,
            )
    for models, d in verdicts(c):
        yield _item(c.path, d, sources, c, models)
    for d in c.warnings:
        if not d.known:
            yield _item(c.path, d, sources, c)
    for s in findings(c):
        yield _item(c.path, name_models(s, c), sources, c, s.models, s)


def verdicts(c: CaseResult) -> Iterator[tuple[tuple[str, ...], Finding]]:
    """The models whose verdict is unknown, or vacuous where nothing expects it, by reason; each with a
    warning that says so.
    """
    groups: dict[tuple, list[Answer]] = {}
    for a in c.answers or (Answer("", reason="no communication model was asked"),):
        if a.verdict is Verdict.UNKNOWN or a.verdict is Verdict.VACUOUS and not is_expected(c, a):
            groups.setdefault(
                (a.verdict, a.target, a.reason, any(f.code == "IL901" for f in a.findings)), []
            ).append(a)
    for (verdict, target, reason, asked), answers in groups.items():
        models = tuple(a.model for a in answers if a.model)
        about = "" if not models else f" for {join_all(models)}" if target else f" under {join_all(models)}"
        code = VACUOUS if verdict is Verdict.VACUOUS else "IL901" if asked else UNDECIDED
        yield (
            models,
            _finding_at_schedule(
                c,
                code,
                f"{c.name}: {verdict.value}{about}: {reason}",
                Severity.WARNING,
            ),
        )


def findings(c: CaseResult) -> list[MergedFinding]:
    """Each error and warning once, errors first; not known ones, and of a verdict that is invalid as
    expected only what the configuration raised.
    """
    loose = tuple(
        replace(a, findings=tuple(f for f in a.findings if f.raised))
        if a.verdict is Verdict.INVALID and is_expected(c, a)
        else a
        for a in c.answers
    )
    found = [
        s
        for s in merge_findings(replace(c, answers=loose))
        if s.finding.severity is not Severity.NOTE and not s.finding.known
    ]
    return sorted(found, key=lambda s: not s.finding.is_error)


def name_models(s: MergedFinding, c: CaseResult) -> Finding:
    """A finding with the models it holds under: all of them for a deadlock, else those that differ from the
    rest.
    """
    f, detail = s.finding, ()
    if f.code == "IL402" and f.data.get("cause"):
        f = replace(f, message=f"deadlock under {join_all(f'`{m}`' for m in s.models)}: {f.data['cause']}")
    elif s.answer.target:
        detail = (f"for the target{'s' * (len(s.models) > 1)} {join_all(s.models)}",)
    elif len(s.models) < sum(not a.target for a in c.answers) and f.code != "IL307":
        detail = (f"only under {join_all(f'`{m}`' for m in s.models)}",)
    return diagnostics.locate(f, s.program, c.at, c.width, detail)


def show_expectation(e: Expectation) -> str:
    return (
        e.verdict.value
        + (f" {e.code}" if e.code else "")
        + (f" under {', '.join(e.models)}" if e.models else "")
    )


def explain_unmet(c: CaseResult, e: Expectation) -> str:
    """What an expectation asks, and what was found instead."""
    found: dict[str, list[str]] = {}
    for a in c.answers:
        if concerns(e, a):
            codes = error_codes(a)
            found.setdefault(a.verdict.value + (f" ({', '.join(codes)})" if codes else ""), []).append(
                a.model
            )
    if not found:
        return f"expected {show_expectation(e)}, which was not asked"
    if e.verdict is Verdict.UNKNOWN and set(found) == {"unknown"}:
        return "expected unknown, found unknown: an unknown never passes"
    one = len(found) == 1
    return f"expected {show_expectation(e)}, found " + join_all(
        v if one else f"{v} under {', '.join(models)}" for v, models in found.items()
    )


def error_codes(a: Answer) -> tuple[str, ...]:
    return tuple(sorted({f.code for f in a.errors})) if a.verdict is Verdict.INVALID else ()


# ---- places ---------------------------------------------------------------------------------------


def _finding_at_schedule(
    c: CaseResult, code: str, message: str, severity: Severity = Severity.ERROR
) -> Finding:
    marks = (Mark(Span(c.at, c.width)),) if c.at >= 0 else ()
    return Finding(code, rule_of(code), message, marks, severity=severity)


def _item(
    path: str,
    d: Finding,
    sources: Sources | None,
    c: CaseResult | None = None,
    models: Sequence[str] = (),
    s: MergedFinding | None = None,
) -> Item:
    places = [p for p in (find_position(sources, m.span, m.label) for m in d.marks) if p is not None]
    own = [p for p in places if not p.standard or p.file == path]
    here = find_position(sources, Span(c.at, c.width)) if c is not None and c.at >= 0 else None
    at = own[0] if own else here or Position(path, 1, 1, 1, 1)
    return Item(path, d, at, tuple(p for p in places if p is not at), c.name if c else "", tuple(models), s)


def find_position(sources: Sources | None, span: Span, label: str = "") -> Position | None:
    """Where a span lies; None for a place in no source.

    It has at least one character, unless its line has none.
    """
    source = sources.of(span.at) if sources is not None else None
    if source is None:
        return None
    offset = min(span.at - source.base, len(source.text))
    line, column = source.line_column(source.base + offset)
    end = min(offset + max(span.width, 0), len(source.text))
    end_line, end_column = source.line_column(source.base + end)
    if (end_line, end_column) == (line, column) and column <= len(source.line(line)):
        end_column += 1
    return Position(source.name, line, column, end_line, end_column, label, source.line(line))
