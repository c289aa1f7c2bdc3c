"""The registry of codes against the pages of spec/ and against what the package gives.

That each section has an example and its repair, or says why it has none, is asked by tests/test_spec.py.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import interlock
from interlock.report import explain
from interlock.text.codes import CODES, FAMILIES, Code

PACKAGE = Path(interlock.__file__).parent
SECTIONS = {s.code: s for s in explain.sections()}
CODE = re.compile(r"IL\d{3}")
RULE = re.compile(r"R(-[A-Z]+)+(-\d)?")


def constants(node: ast.AST) -> Iterator[str]:
    return (n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str))


def sources() -> Iterator[ast.AST]:
    for path in PACKAGE.rglob("*.py"):
        if path.name != "codes.py":
            yield ast.parse(path.read_text(encoding="utf-8"))


def rules_given() -> Iterator[tuple[str, str]]:
    """Every code directly before its rule: `Finding("IL301", "R-DEP-1", ..)`, `("IL703", "R-REQ-4")`."""
    for tree in sources():
        for node in ast.walk(tree):
            row = (
                node.args if isinstance(node, ast.Call) else node.elts if isinstance(node, ast.Tuple) else []
            )
            for code, rule in zip(row, row[1:]):
                if isinstance(code, ast.Constant) and CODE.fullmatch(str(code.value)):
                    yield from ((code.value, text) for text in constants(rule) if RULE.fullmatch(text))


def stands_for(code: Code, rule: str) -> bool:
    first, _, last = code.rule.partition(" to ")
    return rule in code.also or first <= rule <= (last or first)


def test_codes_are_those_of_the_pages_with_their_rules_and_titles():
    documented = {code: (s.rule, explain.strip_markdown(s.title)) for code, s in SECTIONS.items()}
    assert {code: (c.rule, c.heading) for code, c in CODES.items()} == documented


def test_codes_stand_in_order_and_have_a_family():
    assert list(CODES) == sorted(CODES) and all(CODES[code].code == code for code in CODES)
    assert {c.family for c in CODES.values()} == set(FAMILIES)


def test_codes_are_those_the_package_gives():
    given = {text for tree in sources() for text in constants(tree) if CODE.fullmatch(text)}
    shown = {
        code for tree in sources() for text in constants(tree) for code in re.findall(r"\[(IL\d{3})\]", text)
    }
    assert given | shown == set(CODES)


def test_the_package_gives_a_code_with_its_own_rule():
    found = list(rules_given())
    assert len({code for code, _ in found}) > 60
    assert [(code, rule) for code, rule in found if not stands_for(CODES[code], rule)] == []
