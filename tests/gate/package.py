"""A copy of this checkout to install: whole, or without its dependencies, which are then taken from the
environment of the tests.
"""

from __future__ import annotations

import re
import shutil
import sysconfig
from pathlib import Path

from command import ROOT

PARTS = (
    "checker",
    "grammar",
    "spec",
    "action",
    "pyproject.toml",
    "README.md",
    "action.yml",
    ".pre-commit-hooks.yaml",
)


def copy(folder: Path, *, whole: bool) -> Path:
    folder.mkdir()
    for name in PARTS:
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)
    if not whole:
        project = folder / "pyproject.toml"
        project.write_text(
            re.sub(
                r"(?ms)^dependencies = \[.*?^\]", "dependencies = []", project.read_text(encoding="utf-8")
            ),
            encoding="utf-8",
        )
        start = folder / "checker" / "interlock" / "__init__.py"
        start.write_text(
            f"{start.read_text(encoding='utf-8')}\nimport "
            f"sys\n\nsys.path.append({sysconfig.get_path('purelib')!r})\n",
            encoding="utf-8",
        )
    return folder
