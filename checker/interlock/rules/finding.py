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


@dataclass(frozen=True)
class Finding:
    """`code` and `rule` as in spec/; `marks[0]` is the primary place (none: the whole program); `help` the change to make.

    `walk` is the closed walk of waits of a cycle, as in spec/certificates.md. `data` holds figures for machines.
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

    @property
    def is_error(self) -> bool:
        return self.severity is Severity.ERROR
