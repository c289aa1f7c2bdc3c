"""`interlock check`: configuration and command line to files and options, files to results, results to reports and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from interlock.check.pipeline import FileResult, Options, check_file
from interlock.cli.common import files, internal, read, show_errors, terminal, usage, write
from interlock.cli.parallel import Failed, default_jobs, results
from interlock.gate import baseline, policy
from interlock.gate import config as configuration
from interlock.gate.config import Config, option
from interlock.text.files import write_whole
from interlock.text.finding import InputError
from interlock.text.source import Sources


@dataclass(frozen=True)
class Asked:
    """What a run checks and how it tells it. `named`: files and folders; `left_out`: how many files the configuration excludes."""

    named: tuple[str, ...]
    files: tuple[str, ...]
    options: Options
    config: Config
    format: str
    left_out: int = 0


@dataclass
class Run:
    """What a run found: the results of the files in order, the internal errors, what is no longer as the baseline has it."""

    results: list[FileResult] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)
    gone: tuple[baseline.Fingerprint, ...] = ()


class Refused(Exception):
    """The run cannot begin; it has been said why."""


def run(args, csv_options) -> int:
    """Exit code. Raises OSError."""
    if args.watch:
        from interlock.cli.watch import watch

        return watch(args, csv_options)
    try:
        asked = ask(args, csv_options)
        known = known_in(args.baseline)
    except Refused:
        return 2
    if args.emit is not None:
        from interlock.cli.emit import emit

        return emit(asked.files, args, asked.options)
    if not asked.files:
        print(f"nothing to check: the configuration excludes {asked.left_out}", file=sys.stderr)
        return 0
    found = judged(args, asked, check(args, asked), known)
    if args.certificate is not None:
        from interlock.check.certificates import write as write_certificates

        write_certificates(args.certificate, found.results)
    return tell(args, asked, found)


def ask(args, csv_options) -> Asked:
    """The configuration, and what it and the command line ask for together. Raises Refused and OSError."""
    if args.output is not None and args.emit is None:
        raise _refused("-o is for --emit; --certificate DIR writes certificates")
    config = _config(args)
    try:
        named = args.paths or config.files_and_folders()
        if not named:
            raise _refused("check wants files or folders, or `paths` in [tool.interlock]")
        found = files(named)
    except FileNotFoundError as error:
        raise _refused(str(error)) from None
    excludable = set(found) if args.force_exclude else set(found) - set(named)
    kept = tuple(f for f in found if f not in excludable or f == "-" or not config.excludes(f))
    if not kept and not args.force_exclude:
        raise _refused(f"nothing to check: {config.source.name} excludes all {len(found)} files")
    targets = tuple(dict.fromkeys(t for names in args.target for t in names))
    options = Options(
        option(args.comm, config.models, ()),
        option(args.engine, config.engine, "graph"),
        csv_options,
        option(targets, config.targets, ()),
        config.capacity,
    )
    format = args.format or config.format or "text"
    return Asked(tuple(named), kept, options, config, format, len(found) - len(kept))


def check(args, asked: Asked, paths: Sequence[str] | None = None) -> dict[str, FileResult | Failed]:
    """The result of each file, in order. Raises OSError and MemoryError."""
    from interlock.report.progress import Progress

    paths = asked.files if paths is None else paths
    work = partial(
        one, options=asked.options, stdin_name=args.stdin_filename, whole=args.certificate is not None
    )
    jobs = args.jobs or default_jobs(len(paths))
    out: dict[str, FileResult | Failed] = {}
    with Progress(len(paths), "checking") as progress:
        if "-" in paths:  # standard input is this process's
            out["-"] = dict(results(work, ["-"], 1))[0]
        rest = [p for p in paths if p != "-"]
        for number, result in results(work, rest, jobs):
            progress.step(rest[number])
            out[rest[number]] = result
    return {p: out[p] for p in paths}


def judged(args, asked: Asked, found: dict[str, FileResult | Failed], known) -> Run:
    """What the configuration and the baseline make of the results. Raises OSError."""
    run_ = Run(
        [r for r in found.values() if not isinstance(r, Failed)],
        [r for r in found.values() if isinstance(r, Failed)],
    )
    run_.results = policy.apply(run_.results, asked.config)
    if args.write_baseline is not None:
        count = baseline.write(args.write_baseline, run_.results)
        print(f"wrote {args.write_baseline}: {count} known", file=sys.stderr)
        run_.results = baseline.apply(
            baseline.read(args.write_baseline), run_.results, args.write_baseline
        ).results
    elif known is not None:
        applied = baseline.apply(known, run_.results, args.baseline)
        run_.results, run_.gone = applied.results, applied.gone
    return run_


def tell(args, asked: Asked, found: Run) -> int:
    """Writes the reports, and the internal errors; the exit code. Raises OSError."""
    from interlock import report
    from interlock.report import outcome

    checked = [c for r in found.results for c in r.checked]
    unread = [outcome.Unread(r.path, r.errors, r.as_expected) for r in found.results if r.errors]

    def render(format: str, **terminal_) -> str:
        return report.render(
            format,
            checked,
            {r.path: r.sources for r in found.results}.get,
            unread=unread,
            paths=[r.path for r in found.results],
            internal=bool(found.failed),
            **terminal_,
        )

    if found.results or not found.failed:
        write(render(asked.format, verbose=args.verbose, **terminal(sys.stdout)))
    for format, path in args.report:
        write_whole(path, render(format, verbose=args.verbose, box=True))
    _afterwards(args, asked, found)
    for failed in found.failed:
        internal(failed.reason, failed.path)
    return outcome.exit_code(checked, unread, bool(found.failed))


def _afterwards(args, asked: Asked, found: Run) -> None:
    """What is about the run and no finding, on stderr."""
    if args.verbose and asked.config.source is not None:
        print(f"configuration: {asked.config.source.name}", file=sys.stderr)
    if asked.left_out and args.verbose:
        print(f"excluded: {asked.left_out}", file=sys.stderr)
    for gone in found.gone[:10] if args.verbose else ():
        print(f"gone: {gone.path}: {gone.schedule}: {gone.code} {gone.message}", file=sys.stderr)
    if found.gone:
        print(
            f"{len(found.gone)} known in {args.baseline} and no longer found: --write-baseline {args.baseline} tightens it",
            file=sys.stderr,
        )


def one(path: str, options: Options, stdin_name: str, whole: bool) -> FileResult:
    result = check_file(stdin_name if path == "-" else path, read(path), options)
    return result if whole else replace(result, checked=tuple(_light(c) for c in result.checked))


def _light(checked):
    """Of its certificates the claims' names only: they are long, and nobody reads them."""
    return replace(
        checked,
        answers=tuple(
            replace(
                a,
                certificates=tuple(
                    {"claims": [{"claim": claim.get("claim")} for claim in document.get("claims", ())]}
                    for document in a.certificates
                ),
            )
            for a in checked.answers
        ),
    )


def _config(args) -> Config:
    sources = Sources()
    path = None
    try:
        if not args.no_config:
            here = [args.stdin_filename if p == "-" else p for p in args.paths]
            path = args.config or configuration.find(here)
        return Config() if path is None else configuration.read(path, sources)
    except InputError as refused:
        show_errors(path or "the configuration", sources, refused.findings, sys.stderr)
        raise Refused from None


def known_in(path: Path | None) -> tuple[baseline.Fingerprint, ...] | None:
    """Raises Refused for what is no baseline."""
    if path is None:
        return None
    try:
        return baseline.read(path)
    except ValueError as error:
        raise _refused(f"{path}: {error}") from None


def _refused(message: str) -> Refused:
    usage(message)
    return Refused()
