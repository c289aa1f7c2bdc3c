"""GitHub's runner, as far as action.yml needs it: expressions, conditions, outputs, and the `run` steps under
bash.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from command import ROOT

ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
_EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")


@dataclass
class Ran:
    """`steps`: the names of those that ran; `used`: the actions used, with their inputs; `outputs`,
    `summary`: what the whole action gives.
    """

    code: int = 0
    out: str = ""
    steps: list[str] = field(default_factory=list)
    used: dict[str, dict] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    summary: str = ""


def run(
    repository: Path,
    temp: Path,
    python: str,
    *,
    given: dict[str, str] | None = None,
    skip: dict[str, dict[str, str]] | None = None,
    event: str = "{}",
    **env: str,
) -> Ran:
    """Runs the action in a repository. `python`: what setup-python would give; `skip`: outputs of steps that
    are not run again, by id; `env`: further variables of the runner.
    """
    inputs = {name: i.get("default", "") for name, i in ACTION["inputs"].items()} | (given or {})
    outputs: dict[str, dict[str, str]] = {"python": {"python-path": python}} | (skip or {})
    temp.mkdir(parents=True, exist_ok=True)
    (temp / "event.json").write_text(event)
    (temp / "summary.md").write_text("")
    ran = Ran()

    def value(expression: str) -> str:
        match expression.split("."):
            case ["inputs", name]:
                return inputs[name]
            case ["steps", step, "outputs", name]:
                return outputs.get(step, {}).get(name, "")
        raise AssertionError(f"the tests know no {expression}")

    def filled(text: str) -> str:
        return _EXPRESSION.sub(lambda m: value(m[1]), text)

    def holds(condition: str) -> bool:
        parts = _EXPRESSION.fullmatch(condition)[1].split(" && ")
        found = [re.fullmatch(r"(\S+) (==|!=) '([^']*)'", p).groups() for p in parts]
        return all((value(name) == wanted) is (sign == "==") for name, sign, wanted in found)

    for step in ACTION["runs"]["steps"]:
        if step.get("id") in (skip or {}) or "if" in step and not holds(step["if"]):
            continue
        if "uses" in step:
            ran.used[step["uses"]] = {k: filled(str(v)) for k, v in step["with"].items()}
            continue
        assert step["shell"] == "bash"
        (temp / "output").write_text("")
        around = (
            {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "GITHUB_", "INTERLOCK_"))}
            | {
                "GITHUB_ACTION_PATH": str(ROOT),
                "GITHUB_OUTPUT": str(temp / "output"),
                "GITHUB_STEP_SUMMARY": str(temp / "summary.md"),
                "GITHUB_EVENT_PATH": str(temp / "event.json"),
                "GITHUB_WORKSPACE": str(repository),
                "RUNNER_TEMP": str(temp),
            }
            | env
        )
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=repository,
            capture_output=True,
            text=True,
            encoding="utf-8",
            env=around | {k: filled(v) for k, v in step.get("env", {}).items()},
            timeout=300,
        )
        ran.steps.append(step["name"])
        ran.out += done.stdout
        outputs[step.get("id", step["name"])] = dict(
            line.split("=", 1) for line in (temp / "output").read_text().splitlines()
        )
        if done.returncode:
            ran.code = done.returncode
            assert step["name"] == "Verdict", f"{step['name']}: {done.stdout}{done.stderr}"
            break
    ran.outputs = {name: filled(o["value"]) for name, o in ACTION["outputs"].items()}
    ran.summary = (temp / "summary.md").read_text(encoding="utf-8")
    return ran
