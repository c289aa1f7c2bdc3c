"""`interlock show` and `interlock compare`: files to schedules, schedules to scenes, scenes to a picture."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from interlock.check.pipeline import Options
from interlock.cli.common import MOST_BYTES, read, show_errors, terminal, usage, write
from interlock.report.timeline.scenes import NothingToDraw, Subject, scene, subjects, timed
from interlock.text.files import write_whole
from interlock.text.finding import InputError
from interlock.text.source import Sources

ENDINGS = {".html": "html", ".htm": "html", ".svg": "svg", ".json": "perfetto", ".txt": "terminal"}


class _Refused(Exception):
    """It cannot be drawn; `code` is the exit code, and the text is for standard error, if there is one."""


def show(args, csv_options) -> int:
    """Exit code: 0 drawn, 2 not. A picture judges nothing."""
    form = args.format or (
        ENDINGS.get(args.output.suffix.lower(), "terminal") if args.output is not None else "terminal"
    )
    try:
        found = _subjects(args.path, args, csv_options)
        subject = _chosen(found, args.schedule, args.path)
        picture = scene(subject, args.comm, counterexample=args.counterexample)
    except (_Refused, NothingToDraw) as refused:
        return usage(str(refused)) if str(refused) else 2
    if args.schedule is None and len(found) > 1:
        others = ", ".join(s.checked.name for s in found if s is not subject)
        print(
            f"interlock: this is {subject.checked.name}; {args.path} has {others} too (--schedule NAME)",
            file=sys.stderr,
        )
    return _out(_rendered(form, picture, args), form, args.output, subject.checked.name)


def compare(args, csv_options) -> int:
    """Exit code: 0 drawn, 2 not."""
    ending = ENDINGS.get(args.output.suffix.lower()) if args.output is not None else None
    form = args.format or (ending if ending in ("html", "svg") else "text")
    try:
        found = [s for path in args.paths for s in _subjects(path, args, csv_options)]
        if args.schedule:
            found = [_chosen(found, name, "these files") for name in args.schedule]
    except _Refused as refused:
        return usage(str(refused)) if str(refused) else 2
    units = not all(timed(s) for s in found)
    if units and (ran := next((s for s in found if s.measured is not None), None)) is not None:
        other = next(s for s in found if not timed(s))
        return usage(
            f"{ran.checked.name} was measured, and {other.checked.name} gives no durations to compare it with"
        )
    try:
        pictures = [scene(s, args.comm, units=units) for s in found]
    except NothingToDraw as refused:
        return usage(str(refused))
    rows = table(pictures)
    if form in ("html", "svg"):
        from interlock.report.timeline import html, svg

        return _out({"html": html, "svg": svg}[form].compare(pictures, rows), form, args.output, "compare")
    from interlock.report.timeline import terminal as drawing

    return _out(drawing.compare(pictures, rows, **_canvas(args.output)), form, args.output, "compare")


def table(pictures) -> list[list[str]]:
    """The figures of each schedule in a row of its own; the first row says what they are."""
    known = {k for p in pictures for k, _ in p.figures}
    columns = [
        c
        for c in ("makespan", "bubble", "steady period", "peak memory", "in flight", "transfers")
        if c == "makespan" or c in known
    ]
    rows = [["schedule", *columns, "verdict"]]
    for p in pictures:
        own = dict(p.figures)
        if p.walk:
            own["makespan"] = f"stops at {own['stops at']}"
        if p.steady is not None:
            own["steady period"] = p.time(float(p.steady.rate))
        rows.append([p.name, *(own.get(c, "-") for c in columns), p.told])
    return rows


def _subjects(path: str, args, csv_options) -> list[Subject]:
    name = args.stdin_filename if path == "-" else path
    if path != "-" and not Path(path).is_file():
        raise _Refused(f"there is no file {path}")
    sources = Sources()
    try:
        return list(
            subjects(
                name,
                read(path, MOST_BYTES),
                Options((args.comm,) if args.comm else (), csv=csv_options),
                sources,
            )
        )
    except InputError as error:
        show_errors(name, sources, error.findings, sys.stderr)
        raise _Refused from None


def _chosen(found: list[Subject], name: str | None, where: str) -> Subject:
    if name is None:
        return found[0]
    mine = [s for s in found if s.checked.name == name]
    if not mine:
        raise _Refused(
            f"there is no schedule {name} in {where}; there are {', '.join(s.checked.name for s in found)}"
        )
    return mine[0]


def _canvas(output: Path | None) -> dict:
    if output is not None:
        return {"width": 100, "color": False, "box": True}
    return terminal(sys.stdout)


def _rendered(form: str, picture, args) -> str:
    if form == "html":
        from interlock.report.timeline import html

        return html.render(picture)
    if form == "svg":
        from interlock.report.timeline import svg

        return svg.render(picture)
    if form == "perfetto":
        from interlock.report.timeline import perfetto

        return perfetto.render(picture)
    from interlock.report.timeline import terminal as drawing

    height = (
        shutil.get_terminal_size((100, 24)).lines if args.output is None and sys.stdout.isatty() else None
    )
    return drawing.render(picture, height=height, **_canvas(args.output))


def _out(text: str, form: str, output: Path | None, name: str) -> int:
    if output is not None:
        write_whole(output, text)
    elif form in ("html", "svg", "perfetto") and sys.stdout.isatty():
        ending = "json" if form == "perfetto" else form
        return usage(f"{form} is for a file: -o {name}.{ending}")
    else:
        write(text)
    return 0
