"""A program's answer for a runtime: valid under the models of its transport, and the runtime's own rules (spec/targets.md).

No certificate covers these rules. Each finding names the operations concerned; tests/rules/ shows what the runtime makes of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from interlock.check.verdict import Answer, Verdict
from interlock.program.facts import Facts
from interlock.program.ir import Program
from interlock.rules.communication import Transfers
from interlock.rules.targets import RULES, TARGETS, TRANSPORT, Context, check
from interlock.text.finding import Finding

__all__ = ["TARGETS", "Context", "check_targets", "models_of"]


def models_of(targets: Sequence[str]) -> tuple[str, ...]:
    """The communication models that the transports of these targets imply. Raises ValueError for an unknown target."""
    unknown = [t for t in targets if t not in RULES]
    if unknown:
        raise ValueError(f"unknown target: {', '.join(unknown)}")
    return tuple(dict.fromkeys(m for t in targets for m in TRANSPORT[t]))


def check_targets(
    program: Program,
    targets: Sequence[str],
    answers: Sequence[Answer],
    context: Context = Context(),
    undecided: str = "",
) -> tuple[Answer, ...]:
    """One answer for each target. `answers`: of the same program under the models of `models_of(targets)`, in their final form.

    `undecided`: why a target without findings is not shown valid either.
    """
    if not targets:
        return ()
    try:
        facts = Facts(program)
        transfers = Transfers(facts)
        return tuple(
            _target(facts, transfers, t, [a for a in answers if a.model in TRANSPORT[t]], context, undecided)
            for t in targets
        )
    except MemoryError:
        reason = f"checking its {len(program.order):,} operations takes more memory than there is"
        return tuple(Answer(t, program=program, reason=reason, target=True) for t in targets)


def _target(
    facts: Facts,
    transfers: Transfers,
    target: str,
    answers: Sequence[Answer],
    context: Context,
    undecided: str,
) -> Answer:
    program = facts.program
    if program.fragment and target != "npu":
        return Answer(
            target,
            program=program,
            reason="a fragment is no schedule that a runtime could run: the rules of this target ask for a whole one",
            target=True,
        )
    findings = (*_transport(target, answers), *check(facts, transfers, target, context))
    if any(f.is_error for f in findings):
        return Answer(target, Verdict.INVALID, program, findings, "", target=True)
    for answer in answers:
        if answer.verdict is not Verdict.VALID:
            return Answer(
                target,
                answer.verdict,
                program,
                findings,
                f"under {answer.model}, as its transport behaves: {answer.reason}",
                target=True,
            )
    if undecided or not answers:
        return Answer(
            target,
            program=program,
            findings=findings,
            reason=undecided or "the models of its transport were not asked",
            target=True,
        )
    return Answer(target, Verdict.VALID, program, findings, "", target=True)


def _transport(target: str, answers: Sequence[Answer]) -> Iterator[Finding]:
    """IL800: valid under the models of the transport."""
    for answer in answers:
        if answer.verdict is Verdict.INVALID:
            codes = sorted({f.code for f in answer.errors})
            yield Finding(
                "IL800",
                "R-TGT",
                f"invalid under `{answer.model}`, as the transport of the target {target} behaves: {', '.join(codes)}",
                (),
                f"repair what is found under `{answer.model}`",
            )
