"""A plan behind the interface of torch.distributed.pipelining's schedules: a training loop written for those,
such as torchtitan's, runs it as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch

from interlock.interchange.plan import Plan
from interlock.program.footprint import footprint
from interlock.runtime.engine import Runner


class PlanSchedule:
    """`schedule.step(x, target=y, losses=losses)`, as of PyTorch's schedules; other arguments are those of
    Runner.

    scale_grads     gradients are those of the mean of the microbatches' losses, else of their sum
    """

    def __init__(
        self,
        plan: Plan | str | Path,
        stages: Mapping[int, torch.nn.Module],
        loss_fn: Callable | None = None,
        *,
        scale_grads: bool = True,
        **options,
    ):
        self.loss_fn, self.scale_grads = loss_fn, scale_grads
        self.runner = Runner(plan, stages, loss_fn and self._scaled, **options)
        program = self.runner.plan.program
        paths, here = footprint(program), sorted(stages)
        self.n_microbatches = program.microbatches
        self.has_first_stage = bool((paths.on_path & (paths.prev < 0))[:, here].any())
        self.has_last_stage = bool((paths.on_path & (paths.next < 0))[:, here].any())

    def _scaled(self, output, target) -> torch.Tensor:
        loss = self.loss_fn(output, target)
        return loss / self.n_microbatches if self.scale_grads else loss

    def step(
        self,
        *args: torch.Tensor,
        target: torch.Tensor | None = None,
        losses: list | None = None,
        return_outputs: bool = False,
        **named,
    ) -> None:
        """Tensors of a whole batch, cut along their first dimension. args: for the first stage, and only on
        ranks that have it; or, by the name of a region or layer, a tensor or a dictionary of such. `losses`
        gets a loss for each microbatch, on every rank. Raises RunError, ValueError.
        """
        if return_outputs:
            raise ValueError("outputs are not kept: take what is needed of them in loss_fn")
        if args and named:
            raise ValueError(
                "give tensors for the first stage, or all of them by the names of regions or layers"
            )
        parts = (
            self._cut(named)
            if named
            else list(zip(*map(self._cut, args)))
            if args
            else [()] * self.n_microbatches
        )
        found = self.runner.step(parts, None if target is None else self._cut(target))
        if losses is not None:
            losses += list((found * self.n_microbatches if self.scale_grads else found).unbind())

    def _cut(self, batch) -> Sequence:
        """For each microbatch its part; of dictionaries, part by part."""
        if isinstance(batch, Mapping):
            cut = {name: self._cut(value) for name, value in batch.items()}
            return [{name: parts[m] for name, parts in cut.items()} for m in range(self.n_microbatches)]
        if len(batch) % self.n_microbatches:
            raise ValueError(
                f"a batch of {len(batch)} in {self.n_microbatches} microbatches: expected a multiple"
            )
        return batch.chunk(self.n_microbatches)

    def close(self) -> None:
        self.runner.close()


__all__ = ["PlanSchedule"]
