"""`--jobs`: the same report from several processes; a process that dies fails its file alone; Ctrl-C leaves
nothing.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from command import ROOT
from gate.scratch import BAD, CSV, GOOD, GROWS
from interlock.check import files
from interlock.cli import checking, parallel

FILES = {
    f"s/{n:02}.sched": text
    for n, text in enumerate([GOOD, BAD, GROWS, "schedule s {", GOOD.replace("good", "again")] * 3)
} | {"s/x.csv": CSV}


def timeless(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if "checked in" not in line)


@pytest.mark.parametrize("format", ["text", "json", "sarif", "github"])
def test_the_same_report(run, format):
    one, three = (run("check", "s", "--jobs", jobs, "--format", format, FILES) for jobs in (1, 3))
    assert one == three and one.code == 2 and one.out


def test_certificates_travel(run, tmp_path):
    for jobs in (1, 2):
        run("check", "s", "--jobs", jobs, "--certificate", f"certs{jobs}", FILES)
    first, second = (
        {p.name: p.read_bytes() for p in (tmp_path / name).iterdir()} for name in ("certs1", "certs2")
    )
    assert first == second and len(first) > 10


def test_default():
    cores = len(os.sched_getaffinity(0))
    assert [parallel.default_jobs(n) for n in (0, 1, 8, 9, 1000)] == [1, 1, 1, cores, cores]


@pytest.mark.parametrize("value", ["0", "-1", "x", "1.5", "100000", "²"])
def test_what_is_no_number_of_processes(run, value):
    assert run("check", ".", f"--jobs={value}").code == 2


@pytest.fixture
def faulty(monkeypatch):
    """`dies.sched` ends the process that checks it, `disagrees.sched` has judges that disagree."""
    real, parent = files.check_file, os.getpid()

    def check_file(path, data, options):
        if Path(path).name == "dies.sched" and os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        if Path(path).name == "disagrees.sched":
            raise RuntimeError("the judges disagree")
        return real(path, data, options)

    monkeypatch.setattr(checking, "check_file", check_file)


@pytest.mark.skipif(sys.platform != "linux", reason="the fault is handed to processes by forking")
@pytest.mark.parametrize("jobs", [2, 3])
def test_a_process_that_dies(run, faulty, jobs):
    done = run(
        "check",
        "s",
        "--jobs",
        jobs,
        "--format",
        "json",
        {**FILES, "s/dies.sched": GOOD, "s/disagrees.sched": GOOD},
    )
    assert done.code == done.report["exit_code"] == 101
    assert [f["path"] for f in done.report["files"]] == sorted(FILES)
    died, disagreed = sorted(done.err.splitlines(), key=lambda line: "disagree" in line)
    assert (
        died
        == "internal error[IL902]: the process that checked it ended by SIGKILL; no verdict was reached for "
        "s/dies.sched. Please report it with the input."
    )
    assert "RuntimeError: the judges disagree" in disagreed and "for s/disagrees.sched" in disagreed


def test_an_internal_error_leaves_the_other_files(run, faulty):
    done = run("check", "s", "--jobs", 1, {"s/a.sched": GOOD, "s/disagrees.sched": GOOD})
    assert done.code == 101 and done.last == "1 file: 1 valid" and "s/disagrees.sched" in done.err


def test_a_file_that_cannot_be_opened(run, tmp_path, monkeypatch):
    """A fault of the disk is no fault of a schedule: exit code 2, as with one process."""
    run({name: text for name, text in FILES.items()})
    monkeypatch.setattr(
        checking, "read", lambda path: (_ for _ in ()).throw(PermissionError(13, "Permission denied", path))
    )
    for jobs in (1, 2):
        done = run("check", "s", "--jobs", jobs)
        assert done.code == 2 and "Permission denied" in done.err


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks at /proc")
def test_interrupted(tmp_path):
    """Ctrl-C goes to the whole group: 130, one line, no process and no file left."""
    for n in range(400):
        (tmp_path / f"{n}.sched").write_text(GOOD)
    program = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from interlock "
        "import cli; cli.main(['check', '.', '--jobs', '2', '--report', 'json=out.json'])"
    )
    program = program.replace("cli.main(", "raise SystemExit(cli.main(") + ")"
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "checker")},
    )
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and len(children(process.pid)) < 2:
        time.sleep(0.02)
    mine = children(process.pid)
    assert len(mine) == 2
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (130, b"", b"interrupted\n")
    assert (
        not [pid for pid in mine if runs(pid)]
        and not list(tmp_path.glob("out.json*"))
        and len(list(tmp_path.iterdir())) == 400
    )


def runs(pid: int) -> bool:
    """Whether a process is there and no zombie, which only waits for its number to be taken back."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def children(pid: int) -> list[int]:
    try:
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
