"""`interlock check --emit smt2`: the queries of the files, to a folder or to standard output."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from interlock.check.queries import queries
from interlock.cli.common import read, show_errors, write
from interlock.text.files import write_whole
from interlock.text.finding import InputError
from interlock.text.source import Sources


def emit(paths: Sequence[str], args, options) -> int:
    refused = written = 0
    for path in paths:
        name = args.stdin_filename if path == "-" else path
        sources = Sources()
        try:
            for query in queries(name, read(path), sources, options):
                if args.output is None:
                    write(("(reset)\n\n" if written else "") + query.text)
                else:
                    args.output.mkdir(parents=True, exist_ok=True)
                    target = args.output / f"{Path(name).stem}.{query.name}.smt2"
                    write_whole(target, query.text)
                    write(f"wrote {target}\n")
                written += 1
        except InputError as error:
            refused += 1
            show_errors(name, sources, error.findings, sys.stderr)
    return 2 if refused else 0
