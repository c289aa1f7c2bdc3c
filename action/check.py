"""The action's check: which files, one run of `interlock check`, and where its reports lie. Ends with 0: a
later step gives the exit code.

Reads SRC, ARGS, CHANGED_ONLY and BASE, and what GitHub sets. The standard library only.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

SUFFIXES = (".sched", ".csv")
CONFIGURATION = ("pyproject.toml", "interlock.toml")
COMMENT = re.compile(r'("[^"\n]*")|#[^\n]*')
USE = re.compile(r'\b(?:use|model)\s*"([^"\n]+)"')  # both as in checker/interlock/cli/watch.py
LONGEST = 20_000  # characters of names that go on a command line; Windows takes 32,767


def git(*args: str) -> str | None:
    done = subprocess.run(
        ["git", *args], capture_output=True, text=True, encoding="utf-8", errors="surrogateescape"
    )
    return done.stdout if done.returncode == 0 else None


def base() -> str:
    """The commit that changes are taken against; empty if none is known."""
    if os.environ.get("BASE"):
        return os.environ["BASE"]
    try:
        event = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
    except (KeyError, OSError, ValueError):
        return ""
    found = event.get("pull_request", {}).get("base", {}).get("sha") or event.get("before") or ""
    return found if found.strip("0") else ""


def changed(since: str) -> list[str] | None:
    """Files that differ from a commit, those that are gone included; None if git cannot say."""
    if git("cat-file", "-e", f"{since}^{{commit}}") is None:
        git("fetch", "--no-tags", "--depth=1", "origin", since)
    names = ["--name-only", "-z", "--no-renames", "--relative"]
    out = git("diff", *names, f"{since}...HEAD") or git("diff", *names, since, "HEAD")
    return None if out is None else [name for name in out.split("\0") if name]


def below(name: str, src: list[str]) -> bool:
    path = os.path.normpath(name)
    return any(s in (".", path) or path.startswith(s + os.sep) for s in map(os.path.normpath, src))


def users(names: set[str]) -> set[str]:
    """These, and the files with schedules, tracked by git, that use one of them or have it for a profile, or
    use one that does.
    """
    uses = {}
    for name in (git("ls-files", "-z", "*.sched") or "").split("\0"):
        try:
            text = Path(name).read_text(encoding="utf-8", errors="replace") if name else ""
        except OSError:
            continue
        uses[os.path.normpath(name)] = {
            os.path.normpath(os.path.join(os.path.dirname(name), used))
            for used in USE.findall(COMMENT.sub(r"\1", text))
        }
    found = {os.path.normpath(n) for n in names}
    while more := {name for name, used in uses.items() if used & found} - found:
        found |= more
    return found


def files(src: list[str]) -> tuple[list[str], str]:
    """What to check, and what to say about it."""
    if os.environ.get("CHANGED_ONLY") != "true":
        return src, ""
    since = base()
    names = changed(since) if since else None
    if names is None:
        return src, f"what changed since {since or 'an unknown commit'} cannot be told: everything is checked"
    if any(os.path.basename(n) in CONFIGURATION for n in names):
        return src, "the configuration may have changed: everything is checked"
    mine = sorted(
        n for n in users(set(names)) if n.endswith(SUFFIXES) and below(n, src) and os.path.isfile(n)
    )
    if sum(map(len, mine)) > LONGEST:
        return src, f"{len(mine)} files changed: everything is checked"
    return mine, "" if mine else "no schedule changed"


def main() -> int:
    src = shlex.split(os.environ.get("SRC") or ".")
    names, notice = files(src)
    if notice:
        print(f"::notice title=Interlock::{notice}")
    outputs = {"exit-code": "0", "sarif": "", "report": "", "text": ""}
    if names:
        folder = Path(os.environ["RUNNER_TEMP"])
        paths = {
            name: folder / f"interlock.{ending}"
            for name, ending in (("sarif", "sarif"), ("report", "json"), ("text", "txt"))
        }
        for path in paths.values():
            path.unlink(missing_ok=True)
        reports = [f"--report={'json' if name == 'report' else name}={path}" for name, path in paths.items()]
        arguments = [
            *shlex.split(os.environ.get("ARGS") or ""),
            "--format=github",
            "--force-exclude",
            *reports,
            "--",
            *names,
        ]
        done = subprocess.run([sys.executable, "-P", "-m", "interlock.cli", "check", *arguments])
        outputs["exit-code"] = str(done.returncode if 0 <= done.returncode < 256 else 101)
        outputs |= {name: str(path) for name, path in paths.items() if path.exists()}
    with open(os.environ["GITHUB_OUTPUT"], "a", encoding="utf-8") as out:
        out.writelines(f"{name}={value}\n" for name, value in outputs.items())
    return 0


if __name__ == "__main__":
    sys.exit(main())
