"""Findings with places in the text, and as text: code, place, the text as written with carets,
cause, help.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import replace

from interlock.program.ir import Program
from interlock.report.snippet import GAP, Place, lines_of
from interlock.report.style import Paint, safe
from interlock.rules.memory import MOMENT, show_bytes
from interlock.text.finding import Finding, Mark
from interlock.text.source import Source, Sources, Span

WHOLE = "in this schedule"  # what is said at the place of a schedule, for a finding without one
MOST_STORY = 16  # sentences of a walk that are printed


def locate(
    finding: Finding, program: Program | None, at: int = -1, width: int = 0, detail: tuple[str, ...] = ()
) -> Finding:
    """The finding with spans of the sources in place of rows.

    Operations without one (inserted transfers) are named with rank and number instead.

    `at`, `width`: the place of the schedule, for a finding without any. `detail`: further lines of note.
    """
    marks, without = [], []
    for mark in finding.marks:
        place = int(program.order.at[mark.row]) if program is not None else -1
        if place >= 0:
            marks.append(Mark(Span(place, int(program.order.width[mark.row])), mark.label))
        elif program is not None:
            without.append(f"{operation(program, mark.row)}{': ' if mark.label else ''}{mark.label}")
    if not marks and at >= 0:
        marks = [Mark(Span(at, width), "" if without else WHOLE)]
    notes = (*without, *_figures(finding, program), *story_lines(finding), *detail)
    return replace(finding, message=_message(finding), marks=tuple(marks), detail=notes)


def operation(program: Program, row: int) -> str:
    """`rank 0, operation 12: 0SEND_F1`, counted from 1 along the rank."""
    rank = program.rank_of(row)
    inserted = ", inserted" if program.order.at[row] < 0 <= int(program.order.at.max(initial=-1)) else ""
    return f"rank {rank}, operation {row - int(program.order.start[rank]) + 1}{inserted}: {program.show(row)}"


def _message(finding: Finding) -> str:
    """Of bytes too many the first clause; what is live stands in the notes."""
    return finding.message.split(MOMENT)[0] if "live" in finding.data else finding.message


def _figures(finding: Finding, program: Program | None) -> Iterator[str]:
    data = finding.data
    if "live" not in data:
        return
    parts = [f"static {show_bytes(data['static'])}"] + [
        f"{x['count']} x {x['part']} {show_bytes(x['bytes'])}" for x in data["live"]
    ]
    when = (
        f"while {program.show(finding.marks[0].row)} runs: " if finding.marks and program is not None else ""
    )
    yield f"{when}{' + '.join(parts)}"
    yield f"peak {data['peak']:,} bytes, limit {data['limit']:,}: {data['excess']:,} bytes too many"


def story_lines(finding: Finding) -> list[str]:
    """The sentences of a walk, one for each wait; of a long walk the first ones and the last."""
    story = list(finding.data.get("story", ()))
    if len(story) > MOST_STORY:
        story = story[: MOST_STORY - 1] + [f"... {len(story) - MOST_STORY} more waits"] + story[-1:]
    if story and not finding.data.get("shortest", True):
        story.append("a shorter circle may exist: the search for the shortest one was cut off")
    return story


def render(
    finding: Finding, sources: Sources | None, path: str, *, width: int = 80, paint: Paint | None = None
) -> list[str]:
    """Lines in the shape of rustc. `path` names the file where there is no place."""
    paint = paint or Paint(False)
    kind = finding.severity
    lines = [paint(f"{kind}[{safe(finding.code)}]", kind) + paint(f": {safe(finding.message)}", "bold")]
    groups = _groups(finding, sources)
    gutter = max((len(str(max(rows))) for _, rows in groups), default=1)
    for number, (source, rows) in enumerate(groups):
        where = _first_place(rows) if number else _primary_place(rows)
        lines.append(
            " " * gutter
            + paint("-->" if number == 0 else ":::", "gutter")
            + f" {safe(source.name)}:{where[0]}:{where[1] + 1}"
        )
        lines.append(" " * gutter + paint(" |", "gutter"))
        lines += _source_lines(source, rows, gutter, width, paint, kind)
    if not groups:
        lines.append(" " * gutter + paint("-->", "gutter") + f" {safe(path)}")
    for text in finding.detail:
        lines += _note_lines("note", text, gutter, width, paint)
    if finding.help:
        lines += _note_lines("help", finding.help, gutter, width, paint)
    return lines


Rows = dict[int, list[Place]]


def _groups(finding: Finding, sources: Sources | None) -> list[tuple[Source, Rows]]:
    """The labelled lines of each source, that of the primary label first."""
    groups: dict[int, tuple[Source, Rows]] = {}
    for number, mark in enumerate(finding.marks):
        source = sources.of(mark.span.at) if sources is not None else None
        if source is None:
            continue
        offset = min(mark.span.at - source.base, len(source.text))
        line, column = source.line_column(source.base + offset)
        end = min(
            column - 1 + max(mark.span.width, 1), max(len(source.line(line)), column)
        )  # of many lines the first
        rows = groups.setdefault(source.base, (source, {}))[1]
        rows.setdefault(line, []).append(Place(column - 1, end, mark.label, number == 0))
    return list(groups.values())


def _primary_place(rows: Rows) -> tuple[int, int]:
    return next(
        ((line, p.first) for line, places in rows.items() for p in places if p.primary), _first_place(rows)
    )


def _first_place(rows: Rows) -> tuple[int, int]:
    line = min(rows)
    return line, min(p.first for p in rows[line])


def _source_lines(
    source: Source, rows: Rows, gutter: int, width: int, paint: Paint, role: str
) -> Iterator[str]:
    room = max(width - gutter - 3, 20)
    last = None
    for line in sorted(rows):
        if last is not None and line == last + 2:
            (plain,) = list(lines_of(source.line(last + 1), [], room, paint, role))[:1]
            yield f"{paint(f'{last + 1:>{gutter}} |', 'gutter')} {plain}".rstrip()
        elif last is not None and line > last + 2:
            yield paint(GAP, "gutter")
        shown, *below = lines_of(source.line(line), rows[line], room, paint, role)
        yield f"{paint(f'{line:>{gutter}} |', 'gutter')} {shown}".rstrip()
        for text in below:
            yield f"{' ' * gutter}{paint(' |', 'gutter')} {text}"
        last = line


def _note_lines(word: str, text: str, gutter: int, width: int, paint: Paint) -> list[str]:
    """`= note: ...`, wrapped under its first word."""
    lead = " " * (gutter + 1)
    indent = len(lead) + len(word) + 4
    lines = wrap(text, width - indent)
    return [
        f"{lead}{paint('=', 'gutter')} {paint(word, word)}: {lines[0]}",
        *(" " * indent + line for line in lines[1:]),
    ]


def wrap(text: str, width: int) -> list[str]:
    """At least one line. What is in parentheses or braces, and a number and its unit, stay together."""
    glued = _TOGETHER.sub(lambda m: m[0].replace(" ", "\xa0") if len(m[0]) <= width else m[0], safe(text))
    lines = textwrap.wrap(glued, max(width, 24), break_long_words=False, break_on_hyphens=False)
    return [line.replace("\xa0", " ") for line in lines] or [""]


_TOGETHER = re.compile(r"\([^()]{0,30}\)|\{[^{}]{0,50}\}|\d [KMGT]?i?B\b|\brank \d")
