"""`interlock fmt`: formats `.sched` files in place."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from interlock.cli.terminal import LARGEST_FILE, find_files, read, report_usage, show_errors, write
from interlock.language.format import format
from interlock.language.parse import decode, parse
from interlock.text.files import write_whole
from interlock.text.finding import InputError
from interlock.text.source import Sources


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Formats files and folders in place; - reads standard input and writes standard output."
    )
    parser.add_argument("paths", nargs="+", metavar="PATH")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file would change")


def run(args: argparse.Namespace) -> int:
    """Exit code: 2 if a file cannot be read, 1 if --check finds one that would change. Raises OSError."""
    try:
        files = find_files(args.paths, (".sched",))
    except FileNotFoundError as error:
        return report_usage(str(error))
    changed = failed = 0
    for path in files:
        sources = Sources()
        try:
            text = decode(path, read(path, LARGEST_FILE))
            parse(sources.add("stdin" if path == "-" else path, text))
        except InputError as error:
            failed += 1
            show_errors(path, sources, error.findings, sys.stderr)
            continue
        changed += _format(path, text, args.check)
    return 2 if failed else 1 if args.check and changed else 0


def _format(path: str, text: str, only_look: bool) -> bool:
    """Writes one file as it should be, and says so; whether it is another file then."""
    formatted = format(text)
    if path == "-":
        write(formatted)
        return False
    if formatted == text:
        return False
    if only_look:
        write(f"would format {path}\n")
    else:
        write_whole(Path(path), formatted)
        write(f"formatted {path}\n")
    return True
