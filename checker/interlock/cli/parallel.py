"""Files checked one after the other, or by several processes at once: the same results, in the order of the
files.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from interlock.check.files import FileResult
from interlock.cli.terminal import describe_error

MANY = 8  # files up to which one process is quicker than starting more
AHEAD = 2  # paths a process has at once


@dataclass(frozen=True)
class Failed:
    """A file whose check ended in an internal error: no verdict."""

    path: str
    reason: str


def default_jobs(files: int) -> int:
    if files <= MANY:
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def map_files(
    work: Callable[[str], FileResult], paths: Sequence[str], jobs: int
) -> Iterator[tuple[int, FileResult | Failed]]:
    """(number, work(path)) as they end, Failed where it raised an exception that is none of OSError and
    MemoryError, which are raised here.

    With several jobs `work` and what it gives travel between processes. A process that dies fails the file it
    was at.
    """
    if min(jobs, len(paths)) <= 1:
        for number, path in enumerate(paths):
            yield number, _result(work, path)
        return
    pool = _Pool(work, paths, min(jobs, len(paths)))
    try:
        yield from pool.run()
    finally:
        pool.stop()


def _result(work, path: str):
    try:
        return work(path)
    except (OSError, MemoryError):
        raise
    except Exception as error:  # Disagreement above all
        if os.environ.get("INTERLOCK_TRACEBACK"):
            import traceback

            traceback.print_exception(error)
        return Failed(path, describe_error(error))


class _Pool:
    """Processes that each hold one end of a pipe: paths go in, results come out in their order. Each has a
    path ahead, so that none waits for us.
    """

    def __init__(self, work, paths: Sequence[str], jobs: int):
        # a fork starts at once and shares what is loaded; elsewhere than on Linux system libraries do not
        # survive it
        self._context: Any = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
        self._work, self._paths, self._jobs = work, paths, jobs
        self._waiting = deque(range(len(paths)))
        self._at: dict[
            Connection, tuple[BaseProcess, deque[int]]
        ] = {}  # our end of a pipe -> its process, the numbers it has

    def run(self) -> Iterator[tuple[int, FileResult | Failed]]:
        for _ in range(self._jobs):
            self._start()
        while self._at:
            ready = set(wait(list(self._at)))
            for ours in [c for c in self._at if c in ready]:
                process, numbers = self._at[ours]
                try:
                    result = ours.recv()
                except (EOFError, ConnectionError):
                    process.join()
                    self._close(ours)
                    number = numbers.popleft()
                    self._waiting.extendleft(reversed(numbers))
                    yield (
                        number,
                        Failed(
                            self._paths[number], f"the process that checked it ended {_how(process.exitcode)}"
                        ),
                    )
                    self._start()
                    continue
                if isinstance(result, (OSError, MemoryError)):
                    raise result
                number = numbers.popleft()
                self._feed(ours)
                yield number, result

    def _start(self) -> None:
        if not self._waiting:
            return
        ours, theirs = self._context.Pipe()
        others = [*self._at, ours] if self._context.get_start_method() == "fork" else []
        process: BaseProcess = self._context.Process(
            target=_serve, args=(theirs, self._work, others), daemon=True
        )
        with _uninterrupted():  # Ctrl-C finds it started and known, or not begun
            process.start()
            self._at[ours] = (process, deque())
        theirs.close()
        self._feed(ours)

    def _feed(self, ours: Connection) -> None:
        """Further numbers, or the end."""
        process, numbers = self._at[ours]
        while self._waiting and len(numbers) < AHEAD:
            numbers.append(self._waiting.popleft())
            try:
                ours.send(self._paths[numbers[-1]])
            except ConnectionError:  # it died between two files: receiving will say so
                return
        if not numbers:
            self._close(ours)
            process.join()

    def _close(self, ours: Connection) -> None:
        del self._at[ours]
        ours.close()

    def stop(self) -> None:
        """Ends what still runs, after Ctrl-C or an error."""
        for process, _ in self._at.values():
            process.kill()
        for process, _ in self._at.values():
            process.join()
        for ours in list(self._at):
            self._close(ours)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """SIGINT waits; a process that is forked meanwhile has it blocked until it says otherwise."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(theirs, work, others) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the group: the parent ends us
    for other in others:  # so that the parent's end is the parent's alone
        other.close()
    while True:
        try:
            path = theirs.recv()
        except EOFError:
            return
        try:
            result = _result(work, path)
        except (OSError, MemoryError) as error:
            result = error
        try:
            theirs.send(result)
        except ConnectionError:
            return


def _how(code: int | None) -> str:
    if code is not None and code < 0:
        try:
            return f"by {signal.Signals(-code).name}"
        except ValueError:
            return f"by signal {-code}"
    return f"with exit code {code}"
