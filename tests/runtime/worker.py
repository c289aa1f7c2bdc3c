"""One rank: runs every job of a file with the runtime and says how far losses and gradients are from the single process.

python worker.py RANK RANKS STORE JOBS OUT
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist

import vlm
from interlock.lower.plan import loads
from interlock.runtime import Runner


def run(job: dict, rank: int) -> dict:
    """With `pipelines` each of them trains on its own data, and the reference is the mean over them."""
    pipelines = job.get("pipelines") or [list(range(dist.get_world_size()))]
    own = next(i for i, p in enumerate(pipelines) if rank in p)
    rank = pipelines[own].index(rank)
    dtype = getattr(torch, job["dtype"])
    plan = loads(Path(job["plan"]).read_text())
    program = plan.program
    layers = vlm.build(dtype, job["frozen"], job["tied"])
    same = vlm.build(dtype, job["frozen"], job["tied"])
    here = {s: st for s, st in enumerate(program.stages) if st.replicated or st.rank == rank}
    held = {l for st in here.values() for l in range(st.first, st.last)}
    ties = {}
    if job["tied"]:
        ends = (vlm.GROUPS["embed"][0], vlm.GROUPS["head"][0])
        same[ends[1]].table.weight = same[ends[0]].table.weight
        if held >= set(ends):
            layers[ends[1]].table.weight = layers[ends[0]].table.weight
        ties = {"words": [layers[e].table.weight for e in ends if e in held]}
    stages = {s: vlm.Stage(layers[st.first:st.last]) for s, st in here.items()}
    runner = Runner(job["plan"], stages, vlm.loss_fn, ties=ties, timeout=job.get("timeout", 30), pipelines=job.get("pipelines"))
    far = 0.0
    for step in range(job.get("steps", 1)):
        for i in range(len(pipelines)):
            inputs, targets = vlm.batch(dtype, program.microbatches, job["text_only"], step + 100 * i)
            expected = vlm.reference(same, inputs, targets).to(torch.float64)
            if i == own:
                losses = runner.step(inputs, targets)
                far = max(far, float(((losses - expected).abs() / expected.abs()).max()))
    runner.close()
    compared = 0
    for s, st in here.items():
        left = len(runner.stages[s].stashes)
        assert not left, f"stage {s} keeps {left} stashes"
        for l in range(st.first, st.last):
            for (name, p), (_, q) in zip(layers[l].named_parameters(), same[l].named_parameters(), strict=True):
                if (p.grad is None) != (q.grad is None):
                    zero = p.grad if q.grad is None else q.grad
                    assert not p.requires_grad or not zero.any(), f"{l}.{name}: {'no' if p.grad is None else 'a'} gradient"
                elif p.grad is not None:
                    compared += 1
                    q.grad /= len(pipelines) if not hasattr(q, "averaged") else 1
                    q.averaged = True
                    far = max(far, float((p.grad - q.grad).abs().max() / q.grad.abs().max().clamp_min(1e-9)))
    return {"far": far, "compared": compared}


def main(rank: int, ranks: int, store: str, jobs: str, out: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    results = []
    for job in json.loads(Path(jobs).read_text()):
        try:
            results.append(run(job, rank))
        except Exception as error:
            import traceback
            results.append({"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()})
            break
        Path(out).write_text(json.dumps(results))
    Path(out).write_text(json.dumps(results))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
