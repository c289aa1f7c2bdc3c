"""The examples of spec/interchange.md: what fails, fails with the code of its section; what holds is read."""

import re
from pathlib import Path

import pytest

from interlock.interchange import deepspeed, hyperparallel, megatron, megatron_flags, octopipe
from interlock.interchange.torch_csv import read
from interlock.text.finding import InputError
from interlock.text.source import Sources

PAGE = (Path(__file__).parents[2] / "spec" / "interchange.md").read_text()
SECTIONS = dict(re.findall(r"^## (IL\d+) · R-[A-Z]+-\d · [^\n]+\n(.*?)(?=^##? |\Z)", PAGE, re.M | re.S))
READ = {
    "layout": megatron.read_layout,
    "flags": megatron_flags.read_flags,
    "hyperparallel": hyperparallel.read,
    "deepspeed": deepspeed.read,
    "octopipe": octopipe.read,
}
EXAMPLES = [
    (code, form, verdict, text)
    for code, body in SECTIONS.items()
    for form, verdict, text in re.findall(r"```(\w+) (refused|taken)\n(.*?)```", body, re.S)
]


@pytest.mark.parametrize("code", ["IL108", "IL109", "IL110", "IL204"])
def test_csv_examples(code):
    [fails] = re.findall(r"```csv fails\n(.*?)```", SECTIONS[code], re.S)
    [holds] = re.findall(r"```csv holds\n(.*?)```", SECTIONS[code], re.S)
    assert "Source: " in SECTIONS[code]
    with pytest.raises(InputError) as caught:
        read(Sources().add("fails.csv", fails))
    assert [d.code for d in caught.value.findings] == [code]
    assert len(read(Sources().add("holds.csv", holds)).order)


@pytest.mark.parametrize(("code", "form", "verdict", "text"), EXAMPLES)
def test_examples_of_other_formats(code, form, verdict, text):
    assert "Source: " in SECTIONS[code]
    source = Sources().add("example", text)
    if verdict == "taken":
        assert READ[form](source)
        return
    with pytest.raises(InputError) as caught:
        READ[form](source)
    assert [d.code for d in caught.value.findings] == [code]
    assert all(d.marks and d.help for d in caught.value.findings)


def test_every_section_has_both_sorts():
    assert len(EXAMPLES) == 14
    assert {(code, verdict) for code, _, verdict, _ in EXAMPLES} == {
        (c, v) for c in ("IL111", "IL112", "IL113", "IL214", "IL215") for v in ("refused", "taken")
    }
