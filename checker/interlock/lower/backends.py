"""Back ends: what turns a program into a runtime's plan.

Others register theirs by the entry point group `interlock.backends`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol

from interlock.interchange.plan import Plan
from interlock.lower.rewrites import Rewrite
from interlock.program.ir import Program

GROUP = "interlock.backends"
BUILT_IN = {"json": "neutral", "torch": "torch", "torch-csv": "torch_csv", "hyperparallel": "hyperparallel"}


class NotExpressible(ValueError):
    """The runtime has no way to say something of the program."""


@dataclass(frozen=True)
class LoweringOptions:
    """models: asked beside the transport's. transfers: `early`, `inserted`. grouped: every transfer in a
    grouped launch. form: of a CSV, `compute-only`, `compute-comms`, `auto`.
    """

    models: tuple[str, ...] = ()
    transfers: str = "early"
    grouped: bool = False
    form: str = "auto"


class Backend(Protocol):
    """`name` is what `--to` takes; `models` its transport's; `targets` those whose rules are asked;
    `inserts`: the runtime itself places transfers.
    """

    name: str
    models: tuple[str, ...]
    targets: tuple[str, ...]
    inserts: bool

    def rewrites(self, program: Program, options: LoweringOptions) -> Sequence[tuple[Rewrite, bool]]:
        """The rewrites in order, and whether the target needs each (else it is left out where the plan would
        be invalid with it).
        """

    def write(self, plan: Plan, program: Program) -> str:
        """The text to write.

        `program` is the rewritten one, its transfers inserted where `inserts` holds. Raises NotExpressible.
        """

    def read(self, text: str, program: Program) -> Program:
        """What the text says; `program` for what the form leaves out (layers, sizes)."""

    def expected_readback(self, plan: Plan, program: Program) -> Program:
        """The program that `read` must give."""


def names() -> tuple[str, ...]:
    return (*BUILT_IN, *sorted(_entries().keys() - BUILT_IN.keys()))


def find(name: str) -> Backend:
    """Raises KeyError for an unknown name, and whatever importing a registered one raises."""
    if name in BUILT_IN:
        return import_module(f".{BUILT_IN[name]}", __package__).BACKEND
    return _entries()[name].load()


def _entries() -> dict:
    from importlib.metadata import entry_points

    return {e.name: e for e in entry_points(group=GROUP)}
