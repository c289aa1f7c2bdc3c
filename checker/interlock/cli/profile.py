"""`interlock profile`: modules measured, or a trace read, to a profile.toml."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from pathlib import Path

from interlock.cli.options import count_from, read_pattern
from interlock.cli.terminal import read, report_usage, show_errors, write
from interlock.profile.write import to_toml
from interlock.text.files import write_whole
from interlock.text.finding import InputError
from interlock.text.source import Sources


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Times torch modules (forward, input gradients, weight gradients) and counts the bytes they hold, "
        "or takes times from a trace of torch.profiler. "
        '`model "profile.toml"` in a .sched file uses what it writes.'
    )
    parser.add_argument(
        "module",
        metavar="MODULE",
        nargs="?",
        help="package.module:attribute or path.py:attribute: a list of torch modules, an nn.Sequential, or "
        "a function that returns (modules, sample input)",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE.toml",
        default="profile.toml",
        help="where to write; - is standard output (default: profile.toml)",
    )
    measure = parser.add_argument_group("MODULE")
    measure.add_argument(
        "--input",
        metavar="SHAPE",
        help="the first layer's sample input, if MODULE gives none: 4x128:int64, several with commas "
        "(default type: float32)",
    )
    measure.add_argument(
        "--device",
        metavar="D",
        help="cpu, cuda, npu, xpu, cuda:1 (default: the accelerator there is, else cpu)",
    )
    measure.add_argument("--dtype", metavar="T", help="convert modules and input to this type: bfloat16")
    measure.add_argument(
        "--repeats", metavar="N", type=count_from(1), help="how often each time is taken (default: 20)"
    )
    measure.add_argument(
        "--warmup", metavar="N", type=count_from(0), help="how often before that, untimed (default: 5)"
    )
    trace = parser.add_argument_group("traces")
    trace.add_argument(
        "--trace",
        metavar="FILE",
        help="a Chrome trace of torch.profiler (export_chrome_trace), .json or .gz, instead of MODULE; - "
        "reads standard input",
    )
    trace.add_argument(
        "--label",
        metavar="REGEX",
        type=read_pattern,
        help="which record_function ranges are layers; its first group, if any, is the name (default: all "
        "that are not PyTorch's own)",
    )
    trace.add_argument(
        "--frozen",
        metavar="LAYERS",
        type=lambda text: tuple(x.strip() for x in text.split(",")),
        help="layers that nothing runs backward through, or without weights to train, with commas",
    )


def run(args: argparse.Namespace) -> int:
    """Exit code. Raises OSError. The file is written whole at the end, or not at all."""
    if (args.module is None) == (args.trace is None):
        return report_usage(
            "profile wants MODULE or --trace FILE"
            + (", and one of them only" if args.trace is not None else "")
        )
    measuring = [n for n in ("device", "dtype", "input", "repeats", "warmup") if getattr(args, n) is not None]
    tracing = [n for n in ("label", "frozen") if getattr(args, n) is not None]
    if wrong := measuring if args.trace is not None else tracing:
        return report_usage(f"--{wrong[0]} is for {'MODULE' if args.trace is not None else '--trace'}")
    if args.output != "-" and not os.path.isdir(os.path.dirname(args.output) or "."):
        return report_usage(
            f"there is no folder {os.path.dirname(args.output)} to write to"
        )  # before hours of measuring
    sources = Sources()
    name = "stdin" if args.trace == "-" else args.trace
    try:
        profile, notes = _traced(args, name, sources) if args.trace is not None else _measured(args)
    except InputError as refused:
        show_errors(name or args.module, sources, refused.findings, sys.stderr)
        return 2
    text = to_toml(profile, notes)
    for note in notes:
        print(note, file=sys.stderr)
    if args.output == "-":
        write(text)
    else:
        write_whole(Path(args.output), text)
        print(
            f"wrote {args.output}: {len(profile.layers)} layer{'s' * (len(profile.layers) != 1)}",
            file=sys.stderr,
        )
    return 0


def _traced(args, name: str, sources: Sources):
    from interlock.profile import events, trace

    if args.trace != "-" and not os.path.isfile(args.trace):
        raise FileNotFoundError(2, "there is no such file", args.trace)
    source = sources.add(name, events.decode(name, read(args.trace, events.MAX_BYTES)))
    return trace.read_trace(source, trace.LayerSelection(args.label, frozenset(args.frozen or ())))


def _measured(args):
    from interlock.report.progress import Progress

    try:
        from interlock.profile import measure
    except ImportError as error:
        if (error.name or "").split(".")[0] != "torch":
            raise
        from interlock.profile.modules import measure_error

        raise measure_error(
            "PyTorch is not installed, and measuring needs it", "`pip install torch` installs it"
        ) from None
    given = {
        n: value
        for n in ("device", "dtype", "input", "repeats", "warmup")
        if (value := getattr(args, n)) is not None
    }
    with (
        contextlib.redirect_stdout(sys.stderr),
        Progress(0, "measuring") as progress,
    ):  # the modules' own code may print

        def step(layer: str, total: int) -> None:
            progress.total = total
            progress.step(layer)

        return measure.measure_chain(args.module, measure.Settings(**given), step), ()
