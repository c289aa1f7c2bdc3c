"""`interlock check`: checks files and folders, once or whenever they change; or writes what a solver is
asked.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from interlock.check import certificates
from interlock.cli.checking import (
    UsageError,
    apply_gate,
    check_files,
    make_request,
    read_baseline,
    write_reports,
)
from interlock.cli.emit import emit
from interlock.cli.options import (
    add_csv_options,
    read_format,
    read_jobs,
    read_models,
    read_report,
    read_targets,
)
from interlock.cli.watch import watch
from interlock.report import FORMATS
from interlock.rules.targets import TARGETS
from interlock.rules.waits import MODELS


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = "Checks files and folders (their .sched and .csv files); - reads standard input."
    parser.add_argument(
        "paths", nargs="*", metavar="PATH", help="files and folders (default: `paths` of the configuration)"
    )
    parser.add_argument(
        "--comm",
        metavar="MODELS",
        type=read_models,
        default=(),
        help=f"further communication models, with commas: {', '.join(MODELS)}, or all (default: those a "
        "file names, else pair)",
    )
    parser.add_argument(
        "--target",
        metavar="TARGETS",
        type=read_targets,
        action="append",
        default=[],
        help=f"runtimes whose own rules are asked too, with commas: {', '.join(TARGETS)}; their transport's "
        "models are asked with them",
    )
    parser.add_argument(
        "--engine",
        choices=("graph", "smt", "both"),
        help="who searches (default: graph); smt is z3, and both asks cvc5 too where it is installed; the "
        "kernel judges",
    )
    parser.add_argument(
        "--format",
        metavar="FORMAT",
        type=read_format,
        default=os.environ.get("INTERLOCK_OUTPUT_FORMAT") or None,
        help=f"how the answer is written: {', '.join(FORMATS)} (default: INTERLOCK_OUTPUT_FORMAT, else text)",
    )
    parser.add_argument(
        "--certificate",
        metavar="DIR",
        type=Path,
        help="write a certificate for every verdict the kernel accepted",
    )
    parser.add_argument(
        "--emit",
        choices=("smt2",),
        help="instead of checking, write what a solver is asked: the queries of each schedule as SMT-LIB, "
        "with the answer they should have",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        type=Path,
        help="the folder --emit writes to (default: standard output, one query after the other)",
    )
    parser.add_argument(
        "--stdin-filename",
        metavar="NAME",
        default="stdin.sched",
        help="the name of standard input; its ending says what it is (default: stdin.sched)",
    )
    parser.add_argument("--verbose", action="store_true", help="also notes, and what was checked how")
    parser.add_argument(
        "--jobs",
        metavar="N",
        type=read_jobs,
        help="processes that check files at once (default: one a core, for more than 8 files)",
    )
    parser.add_argument("--watch", action="store_true", help="check again whatever changes, until Ctrl-C")
    gate = parser.add_argument_group("the gate")
    gate.add_argument(
        "--report",
        metavar="FORMAT=FILE",
        type=read_report,
        action="append",
        default=[],
        help="a report in a further format, to a file",
    )
    gate.add_argument(
        "--baseline",
        metavar="FILE",
        type=Path,
        help="fail on what is not known in this file only; what is invalid stays invalid",
    )
    gate.add_argument("--write-baseline", metavar="FILE", type=Path, help="write what is found now as known")
    gate.add_argument(
        "--config",
        metavar="FILE",
        help="the configuration (default: the nearest interlock.toml or [tool.interlock] in a "
        "pyproject.toml upward)",
    )
    gate.add_argument("--no-config", action="store_true", help="use no configuration")
    gate.add_argument(
        "--force-exclude",
        action="store_true",
        help="leave out what the configuration excludes even where it is named",
    )
    add_csv_options(parser)


def run(args: argparse.Namespace) -> int:
    """Exit code. Raises OSError."""
    if args.watch:
        return watch(args)
    try:
        request = make_request(args)
        known = read_baseline(args.baseline)
    except UsageError:
        return 2
    if args.emit is not None:
        return emit(request.files, args, request.question)
    if not request.files:
        print(f"nothing to check: the configuration excludes {request.excluded}", file=sys.stderr)
        return 0
    found = apply_gate(args, request, check_files(args, request), known)
    if args.certificate is not None:
        certificates.write(args.certificate, found.results)
    return write_reports(args, request, found)
