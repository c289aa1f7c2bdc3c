"""`interlock explain`: the rule behind a code."""

from __future__ import annotations

import argparse

from interlock.cli.terminal import report_usage, write
from interlock.report import explain


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "code", metavar="CODE", nargs="?", help="a diagnostic code such as IL402; without one, all are listed"
    )


def run(args: argparse.Namespace) -> int:
    text = explain.listing() if args.code is None else explain.section(args.code)
    if text is None:
        return report_usage(f"there is no code {args.code}; `interlock explain` lists them")
    write(text + "\n")
    return 0
