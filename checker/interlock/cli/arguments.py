"""What a user may write behind `interlock`: commands, their options, and what each option accepts."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path

from interlock import __version__

MODELS = ("buffered", "edge", "pair", "rank", "blocking")
TARGETS = ("torch", "torchtitan", "hyperparallel", "npu")
FORMATS = (
    "text",
    "json",
    "json-lines",
    "concise",
    "sarif",
    "github",
    "junit",
)  # report.FORMATS, which takes longer to import


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="interlock",
        description="Checks pipeline-parallel training schedules: a proof that one is safe, or the smallest trace in which it goes wrong.",
    )
    top.add_argument("--version", action="version", version=f"interlock {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND")

    check = commands.add_parser(
        "check",
        help="check .sched files and PyTorch CSVs",
        description="Checks files and folders (their .sched and .csv files); - reads standard input.",
    )
    check.add_argument(
        "paths", nargs="*", metavar="PATH", help="files and folders (default: `paths` of the configuration)"
    )
    check.add_argument(
        "--comm",
        metavar="MODELS",
        type=_models,
        default=(),
        help=f"further communication models, with commas: {', '.join(MODELS)}, or all (default: those a file names, else pair)",
    )
    check.add_argument(
        "--target",
        metavar="TARGETS",
        type=_targets,
        action="append",
        default=[],
        help=f"runtimes whose own rules are asked too, with commas: {', '.join(TARGETS)}; their transport's models are asked with them",
    )
    check.add_argument(
        "--engine",
        choices=("graph", "smt", "both"),
        help="who searches (default: graph); smt is z3, and both asks cvc5 too where it is installed; the kernel judges",
    )
    check.add_argument(
        "--format",
        metavar="FORMAT",
        type=_format,
        default=os.environ.get("INTERLOCK_OUTPUT_FORMAT") or None,
        help=f"how the answer is written: {', '.join(FORMATS)} (default: INTERLOCK_OUTPUT_FORMAT, else text)",
    )
    check.add_argument(
        "--certificate",
        metavar="DIR",
        type=Path,
        help="write a certificate for every verdict the kernel accepted",
    )
    check.add_argument(
        "--emit",
        choices=("smt2",),
        help="instead of checking, write what a solver is asked: the queries of each schedule as SMT-LIB, with the answer they should have",
    )
    check.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        type=Path,
        help="the folder --emit writes to (default: standard output, one query after the other)",
    )
    check.add_argument(
        "--stdin-filename",
        metavar="NAME",
        default="stdin.sched",
        help="the name of standard input; its ending says what it is (default: stdin.sched)",
    )
    check.add_argument("--verbose", action="store_true", help="also notes, and what was checked how")
    check.add_argument(
        "--jobs",
        metavar="N",
        type=_jobs,
        help="processes that check files at once (default: one a core, for more than 8 files)",
    )
    check.add_argument("--watch", action="store_true", help="check again whatever changes, until Ctrl-C")
    gate = check.add_argument_group("the gate")
    gate.add_argument(
        "--report",
        metavar="FORMAT=FILE",
        type=_report,
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
        help="the configuration (default: the nearest interlock.toml or [tool.interlock] in a pyproject.toml upward)",
    )
    gate.add_argument("--no-config", action="store_true", help="use no configuration")
    gate.add_argument(
        "--force-exclude",
        action="store_true",
        help="leave out what the configuration excludes even where it is named",
    )
    _csv_arguments(check)

    fmt = commands.add_parser(
        "fmt",
        help="format .sched files in place",
        description="Formats files and folders in place; - reads standard input and writes standard output.",
    )
    fmt.add_argument("paths", nargs="+", metavar="PATH")
    fmt.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file would change")

    explain = commands.add_parser("explain", help="the rule behind a code, with an example and its repair")
    explain.add_argument(
        "code", metavar="CODE", nargs="?", help="a diagnostic code such as IL402; without one, all are listed"
    )

    verify = commands.add_parser("verify", help="have the kernel judge certificates again")
    verify.add_argument("paths", nargs="+", metavar="FILE.cert", type=Path)

    imports = commands.add_parser(
        "import",
        help="turn a schedule of another system into a .sched file",
        description="Turns a PyTorch CSV, a list of steps of HyperParallel, DeepSpeed or OctoPipe, or a Megatron layout into a .sched file.",
    )
    imports.add_argument("path", metavar="FILE", nargs="?", help="the file to read; - reads standard input")
    imports.add_argument(
        "--from",
        dest="form",
        choices=("csv", "hyperparallel", "deepspeed", "octopipe"),
        help="what wrote the file (default: csv, PyTorch)",
    )
    imports.add_argument(
        "-o", "--output", metavar="FILE.sched", type=Path, help="where to write (default: standard output)"
    )
    imports.add_argument("--name", help="the schedule's name (default: the file's)")
    megatron = imports.add_argument_group("Megatron-LM")
    megatron.add_argument(
        "--megatron", metavar="LAYOUT", help="a pipeline layout instead of a file: 'Et*3|(tt|)*29,m|L'"
    )
    megatron.add_argument(
        "--megatron-flags",
        metavar="FLAGS",
        help="the flags that place layers instead of a file: '--num-layers 60 --pipeline-model-parallel-size 5'",
    )
    megatron.add_argument(
        "--ranks", metavar="P", type=int, help="pipeline ranks (default: one for each stage of the layout)"
    )
    megatron.add_argument("--layers", metavar="N", type=int, help="decoder layers the layout must have")
    megatron.add_argument("--mtp", metavar="N", type=int, help="MTP layers the layout must have")
    _csv_arguments(imports)

    show = commands.add_parser(
        "show",
        help="draw a schedule: who does what when, and what it holds",
        description="Draws a schedule: compute and transfers of every rank over time, memory below, the critical path; of a deadlock what ran and who waits for whom.",
    )
    show.add_argument(
        "path",
        metavar="FILE",
        help="a .sched file, a PyTorch CSV, or a timeline of `interlock run --emulate` (.json); - reads standard input",
    )
    show.add_argument("--schedule", metavar="NAME", help="which schedule of the file (default: the first)")
    show.add_argument(
        "--format",
        choices=("terminal", "html", "svg", "perfetto"),
        help="terminal, one page of HTML, SVG, or a trace for ui.perfetto.dev (default: by the ending of OUT, else terminal)",
    )
    show.add_argument(
        "--counterexample", action="store_true", help="under the first communication model it deadlocks under"
    )
    _picture_arguments(show)

    compare = commands.add_parser(
        "compare",
        help="several schedules in one table and one figure",
        description="Compares the schedules of files: a table, and their timelines over one axis of time.",
    )
    compare.add_argument(
        "paths",
        nargs="+",
        metavar="FILE",
        help=".sched files, PyTorch CSVs and measured timelines (.json); every schedule in them is compared",
    )
    compare.add_argument(
        "--schedule", metavar="NAME", action="append", help="only this schedule; may be given again"
    )
    compare.add_argument(
        "--format",
        choices=("text", "html", "svg"),
        help="text, one page of HTML, or SVG (default: by the ending of OUT, else text)",
    )
    _picture_arguments(compare)

    profile = commands.add_parser(
        "profile",
        help="measure a model's layers, or read a PyTorch trace, into a profile.toml",
        description="Times torch modules (forward, input gradients, weight gradients) and counts the bytes they hold, or takes times from a trace of torch.profiler. "
        '`model "profile.toml"` in a .sched file uses what it writes.',
    )
    profile.add_argument(
        "module",
        metavar="MODULE",
        nargs="?",
        help="package.module:attribute or path.py:attribute: a list of torch modules, an nn.Sequential, or a function that returns (modules, sample input)",
    )
    profile.add_argument(
        "-o",
        "--output",
        metavar="FILE.toml",
        default="profile.toml",
        help="where to write; - is standard output (default: profile.toml)",
    )
    measure = profile.add_argument_group("MODULE")
    measure.add_argument(
        "--input",
        metavar="SHAPE",
        help="the first layer's sample input, if MODULE gives none: 4x128:int64, several with commas (default type: float32)",
    )
    measure.add_argument(
        "--device",
        metavar="D",
        help="cpu, cuda, npu, xpu, cuda:1 (default: the accelerator there is, else cpu)",
    )
    measure.add_argument("--dtype", metavar="T", help="convert modules and input to this type: bfloat16")
    measure.add_argument(
        "--repeats", metavar="N", type=_count(1), help="how often each time is taken (default: 20)"
    )
    measure.add_argument(
        "--warmup", metavar="N", type=_count(0), help="how often before that, untimed (default: 5)"
    )
    trace = profile.add_argument_group("traces")
    trace.add_argument(
        "--trace",
        metavar="FILE",
        help="a Chrome trace of torch.profiler (export_chrome_trace), .json or .gz, instead of MODULE; - reads standard input",
    )
    trace.add_argument(
        "--label",
        metavar="REGEX",
        type=_pattern,
        help="which record_function ranges are layers; its first group, if any, is the name (default: all that are not PyTorch's own)",
    )
    trace.add_argument(
        "--frozen",
        metavar="LAYERS",
        type=lambda text: tuple(x.strip() for x in text.split(",")),
        help="layers that nothing runs backward through, or without weights to train, with commas",
    )

    lower = commands.add_parser(
        "lower",
        help="turn a valid schedule into a plan that a runtime executes",
        description="Checks a schedule, rewrites it for a runtime, and checks what it wrote again before it is written.",
    )
    lower.add_argument("path", metavar="FILE", help="a .sched file or a PyTorch CSV; - reads standard input")
    lower.add_argument(
        "--to",
        required=True,
        metavar="BACKEND",
        help="torch (interlock.runtime), torch-csv (PyTorch's own), hyperparallel, json, or one that is registered",
    )
    lower.add_argument(
        "-o", "--output", metavar="OUT", type=Path, help="where to write (default: standard output)"
    )
    lower.add_argument(
        "--schedule", metavar="NAME", help="which schedule of the file (default: the only one)"
    )
    lower.add_argument(
        "--comm",
        metavar="MODELS",
        type=_models,
        default=(),
        help="further communication models the plan must be valid under",
    )
    lower.add_argument(
        "--transfers",
        choices=("early", "inserted"),
        default="early",
        help="for torch: transfers as early as their queues allow, or where they stand (default: early)",
    )
    lower.add_argument("--grouped", action="store_true", help="for torch: every transfer in a grouped launch")
    lower.add_argument(
        "--form",
        choices=("auto", "compute-only", "compute-comms"),
        default="auto",
        help="for torch-csv: which form (default: compute-only where transfers are inserted)",
    )
    lower.add_argument(
        "--certificate", metavar="DIR", type=Path, help="also write the certificates that the plan names"
    )
    lower.add_argument(
        "--stdin-filename",
        metavar="NAME",
        default="stdin.sched",
        help="the name of standard input (default: stdin.sched)",
    )
    _csv_arguments(lower)

    run = commands.add_parser(
        "run",
        help="emulate a schedule: processes, timed waits for compute, real transfers in ordered queues",
        description="Lowers a schedule and runs it on this machine, compute replaced by waits of the model's durations; compares with the prediction.",
    )
    run.add_argument(
        "path", metavar="FILE", help="a .sched file with times in its model; - reads standard input"
    )
    run.add_argument(
        "--emulate",
        action="store_true",
        required=True,
        help="replace compute by timed waits (the one way there is: training is interlock.runtime's, in your own loop)",
    )
    run.add_argument("--ranks", metavar="N", type=int, help="the number of processes: that of the schedule")
    run.add_argument("--schedule", metavar="NAME", help="which schedule of the file (default: the only one)")
    run.add_argument(
        "--transfers",
        choices=("early", "inserted"),
        default="early",
        help="transfers as early as their queues allow, or where they stand (default: early)",
    )
    run.add_argument(
        "--scale", metavar="X", type=float, default=1.0, help="durations are multiplied by this (default: 1)"
    )
    run.add_argument(
        "--payload",
        metavar="X",
        type=float,
        default=1.0,
        help="bytes sent are multiplied by this; what links take by the model stays (default: 1)",
    )
    run.add_argument(
        "--calibrate",
        action="store_true",
        help="measure this machine's overhead and links first, and predict with them",
    )
    run.add_argument(
        "--timeout",
        metavar="S",
        type=float,
        default=10.0,
        help="seconds without any progress after which it is stopped (default: 10)",
    )
    run.add_argument(
        "-o", "--output", metavar="OUT.json", type=Path, help="where to write the measured timeline"
    )
    run.add_argument(
        "--stdin-filename",
        metavar="NAME",
        default="stdin.sched",
        help="the name of standard input (default: stdin.sched)",
    )
    return top


def _picture_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--comm",
        metavar="MODEL",
        choices=MODELS,
        help=f"the communication model of the run: {', '.join(MODELS)} (default: pair if the schedule is asked under it, else the first; "
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
    _csv_arguments(parser)


def _csv_arguments(parser: argparse.ArgumentParser) -> None:
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
        type=_placement,
        help="where the stages are: loop, vee, or ranks with commas (default: where they run)",
    )
    group.add_argument(
        "--microbatches", metavar="M", type=int, help="how many there are (default: as many as a stage runs)"
    )
    group.add_argument(
        "--frozen",
        metavar="STAGES",
        type=_stages,
        default=frozenset(),
        help="stages without trainable parameters: 0,1 or 0..2 or all",
    )


def _models(text: str) -> tuple[str, ...]:
    names = MODELS if text == "all" else tuple(x.strip() for x in text.split(","))
    for name in names:
        if name not in MODELS:
            raise argparse.ArgumentTypeError(
                f"there is no communication model {name!r}; there are {', '.join(MODELS)}"
            )
    return tuple(dict.fromkeys(names))


def _targets(text: str) -> tuple[str, ...]:
    names = tuple(x.strip() for x in text.split(","))
    for name in names:
        if name not in TARGETS:
            raise argparse.ArgumentTypeError(f"there is no target {name!r}; there are {', '.join(TARGETS)}")
    return names


def _format(name: str) -> str:
    if name not in FORMATS:
        raise argparse.ArgumentTypeError(f"there is no format {name!r}; there are {', '.join(FORMATS)}")
    return name


def _report(text: str) -> tuple[str, Path]:
    name, equals, path = text.partition("=")
    if not equals or not path:
        raise argparse.ArgumentTypeError(f"{text!r} is no report; write sarif=FILE")
    return _format(name), Path(path)


def _jobs(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 1024:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of processes")
    return int(text)


def _count(least: int):
    def count(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not least <= int(text[:9]) <= 100_000:
            raise argparse.ArgumentTypeError(f"{text!r} is no number from {least} to 100000")
        return int(text)

    return count


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {error}") from None


def _placement(text: str) -> str | tuple[int, ...]:
    if text in ("loop", "vee"):
        return text
    try:
        return tuple(int(x) for x in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no placement; write loop, vee, or the rank of each stage: 0,1,1,0"
        ) from None


def _stages(text: str) -> frozenset[int] | str:
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
