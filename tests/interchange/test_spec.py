"""The examples of spec/interchange.md: what fails, fails with the code of its section; what holds is read."""

import re
from pathlib import Path

import pytest

from interlock.interchange.torch_csv import read
from interlock.language.diagnostics import InputError
from interlock.language.source import Sources

PAGE = (Path(__file__).parents[2] / "spec" / "interchange.md").read_text()
SECTIONS = dict(re.findall(r"^## (IL\d+) · R-CSV-\d · [^\n]+\n(.*?)(?=^#|\Z)", PAGE, re.M | re.S))


@pytest.mark.parametrize("code", ["IL108", "IL109", "IL110", "IL204"])
def test_examples(code):
    [fails] = re.findall(r"```csv fails\n(.*?)```", SECTIONS[code], re.S)
    [holds] = re.findall(r"```csv holds\n(.*?)```", SECTIONS[code], re.S)
    assert "Source: " in SECTIONS[code]
    with pytest.raises(InputError) as caught:
        read(Sources().add("fails.csv", fails))
    assert [d.code for d in caught.value.diagnostics] == [code]
    assert len(read(Sources().add("holds.csv", holds)).order)
