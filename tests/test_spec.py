"""The pages of spec/: a section for every code, its examples run, `interlock explain`."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.check.certificates import certificates
from interlock.check.files import FileResult
from interlock.check.verdict import Verdict
from interlock.cli import make_parser
from interlock.cli.options import csv_options
from interlock.gate.waivers import check_file
from interlock.kernel import verify
from interlock.language.format import format
from interlock.load import Question
from interlock.report import explain
from interlock.rules.waits import MODELS
from interlock.text import resources
from interlock.text.codes import FAMILIES
from interlock.text.finding import Severity

CHECKER = Path(__file__).parents[1] / "checker"
SECTIONS = explain.sections()
WITHOUT_EXAMPLES = {
    "IL111",
    "IL112",
    "IL113",
    "IL214",
    "IL215",  # given by `interlock import` only: tests/interchange/test_spec.py runs their examples
    "IL114",
    "IL115",
    "IL116",
    "IL117",  # of a profile, in a file of its own: tests/profile/test_spec.py
    "IL841",
    "IL842",
    "IL843",
    "IL844",
    "IL845",
    "IL846",
    "IL847",
    "IL848",
    "IL849",  # lowering and the runtime: tests/lower/test_spec.py, tests/runtime
    "IL901",  # an `unknown` verdict, which comes with a reason and no finding
    "IL902",  # an internal error: judges that disagree
    "IL903",  # an `unknown` verdict, like IL901
    "IL904",  # a `vacuous` verdict, likewise
    "IL905",  # an expectation that is not met: tests/report/test_formats.py
    "IL908",  # a configuration: tests/gate/test_config.py runs its examples
}
COMMAND = re.compile(r"(?:# interlock check (.*)\n)?")
MILD = {"(warning)": Severity.WARNING, "(note)": Severity.NOTE}

with_examples = pytest.mark.parametrize(
    "section", [s for s in SECTIONS if s.code not in WITHOUT_EXAMPLES], ids=lambda s: s.code
)


def severity(section: explain.Section) -> Severity:
    return MILD.get(section.title.split()[-1], Severity.ERROR)


def check(block: explain.Block, folder: Path) -> FileResult:
    """A block as a file, under all five models, with the options of a first line `# interlock check ..`,
    which is no part of the file.
    """
    path = folder / f"{block.shows}.{block.language}"
    command, text = COMMAND.match(block.text)[1], COMMAND.sub("", block.text)
    path.write_text(text, encoding="utf-8")
    args = make_parser("check").parse_args(["check", *(command or "").split(), str(path)])
    targets = tuple(t for names in args.target for t in names)
    return check_file(
        str(path),
        path.read_bytes(),
        Question(models=tuple(MODELS), csv=csv_options(args), targets=targets),
    )


JUDGED_BY_RULES_ALONE = {"IL502", "IL703", "IL704", "IL705"}  # no claim of the kernel covers them


def found(result: FileResult) -> list[tuple[str, Severity]]:
    """(code, severity) of everything said about a file."""
    said = [(d.code, Severity.ERROR) for d in result.errors]
    for checked in result.checked:
        said += [(w.code, Severity.WARNING) for w in checked.warnings]
        said += [(f.code, f.severity) for a in checked.answers for f in a.findings]
    return said


def sound(result: FileResult, code: str) -> None:
    """Every expectation is met; every verdict has certificates, which the kernel accepts."""
    for checked in result.checked:
        assert all(e.met for e in checked.expectations), [e for e in checked.expectations if not e.met]
        for answer in checked.answers:
            assert answer.verdict in (Verdict.VALID, Verdict.INVALID), answer.reason
            by_rules_alone = answer.target or {f.code for f in answer.errors} & JUDGED_BY_RULES_ALONE
            assert bool(certificates(answer)) != bool(by_rules_alone)
            for document in certificates(answer, checked.limits, checked.source):
                judgements = verify(document)
                assert judgements and all(j.accepted for j in judgements), [j.reason for j in judgements]


def test_a_code_has_one_section():
    codes = [s.code for s in SECTIONS]
    assert sorted(set(codes)) == codes
    headings = [
        line
        for page in (resources.find_folder() / "spec").glob("*.md")
        for line in page.read_text(encoding="utf-8").splitlines()
        if re.match(r"#+ .*IL\d{3} ·", line)
    ]
    assert len(headings) == len(codes), "a heading that is not of the form `## IL402 · R-COM-3 · no deadlock`"


@pytest.mark.parametrize("section", SECTIONS, ids=lambda s: s.code)
def test_form_of_a_section(section):
    assert re.fullmatch(r"R-[A-Z]+(-[A-Z]+)?(-\d)?( to R-[A-Z]+-\d)?", section.rule)
    assert isinstance(section.parts[0], str), "prose first"
    if section.code in WITHOUT_EXAMPLES:
        assert not section.examples
        return
    assert [b.shows for b in section.examples] == [
        "fails" if severity(section) is Severity.ERROR else "warns",
        "holds",
    ]
    assert section.parts[-3:-1] == section.examples
    assert section.parts[-1].startswith("Source: ")


@with_examples
def test_what_fails(section, tmp_path):
    block = section.examples[0]
    result = check(block, tmp_path)
    assert (section.code, severity(section)) in found(result)
    rules = {f.rule for c in result.checked for a in c.answers for f in a.findings if f.code == section.code}
    assert all(rule in section.rule or " to " in section.rule for rule in rules)
    sound(result, section.code)
    if block.shows == "warns":
        assert not result.errors and all(c.verdict is Verdict.VALID for c in result.checked)
    elif result.checked and block.language == "sched":
        assert any(e.code == section.code for c in result.checked for e in c.expectations), (
            "say what is expected"
        )


@with_examples
def test_what_holds(section, tmp_path):
    result = check(section.examples[1], tmp_path)
    assert not result.errors and result.checked
    assert all(a.verdict is Verdict.VALID for c in result.checked for a in c.answers)
    assert section.code not in {code for code, _ in found(result)}
    sound(result, section.code)


@with_examples
def test_examples_are_formatted(section):
    for block in section.examples:
        if block.language == "sched" and (block.shows != "fails" or section.code > "IL2"):
            assert format(block.text) == block.text


def codes_given() -> set[str]:
    """The codes that the package gives: strings that are a code, or that show one as `error[IL902]`."""
    given: set[str] = set()
    for path in (CHECKER / "interlock").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                given |= set(
                    re.findall(r"\A(IL\d{3})\Z", node.value) + re.findall(r"\[(IL\d{3})\]", node.value)
                )
    return given


def test_every_code_given_has_a_section_and_every_section_is_given():
    given, codes = codes_given(), {s.code for s in SECTIONS}
    assert given - codes == set(), "no section in spec/"
    assert codes == given, "nothing gives this code"


@pytest.mark.parametrize("section", SECTIONS, ids=lambda s: s.code)
def test_explain(section):
    text = explain.section(section.code.lower())
    assert text.startswith(f"{section.code}: ")
    assert section.rule in text.splitlines()[2]
    assert not re.search(r"^(#|```)", text, re.M)
    for block in section.examples:
        assert all(f"  {line}" in text.splitlines() for line in block.text.splitlines() if line)
    if section.examples:
        assert "\nSource: " in text and "\nHolds" in text
    assert f"  {section.code}  " in explain.listing()


def test_explain_wants_a_code():
    for wrong in ("IL000", "402", "", "IL40", "R-COM-3"):
        assert explain.section(wrong) is None


def test_families_have_names():
    assert {s.code[2] for s in SECTIONS} <= set(FAMILIES)


def test_the_command(tmp_path):
    run = subprocess.run(
        [sys.executable, "-m", "interlock.cli", "explain", "il402"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=os.environ | {"PYTHONPATH": str(CHECKER)},
        timeout=60,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, explain.section("IL402") + "\n", "")
