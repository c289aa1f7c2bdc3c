"""SARIF against its schema, and against what GitHub asks beyond it.

sarif-2.1.0-rtm.5.json is the schema of OASIS SARIF 2.1.0 (OASIS SARIF TC) as the npm package
@microsoft/jest-sarif 1.0.0-beta.0 (MIT) ships it, unchanged.
"""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from interlock.check.verdict import Answer, CaseResult
from interlock.report import render, sarif
from interlock.report.outcome import Unread
from interlock.text.finding import Finding
from report.run import FILES, SENDS_MEET, given, run, two_ranks

SCHEMA = Path(__file__).parent / "sarif-2.1.0-rtm.5.json"
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def valid():
    return jsonschema.Draft4Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))


def log(results, **more):
    checked, sources, given_ = given(results)
    return json.loads(render("sarif", checked, sources, **given_, **more))


def flows(result):
    return [
        [
            (l["location"]["physicalLocation"]["region"]["startColumn"], l["location"]["message"]["text"])
            for l in t["locations"]
        ]
        for t in result["codeFlows"][0]["threadFlows"]
    ]


def test_the_schema_is_the_one_published():
    assert (
        hashlib.sha256(SCHEMA.read_bytes()).hexdigest()
        == "2d99159ae54a3eea97f81781cff48780548657c35949f4b7f25e99a2ba4de4f8"
    )


def test_the_run_of_every_answer_is_valid(valid):
    report = log(run())
    valid.validate(report)
    (one,) = report["runs"]
    assert one["columnKind"] == "unicodeCodePoints" and one["invocations"][0]["exitCode"] == 2
    rules = one["tool"]["driver"]["rules"]
    assert [r["id"] for r in rules] == sorted({r["ruleId"] for r in one["results"]})
    for rule in rules:
        assert (
            rule["shortDescription"]["text"]
            and len(rule["fullDescription"]["text"]) <= 1024
            and rule["help"]["text"].startswith(rule["id"])
        )
        assert rule["properties"]["precision"] == "very-high" and rule["properties"]["problem.severity"] in (
            "error",
            "warning",
        )
    for result in one["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        (place,) = result["locations"]
        assert set(place["physicalLocation"]["region"]) == {
            "startLine",
            "startColumn",
            "endLine",
            "endColumn",
        }
        assert result["partialFingerprints"]["primaryLocationLineHash"]


def test_findings_only():
    (one,) = log(run())["runs"]
    found = {r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in one["results"]}
    assert found == {
        "runs/deadlock.sched",
        "runs/wrong%20data.sched",
        "runs/memory.sched",
        "runs/unknown.sched",
        "runs/torn.sched",
        "runs/unmet.sched",
    }
    assert {r["ruleId"]: r["level"] for r in one["results"]}["IL901"] == "warning"
    assert {v["file"] for v in one["properties"]["verdicts"] if v["verdict"] == "valid"} == {
        "runs/valid.sched",
        "runs/unmet.sched",
    }
    assert log(run({"runs/valid.sched": FILES["runs/valid.sched"]}))["runs"][0]["results"] == []


def test_a_wait_cycle_has_a_thread_for_each_rank_in_program_order():
    (one,) = log(run({"a.sched": two_ranks("x", *SENDS_MEET)}))["runs"]
    (result,) = one["results"]
    assert [t["id"] for t in result["codeFlows"][0]["threadFlows"]] == ["rank 0", "rank 1"]
    columns = [[column for column, _ in thread] for thread in flows(result)]
    assert columns == [sorted(c) for c in columns]
    told = [text for thread in flows(result) for _, text in thread]
    assert "0SEND_F1 ends only when rank 1 receives it in 1RECV_F1" in told
    place = result["locations"][0]["physicalLocation"]["region"]
    line = two_ranks("x", *SENDS_MEET).splitlines()[place["startLine"] - 1]
    assert line[place["startColumn"] - 1 : place["endColumn"] - 1] == "0SEND_F1"
    assert [l["message"]["text"] for l in result["relatedLocations"]]


def test_inserted_operations_are_named():
    """A derived program has no places of its own: the schedule's is told, and the operation with rank and
    number.
    """
    text = (
        "schedule x {\n  ranks 2\n  microbatches 2\n  order transfers inserted {\n    rank 0: 0F0 0B0 "
        "0F1 0B1\n    rank 1: 1F1 1F0 1B0 1B1\n  }\n}\n"
    )
    (one,) = log(run({"a.sched": text}))["runs"]
    assert [r["ruleId"] for r in one["results"]] == ["IL307"]
    assert all(text for thread in flows(one["results"][0]) for _, text in thread)


def test_a_fingerprint_stays_when_lines_move():
    def prints(text):
        return [
            r["partialFingerprints"]["primaryLocationLineHash"]
            for r in log(run({"a.sched": text}))["runs"][0]["results"]
        ]

    text = two_ranks("x", *SENDS_MEET)
    assert prints(text) == prints("\n# moved\n" + text.replace("    rank", "  rank"))
    twice = prints(text + text.replace("schedule x", "schedule y"))
    assert [p.split(":")[1] for p in twice] == ["1", "2"] and len({p.split(":")[0] for p in twice}) == 1
    assert prints(text) != prints(text.replace("0F1 0SEND_F1 ", "0F1  0SEND_F1 0F1 "))


def test_beyond_the_limits_errors_come_first_and_a_notification_says_so(valid, monkeypatch):
    monkeypatch.setattr(sarif, "MOST_RESULTS", 20)
    monkeypatch.setattr(sarif, "SHOWN_RESULTS", 5)
    many = [Unread(f"{i}.sched", (Finding.of_input("IL101", "torn"),)) for i in range(15)]
    open_ = [CaseResult(f"{i}.csv", "x", (Answer("pair", reason="?"),)) for i in range(30)]

    def run_of(unread):
        report = json.loads(
            sarif.render(open_, lambda path: None, unread=unread, paths=[f"{i}.csv" for i in range(30)])
        )
        valid.validate(report)
        return report["runs"][0]["results"], [
            n["message"]["text"] for n in report["runs"][0]["invocations"][0]["toolExecutionNotifications"]
        ]

    results, told = run_of(many)
    assert [r["level"] for r in results] == ["error"] * 15 + ["warning"] * 5
    assert told == ["25 of 45 results are left out: GitHub takes 20 and 10000000 bytes, compressed"]
    monkeypatch.setattr(sarif, "MOST_RESULTS", 50)
    assert run_of(many)[1] == ["GitHub keeps 5 of these 45 results, errors first"]
    monkeypatch.setattr(sarif, "MOST_BYTES", 1_500)
    results, told = run_of(many)
    assert 0 < len(results) < 45 and told[0].endswith("GitHub takes 50 and 1500 bytes, compressed")


def test_a_long_way_is_cut(valid, monkeypatch):
    monkeypatch.setattr(sarif, "MOST_STEPS", 3)
    report = log(run({"a.sched": two_ranks("x", *SENDS_MEET)}))
    valid.validate(report)
    (one,) = report["runs"]
    assert sum(map(len, flows(one["results"][0]))) == 3
    assert (
        one["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"]
        == "IL402 of x: of its 4 places on the way 3 are told"
    )


def test_text_that_would_be_a_link():
    d = replace(Finding.of_input("IL101", "see [this](http://x) \x1b[0m"))
    report = json.loads(render("sarif", [], lambda path: None, unread=[Unread("a.sched", (d,))]))
    assert report["runs"][0]["results"][0]["message"]["text"] == "see \\[this\\](http://x) \\\\x1b\\[0m"


def test_every_case_and_example_is_valid(valid):
    paths = sorted([*(ROOT / "tests/cases").glob("*.sched"), *(ROOT / "examples").glob("*.sched")])
    bare = {
        str(p.relative_to(ROOT)): "\n".join(
            l for l in p.read_text().splitlines() if not l.strip().startswith(("expect", "# expect"))
        )
        + "\n"
        for p in paths
    }
    report = log(run(bare, ("pair", "blocking")))
    valid.validate(report)
    assert len({r["ruleId"] for r in report["runs"][0]["results"]}) > 15
    assert sum("codeFlows" in r for r in report["runs"][0]["results"]) > 5
