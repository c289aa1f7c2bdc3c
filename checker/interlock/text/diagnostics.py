"""A diagnostic: a code, places with what to say at each, one sentence of cause and one of help."""

from __future__ import annotations

from dataclasses import dataclass

from interlock.text.source import Span


@dataclass(frozen=True)
class Label:
    span: Span
    text: str = ""


@dataclass(frozen=True)
class Diagnostic:
    """`labels[0]` is the primary place; without labels the diagnostic is about the file as a whole."""

    code: str
    message: str
    labels: tuple[Label, ...] = ()
    help: str = ""
    severity: str = "error"  # error, warning, note
    rule: str = ""
    detail: tuple[str, ...] = ()  # further lines as they stand: a walk of waits, a picture
    known: bool = False  # in the baseline (spec/gate.md)


class InputError(Exception):
    """Input that cannot be checked: exit code 2. Carries every diagnostic found before giving up."""

    def __init__(self, *diagnostics: Diagnostic):
        super().__init__(diagnostics[0].message)
        self.diagnostics = diagnostics


def error(code: str, message: str, span: Span | None = None, label: str = "", help: str = "") -> InputError:
    labels = (Label(span, label),) if span is not None else ()
    return InputError(Diagnostic(code, message, labels, help))
