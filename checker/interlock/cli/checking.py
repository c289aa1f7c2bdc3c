"""A run of `interlock check`: configuration and command line to a request, files to results, results to
reports and an exit code.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from interlock import report
from interlock.check.files import FileResult
from interlock.cli.options import csv_options
from interlock.cli.parallel import Failed, default_jobs, map_files
from interlock.cli.terminal import (
    find_files,
    read,
    report_internal_error,
    report_usage,
    show_errors,
    terminal_of,
    write,
)
from interlock.gate import baseline, policy
from interlock.gate import config as configuration
from interlock.gate.config import Config, first_given
from interlock.gate.waivers import check_file
from interlock.load import Question
from interlock.report import outcome
from interlock.report.progress import Progress
from interlock.text.files import write_whole
from interlock.text.finding import InputError
from interlock.text.source import Sources

Results = dict[str, FileResult | Failed]


@dataclass(frozen=True)
class Request:
    """What a run checks and how it reports it. `named`: files and folders; `excluded`: how many files the
    configuration leaves out.
    """

    named: tuple[str, ...]
    files: tuple[str, ...]
    question: Question
    config: Config
    format: str
    excluded: int = 0


@dataclass
class Run:
    """What a run found: the results of the files in order, the internal errors, what is no longer as the
    baseline has it.
    """

    results: list[FileResult] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)
    not_found: tuple[baseline.Fingerprint, ...] = ()


class UsageError(Exception):
    """The run cannot begin; standard error says why."""


def make_request(args: argparse.Namespace) -> Request:
    """The configuration, and what it and the command line ask for together. Raises UsageError and OSError."""
    if args.output is not None and args.emit is None:
        raise _usage("-o is for --emit; --certificate DIR writes certificates")
    config = _read_config(args)
    try:
        named = args.paths or config.files_and_folders()
        if not named:
            raise _usage("check wants files or folders, or `paths` in [tool.interlock]")
        found = find_files(named)
    except FileNotFoundError as error:
        raise _usage(str(error)) from None
    excludable = set(found) if args.force_exclude else set(found) - set(named)
    kept = tuple(f for f in found if f not in excludable or f == "-" or not config.excludes(f))
    if not kept and not args.force_exclude and config.source is not None:
        raise _usage(f"nothing to check: {config.source.name} excludes all {len(found)} files")
    targets = tuple(dict.fromkeys(t for names in args.target for t in names))
    question = Question(
        first_given(args.comm, config.models, ()),
        first_given(args.engine, config.engine, "graph"),
        csv_options(args),
        first_given(targets, config.targets, ()),
        config.capacity,
    )
    format = args.format or config.format or "text"
    return Request(tuple(named), kept, question, config, format, len(found) - len(kept))


def check_files(args: argparse.Namespace, request: Request, paths: Sequence[str] | None = None) -> Results:
    """The result of each file, in order. Raises OSError and MemoryError."""
    paths = request.files if paths is None else paths
    whole = args.certificate is not None
    check = partial(check_path, question=request.question, stdin_name=args.stdin_filename, whole=whole)
    jobs = args.jobs or default_jobs(len(paths))
    out: Results = {}
    with Progress(len(paths), "checking") as progress:
        if "-" in paths:  # standard input is this process's
            out["-"] = next(result for _, result in map_files(check, ["-"], 1))
        rest = [p for p in paths if p != "-"]
        for number, result in map_files(check, rest, jobs):
            progress.step(rest[number])
            out[rest[number]] = result
    return {p: out[p] for p in paths}


def check_path(path: str, question: Question, stdin_name: str, whole: bool) -> FileResult:
    """One file. Without `whole` what only certificates need is left behind."""
    result = check_file(stdin_name if path == "-" else path, read(path), question)
    return result if whole else replace(result, checked=tuple(c.without_claims() for c in result.checked))


def apply_gate(
    args: argparse.Namespace, request: Request, found: Results, known: Sequence[baseline.Fingerprint] | None
) -> Run:
    """What the configuration and the baseline make of the results. Raises OSError."""
    run = Run(
        [r for r in found.values() if not isinstance(r, Failed)],
        [r for r in found.values() if isinstance(r, Failed)],
    )
    run.results = policy.apply(run.results, request.config)
    if args.write_baseline is not None:
        count = baseline.write(args.write_baseline, run.results)
        print(f"wrote {args.write_baseline}: {count} known", file=sys.stderr)
        known = baseline.read(args.write_baseline)
        run.results = baseline.apply(known, run.results, args.write_baseline).results
    elif known is not None:
        applied = baseline.apply(known, run.results, args.baseline)
        run.results, run.not_found = applied.results, applied.not_found
    return run


def write_reports(args: argparse.Namespace, request: Request, found: Run) -> int:
    """Writes the reports, and the internal errors; the exit code. Raises OSError."""
    checked = [c for r in found.results for c in r.checked]
    unread = [outcome.Unread(r.path, r.errors, r.as_expected) for r in found.results if r.errors]

    def render(format: str, **terminal) -> str:
        sources_of = {r.path: r.sources for r in found.results}.get
        paths = [r.path for r in found.results]
        return report.render(
            format, checked, sources_of, unread=unread, paths=paths, internal=bool(found.failed), **terminal
        )

    if found.results or not found.failed:
        write(render(request.format, verbose=args.verbose, **terminal_of(sys.stdout)))
    for format, path in args.report:
        write_whole(path, render(format, verbose=args.verbose, box=True))
    _report_run(args, request, found)
    for failed in found.failed:
        report_internal_error(failed.reason, failed.path)
    return outcome.exit_code(checked, unread, bool(found.failed))


def _report_run(args: argparse.Namespace, request: Request, found: Run) -> None:
    """What is about the run and no finding, on stderr."""
    if args.verbose and request.config.source is not None:
        print(f"configuration: {request.config.source.name}", file=sys.stderr)
    if request.excluded and args.verbose:
        print(f"excluded: {request.excluded}", file=sys.stderr)
    for gone in found.not_found[:10] if args.verbose else ():
        print(f"gone: {gone.path}: {gone.schedule}: {gone.code} {gone.message}", file=sys.stderr)
    if found.not_found:
        print(
            f"{len(found.not_found)} known in {args.baseline} and no longer found: --write-baseline "
            f"{args.baseline} tightens it",
            file=sys.stderr,
        )


def _read_config(args: argparse.Namespace) -> Config:
    """Raises UsageError and OSError."""
    sources = Sources()
    path = None
    try:
        if not args.no_config:
            here = [args.stdin_filename if p == "-" else p for p in args.paths]
            path = args.config or configuration.find(here)
        return Config() if path is None else configuration.read(path, sources)
    except InputError as refused:
        show_errors(path or "the configuration", sources, refused.findings, sys.stderr)
        raise UsageError from None


def read_baseline(path: Path | None) -> tuple[baseline.Fingerprint, ...] | None:
    """Raises UsageError for what is no baseline."""
    if path is None:
        return None
    try:
        return baseline.read(path)
    except ValueError as error:
        raise _usage(f"{path}: {error}") from None


def _usage(message: str) -> UsageError:
    report_usage(message)
    return UsageError()
