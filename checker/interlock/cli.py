"""The commands. Thin: each parses its arguments, calls one room and prints what a renderer made."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from . import __version__
from .files import write_whole

MODELS = ("buffered", "edge", "pair", "rank", "blocking")
SUFFIXES = (".sched", ".csv")


def main(argv: list[str] | None = None) -> int:
    """Exit code: 0 all as it should be, 1 something invalid, 2 usage or input, 3 unknown, 101 internal, 130 interrupted."""
    parser = _parser()
    args = parser.parse_args(argv)
    if args.command is None:
        parser.print_help()
        return 2
    try:
        return args.run(args)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:                           # the last line of defence: never a verdict, never silent
        return _internal(error)


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
    check.add_argument("--engine", choices=("graph", "smt", "both"), default="graph", help="who searches (default: graph); the kernel judges")
    check.add_argument("--format", choices=("text", "json"), default="text", help="how the answer is written (default: text)")
    check.add_argument("--certificate", metavar="DIR", type=Path, help="write a certificate for every verdict the kernel accepted")
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

    imports = commands.add_parser("import", help="turn a PyTorch CSV into a .sched file")
    imports.add_argument("path", metavar="FILE.csv")
    imports.add_argument("-o", "--output", metavar="FILE.sched", type=Path, help="where to write (default: standard output)")
    imports.add_argument("--name", help="the schedule's name (default: the file's)")
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
    """At most limit + 1 bytes: one more than a file may have is enough to refuse it."""
    if path == "-":
        return sys.stdin.buffer.read(limit + 1)
    with open(path, "rb") as file:
        return file.read(limit + 1)


MOST_BYTES = 64 * 2**20


def _check(args) -> int:
    from .pipeline import Options, check_file
    from .report import outcome
    from .report.progress import Progress
    try:
        files = _files(args.paths)
    except FileNotFoundError as error:
        return _usage(str(error))
    options = Options(args.comm, args.engine, _csv_options(args))
    results = []
    with Progress(len(files), "checking") as progress:
        for path in files:
            name = args.stdin_filename if path == "-" else path
            progress.step(name)
            try:
                data = _read(path, MOST_BYTES)
            except OSError as error:
                return _usage(f"{name}: {error.strerror}")
            results.append(check_file(name, data, options))
    if args.certificate is not None:
        from .certificate_files import write
        write(args.certificate, results)
    checked = [c for r in results for c in r.checked]
    unread = [outcome.Unread(r.path, r.errors, r.as_expected) for r in results if r.errors]
    if args.format == "json":
        from .report import json as renderer
        sys.stdout.write(renderer.render(checked, _sources(results), unread=unread))
    else:
        from .report import text as renderer
        sys.stdout.write(renderer.render(checked, _sources(results), unread=unread, verbose=args.verbose, **_terminal(sys.stdout)))
    return outcome.exit_code(checked, unread)


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
            sys.stdout.write(after)
        elif after != text:
            changed += 1
            if args.check:
                print(f"would format {path}")
            else:
                write_whole(Path(path), after)
                print(f"formatted {path}")
    return 2 if failed else 1 if args.check and changed else 0


def _explain(args) -> int:
    from .report import explain
    text = explain.listing() if args.code is None else explain.section(args.code)
    if text is None:
        return _usage(f"there is no code {args.code}; `interlock explain` lists them")
    print(text)
    return 0


def _verify(args) -> int:
    from .certificate_files import read
    from .kernel import verify
    worst = 0
    for path in args.paths:
        try:
            document = read(path)
        except (OSError, ValueError) as error:
            return _usage(f"{path}: {error}")
        judgements = verify(document)
        for number, judgement in enumerate(judgements):
            claim = document["claims"][number] if judgement.accepted else {}
            what = claim.get("claim", "a claim")
            model = f" under {claim['model']}" if claim.get("model") else ""
            print(f"{path}: {'accepted' if judgement.accepted else 'REJECTED'}: {what}{model}: {judgement.reason}")
            worst = max(worst, 0 if judgement.accepted else 1)
    return worst


def _import(args) -> int:
    from .interchange import torch_csv
    from .interchange.sched_text import to_sched
    from .language.diagnostics import InputError
    from .language.source import Sources
    sources = Sources()
    try:
        data = _read(args.path, MOST_BYTES)
    except OSError as error:
        return _usage(f"{args.path}: {error.strerror}")
    try:
        program = torch_csv.read(sources.add(args.path, torch_csv.decode(data)), _csv_options(args))
    except InputError as error:
        _show_errors(args.path, sources, error.diagnostics, sys.stderr)
        return 2
    text = to_sched(program, args.name or Path(args.path).name.split(".")[0])
    if args.output is None:
        sys.stdout.write(text)
    else:
        write_whole(args.output, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
