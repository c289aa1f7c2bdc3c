"""Verdicts: what one obligation comes to, and how outcomes are folded into an answer. Spec: verdicts.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from interlock.program.ir import Program
from interlock.text.finding import Finding


class Verdict(Enum):
    """The default of everything that judges is UNKNOWN; anything else has to be set."""

    VALID = "valid"
    INVALID = "invalid"
    UNKNOWN = "unknown"
    VACUOUS = "vacuous"


WORST_FIRST = (Verdict.INVALID, Verdict.UNKNOWN, Verdict.VACUOUS, Verdict.VALID)


@dataclass(frozen=True)
class Limits:
    """What `require` asks beyond the rules. Bytes, and stashes, for each rank; None: not asked."""

    peak: tuple[int | None, ...] | None = None
    in_flight: tuple[int | None, ...] | None = None

    def statement(self) -> dict[str, list[int | None] | None]:
        """As a certificate carries them (spec/certificates.md)."""
        return {
            "peak": None if self.peak is None else list(self.peak),
            "in_flight": None if self.in_flight is None else list(self.in_flight),
        }


@dataclass(frozen=True)
class Claim:
    """A statement that the kernel accepted about a program in its plain form (spec/certificates.md)."""

    program: dict[str, Any]
    statement: dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """What one obligation came to. The default is `unknown`, "not decided".

    program   whose rows the findings mark; None: they mark none
    claims    what the kernel accepted for it; (): judged by the rules alone
    replay    the executor's run of a counterexample
    figures   of the schedule, by name, for the report
    moot      another obligation of the same answer fails, and this one was not asked for that reason
    """

    verdict: Verdict = Verdict.UNKNOWN
    reason: str = "not decided"
    findings: tuple[Finding, ...] = ()
    program: Program | None = None
    claims: tuple[Claim, ...] = ()
    replay: Any = None
    figures: dict[str, str | list[str]] = field(default_factory=dict)
    moot: bool = False

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.is_error)


@dataclass(frozen=True)
class Discharged:
    """An obligation by name, and what it came to."""

    obligation: str
    outcome: Outcome


@dataclass(frozen=True)
class Answer:
    """The verdict of one program under one communication model, or for one target (`target`: `model` is then
    its name).

    program      as judged (with its transfers written where memory was asked)
    reason       why a verdict is unknown or vacuous
    claims       that the kernel accepted and that the verdict rests on: none of an unknown or a vacuous one
    replay       the executor's run of an invalid program (witness/), None if it was not run
    obligations  all that was asked, in order, with its outcomes
    """

    model: str
    verdict: Verdict = Verdict.UNKNOWN
    program: Program | None = None
    findings: tuple[Finding, ...] = ()
    reason: str = "not decided"
    claims: tuple[Claim, ...] = ()
    replay: Any = None
    target: bool = False
    obligations: tuple[Discharged, ...] = ()

    @property
    def errors(self) -> tuple[Finding, ...]:
        """What makes it invalid: errors of the rules, not what a configuration raised to one."""
        return tuple(f for f in self.findings if f.is_error and not f.raised)


def fold(model: str, discharged: Sequence[Discharged], *, target: bool = False) -> Answer:
    """The answer that outcomes come to: invalid before unknown before vacuous before valid.

    Nothing asked, or something asked and left open, is unknown. Built once: nobody changes the verdict of an
    answer.
    """
    outcomes = [d.outcome for d in discharged if not d.outcome.moot]
    if not outcomes:
        return Answer(model, target=target, obligations=tuple(discharged))
    verdict = next(v for v in WORST_FIRST if any(o.verdict is v for o in outcomes))
    if verdict is Verdict.VALID and len(outcomes) < len(discharged):
        return Answer(model, target=target, obligations=tuple(discharged))
    deciding = [o for o in outcomes if o.verdict is verdict]
    program = next((o.program for o in (*deciding, *outcomes) if o.program is not None), None)
    findings = [
        f for o in _heard(verdict, outcomes) for f in o.findings if o.program is program or not f.marks
    ]
    reasons = dict.fromkeys(o.reason for o in deciding if o.reason)
    return Answer(
        model,
        verdict,
        program,
        tuple(findings),
        "; ".join(reasons) if verdict in (Verdict.UNKNOWN, Verdict.VACUOUS) else "",
        tuple(c for o in deciding for c in o.claims) if verdict in (Verdict.VALID, Verdict.INVALID) else (),
        next((o.replay for o in deciding if o.replay is not None), None),
        target,
        tuple(discharged),
    )


def _heard(verdict: Verdict, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Those whose findings the answer tells: why something is open is no matter where something is wrong."""
    return [o for o in outcomes if o.verdict is not Verdict.UNKNOWN or verdict is Verdict.UNKNOWN]


def outcome_of(answer: Answer) -> Outcome:
    """An answer about one member of a family, as an outcome of the obligation over all of them."""
    return Outcome(
        answer.verdict, answer.reason, answer.findings, answer.program, answer.claims, answer.replay
    )


@dataclass(frozen=True)
class Expectation:
    """`expect invalid IL402 under pair, rank`. models: of them, and targets; (): every model asked, no
    target.
    """

    verdict: Verdict
    code: str | None = None
    models: tuple[str, ...] = ()
    met: bool = False


@dataclass(frozen=True)
class Waived:
    """A warning or note that a comment or the configuration lets pass. `at`, `width`: the place of the waiver
    in the sources.
    """

    code: str
    message: str
    reason: str
    at: int = -1
    width: int = 0


@dataclass(frozen=True)
class CaseResult:
    """One schedule of one file, under each model asked and for each target. `at`, `width`: its place in the
    sources (-1: the file).

    `waived` are no longer among the findings. `excused`: whether all that fails it is in the baseline, None
    without one.
    """

    path: str
    name: str
    answers: tuple[Answer, ...]
    expectations: tuple[Expectation, ...] = ()
    warnings: tuple[Finding, ...] = ()  # of elaboration
    at: int = -1
    width: int = 0
    seconds: float = 0.0
    figures: dict[str, str | list[str]] = field(default_factory=dict)
    waived: tuple[Waived, ...] = ()
    excused: bool | None = None
    source: dict[str, str] = field(default_factory=dict)  # name and SHA-256 of the file, for certificates
    limits: Limits = Limits()

    @property
    def verdict(self) -> Verdict:
        """The worst over the models: invalid, then unknown, then vacuous, then valid."""
        found = {a.verdict for a in self.answers}
        return next((v for v in WORST_FIRST if v in found), Verdict.UNKNOWN)

    @property
    def as_expected(self) -> bool:
        return bool(self.expectations) and all(e.met for e in self.expectations)

    def without_claims(self) -> CaseResult:
        """The same, with the kinds of its claims only: only certificates need them whole."""
        return replace(self, answers=tuple(_lighten(a) for a in self.answers))


def _lighten(answer: Answer) -> Answer:
    claims = tuple(Claim({}, {"claim": c.statement["claim"]}) for c in answer.claims)
    return replace(answer, claims=claims, obligations=())
