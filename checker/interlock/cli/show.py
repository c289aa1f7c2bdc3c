"""`interlock show`: a schedule drawn."""

from __future__ import annotations

import argparse
import shutil
import sys

from interlock.cli.options import add_picture_options
from interlock.cli.pictures import Undrawable, canvas, choose, draw_from, form_of, put
from interlock.cli.terminal import report_usage
from interlock.engine.wait_export import export_waits, name_events
from interlock.load import DEFAULT_MODEL
from interlock.program.facts import Facts
from interlock.report.timeline import html, perfetto, svg
from interlock.report.timeline import terminal as drawing
from interlock.report.timeline.layout import Scene
from interlock.report.timeline.scenes import Drawing, NothingToDraw, scene
from interlock.rules.communication import Transfers
from interlock.rules.waits import wait_graph


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Draws a schedule: compute and transfers of every rank over time, memory below, "
        "the critical path; of a deadlock what ran and who waits for whom."
    )
    parser.add_argument(
        "path",
        metavar="FILE",
        help="a .sched file, a PyTorch CSV, or a timeline of `interlock run --emulate` (.json); - reads "
        "standard input",
    )
    parser.add_argument("--schedule", metavar="NAME", help="which schedule of the file (default: the first)")
    parser.add_argument(
        "--format",
        choices=("terminal", "html", "svg", "perfetto", "dot", "graphml"),
        help="terminal, one page of HTML, SVG, or a trace for ui.perfetto.dev (default: by the ending of "
        "OUT, else terminal)",
    )
    parser.add_argument(
        "--counterexample", action="store_true", help="under the first communication model it deadlocks under"
    )
    add_picture_options(parser)


def run(args: argparse.Namespace) -> int:
    """Exit code: 0 drawn, 2 not. A picture judges nothing."""
    form = form_of(args, "terminal")
    try:
        found = draw_from(args.path, args)
        chosen = choose(found, args.schedule, args.path)
        picture = scene(chosen, args.comm, counterexample=args.counterexample)
    except (Undrawable, NothingToDraw) as error:
        return report_usage(str(error)) if str(error) else 2
    if args.schedule is None and len(found) > 1:
        others = ", ".join(d.name for d in found if d is not chosen)
        print(
            f"interlock: this is {chosen.name}; {args.path} has {others} too (--schedule NAME)",
            file=sys.stderr,
        )
    text = _export(form, chosen, args.comm) if form in WAIT_GRAPHS else _render(form, picture, args)
    return put(text, form, args.output, chosen.name)


def _export(form: str, drawing: Drawing, model: str | None) -> str:
    """The wait graph under `model` (none: `pair` if asked, else the first), its shortest cycle in red."""
    program, asked = drawing.program, drawing.case.models
    facts = Facts(program)
    waits = wait_graph(
        facts, Transfers(facts), model or (DEFAULT_MODEL if DEFAULT_MODEL in asked else asked[0])
    )
    return export_waits(waits, name_events(program, waits), "dot" if form == "dot" else "graphml")


def _render(form: str, picture: Scene, args: argparse.Namespace) -> str:
    if form in FILES:
        return FILES[form].render(picture)
    fits = args.output is None and sys.stdout.isatty()
    height = shutil.get_terminal_size((100, 24)).lines if fits else None
    return drawing.render(picture, height=height, **canvas(args.output))


WAIT_GRAPHS = ("dot", "graphml")
FILES = {"html": html, "svg": svg, "perfetto": perfetto}
