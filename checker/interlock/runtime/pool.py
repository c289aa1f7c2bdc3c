"""The processes of emulations, kept alive from one job to the next: starting them takes longer than most
jobs.
"""

from __future__ import annotations

import itertools
import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import IO

START = 120.0  # seconds that the processes may take to start


class Worker:
    """A process and its pipes. `begun`: the part of its next line that has come."""

    def __init__(self, command: list[str], environment: dict[str, str], descriptors: list[int], log: Path):
        with open(log, "wb") as errors:
            self.process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                pass_fds=descriptors,
            )
        assert self.process.stdin is not None and self.process.stdout is not None
        self.input: IO[bytes] = self.process.stdin
        self.output: IO[bytes] = self.process.stdout
        self.log, self.begun = log, b""

    def write(self, line: bytes) -> None:
        """Raises BrokenPipeError."""
        self.input.write(line)
        self.input.flush()

    def read(self) -> bytes | None:
        """The line that is complete with what has come; None: not yet.

        Raises EOFError once the process has ended.
        """
        data = os.read(self.output.fileno(), 1 << 16)
        if not data:
            raise EOFError
        line, end, rest = (self.begun + data).partition(b"\n")
        self.begun = rest if end else line
        return line if end else None

    def describe_end(self) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it ended"

    def close(self) -> None:
        self.process.wait()
        self.input.close()
        self.output.close()


class Pool:
    """`ranks` processes; a job takes the first of them that its program asks for.

    A context manager: at its end no process is left.

    Entering it raises OSError if PyTorch is not installed, or a process does not start.
    """

    def __init__(self, ranks: int):
        self.ranks = ranks
        self.numbers = itertools.count()
        self.workers: list[Worker] = []

    def __enter__(self) -> Pool:
        if find_spec("torch") is None:
            raise OSError(0, "PyTorch is not installed: `pip install torch` installs it", "the emulation")
        self.folder = tempfile.TemporaryDirectory()
        try:
            self._start()
            self._collect(self.ranks, START)
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _start(self) -> None:
        """Every process is given the reading end of its own pipe and the writing ends of all."""
        folder, root = Path(self.folder.name), str(Path(__file__).parents[2])
        path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
        pipes = [os.pipe() for _ in range(self.ranks)]
        outboxes = [outbox for _, outbox in pipes]
        module = [sys.executable, "-m", "interlock.runtime.emulate_worker"]
        try:
            for rank, (inbox, _) in enumerate(pipes):
                arguments = [rank, self.ranks, folder / "store", inbox, *outboxes]
                command = [*module, *map(str, arguments)]
                log = folder / f"{rank}.log"
                self.workers.append(Worker(command, environment, [inbox, *outboxes], log))
        finally:
            for descriptor in itertools.chain(*pipes):
                os.close(descriptor)

    def _close(self) -> None:
        for worker in self.workers:
            worker.process.kill()
        for worker in self.workers:
            worker.close()
        self.folder.cleanup()

    def run(self, ranks: int, job: dict, seconds: float) -> list[dict]:
        """What each of the first `ranks` processes answers to a job.

        Raises OSError if one fails, or after `seconds`: the pool is of no use then.
        """
        if ranks > self.ranks:
            raise ValueError(f"{ranks} ranks, and a pool of {self.ranks}")
        line = json.dumps({**job, "number": next(self.numbers)}).encode() + b"\n"
        for rank, worker in enumerate(self.workers[:ranks]):
            try:
                worker.write(line)
            except BrokenPipeError:
                raise self._failure(rank) from None
        return self._collect(ranks, seconds)

    def _collect(self, ranks: int, seconds: float) -> list[dict]:
        """A line of each."""
        deadline = time.monotonic() + seconds
        answers: dict[int, dict] = {}
        with selectors.DefaultSelector() as selector:
            for rank, worker in enumerate(self.workers[:ranks]):
                selector.register(worker.output, selectors.EVENT_READ, rank)
            while len(answers) < ranks:
                ready = selector.select(max(deadline - time.monotonic(), 0))
                if not ready:
                    raise OSError(0, f"not done after {seconds:.0f} s", "the emulation")
                for key, _ in ready:
                    try:
                        line = self.workers[key.data].read()
                    except EOFError:
                        raise self._failure(key.data) from None
                    if line is not None:
                        answers[key.data] = json.loads(line)
                        selector.unregister(key.fileobj)
        return [answers[rank] for rank in range(ranks)]

    def _failure(self, rank: int) -> OSError:
        return OSError(0, self.workers[rank].describe_end(), f"the process of rank {rank}")
