"""The command line as a user meets it: a process of its own, with limits on its time and memory.

`interlock` forks it from a process that has imported the checker once (command_server.py), so that a command
costs what it computes; `start_interlock` starts an interpreter for it.
"""

from __future__ import annotations

import atexit
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
GIB = 2**30


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err


def interlock(
    *args, stdin: bytes = b"", cwd=None, seconds: int = 60, memory: int = 2 * GIB, **env: str
) -> Done:
    """Runs `interlock args`; `memory` limits its address space.

    Raises subprocess.TimeoutExpired after `seconds` of processor time, which other processes do not change.
    """
    with tempfile.TemporaryDirectory() as folder:
        streams = {name: Path(folder, name) for name in ("stdin", "stdout", "stderr")}
        for path in streams.values():
            path.write_bytes(stdin if path.name == "stdin" else b"")
        request = {
            "args": [str(a) for a in args],
            "cwd": str(cwd or Path.cwd()),
            "env": _environment(env),
            "seconds": seconds,
            "memory": memory,
            **{name: str(path) for name, path in streams.items()},
        }
        server = _server()
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        code = json.loads(server.stdout.readline())
        if code == -signal.SIGXCPU:
            raise subprocess.TimeoutExpired(request["args"], seconds)
        return Done(code, _text(streams["stdout"].read_bytes()), _text(streams["stderr"].read_bytes()))


def start_interlock(
    *args,
    stdin: int = subprocess.DEVNULL,
    cwd=None,
    python: tuple[str, ...] = (),
    before: tuple[str, ...] = (),
    **env: str,
) -> Done:
    """Runs `interlock args` in an interpreter started for it.

    `python`: options of the interpreter; `before`: a command that runs the command.
    """

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (2 * GIB, 2 * GIB))

    done = subprocess.run(
        [*before, sys.executable, *python, "-m", "interlock.cli", *map(str, args)],
        check=False,
        capture_output=True,
        stdin=stdin,
        cwd=cwd,
        timeout=60,
        preexec_fn=limit,
        env=_environment(env),
    )
    return Done(done.returncode, _text(done.stdout), _text(done.stderr))


def _environment(changes: dict[str, str]) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT / "checker"),
        "PYTHONIOENCODING": "utf-8",
        "OPENBLAS_NUM_THREADS": "1",
        **changes,
    }


def _text(output: bytes) -> str:
    return output.decode("utf-8", "replace")


@cache
def _server() -> subprocess.Popen:
    process = subprocess.Popen(
        [sys.executable, Path(__file__).with_name("command_server.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env=_environment({}),
        text=True,
    )
    atexit.register(process.communicate)
    return process
