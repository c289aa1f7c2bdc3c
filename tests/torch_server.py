"""Runs scripts as forks of this process, which has imported PyTorch once.

Takes a line of JSON for each group of processes (`run_ranks` of torch_ranks.py writes it), and answers with a
line: their exit codes. A process that does not end in time is killed.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import sys
import time
from pathlib import Path

import torch.distributed.pipelining.schedules
import torch.fx.experimental.symbolic_shapes  # noqa: F401 (the first backward imports it, within a time limit)


def become(process: dict) -> None:
    """Makes this fork the process that is described, up to its script."""
    out = os.open(process["out"], os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.chdir(process["cwd"])
    os.environ.update(process["env"])
    sys.argv = [process["script"], *process["args"]]
    sys.path.insert(0, str(Path(process["script"]).parent))


def wait(running: dict[int, int], seconds: float) -> dict[int, int]:
    """The exit code of each process, by its number; `running` gives the number of each process id."""
    deadline = time.monotonic() + seconds
    codes = {}
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            codes[running.pop(pid)] = os.waitstatus_to_exitcode(status)
        elif time.monotonic() > deadline:
            for late in running:
                os.kill(late, signal.SIGKILL)
            deadline += seconds
        else:
            time.sleep(0.02)
    return codes


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        running = {}
        for number, process in enumerate(request["processes"]):
            pid = os.fork()
            if pid == 0:
                become(process)
                runpy.run_path(process["script"], run_name="__main__")
                return
            running[pid] = number
        codes = wait(running, request["seconds"])
        print(json.dumps([codes[number] for number in range(len(codes))]), flush=True)


if __name__ == "__main__":
    main()
