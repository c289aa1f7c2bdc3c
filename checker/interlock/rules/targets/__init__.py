"""The rules of particular runtimes: spec/targets.md. One module a target."""

from __future__ import annotations

from collections.abc import Iterator

from interlock.program.facts import Facts
from interlock.rules.communication import Transfers
from interlock.rules.targets import hyperparallel, npu, torch, torchtitan
from interlock.rules.targets.context import Context
from interlock.text.finding import Finding

RULES = {
    "torch": torch.check,
    "torchtitan": torchtitan.check,
    "hyperparallel": hyperparallel.check,
    "npu": npu.check,
}
TARGETS = tuple(RULES)
TRANSPORT = dict.fromkeys(TARGETS, ("pair",))  # NCCL and HCCL keep one queue for each pair of ranks


def check(facts: Facts, transfers: Transfers, target: str, context: Context = Context()) -> Iterator[Finding]:
    """What the target asks beyond the rules that hold everywhere. Raises KeyError for an unknown target."""
    yield from RULES[target](facts, transfers, context)


__all__ = ["RULES", "TARGETS", "TRANSPORT", "Context", "check"]
