"""action.yml: its own steps, run with bash in a scratch repository: red, at the line, then green after the
repair that the help names.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from command import ROOT
from gate import action, package
from gate.scratch import BAD, GOOD, GROWS

PUBLISHED = re.sub(
    r"(?m)^(#|  expect).*\n",
    "",
    (ROOT / "tests" / "cases" / "published-list-2.sched").read_text(encoding="utf-8"),
)  # IL402

pytestmark = pytest.mark.skipif(
    not shutil.which("bash") or not shutil.which("git"), reason="wants bash and git"
)


def git(folder: Path, *args: str) -> str:
    return subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgsign=false", *args],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()


def commit(folder: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "x")
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q")
    return folder


@pytest.fixture
def go(repository, tmp_path, monkeypatch):
    """Runs the action without installing: with the interpreter of the tests, and the checkout on its path."""
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT / "checker"}" exec "{sys.executable}" "$@"\n')
    wrapper.chmod(0o755)

    def run(event: dict | None = None, **given: str) -> action.Ran:
        given = {name.replace("_", "-"): value for name, value in given.items()}
        return action.run(
            repository,
            tmp_path / "temp",
            sys.executable,
            given=given,
            skip={"install": {"python": str(wrapper)}},
            event=json.dumps(event or {}),
        )

    return run


def repaired(text: str, help: str) -> str:
    """`put A before B on rank r`, or `run A before B on rank r`, carried out."""
    first, second, rank = re.match(r"(?:put|run) (\S+) before (\S+) on rank (\d+)", help).groups()
    line = next(l for l in text.splitlines() if f"rank {rank}:" in l and second in l.split())
    head, _, body = line.partition(": ")
    words = body.split()
    words.remove(first)
    words.insert(words.index(second), first)
    return text.replace(line, f"{head}: {' '.join(words)}")


# ---- from red to green ----------------------------------------------------------------------------------


def test_installed_red_and_green(repository, tmp_path, request):
    """Every step as GitHub runs it, the installation from the action's path included; thorough: with what
    Interlock needs.
    """
    commit(repository, {"good.sched": GOOD, "bad.sched": BAD})
    path = {
        "GITHUB_ACTION_PATH": str(
            package.copy(tmp_path / "action", whole=request.config.getoption("--thorough"))
        )
    }
    ran = action.run(repository, tmp_path / "temp", sys.executable, **path)
    assert ran.steps == ["Install Interlock", "Check", "Summary", "Verdict"] and list(ran.used) == [
        "actions/setup-python@v5"
    ]
    assert ran.code == 1 and "::error title=Interlock (IL307),file=bad.sched,line=5," in ran.out
    commit(repository, {"bad.sched": repaired(BAD, "run 0F1 before 0B0 on rank 0")})
    python = tmp_path / "temp" / "interlock" / "bin" / "python"
    ran = action.run(
        repository, tmp_path / "temp", sys.executable, skip={"install": {"python": str(python)}}, **path
    )
    assert ran.code == 0 and "2 files: 2 valid" in ran.out


@pytest.mark.parametrize("text, code, line, column", [(BAD, "IL307", 5, 17), (PUBLISHED, "IL402", 6, 26)])
def test_red_at_the_line_then_green(go, repository, text, code, line, column):
    commit(repository, {"good.sched": GOOD, "s/bad.sched": text})
    ran = go(upload_sarif="true")
    assert (ran.code, ran.outputs["exit-code"]) == (1, "1")
    # the annotation
    [command] = [l for l in ran.out.splitlines() if l.startswith("::error")]
    assert command.startswith(f"::error title=Interlock ({code}),file=s/bad.sched,line={line},col={column},")
    # code scanning
    sarif = json.loads(Path(ran.outputs["sarif"]).read_text(encoding="utf-8"))
    [result] = sarif["runs"][0]["results"]
    where = result["locations"][0]["physicalLocation"]
    assert (
        result["ruleId"],
        where["artifactLocation"]["uri"],
        where["region"]["startLine"],
        where["region"]["startColumn"],
    ) == (code, "s/bad.sched", line, column)
    assert ran.used["github/codeql-action/upload-sarif@v3"] == {
        "sarif_file": ran.outputs["sarif"],
        "category": "interlock",
    }
    # the summary: a table, and the picture of the fault
    assert ran.summary.startswith("## Interlock failed\n") and re.search(
        rf"(?m)^\| s/bad\.sched \| \w+(\\_\w+)* \| invalid \| {code} \|$", ran.summary
    )
    assert (
        "| good.sched | good | valid |  |" in ran.summary
        and "```text" in ran.summary
        and re.search(r"(?m)^  rank 0  .*┃ \[", ran.summary)
    )
    # the repair that the help names
    help = re.search(r"help: (.*?)(?:%0A|$)", command)[1]
    commit(repository, {"s/bad.sched": repaired(text, help)})
    ran = go(upload_sarif="true")
    assert ran.code == 0 and ran.outputs["exit-code"] == "0" and "::error" not in ran.out
    assert json.loads(Path(ran.outputs["sarif"]).read_text(encoding="utf-8"))["runs"][0]["results"] == []
    assert ran.summary.startswith("## Interlock passed\n") and "```" not in ran.summary


# ---- inputs ---------------------------------------------------------------------------------------------


def test_arguments_and_sources(go, repository):
    commit(repository, {"a b/good.sched": GOOD, "bad.sched": BAD, "known.json": ""})
    assert go(src="'a b'").code == 0
    assert go(src="'a b' bad.sched").code == 1
    ran = go(src="'a b'", args="--comm 'rank,blocking' --format json", summary="false")
    assert ran.code == 0 and "1 file: 1 valid" in ran.out and ran.summary == ""
    assert [
        a["model"]
        for a in json.loads(Path(ran.outputs["report"]).read_text())["files"][0]["schedules"][0]["answers"]
    ] == ["rank", "blocking"]


def test_what_cannot_be_read_and_wrong_usage(go, repository):
    commit(repository, {"torn.sched": "schedule s {"})
    ran = go()
    assert ran.code == 2 and "not readable" in ran.summary
    ran = go(src="nothing")
    assert ran.code == 2 and ran.outputs["sarif"] == "" and "There is no report" in ran.summary
    assert go(args="--comm x").code == 2


def test_inputs_are_no_commands(go, repository, tmp_path):
    commit(repository, {"good.sched": GOOD})
    for text in ("$(touch pwned)", "`touch pwned`", "; touch pwned", '" ; touch pwned ; "'):
        go(src=text)
        go(args=text)
    assert not (repository / "pwned").exists()


def test_names_are_no_markdown(go, repository):
    commit(repository, {"a|b_`<b>`.sched": BAD})
    assert "| a\\|b\\_\\`\\<b\\>\\`.sched | bad | invalid | IL307 |" in go().summary


# ---- changed files only ---------------------------------------------------------------------------------


def test_changed_only(go, repository):
    base = commit(repository, {"old.sched": BAD, "good.sched": GOOD})
    commit(repository, {"good.sched": GROWS})
    pull = {"pull_request": {"base": {"sha": base}}}
    ran = go(pull, changed_only="true")
    assert ran.code == 0 and "1 file: 1 valid" in ran.out
    assert (
        go({"before": base}, changed_only="true").out == ran.out
        and go(changed_only="true", base=base).out == ran.out
    )
    assert go(pull).code == 1
    assert "everything is checked" in go({"before": "0" * 40}, changed_only="true").out
    assert "everything is checked" in go({"before": "1" * 40}, changed_only="true").out
    commit(repository, {"bad.sched": BAD})
    ran = go(pull, changed_only="true")
    assert ran.code == 1 and "2 files: 1 valid, 1 invalid" in ran.out
    assert "1 file: 1 invalid" in go(pull, changed_only="true", src="bad.sched").out
    git(repository, "rm", "-q", "bad.sched")
    commit(repository, {"interlock.toml": 'models = ["rank"]\n'})
    assert "everything is checked" in go(pull, changed_only="true").out


def test_nothing_changed(go, repository):
    base = commit(repository, {"old.sched": BAD})
    commit(repository, {"readme.md": "x"})
    ran = go({"pull_request": {"base": {"sha": base}}}, changed_only="true", upload_sarif="true")
    assert ran.code == 0 and "no schedule changed" in ran.out and "No schedule was checked." in ran.summary
    assert "github/codeql-action/upload-sarif@v3" not in ran.used and ran.outputs["sarif"] == ""


def test_what_uses_a_changed_file_is_checked(go, repository):
    skeleton = (ROOT / "spec" / "std" / "gpipe.sched").read_text().replace("skeleton gpipe", "skeleton mine")
    base = commit(
        repository,
        {
            "lib/mine.sched": skeleton,
            "s/user.sched": 'use "../lib/mine.sched"\n' + GOOD.replace("1f1b", "mine"),
            "other.sched": BAD,
        },
    )
    commit(repository, {"lib/mine.sched": skeleton.replace("skeleton mine", "skeleton other")})
    ran = go({"before": base}, changed_only="true", src="s")
    assert ran.code == 2 and "file=s/user.sched" in ran.out and "other.sched" not in ran.out


def test_what_has_a_changed_profile_is_checked(go, repository):
    profile = 'format = "interlock.profile/1"\n[[layer]]\nname = "llm"\ncount = 4\nforward = 5\n'
    base = commit(
        repository,
        {
            "p.toml": profile,
            "s/user.sched": GOOD.replace("model { layers llm[4] { } }", 'model "../p.toml"'),
            "other.sched": BAD,
        },
    )
    changed = commit(repository, {"p.toml": profile.replace("llm", "vit")})
    ran = go({"before": base}, changed_only="true")
    assert ran.code == 2 and "file=s/user.sched" in ran.out and "1 file: 1 not readable" in ran.out
    commit(repository, {"p.toml": profile})
    assert "1 file: 1 valid" in go({"before": changed}, changed_only="true").out
    git(repository, "rm", "-q", "p.toml")
    commit(repository, {})
    ran = go({"before": changed}, changed_only="true")
    assert ran.code == 2 and "cannot read the profile" in ran.out and "other.sched" not in ran.out


def test_the_excluded_stay_out(go, repository):
    base = commit(repository, {"good.sched": GOOD, "interlock.toml": 'exclude = ["broken"]\n'})
    commit(repository, {"broken/b.sched": BAD})
    ran = go({"before": base}, changed_only="true")
    assert ran.code == 0 and ran.outputs["sarif"] == ""


# ---- its form -------------------------------------------------------------------------------------------


def test_form():
    steps = action.ACTION["runs"]["steps"]
    assert action.ACTION["runs"]["using"] == "composite" and all(
        "description" in i and isinstance(i["default"], str) for i in action.ACTION["inputs"].values()
    )
    assert all(s["shell"] == "bash" for s in steps if "run" in s)
    assert not any("${{" in s["run"] for s in steps if "run" in s), "inputs go through the environment"
    used = set(re.findall(r"inputs\.([\w-]+)", (ROOT / "action.yml").read_text(encoding="utf-8")))
    assert used == set(action.ACTION["inputs"])
