"""The examples of spec/algebra.md: what fails gives the code of its section, what holds gives nothing."""

from __future__ import annotations

import re

import pytest

from interlock.algebra.elaborate import elaborate
from interlock.language.parse import parse
from interlock.text import resources
from interlock.text.finding import InputError
from interlock.text.source import Sources

PAGE = resources.read_text("spec/algebra.md")  # a note is given by the check, and run by tests/test_spec.py
SECTIONS = re.findall(
    r"^## (IL2\d\d) · (R-[A-Z]+-\d) · (?![^\n]*\(note\))[^\n]+\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S
)


def said(text: str, name: str) -> list[str]:
    """Codes of the errors, else of the warnings."""
    sources = Sources()
    try:
        found = elaborate(parse(sources.add(name, text)), sources)
    except InputError as e:
        return [d.code for d in e.findings]
    return [w.code for s in found for w in s.warnings]


@pytest.mark.parametrize("code, rule, section", SECTIONS, ids=[s[0] for s in SECTIONS])
def test_examples(code, rule, section):
    [fails] = re.findall(r"```sched (?:fails|warns)\n(.*?)```", section, re.S)
    [holds] = re.findall(r"```sched holds\n(.*?)```", section, re.S)
    assert "\nSource: " in section
    assert set(said(fails, "fails.sched")) == {code}
    assert said(holds, "holds.sched") == []


def test_every_code_has_a_section():
    assert [s[0] for s in SECTIONS] == [f"IL2{n:02}" for n in range(1, 14) if n != 4]
