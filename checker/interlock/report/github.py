"""GitHub's workflow commands, which it shows as annotations at the lines of a change.

Source: "Workflow commands for GitHub Actions" (syntax) and actions/toolkit, packages/core (escapes); of one
step GitHub keeps ten errors and ten warnings. A place of several lines has no columns: GitHub refuses them.
"""

from __future__ import annotations

from collections.abc import Sequence

from interlock.check.verdict import CaseResult
from interlock.report.items import Item, SourcesOf, items
from interlock.report.outcome import Unread, summary
from interlock.report.style import count, safe
from interlock.report.uri import relative
from interlock.text.phrases import join_all

MOST = 10  # annotations of a level that GitHub keeps of one step


def render(
    checked: Sequence[CaseResult],
    sources_of: SourcesOf,
    *,
    unread: Sequence[Unread] = (),
    paths: Sequence[str] = (),
    internal: bool = False,
) -> str:
    """The first MOST errors and warnings, a notice that counts the rest, and the counts of the run as a
    line that is no command.
    """
    out, left = [], {"error": 0, "warning": 0}
    kept = dict(left)
    for item in items(checked, sources_of, unread, paths):
        if kept[item.level] < MOST:
            kept[item.level] += 1
            out.append(_command(item))
        else:
            left[item.level] += 1
    if internal:
        out.insert(0, "::error title=Interlock (IL902)::internal error: not every file has a verdict")
    if any(left.values()):
        rest = join_all([count(n, f"more {level}") for level, n in left.items() if n])
        out.append(
            "::notice "
            f"title=Interlock::{_data(f'{rest}: GitHub shows {MOST} of a kind for each step. {summary(checked, unread)}')}"  # noqa: E501
        )
    return "\n".join([*out, summary(checked, unread)]) + "\n"


def _command(item: Item) -> str:
    at, file = item.at, relative(item.at.file)
    where = {"title": f"Interlock ({item.code})", "file": file, "line": at.line}
    if at.end_line == at.line:
        where |= {"col": at.column}
    where |= {"endLine": at.end_line}
    if at.end_line == at.line:
        where |= {"endColumn": at.end_column}
    first, *rest = item.text.split("\n")
    message = "\n".join(
        [f"{file}:{at.line}:{at.column}: {item.code} {first}", *(f"  {line}" for line in rest)]
    )
    return (
        f"::{item.level} "
        f"{','.join(f'{key}={_property(str(value))}' for key, value in where.items())}::{_data(message)}"
    )


def _data(text: str) -> str:
    """Only %, CR and LF have a meaning there; what could move a cursor is shown as an escape."""
    return "%0A".join(safe(line).replace("%", "%25") for line in text.split("\n"))


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
