"""The README: its first schedule is checked as printed, and what it names exists."""

from __future__ import annotations

import re

import pytest

from command import ROOT, interlock
from interlock.cli import COMMANDS

PAGES = ("README.md", "CONTRIBUTING.md", "docs/measured.md", "spec/README.md")
README = (ROOT / "README.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    [text] = re.findall(rf"^```{language}\n(.*?)^```$", README, re.M | re.S)
    return text


def test_the_first_schedule_is_answered_as_printed(tmp_path):
    (tmp_path / "first.sched").write_text(block("sched"), encoding="utf-8")
    command, *printed = block("console").splitlines()
    done = interlock(*command.removeprefix("$ interlock ").split(), cwd=tmp_path)
    shown = [line for line in printed if line not in ("", "...")]
    assert (done.code, done.err) == (0, "")
    assert [line for line in done.out.splitlines() if line in shown] == shown


def test_the_first_schedule_is_formatted(tmp_path):
    (tmp_path / "first.sched").write_text(block("sched"), encoding="utf-8")
    assert interlock("fmt", "--check", "first.sched", cwd=tmp_path).code == 0


def test_breaking_it_as_the_page_says(tmp_path):
    text = block("sched")
    broken = re.search(r"With `(require \{ peak <= \w+ \})`", README)[1]
    (tmp_path / "first.sched").write_text(re.sub(r"require \{.*\}", broken, text), encoding="utf-8")
    done = interlock("check", "first.sched", cwd=tmp_path)
    assert done.code == 1 and "error[IL701]: rank 0 needs" in done.out and "= help: " in done.out


def test_every_word_of_the_first_schedule_is_explained():
    explained = README.split("word by word:")[1].split("## ")[0]
    words = set(re.findall(r"[a-z_]\w*", re.sub(r"\d+\w+", "", block("sched"))))
    unexplained = {"schedule", "first", "layers", "layer", "per", "byte", "optimizer"}  # plain English
    assert {w for w in words - unexplained if w not in explained} == set()


@pytest.mark.parametrize("page", PAGES)
def test_what_is_linked_exists(page):
    folder = (ROOT / page).parent
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", (ROOT / page).read_text(encoding="utf-8")):
        assert "://" in target or (folder / target).exists(), target


def test_every_command_is_listed_and_every_listed_command_exists():
    listed = set(re.findall(r"^\| `interlock (\w+)", README, re.M))
    assert listed == set(COMMANDS)


def test_every_example_is_listed_and_says_what_it_expects():
    examples = {p.name for p in (ROOT / "examples").iterdir() if p.suffix in (".sched", ".csv")}
    assert set(re.findall(r"\(examples/(\w+\.(?:sched|csv))\)", README)) == examples
    for name in examples:
        if name.endswith(".sched"):
            text = (ROOT / "examples" / name).read_text(encoding="utf-8")
            schedules = re.split(r"^schedule ", text, flags=re.M)[1:]
            assert all(re.search(r"^  expect ", schedule, re.M) for schedule in schedules), name
