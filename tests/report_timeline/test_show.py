"""`interlock show` and `interlock compare` as commands."""

import json
import xml.etree.ElementTree as ET

import pytest

from command import ROOT, interlock
from report_timeline.scenes import STUCK, pipeline

LIBRARY = (ROOT / "spec" / "std" / "gpipe.sched").read_text(encoding="utf-8")
VLM, DEADLOCK, CSV = (ROOT / "examples" / n for n in ("vlm.sched", "deadlock.sched", "zbv.csv"))


@pytest.fixture
def two(tmp_path):
    path = tmp_path / "two.sched"
    path.write_text(pipeline("a") + pipeline("b", skeleton="gpipe"))
    return path


def test_the_terminal_is_the_default():
    done = interlock("show", VLM)
    assert done.code == 0 and done.err == "" and "\x1b" not in done.out
    assert (
        done.out.startswith("vlm: 4 ranks, 16 microbatches")
        and "rank 3" in done.out
        and "makespan" in done.out
    )


def test_colour_where_it_is_asked_for():
    assert "\x1b[48;5;" in interlock("show", VLM, FORCE_COLOR="1").out
    assert "\x1b" not in interlock("show", VLM, FORCE_COLOR="1", NO_COLOR="1").out
    assert interlock("show", VLM, PYTHONIOENCODING="ascii").out.isascii()


@pytest.mark.parametrize(
    "name, reads",
    [
        ("a.html", lambda t: t.index("<!doctype html>") == 0),
        ("a.svg", ET.fromstring),
        ("a.json", lambda t: json.loads(t)["traceEvents"]),
        ("a.txt", lambda t: "rank 0" in t),
    ],
)
def test_the_ending_says_the_format(tmp_path, name, reads):
    done = interlock("show", CSV, "-o", tmp_path / name)
    assert (done.code, done.text) == (0, "") and reads((tmp_path / name).read_text(encoding="utf-8"))
    form = {"a.html": "html", "a.svg": "svg", "a.json": "perfetto", "a.txt": "terminal"}[name]
    assert interlock("show", CSV, "--format", form).out == (tmp_path / name).read_text(encoding="utf-8")


def test_a_model_is_asked_for():
    assert "transfers under edge" in interlock("show", DEADLOCK, "--comm", "edge").out
    assert "stops at" in interlock("show", DEADLOCK, "--comm", "rank").out
    assert "makespan 1.53 s" in interlock("show", VLM, "--comm", "pair").out


def test_a_counterexample_is_asked_for(tmp_path):
    done = interlock("show", DEADLOCK, "--counterexample")
    assert done.code == 0 and "0SEND_F1 waits for 1RECV_F1" in done.out
    done = interlock("show", VLM, "--counterexample")
    assert done.code == 2 and "vlm has no wait cycle to draw: valid under" in done.err and done.out == ""


def test_one_schedule_of_several(two):
    done = interlock("show", two)
    assert (
        done.out.startswith("a: ")
        and "this is a; " in done.err
        and " has b too (--schedule NAME)" in done.err
    )
    done = interlock("show", two, "--schedule", "b")
    assert done.out.startswith("b: ") and done.err == ""
    done = interlock("show", two, "--schedule", "c")
    assert done.code == 2 and "there is no schedule c" in done.err and "there are a, b" in done.err


def test_standard_input():
    assert interlock("show", "-", stdin=STUCK.encode()).out.startswith("stuck: ")


@pytest.mark.parametrize(
    "text, told", [("schedule", "IL1"), ("", "IL106"), (LIBRARY, "there is no schedule in this file")]
)
def test_what_cannot_be_read_is_told(tmp_path, text, told):
    path = tmp_path / "bad.sched"
    path.write_text(text)
    done = interlock("show", path)
    assert done.code == 2 and told in done.err and done.out == ""
    assert interlock("show", tmp_path / "none.sched").code == 2


def test_a_comparison(two, tmp_path):
    done = interlock("compare", two, VLM)
    lines = done.out.splitlines()
    assert done.code == 0 and lines[0].split() == [
        "schedule",
        "makespan",
        "bubble",
        "steady",
        "period",
        "peak",
        "memory",
        "in",
        "flight",
        "transfers",
        "verdict",
    ]
    assert [l.split()[0] for l in lines[2:5]] == ["a", "b", "vlm"]
    assert [
        l.split()[0]
        for l in interlock("compare", two, VLM, "--schedule", "vlm", "--schedule", "a").out.splitlines()[2:4]
    ] == ["vlm", "a"]
    assert interlock("compare", two, "-o", tmp_path / "c.html").text == "" and (
        tmp_path / "c.html"
    ).read_text(encoding="utf-8").startswith("<!doctype html>")


def test_times_are_compared_with_times_only():
    done = interlock("compare", VLM, CSV)
    assert (
        "units" in done.out and "ms" not in done.out.splitlines()[2] and "no durations are given" in done.out
    )


def test_help_does_not_wait_for_the_pictures():
    assert (
        interlock("show", "--help").code == 0
        and interlock("--help", python=("-X", "importtime")).err.count("numpy") == 0
    )
