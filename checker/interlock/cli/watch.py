"""`interlock check --watch`: checks again what changed, until Ctrl-C. Modification times are polled."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Callable, Iterable

from interlock.cli.checking import (
    Request,
    UsageError,
    apply_gate,
    check_files,
    make_request,
    read_baseline,
    write_reports,
)
from interlock.cli.parallel import Failed
from interlock.cli.terminal import find_files, report_usage, write
from interlock.gate.config import candidates
from interlock.report.style import can_redraw

EVERY = 0.5  # seconds between two looks
_COMMENT = re.compile(r'("[^"\n]*")|#[^\n]*')
_USE = re.compile(r'\b(?:use|model)\s*"([^"\n]+)"')
Stamp = tuple[int, int, int] | None


def watch(
    args: argparse.Namespace, rounds: int | None = None, sleep: Callable[[float], None] = time.sleep
) -> int:
    """Checks, and again whatever changed. Ends by Ctrl-C, or after looking `rounds` times, with the last exit
    code.
    """
    if "-" in args.paths:
        return report_usage("--watch is for files; standard input does not change")
    if args.emit is not None or args.certificate is not None or args.write_baseline is not None:
        return report_usage("--watch checks and reports; it writes no queries, certificates or baselines")
    memory = _Memory(args)
    code, looked = 2, 0
    while rounds is None or looked < rounds:
        if looked:
            sleep(EVERY)
        looked += 1
        code = memory.look() if memory.changed() else code
    return code


class _Memory:
    """What was found, and what it was found from: of each file its stamp, and those of the files it uses."""

    def __init__(self, args: argparse.Namespace):
        self.args = args
        self.results: dict = {}
        self.read_for: dict[str, dict[str, Stamp]] = {}  # file -> the files read for it
        self.around: dict[str, Stamp] = {}  # where a configuration and a baseline may be
        self.listing: tuple[str, ...] | None = None
        self.request: Request | None = None
        self.looks = 0

    def changed(self) -> bool:
        return (
            not self.looks
            or _stamps(self.around) != self.around
            or any(_stamps(read) != read for read in self.read_for.values())
            or self._list() != self.listing
        )

    def look(self) -> int:
        _clear(self.looks > 0)
        self.looks += 1
        self.around = _stamps(self._around())
        try:
            before, self.request = self.request, make_request(self.args)
            known = read_baseline(self.args.baseline)
            if before is None or (before.question, before.config) != (
                self.request.question,
                self.request.config,
            ):
                self.results.clear()
            self._check(self.request)
            return write_reports(
                self.args,
                self.request,
                apply_gate(self.args, self.request, {f: self.results[f] for f in self.request.files}, known),
            )
        except UsageError:
            return self._forget(2)
        except OSError as error:  # a file that went away between two looks
            return self._forget(
                report_usage(f"{error.filename or 'input or output'}: {error.strerror or error}")
            )
        finally:
            self.listing = self._list()

    def _forget(self, code: int) -> int:
        """Waits for a change of anything, and then checks everything."""
        self.results.clear()
        self.read_for = {path: _stamps(read) for path, read in self.read_for.items()}
        return code

    def _list(self) -> tuple[str, ...] | None:
        """The files there are in what is named; None where one is missing."""
        try:
            return tuple(
                find_files(self.args.paths or (self.request.named if self.request is not None else ()))
            )
        except FileNotFoundError:
            return None

    def _around(self) -> list[str]:
        named = self.args.paths or (self.request.named if self.request is not None else ())
        return [str(p) for p in (*candidates(named), self.args.config, self.args.baseline) if p]

    def _check(self, request: Request) -> None:
        new = [
            f for f in request.files if f not in self.results or _stamps(self.read_for[f]) != self.read_for[f]
        ]
        stamps = {f: stamp(f) for f in new}  # before they are read: what changes meanwhile is read again
        for path, result in check_files(self.args, request, new).items():
            self.results[path] = result
            self.read_for[path] = {path: stamps[path]} | _stamps(_used(path, result))
        for gone in set(self.read_for) - set(request.files):
            self.results.pop(gone, None)
            del self.read_for[gone]


def _stamps(paths: Iterable[str]) -> dict[str, Stamp]:
    return {p: stamp(p) for p in paths}


def stamp(path: str) -> Stamp:
    """What changes when a file is written; None for one that is not there."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino)


def _used(path: str, result) -> list[str]:
    """The files read for one, and those it would have read. The standard skeletons do not change."""
    if isinstance(result, Failed):
        return []
    out = []
    for source in result.sources:
        if not source.name.startswith("spec/std/"):
            out += [
                source.name,
                *(
                    os.path.normpath(os.path.join(os.path.dirname(source.name), use))
                    for use in _USE.findall(_COMMENT.sub(r"\1", source.text))
                ),
            ]
    return list(dict.fromkeys(p for p in out if p != path))


def _clear(again: bool) -> None:
    if not can_redraw(sys.stdout):
        write("\n" if again else "")
    else:
        write("\x1b[2J\x1b[3J\x1b[H")
