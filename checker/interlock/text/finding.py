"""What is wrong with a text or a program: a code, the places concerned, a sentence in the field's words,
and a repair.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from interlock.text.source import Span


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True)
class Mark:
    """A place, with what to say at it: a row of the program (rules), or a span of the sources (input,
    reports).
    """

    place: int | Span
    label: str = ""

    def __post_init__(self):
        if not isinstance(self.place, Span):
            object.__setattr__(self, "place", int(self.place))  # rows of numpy arrays too

    @property
    def row(self) -> int:
        """Raises TypeError for a place in the sources."""
        if isinstance(self.place, Span):
            raise TypeError(f"{self.place} is no row of a program")
        return self.place

    @property
    def span(self) -> Span:
        """Raises TypeError for a row: `report.places.locate` finds its span through the program."""
        if not isinstance(self.place, Span):
            raise TypeError(f"row {self.place} is no span of the sources")
        return self.place


@dataclass(frozen=True)
class Finding:
    """`code` and `rule` as in spec/; `marks[0]` is the primary place (none: the whole program or file);
    `help` the change to make.

    `rank`: something is missing (or too much) on that rank, and the marks are only where that shows.
    `walk`: the closed walk of waits of a cycle, as in spec/certificates.md. `data`: figures for machines.
    `raised`: an error because the configuration says so, no error of a rule. `known`: in the baseline
    (spec/gate.md). `detail`: further lines as they stand.
    """

    code: str
    rule: str
    message: str
    marks: tuple[Mark, ...] = ()
    help: str = ""
    severity: Severity = Severity.ERROR
    rank: int | None = None
    walk: tuple = ()
    data: dict = field(default_factory=dict)
    raised: bool = False
    known: bool = False
    detail: tuple[str, ...] = ()

    @staticmethod
    def of_input(
        code: str,
        message: str,
        marks: tuple[Mark, ...] = (),
        help: str = "",
        severity: Severity = Severity.ERROR,
        rule: str = "",
        detail: tuple[str, ...] = (),
    ) -> Finding:
        """A finding about a text, whose code alone says which rule it breaks."""
        return Finding(code, rule, message, marks, help, severity, detail=detail)

    @property
    def fault_rows(self) -> list[int]:
        """The rows the rule itself names: what a fault claim carries."""
        return [self.marks[0].row] if self.marks and self.rank is None else []

    @property
    def is_error(self) -> bool:
        return self.severity is Severity.ERROR


class InputError(Exception):
    """Input that cannot be checked: exit code 2. Carries every finding made before giving up."""

    def __init__(self, *findings: Finding):
        super().__init__(findings[0].message)
        self.findings = findings


def error(code: str, message: str, span: Span | None = None, label: str = "", help: str = "") -> InputError:
    marks = (Mark(span, label),) if span is not None else ()
    return InputError(Finding.of_input(code, message, marks, help))
