"""The commands. Thin: each parses its arguments, calls one room and prints what a renderer made."""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path

from . import __version__
from .commands.common import MOST_BYTES, fault, internal
from .commands.common import files as _files
from .commands.common import read as _read
from .commands.common import show_errors as _show_errors
from .commands.common import terminal as _terminal
from .commands.common import usage as _usage
from .commands.common import write as _write
from .files import write_whole

MODELS = ("buffered", "edge", "pair", "rank", "blocking")
TARGETS = ("torch", "torchtitan", "hyperparallel", "npu")
FORMATS = ("text", "json", "json-lines", "concise", "sarif", "github", "junit")      # report.FORMATS, which takes longer to import


def main(argv: list[str] | None = None) -> int:
    """Exit code: 0 all as it should be, 1 something invalid, 2 usage or input, 3 unknown, 101 internal, 130 interrupted."""
    parser = _parser()
    args = parser.parse_args(argv)
    if args.command is None:
        parser.print_help()
        return 2
    if sys.stdout is None:
        return _usage("standard output is closed")
    for stream in (sys.stdout, sys.stderr):              # names of files need not be text, and not every terminal writes all of it
        getattr(stream, "reconfigure", lambda **_: None)(errors="backslashreplace")
    try:
        return args.run(args)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except OSError as error:                             # a disk, a folder, a pipe: no fault of the schedule, and none of ours
        return _usage(f"{error.filename or 'input or output'}: {error.strerror or error}")
    except MemoryError:
        return _usage("there is not enough memory for this")
    except Exception as error:                           # the last line of defence: never a verdict, never silent
        return _internal(error)


def _internal(error: Exception) -> int:
    if os.environ.get("INTERLOCK_TRACEBACK"):
        import traceback
        traceback.print_exception(error)
    return internal(fault(error))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="interlock", description="Checks pipeline-parallel training schedules: a proof that one is safe, or the smallest trace in which it goes wrong.")
    parser.add_argument("--version", action="version", version=f"interlock {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    check = commands.add_parser("check", help="check .sched files and PyTorch CSVs", description="Checks files and folders (their .sched and .csv files); - reads standard input.")
    check.add_argument("paths", nargs="*", metavar="PATH", help="files and folders (default: `paths` of the configuration)")
    check.add_argument("--comm", metavar="MODELS", type=_models, default=(), help=f"further communication models, with commas: {', '.join(MODELS)}, or all (default: those a file names, else pair)")
    check.add_argument("--target", metavar="TARGETS", type=_targets, action="append", default=[], help=f"runtimes whose own rules are asked too, with commas: {', '.join(TARGETS)}; their transport's models are asked with them")
    check.add_argument("--engine", choices=("graph", "smt", "both"), help="who searches (default: graph); smt is z3, and both asks cvc5 too where it is installed; the kernel judges")
    check.add_argument("--format", metavar="FORMAT", type=_format, default=os.environ.get("INTERLOCK_OUTPUT_FORMAT") or None, help=f"how the answer is written: {', '.join(FORMATS)} (default: INTERLOCK_OUTPUT_FORMAT, else text)")
    check.add_argument("--certificate", metavar="DIR", type=Path, help="write a certificate for every verdict the kernel accepted")
    check.add_argument("--emit", choices=("smt2",), help="instead of checking, write what a solver is asked: the queries of each schedule as SMT-LIB, with the answer they should have")
    check.add_argument("-o", "--output", metavar="DIR", type=Path, help="the folder --emit writes to (default: standard output, one query after the other)")
    check.add_argument("--stdin-filename", metavar="NAME", default="stdin.sched", help="the name of standard input; its ending says what it is (default: stdin.sched)")
    check.add_argument("--verbose", action="store_true", help="also notes, and what was checked how")
    check.add_argument("--jobs", metavar="N", type=_jobs, help="processes that check files at once (default: one a core, for more than 8 files)")
    check.add_argument("--watch", action="store_true", help="check again whatever changes, until Ctrl-C")
    gate = check.add_argument_group("the gate")
    gate.add_argument("--report", metavar="FORMAT=FILE", type=_report, action="append", default=[], help="a report in a further format, to a file")
    gate.add_argument("--baseline", metavar="FILE", type=Path, help="fail on what is not known in this file only; what is invalid stays invalid")
    gate.add_argument("--write-baseline", metavar="FILE", type=Path, help="write what is found now as known")
    gate.add_argument("--config", metavar="FILE", help="the configuration (default: the nearest interlock.toml or [tool.interlock] in a pyproject.toml upward)")
    gate.add_argument("--no-config", action="store_true", help="use no configuration")
    gate.add_argument("--force-exclude", action="store_true", help="leave out what the configuration excludes even where it is named")
    _csv_arguments(check)
    check.set_defaults(run=_check)

    fmt = commands.add_parser("fmt", help="format .sched files in place", description="Formats files and folders in place; - reads standard input and writes standard output.")
    fmt.add_argument("paths", nargs="+", metavar="PATH")
    fmt.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file would change")
    fmt.set_defaults(run=_fmt)

    explain = commands.add_parser("explain", help="the rule behind a code, with an example and its repair")
    explain.add_argument("code", metavar="CODE", nargs="?", help="a diagnostic code such as IL402; without one, all are listed")
    explain.set_defaults(run=_explain)

    verify = commands.add_parser("verify", help="have the kernel judge certificates again")
    verify.add_argument("paths", nargs="+", metavar="FILE.cert", type=Path)
    verify.set_defaults(run=_verify)

    imports = commands.add_parser("import", help="turn a schedule of another system into a .sched file",
                                  description="Turns a PyTorch CSV, a list of steps of HyperParallel, DeepSpeed or OctoPipe, or a Megatron layout into a .sched file.")
    imports.add_argument("path", metavar="FILE", nargs="?", help="the file to read; - reads standard input")
    imports.add_argument("--from", dest="form", choices=("csv", "hyperparallel", "deepspeed", "octopipe"), help="what wrote the file (default: csv, PyTorch)")
    imports.add_argument("-o", "--output", metavar="FILE.sched", type=Path, help="where to write (default: standard output)")
    imports.add_argument("--name", help="the schedule's name (default: the file's)")
    megatron = imports.add_argument_group("Megatron-LM")
    megatron.add_argument("--megatron", metavar="LAYOUT", help="a pipeline layout instead of a file: 'Et*3|(tt|)*29,m|L'")
    megatron.add_argument("--megatron-flags", metavar="FLAGS", help="the flags that place layers instead of a file: '--num-layers 60 --pipeline-model-parallel-size 5'")
    megatron.add_argument("--ranks", metavar="P", type=int, help="pipeline ranks (default: one for each stage of the layout)")
    megatron.add_argument("--layers", metavar="N", type=int, help="decoder layers the layout must have")
    megatron.add_argument("--mtp", metavar="N", type=int, help="MTP layers the layout must have")
    _csv_arguments(imports)
    imports.set_defaults(run=_import)

    show = commands.add_parser("show", help="draw a schedule: who does what when, and what it holds",
                               description="Draws a schedule: compute and transfers of every rank over time, memory below, the critical path; of a deadlock what ran and who waits for whom.")
    show.add_argument("path", metavar="FILE", help="a .sched file, a PyTorch CSV, or a timeline of `interlock run --emulate` (.json); - reads standard input")
    show.add_argument("--schedule", metavar="NAME", help="which schedule of the file (default: the first)")
    show.add_argument("--format", choices=("terminal", "html", "svg", "perfetto"), help="terminal, one page of HTML, SVG, or a trace for ui.perfetto.dev (default: by the ending of OUT, else terminal)")
    show.add_argument("--counterexample", action="store_true", help="under the first communication model it deadlocks under")
    _picture_arguments(show)
    show.set_defaults(run=_show)

    compare = commands.add_parser("compare", help="several schedules in one table and one figure",
                                  description="Compares the schedules of files: a table, and their timelines over one axis of time.")
    compare.add_argument("paths", nargs="+", metavar="FILE", help=".sched files, PyTorch CSVs and measured timelines (.json); every schedule in them is compared")
    compare.add_argument("--schedule", metavar="NAME", action="append", help="only this schedule; may be given again")
    compare.add_argument("--format", choices=("text", "html", "svg"), help="text, one page of HTML, or SVG (default: by the ending of OUT, else text)")
    _picture_arguments(compare)
    compare.set_defaults(run=_compare)

    profile = commands.add_parser("profile", help="measure a model's layers, or read a PyTorch trace, into a profile.toml",
                                  description="Times torch modules (forward, input gradients, weight gradients) and counts the bytes they hold, or takes times from a trace of torch.profiler. "
                                              "`model \"profile.toml\"` in a .sched file uses what it writes.")
    profile.add_argument("module", metavar="MODULE", nargs="?", help="package.module:attribute or path.py:attribute: a list of torch modules, an nn.Sequential, or a function that returns (modules, sample input)")
    profile.add_argument("-o", "--output", metavar="FILE.toml", default="profile.toml", help="where to write; - is standard output (default: profile.toml)")
    measure = profile.add_argument_group("MODULE")
    measure.add_argument("--input", metavar="SHAPE", help="the first layer's sample input, if MODULE gives none: 4x128:int64, several with commas (default type: float32)")
    measure.add_argument("--device", metavar="D", help="cpu, cuda, npu, xpu, cuda:1 (default: the accelerator there is, else cpu)")
    measure.add_argument("--dtype", metavar="T", help="convert modules and input to this type: bfloat16")
    measure.add_argument("--repeats", metavar="N", type=_count(1), help="how often each time is taken (default: 20)")
    measure.add_argument("--warmup", metavar="N", type=_count(0), help="how often before that, untimed (default: 5)")
    trace = profile.add_argument_group("traces")
    trace.add_argument("--trace", metavar="FILE", help="a Chrome trace of torch.profiler (export_chrome_trace), .json or .gz, instead of MODULE; - reads standard input")
    trace.add_argument("--label", metavar="REGEX", type=_pattern, help="which record_function ranges are layers; its first group, if any, is the name (default: all that are not PyTorch's own)")
    trace.add_argument("--frozen", metavar="LAYERS", type=lambda text: tuple(x.strip() for x in text.split(",")), help="layers that nothing runs backward through, or without weights to train, with commas")
    profile.set_defaults(run=_profile)

    lower = commands.add_parser("lower", help="turn a valid schedule into a plan that a runtime executes",
                                description="Checks a schedule, rewrites it for a runtime, and checks what it wrote again before it is written.")
    lower.add_argument("path", metavar="FILE", help="a .sched file or a PyTorch CSV; - reads standard input")
    lower.add_argument("--to", required=True, metavar="BACKEND", help="torch (interlock.runtime), torch-csv (PyTorch's own), hyperparallel, json, or one that is registered")
    lower.add_argument("-o", "--output", metavar="OUT", type=Path, help="where to write (default: standard output)")
    lower.add_argument("--schedule", metavar="NAME", help="which schedule of the file (default: the only one)")
    lower.add_argument("--comm", metavar="MODELS", type=_models, default=(), help="further communication models the plan must be valid under")
    lower.add_argument("--transfers", choices=("early", "inserted"), default="early", help="for torch: transfers as early as their queues allow, or where they stand (default: early)")
    lower.add_argument("--grouped", action="store_true", help="for torch: every transfer in a grouped launch")
    lower.add_argument("--form", choices=("auto", "compute-only", "compute-comms"), default="auto", help="for torch-csv: which form (default: compute-only where transfers are inserted)")
    lower.add_argument("--certificate", metavar="DIR", type=Path, help="also write the certificates that the plan names")
    lower.add_argument("--stdin-filename", metavar="NAME", default="stdin.sched", help="the name of standard input (default: stdin.sched)")
    _csv_arguments(lower)
    lower.set_defaults(run=_lower)

    run = commands.add_parser("run", help="emulate a schedule: processes, timed waits for compute, real transfers in ordered queues",
                              description="Lowers a schedule and runs it on this machine, compute replaced by waits of the model's durations; compares with the prediction.")
    run.add_argument("path", metavar="FILE", help="a .sched file with times in its model; - reads standard input")
    run.add_argument("--emulate", action="store_true", required=True, help="replace compute by timed waits (the one way there is: training is interlock.runtime's, in your own loop)")
    run.add_argument("--ranks", metavar="N", type=int, help="the number of processes: that of the schedule")
    run.add_argument("--schedule", metavar="NAME", help="which schedule of the file (default: the only one)")
    run.add_argument("--transfers", choices=("early", "inserted"), default="early", help="transfers as early as their queues allow, or where they stand (default: early)")
    run.add_argument("--scale", metavar="X", type=float, default=1.0, help="durations are multiplied by this (default: 1)")
    run.add_argument("--payload", metavar="X", type=float, default=1.0, help="bytes sent are multiplied by this; what links take by the model stays (default: 1)")
    run.add_argument("--calibrate", action="store_true", help="measure this machine's overhead and links first, and predict with them")
    run.add_argument("--timeout", metavar="S", type=float, default=10.0, help="seconds without any progress after which it is stopped (default: 10)")
    run.add_argument("-o", "--output", metavar="OUT.json", type=Path, help="where to write the measured timeline")
    run.add_argument("--stdin-filename", metavar="NAME", default="stdin.sched", help="the name of standard input (default: stdin.sched)")
    run.set_defaults(run=_run)
    return parser


def _picture_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--comm", metavar="MODEL", choices=MODELS, help=f"the communication model of the run: {', '.join(MODELS)} (default: pair if the schedule is asked under it, else the first; "
                        "inserted transfers go at once)")
    parser.add_argument("-o", "--output", metavar="OUT", type=Path, help="where to write (default: standard output)")
    parser.add_argument("--stdin-filename", metavar="NAME", default="stdin.sched", help="the name of standard input (default: stdin.sched)")
    _csv_arguments(parser)


def _csv_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("PyTorch CSVs")
    group.add_argument("--csv-format", choices=("auto", "compute-only", "compute-comms"), default="auto", help="what the cells may hold (default: auto, by what they hold)")
    group.add_argument("--placement", metavar="P", type=_placement, help="where the stages are: loop, vee, or ranks with commas (default: where they run)")
    group.add_argument("--microbatches", metavar="M", type=int, help="how many there are (default: as many as a stage runs)")
    group.add_argument("--frozen", metavar="STAGES", type=_stages, default=frozenset(), help="stages without trainable parameters: 0,1 or 0..2 or all")


def _models(text: str) -> tuple[str, ...]:
    names = MODELS if text == "all" else tuple(x.strip() for x in text.split(","))
    for name in names:
        if name not in MODELS:
            raise argparse.ArgumentTypeError(f"there is no communication model {name!r}; there are {', '.join(MODELS)}")
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
        raise argparse.ArgumentTypeError(f"{text!r} is no placement; write loop, vee, or the rank of each stage: 0,1,1,0") from None


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


def _csv_options(args):
    from .interchange.torch_csv import CsvOptions
    return CsvOptions(args.csv_format, args.placement, args.microbatches, args.frozen)


def _check(args) -> int:
    from .commands import check
    return check.run(args, _csv_options(args))


def _show(args) -> int:
    from .commands.show import show
    return show(args, _csv_options(args))


def _compare(args) -> int:
    from .commands.show import compare
    return compare(args, _csv_options(args))


def _fmt(args) -> int:
    from .language.diagnostics import InputError
    from .language.format import format
    from .language.parse import decode
    from .language.source import Sources
    try:
        files = _files(args.paths, (".sched",))
    except FileNotFoundError as error:
        return _usage(str(error))
    changed = failed = 0
    for path in files:
        sources, text = Sources(), ""
        try:
            text = decode(path, _read(path, MOST_BYTES))
            source = sources.add("stdin" if path == "-" else path, text)
            from .language.parse import parse
            parse(source)
            after = format(text)
        except InputError as error:
            failed += 1
            _show_errors(path, sources, error.diagnostics, sys.stderr)
            continue
        if path == "-":
            _write(after)
        elif after != text:
            changed += 1
            if args.check:
                _write(f"would format {path}\n")
            else:
                write_whole(Path(path), after)
                _write(f"formatted {path}\n")
    return 2 if failed else 1 if args.check and changed else 0


def _explain(args) -> int:
    from .report import explain
    text = explain.listing() if args.code is None else explain.section(args.code)
    if text is None:
        return _usage(f"there is no code {args.code}; `interlock explain` lists them")
    _write(text + "\n")
    return 0


def _verify(args) -> int:
    from .certificate_files import read
    from .kernel import verify
    worst = 0
    for path in args.paths:
        try:
            document = read(path)
        except (OSError, ValueError) as error:
            return _usage(f"{path}: {getattr(error, 'strerror', None) or error}")
        judgements = verify(document)
        for number, judgement in enumerate(judgements):
            claim = document["claims"][number] if judgement.accepted else {}
            what = claim.get("claim", "a claim")
            model = f" under {claim['model']}" if claim.get("model") else ""
            _write(f"{path}: {'accepted' if judgement.accepted else 'REJECTED'}: {what}{model}: {judgement.reason}\n")
            worst = max(worst, 0 if judgement.accepted else 1)
    return worst


def _import(args) -> int:
    from .interchange import importing
    from .language.diagnostics import InputError
    from .language.source import Sources
    given = [x for x in (args.path, args.megatron, args.megatron_flags) if x is not None]
    if len(given) != 1:
        return _usage("import wants a file, --megatron or --megatron-flags" + (", and one of them only" if given else ""))
    if wrong := _misplaced(args):
        return _usage(wrong)
    sources = Sources()
    try:
        if args.path is None:
            flags = args.megatron_flags is not None
            text = importing.layout(sources, args.megatron_flags if flags else args.megatron, importing.Asked(args.ranks, args.layers, args.mtp),
                                    args.name or "megatron", args.microbatches, flags)
        else:
            shown = "stdin" if args.path == "-" else args.path
            text = importing.file(sources, shown, _read(args.path, MOST_BYTES), args.form or "csv", args.name or Path(shown).name.split(".")[0],
                                  _csv_options(args), _read_if_there)
    except InputError as error:
        _show_errors(args.path or ("layout" if args.megatron is not None else "flags"), sources, error.diagnostics, sys.stderr)
        return 2
    if args.output is None:
        _write(text)
    else:
        write_whole(args.output, text)
    return 0


def _profile(args) -> int:
    from .commands import profile
    return profile.run(args)


def _lower(args) -> int:
    from .lower import backends, command
    from .pipeline import Options
    try:
        [path] = _files([args.path]) or [""]
    except (FileNotFoundError, ValueError) as error:
        return _usage(str(error) if isinstance(error, FileNotFoundError) else f"{args.path} holds several files: name one")
    name = args.stdin_filename if path == "-" else path
    options = backends.Options(args.comm, args.transfers, args.grouped, args.form)
    return command.run(name, _read(path, MOST_BYTES), Options(args.comm, csv=_csv_options(args)), args.to, options, args.schedule, args.output, args.certificate,
                       _write, sys.stderr.write, _terminal(sys.stderr))


def _run(args) -> int:
    from .lower import backends
    from .pipeline import Options
    from .runtime import emulation
    if args.scale <= 0 or args.payload < 0 or args.timeout <= 0:
        return _usage("--scale and --timeout are above 0, --payload is 0 or more")
    if args.path != "-" and not os.path.isfile(args.path):
        return _usage(f"there is no file {args.path}")
    name = args.stdin_filename if args.path == "-" else args.path
    asked = emulation.Asked(args.schedule, args.ranks, args.scale, args.payload, args.timeout, backends.Options(transfers=args.transfers), args.calibrate)
    return emulation.run(name, _read(args.path, MOST_BYTES), Options(), asked, args.output, _write, sys.stderr.write, _terminal(sys.stderr))


def _misplaced(args) -> str:
    """What is wrong with the options of `import`, taken together."""
    file = args.path is not None
    if file and args.form is None and Path(args.path).suffix.lower() in (".json", ".yaml", ".yml", ".txt"):
        return f"{args.path} is no CSV: add --from hyperparallel, deepspeed or octopipe"
    megatron = [n for n in ("ranks", "layers", "mtp") if getattr(args, n) is not None]
    if file and megatron:
        return f"--{megatron[0]} is for --megatron"
    csv = [n for n, there in (("--frozen", args.frozen), ("--csv-format", args.csv_format != "auto")) if there]
    if csv and (args.form or "csv" if file else "megatron") != "csv":
        return f"{csv[0]} is for PyTorch CSVs"
    if not file and args.placement is not None:
        return "--placement is for files: Megatron places stages in a loop"
    if not file and args.form is not None:
        return "--from is for files"
    return ""


def _read_if_there(path: str) -> bytes | None:
    return _read(path, MOST_BYTES) if os.path.isfile(path) else None


if __name__ == "__main__":
    sys.exit(main())
