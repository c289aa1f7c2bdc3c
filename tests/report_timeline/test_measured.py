"""A measured timeline in every picture that a schedule has, and beside the schedule it is of."""

import json
import xml.etree.ElementTree as ET

import pytest

from command import interlock
from interlock.cli.compare import table
from interlock.report.timeline import html, perfetto, svg, terminal
from report_timeline.scenes import REGIONS, SPLIT, STUCK, drawn, measured, pipeline, ran

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def files(tmp_path):
    (tmp_path / "small.sched").write_text(pipeline())
    (tmp_path / "run.json").write_text(ran(pipeline()))
    return tmp_path / "small.sched", tmp_path / "run.json"


def test_golden(golden):
    golden("measured.txt", terminal.render(measured(pipeline()), width=100))
    golden(
        "compare.svg",
        svg.compare(two := [drawn(pipeline(), "pair"), measured(pipeline())], table(two), width=800),
    )


@pytest.mark.parametrize("name", ["a.html", "a.svg", "a.json", "a.txt"])
def test_all_four_formats(files, tmp_path, name):
    done = interlock("show", files[1], "-o", tmp_path / name)
    assert (done.code, done.text) == (0, "")
    text = (tmp_path / name).read_text(encoding="utf-8")
    assert "small (measured)" in text
    if name == "a.json":
        slices = [e for e in json.loads(text)["traceEvents"] if e["ph"] == "X"]
        written = {row[0]: row for rank in json.loads(files[1].read_text())["ranks"] for row in rank}
        assert {
            e["name"]: [e["name"], round(e["ts"] * 1000), round((e["ts"] + e["dur"]) * 1000)] for e in slices
        } == {n: r for n, r in written.items() if n in {e["name"] for e in slices}}
        assert len(slices) > 24
    if name == "a.svg":
        assert "0F0" in {"".join(e.itertext()) for e in ET.fromstring(text).iter(f"{SVG}text")}


def test_what_is_measured_has_no_period_and_no_critical_path():
    scene = measured(pipeline(microbatches=24))
    predicted = drawn(pipeline(microbatches=24))
    names = [k for k, _ in scene.figures]
    assert (
        "steady period" not in names
        and scene.timeline.critical == ()
        and dict(predicted.figures)["steady period"] == "36.63 ms a microbatch (73.25 ms every 2)"
    )
    assert scene.makespan == pytest.approx(1.1 * drawn(pipeline(microbatches=24), "pair").makespan, abs=10)


def test_a_schedule_beside_its_run(files):
    done = interlock("compare", *files, "--comm", "pair")
    assert done.code == 0 and [line.split("  ")[0] for line in done.out.splitlines()[2:4]] == [
        "small",
        "small (measured)",
    ]
    done = interlock("compare", *files, "--format", "svg")
    assert done.code == 0 and ET.fromstring(done.out).tag == f"{SVG}svg"
    assert interlock("compare", *files, "--format", "html").out.startswith("<!doctype html>")


def test_time_and_units_are_not_compared(files, tmp_path):
    (tmp_path / "unit.sched").write_text(
        "schedule unit { ranks 2 microbatches 2 model { layers a[2] { } } cut { x = a : 1f1b } }"
    )
    done = interlock("compare", tmp_path / "unit.sched", files[1])
    assert (
        done.code == 2
        and "small (measured) was measured, and unit gives no durations" in done.err
        and done.out == ""
    )


def test_what_was_not_measured_is_not_drawn(files):
    done = interlock("show", files[1], "--comm", "edge")
    assert done.code == 2 and "ran under pair: what it would do under edge was not measured" in done.err
    assert interlock("compare", files[1], "--comm", "edge").code == 2
    done = interlock("show", files[1], "--counterexample")
    assert done.code == 2 and "a counterexample is drawn of its schedule" in done.err


def test_a_run_that_stopped():
    scene = measured(STUCK, "blocking")
    assert scene.walk and scene.ghosts and dict(scene.figures)["stops at"]
    assert "operations never ran" in terminal.render(
        scene
    ) and "0SEND_F1 waits for 1RECV_F1" in terminal.render(scene)
    assert "Why it stops" in html.render(scene) and "here nothing moves any more" in svg.render(scene)
    value = json.loads(perfetto.render(scene))
    assert any("never ran" in note for note in value["otherData"]["notes"])


def test_a_bad_file_is_told_with_its_place(files, tmp_path):
    lines = files[1].read_text().splitlines()
    row = next(i for i, line in enumerate(lines) if '["0F1",' in line)
    lines[row] = lines[row].replace("0F1", "0F9")
    (tmp_path / "bad.json").write_text("\n".join(lines))
    done = interlock("show", tmp_path / "bad.json")
    assert (
        done.code == 0 and "invalid (IL302, IL306)" in done.out
    )  # an operation of no microbatch: the rules say so, as of a CSV
    lines[row] = lines[row].replace("0F9", "oF1")
    (tmp_path / "bad.json").write_text("\n".join(lines))
    for command in (("show",), ("compare", files[0])):
        done = interlock(*command, tmp_path / "bad.json", "-o", tmp_path / "out.html")
        assert (
            done.code == 2
            and f"bad.json:{row + 1}:" in done.err
            and "IL112" in done.err
            and not (tmp_path / "out.html").exists()
        )
    (tmp_path / "bad.json").write_bytes(b"\xff\xfe")
    assert interlock("show", tmp_path / "bad.json").code == 2


def test_comparisons_as_a_picture():
    scenes = [drawn(REGIONS), drawn(SPLIT.replace("SKELETON", "zb_v")), drawn(STUCK, "blocking")]
    root = ET.fromstring(svg.compare(scenes, table(scenes)))
    ids = [e.get("id") for e in root.iter() if e.get("id")]
    assert len(ids) == len(set(ids)) and len(root.findall(f"{SVG}g")) == 3
    used = {part.split(")")[0] for e in root.iter() for part in (e.get("fill") or "").split("url(#")[1:]}
    assert used <= set(ids) and used
    words = ["".join(e.itertext()) for e in root.iter(f"{SVG}text")]
    assert {"schedule", "steady period", "regions", "split", "stuck", "here nothing moves any more"} <= set(
        words
    )
    longest = max(scenes, key=lambda s: s.makespan)
    wide = [
        max(float(b.get("width")) for b in g.iter(f"{SVG}rect") if b.get("class") == "l")
        for g in root.findall(f"{SVG}g")
    ]
    for one, scene in zip(wide, scenes):
        assert one / max(wide) == pytest.approx(scene.makespan / longest.makespan, abs=0.01)
