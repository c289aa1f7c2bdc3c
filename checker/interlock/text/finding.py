"""What a rule says: a code, the operations concerned, and a sentence in the field's words."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class Severity(Enum):
    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True)
class Mark:
    """An operation of the program, by row, with what to say at its place."""

    row: int
    label: str = ""

    def __post_init__(self):
        object.__setattr__(self, "row", int(self.row))  # rows of numpy arrays too


@dataclass(frozen=True)
class Finding:
    """`code` and `rule` as in spec/; `marks[0]` is the primary place (none: the whole program); `help` the change to make.

    `rank`: something is missing (or too much) on that rank, and the marks are only where that shows. `walk` is the closed walk of waits of a cycle, as in spec/certificates.md. `data` holds figures for machines.
    `raised`: an error because the configuration says so, no error of a rule. `known`: in the baseline (spec/gate.md).
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

    @property
    def fault_rows(self) -> list[int]:
        """The rows the rule itself names: what a fault claim carries."""
        return [self.marks[0].row] if self.marks and self.rank is None else []

    @property
    def is_error(self) -> bool:
        return self.severity is Severity.ERROR
