"""The command line as a user meets it: a process of its own, with limits on its time and memory."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
GIB = 2**30


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str
    seconds: float

    @property
    def text(self) -> str:
        return self.out + self.err


def interlock(
    *args,
    stdin: bytes | int = b"",
    cwd=None,
    seconds: float = 60,
    memory: int = 2 * GIB,
    python: tuple[str, ...] = (),
    before: tuple[str, ...] = (),
    **env: str,
) -> Done:
    """Runs `interlock args`. Raises subprocess.TimeoutExpired after `seconds`; `memory` limits its address space.

    `python`: options of the interpreter; `before`: a command that runs the command.
    """

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

    began = time.perf_counter()
    done = subprocess.run(
        [*before, sys.executable, *python, "-m", "interlock.cli", *map(str, args)],
        capture_output=True,
        cwd=cwd,
        timeout=seconds,
        preexec_fn=limit,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "checker"),
            "PYTHONIOENCODING": "utf-8",
            "OPENBLAS_NUM_THREADS": "1",
            **env,
        },
        **({"stdin": stdin} if isinstance(stdin, int) else {"input": stdin}),
    )
    return Done(
        done.returncode,
        done.stdout.decode("utf-8", "replace"),
        done.stderr.decode("utf-8", "replace"),
        time.perf_counter() - began,
    )
