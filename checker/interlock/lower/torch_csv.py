"""`torch-csv`: both forms that PyTorch's `_PipelineScheduleRuntime._load_csv` takes, with the rules of the
target `torch`.
"""

from __future__ import annotations

from dataclasses import replace

from interlock.interchange import torch_csv
from interlock.interchange.plan import Plan
from interlock.lower.backends import LoweringOptions, NotExpressible
from interlock.lower.rank_rows import rows_of, with_rows
from interlock.lower.rewrites import (
    HELD_SENDS,
    PLACEHOLDERS,
    REDUCTIONS,
    TRAINERS,
    WHOLE_BACKWARD,
    WHOLE_INSERTION,
)
from interlock.program.ir import Program
from interlock.text.source import Sources


class TorchCsv:
    """Compute-only where the program leaves transfers to the runtime, unless the other form is asked for."""

    name = "torch-csv"
    models = ("pair",)
    targets = ("torch",)
    inserts = True

    def rewrites(self, program: Program, options: LoweringOptions):
        if options.form == "compute-only" and not program.inserted:
            raise NotExpressible(
                "its transfers are written, and a compute-only file has none: ask for compute-comms"
            )
        yield TRAINERS, True
        if not program.inserted:
            yield HELD_SENDS, True
            yield REDUCTIONS, True
        yield PLACEHOLDERS, True
        yield WHOLE_BACKWARD, True
        if program.inserted and options.form == "compute-comms":
            yield WHOLE_INSERTION, True
            yield HELD_SENDS, True

    def write(self, plan: Plan, program: Program) -> str:
        start = program.order.start.tolist()
        if idle := [r for r in range(program.ranks) if start[r] == start[r + 1]]:
            raise NotExpressible(
                f"rank {idle[0]} runs nothing, and PyTorch's runtime needs a stage on every rank"
            )
        try:
            return torch_csv.write(program)
        except torch_csv.NotExpressible as error:
            raise NotExpressible(str(error)) from None

    def read(self, text: str, program: Program) -> Program:
        """Stages, layers and memory are the program's: a CSV has none."""
        form = "compute-only" if program.inserted else "compute-comms"
        found = torch_csv.read(
            Sources().add("plan.csv", text),
            torch_csv.CsvOptions(
                format=form,
                placement=tuple(s.rank for s in program.stages),
                microbatches=program.microbatches,
            ),
        )
        return replace(
            program,
            order=found.order,
            ranks=found.ranks,
            inserted=found.inserted,
            reductions_inserted=found.reductions_inserted,
        )

    def expected_readback(self, plan: Plan, program: Program) -> Program:
        """Launches numbered as the reader numbers them."""
        return with_rows(program, rows_of(program)) if (program.order.launch >= 0).any() else program


BACKEND = TorchCsv()
