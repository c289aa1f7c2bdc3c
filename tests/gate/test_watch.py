"""`--watch`: what changed is checked again, with what uses it; nothing else is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from command import ROOT
from gate.scratch import BAD, GOOD, GROWS, RAISED
from interlock.cli import checking, make_parser, watch

SKELETON = (ROOT / "spec" / "std" / "gpipe.sched").read_text(encoding="utf-8")


@pytest.fixture
def look(run, capsys, monkeypatch):
    """`look(args, *changes)`: a round, then for each change that change and a round; gives the exit code,
    (output, files checked) of each, and what went to
    standard error of all but the last."""

    def go(args, *changes):
        rounds, checked, errors = [], [], []
        real = checking.check_path
        monkeypatch.setattr(
            checking, "check_path", lambda path, **options: checked.append(path) or real(path, **options)
        )
        changes = iter(changes)

        def sleep(_):
            captured = capsys.readouterr()
            rounds.append((captured.out, sorted(checked)))
            errors.append(captured.err)
            checked.clear()
            run(next(changes))

        parsed = make_parser("check").parse_args(["check", "--watch", "--jobs", "1", *args])
        n = 1 + len(rest := list(changes))
        changes = iter(rest)
        code = watch.watch(parsed, rounds=n, sleep=sleep)
        captured = capsys.readouterr()
        rounds.append((captured.out, sorted(checked)))
        return code, rounds, errors

    return go


def last(output: str) -> str:
    return output.splitlines()[-1] if output else ""


def test_what_changed_and_nothing_else(run, look):
    run({"s/a.sched": GOOD, "s/b.sched": GROWS})
    code, rounds, _ = look(["s"], {}, {"s/a.sched": BAD + "\n"}, {"s/c.sched": GOOD}, {"s/a.sched": GOOD})
    assert [checked for _, checked in rounds] == [
        ["s/a.sched", "s/b.sched"],
        [],
        ["s/a.sched"],
        ["s/c.sched"],
        ["s/a.sched"],
    ]
    assert [last(out) for out, _ in rounds] == [
        "2 files: 2 valid",
        "",
        "2 files: 1 valid, 1 invalid",
        "3 files: 2 valid, 1 invalid",
        "3 files: 3 valid",
    ]
    assert code == 0


def test_a_file_that_is_used(run, look):
    skeleton = SKELETON.replace("skeleton gpipe", "skeleton mine")
    text = 'use "lib/mine.sched"\n' + GOOD.replace("1f1b", "mine")
    run({"a.sched": text, "b.sched": GOOD, "lib/mine.sched": skeleton})
    _, rounds, _ = look(
        ["a.sched", "b.sched"],
        {"lib/mine.sched": skeleton + "\n# changed\n"},
        {"lib/mine.sched": "skeleton {"},
        {"lib/mine.sched": skeleton},
    )
    assert [checked for _, checked in rounds] == [
        ["a.sched", "b.sched"],
        ["a.sched"],
        ["a.sched"],
        ["a.sched"],
    ]
    assert [last(out) for out, _ in rounds] == [
        "2 files: 2 valid",
        "2 files: 2 valid",
        "2 files: 1 valid, 1 not readable",
        "2 files: 2 valid",
    ]


def test_a_profile(run, look):
    """Changed, torn, gone, and there again; also where the path stands behind a comment."""
    profile = (
        'format = "interlock.profile/1"\n[[layer]]\nname = "llm"\ncount = 4\nforward = 5\nbackward = '
        "5\nweights = 2048\nactivation = 1\nuntil_weight = 1\noutput = 1\n"
    )
    text = GOOD.replace(
        "model { layers llm[4] { } }", 'model  # as measured\n    "lib/p.toml"\n  memory { capacity 1MiB }'
    )
    run({"a.sched": text, "b.sched": GOOD, "lib/p.toml": profile})
    _, rounds, _ = look(
        ["a.sched", "b.sched"],
        {"lib/p.toml": profile.replace("2048", "2097152")},
        {"lib/p.toml": profile[:-3]},
        {"lib/p.toml": profile},
    )
    assert [checked for _, checked in rounds] == [
        ["a.sched", "b.sched"],
        ["a.sched"],
        ["a.sched"],
        ["a.sched"],
    ]
    assert [last(out) for out, _ in rounds] == [
        "2 files: 2 valid",
        "2 files: 1 valid, 1 invalid",
        "2 files: 1 valid, 1 not readable",
        "2 files: 2 valid",
    ]


def test_a_profile_that_is_not_there_yet(run, look):
    run({"a.sched": GOOD.replace("model { layers llm[4] { } }", 'model "p.toml"')})
    _, rounds, _ = look(
        ["a.sched"],
        {"p.toml": 'format = "interlock.profile/1"\n[[layer]]\nname = "llm"\ncount = 4\nforward = 5\n'},
    )
    assert [last(out) for out, _ in rounds] == ["1 file: 1 not readable", "1 file: 1 valid"]


def test_a_used_file_that_is_not_there_yet(run, look):
    run({"a.sched": 'use "mine.sched"\n' + GOOD.replace("1f1b", "mine")})
    _, rounds, _ = look(["a.sched"], {"mine.sched": SKELETON.replace("skeleton gpipe", "skeleton mine")})
    assert [last(out) for out, _ in rounds] == ["1 file: 1 not readable", "1 file: 1 valid"]


def test_the_configuration(run, look):
    run({"a.sched": GROWS})
    _, rounds, err = look(
        ["a.sched"], {"interlock.toml": RAISED}, {"interlock.toml": "severty = 1\n"}, {"interlock.toml": ""}
    )
    assert [last(out) for out, _ in rounds] == [
        "1 file: 1 valid",
        "1 file: 1 not allowed",
        "",
        "1 file: 1 valid",
    ]
    assert "did you mean `severity`?" in err[2]


def test_what_is_wrong_is_said_once(run, look):
    run({"a.sched": GOOD})
    _, rounds, err = look(
        ["a.sched", "b"],
        {},
        {"b/b.sched": GOOD},
        {"interlock.toml": "severty = 1\n"},
        {"a.sched": BAD},
        {},
        {"interlock.toml": ""},
    )
    assert [bool(e) for e in err] == [True, False, False, True, True, False]
    assert [last(out) for out, _ in rounds] == [
        "",
        "",
        "2 files: 2 valid",
        "",
        "",
        "",
        "2 files: 1 valid, 1 invalid",
    ]


def test_a_file_that_goes_away(run, look, tmp_path):
    run({"a.sched": GOOD, "b.sched": GOOD})

    class Gone(dict):
        def items(self):
            (tmp_path / "b.sched").unlink(missing_ok=True)
            return super().items()

    code, rounds, _ = look(["."], Gone())
    assert [last(out) for out, _ in rounds] == ["2 files: 2 valid", "1 file: 1 valid"] and code == 0


def test_standard_input_does_not_change(run):
    assert run("check", "-", "--watch").code == 2
    assert run("check", "a.sched", "--watch", "--emit", "smt2").code == 2


def test_ctrl_c(tmp_path):
    (tmp_path / "a.sched").write_text(GOOD)
    process = subprocess.Popen(
        [sys.executable, "-m", "interlock.cli", "check", "a.sched", "--watch"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT / "checker")},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    timer = threading.Timer(30, process.kill)
    timer.start()
    lines = []
    while not lines or not lines[-1].startswith(b"1 file"):
        lines.append(process.stdout.readline())
        assert lines[-1], "it ended"
    (tmp_path / "a.sched").write_text(BAD)
    while b"1 invalid" not in lines[-1]:
        lines.append(process.stdout.readline())
        assert lines[-1], "it ended"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    timer.cancel()
    assert (process.returncode, err) == (130, b"interrupted\n")
