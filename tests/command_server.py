"""Runs commands as forks of this process, which has imported the checker and read its grammar once.

Takes a line of JSON for each command (`interlock` of command.py writes it), and answers with a line: the exit
code, negative for a command that a signal ended.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import select
import signal
import sys

import z3  # noqa: F401 (imported here for every command)

from interlock import cli

NUMBERS = {"stdin": 0, "stdout": 1, "stderr": 2}
HANG_SECONDS = 600


def become(request: dict) -> None:
    """Makes this fork the process that the request describes."""
    for name, number in NUMBERS.items():
        opened = os.open(request[name], os.O_RDONLY if name == "stdin" else os.O_WRONLY)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), encoding="utf-8")
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding=request["env"]["PYTHONIOENCODING"])
    sys.argv = ["interlock", *request["args"]]
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    resource.setrlimit(resource.RLIMIT_CPU, (request["seconds"], request["seconds"] + 1))
    resource.setrlimit(resource.RLIMIT_AS, (request["memory"], request["memory"]))


def wait(child: int) -> int:
    """The exit code of a fork, which is killed where it hangs."""
    descriptor = os.pidfd_open(child)
    ended, _, _ = select.select([descriptor], [], [], HANG_SECONDS)
    os.close(descriptor)
    if not ended:
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main() -> int:
    with contextlib.redirect_stdout(io.StringIO()):
        for path in ("examples/vlm.sched", "examples/deadlock.sched"):
            cli.main(["check", path])  # what commands import within functions
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            become(request)
            return cli.main(request["args"])
        print(json.dumps(wait(child)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
