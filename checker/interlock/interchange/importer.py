"""What an importer is asked and what it gives: a module with an `IMPORTER` and a line in importing.py make a
format.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from interlock.interchange import json_reader
from interlock.interchange.placement import Placement
from interlock.program.ir import Program
from interlock.text.source import Source


@dataclass(frozen=True)
class CsvOptions:
    """What a CSV cannot say of itself.

    `placement`: the rank of every stage, or `loop`, `vee`; None: as in the file. `frozen`: stages, or `all`.
    """

    format: Literal["auto", "compute-only", "compute-comms"] = "auto"
    placement: Placement = None
    microbatches: int | None = None
    frozen: frozenset[int] | Literal["all"] = frozenset()


@dataclass(frozen=True)
class StepOptions:
    """What a list of steps cannot say of itself; `placement` as in CsvOptions."""

    placement: Placement = None
    microbatches: int | None = None


NO_CSV_OPTIONS, NO_STEP_OPTIONS = CsvOptions(), StepOptions()


@dataclass(frozen=True)
class Imported:
    """A program, and what a reader of its `.sched` file should know of it."""

    program: Program
    comments: tuple[str, ...] = ()


class Importer(Protocol):
    """`companions`: the names of files that may lie beside a file of this format and belong to it."""

    @property
    def companions(self) -> tuple[str, ...]: ...

    def decode(self, data: bytes) -> str:
        """The text of a file. Raises InputError."""

    def read(self, source: Source, options: CsvOptions, companions: Sequence[Source | None]) -> Imported:
        """The program; of `companions` those that are there, in their order. Raises InputError."""


@dataclass(frozen=True)
class StepListImporter:
    """Of a list of steps: `read_steps` takes the source, StepOptions and the companions."""

    read_steps: Callable[..., Imported]
    companions: tuple[str, ...] = ()

    def decode(self, data: bytes) -> str:
        return json_reader.decode(data)

    def read(self, source: Source, options: CsvOptions, companions: Sequence[Source | None]) -> Imported:
        steps = StepOptions(options.placement, options.microbatches)
        return self.read_steps(source, steps, *companions)
