"""What is installed works away from the repository: grammar, spec and skeletons travel in the wheel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from command import ROOT


def run(python_path: Path, *args, cwd: Path) -> subprocess.CompletedProcess:
    """`-P` and an own folder: nothing of the repository is found by chance."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "interlock.cli", *map(str, args)],
        check=False,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(python_path), "NO_COLOR": "1"},
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT],
        check=True,
        capture_output=True,
        timeout=300,
    )
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    target = tmp_path_factory.mktemp("site")
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
            "--no-index",
            "--target",
            target,
            wheel,
        ],
        check=True,
        timeout=300,
    )
    return target


@pytest.fixture
def elsewhere(tmp_path) -> Path:
    for path in (ROOT / "examples").iterdir():
        if path.suffix in (".sched", ".csv", ".toml"):
            (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def test_the_wheel_holds_what_the_program_reads_and_nothing_else(wheel):
    names = {n for n in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in n}
    assert all(n.startswith("interlock/") for n in names)
    data = {n.removeprefix("interlock/_data/") for n in names if n.startswith("interlock/_data/")}
    assert data == {
        str(p.relative_to(ROOT))
        for folder in ("grammar", "spec")
        for p in (ROOT / folder).rglob("*")
        if p.is_file()
    }
    python = {n for n in names if n.endswith(".py")}
    assert python == {
        str(p.relative_to(ROOT / "checker")) for p in (ROOT / "checker" / "interlock").rglob("*.py")
    }
    page = {
        str(p.relative_to(ROOT / "checker"))
        for p in (ROOT / "checker" / "interlock" / "report" / "timeline" / "page").iterdir()
    }
    assert names == python | page | {f"interlock/_data/{n}" for n in data} | {"interlock/py.typed"}


def test_the_version_and_the_command(wheel):
    from interlock import __version__

    package = zipfile.ZipFile(wheel)
    entry = next(n for n in package.namelist() if n.endswith("entry_points.txt"))
    assert "interlock = interlock.cli:main" in package.read(entry).decode()
    metadata = package.read(next(n for n in package.namelist() if n.endswith("METADATA"))).decode()
    assert f"\nVersion: {__version__}\n" in metadata and "\nLicense-Expression: Apache-2.0\n" in metadata
    assert any(n.endswith("/licenses/LICENSE") for n in package.namelist())


@pytest.mark.parametrize("layout", ["wheel", "checkout"])
def test_it_checks_a_schedule_from_another_folder(layout, installed, elsewhere):
    path = installed if layout == "wheel" else ROOT / "checker"
    where = subprocess.run(
        [sys.executable, "-P", "-c", "import interlock; print(interlock.__file__)"],
        check=True,
        cwd=elsewhere,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(path)},
    )
    assert Path(where.stdout.strip()).is_relative_to(path)
    done = run(
        path,
        "check",
        "interleaved.sched",
        "zbv.csv",
        "--format",
        "json",
        "--certificate",
        "certs",
        cwd=elsewhere,
    )  # grammar, spec/std
    assert done.returncode == 0, done.stdout + done.stderr
    assert [s["verdict"] for f in json.loads(done.stdout)["files"] for s in f["schedules"]] == [
        "valid",
        "valid",
    ]
    certificates = sorted((elsewhere / "certs").iterdir())
    done = run(path, "verify", *certificates, cwd=elsewhere)
    assert (
        done.returncode == 0
        and len(certificates) == 4
        and all(f"{c}: accepted: valid" in done.stdout for c in certificates)
    )
    done = run(path, "explain", "IL402", cwd=elsewhere)  # spec
    assert done.returncode == 0 and "IL402" in done.stdout


def test_the_installed_one_says_the_same_of_every_example(installed, elsewhere):
    said = [
        run(path, "check", ".", "--format", "json", cwd=elsewhere) for path in (installed, ROOT / "checker")
    ]
    assert said[0].returncode == said[1].returncode == 0, said[0].stderr + said[1].stderr
    assert said[0].stdout == said[1].stdout


def test_without_grammar_and_spec_a_csv_is_still_checked(installed, elsewhere, tmp_path_factory):
    """An interlock without its data says so: it does not answer."""
    import shutil

    bare = tmp_path_factory.mktemp("bare")
    shutil.copytree(
        installed / "interlock", bare / "interlock", ignore=shutil.ignore_patterns("_data", "__pycache__")
    )
    assert run(bare, "check", "zbv.csv", cwd=elsewhere).returncode == 0
    assert run(bare, "check", "interleaved.sched", cwd=elsewhere).returncode not in (0, 1, 3)
