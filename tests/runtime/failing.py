"""One rank of runs that fail, each in another way. Says what it raised, and when.

python failing.py RANK RANKS STORE OUT FOLDER WAY..
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from world import join

from interlock.interchange.plan import loads
from interlock.runtime import Runner

LIMIT = 3.0
ROWS = 500_000  # more than a socket holds


class Odd(nn.Linear):
    """Does something at its n-th forward."""

    def __init__(self, width: int, way: str, at: int):
        super().__init__(width, width)
        self.way, self.at, self.count = way, at, 0

    def forward(self, x):
        self.count += 1
        if self.count == self.at:
            if self.way == "late":
                time.sleep(0.5)
            elif self.way == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            elif self.way == "hangs":
                time.sleep(600)
            elif self.way == "raises":
                raise ValueError("no such token")
            elif self.way == "shape":
                return super().forward(x)[:, :2]
            elif self.way == "type":
                return super().forward(x).half()
        return super().forward(x)


KILLED_IN = {"gather": "isend", "reduction": "all_reduce", "groups": "new_group", "sync": "broadcast"}


def kill_in(name: str) -> None:
    """Ends this process as it enters what blocks, or has started what does not."""
    call = getattr(dist, name)

    def killed(*args, **options):
        if name != "new_group":
            call(*args, **options)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(dist, name, killed)


def run(way: str, rank: int, folder: Path) -> None:
    plan = folder / "s.plan"
    if way == "version" and rank == 1:
        plan = folder / "old.plan"
    if way == "binary" and rank == 1:
        plan = folder / "binary.plan"
        plan.write_bytes(b"\xff\xfe")
    if way == "other" and rank == 1:
        plan = folder / "other.plan"
    program = loads((folder / "s.plan").read_text()).program
    here = [s for s, st in enumerate(program.stages) if st.replicated or st.rank == rank]
    who, way = (
        (0, "killed") if way == "host" else (1, way)
    )  # `host`: rank 0, which keeps the store, is killed
    stages = {s: Odd(4, way if rank == who else "", 2 if way == "late" else 6) for s in here}
    if way == "frozen" and rank == 1:
        stages[here[0]].requires_grad_(False)
    if way == "stages" and rank == 1:
        stages[7] = stages.pop(here[0])
    if way == "gate" and rank == 0:
        stages[here[0]].forward = lambda x: x.detach()
    if way in KILLED_IN and rank == 1:
        kill_in(KILLED_IN[way])
    if way == "unbuilt" and rank == 1:
        time.sleep(3 * LIMIT)
        raise SystemExit(7)
    runner = Runner(
        plan, stages, lambda out, target: ((out - target) ** 2).sum(), timeout=LIMIT, exit_when_stuck=True
    )
    if way == "gradient" and rank == 1:
        stage = runner.stages[here[-1]]
        backward, stage.backward = stage.backward, lambda *args: [g[:2] for g in backward(*args)]
    x = [torch.randn(ROWS if way == "gather" else 3, 4) for _ in range(program.microbatches)]
    for _ in range(3):
        runner.step(x, x)


def main(rank: int, ranks: int, store: str, out: str, folder: str, *ways: str) -> None:
    join(rank, ranks, store, keeper="host" in ways)
    said = []
    for way in ways:
        try:
            run(way, rank, Path(folder))
            said.append("nothing was raised")
        except Exception as error:
            said.append(f"{type(error).__name__}: {error}")
        Path(out).write_text(json.dumps(said))
    sys.exit(7)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
