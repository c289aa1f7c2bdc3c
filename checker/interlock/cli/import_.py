"""`interlock import`: schedules of other systems as `.sched` files."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from interlock.cli.options import add_csv_options, csv_options
from interlock.cli.terminal import LARGEST_FILE, read, report_usage, show_errors, write
from interlock.interchange import importing
from interlock.interchange.megatron import LayoutSizes
from interlock.text.files import write_whole
from interlock.text.finding import InputError
from interlock.text.source import Sources


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Turns a PyTorch CSV, a list of steps of HyperParallel, DeepSpeed or OctoPipe, or "
        "a Megatron layout into a .sched file."
    )
    parser.add_argument("path", metavar="FILE", nargs="?", help="the file to read; - reads standard input")
    parser.add_argument(
        "--from",
        dest="form",
        choices=("csv", "hyperparallel", "deepspeed", "octopipe"),
        help="what wrote the file (default: csv, PyTorch)",
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE.sched", type=Path, help="where to write (default: standard output)"
    )
    parser.add_argument("--name", help="the schedule's name (default: the file's)")
    megatron = parser.add_argument_group("Megatron-LM")
    megatron.add_argument(
        "--megatron", metavar="LAYOUT", help="a pipeline layout instead of a file: 'Et*3|(tt|)*29,m|L'"
    )
    megatron.add_argument(
        "--megatron-flags",
        metavar="FLAGS",
        help="the flags that place layers instead of a file: '--num-layers 60 "
        "--pipeline-model-parallel-size 5'",
    )
    megatron.add_argument(
        "--ranks", metavar="P", type=int, help="pipeline ranks (default: one for each stage of the layout)"
    )
    megatron.add_argument("--layers", metavar="N", type=int, help="decoder layers the layout must have")
    megatron.add_argument("--mtp", metavar="N", type=int, help="MTP layers the layout must have")
    add_csv_options(parser)


def run(args: argparse.Namespace) -> int:
    """Exit code. Raises OSError."""
    given = [x for x in (args.path, args.megatron, args.megatron_flags) if x is not None]
    if len(given) != 1:
        one = ", and one of them only" if given else ""
        return report_usage("import wants a file, --megatron or --megatron-flags" + one)
    if wrong := _find_misplaced_option(args):
        return report_usage(wrong)
    sources = Sources()
    try:
        text = _import_layout(args, sources) if args.path is None else _import_file(args, sources)
    except InputError as error:
        name = args.path or ("layout" if args.megatron is not None else "flags")
        show_errors(name, sources, error.findings, sys.stderr)
        return 2
    if args.output is None:
        write(text)
    else:
        write_whole(args.output, text)
    return 0


def _import_layout(args: argparse.Namespace, sources: Sources) -> str:
    flags = args.megatron_flags is not None
    layout = args.megatron_flags if flags else args.megatron
    shape = LayoutSizes(args.ranks, args.layers, args.mtp)
    return importing.import_layout(sources, layout, shape, args.name or "megatron", args.microbatches, flags)


def _import_file(args: argparse.Namespace, sources: Sources) -> str:
    shown = "stdin" if args.path == "-" else args.path
    name = args.name or Path(shown).name.split(".")[0]
    data = read(args.path, LARGEST_FILE)
    return importing.import_file(
        sources, shown, data, args.form or "csv", name, csv_options(args), _read_if_there
    )


def _find_misplaced_option(args: argparse.Namespace) -> str:
    """What is wrong with the options, taken together."""
    file = args.path is not None
    if file and args.form is None and Path(args.path).suffix.lower() in (".json", ".yaml", ".yml", ".txt"):
        return f"{args.path} is no CSV: add --from hyperparallel, deepspeed or octopipe"
    megatron = [n for n in ("ranks", "layers", "mtp") if getattr(args, n) is not None]
    if file and megatron:
        return f"--{megatron[0]} is for --megatron"
    csv = [
        n for n, there in (("--frozen", args.frozen), ("--csv-format", args.csv_format != "auto")) if there
    ]
    form = (args.form or "csv") if file else "megatron"
    if csv and form != "csv":
        return f"{csv[0]} is for PyTorch CSVs"
    if not file and args.placement is not None:
        return "--placement is for files: Megatron places stages in a loop"
    if not file and args.form is not None:
        return "--from is for files"
    return ""


def _read_if_there(path: str) -> bytes | None:
    return read(path, LARGEST_FILE) if os.path.isfile(path) else None
