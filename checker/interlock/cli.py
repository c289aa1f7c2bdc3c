"""The commands. Thin: each parses its arguments, calls one room and prints what a renderer made."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from pathlib import Path

from . import __version__
from .files import write_whole

MODELS = ("buffered", "edge", "pair", "rank", "blocking")
TARGETS = ("torch", "torchtitan", "hyperparallel", "npu")
SUFFIXES = (".sched", ".csv")


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


def _write(text: str) -> None:
    """To standard output, now. A reader that has gone changes no exit code. Raises OSError."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())     # Python flushes again at its end
        if not isinstance(error, BrokenPipeError):
            raise OSError(error.errno, error.strerror, "standard output") from None


def _internal(error: Exception) -> int:
    import traceback
    where = traceback.extract_tb(error.__traceback__)[-1]
    print(f"internal error[IL902]: {type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno}); no verdict was reached. "
          "Please report it with the input.", file=sys.stderr)
    if os.environ.get("INTERLOCK_TRACEBACK"):
        traceback.print_exception(error)
    return 101


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="interlock", description="Checks pipeline-parallel training schedules: a proof that one is safe, or the smallest trace in which it goes wrong.")
    parser.add_argument("--version", action="version", version=f"interlock {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    check = commands.add_parser("check", help="check .sched files and PyTorch CSVs", description="Checks files and folders (their .sched and .csv files); - reads standard input.")
    check.add_argument("paths", nargs="+", metavar="PATH")
    check.add_argument("--comm", metavar="MODELS", type=_models, default=(), help=f"further communication models, with commas: {', '.join(MODELS)}, or all (default: those a file names, else pair)")
    check.add_argument("--target", metavar="TARGETS", type=_targets, action="append", default=[], help=f"runtimes whose own rules are asked too, with commas: {', '.join(TARGETS)}; their transport's models are asked with them")
    check.add_argument("--engine", choices=("graph", "smt", "both"), default="graph", help="who searches (default: graph); the kernel judges")
    check.add_argument("--format", choices=("text", "json"), default="text", help="how the answer is written (default: text)")
    check.add_argument("--certificate", metavar="DIR", type=Path, help="write a certificate for every verdict the kernel accepted")
    check.add_argument("--emit", choices=("smt2",), help="instead of checking, write what a solver is asked: the queries of each schedule as SMT-LIB, with the answer they should have")
    check.add_argument("-o", "--output", metavar="DIR", type=Path, help="the folder --emit writes to (default: standard output, one query after the other)")
    check.add_argument("--stdin-filename", metavar="NAME", default="stdin.sched", help="the name of standard input; its ending says what it is (default: stdin.sched)")
    check.add_argument("--verbose", action="store_true", help="also notes, and what was checked how")
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
    return parser


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


def _usage(message: str) -> int:
    print(f"interlock: {message}", file=sys.stderr)
    return 2


def _files(paths: list[str], suffixes=SUFFIXES) -> list[str]:
    """The files named, and those with a fitting ending below the folders named, in order. Raises FileNotFoundError."""
    out: list[str] = []
    for path in paths:
        if path != "-" and os.path.isdir(path):
            found = sorted(str(p) for p in Path(path).rglob("*") if p.suffix in suffixes and p.is_file()
                           and not any(part.startswith(".") for part in p.relative_to(path).parts))
            if not found:
                raise FileNotFoundError(f"there is no {' or '.join(suffixes)} file in {path}")
            out += found
        elif path != "-" and not os.path.isfile(path):
            raise FileNotFoundError(f"there is no file {path}")
        else:
            out.append(path)
    return list(dict.fromkeys(out))


def _read(path: str, limit: int) -> bytes:
    """At most limit + 1 bytes: one more than a file may have is enough to refuse it. Raises OSError."""
    if path != "-":
        with open(path, "rb") as file:
            return file.read(limit + 1)
    try:
        if sys.stdin is None:
            raise OSError(errno.EBADF, "it is closed")
        return sys.stdin.buffer.read(limit + 1)
    except OSError as error:
        raise OSError(error.errno, error.strerror, "standard input") from None


MOST_BYTES = 64 * 2**20


def _check(args) -> int:
    from .pipeline import Options, check_file
    from .report import outcome
    from .report.progress import Progress
    try:
        files = _files(args.paths)
    except FileNotFoundError as error:
        return _usage(str(error))
    targets = tuple(dict.fromkeys(t for names in args.target for t in names))
    options = Options(args.comm, args.engine, _csv_options(args), targets)
    if args.emit is not None:
        return _emit(files, args, options)
    if args.output is not None:
        return _usage("-o is for --emit; --certificate DIR writes certificates")
    results = []
    with Progress(len(files), "checking") as progress:
        for path in files:
            name = args.stdin_filename if path == "-" else path
            progress.step(name)
            results.append(check_file(name, _read(path, MOST_BYTES), options))
    if args.certificate is not None:
        from .certificate_files import write
        write(args.certificate, results)
    checked = [c for r in results for c in r.checked]
    unread = [outcome.Unread(r.path, r.errors, r.as_expected) for r in results if r.errors]
    if args.format == "json":
        from .report import json as renderer
        _write(renderer.render(checked, _sources(results), unread=unread))
    else:
        from .report import text as renderer
        _write(renderer.render(checked, _sources(results), unread=unread, verbose=args.verbose, **_terminal(sys.stdout)))
    return outcome.exit_code(checked, unread)


def _emit(files: list[str], args, options) -> int:
    from .language.diagnostics import InputError
    from .language.source import Sources
    from .queries import queries
    refused = written = 0
    for path in files:
        name = args.stdin_filename if path == "-" else path
        sources = Sources()
        try:
            for query in queries(name, _read(path, MOST_BYTES), sources, options):
                if args.output is None:
                    _write(("(reset)\n\n" if written else "") + query.text)
                else:
                    args.output.mkdir(parents=True, exist_ok=True)
                    target = args.output / f"{Path(name).stem}.{query.name}.smt2"
                    write_whole(target, query.text)
                    _write(f"wrote {target}\n")
                written += 1
        except InputError as error:
            refused += 1
            _show_errors(name, sources, error.diagnostics, sys.stderr)
    return 2 if refused else 0


def _sources(results):
    return {r.path: r.sources for r in results}.get


def _terminal(stream) -> dict:
    """Colour, width and box drawing for text on a stream."""
    import shutil
    from .report.style import takes_box, use_color
    width = shutil.get_terminal_size((100, 24)).columns if stream.isatty() else 100
    return {"color": use_color(stream), "width": width, "box": takes_box(stream)}


def _show_errors(path: str, sources, diagnostics, stream) -> None:
    from .report import text
    from .report.outcome import Unread
    stream.write(text.render((), {path: sources}.get, unread=(Unread(path, diagnostics),), **_terminal(stream)))


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
