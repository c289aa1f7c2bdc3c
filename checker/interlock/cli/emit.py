"""`interlock check --emit smt2`: the queries of the files, to a folder or to standard output."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from interlock.check.queries import queries
from interlock.cli.terminal import read, show_errors, write
from interlock.load import Case, Question, load
from interlock.text.files import write_whole


def emit(paths: Sequence[str], args: argparse.Namespace, question: Question) -> int:
    """The exit code: 2 if a file cannot be read. Raises OSError."""
    refused = 0
    first = True
    for path in paths:
        name = args.stdin_filename if path == "-" else path
        loaded = load(name, read(path), question)
        if loaded.errors:
            refused += 1
            show_errors(name, loaded.sources, loaded.errors, sys.stderr)
        for query in (q for case in loaded.cases if isinstance(case, Case) for q in queries(case)):
            if args.output is None:
                write(("" if first else "(reset)\n\n") + query.text)
            else:
                args.output.mkdir(parents=True, exist_ok=True)
                target = args.output / f"{Path(name).stem}.{query.name}.smt2"
                write_whole(target, query.text)
                write(f"wrote {target}\n")
            first = False
    return 2 if refused else 0
