"""Options that commands share, and what each kind of option accepts."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from interlock.interchange.torch_csv import CsvOptions
from interlock.report import FORMATS
from interlock.rules.targets import TARGETS
from interlock.rules.waits import MODELS


def csv_options(args: argparse.Namespace) -> CsvOptions:
    """What was asked by the options of `add_csv_options`."""
    return CsvOptions(args.csv_format, args.placement, args.microbatches, args.frozen)


def add_stdin_name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--stdin-filename",
        metavar="NAME",
        default="stdin.sched",
        help="the name of standard input; its ending says what it is (default: stdin.sched)",
    )


def add_picture_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--comm",
        metavar="MODEL",
        choices=MODELS,
        help=f"the communication model of the run: {', '.join(MODELS)} (default: pair if the schedule is "
        "asked under it, else the first; "
        "inserted transfers go at once)",
    )
    parser.add_argument(
        "-o", "--output", metavar="OUT", type=Path, help="where to write (default: standard output)"
    )
    parser.add_argument(
        "--stdin-filename",
        metavar="NAME",
        default="stdin.sched",
        help="the name of standard input (default: stdin.sched)",
    )
    add_csv_options(parser)


def add_csv_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("PyTorch CSVs")
    group.add_argument(
        "--csv-format",
        choices=("auto", "compute-only", "compute-comms"),
        default="auto",
        help="what the cells may hold (default: auto, by what they hold)",
    )
    group.add_argument(
        "--placement",
        metavar="P",
        type=read_placement,
        help="where the stages are: loop, vee, or ranks with commas (default: where they run)",
    )
    group.add_argument(
        "--microbatches", metavar="M", type=int, help="how many there are (default: as many as a stage runs)"
    )
    group.add_argument(
        "--frozen",
        metavar="STAGES",
        type=read_stages,
        default=frozenset(),
        help="stages without trainable parameters: 0,1 or 0..2 or all",
    )


def read_models(text: str) -> tuple[str, ...]:
    names = MODELS if text == "all" else tuple(x.strip() for x in text.split(","))
    for name in names:
        if name not in MODELS:
            raise argparse.ArgumentTypeError(
                f"there is no communication model {name!r}; there are {', '.join(MODELS)}"
            )
    return tuple(dict.fromkeys(names))


def read_targets(text: str) -> tuple[str, ...]:
    names = tuple(x.strip() for x in text.split(","))
    for name in names:
        if name not in TARGETS:
            raise argparse.ArgumentTypeError(f"there is no target {name!r}; there are {', '.join(TARGETS)}")
    return names


def read_format(name: str) -> str:
    if name not in FORMATS:
        raise argparse.ArgumentTypeError(f"there is no format {name!r}; there are {', '.join(FORMATS)}")
    return name


def read_report(text: str) -> tuple[str, Path]:
    name, equals, path = text.partition("=")
    if not equals or not path:
        raise argparse.ArgumentTypeError(f"{text!r} is no report; write sarif=FILE")
    return read_format(name), Path(path)


def read_jobs(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 1024:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of processes")
    return int(text)


def count_from(least: int):
    def count(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not least <= int(text[:9]) <= 100_000:
            raise argparse.ArgumentTypeError(f"{text!r} is no number from {least} to 100000")
        return int(text)

    return count


def read_pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {error}") from None


def read_placement(text: str) -> str | tuple[int, ...]:
    if text in ("loop", "vee"):
        return text
    try:
        return tuple(int(x) for x in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no placement; write loop, vee, or the rank of each stage: 0,1,1,0"
        ) from None


def read_stages(text: str) -> frozenset[int] | str:
    if text == "all":
        return text
    out: set[int] = set()
    try:
        for part in text.split(","):
            first, dots, last = part.partition("..")
            a, b = int(first), int(last if dots else first)
            if not 0 <= a <= b <= 100_000:
                raise ValueError
            out.update(range(a, b + 1))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} are no stages; write 0,1 or 0..2 or all") from None
    return frozenset(out)
