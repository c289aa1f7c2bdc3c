"""`interlock compare`: several schedules in one table and one figure."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from interlock.cli.options import add_picture_options
from interlock.cli.pictures import Undrawable, canvas, choose, draw_from, form_of, put
from interlock.cli.terminal import report_usage
from interlock.report.timeline import html, svg
from interlock.report.timeline import terminal as drawing
from interlock.report.timeline.layout import Scene
from interlock.report.timeline.scenes import Drawing, NothingToDraw, scene

COLUMNS = ("makespan", "bubble", "steady period", "peak memory", "in flight", "transfers")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Compares the schedules of files: a table, and their timelines over one axis of time."
    )
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="FILE",
        help=".sched files, PyTorch CSVs and measured timelines (.json); every schedule in them is compared",
    )
    parser.add_argument(
        "--schedule", metavar="NAME", action="append", help="only this schedule; may be given again"
    )
    parser.add_argument(
        "--format",
        choices=("text", "html", "svg"),
        help="text, one page of HTML, or SVG (default: by the ending of OUT, else text)",
    )
    add_picture_options(parser)


def run(args: argparse.Namespace) -> int:
    """Exit code: 0 drawn, 2 not."""
    form = form_of(args, "text")
    try:
        found = [drawing_ for path in args.paths for drawing_ in draw_from(path, args)]
        if args.schedule:
            found = [choose(found, name, "these files") for name in args.schedule]
        pictures = _draw(found, args.comm)
    except (Undrawable, NothingToDraw) as error:
        return report_usage(str(error)) if str(error) else 2
    rows = table(pictures)
    if form == "html":
        return put(html.compare(pictures, rows), form, args.output, "compare")
    if form == "svg":
        return put(svg.compare(pictures, rows), form, args.output, "compare")
    return put(drawing.compare(pictures, rows, **canvas(args.output)), form, args.output, "compare")


def _draw(found: Sequence[Drawing], model: str | None) -> list[Scene]:
    """Over one axis of time: in units if one of them gives no durations. Raises Undrawable, NothingToDraw."""
    untimed = next((d for d in found if not d.is_timed), None)
    measured = next((d for d in found if d.measured is not None), None)
    if untimed is not None and measured is not None:
        raise Undrawable(
            f"{measured.name} was measured, and {untimed.name} gives no durations to compare it with"
        )
    return [scene(d, model, units=untimed is not None) for d in found]


def table(pictures: Sequence[Scene]) -> list[list[str]]:
    """The figures of each schedule in a row of its own; the first row says what they are."""
    known = {k for p in pictures for k, _ in p.figures}
    columns = [c for c in COLUMNS if c == "makespan" or c in known]
    rows = [["schedule", *columns, "verdict"]]
    for p in pictures:
        own = dict(p.figures)
        if p.walk:
            own["makespan"] = f"stops at {own['stops at']}"
        if p.steady is not None:
            own["steady period"] = p.time(float(p.steady.rate))
        rows.append([p.name, *(own.get(c, "-") for c in columns), p.summary])
    return rows
