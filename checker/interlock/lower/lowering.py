"""From a verdict to a plan: what is verified is rewritten for its target, written, read back and checked
again (R-LOW-1 to R-LOW-4).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from interlock.check.certificates import certificates, text_of
from interlock.check.files import Ruling
from interlock.check.program import check_program
from interlock.check.subject import write_transfers
from interlock.check.targets import check_targets
from interlock.check.verdict import Answer, Verdict
from interlock.interchange.plan import Plan, describe_difference, digest
from interlock.lower.backends import Backend, LoweringOptions, NotExpressible
from interlock.program.ir import Program
from interlock.text.finding import InputError


class LoweringRefused(Exception):
    """The schedule is not lowered: nothing was written. `exit` is the command's; `answers` say what was found
    in the plan, if it was checked.
    """

    def __init__(
        self, code: str, message: str, help: str = "", exit: int = 1, answers: tuple[Answer, ...] = ()
    ):
        super().__init__(message)
        self.code, self.help, self.exit, self.answers = code, help, exit, answers


@dataclass(frozen=True)
class Lowered:
    """text: what to write. certificates: the documents the plan names, by model. notes: rewrites that were
    left out, and why.
    """

    plan: Plan
    text: str
    certificates: dict[str, dict] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def lower(ruling: Ruling, backend: Backend, options: LoweringOptions = LoweringOptions()) -> Lowered:
    """Raises LoweringRefused."""
    program = verified(ruling)
    try:
        final, names, notes, answers = _rewritten(program, ruling, backend, options)
    except NotExpressible as error:
        raise _inexpressible(backend, error) from None
    if answers is None:
        answers = _checked(final, ruling, backend, options)
    wrong = [a for a in answers if a.verdict is not Verdict.VALID]
    if wrong:
        raise _unfit(wrong, backend)
    documents = {a.model: certificates(a, ruling.result.limits)[0] for a in answers if a.claims}
    plan = Plan(
        ruling.result.name,
        backend.name,
        _transfers_written(final, ruling),
        tuple(names),
        {m: digest(text_of(d)) for m, d in documents.items()},
        ruling.result.path,
    )
    try:
        text = backend.write(plan, final)
    except NotExpressible as error:
        raise _inexpressible(backend, error) from None
    try:
        difference = describe_difference(backend.expected_readback(plan, final), backend.read(text, final))
    except (ValueError, InputError) as error:
        difference = str(error)
    if difference:
        raise LoweringRefused(
            "IL841",
            f"what was written for {backend.name} does not read back as the program: {difference}",
            "report this with the input",
            exit=101,
        )
    return Lowered(plan, text, documents, tuple(notes))


def verified(ruling: Ruling) -> Program:
    """R-LOW-3: the program as it was judged, valid under every model that was asked. Raises LoweringRefused
    (IL843).
    """
    checked = ruling.result
    models = [a for a in checked.answers if not a.target]
    found = {a.verdict for a in models} or {Verdict.UNKNOWN}
    if Verdict.INVALID in found:
        codes = sorted({f.code for a in models for f in a.errors})
        expected = " (as it is expected to be)" if checked.as_expected else ""
        raise LoweringRefused(
            "IL843",
            f"{checked.name} is invalid{expected}: {', '.join(codes)}",
            "only a valid schedule is lowered: repair it, then lower it",
        )
    if found != {Verdict.VALID}:
        why = (
            next(a.reason for a in models if a.verdict is not Verdict.VALID)
            if models
            else "nothing was asked"
        )
        raise LoweringRefused(
            "IL843", f"{checked.name} was not shown valid: {why}", "only a valid schedule is lowered", exit=3
        )
    if any(not e.met for e in checked.expectations):
        raise LoweringRefused(
            "IL843", f"{checked.name} is not as it is expected to be", "correct its `expect`, or the schedule"
        )
    program = models[0].program
    if program.fragment:
        raise LoweringRefused(
            "IL843",
            f"{checked.name} is a fragment, which no runtime could run",
            "write the whole order",
            exit=3,
        )
    return program


def _rewritten(program: Program, ruling: Ruling, backend: Backend, options: LoweringOptions):
    """The program after the target's rewrites, each checked on its own, with their names, what was left out,
    and the answers of the last check.

    A rewrite that is a matter of speed, and not of need, is left out where the plan would not be valid with
    it.
    """
    names, notes, answers = [], [], None
    trained = ruling.case.trained if program.inserted else None
    for rewrite, needed in backend.rewrites(program, options):
        before = program if needed or not program.inserted else _transfers_written(program, ruling)
        after = rewrite.apply(before, trained)
        what = rewrite.check(before, after)
        if what:
            raise LoweringRefused(
                "IL841",
                f"the rewrite {rewrite.name} changed more than it may: {what}",
                "report this with the input",
                exit=101,
            )
        if not needed:
            found = _checked(after, ruling, backend, options)
            if any(a.verdict is not Verdict.VALID for a in found):
                codes = sorted({f.code for a in found for f in a.errors})
                notes.append(
                    f"{rewrite.name} was left out: the plan would be invalid with it "
                    f"({', '.join(codes) or 'unknown'})"
                )
                continue
            answers = found
        else:
            answers = None
        changed = describe_difference(before, after) != ""
        program, names = after, names + [rewrite.name] * changed
    if program.inserted and not backend.inserts:
        program, answers = _transfers_written(program, ruling), None
    return program, names, notes, answers


def _transfers_written(program: Program, ruling: Ruling) -> Program:
    if not program.inserted:
        return program
    as_judged = any(a.program is program for a in ruling.result.answers)
    trained = (
        ruling.case.trained
        if as_judged and ruling.case.trained is not None and ruling.case.trained.inserted
        else None
    )
    found = write_transfers(program, trained, ruling.case.comm_of)
    if found is None:
        raise LoweringRefused(
            "IL842", "the transfers of the program cannot be placed", "report this with the input", exit=101
        )
    return found


def _checked(
    program: Program, ruling: Ruling, backend: Backend, options: LoweringOptions
) -> tuple[Answer, ...]:
    """R-LOW-2 and R-LOW-4: under the transport's models, and by the target's own rules."""
    models = tuple(dict.fromkeys((*backend.models, *options.models)))
    answers = check_program(program, models, limits=ruling.result.limits)
    return answers + check_targets(program, backend.targets, answers)


def _inexpressible(backend: Backend, error: NotExpressible) -> LoweringRefused:
    return LoweringRefused(
        "IL844",
        f"{backend.name} cannot say this: {error}",
        "lower to `torch`, which interlock.runtime runs" if backend.targets else "write a whole schedule",
    )


def _unfit(wrong: list[Answer], backend: Backend) -> LoweringRefused:
    exit = 1 if any(a.verdict is Verdict.INVALID for a in wrong) else 3
    models = [a for a in wrong if not a.target]
    codes = (
        ", ".join(sorted({f.code for a in (models or wrong) for f in a.errors if f.code != "IL800"}))
        or wrong[0].reason
    )
    if models:
        return LoweringRefused(
            "IL842",
            f"the plan is not valid under {' and '.join(a.model for a in models)}, as the transport of "
            f"{backend.name} behaves: {codes}",
            "choose other rewrites, or repair the schedule for this model",
            exit,
            tuple(wrong),
        )
    return LoweringRefused(
        "IL844",
        f"{backend.name} cannot run this schedule: {codes}",
        "lower to `torch`, which interlock.runtime runs, or change what the rules name",
        exit,
        tuple(wrong),
    )


__all__ = ["Lowered", "LoweringRefused", "lower", "verified"]
