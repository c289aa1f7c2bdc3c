"""What is asked of a case, in order: this list reads like the contents of spec/."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from interlock.algebra.requirements import Bound
from interlock.check.durations import Durations
from interlock.check.freezings import EveryFreezing, Freezings
from interlock.check.growth import BoundedStash, leave_open
from interlock.check.obligation import Obligation, Record, discharge_all
from interlock.check.owner_maps import EveryOwnerMap, OwnerMaps
from interlock.check.program import program_obligations
from interlock.check.sizes import Sizes, SizesWithin
from interlock.check.subject import Subject, with_bytes
from interlock.check.targets import Context, Target
from interlock.check.verdict import Limits, Outcome, Verdict
from interlock.load import Case


def discharge_case(case: Case) -> Record:
    """All that is asked of a case. Raises Disagreement."""
    return discharge_all(obligations(case))


def obligations(case: Case) -> Iterator[Obligation]:
    """Of a case with `owner: any`, everything for every owner map; else:

    program.md, dependency.md, communication.md, memory.md: the rules under each model, bytes, stashes;
    memory.md: growth with M, sizes in intervals; verdicts.md: whether there is an instance;
    footprint.md: every freezing; cost.md: durations; targets.md: each target.
    """
    if case.schedule is not None and case.schedule.any_owner:
        maps = OwnerMaps(case, discharge_case)
        yield from (EveryOwnerMap(maps, model) for model in case.models)
        yield from (EveryOwnerMap(maps, target, True) for target in case.targets)
        return
    limits = limits_of(case)
    program = with_bytes(case.program, limits, case.trained, case.comm_of)
    subject = Subject(program, case.question.engine, limits)
    sizes = Sizes.of(case.schedule) if case.schedule is not None else None
    yield from program_obligations(subject, case.models, sizes)
    yield Instance(case)
    yield BoundedStash(case, case.models)
    if sizes is not None and case.question.engine != "graph":
        yield SizesWithin(subject, sizes, case.models)
    if case.schedule is not None and case.schedule.freezing:
        freezings = Freezings(case, limits)
        groups = (
            [case.models]
            if freezings.trained.inserted and subject.program.inserted
            else [(m,) for m in case.models]
        )
        yield from (EveryFreezing(freezings, models) for models in groups)
    yield Decidable(case)
    yield from _durations(case, subject)
    yield from (
        Target(case.program, target, context_of(case), _open_for_targets(case)) for target in case.targets
    )


def limits_of(case: Case) -> Limits:
    return Limits(case.requirements.peak, case.requirements.in_flight)


def context_of(case: Case) -> Context:
    return Context(case.question.csv.placement)


def _durations(case: Case, subject: Subject) -> Iterator[Durations]:
    """One for the models that ask the same, where transfers are inserted: one run serves them all."""
    if case.schedule is None:
        return

    def bounds_of(model: str) -> tuple[Bound, ...]:
        return tuple(b for b in case.requirements.costs if not b.models or model in b.models)

    groups: dict[tuple[tuple[Bound, ...], str], list[str]] = {}
    for model in case.models:
        key = (bounds_of(model), "" if case.program.inserted else model)
        groups.setdefault(key, []).append(model)
    for (bounds, _), models in groups.items():
        yield Durations(case, subject, bounds, tuple(models))


def _open_for_targets(case: Case) -> str:
    if case.schedule is not None and case.schedule.freezing:
        return "`for any freezing` is not decided for targets: freeze what is frozen, and check that"
    return ""


@dataclass(frozen=True)
class Instance:
    """R-VER: there is something that could be right or wrong."""

    case: Case
    name: str = "an instance"

    @property
    def models(self) -> tuple[str, ...]:
        return self.case.models

    def discharge(self, earlier: Record) -> Outcome:
        why = self.case.vacuous
        return Outcome(Verdict.VACUOUS, why) if why else Outcome(Verdict.VALID, "")


@dataclass(frozen=True)
class Decidable:
    """R-REQ-1: nothing is required that this version does not decide."""

    case: Case
    name: str = "requirements that this version decides"

    @property
    def models(self) -> tuple[str, ...]:
        return self.case.models

    def discharge(self, earlier: Record) -> Outcome:
        reasons = self.case.requirements.undecided
        if not reasons:
            return Outcome(Verdict.VALID, "")
        findings = tuple(f for reason in reasons for f in leave_open(reason).findings)
        return Outcome(Verdict.UNKNOWN, "; ".join(reasons), findings)
