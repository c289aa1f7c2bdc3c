"""Executes plans on torch.distributed: one process a rank, launched by torchrun. With profile/measure.py all that imports torch (spec/lowering.md).

    runner = Runner("vlm.plan", stages={0: encoder, 1: first_half}, loss_fn=loss_fn, device="cuda")
    losses = runner.step(inputs, targets)

PlanSchedule has the interface of PyTorch's own schedules instead.
"""

from interlock.runtime.engine import Runner
from interlock.runtime.errors import RunError
from interlock.runtime.schedule import PlanSchedule

__all__ = ["PlanSchedule", "RunError", "Runner"]
