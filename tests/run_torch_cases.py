"""Trains one step by each CSV with PyTorch's own runtime, two processes on gloo, and says what came of it.

python run_torch_cases.py OUT SECONDS CSV..

A case's processes are forked, so that torch is imported once. OUT: for each file {"end": same, wrong, error
or hang, ..}: `loss`, `gradients`: the largest distance from the
single process, an infinite one where a gradient is missing; `error`: the first rank's that failed. It hangs
if for SECONDS after one rank ended its step the other does not.
"""

from __future__ import annotations

import copy
import json
import multiprocessing
import re
import sys
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

WIDTH, MICROBATCHES, RANKS = 4, 4, 2
FROZEN = {"f01": {0}, "n02": {0}, "n04": {0, 1}}
LOOP = ("c20",)  # the stages lie as a loop, and the CSV is of a V
TOO_FAR = 1e-9
START = 120  # seconds for a step of anything


def loss_fn(output, target):
    return ((output - target) ** 2).sum() * (1 + target.abs().sum())  # each microbatch weighs differently


def train(path: Path, rank: int, store: str) -> dict:
    rows = [
        sorted({int(s) for s in re.findall(r"(?:^|[,(;])(\d+)F", line)})
        for line in path.read_text().splitlines()
    ]
    stages = 1 + max(s for row in rows for s in row)
    name = path.name.split("_")[0]
    mine = [s for s in range(stages) if s % RANKS == rank] if name in LOOP else rows[rank]
    torch.manual_seed(0)
    chain = [
        torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh()).double() for _ in range(stages)
    ]
    for s in FROZEN.get(name, ()):
        chain[s].requires_grad_(False)
    x, y = torch.randn(MICROBATCHES, WIDTH).double(), torch.randn(MICROBATCHES, WIDTH).double()
    reference, expected = copy.deepcopy(chain), []
    for m in range(MICROBATCHES):
        loss = loss_fn(torch.nn.Sequential(*reference)(x[m : m + 1]), y[m : m + 1])
        expected.append(loss.detach())
        if loss.requires_grad:
            (loss / MICROBATCHES).backward()
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    runtime = _PipelineScheduleRuntime(
        [PipelineStage(chain[s], s, stages, torch.device("cpu")) for s in mine], MICROBATCHES, loss_fn=loss_fn
    )
    runtime._load_csv(str(path), format=path.name.split(".")[-2])
    losses: list = []
    runtime.step(
        *([x] if 0 in mine else []), **({"target": y, "losses": losses} if stages - 1 in mine else {})
    )
    return {
        "loss": max(
            (float((a.detach() - b).abs()) for a, b in zip(losses, expected, strict=True)), default=0.0
        )
        if stages - 1 in mine
        else 0.0,
        "gradients": max(
            (
                float("inf") if p.grad is None else float((p.grad - q.grad).abs().max())
                for s in mine
                for p, q in zip(chain[s].parameters(), reference[s].parameters())
                if q.grad is not None
            ),
            default=0.0,
        ),
    }


def rank_main(path: Path, rank: int, store: str, say) -> None:
    torch.set_num_threads(1)
    try:
        say.send(train(path, rank, store))
    except BaseException as error:
        say.send({"error": f"{type(error).__name__}: {error}"[:300]})
    threading.Event().wait()  # with its connections: an end would be an error of the others


def outcome(path: Path, store: str, seconds: float) -> dict:
    fork = multiprocessing.get_context("fork")
    pipes = [fork.Pipe(duplex=False) for _ in range(RANKS)]
    ranks = [fork.Process(target=rank_main, args=(path, r, store, pipes[r][1])) for r in range(RANKS)]
    for p in ranks:
        p.start()
    said: dict[int, dict] = {}
    deadline = time.monotonic() + START
    while len(said) < RANKS and time.monotonic() < deadline and not any("error" in s for s in said.values()):
        for r, (end, _) in enumerate(pipes):
            if r not in said and end.poll(0.02):
                said[r] = end.recv()
                deadline = time.monotonic() + seconds
    for p in ranks:
        p.kill()
        p.join()
    failed = next((s for s in said.values() if "error" in s), None)
    if failed is not None:
        return {"end": "error"} | failed
    if len(said) < RANKS:
        return {"end": "hang"}
    far = {k: max(s[k] for s in said.values()) for k in ("loss", "gradients")}
    return {"end": "wrong" if max(far.values()) > TOO_FAR else "same"} | far


def main(out: str, seconds: float, *files: str) -> None:
    found = {Path(file).name: outcome(Path(file), f"{out}.{n}", seconds) for n, file in enumerate(files)}
    Path(out).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), *sys.argv[3:])
