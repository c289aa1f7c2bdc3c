"""Verdicts and answers: what a check hands to the report. Spec: verdicts.md."""

from __future__ import annotations

from dataclasses import dataclass, field
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


@dataclass(frozen=True)
class Answer:
    """The verdict of one program under one communication model, or for one target (`target`: `model` is then its name).

    `program`: as judged (with its transfers written where memory was asked). `reason` says why a verdict is unknown or vacuous.
    `certificates` are documents whose claims the kernel accepted (spec/certificates.md). `replay` is the executor's run of an invalid
    program (witness/), None if it was not run.
    """

    model: str
    verdict: Verdict = Verdict.UNKNOWN
    program: Program | None = None
    findings: tuple[Finding, ...] = ()
    reason: str = "not decided"
    certificates: tuple[dict, ...] = ()
    replay: Any = None
    target: bool = False

    @property
    def errors(self) -> tuple[Finding, ...]:
        """What makes it invalid: errors of the rules, not what a configuration raised to one."""
        return tuple(f for f in self.findings if f.is_error and not f.raised)


@dataclass(frozen=True)
class Expectation:
    """`expect invalid IL402 under pair, rank`. models: of them, and targets; (): every model asked, no target."""

    verdict: Verdict
    code: str | None = None
    models: tuple[str, ...] = ()
    met: bool = False


@dataclass(frozen=True)
class Waived:
    """A warning or note that a comment or the configuration lets pass. `at`, `width`: the place of the waiver in the sources."""

    code: str
    message: str
    reason: str
    at: int = -1
    width: int = 0


@dataclass(frozen=True)
class Checked:
    """One schedule of one file, under each model asked and for each target. `at`, `width`: its place in the sources (-1: the file).

    `waived` are no longer among the findings. `excused`: whether all that fails it is in the baseline, None without one.
    """

    path: str
    name: str
    answers: tuple[Answer, ...]
    expectations: tuple[Expectation, ...] = ()
    warnings: tuple = ()  # Diagnostics of elaboration
    at: int = -1
    width: int = 0
    seconds: float = 0.0
    figures: dict = field(default_factory=dict)
    waived: tuple[Waived, ...] = ()
    excused: bool | None = None

    @property
    def verdict(self) -> Verdict:
        """The worst over the models: invalid, then unknown, then vacuous, then valid."""
        found = {a.verdict for a in self.answers}
        return next(
            (v for v in (Verdict.INVALID, Verdict.UNKNOWN, Verdict.VACUOUS, Verdict.VALID) if v in found),
            Verdict.UNKNOWN,
        )

    @property
    def as_expected(self) -> bool:
        return bool(self.expectations) and all(e.met for e in self.expectations)
