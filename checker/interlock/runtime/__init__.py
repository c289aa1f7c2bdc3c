"""Executes plans on torch.distributed: one process a rank, launched by torchrun (spec/lowering.md).

    runner = Runner("vlm.plan", stages={0: encoder, 1: first_half}, loss_fn=loss_fn, device="cuda")
    losses = runner.step(inputs, targets)

PlanSchedule has the interface of PyTorch's own schedules instead. torch is imported with the first name that
is used, not with the package: emulations start processes of their own.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interlock.runtime.engine import Runner
    from interlock.runtime.errors import RunError
    from interlock.runtime.schedule import PlanSchedule

__all__ = ["PlanSchedule", "RunError", "Runner"]

_MODULES = {"PlanSchedule": "schedule", "RunError": "errors", "Runner": "engine"}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
