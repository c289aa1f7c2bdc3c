"""Gradient reductions: a Replicated stage over the ranks of the pipeline, ties over their ranks, and the
data-parallel group after.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist

from interlock.runtime.control import Control


class Reducer:
    """Sums over ranks of one pipeline; `data_group` then averages (or sums, with average=False) over its
    replicas.

    A gradient that is not there counts as zero: every member of a group enters, whatever it computed
    (R-RANK).
    """

    def __init__(
        self,
        control: Control,
        groups: Sequence,
        data_group=None,
        average: bool = True,
        host_waits: bool = True,
    ):
        self.control, self.groups, self.data_group, self.average, self.host_waits = (
            control,
            groups,
            data_group,
            average,
            host_waits,
        )

    def stage(self, parameters: Sequence[torch.nn.Parameter], replicated: bool, comm: int = 0) -> None:
        if replicated and self.groups[comm] is not None:
            self._sum(parameters, self.groups[comm])
        if self.data_group is not None:
            self._sum(
                parameters, self.data_group, 1 / dist.get_world_size(self.data_group) if self.average else 1
            )

    def tie(self, parameters: Sequence[torch.nn.Parameter], comm: int) -> None:
        """Each rank's copies of one parameter, all of one shape: their sum, and then the sum over the ranks,
        in each.
        """
        own = list(dict.fromkeys(parameters))
        total = sum(_gradient(p) for p in own)
        self._all_reduce(total, self.groups[comm])
        for p in own:
            p.grad = total.clone()

    def _sum(self, parameters: Sequence[torch.nn.Parameter], group, factor: float = 1) -> None:
        kinds: dict[torch.dtype, list[torch.nn.Parameter]] = {}
        for p in dict.fromkeys(parameters):
            kinds.setdefault(p.dtype, []).append(p)
        for same in kinds.values():
            flat = torch.cat([_gradient(p).reshape(-1) for p in same])
            self._all_reduce(flat, group)
            if factor != 1:
                flat *= factor
            for p, part in zip(same, flat.split([p.numel() for p in same])):
                p.grad = part.view_as(p).clone()

    def _all_reduce(self, tensor: torch.Tensor, group) -> None:
        work = self.control.begin(
            lambda: dist.all_reduce(tensor, dist.ReduceOp.SUM, group=group, async_op=True)
        )
        if self.host_waits:
            self.control.wait(work.wait, "waits for the other ranks in")
        else:
            self.control.begin(work.wait)


class Accumulation:
    """Gradients of earlier steps are set aside while a step runs, so that a reduction sums what this step
    added and nothing twice.
    """

    def __init__(self, parameters: Callable[[], Sequence[torch.nn.Parameter]]):
        self.before = {p: p.grad for p in parameters()}
        for p in self.before:
            p.grad = None

    def forget(self) -> None:
        self.before = dict.fromkeys(self.before)

    def restore(self) -> None:
        for p, old in self.before.items():
            if old is not None:
                p.grad = old if p.grad is None else p.grad.add_(old)
        self.before = {}


def _gradient(p: torch.nn.Parameter) -> torch.Tensor:
    return torch.zeros_like(p) if p.grad is None else p.grad.detach()
