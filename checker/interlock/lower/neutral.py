"""`json`: the plan itself, as the program has it."""

from __future__ import annotations

from interlock.interchange import plan as plans
from interlock.interchange.plan import Plan
from interlock.lower.backends import LoweringOptions
from interlock.lower.rewrites import REDUCTIONS
from interlock.program.ir import Program


class Json:
    name = "json"
    models = ("pair",)
    targets: tuple[str, ...] = ()
    inserts = False

    def rewrites(self, program: Program, options: LoweringOptions):
        yield REDUCTIONS, True

    def write(self, plan: Plan, program: Program) -> str:
        return plans.dumps(plan)

    def read(self, text: str, program: Program) -> Program:
        return plans.loads(text).program

    def expected_readback(self, plan: Plan, program: Program) -> Program:
        return plan.program


BACKEND = Json()
