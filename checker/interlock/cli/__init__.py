"""The commands. Thin: each calls one room and prints what a renderer made."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from interlock.cli.arguments import parser
from interlock.cli.common import MOST_BYTES, fault, internal
from interlock.cli.common import files as _files
from interlock.cli.common import read as _read
from interlock.cli.common import show_errors as _show_errors
from interlock.cli.common import terminal as _terminal
from interlock.cli.common import usage as _usage
from interlock.cli.common import write as _write
from interlock.text.files import write_whole


def main(argv: list[str] | None = None) -> int:
    """Exit code: 0 all as it should be, 1 something invalid, 2 usage or input, 3 unknown, 101 internal, 130 interrupted."""
    given = parser()
    args = given.parse_args(argv)
    if args.command is None:
        given.print_help()
        return 2
    if sys.stdout is None:
        return _usage("standard output is closed")
    for stream in (
        sys.stdout,
        sys.stderr,
    ):  # names of files need not be text, and not every terminal writes all of it
        getattr(stream, "reconfigure", lambda **_: None)(errors="backslashreplace")
    try:
        return _COMMANDS[args.command](args)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except OSError as error:  # a disk, a folder, a pipe: no fault of the schedule, and none of ours
        return _usage(f"{error.filename or 'input or output'}: {error.strerror or error}")
    except MemoryError:
        return _usage("there is not enough memory for this")
    except Exception as error:  # the last line of defence: never a verdict, never silent
        return _internal(error)


def _internal(error: Exception) -> int:
    if os.environ.get("INTERLOCK_TRACEBACK"):
        import traceback

        traceback.print_exception(error)
    return internal(fault(error))


def _csv_options(args):
    from interlock.interchange.torch_csv import CsvOptions

    return CsvOptions(args.csv_format, args.placement, args.microbatches, args.frozen)


def _check(args) -> int:
    from interlock.cli import check

    return check.run(args, _csv_options(args))


def _show(args) -> int:
    from interlock.cli.show import show

    return show(args, _csv_options(args))


def _compare(args) -> int:
    from interlock.cli.show import compare

    return compare(args, _csv_options(args))


def _fmt(args) -> int:
    from interlock.language.format import format
    from interlock.language.parse import decode
    from interlock.text.finding import InputError
    from interlock.text.source import Sources

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
            from interlock.language.parse import parse

            parse(source)
            after = format(text)
        except InputError as error:
            failed += 1
            _show_errors(path, sources, error.findings, sys.stderr)
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
    from interlock.report import explain

    text = explain.listing() if args.code is None else explain.section(args.code)
    if text is None:
        return _usage(f"there is no code {args.code}; `interlock explain` lists them")
    _write(text + "\n")
    return 0


def _verify(args) -> int:
    from interlock.check.certificates import read
    from interlock.kernel import verify

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
            _write(
                f"{path}: {'accepted' if judgement.accepted else 'REJECTED'}: {what}{model}: {judgement.reason}\n"
            )
            worst = max(worst, 0 if judgement.accepted else 1)
    return worst


def _import(args) -> int:
    from interlock.interchange import importing
    from interlock.text.finding import InputError
    from interlock.text.source import Sources

    given = [x for x in (args.path, args.megatron, args.megatron_flags) if x is not None]
    if len(given) != 1:
        return _usage(
            "import wants a file, --megatron or --megatron-flags"
            + (", and one of them only" if given else "")
        )
    if wrong := _misplaced(args):
        return _usage(wrong)
    sources = Sources()
    try:
        if args.path is None:
            flags = args.megatron_flags is not None
            text = importing.import_layout(
                sources,
                args.megatron_flags if flags else args.megatron,
                importing.LayoutSizes(args.ranks, args.layers, args.mtp),
                args.name or "megatron",
                args.microbatches,
                flags,
            )
        else:
            shown = "stdin" if args.path == "-" else args.path
            text = importing.import_file(
                sources,
                shown,
                _read(args.path, MOST_BYTES),
                args.form or "csv",
                args.name or Path(shown).name.split(".")[0],
                _csv_options(args),
                _read_if_there,
            )
    except InputError as error:
        _show_errors(
            args.path or ("layout" if args.megatron is not None else "flags"),
            sources,
            error.findings,
            sys.stderr,
        )
        return 2
    if args.output is None:
        _write(text)
    else:
        write_whole(args.output, text)
    return 0


def _profile(args) -> int:
    from interlock.cli import profile

    return profile.run(args)


def _lower(args) -> int:
    from interlock.check.pipeline import Options
    from interlock.cli import lower as command
    from interlock.lower import backends

    try:
        [path] = _files([args.path]) or [""]
    except (FileNotFoundError, ValueError) as error:
        return _usage(
            str(error)
            if isinstance(error, FileNotFoundError)
            else f"{args.path} holds several files: name one"
        )
    name = args.stdin_filename if path == "-" else path
    options = backends.LoweringOptions(args.comm, args.transfers, args.grouped, args.form)
    return command.run(
        name,
        _read(path, MOST_BYTES),
        Options(args.comm, csv=_csv_options(args)),
        args.to,
        options,
        args.schedule,
        args.output,
        args.certificate,
        _write,
        sys.stderr.write,
        _terminal(sys.stderr),
    )


def _run(args) -> int:
    from interlock.check.pipeline import Options
    from interlock.lower import backends
    from interlock.runtime import emulation

    if args.scale <= 0 or args.payload < 0 or args.timeout <= 0:
        return _usage("--scale and --timeout are above 0, --payload is 0 or more")
    if args.path != "-" and not os.path.isfile(args.path):
        return _usage(f"there is no file {args.path}")
    name = args.stdin_filename if args.path == "-" else args.path
    asked = emulation.EmulationSettings(
        args.schedule,
        args.ranks,
        args.scale,
        args.payload,
        args.timeout,
        backends.LoweringOptions(transfers=args.transfers),
        args.calibrate,
    )
    return emulation.run(
        name,
        _read(args.path, MOST_BYTES),
        Options(),
        asked,
        args.output,
        _write,
        sys.stderr.write,
        _terminal(sys.stderr),
    )


def _misplaced(args) -> str:
    """What is wrong with the options of `import`, taken together."""
    file = args.path is not None
    if file and args.form is None and Path(args.path).suffix.lower() in (".json", ".yaml", ".yml", ".txt"):
        return f"{args.path} is no CSV: add --from hyperparallel, deepspeed or octopipe"
    megatron = [n for n in ("ranks", "layers", "mtp") if getattr(args, n) is not None]
    if file and megatron:
        return f"--{megatron[0]} is for --megatron"
    csv = [
        n for n, there in (("--frozen", args.frozen), ("--csv-format", args.csv_format != "auto")) if there
    ]
    if csv and (args.form or "csv" if file else "megatron") != "csv":
        return f"{csv[0]} is for PyTorch CSVs"
    if not file and args.placement is not None:
        return "--placement is for files: Megatron places stages in a loop"
    if not file and args.form is not None:
        return "--from is for files"
    return ""


def _read_if_there(path: str) -> bytes | None:
    return _read(path, MOST_BYTES) if os.path.isfile(path) else None


_COMMANDS = {
    "check": _check,
    "show": _show,
    "compare": _compare,
    "profile": _profile,
    "fmt": _fmt,
    "explain": _explain,
    "verify": _verify,
    "import": _import,
    "lower": _lower,
    "run": _run,
}
