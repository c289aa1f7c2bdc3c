"""A line for each finding, as compilers and editors have them; then the verdict of each schedule, and the
counts.
"""

from __future__ import annotations

from collections.abc import Sequence

from interlock.check.verdict import CaseResult
from interlock.report.items import Item, SourcesOf, items
from interlock.report.outcome import Unread, summary
from interlock.report.style import Paint, safe
from interlock.report.text import verdict_line
from interlock.text.phrases import join_all


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
    """No line is wrapped and none is drawn: of the options for terminals only `color` counts."""
    paint = Paint(color)
    out = [line(item, paint) for item in items(checked, sources_of, unread, paths)]
    out += [
        f"{safe(u.path)}: refused as expected: {join_all(sorted({d.code for d in u.findings}))}"
        for u in unread
        if u.as_expected
    ]
    out += [verdict_line(c, paint) for c in checked]
    return "\n".join([*out, paint(summary(checked, unread), "bold")]) + "\n"


def line(item: Item, paint: Paint = Paint(False)) -> str:
    """`vlm.sched:12:27: error[IL402] deadlock under `pair`: ranks 0 and 1 wait for each other`"""
    return (
        f"{safe(item.at.file)}:{item.at.line}:{item.at.column}: "
        f"{paint(f'{item.level}[{safe(item.code)}]', item.level)} {safe(item.diagnostic.message)}"
    )
