"""One run in every format. golden/run.* are the reports as they stand; look at them, and update them with
--update-golden.
"""

import json
import re
from collections import Counter
from dataclasses import replace
from itertools import product
from xml.etree import ElementTree

import pytest

from interlock import cli
from interlock.check.verdict import Answer, CaseResult, Expectation, Verdict
from interlock.cli import make_parser
from interlock.report import FORMATS, is_human_readable, render
from interlock.report.github import MOST
from interlock.report.items import items
from interlock.report.outcome import Unread, exit_code, outcome
from interlock.report.uri import relative, uri
from interlock.text.finding import Finding, Severity
from report.run import FILES, SENDS_MEET, given, run, two_ranks

ENDINGS = {
    "text": "txt",
    "concise": "concise.txt",
    "json": "json",
    "json-lines": "jsonl",
    "sarif": "sarif",
    "github": "github.txt",
    "junit": "junit.xml",
}


@pytest.fixture(scope="module")
def everything():
    return given(run())


def rendered(format, of):
    checked, sources, more = of
    return render(format, checked, sources, **more)


@pytest.mark.parametrize("format", FORMATS)
def test_golden(golden, everything, format):
    golden(f"run.{ENDINGS[format]}", rendered(format, everything))


def test_the_command_knows_every_format(monkeypatch, capsys):
    assert set(FORMATS) == set(ENDINGS)
    assert [f for f in FORMATS if is_human_readable(f)] == ["text", "concise"]
    monkeypatch.setenv("INTERLOCK_OUTPUT_FORMAT", "sarif")
    assert make_parser("check").parse_args(["check", "."]).format == "sarif"
    assert make_parser("check").parse_args(["check", ".", "--format", "junit"]).format == "junit"
    monkeypatch.setenv("INTERLOCK_OUTPUT_FORMAT", "sariff")
    assert cli.main(["explain", "IL402"]) == 0
    with pytest.raises(SystemExit) as usage:
        make_parser("check").parse_args(["check", "."])
    assert (
        usage.value.code == 2
        and "there is no format 'sariff'; there are text, json" in capsys.readouterr().err
    )


@pytest.mark.parametrize("format", FORMATS)
def test_nothing_checked_is_no_success(format):
    told = render(format, [], lambda path: None)
    assert told.endswith("\n")
    if format == "junit":
        assert ElementTree.fromstring(told).get("errors") == "1"
    elif "json" in format:
        assert '"exit_code": 2' in told
    else:
        assert '"exitCode": 2' in told or "nothing checked" in told


def test_an_internal_error_is_no_success():
    checked, sources, more = given(run({"runs/valid.sched": FILES["runs/valid.sched"]}))

    def told(format):
        return render(format, checked, sources, internal=True, **more)

    assert ElementTree.fromstring(told("junit")).get("errors") == "1"
    assert told("github").startswith("::error title=Interlock (IL902)::internal error")
    invocation = json.loads(told("sarif"))["runs"][0]["invocations"][0]
    assert (
        invocation["executionSuccessful"],
        invocation["exitCode"],
        invocation["toolExecutionNotifications"][0]["level"],
    ) == (False, 101, "error")
    assert (
        json.loads(told("json"))["exit_code"]
        == json.loads(told("json-lines").splitlines()[-1])["exit_code"]
        == 101
    )


# ---- items ----------------------------------------------------------------------------------------


def test_each_kind_of_answer_is_an_item_once(everything):
    checked, sources, more = everything
    found = [(i.path.split("/")[1], i.code, i.level) for i in items(checked, sources, **more)]
    assert found == [
        ("deadlock.sched", "IL402", "error"),
        ("wrong data.sched", "IL403", "error"),
        ("memory.sched", "IL501", "error"),
        ("memory.sched", "IL502", "warning"),
        ("unknown.sched", "IL901", "warning"),
        ("torn.sched", "IL101", "error"),
        ("unmet.sched", "IL905", "error"),
    ]


def test_what_says_nothing_is_a_warning():
    of = [
        CaseResult(
            "a.sched",
            "a",
            (
                Answer("pair", reason="cut off"),
                Answer("rank", reason="cut off"),
                Answer("edge", Verdict.VALID),
            ),
        ),
        CaseResult("a.sched", "b", ()),
        CaseResult("a.sched", "c", (Answer("pair", Verdict.VACUOUS, reason="P < 1"),)),
    ]
    assert [(i.code, i.level, i.diagnostic.message) for i in items(of, lambda path: None)] == [
        ("IL903", "warning", "a: unknown under pair and rank: cut off"),
        ("IL903", "warning", "b: unknown: no communication model was asked"),
        ("IL904", "warning", "c: vacuous under pair: P < 1"),
    ]
    for format in ("concise", "sarif", "github", "junit"):
        assert rendered(format, (of, lambda path: None, {})).count("cut off") >= 1


def test_files_stand_in_the_order_they_were_checked(everything):
    report = json.loads(rendered("json", everything))
    assert [f["path"] for f in report["files"]] == list(FILES)
    lines = [json.loads(line) for line in rendered("json-lines", everything).splitlines()]
    assert list(dict.fromkeys(line["path"] for line in lines if "path" in line)) == list(FILES)
    assert [lines[0]["kind"], lines[-1]["kind"]] == ["run", "summary"]


def test_lines_hold_what_the_object_holds(everything):
    report = json.loads(rendered("json", everything))
    kinds = Counter(json.loads(line)["kind"] for line in rendered("json-lines", everything).splitlines())
    schedules = [s for f in report["files"] for s in f["schedules"]]
    answers = [a for s in schedules for a in s["answers"]]
    assert kinds == Counter(
        run=1,
        summary=1,
        schedule=len(schedules),
        answer=len(answers),
        finding=sum(len(a["findings"]) for a in answers),
        expectation=sum(len(s["expectations"]) for s in schedules),
        error=sum(len(f["errors"]) for f in report["files"]),
    )


# ---- GitHub ---------------------------------------------------------------------------------------


def test_commands_are_escaped():
    d = Finding.of_input("IL101", "100% of\r\nthis, or: that\n::error::x", help="a\nb")
    command, last = render(
        "github", [], lambda path: None, unread=[Unread("a,b:c%.sched", (d,))]
    ).splitlines()
    assert command == (
        "::error title=Interlock (IL101),file=a%2Cb%3Ac%25.sched,line=1,col=1,endLine=1,endColumn=1::"
        "a,b:c%25.sched:1:1: IL101 100%25 of\\x0d%0A  this, or: that%0A  ::error::x%0A  help: a%0A  b"
    )
    assert last == "1 file: 1 not readable"


def test_ten_of_a_kind_then_a_count():
    many = [Unread(f"{i}.sched", (Finding.of_input("IL101", "torn"),)) for i in range(25)]
    open_ = [CaseResult(f"{i}.csv", "x", (Answer("pair", reason="?"),)) for i in range(11)]
    *commands, notice, last = render("github", open_, lambda path: None, unread=many).splitlines()
    assert Counter(c.split()[0] for c in commands) == {"::error": MOST, "::warning": MOST}
    assert (
        notice
        == "::notice title=Interlock::15 more errors and 1 more warning: GitHub shows 10 of a kind for each "
        "step. 36 files: 11 unknown, 25 not readable"
    )
    assert last == "36 files: 11 unknown, 25 not readable"


def test_places_of_several_lines_have_no_columns():
    results = run({"a.sched": "skeleton s(M) {\n}\n"})
    text = rendered("github", given(results))
    assert "line=1," in text
    for command in text.splitlines():
        line, end = re.search(r"line=(\d+)", command), re.search(r"endLine=(\d+)", command)
        if line and line[1] != end[1]:
            assert "col=" not in command and "endColumn" not in command


# ---- JUnit ----------------------------------------------------------------------------------------


def test_cases_of_junit(everything):
    suites = ElementTree.fromstring(rendered("junit", everything))
    assert [s.get("name") for s in suites] == list(FILES)
    assert {key: int(suites.get(key)) for key in ("tests", "failures", "errors")} == {
        "tests": 17,
        "failures": 7,
        "errors": 3,
    }
    cases = {(s.get("name"), c.get("name")): c for s in suites for c in s}
    assert len(cases) == 17 and all(c.get("classname") == path for (path, _), c in cases.items())
    failure = cases["runs/deadlock.sched", "sends_meet under pair"].find("failure")
    assert failure.get("type") == "IL402" and "^^^^^^^^" in failure.text
    unknown = cases["runs/unknown.sched", "open under pair"]
    assert unknown.find("error").get("type") == "unknown" and unknown.find("skipped") is None
    assert cases["runs/torn.sched", "read"].find("error").get("type") == "IL101"
    hoped = cases["runs/expected.sched", "hoped under rank"]
    assert hoped.find("failure") is None and hoped.find("system-out").text.startswith(
        "invalid as expected\n\nerror[IL402]"
    )
    assert cases["runs/unmet.sched", "unmet: expect invalid IL402"].find("failure").get("type") == "IL905"
    assert suites.get("time") == "1.750"


def test_what_xml_cannot_hold_is_shown():
    d = Finding.of_input("IL101", 'a\x00b\x1b[31m"<&>\ud800\ufffe', detail=("]]>\ttab",))
    told = render("junit", [], lambda path: None, unread=[Unread('\x01<&>".sched', (d,))])
    case = ElementTree.fromstring(told.encode()).find("testsuite/testcase")
    assert case.get("classname") == '\\x01<&>".sched'
    assert (
        case.find("error").get("message") == 'a\\x00b\\x1b[31m"<&>\\ud800\\ufffe'
        and "]]>    tab" in case.find("error").text
    )


# ---- paths ----------------------------------------------------------------------------------------


def test_paths_are_relative_to_the_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert relative(str(tmp_path / "a" / "b.sched")) == relative("./a/b.sched") == "a/b.sched"
    assert uri("a b/ä#%.sched") == "a%20b/%C3%A4%23%25.sched"
    assert uri("c:x.sched") == "c%3Ax.sched" and uri("../x.sched") == "../x.sched"
    assert uri("/elsewhere/x y.sched") == "file:///elsewhere/x%20y.sched"
    assert uri("\udcff.sched") == "%FF.sched"


# ---- what a gate acts on --------------------------------------------------------------------------


def test_findings_of_the_baseline_are_no_items(everything):
    checked, sources, more = everything
    known = [
        replace(
            c,
            answers=tuple(
                replace(a, findings=tuple(replace(f, known=True) for f in a.findings)) for a in c.answers
            ),
        )
        for c in checked
    ]
    assert {i.code for i in items(known, sources, **more)} == {"IL101", "IL901", "IL905"}


def answers(raised: bool, known: bool):
    """An answer of each verdict, with what the configuration raised or the baseline knows."""
    warning = Finding(
        "IL502",
        "R-MEM-2",
        "grows",
        severity=Severity.ERROR if raised else Severity.WARNING,
        raised=raised,
        known=known,
    )
    for verdict in Verdict:
        yield (
            verdict,
            (
                *(
                    (Finding("IL402", "R-COM-3", "deadlock", known=known),)
                    if verdict is Verdict.INVALID
                    else ()
                ),
                warning,
            ),
        )


def test_every_format_agrees_with_the_exit_code():
    """What fails a run is told in every format, and nothing is told as an error that does not."""
    codes = Counter()
    for raised, known in product((False, True), repeat=2):
        for (v, f), (w, g), hope in product(answers(raised, known), answers(raised, False), (None, *Verdict)):
            expectations = () if hope is None else (Expectation(hope, None, ("pair",), hope is v),)
            c = CaseResult(
                "a.sched", "a", (Answer("pair", v, findings=f), Answer("rank", w, findings=g)), expectations
            )
            excused = (
                known
                and v is Verdict.INVALID
                and w is Verdict.VALID
                and not raised
                and all(e.verdict is not Verdict.UNKNOWN for e in expectations)
            )
            c = replace(c, excused=excused) if known else c
            code = exit_code([c])
            codes[code] += 1
            found = list(items([c], lambda path: None))
            suites = ElementTree.fromstring(render("junit", [c], lambda path: None))
            told = (c, outcome(c), code, [(i.code, i.level) for i in found])
            worst = {i.level for i in found}
            assert code == 0 or worst, told
            assert code != 0 or "error" not in worst, told
            assert code != 1 or "error" in worst or c.excused is False, (
                told
            )  # beside what is known something may be unknown
            assert (int(suites.get("failures")) + int(suites.get("errors")) > 0) == (code != 0), told
            if code == 3:
                assert int(suites.get("errors")), told
    assert set(codes) == {0, 1, 3} and min(codes.values()) > 10


def test_concise_is_the_place_the_code_and_the_message():
    told = rendered(
        "concise", given(run({"a.sched": two_ranks("x", *SENDS_MEET)}, ("edge", "pair")))
    ).splitlines()
    assert told == [
        "a.sched:5:30: error[IL402] deadlock under `pair`: ranks 0 and 1 wait for each other",
        "a.sched: x: valid under edge (certificate checked by the kernel); invalid under pair: IL402",
        "1 file: 1 invalid",
    ]
