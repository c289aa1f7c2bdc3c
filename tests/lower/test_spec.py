"""The examples of spec/lowering.md: what is refused is refused with the code of its section, what is taken is
written.
"""

import re
from pathlib import Path

import pytest

from command import interlock
from interlock.language.format import format

PAGE = (Path(__file__).parents[2] / "spec" / "lowering.md").read_text()
SECTIONS = dict(re.findall(r"^## (IL\d+) · R-[A-Z]+-\d · [^\n]+\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S))
EXAMPLES = [
    (code, verdict, command, text)
    for code, body in SECTIONS.items()
    for verdict, command, text in re.findall(r"```sched (\w+)\n# interlock lower (.*?)\n(.*?)```", body, re.S)
]


def test_there_are_examples():
    assert len(EXAMPLES) == 6 and {verdict for _, verdict, *_ in EXAMPLES} == {"refused", "taken"}


@pytest.mark.parametrize("code, verdict, command, text", EXAMPLES)
def test_example(code, verdict, command, text, tmp_path):
    assert format(text) == text
    path, out = tmp_path / "s.sched", tmp_path / "out"
    path.write_text(text)
    done = interlock("lower", path, *command.split(), "-o", out)
    assert (done.code, out.exists()) == ((0, True) if verdict == "taken" else (1, False)), done.text
    assert (f"error[{code}]" in done.err) == (verdict == "refused") and not done.out
