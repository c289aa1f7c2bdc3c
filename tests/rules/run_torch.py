"""Trains one step of a toy chain with a schedule CSV, each rank a process on gloo, and prints how far its
gradients are from the reference's.

python run_torch.py RANK RANKS STORE CSV MICROBATCHES FROZEN_STAGES
"""

from __future__ import annotations

import copy
import json
import re
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

WIDTH = 4


def main(rank: int, ranks: int, store: str, csv: str, microbatches: int, frozen: set[int]) -> None:
    lines = Path(csv).read_text().splitlines()
    mine = [sorted({int(s) for s in re.findall(r"(?:^|[,(;])(\d+)F", line)}) for line in lines]
    torch.manual_seed(0)
    chain = [
        torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh())
        for _ in range(sum(map(len, mine)))
    ]
    for s in frozen:
        chain[s].requires_grad_(False)
    x, y = torch.randn(microbatches, WIDTH), torch.randn(microbatches, WIDTH)

    def loss_fn(out, target):
        return ((out - target) ** 2).sum() * (1 + target.abs().sum())  # each microbatch weighs differently

    reference = copy.deepcopy(chain)
    for i in range(microbatches):
        out = x[i : i + 1]
        for stage in reference:
            out = stage(out)
        loss_fn(out, y[i : i + 1]).backward()

    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    stages = [PipelineStage(chain[s], s, len(chain), torch.device("cpu")) for s in mine[rank]]
    runtime = _PipelineScheduleRuntime(stages, microbatches, loss_fn=loss_fn, scale_grads=False)
    runtime._load_csv(csv, format="compute_only")
    runtime.step(*([x] if 0 in mine[rank] else []), **({"target": y} if len(chain) - 1 in mine[rank] else {}))
    far = {}
    for s in mine[rank]:
        if s not in frozen:
            pairs = [(p.grad, q.grad) for p, q in zip(chain[s].parameters(), reference[s].parameters())]
            far[s] = (
                None
                if any(g is None for g, _ in pairs)
                else max(float((g - h).abs().max()) for g, h in pairs)
            )
    print("FAR", json.dumps(far))
    dist.destroy_process_group()


if __name__ == "__main__":
    rank, ranks, store, csv, microbatches, *frozen = sys.argv[1:]
    main(
        int(rank),
        int(ranks),
        store,
        csv,
        int(microbatches),
        {int(s) for s in ",".join(frozen).split(",") if s},
    )
