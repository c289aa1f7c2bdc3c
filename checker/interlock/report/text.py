"""The report for people: a line for each schedule, its diagnostics, the picture of a deadlock, and a last
line with the counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from interlock.check.verdict import Answer, CaseResult, Verdict
from interlock.report import diagnostics
from interlock.report.items import error_codes, explain_unmet, name_models, show_expectation
from interlock.report.outcome import (
    MergedFinding,
    Unread,
    is_expected,
    merge_findings,
    outcome,
    raised_codes,
    summary,
)
from interlock.report.style import Paint, count, safe
from interlock.text.finding import Severity
from interlock.text.phrases import join_all
from interlock.text.source import Sources
from interlock.witness.lines import picture

MOST_FINDINGS = 20  # of one schedule, unless verbose
SourcesOf = Callable[[str], Sources | None]


def render(
    checked: Sequence[CaseResult],
    sources_of: SourcesOf,
    *,
    unread: Sequence[Unread] = (),
    paths: Sequence[str] = (),
    internal: bool = False,
    color: bool = False,
    width: int = 80,
    verbose: bool = False,
    box: bool = False,
) -> str:
    """`sources_of(path)`: the sources of a file.

    `unread`: files with input errors, told first. `box`: box-drawing characters may be used.

    What is invalid as expected is told in one line, unless it is all there is or `verbose`.
    """
    paint = Paint(color)
    blocks: list[list[str]] = []
    alone = len(checked) + len(unread) == 1
    for file in unread:
        if file.as_expected:
            blocks.append(
                [
                    f"{safe(file.path)}: refused as expected: "
                    f"{join_all(sorted({d.code for d in file.findings}))}"
                ]
            )
        for d in () if file.as_expected and not (alone or verbose) else file.findings:
            blocks.append(diagnostics.render(d, sources_of(file.path), file.path, width=width, paint=paint))
    for c in checked:
        blocks.append(
            list(
                _schedule(
                    c,
                    sources_of(c.path),
                    paint,
                    width,
                    verbose,
                    verbose or alone or outcome(c) != "invalid as expected",
                    box,
                )
            )
        )
    out: list[str] = []
    for previous, block in zip([[], *blocks], blocks):
        if out and (len(block) > 1 or len(previous) > 1):
            out.append("")  # files of one line each stand close
        out += block
    hint = _hint(checked, unread)
    out += ([""] if out else []) + ([hint] if hint else []) + [paint(summary(checked, unread), "bold")]
    return "\n".join(line.rstrip() for line in out) + "\n"


def _schedule(
    c: CaseResult, sources: Sources | None, paint: Paint, width: int, verbose: bool, full: bool, box: bool
) -> Iterator[str]:
    yield verdict_line(c, paint)
    for a in c.answers:
        if a.verdict in (Verdict.UNKNOWN, Verdict.VACUOUS):
            under = (
                f"for the target {a.model}: "
                if a.target
                else f"under {a.model}: "
                if len(c.answers) > 1
                else ""
            )
            yield from _indent(f"{under}{a.reason}", width)
    if not c.answers:
        yield from _indent("no communication model was asked", width)
    for e in c.expectations:
        if not e.met:
            yield f"{paint('error', 'error')}: {explain_unmet(c, e)}"
        elif verbose:
            yield f"  as expected: {show_expectation(e)}"
    if codes := raised_codes(c):
        yield f"{paint('error', 'error')}: not allowed by the configuration: {join_all(codes)}"
    if verbose:
        yield from (safe(f"  waived: {w.code} because {w.reason}") for w in c.waived)
        yield from _figures(c)
    yield from (f"  known: {d.severity}[{d.code}] {safe(d.message)}" for d in c.warnings if d.known)
    for d in (d for d in c.warnings if not d.known):
        yield ""
        yield from diagnostics.render(d, sources, c.path, width=width, paint=paint)
    if full:
        yield from _findings(c, sources, paint, width, verbose, box)


# ---- the line of a schedule -----------------------------------------------------------------------


def verdict_line(c: CaseResult, paint: Paint) -> str:
    """`vlm.sched: vlm: valid under pair (certificate checked by the kernel)`, the models of one verdict
    together.
    """
    groups: dict[tuple, list[Answer]] = {}
    for a in c.answers:
        certified = a.verdict is Verdict.VALID and bool(a.claims)
        groups.setdefault((a.target, a.verdict, is_expected(c, a), certified, error_codes(a)), []).append(a)
    parts = []
    for (target, verdict, hoped, certified, codes), answers in groups.items():
        text = paint(verdict.value, verdict.value)
        if hoped and verdict is not Verdict.VALID:
            text += " as expected"
        names = [a.model for a in answers]
        text += f" {_name_targets(names)}" if target else f" under {', '.join(names)}"
        if verdict is Verdict.VALID and not target:
            text += " (certificate checked by the kernel)" if certified else " (no certificate)"
        parts.append(text + (f": {', '.join(codes)}" if codes else ""))
    return f"{safe(c.path)}: {safe(c.name)}: " + ("; ".join(parts) or paint("unknown", "unknown"))


def _name_targets(targets: Sequence[str]) -> str:
    return f"for the target{'s' * (len(targets) > 1)} {join_all(targets)}"


def _indent(text: str, width: int) -> list[str]:
    return ["  " + line for line in diagnostics.wrap(text, width - 2)]


def _figures(c: CaseResult) -> Iterator[str]:
    for key, value in c.figures.items():
        yield safe(f"  {key}: {', '.join(map(str, value)) if isinstance(value, (list, tuple)) else value}")
    yield f"  checked in {c.seconds:.2f} s"


# ---- findings -------------------------------------------------------------------------------------


def _findings(
    c: CaseResult, sources: Sources | None, paint: Paint, width: int, verbose: bool, box: bool
) -> Iterator[str]:
    found = sorted(merge_findings(c, every=verbose), key=lambda s: list(Severity).index(s.finding.severity))
    if not verbose:  # the verdict line gives the reason of an unknown
        found = [s for s in found if s.finding.code != "IL901"]
    for s in (s for s in found if s.finding.known):
        d = name_models(s, c)
        yield f"  known: {d.severity}[{d.code}] {safe(d.message)}"
    found = [s for s in found if not s.finding.known]
    most = len(found) if verbose else MOST_FINDINGS
    for s in found[:most]:
        yield ""
        yield from diagnostics.render(name_models(s, c), sources, c.path, width=width, paint=paint)
        yield from _deadlock_picture(s, paint, width, box)
    if len(found) > most:
        yield ""
        yield f"... {count(len(found) - most, 'more finding')} (all with --verbose)"


def _deadlock_picture(s: MergedFinding, paint: Paint, width: int, box: bool) -> Iterator[str]:
    """The ranks' lines of a deadlock, if it was run: `replay` has the rows that ended in `done`."""
    done = getattr(s.answer.replay, "done", None)
    if s.program is None or done is None or s.finding.code not in ("IL402", "IL307") or not s.finding.walk:
        return
    yield ""
    yield f"  replayed: {len(done):,} of {len(s.program.order):,} operations end, then nothing moves"
    for line in picture(s.program, done, s.finding.walk, width - 2, box=box):
        yield "  " + paint.operations(safe(line)) if line else ""


def _hint(checked: Sequence[CaseResult], unread: Sequence[Unread]) -> str:
    codes = sorted(
        {
            f.code
            for c in checked
            if outcome(c) in ("invalid", "not as expected")
            for a in c.answers
            for f in a.errors
        }
        | {d.code for u in unread for d in u.findings}
    )
    return f"`interlock explain {codes[0]}` gives the rule, an example and the repair" if codes else ""
