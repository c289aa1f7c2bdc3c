"""One rank: runs every job of a file with the runtime and says how far losses and gradients are from the
single process.

python worker.py RANK RANKS STORE JOBS OUT
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import torch
import torch.distributed as dist
import vlm
from world import join

from interlock.interchange.plan import loads
from interlock.runtime import Runner


def run(job: dict, rank: int) -> dict:
    """The largest relative distance of a loss and of a gradient (by the largest entries); how many gradients
    were compared, of how many there are.

    With `pipelines` each of them trains on its own data, and the reference is the mean over them.
    """
    pipelines = job.get("pipelines") or [list(range(dist.get_world_size()))]
    own = next(i for i, p in enumerate(pipelines) if rank in p)
    rank = pipelines[own].index(rank)
    dtype = getattr(torch, job["dtype"])
    program = loads(Path(job["plan"]).read_text()).program
    sizes = tuple(2 + step * job["dynamic"] for step in range(job["steps"]))
    losses, gradients = vlm.expected(
        dtype,
        tuple(job["frozen"]),
        job["tied"],
        program.microbatches,
        tuple(job["text_only"]),
        sizes,
        len(pipelines),
    )
    layers = vlm.build(dtype, job["frozen"], job["tied"])
    here = {s: st for s, st in enumerate(program.stages) if st.replicated or st.rank == rank}
    held = {l for st in here.values() for l in range(st.first, st.last)}
    ties = {}
    if job["tied"]:
        ends = (vlm.GROUPS["embed"][0], vlm.GROUPS["head"][0])
        if held >= set(ends):
            layers[ends[1]].table.weight = layers[ends[0]].table.weight
        ties = {"words": [layers[e].table.weight for e in ends if e in held]}
    stages = {s: vlm.Stage(layers[st.first : st.last]) for s, st in here.items()}
    reuse_groups()
    runner = Runner(
        job["plan"],
        stages,
        vlm.loss_fn,
        ties=ties,
        timeout=job.get("timeout", 30),
        pipelines=job.get("pipelines"),
        dynamic_shapes=job["dynamic"],
    )
    far = []
    for step, (asked, size) in enumerate(zip(losses, sizes)):
        found = runner.step(*vlm.batch(dtype, program.microbatches, job["text_only"], step + 100 * own, size))
        far.append(((found - asked[own]).abs() / asked[own].abs()).max())
    runner.close()
    left = {s: len(stage.stashes) for s, stage in runner.stages.items()}
    assert not any(left.values()), f"stashes are left: {left}"
    compared = there = 0
    for l in held:
        for name, p in layers[l].named_parameters():
            asked = gradients[l, name]
            there += asked is not None
            if asked is None:
                assert p.grad is None or not p.grad.any(), f"{l}.{name} has a gradient"
            elif p.grad is not None:
                compared += 1
                far.append((p.grad - asked).abs().max().double() / asked.abs().max().clamp_min(1e-9))
    return {"far": float(torch.stack(far).max()), "compared": compared, "there": there}


_MADE: dict[tuple, list] = {}
_new_group = dist.new_group


def reuse_groups() -> None:
    """The next Runner gets the groups of the one before, a new one only where it asks for more of the same
    ranks: else many cases take many sockets.

    What a case left behind in a queue would be the next one's data.
    """
    taken: Counter = Counter()

    def new_group(ranks, **options):
        key = (tuple(ranks), options.get("backend"))
        made = _MADE.setdefault(key, [])
        if len(made) <= taken[key]:
            made.append(_new_group(ranks, **options))
        taken[key] += 1
        return made[taken[key] - 1]

    dist.new_group = new_group


def main(rank: int, ranks: int, store: str, jobs: str, out: str) -> None:
    join(rank, ranks, store)
    results = []
    for job in json.loads(Path(jobs).read_text()):
        try:
            results.append(run(job, rank))
        except Exception as error:
            import traceback

            results.append({"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()})
            break
    Path(out).write_text(json.dumps(results))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
