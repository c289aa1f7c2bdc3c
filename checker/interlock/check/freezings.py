"""`for any freezing`: one order for every choice of trained layers, found by z3 in one query, judged by the
kernel (R-INV).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from interlock.check.obligation import Disagreement, Record, discharge_all
from interlock.check.program import check_program, program_obligations
from interlock.check.sizes import Sizes, smallest
from interlock.check.subject import Subject, unlimited, with_bytes, write_transfers
from interlock.check.verdict import Answer, Claim, Limits, Outcome, Verdict, outcome_of
from interlock.load import Case
from interlock.program.facts import Facts
from interlock.program.ir import Program
from interlock.program.linearise import compute_times
from interlock.program.transfers import restrict
from interlock.rules.waits import MODELS
from interlock.text.finding import Finding, Severity

Limit = Sequence[int | None] | None


class Freezings:
    """The layers of a case's `for any freezing`, and its program with every one of them trained.

    trained   that program, its transfers as the schedule lists them
    placed    with its transfers written, if they are inserted and bytes are asked of it
    """

    def __init__(self, case: Case, limits: Limits):
        assert case.schedule is not None
        self.case, self.limits = case, limits
        self.layers = case.schedule.freezing
        self.trained = train(case, self.layers)
        self.placed = self._place()

    def _place(self) -> Program | None:
        trained, peak = self.trained, self.limits.peak
        memory = trained.memory or (unlimited(trained) if peak is not None else None)
        unbounded = memory is None or (peak is None and all(c is None for c in memory.capacity))
        if not trained.inserted or unbounded:
            return None
        return write_transfers(replace(trained, memory=memory), self.case.trained, self.case.comm_of)

    @property
    def names(self) -> str:
        return name_groups(self.trained, self.layers)

    @property
    def all_declared(self) -> bool:
        """Whether the schedule declares all of them trained."""
        return self.trained.layers == self.case.program.layers

    @cached_property
    def record(self) -> Record:
        """The obligations of the program with all of them trained, discharged. Raises Disagreement."""
        case = self.case
        program = with_bytes(self.trained, self.limits, case.trained, case.comm_of)
        subject = Subject(program, case.question.engine, self.limits)
        sizes = Sizes.of(case.schedule) if case.schedule is not None else None
        return discharge_all(program_obligations(subject, case.models, sizes))

    @cached_property
    def inserted(self) -> Answer:
        """Where transfers are inserted, the answer of every model. Raises Disagreement."""
        return self.invariance(None)

    def invariance(self, under: Answer | None) -> Answer:
        return check_invariance(
            self.trained,
            self.layers,
            placed=self.placed,
            under=under,
            peak=self.limits.peak,
            second=self.case.question.engine == "both",
        )


def train(case: Case, layers: Sequence[int]) -> Program:
    """The program of a case with these layers trained, whatever else it freezes."""
    base = case.trained or case.program
    chosen = tuple(
        replace(l, trainable=i in layers or declared.trainable)
        for i, (l, declared) in enumerate(zip(base.layers, case.program.layers))
    )
    if case.trained is None and not base.inserted:  # with its transfers: as it is written
        return replace(base, layers=chosen)
    return restrict(base, chosen)


@dataclass(frozen=True)
class EveryFreezing:
    """R-INV-1: with all of the layers trained the program is valid, and one order serves every freezing."""

    freezings: Freezings
    models: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"any freezing of {self.freezings.names}"

    def discharge(self, earlier: Record) -> Outcome:
        [*_, model] = self.models
        declared = earlier.answer(model)
        if declared.verdict is Verdict.INVALID:
            return Outcome(reason="not asked: it is invalid", moot=True)
        freezings = self.freezings
        trained = declared if freezings.all_declared else freezings.record.answer(model)
        if trained.verdict is Verdict.INVALID:
            return replace(
                outcome_of(trained), findings=(self._with_nothing_frozen(trained), *trained.findings)
            )
        if trained.verdict is not Verdict.VALID:
            return Outcome(trained.verdict, trained.reason)
        found = freezings.inserted if freezings.trained.inserted else freezings.invariance(trained)
        if found.verdict is not Verdict.VALID:
            return outcome_of(found)
        more = () if freezings.all_declared else trained.claims
        return Outcome(Verdict.VALID, "", found.findings, None, more + found.claims)

    def _with_nothing_frozen(self, trained: Answer) -> Finding:
        codes = ", ".join(sorted({f.code for f in trained.errors}))
        return fail_freezing(
            self.freezings.names,
            "",
            f"it is invalid: {codes}",
            "repair that, or freeze these layers for good and leave `for any freezing` out",
        )


def check_invariance(
    trained: Program,
    layers: Sequence[int],
    *,
    placed: Program | None = None,
    under: Answer | None = None,
    peak: Limit = None,
    second: bool = False,
) -> Answer:
    """`trained`: a program in which each of `layers` is trainable. With its transfers inserted the answer
    does not depend on the model.

    `placed`: an inserted program with its transfers written and its bytes, if these are asked: no freezing
    may need more than
    the capacity or `peak` of a rank. `under`: of a program whose transfers are written, the valid answer
    under the one model
    that is asked; its times are the claim's. `second`: cvc5 is asked beside z3. Raises Disagreement.
    """
    from interlock.engine import smt

    model = under.model if under is not None else "any"
    if trained.fragment:
        reason = (
            "invariance: a fragment lists a part of a program, and what a freezing leaves of it is not known"
        )
        return Answer(model, reason=reason)
    subject, times = _order(trained, under)
    sized = subject.program if under is not None else placed
    bytes_asked = sized is not None and sized.memory is not None
    limits = None
    if sized is not None and sized.memory is not None and peak is not None:
        limits = smallest(sized.memory.capacity, peak)
    try:
        found = smt.check_freezings(
            subject.program,
            layers,
            model=None if under is None else model,
            written=placed,
            limits=limits,
            second=second,
        )
    except smt.Contradiction as error:
        raise Disagreement(str(error)) from error
    if isinstance(found, smt.Unknown):
        return Answer(model, reason=f"invariance: {found.reason}")
    names = name_groups(subject.program, layers)
    if isinstance(found, smt.Fails):
        return _failing(found, model, names, peak)
    claim = _claim(subject, under, {**times, "claim": "invariant", "bits": list(layers)})
    memory = ", memory included" if bytes_asked else ""
    message = f"holds for any freezing of {names}: all 2^{len(layers)} choices in one query{memory}"
    note = Finding("IL607", "R-INV-1", message, (), "", Severity.NOTE)
    return Answer(model, Verdict.VALID, subject.program, (note,), "", (claim,))


def _order(trained: Program, under: Answer | None) -> tuple[Subject, dict[str, Any]]:
    """The program whose order is claimed to serve every freezing, and its times."""
    if under is None:
        trained = replace(
            trained, memory=None
        )  # the claim is about the order; what the bytes rest on is `placed`
        return Subject(trained), {"times": compute_times(Facts(trained)).time.tolist()}
    assert under.program is not None
    valid = next(c.statement for c in under.claims if c.statement["claim"] == "valid")
    return Subject(under.program), dict(valid)


def _claim(subject: Subject, under: Answer | None, statement: dict[str, Any]) -> Claim:
    """In the document of the valid claim, if there is one. Raises Disagreement."""
    claim = subject.claim(statement)
    return claim if under is None else replace(claim, program=under.claims[0].program)


def fail_freezing(names: str, frozen: str, what: str, repair: str) -> Finding:
    """IL606, R-INV-1."""
    message = (
        f"the order does not serve every freezing of {names}: with {frozen or 'none of them'} frozen, {what}"
    )
    return Finding("IL606", "R-INV-1", message, (), repair)


def _failing(found: Any, model: str, names: str, peak: Limit) -> Answer:
    """The freezing that fails, and with it, from the rules, what goes wrong there: its trace is that of the
    program that freezing leaves.
    """
    frozen = ", ".join(found.program.layers[l].name for l in found.bits)
    repair = (
        "check the sizes, or raise the capacity"
        if found.code == "IL501"
        else "let the footprint decide which backward work exists"
    )
    finding = fail_freezing(names, frozen, found.what, repair)
    layers = tuple(
        replace(l, trainable=l.trainable and i not in found.bits) for i, l in enumerate(found.program.layers)
    )
    left = restrict(found.program, layers)
    limits = Limits(tuple(peak) if peak is not None else None)
    [there] = check_program(left, (model if model in MODELS else MODELS[0],), limits=limits)
    if there.verdict is Verdict.INVALID:
        return replace(there, model=model, findings=(finding, *there.findings))
    return Answer(model, Verdict.INVALID, left, (finding,))


def name_groups(program: Program, layers: Sequence[int]) -> str:
    """Layer groups by name: `vit (24 layers), proj`."""
    counts: dict[str, int] = {}
    for l in layers:
        name = program.layers[l].name.split("[")[0]
        counts[name] = counts.get(name, 0) + 1
    return ", ".join(f"{name} ({n} layers)" if n > 1 else name for name, n in counts.items())
