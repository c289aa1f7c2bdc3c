"""What F, B, I and W compute: autograd of one stage and microbatch, gated by the plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from interlock.runtime.errors import RunError


@dataclass
class Stash:
    """What a forward leaves for its backward: inputs cut off from the graph of the stage before, outputs, and
    the gradients I was given.
    """

    inputs: list[torch.Tensor]
    outputs: list[torch.Tensor]
    loss: torch.Tensor | None = None
    result: object = None
    roots: list[torch.Tensor] | None = None
    gradients: list[torch.Tensor | None] | None = None


class StageRunner:
    """One stage of this rank. Stashes live from F to the backward that the plan marks with `drop`."""

    def __init__(self, number: int, module: Callable, trainable: bool):
        self.number, self.module = number, module
        self.parameters = (
            [p for p in module.parameters() if p.requires_grad] if isinstance(module, torch.nn.Module) else []
        )
        self.stashes: dict[int, Stash] = {}
        if trainable != bool(self.parameters):
            has, plan = (
                ("trainable parameters" if self.parameters else "none"),
                ("trains" if trainable else "has frozen"),
            )
            raise RunError(
                "IL849",
                f"stage {number}: the module has {has}, and the plan {plan} it: set requires_grad as the "
                "schedule's `freeze` says, or lower it again",
            )

    def forward(
        self, a: dict, payload: Sequence[torch.Tensor], tracked: Sequence[bool], args: Sequence, kwargs: dict
    ) -> list[torch.Tensor]:
        """`payload`: what the stage before gave; tracked[i]: whether it carries a gradient.

        Gates: back, cross.
        """
        inputs = []
        for t, needs in zip(payload, tracked):
            t = t.detach()
            inputs.append(t.requires_grad_(True) if needs and a["cross"] else t)
        with torch.set_grad_enabled(a["back"]):
            result = self.module(*inputs, *args, **kwargs)
        outputs = list(result) if isinstance(result, (tuple, list)) else [result]
        if not all(isinstance(t, torch.Tensor) for t in outputs) and a["to"] != "loss":
            raise TypeError(
                f"stage {self.number} gave {', '.join(type(t).__name__ for t in outputs)}: a payload is a "
                "tensor or a tuple of tensors"
            )
        tracked = any(isinstance(t, torch.Tensor) and t.requires_grad for t in outputs)
        if tracked != a["back"]:
            raise RunError(
                "IL849",
                f"stage {self.number} gives {'an output with' if tracked else 'outputs without'} a "
                f"gradient, and by the plan it has {'none' if tracked else 'one'}: "
                "the module's trainable parameters are not those of the schedule",
            )
        self.stashes[a["mb"]] = Stash(inputs, outputs, result=result)
        return outputs

    def loss(self, a: dict, loss_fn: Callable, target) -> torch.Tensor:
        stash = self.stashes[a["mb"]]
        with torch.set_grad_enabled(
            any(isinstance(t, torch.Tensor) and t.requires_grad for t in stash.outputs)
        ):
            stash.loss = loss_fn(stash.result, *(() if target is None else (target,)))
        stash.result = None
        return stash.loss

    def forget(self, mb: int) -> None:
        self.stashes.pop(mb, None)

    def _roots(self, stash: Stash, gradients: Sequence[torch.Tensor | None] | None):
        """The tensors a backward starts from, and the gradients there."""
        if stash.loss is not None:
            return [stash.loss], [None]
        pairs = [(t, g) for t, g in zip(stash.outputs, gradients) if t.requires_grad and g is not None]
        return [t for t, _ in pairs], [g for _, g in pairs]

    def backward(self, a: dict, gradients) -> list[torch.Tensor | None]:
        """B: input and weight gradients at once; the gradients of the inputs."""
        stash = self._take(a)
        roots, at = self._roots(stash, gradients)
        if roots:
            torch.autograd.backward(roots, at)
        return [t.grad if t.requires_grad else None for t in stash.inputs]

    def backward_input(self, a: dict, gradients) -> list[torch.Tensor | None]:
        """I: the gradients of the inputs only; the graph stays for W, unless the plan lists none."""
        stash = self._take(a)
        stash.roots, stash.gradients = self._roots(stash, gradients)
        asked = [t for t in stash.inputs if t.requires_grad]
        if not asked or not stash.roots:
            return [None] * len(stash.inputs)
        found = iter(
            torch.autograd.grad(
                stash.roots, asked, stash.gradients, retain_graph=not a.get("drop", False), allow_unused=True
            )
        )
        return [next(found) if t.requires_grad else None for t in stash.inputs]

    def backward_weight(self, a: dict) -> None:
        """W: the gradients of the weights from what I was given.

        On the first trainable stage after a frozen prefix this is all of the backward.
        """
        stash = self._take(a)
        if not a["weights"] or not stash.roots:
            return
        found = torch.autograd.grad(stash.roots, self.parameters, stash.gradients, allow_unused=True)
        for p, g in zip(self.parameters, found):
            if g is not None:
                p.grad = g if p.grad is None else p.grad.add_(g)

    def _take(self, a: dict) -> Stash:
        return self.stashes.pop(a["mb"]) if a.get("drop") else self.stashes[a["mb"]]
