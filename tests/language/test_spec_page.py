"""spec/language.md: each IL1xx section's examples do what the section says."""

from __future__ import annotations

import re

import pytest

from interlock.text import resources
from language.support import diagnostics, read

SECTIONS = re.findall(
    r"^## (IL1\d\d) · (R-SYN-\d) · [^\n]+\n(.*?)(?=^## |\Z)",
    resources.read_text("spec/language.md"),
    re.DOTALL | re.MULTILINE,
)


def block(section: str, sort: str) -> str:
    return re.search(rf"```sched {sort}\n(.*?)```", section, re.DOTALL)[1]


def test_every_code_has_its_section():
    assert [code for code, _, _ in SECTIONS] == [f"IL10{i}" for i in range(1, 8)]


@pytest.mark.parametrize("code, rule, section", SECTIONS, ids=[s[0] for s in SECTIONS])
def test_examples(code, rule, section):
    found, _ = diagnostics(block(section, "fails"))
    assert [(d.code, d.rule) for d in found] == [(code, rule)]
    assert read(block(section, "holds"))
    assert re.search(r"^Source: ", section, re.MULTILINE)
