"""A program for a runtime: valid under the models of its transport, and by the runtime's own rules
(spec/targets.md).

No claim covers these rules. Each finding names the operations concerned; tests/rules/ shows what the runtime
makes of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from interlock.check.obligation import Record
from interlock.check.verdict import Answer, Discharged, Outcome, Verdict, fold
from interlock.program.facts import Facts
from interlock.program.ir import Program
from interlock.rules.communication import Transfers
from interlock.rules.targets import TARGETS, TRANSPORT, Context, check
from interlock.text.finding import Finding

__all__ = ["TARGETS", "Context", "Target", "check_targets"]


@dataclass(frozen=True)
class Target:
    """R-TGT: what a runtime asks. `undecided`: why a target without findings is not shown valid either."""

    program: Program
    target: str
    context: Context = Context()
    undecided: str = ""

    @property
    def name(self) -> str:
        return f"the rules of the target {self.target}"

    @property
    def models(self) -> tuple[str, ...]:
        return (self.target,)

    def discharge(self, earlier: Record) -> Outcome:
        return judge_target(self, [earlier.answer(model) for model in TRANSPORT[self.target]])


def judge_target(asked: Target, answers: Sequence[Answer]) -> Outcome:
    """`answers`: of the program under the models of the target's transport, with all that was asked of it."""
    program, target = asked.program, asked.target
    if program.fragment and target != "npu":
        reason = (
            "a fragment is no schedule that a runtime could run: the rules of this target ask for a whole one"
        )
        return Outcome(reason=reason, program=program)
    facts = Facts(program)
    findings = (
        *_transport(target, answers),
        *check(facts, Transfers(facts), target, asked.context),
    )
    if any(f.is_error for f in findings):
        return Outcome(Verdict.INVALID, "", findings, program)
    for answer in answers:
        if answer.verdict is not Verdict.VALID:
            reason = f"under {answer.model}, as its transport behaves: {answer.reason}"
            return Outcome(answer.verdict, reason, findings, program)
    if asked.undecided or not answers:
        reason = asked.undecided or "the models of its transport were not asked"
        return Outcome(reason=reason, findings=findings, program=program)
    return Outcome(Verdict.VALID, "", findings, program)


def check_targets(
    program: Program, targets: Sequence[str], answers: Sequence[Answer], context: Context = Context()
) -> tuple[Answer, ...]:
    """One answer for each target. `answers`: of the same program under the models of their transports."""
    out = []
    for target in targets:
        asked = Target(program, target, context)
        outcome = judge_target(asked, [a for a in answers if a.model in TRANSPORT[target]])
        out.append(fold(target, [Discharged(asked.name, outcome)], target=True))
    return tuple(out)


def _transport(target: str, answers: Sequence[Answer]) -> Iterator[Finding]:
    """IL800: valid under the models of the transport."""
    for answer in answers:
        if answer.verdict is Verdict.INVALID:
            codes = sorted({f.code for f in answer.errors})
            yield Finding(
                "IL800",
                "R-TGT",
                f"invalid under `{answer.model}`, as the transport of the target {target} behaves: "
                f"{', '.join(codes)}",
                (),
                f"repair what is found under `{answer.model}`",
            )
