"""What the commands that draw share: files to drawings, pictures to files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from interlock.check.files import rulings
from interlock.cli.options import csv_options
from interlock.cli.terminal import LARGEST_FILE, read, report_usage, show_errors, terminal_of, write
from interlock.load import Question, load
from interlock.report.timeline.scenes import Drawing
from interlock.text.files import write_whole

ENDINGS = {
    ".html": "html",
    ".htm": "html",
    ".svg": "svg",
    ".json": "perfetto",
    ".txt": "terminal",
    ".dot": "dot",
    ".graphml": "graphml",
}
FOR_FILES = ("html", "svg", "perfetto")


class Undrawable(Exception):
    """It cannot be drawn; the text is for standard error, if there is one."""


def form_of(args: argparse.Namespace, otherwise: str) -> str:
    """The form asked for, or that of the output's ending."""
    if args.format:
        return str(args.format)
    ending = ENDINGS.get(args.output.suffix.lower()) if args.output is not None else None
    if ending is None or (otherwise == "text" and ending not in ("html", "svg")):
        return otherwise
    return ending


def draw_from(path: str, args: argparse.Namespace) -> list[Drawing]:
    """The schedules of a file, checked. Raises Undrawable and OSError."""
    name = args.stdin_filename if path == "-" else path
    if path != "-" and not Path(path).is_file():
        raise Undrawable(f"there is no file {path}")
    question = Question((args.comm,) if args.comm else (), csv=csv_options(args))
    loaded = load(name, read(path, LARGEST_FILE), question)
    if loaded.errors:
        show_errors(name, loaded.sources, loaded.errors, sys.stderr)
        raise Undrawable
    found = [Drawing(r.case, r.result) for r in rulings(loaded)]
    if not found:
        raise Undrawable(
            f"{path}: there is no schedule in this file, and a picture is of one: "
            "write one that uses the skeleton"
        )
    return found


def choose(found: Sequence[Drawing], name: str | None, where: str) -> Drawing:
    """Raises Undrawable."""
    if name is None:
        return found[0]
    chosen = next((d for d in found if d.name == name), None)
    if chosen is None:
        names = ", ".join(d.name for d in found)
        raise Undrawable(f"there is no schedule {name} in {where}; there are {names}")
    return chosen


def canvas(output: Path | None) -> dict[str, Any]:
    """Width, colour and box drawing of a picture made of text."""
    if output is not None:
        return {"width": 100, "color": False, "box": True}
    return terminal_of(sys.stdout)


def put(text: str, form: str, output: Path | None, name: str) -> int:
    """To the output, else to standard output if the form is for that; the exit code. Raises OSError."""
    if output is not None:
        write_whole(output, text)
    elif form in FOR_FILES and sys.stdout.isatty():
        ending = "json" if form == "perfetto" else form
        return report_usage(f"{form} is for a file: -o {name}.{ending}")
    else:
        write(text)
    return 0
