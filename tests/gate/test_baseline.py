"""spec/gate.md, "Baseline": what is known does not fail a gate, and stays what it is."""

from __future__ import annotations

import json

import pytest

from gate.scratch import BAD, GOOD, GROWS, RAISED


def test_known_does_not_fail_and_stays_invalid(run):
    done = run("check", ".", "--write-baseline", "known.json", {"a.sched": BAD, "b.sched": GOOD})
    assert done.code == 0 and "wrote known.json: 1 known" in done.err
    assert done.last == "2 files: 1 valid, 1 invalid (1 known); nothing new against the baseline"
    done = run("check", ".", "--baseline", "known.json")
    assert (
        done.code == 0
        and "a.sched: bad: invalid under pair: IL307" in done.out
        and "known: error[IL307]" in done.out
    )
    assert done.last == "2 files: 1 valid, 1 invalid (1 known); nothing new against the baseline"
    report = run("check", ".", "--baseline", "known.json", "--format", "json")
    assert report.code == report.report["exit_code"] == 0
    assert [(s["verdict"], s["outcome"], s["excused"]) for s in report.schedules] == [
        ("invalid", "invalid", True),
        ("valid", "valid", False),
    ]
    assert "::error" not in run("check", ".", "--baseline", "known.json", "--format", "github").out
    assert run("check", ".").code == 1


def test_a_new_finding_fails(run):
    run("check", ".", "--write-baseline", "known.json", {"a.sched": BAD, "b.sched": GROWS})
    other = BAD.replace("bad", "other")
    done = run("check", ".", "--baseline", "known.json", {"c.sched": other})
    assert (
        done.code == 1
        and done.last == "3 files: 1 valid, 2 invalid (1 known); 1 schedule new against the baseline"
    )
    changed = BAD.replace("0F0 0B0 0F1 0B1", "0F0 0B1 0F1 0B0")  # the same schedule, another fault
    done = run("check", "a.sched", "--baseline", "known.json", {"a.sched": changed})
    assert (
        done.code == 1
        and "1 schedule new" in done.last
        and "1 known in known.json and no longer found" in done.err
    )


def test_lines_may_move(run):
    run("check", "a.sched", "--write-baseline", "known.json", {"a.sched": BAD})
    moved = "# a comment\n\n" + BAD.replace("0F0 0B0", "0F0    0B0")
    assert run("check", "a.sched", "--baseline", "known.json", {"a.sched": moved}).code == 0


def test_from_another_folder(run, monkeypatch, tmp_path):
    run("check", "s", "--write-baseline", "known.json", {"s/a.sched": BAD})
    monkeypatch.chdir(tmp_path / "s")
    assert run("check", "a.sched", "--baseline", "../known.json").code == 0


def test_a_further_model_is_new(run):
    """Known under one model is not known under another."""
    run("check", "a.sched", "--write-baseline", "known.json", {"a.sched": BAD})
    done = run("check", "a.sched", "--baseline", "known.json", "--comm", "pair,rank")
    assert done.code == 1 and "error[IL307]" in done.out


def test_what_is_no_longer_found_is_said(run):
    run("check", ".", "--write-baseline", "known.json", {"a.sched": BAD, "b.sched": GROWS})
    done = run("check", ".", "--baseline", "known.json", {"a.sched": GOOD})
    assert (
        done.code == 0
        and "1 known in known.json and no longer found: --write-baseline known.json tightens it" in done.err
    )
    assert (
        done.err.count("\n") == 1
        and "no longer" not in run("check", "b.sched", "--baseline", "known.json").err
    ), "a.sched was not checked"
    assert run("check", ".", "--baseline", "known.json", "--write-baseline", "known.json").code == 0
    assert "no longer" not in run("check", ".", "--baseline", "known.json").err


@pytest.mark.parametrize(
    "files, code",
    [
        ({"a.sched": GOOD.replace("  cut", "  require { bubble <= 12% }\n  cut")}, 3),  # unknown
        ({"a.sched": "schedule s {"}, 2),  # unreadable
    ],
)
def test_what_was_not_decided_is_never_known(run, files, code):
    assert run("check", "a.sched", "--write-baseline", "known.json", files).code == code
    assert run("check", "a.sched", "--baseline", "known.json").code == code


def test_an_unmet_expectation_is_known_as_it_is(run):
    text = GOOD.replace("  cut", "  expect invalid IL402\n  cut")
    assert run("check", "a.sched", "--write-baseline", "known.json", {"a.sched": text}).code == 0
    assert run("check", "a.sched", "--baseline", "known.json").code == 0
    assert (
        run("check", "a.sched", "--baseline", "known.json", {"a.sched": text.replace("IL402", "IL307")}).code
        == 1
    )


def test_a_raised_warning_is_known(run):
    run("check", "a.sched", "--write-baseline", "known.json", {"a.sched": GROWS, "interlock.toml": RAISED})
    done = run("check", "a.sched", "--baseline", "known.json")
    assert done.code == 0 and done.last == "1 file: 1 not allowed (1 known); nothing new against the baseline"


def test_the_file(run, tmp_path):
    run("check", ".", "--write-baseline", "known.json", {"b.sched": BAD, "a.sched": GROWS})
    document = json.loads((tmp_path / "known.json").read_text())
    assert document["format"] == "interlock.baseline/1"
    assert [(f["path"], f["code"]) for f in document["findings"]] == [
        ("a.sched", "IL502"),
        ("b.sched", "IL307"),
    ]
    before = (tmp_path / "known.json").read_bytes()
    run("check", ".", "--write-baseline", "known.json")
    assert (tmp_path / "known.json").read_bytes() == before
    assert run("check", ".", "--write-baseline", "none/known.json").code == 2
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.sched", "b.sched", "known.json"], "no torn file"


@pytest.mark.parametrize(
    "text, says",
    [
        ("", "no baseline"),
        ("[]", "`format` is not"),
        ('{"format": "interlock.baseline/2", "findings": []}', "`format` is not"),
        ('{"format": "interlock.baseline/1", "findings": [{"path": 1}]}', "torn"),
        ("[" * 100_000, "no baseline"),
    ],
)
def test_what_is_no_baseline(run, text, says):
    done = run("check", "a.sched", "--baseline", "known.json", {"a.sched": GOOD, "known.json": text})
    assert (done.code, done.out) == (2, "") and says in done.err
    assert run("check", "a.sched", "--baseline", "none.json").code == 2
