"""The examples of spec/profiles.md: what is refused has the code of its section, what is taken is read."""

from __future__ import annotations

import re
import textwrap

import pytest

from interlock.profile import trace
from interlock.text import resources
from interlock.text.source import Sources
from profiles import read, refusal

PAGE = resources.read_text("spec/profiles.md")
SECTIONS = re.findall(r"^## (IL11\d) · (R-PROF-\d) · [^\n]+\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)


def measured(folder, text: str):
    from interlock.profile import measure

    (folder / "example_layers.py").write_text(text)
    return measure.measure_chain(
        str(folder / "example_layers.py") + ":layers",
        measure.Settings("cpu", input="2x16", repeats=1, warmup=0),
    )


@pytest.mark.parametrize("code, rule, body", SECTIONS, ids=[s[0] for s in SECTIONS])
def test_examples(code, rule, body, tmp_path, request):
    if "```py " in body:
        request.getfixturevalue("torch")
    run = {
        "toml": read,
        "json": lambda text: trace.read_trace(Sources().add("t.json", text)),
        "py": lambda text: measured(tmp_path, text),
    }
    (language, refused), (_, taken) = (
        re.search(rf"```(\w+) {verdict}\n(.*?)```", body, re.S).groups() for verdict in ("refused", "taken")
    )
    diagnostic, (found, _, help) = refusal(run[language], refused)
    assert (found, diagnostic.rule) == (code, rule) and help
    assert run[language](taken) and "Source: " in body


def test_every_code_has_its_section():
    assert [s[:2] for s in SECTIONS] == [
        ("IL114", "R-PROF-1"),
        ("IL115", "R-PROF-2"),
        ("IL116", "R-PROF-3"),
        ("IL117", "R-PROF-4"),
    ]


def test_the_file_of_the_page():
    text = textwrap.dedent(re.search(r"TOML:\n\n(.*?)\n\n\|", PAGE, re.S)[1])
    assert [(l.name, l.count) for l in read(text).layers] == [("embed", 1), ("llm", 24)] and read(
        text
    ).unsized() is None
