"""One rank: has PyTorch itself load each CSV of a list and train a toy chain with it, and says how far
gradients are from the single process's.

python run_csv.py RANK RANKS STORE JOBS OUT
"""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

WIDTH = 4


def train(job: dict, rank: int) -> float:
    """The largest difference of a gradient; infinite where one is missing."""
    torch.manual_seed(0)
    chain = [
        torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh()).double() for _ in job["placement"]
    ]
    for s in job["frozen"]:
        chain[s].requires_grad_(False)
    count = job["microbatches"]
    x, y = torch.randn(count, WIDTH, dtype=torch.float64), torch.randn(count, WIDTH, dtype=torch.float64)

    def loss_fn(out, target):
        return ((out - target) ** 2).sum() * (1 + target.abs().sum())  # each microbatch weighs differently

    reference = copy.deepcopy(chain)
    for i in range(count):
        out = x[i : i + 1]
        for stage in reference:
            out = stage(out)
        loss_fn(out, y[i : i + 1]).backward()
    mine = [s for s, r in enumerate(job["placement"]) if r == rank]
    stages = [PipelineStage(chain[s], s, len(chain), torch.device("cpu")) for s in mine]
    runtime = _PipelineScheduleRuntime(stages, count, loss_fn=loss_fn, scale_grads=False)
    runtime._load_csv(job["csv"], format=job["form"])
    runtime.step(*([x] if 0 in mine else []), **({"target": y} if len(chain) - 1 in mine else {}))
    far = 0.0
    for s in mine:
        for p, q in zip(chain[s].parameters(), reference[s].parameters()):
            if q.grad is not None:
                far = max(far, float((p.grad - q.grad).abs().max()) if p.grad is not None else float("inf"))
    return far


def main(rank: int, ranks: int, store: str, jobs: str, out: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    found = []
    for job in json.loads(Path(jobs).read_text()):
        found.append(train(job, rank))
        Path(out).write_text(json.dumps(found))
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
