"""examples/titan.py and the interface of PyTorch's schedules: the same training on one rank and on two, and
what `step` refuses.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist

from command import ROOT
from interlock.runtime import PlanSchedule
from torch_ranks import ENVIRONMENT, run_ranks

from .support import lowered

pytestmark = pytest.mark.torch

EXAMPLES = ROOT / "examples"


def train(text: str, ranks: int, folder, torchrun: bool) -> list[tuple[float, ...]]:
    """(loss, gradient norm) of each step of examples/titan.py."""
    plan = folder / f"{ranks}.plan"
    plan.write_text(lowered(text).text)
    arguments = ("--plan", plan, "--steps", "4")
    if torchrun:
        launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks))
        printed = subprocess.run(
            [sys.executable, *launcher, EXAMPLES / "titan.py", *arguments],
            env=os.environ | ENVIRONMENT,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            timeout=120,
        ).stdout
    else:
        ended = run_ranks(EXAMPLES / "titan.py", [arguments] * ranks, folder, 120)
        assert all(rank.code == 0 for rank in ended), ended
        printed = "".join(rank.out for rank in ended)
    return [
        tuple(map(float, found)) for found in re.findall(r"loss ([\d.]+), gradient norm ([\d.]+)", printed)
    ]


def test_the_example_trains_alike_on_one_rank_and_on_two(tmp_path, request):
    """Under torchrun with --thorough."""
    torchrun = request.config.getoption("--thorough")
    text = (EXAMPLES / "small_llm.sched").read_text()
    alone = text.replace("ranks 2", "ranks 1").replace("interleaved(chunks: 2)", "gpipe")
    two, one = train(text, 2, tmp_path, torchrun), train(alone, 1, tmp_path, torchrun)
    assert len(two) == 4 and two[-1][0] < two[0][0]
    assert two == [pytest.approx(step, rel=1e-5) for step in one]


@pytest.fixture
def alone(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    yield lowered(
        "schedule s { ranks 1 microbatches 4 model { layers a[2] { } } cut { r = a : gpipe } }"
    ).plan
    dist.destroy_process_group()


@pytest.mark.parametrize("scaled", [True, False])
def test_gradients_are_of_the_mean_or_of_the_sum(alone, scaled):
    module, x, y = torch.nn.Linear(3, 2).double(), torch.randn(8, 3).double(), torch.randn(8, 2).double()
    schedule, losses = PlanSchedule(alone, {0: module}, torch.nn.functional.mse_loss, scale_grads=scaled), []
    assert schedule.has_first_stage and schedule.has_last_stage and schedule.n_microbatches == 4
    schedule.step(x, target=y, losses=losses)
    parts = [torch.nn.functional.mse_loss(module(a), b) for a, b in zip(x.chunk(4), y.chunk(4))]
    assert [float(l) for l in losses] == pytest.approx([float(l.detach()) for l in parts], rel=1e-12)
    total = sum(parts) / 4 if scaled else sum(parts)
    assert torch.allclose(module.weight.grad, torch.autograd.grad(total, module.weight)[0], rtol=1e-12)
    module.weight.grad = None
    schedule.step(r={"input": x}, target=y)  # by the name of the region, as a keyword of the module
    assert torch.allclose(
        module.weight.grad,
        torch.autograd.grad(
            sum(torch.nn.functional.mse_loss(module(a), b) for a, b in zip(x.chunk(4), y.chunk(4)))
            / (4 if scaled else 1),
            module.weight,
        )[0],
        rtol=1e-12,
    )
    schedule.close()


def test_what_step_refuses(alone):
    schedule = PlanSchedule(alone, {0: torch.nn.Linear(3, 2)}, torch.nn.functional.mse_loss)
    x, y = torch.randn(8, 3), torch.randn(8, 2)
    for said, given in (
        ("a batch of 6 in 4 microbatches", dict(target=y[:6])),
        ("outputs are not kept", dict(target=y, return_outputs=True)),
        ("give tensors for the first stage", dict(target=y, r=x)),
    ):
        with pytest.raises(ValueError, match=said):
            schedule.step(x, **given)
    schedule.close()
