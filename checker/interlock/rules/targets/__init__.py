"""The rules of particular runtimes: spec/targets.md. One module a target."""

from __future__ import annotations

from collections.abc import Iterator

from ...program.facts import Facts
from ..communication import Transfers
from ..finding import Finding
from . import hyperparallel, npu, torch, torchtitan
from .context import Context

RULES = {"torch": torch.check, "torchtitan": torchtitan.check, "hyperparallel": hyperparallel.check, "npu": npu.check}
TARGETS = tuple(RULES)
TRANSPORT = dict.fromkeys(TARGETS, ("pair",))            # NCCL and HCCL keep one queue for each pair of ranks


def check(facts: Facts, transfers: Transfers, target: str, context: Context = Context()) -> Iterator[Finding]:
    """What the target asks beyond the rules that hold everywhere. Raises KeyError for an unknown target."""
    yield from RULES[target](facts, transfers, context)


__all__ = ["RULES", "TARGETS", "TRANSPORT", "Context", "check"]
