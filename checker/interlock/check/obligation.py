"""Obligations: what is asked of a case. Each is discharged once, in order; the outcomes are folded into
answers (spec/verdicts.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from interlock.check.verdict import Answer, Discharged, Outcome, Verdict, fold


class Disagreement(Exception):
    """Two judges disagree (IL902): an internal error, never a verdict."""


class Obligation(Protocol):
    """`name` says what is asked, `models` which answers it is a part of."""

    @property
    def name(self) -> str: ...

    @property
    def models(self) -> Sequence[str]: ...

    def discharge(self, earlier: Record) -> Outcome:
        """What it comes to; `earlier`: what was asked before it. Raises Disagreement."""
        ...


@dataclass
class Record:
    """The obligations of a case that were discharged so far, by the models they speak of."""

    entries: list[tuple[tuple[str, ...], Discharged]] = field(default_factory=list)

    def add(self, obligation: Obligation, outcome: Outcome) -> None:
        self.entries.append((tuple(obligation.models), Discharged(obligation.name, outcome)))

    def of(self, model: str) -> list[Discharged]:
        return [entry for models, entry in self.entries if model in models]

    def verdict(self, model: str) -> Verdict:
        return self.answer(model).verdict

    def answer(self, model: str, *, target: bool = False) -> Answer:
        """What the outcomes so far come to."""
        return fold(model, self.of(model), target=target)

    def figures(self) -> dict[str, str | list[str]]:
        """Those of the first outcome that has any."""
        return next((d.outcome.figures for _, d in self.entries if d.outcome.figures), {})


def moot(earlier: Record, model: str) -> Outcome | None:
    """The outcome of what is asked of valid programs only, where something before it is not valid; None: it
    is asked.
    """
    verdict = earlier.verdict(model)
    return (
        None if verdict is Verdict.VALID else Outcome(reason=f"not asked: it is {verdict.value}", moot=True)
    )


def discharge_all(obligations: Iterable[Obligation]) -> Record:
    """Raises Disagreement. What takes more memory than there is stays unknown."""
    record = Record()
    for obligation in obligations:
        try:
            outcome = obligation.discharge(record)
        except MemoryError:
            outcome = Outcome(
                reason=f"{obligation.name}: deciding it takes more memory than there is; "
                "a smaller member of its family may be decided"
            )
        record.add(obligation, outcome)
    return record
