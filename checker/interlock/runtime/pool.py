"""The processes of emulations, kept alive from one job to the next: starting them takes longer than most jobs."""

from __future__ import annotations

import itertools
import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from pathlib import Path

START = 120.0  # seconds that the processes may take to start


class Pool:
    """`ranks` processes; a job takes the first of them that its program asks for. A context manager: at its end no process is left."""

    def __init__(self, ranks: int):
        self.ranks = ranks
        self.numbers = itertools.count()
        self.processes: list[subprocess.Popen] = []
        self.rest: list[bytes] = []

    def __enter__(self) -> Pool:
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name)
        root = str(Path(__file__).parents[2])
        env = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])]),
        }
        pipes = [os.pipe() for _ in range(self.ranks)]
        ends = [w for _, w in pipes]
        try:
            for r, (inbox, _) in enumerate(pipes):
                command = [
                    sys.executable,
                    "-m",
                    "interlock.runtime.emulate_worker",
                    r,
                    self.ranks,
                    path / "store",
                    inbox,
                    *ends,
                ]
                with open(path / f"{r}.log", "wb") as log:
                    self.processes.append(
                        subprocess.Popen(
                            [str(x) for x in command],
                            env=env,
                            stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE,
                            stderr=log,
                            pass_fds=(inbox, *ends),
                        )
                    )
                self.rest.append(b"")
        except BaseException:
            self.__exit__()
            raise
        finally:
            for pair in pipes:
                for fd in pair:
                    os.close(fd)
        try:
            self._answers(self.ranks, START)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_) -> None:
        for p in self.processes:
            p.kill()
        for p in self.processes:
            p.wait()
            p.stdin.close()
            p.stdout.close()
        self.folder.cleanup()

    def run(self, ranks: int, job: dict, seconds: float) -> list[dict]:
        """What each of the first `ranks` processes says of a job. Raises OSError if one fails, or after `seconds`: the pool is of no use then."""
        if ranks > self.ranks:
            raise ValueError(f"{ranks} ranks, and a pool of {self.ranks}")
        line = json.dumps({**job, "number": next(self.numbers)}).encode() + b"\n"
        for r, p in enumerate(self.processes[:ranks]):
            try:
                p.stdin.write(line)
                p.stdin.flush()
            except BrokenPipeError:
                raise self._failed(r) from None
        return self._answers(ranks, seconds)

    def _answers(self, ranks: int, seconds: float) -> list[dict]:
        """A line of each."""
        deadline, answers = time.monotonic() + seconds, {}
        with selectors.DefaultSelector() as selector:
            for r, p in enumerate(self.processes[:ranks]):
                selector.register(p.stdout, selectors.EVENT_READ, r)
            while len(answers) < ranks:
                ready = selector.select(max(deadline - time.monotonic(), 0))
                if not ready:
                    raise OSError(0, f"not done after {seconds:.0f} s", "the emulation")
                for key, _ in ready:
                    data = os.read(key.fd, 1 << 16)
                    if not data:
                        raise self._failed(key.data)
                    line, end, rest = (self.rest[key.data] + data).partition(b"\n")
                    self.rest[key.data] = rest if end else line
                    if end:
                        answers[key.data] = json.loads(line)
                        selector.unregister(key.fileobj)
        return [answers[r] for r in range(ranks)]

    def _failed(self, rank: int) -> OSError:
        said = (Path(self.folder.name) / f"{rank}.log").read_text(errors="replace").strip().splitlines()
        return OSError(0, said[-1] if said else "it ended", f"the process of rank {rank}")
