""".pre-commit-hooks.yaml: pre-commit itself, in a scratch repository, with the hooks installed from this
checkout.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from command import ROOT
from gate import package
from gate.scratch import BAD, GOOD
from gate.test_action import commit, git, repaired

HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="wants git")


def pre_commit(folder: Path, *args: str, home: Path) -> subprocess.CompletedProcess:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "GIT_"))} | {
        "PRE_COMMIT_HOME": str(home),
        "PRE_COMMIT_COLOR": "never",
        "NO_COLOR": "1",
    }
    return subprocess.run(
        [sys.executable, "-m", "pre_commit", *args],
        cwd=folder,
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=env,
        timeout=600,
    )


def test_red_then_green(tmp_path, request):
    """Thorough: with all that Interlock needs installed by pre-commit; else that is taken from the
    environment of the tests.
    """
    folder, home = tmp_path / "repository", tmp_path / "home"
    hooks_from = package.copy(tmp_path / "package", whole=request.config.getoption("--thorough"))
    git(hooks_from, "init", "-q")
    revision = commit(hooks_from, {})
    folder.mkdir()
    git(folder, "init", "-q")
    hooks = "".join(f"      - id: {h['id']}\n" for h in HOOKS)
    commit(
        folder,
        {
            ".pre-commit-config.yaml": f"repos:\n  - repo: {hooks_from}\n    rev: {revision}\n    "
            f"hooks:\n{hooks}",
            "good.sched": GOOD,
            "bad.sched": BAD,
            "interlock.toml": 'exclude = ["broken"]\n',
            "broken/b.sched": BAD,
            "notes.txt": "x",
        },
    )
    done = pre_commit(folder, "run", "--all-files", home=home)
    assert done.returncode == 1, done.stdout + done.stderr
    assert (
        "error[IL307]" in done.stdout
        and "--> bad.sched:5:17" in done.stdout
        and "broken/b.sched" not in done.stdout
        and "2 files: 1 valid, 1 invalid" in done.stdout
    )
    assert re.search(r"(?m)^interlock check\.+Failed$", done.stdout) and re.search(
        r"(?m)^interlock fmt\.+Passed$", done.stdout
    )
    # the repair that the help names, badly laid out
    help = re.search(r"= help: (run .* on rank 0)", done.stdout)[1]
    commit(folder, {"bad.sched": repaired(BAD, help).replace("    rank 1", "  rank 1")})
    done = pre_commit(folder, "run", "--all-files", home=home)
    assert (
        done.returncode == 1
        and "formatted bad.sched" in done.stdout
        and re.search(r"(?m)^interlock check\.+Passed$", done.stdout)
    )
    assert (folder / "bad.sched").read_text(encoding="utf-8") == repaired(BAD, help)
    git(folder, "add", "-A")
    done = pre_commit(folder, "run", "--all-files", home=home)
    assert done.returncode == 0, done.stdout + done.stderr


def test_form():
    assert [h["id"] for h in HOOKS] == ["interlock-check", "interlock-fmt"]
    assert all(
        h["language"] == "python"
        and re.search(h["files"], "a/b.sched")
        and not re.search(h["files"], "a.scheduler")
        for h in HOOKS
    )
