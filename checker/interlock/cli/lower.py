"""`interlock lower`: one file to one plan."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from interlock.check.certificates import text_of
from interlock.check.files import Ruling, rulings
from interlock.check.verdict import CaseResult, Verdict
from interlock.cli.options import add_csv_options, csv_options, read_models
from interlock.cli.terminal import (
    LARGEST_FILE,
    find_files,
    read,
    report_usage,
    show_errors,
    terminal_of,
    write,
)
from interlock.load import Question, load
from interlock.lower import backends
from interlock.lower.backends import Backend
from interlock.lower.lowering import Lowered, LoweringRefused, lower
from interlock.report import diagnostics, text
from interlock.report.style import Paint
from interlock.text.files import write_whole
from interlock.text.finding import Finding
from interlock.text.source import Sources


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Checks a schedule, rewrites it for a runtime, and checks what it wrote again before it is written."
    )
    parser.add_argument("path", metavar="FILE", help="a .sched file or a PyTorch CSV; - reads standard input")
    parser.add_argument(
        "--to",
        required=True,
        metavar="BACKEND",
        help="torch (interlock.runtime), torch-csv (PyTorch's own), hyperparallel, json, or one that is "
        "registered",
    )
    parser.add_argument(
        "-o", "--output", metavar="OUT", type=Path, help="where to write (default: standard output)"
    )
    parser.add_argument(
        "--schedule", metavar="NAME", help="which schedule of the file (default: the only one)"
    )
    parser.add_argument(
        "--comm",
        metavar="MODELS",
        type=read_models,
        default=(),
        help="further communication models the plan must be valid under",
    )
    parser.add_argument(
        "--transfers",
        choices=("early", "inserted"),
        default="early",
        help="for torch: transfers as early as their queues allow, or where they stand (default: early)",
    )
    parser.add_argument(
        "--grouped", action="store_true", help="for torch: every transfer in a grouped launch"
    )
    parser.add_argument(
        "--form",
        choices=("auto", "compute-only", "compute-comms"),
        default="auto",
        help="for torch-csv: which form (default: compute-only where transfers are inserted)",
    )
    parser.add_argument(
        "--certificate", metavar="DIR", type=Path, help="also write the certificates that the plan names"
    )
    parser.add_argument(
        "--stdin-filename",
        metavar="NAME",
        default="stdin.sched",
        help="the name of standard input (default: stdin.sched)",
    )
    add_csv_options(parser)


def run(args: argparse.Namespace) -> int:
    """The exit code. Standard output gets a plan without --output; standard error everything else. Raises
    OSError, Disagreement.
    """
    try:
        [path] = find_files([args.path]) or [""]
    except FileNotFoundError as error:
        return report_usage(str(error))
    except ValueError:
        return report_usage(f"{args.path} holds several files: name one")
    try:
        backend = backends.find(args.to)
    except KeyError:
        return report_usage(f"there is no back end {args.to!r}; there are {', '.join(backends.names())}")
    except Exception as error:  # a registered back end of somebody else's
        return report_usage(f"the back end {args.to!r} cannot be loaded: {type(error).__name__}: {error}")
    name = args.stdin_filename if path == "-" else path
    options = backends.LoweringOptions(args.comm, args.transfers, args.grouped, args.form)
    question = Question(args.comm, csv=csv_options(args))
    prepared = prepare(name, read(path, LARGEST_FILE), question, backend, options, args.schedule)
    if isinstance(prepared, int):
        return prepared
    ruling, lowered = prepared
    for note in lowered.notes:
        print(f"note: {note}", file=sys.stderr)
    if args.certificate is not None:
        _write_certificates(args.certificate, f"{ruling.result.name}.{args.to}", lowered)
    if args.output is None:
        write(lowered.text)
    else:
        write_whole(args.output, lowered.text)
        shown = ", ".join(f"{m} {d[:12]}" for m, d in sorted(lowered.plan.certificates.items()))
        what = f"{ruling.result.name} for {args.to}, checked again (certificate {shown})"
        print(f"wrote {args.output}: {what}", file=sys.stderr)
    return 0


def _write_certificates(folder: Path, name: str, lowered: Lowered) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for model, document in lowered.certificates.items():
        path = folder / f"{name}.{model}.cert"
        write_whole(path, text_of(document))
        print(f"wrote {path}", file=sys.stderr)


def prepare(
    name: str,
    data: bytes,
    question: Question,
    backend: Backend,
    options: backends.LoweringOptions,
    schedule: str | None,
) -> tuple[Ruling, Lowered] | int:
    """One schedule of a file, checked and lowered; or the exit code, and standard error says why. Raises
    Disagreement.
    """
    loaded = load(name, data, question)
    if loaded.errors:
        show_errors(name, loaded.sources, loaded.errors, sys.stderr)
        return 2
    found = rulings(loaded)
    chosen = [r for r in found if schedule in (None, r.result.name)]
    if len(chosen) != 1:
        names = ", ".join(r.result.name for r in found)
        what = f"{name} has no schedule {schedule!r}" if not chosen else f"{name} has several schedules"
        return report_usage(f"{what}: name one with --schedule ({names or 'there is none'})")
    [ruling] = chosen
    try:
        return ruling, lower(ruling, backend, options)
    except LoweringRefused as refused:
        _explain_refusal(ruling.result, refused, name, loaded.sources)
        return refused.exit


def _explain_refusal(result: CaseResult, refused: LoweringRefused, name: str, sources: Sources) -> None:
    """On standard error: the check's findings, or those in the plan; then why there is none."""
    terminal = terminal_of(sys.stderr)
    found = None
    if refused.answers:
        found = CaseResult(result.path, f"{result.name}, lowered", refused.answers)
    elif refused.code == "IL843" and result.verdict is not Verdict.VALID:
        found = result
    if found is not None:
        sys.stderr.write(text.render((found,), {name: sources}.get, **terminal) + "\n")
    refusal = Finding.of_input(refused.code, refused.args[0], help=refused.help)
    paint = Paint(terminal["color"])
    lines = diagnostics.render(refusal, None, name, width=terminal["width"], paint=paint)
    sys.stderr.write("\n".join(lines) + "\n")
