"""`interlock profile`: modules measured, or a trace read, to a profile.toml."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from interlock.cli.common import read, show_errors, usage, write
from interlock.profile.write import to_toml
from interlock.text.files import write_whole
from interlock.text.finding import InputError
from interlock.text.source import Sources


def run(args) -> int:
    """Exit code. Raises OSError. The file is written whole at the end, or not at all."""
    if (args.module is None) == (args.trace is None):
        return usage(
            "profile wants MODULE or --trace FILE"
            + (", and one of them only" if args.trace is not None else "")
        )
    measuring = [n for n in ("device", "dtype", "input", "repeats", "warmup") if getattr(args, n) is not None]
    tracing = [n for n in ("label", "frozen") if getattr(args, n) is not None]
    if wrong := measuring if args.trace is not None else tracing:
        return usage(f"--{wrong[0]} is for {'MODULE' if args.trace is not None else '--trace'}")
    if args.output != "-" and not os.path.isdir(os.path.dirname(args.output) or "."):
        return usage(
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
