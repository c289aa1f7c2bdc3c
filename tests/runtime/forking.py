"""Runs ranks of failing.py as forks of this process, which has imported torch once: for each line of JSON, [seconds, ranks, store, arguments], a line with their exit codes.

What rank r prints goes to STORE.r; one that does not end in time is killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

import failing
import torch.fx.experimental.symbolic_shapes  # noqa: F401 (what the first backward imports, within its time limit)


def rank_main(rank: int, ranks: int, store: str, args: list[str]) -> None:
    out = os.open(f"{store}.{rank}", os.O_CREAT | os.O_WRONLY)
    os.dup2(out, 1)
    os.dup2(out, 2)
    failing.main(rank, ranks, store, *(a.format(rank=rank) for a in args))


def main() -> None:
    for line in sys.stdin:
        seconds, ranks, store, args = json.loads(line)
        left, codes = {}, {}
        for r in range(ranks):
            pid = os.fork()
            if pid == 0:
                return rank_main(r, ranks, store, args)
            left[pid] = r
        deadline = time.monotonic() + seconds
        while left:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid:
                codes[left.pop(pid)] = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > deadline:
                for pid in left:
                    os.kill(pid, signal.SIGKILL)
                deadline += seconds
            else:
                time.sleep(0.02)
        print(json.dumps([codes[r] for r in range(ranks)]), flush=True)


if __name__ == "__main__":
    main()
