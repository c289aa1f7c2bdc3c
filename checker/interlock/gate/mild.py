"""Which codes are warnings and notes: what may be waived, switched off and raised. As the headings of spec/ say."""

from __future__ import annotations

from functools import cache

from interlock.report import explain

WAIVER = "IL906"  # a waiver that waives nothing: of the codes that answer for Interlock itself, the one a project may judge
_MILD = ("(warning)", "(note)")


@cache
def codes() -> dict[str, bool]:
    """Every code, and whether it is a warning or a note that a rule gives. Raises FileNotFoundError where the pages are not installed."""
    return {
        s.code: s.title.endswith(_MILD) and (s.code[:3] != "IL9" or s.code == WAIVER)
        for s in explain.sections()
    }


def is_mild(code: str) -> bool:
    return codes().get(code, False)


def why_not(code: str) -> str:
    """Why a code that is known and not mild must stay what it is."""
    return f"`{code}` is {'an error of a rule' if code[:3] != 'IL9' else 'neither a warning nor a note'}: it can be neither waived nor turned down"


def instead(code: str) -> str:
    return (
        f"if the schedule is meant to be wrong, write `expect invalid {code}` in it"
        if code[:3] != "IL9"
        else "answer what it asks"
    )
