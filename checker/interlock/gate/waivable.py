"""Which codes may be waived, switched off and raised: the warnings and notes, and why no other may."""

from __future__ import annotations

from interlock.text.codes import CODES
from interlock.text.finding import Severity

UNUSED_WAIVER = "IL906"  # of the codes that speak of Interlock itself, the one a project may judge


def is_waivable(code: str) -> bool:
    """Whether it is a warning or a note that a rule gives."""
    known = CODES.get(code)
    if known is None or known.severity is Severity.ERROR:
        return False
    return code == UNUSED_WAIVER or not known.is_about_interlock


def explain_refusal(code: str) -> str:
    """Why a code that is known and not waivable must stay what it is."""
    kind = "neither a warning nor a note" if CODES[code].is_about_interlock else "an error of a rule"
    return f"`{code}` is {kind}: it can be neither waived nor turned down"


def suggest_instead(code: str) -> str:
    if CODES[code].is_about_interlock:
        return "answer what it asks"
    return f"if the schedule is meant to be wrong, write `expect invalid {code}` in it"
