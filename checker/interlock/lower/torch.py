"""`torch`: a plan for interlock.runtime on torch.distributed, transfers as early as their queues allow,
grouped where asked.
"""

from __future__ import annotations

from interlock.interchange.plan import Plan
from interlock.lower.backends import LoweringOptions, NotExpressible
from interlock.lower.executable import without_action
from interlock.lower.neutral import Json
from interlock.lower.rewrites import EARLY_TRANSFERS, GROUPED, REDUCTIONS
from interlock.program.ir import Program


class Torch(Json):
    name = "torch"

    def rewrites(self, program: Program, options: LoweringOptions):
        yield REDUCTIONS, True
        if options.transfers == "early":
            yield EARLY_TRANSFERS, False
        if options.grouped:
            yield GROUPED, False

    def write(self, plan: Plan, program: Program) -> str:
        if odd := without_action(plan.program):
            raise NotExpressible(odd)
        return super().write(plan, program)


BACKEND = Torch()
