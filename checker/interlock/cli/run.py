"""`interlock run --emulate`: a plan on this machine, compute replaced by timed waits."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from interlock.cli.lower import prepare
from interlock.cli.terminal import LARGEST_FILE, read, report_usage, write
from interlock.interchange.timeline import dumps
from interlock.load import Question
from interlock.lower import backends
from interlock.runtime.comparison import Unfit
from interlock.runtime.comparison import run as emulate_plan
from interlock.runtime.emulation import EmulationSettings
from interlock.text.files import write_whole
from interlock.timing.durations import NoTimes


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Lowers a schedule and runs it on this machine, compute replaced by waits of the "
        "model's durations; compares with the prediction."
    )
    parser.add_argument(
        "path", metavar="FILE", help="a .sched file with times in its model; - reads standard input"
    )
    parser.add_argument(
        "--emulate",
        action="store_true",
        required=True,
        help="replace compute by timed waits (the one way there is: training is interlock.runtime's, in "
        "your own loop)",
    )
    parser.add_argument(
        "--ranks", metavar="N", type=int, help="the number of processes: that of the schedule"
    )
    parser.add_argument(
        "--schedule", metavar="NAME", help="which schedule of the file (default: the only one)"
    )
    parser.add_argument(
        "--transfers",
        choices=("early", "inserted"),
        default="early",
        help="transfers as early as their queues allow, or where they stand (default: early)",
    )
    parser.add_argument(
        "--scale", metavar="X", type=float, default=1.0, help="durations are multiplied by this (default: 1)"
    )
    parser.add_argument(
        "--payload",
        metavar="X",
        type=float,
        default=1.0,
        help="bytes sent are multiplied by this; what links take by the model stays (default: 1)",
    )
    parser.add_argument(
        "--calibrate",
        action="store_true",
        help="measure this machine's overhead and links first, and predict with them",
    )
    parser.add_argument(
        "--timeout",
        metavar="S",
        type=float,
        default=10.0,
        help="seconds without any progress after which it is stopped (default: 10)",
    )
    parser.add_argument(
        "-o", "--output", metavar="OUT.json", type=Path, help="where to write the measured timeline"
    )
    parser.add_argument(
        "--stdin-filename",
        metavar="NAME",
        default="stdin.sched",
        help="the name of standard input (default: stdin.sched)",
    )


def run(args: argparse.Namespace) -> int:
    """Exit code: 0 it ran; 1 it stopped, or is not valid; 2 usage, no times; 3 not shown valid. Raises
    OSError.
    """
    if args.scale <= 0 or args.payload < 0 or args.timeout <= 0:
        return report_usage("--scale and --timeout are above 0, --payload is 0 or more")
    if args.path != "-" and not os.path.isfile(args.path):
        return report_usage(f"there is no file {args.path}")
    name = args.stdin_filename if args.path == "-" else args.path
    data = read(args.path, LARGEST_FILE)
    options = backends.LoweringOptions(transfers=args.transfers)
    prepared = prepare(name, data, Question(), backends.find("torch"), options, args.schedule)
    if isinstance(prepared, int):
        return prepared
    ruling, lowered = prepared
    asked = EmulationSettings(args.scale, args.payload, args.timeout, args.calibrate)
    if args.ranks not in (None, lowered.plan.program.ranks):
        ranks = lowered.plan.program.ranks
        return report_usage(f"{ruling.result.name} has {ranks} ranks, not {args.ranks}")
    try:
        found = emulate_plan(ruling, lowered.plan.program, asked, write)
    except (NoTimes, Unfit) as error:
        return report_usage(str(error))
    write(found.report)
    if args.output is not None:
        write_whole(args.output, dumps(ruling.result.name, found.measured.timeline))
    return 0 if found.measured.finished else 1
