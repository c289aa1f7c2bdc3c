"""The ranks of a job with PyTorch: processes forked from one that has imported it (torch_server.py)."""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from command import ROOT

ENVIRONMENT = {
    "PYTHONPATH": f"{ROOT / 'checker'}",
    "OMP_NUM_THREADS": "1",
    "GLOO_SOCKET_IFNAME": "lo",
}


@dataclass(frozen=True)
class Ended:
    code: int
    out: str


def run_ranks(script: Path, arguments: Sequence[Sequence], folder: Path, seconds: float) -> list[Ended]:
    """Runs `script arguments[r]` for each rank r, with the variables that torchrun sets; kills what hangs.

    What rank r prints is kept in `folder`.
    """
    ranks, port = len(arguments), _free_port()
    processes = [
        {
            "script": str(script),
            "args": [str(a) for a in arguments[rank]],
            "cwd": str(folder),
            "out": str(folder / f"printed-{rank}"),
            "env": {
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(ranks),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
            },
        }
        for rank in range(ranks)
    ]
    server = _server()
    server.stdin.write(json.dumps({"processes": processes, "seconds": seconds}) + "\n")
    server.stdin.flush()
    codes = json.loads(server.stdout.readline())
    return [Ended(code, Path(p["out"]).read_text()) for p, code in zip(processes, codes)]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@cache
def _server() -> subprocess.Popen:
    process = subprocess.Popen(
        [sys.executable, Path(__file__).with_name("torch_server.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **ENVIRONMENT},
        text=True,
    )
    atexit.register(process.communicate)
    return process
