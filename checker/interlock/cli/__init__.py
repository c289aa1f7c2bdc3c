"""The commands. Each is a module with `add_options(parser)` and `run(args) -> exit code`, imported when it is
called.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from interlock import __version__

COMMANDS = {  # command: (module, what it does)
    "check": ("check", "check .sched files and PyTorch CSVs"),
    "fmt": ("fmt", "format .sched files in place"),
    "explain": ("explain", "the rule behind a code, with an example and its repair"),
    "verify": ("verify", "have the kernel judge certificates again"),
    "import": ("import_", "turn a schedule of another system into a .sched file"),
    "show": ("show", "draw a schedule: who does what when, and what it holds"),
    "compare": ("compare", "several schedules in one table and one figure"),
    "profile": ("profile", "measure a model's layers, or read a PyTorch trace, into a profile.toml"),
    "lower": ("lower", "turn a valid schedule into a plan that a runtime executes"),
    "run": (
        "run",
        "emulate a schedule: processes, timed waits for compute, real transfers in ordered queues",
    ),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0 all as it should be, 1 something invalid, 2 usage or input, 3 unknown, 101 internal, 130
    interrupted.
    """
    argv = sys.argv[1:] if argv is None else list(argv)
    command = argv[0] if argv and argv[0] in COMMANDS else None
    parser = make_parser(command)
    args = parser.parse_args(argv)
    if args.command is None:
        parser.print_help()
        return 2
    if sys.stdout is None:
        print("interlock: standard output is closed", file=sys.stderr)
        return 2
    for stream in (
        sys.stdout,
        sys.stderr,
    ):  # names of files need not be text, and not every terminal writes all
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    return _run(args)


def make_parser(command: str | None) -> argparse.ArgumentParser:
    """The parser of the command line, with the options of one command."""
    parser = argparse.ArgumentParser(
        prog="interlock",
        description="Checks pipeline-parallel training schedules: a proof that one is safe, "
        "or the smallest trace in which it goes wrong.",
    )
    parser.add_argument("--version", action="version", version=f"interlock {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, (_, what) in COMMANDS.items():
        of_command = commands.add_parser(name, help=what)
        if name == command:
            _module(name).add_options(of_command)
    return parser


def _module(command: str):
    return import_module(f"interlock.cli.{COMMANDS[command][0]}")


def _run(args: argparse.Namespace) -> int:
    from interlock.cli.terminal import describe_error, report_internal_error, report_usage

    try:
        return int(_module(args.command).run(args))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except OSError as error:  # a disk, a folder, a pipe: no fault of the schedule, and none of ours
        return report_usage(f"{error.filename or 'input or output'}: {error.strerror or error}")
    except MemoryError:
        return report_usage("there is not enough memory for this")
    except Exception as error:  # the last line of defence: never a verdict, never silent
        if os.environ.get("INTERLOCK_TRACEBACK"):
            import traceback

            traceback.print_exception(error)
        return report_internal_error(describe_error(error))
