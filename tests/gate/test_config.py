"""spec/gate.md, "Configuration": where it is found, what it stands in for, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gate.scratch import BAD, CSV, GOOD, GROWS, RAISED, SPLIT_CSV
from interlock.gate import config, globs
from interlock.gate.waivable import is_waivable
from interlock.report import explain
from interlock.rules.waits import MODELS
from interlock.text.codes import CODES
from interlock.text.finding import InputError, Severity
from interlock.text.source import Sources

PAGE = (Path(__file__).parents[2] / "spec" / "gate.md").read_text(encoding="utf-8")
PYPROJECT = "[project]\nname = 'x'\n\n[tool.interlock]\n"


def read(tmp_path, text: str, name: str = "interlock.toml") -> config.Config:
    (tmp_path / name).write_text(text, encoding="utf-8")
    return config.read(str(tmp_path / name), Sources())


def wrong(tmp_path, text: str, name: str = "interlock.toml") -> list[tuple[str, str, str]]:
    """(line:column, message, help) of what is refused."""
    sources = Sources()
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        config.read(str(tmp_path / name), sources)
    assert {(d.code, d.rule) for d in caught.value.findings} == {("IL908", "R-GATE-3")}
    return [
        (":".join(map(str, sources.of(0).line_column(d.marks[0].span.at))), d.message, d.help)
        for d in caught.value.findings
    ]


# ---- what is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize("shows, text", re.findall(r"```toml (refused|taken)\n(.*?)```", PAGE, re.S))
def test_examples_of_the_page(tmp_path, shows, text):
    if shows == "taken":
        assert read(tmp_path, text, "pyproject.toml").models == ("pair", "rank")
    else:
        assert len(wrong(tmp_path, text, "pyproject.toml")) == 1


@pytest.mark.parametrize(
    "text, place, message, help",
    [
        ('modls = ["pair"]\n', "1:1", "there is no key `modls` for Interlock", "did you mean `models`?"),
        (
            'models = ["pair", "pears"]\n',
            "1:20",
            "there is no communication model `pears`",
            "did you mean `pair`?",
        ),
        ("models = [1]\n", "1:1", "`models` wants a list of texts", ""),
        ('targets = ["touch"]\n', "1:13", "there is no target `touch`", "did you mean `torch`?"),
        ('engine = "grap"\n', "1:11", "there is no engine `grap`", "did you mean `graph`?"),
        ("engine = 3\n", "1:10", "there is no engine `3`", "there are `both`, `graph`, `smt`"),
        ('# engine\nformat = "sarf"\n', "2:11", "there is no format `sarf`", "did you mean `sarif`?"),
        ('capacity = "80"\n', "1:13", "`capacity` wants a size", 'write `capacity = "80GiB"`'),
        ('capacity = "80GB/s"\n', "1:13", "`capacity` wants a size", 'write `capacity = "80GiB"`'),
        ("capacity = 80\n", "1:12", "`capacity` wants a size", 'write `capacity = "80GiB"`'),
        ('paths = "a"\n', "1:1", "`paths` wants a list of texts", 'write `paths = ["schedules"]`'),
        (
            'severity = "x"\n',
            "1:1",
            "`severity` wants a table",
            'write `[tool.interlock.severity]` and below it `IL502 = "error"`',
        ),
        ('[severity]\nIL502 = "errors"\n', "2:10", "there is no severity `errors`", "did you mean `error`?"),
        (
            '[severity]\nIL999 = "off"\n',
            "2:1",
            "there is no code `IL999`",
            "`interlock explain` lists the codes",
        ),
        (
            '[[allow]]\ncode = "IL502"\npath = "*"\nreason = "x"\n\n[[allow]]\ncode = "IL502"\npaths = '
            '"*"\npath = "a"\nreason = "x"\n',
            "8:1",
            "there is no key `paths` for a waiver",
            "did you mean `path`?",
        ),
        (
            '[[allow]]\ncode = "IL502"\npath = "*"\nreason = " "\n',
            "4:1",
            "this waiver has no reason",
            'write `reason = ".."`',
        ),
        (
            '[[allow]]\ncode = "IL402"\npath = "*"\nreason = "x"\n',
            "2:9",
            "`IL402` is an error of a rule: it can be neither waived nor turned down",
            "if the schedule is meant to be wrong, write `expect invalid IL402` in it",
        ),
        (
            "[severity\n",
            "1:10",
            "this is no TOML: expected ']' at the end of a table declaration",
            "--no-config leaves it out",
        ),
        ('models = ["pair"', "1:16", "this is no TOML: unclosed array", "--no-config leaves it out"),
    ],
)
def test_refused_with_its_place(tmp_path, text, place, message, help):
    assert wrong(tmp_path, text) == [(place, message, help)]


def test_everything_wrong_is_said_at_once(tmp_path):
    found = wrong(tmp_path, PYPROJECT + 'modls = 1\nengine = "x"\n', "pyproject.toml")
    assert [place for place, *_ in found] == ["5:1", "6:11"]


@pytest.mark.parametrize("value", ["warning", "note", "off"])
def test_no_error_of_a_rule_can_be_turned_down(tmp_path, value):
    errors = [c for c in CODES if not is_waivable(c)]
    assert len(errors) > 50 and {"IL301", "IL402", "IL501", "IL901", "IL902"} <= set(errors)
    found = wrong(tmp_path, "[severity]\n" + "".join(f'{c} = "{value}"\n' for c in errors))
    assert [place for place, *_ in found] == [f"{line}:1" for line in range(2, len(errors) + 2)]


def test_waivable_codes_are_those_of_the_headings():
    titles = {s.code: s.title for s in explain.sections()}
    assert {c for c in CODES if is_waivable(c)} == {
        c for c, t in titles.items() if t.endswith(("(warning)", "(note)"))
    }


def test_the_command_refuses_and_checks_nothing(run):
    done = run("check", "a.sched", {"a.sched": GOOD, "interlock.toml": 'modls = ["pair"]\n'})
    assert (
        (done.code, done.out) == (2, "")
        and "--> interlock.toml:1:1" in done.err
        and "did you mean `models`?" in done.err
    )
    assert run("check", "a.sched", "--no-config").code == 0
    assert run("check", "a.sched", "--config", "none.toml").code == 2
    done = run("check", "a.sched", "--config", "pyproject.toml", {"pyproject.toml": "[tool.other]\n"})
    assert done.code == 2 and "has no table `[tool.interlock]`" in done.err


# ---- where it is found ----------------------------------------------------------------------------------


def test_the_nearest_upward_from_the_common_folder(run):
    files = {
        "a/b/x.sched": GOOD,
        "a/c/y.sched": GOOD,
        "pyproject.toml": PYPROJECT + 'models = ["rank"]\n',
        "a/pyproject.toml": "[project]\nname = 'y'\n",
        "a/b/interlock.toml": 'models = ["edge"]\n',
    }

    def models(done):
        return [a["model"] for s in done.schedules for a in s["answers"]]

    assert models(run("check", "a/b/x.sched", "--format", "json", files)) == ["edge"]
    assert models(run("check", "a/b/x.sched", "a/c/y.sched", "--format", "json")) == ["rank", "rank"]
    assert models(run("check", "a", "--format", "json")) == ["rank", "rank"]
    assert models(run("check", "a/b/x.sched", "--no-config", "--format", "json")) == ["pair"]
    assert models(run("check", "a/b/x.sched", "--config", "pyproject.toml", "--format", "json")) == ["rank"]
    assert "configuration: a/b/interlock.toml" in run("check", "a/b", "--verbose").err
    run({"a/b/pyproject.toml": PYPROJECT + 'models = ["blocking"]\n'})
    assert models(run("check", "a/b/x.sched", "--format", "json")) == ["edge"]


def test_a_broken_pyproject_counts_only_if_it_speaks_of_interlock(run):
    assert run("check", "a.sched", {"a.sched": GOOD, "pyproject.toml": "[project\n"}).code == 0
    assert run("check", "a.sched", {"pyproject.toml": "[project\n[tool.interlock]\n"}).code == 2


# ---- what it stands in for ------------------------------------------------------------------------------


def test_the_command_line_wins(run):
    files = {
        "a.sched": GOOD,
        "interlock.toml": 'models = ["rank", "blocking"]\nformat = "json"\ntargets = '
        '["hyperparallel"]\nengine = "graph"\n',
    }

    def asked(done):
        return [a.get("model") or a["target"] for a in done.schedules[0]["answers"]]

    assert set(asked(run("check", "a.sched", files))) >= {"rank", "blocking", "hyperparallel"}
    assert "blocking" not in asked(run("check", "a.sched", "--comm", "rank"))
    assert "torch" in asked(run("check", "a.sched", "--target", "torch")) and "hyperparallel" not in asked(
        run("check", "a.sched", "--target", "torch")
    )
    assert run("check", "a.sched", "--format", "text").last == "1 file: 1 valid"
    assert set(
        asked(run("check", "a.sched", {"interlock.toml": 'models = "all"\nformat = "json"\n'}))
    ) == set(MODELS)


def test_default_capacity(run):
    sized = GOOD.replace("llm[4] { }", "llm[4] { activation 6MiB  weights 1MiB }")
    files = {
        "a.sched": sized,
        "own.sched": sized.replace("  cut", "  memory { capacity 1GiB }\n  cut"),
        "x.csv": CSV,
        "interlock.toml": 'capacity = "10MiB"\n',
    }
    done = run("check", "a.sched", "own.sched", "x.csv", "--format", "json", files)
    assert done.code == 1 and [s["verdict"] for s in done.schedules] == ["invalid", "valid", "valid"]
    assert {f["code"] for f in done.schedules[0]["answers"][0]["findings"]} == {"IL501"}
    assert run("check", "a.sched", {"interlock.toml": 'capacity = "80GiB"\n'}).code == 0
    assert (
        run("check", "a.sched", "--emit", "smt2", {"interlock.toml": 'capacity = "10MiB"\n'}).out.count(
            "10485760"
        )
        > 0
    )


def test_paths_and_exclude(run):
    files = {
        "s/a.sched": GOOD,
        "s/broken/b.sched": BAD,
        "t/c.csv": CSV,
        "interlock.toml": 'paths = ["s", "t/*.csv"]\nexclude = ["broken"]\n',
    }
    assert run("check", files).last == "2 files: 2 valid"
    assert run("check", "s").last == "1 file: 1 valid"
    assert run("check", "s/broken/b.sched").code == 1
    done = run("check", "s/broken/b.sched", "--force-exclude")
    assert (done.code, done.out, done.err) == (0, "", "nothing to check: the configuration excludes 1\n")
    assert run("check", "s/broken").code == 2
    assert run("check", {"interlock.toml": 'paths = ["u"]\n'}).code == 2
    assert run("check", "--no-config").code == 2


@pytest.mark.parametrize(
    "pattern, path, matches",
    [
        ("broken", "a/broken/b.sched", True),
        ("*.csv", "a/b.csv", True),
        ("a/*.csv", "a/b/c.csv", False),
        ("a/**/c.csv", "a/b/d/c.csv", True),
        ("a/**/c.csv", "a/c.csv", True),
        ("a/b", "a/b/c.csv", True),
        ("a/", "a/b", True),
        ("./a/b", "a/b", True),
        ("a?c", "abc", True),
        ("a.c", "abc", False),
        ("**/x", "x", True),
        ("a/**", "ab/c", False),
    ],
)
def test_patterns(pattern, path, matches):
    assert globs.matches(path, pattern) is matches


# ---- severities -----------------------------------------------------------------------------------------


def test_a_warning_made_an_error_is_not_allowed_and_still_valid(run):
    done = run("check", "a.sched", "--format", "json", {"a.sched": GROWS, "interlock.toml": RAISED})
    [s] = done.schedules
    assert (done.code, s["verdict"], s["outcome"], s["answers"][0]["claims"]) == (
        1,
        "valid",
        "not allowed",
        ["valid"],
    )
    assert [(f["code"], f["severity"], f["raised"]) for f in s["answers"][0]["findings"]] == [
        ("IL502", "error", True)
    ]
    text = run("check", "a.sched")
    assert (
        "valid under pair" in text.out
        and "error: not allowed by the configuration: IL502" in text.out
        and text.last == "1 file: 1 not allowed"
    )
    assert run("check", "a.sched", "--format", "github").out.startswith("::error ")


@pytest.mark.parametrize("value, severities", [("note", ["note"]), ("off", []), ("warning", ["warning"])])
def test_turned_down_and_off(run, value, severities):
    done = run(
        "check",
        "a.sched",
        "--format",
        "json",
        {"a.sched": GROWS, "interlock.toml": f'[severity]\nIL502 = "{value}"\n'},
    )
    assert (done.code, [f["severity"] for f in done.schedules[0]["answers"][0]["findings"]]) == (
        0,
        severities,
    )


@pytest.mark.parametrize("value", ["off", "note", "warning"])
def test_an_error_with_the_code_of_a_warning_stays_an_error(run, value):
    """IL502 under `require bounded_stash`."""
    text = GROWS.replace("  cut", "  require { bounded_stash }\n  cut")
    done = run(
        "check",
        "a.sched",
        "--format",
        "json",
        {
            "a.sched": text,
            "interlock.toml": f'[severity]\nIL502 = "{value}"\n[[allow]]\ncode = "IL502"\npath = '
            '"*"\nreason = "x"\n',
        },
    )
    assert (done.code, done.schedules[0]["verdict"]) == (1, "invalid")
    assert [f["severity"] for f in done.schedules[0]["answers"][0]["findings"]] == ["error"]


def test_warnings_of_elaboration_too(run):
    """IL211, which is no finding of a program."""
    [text] = [s.examples[0].text for s in explain.sections() if s.code == "IL211"]
    assert [
        w["code"]
        for w in run("check", "a.sched", "--format", "json", {"a.sched": text}).schedules[0]["warnings"]
    ] == ["IL211", "IL211"]
    done = run("check", "a.sched", "--format", "json", {"interlock.toml": '[severity]\nIL211 = "error"\n'})
    assert (done.code, done.schedules[0]["outcome"]) == (1, "not allowed")
    assert (
        run(
            "check", "a.sched", "--format", "json", {"interlock.toml": '[severity]\nIL211 = "off"\n'}
        ).schedules[0]["warnings"]
        == []
    )


# ---- waivers of the configuration -----------------------------------------------------------------------


def test_waivers_for_csvs(run):
    allow = '[[allow]]\ncode = "IL502"\npath = "g/*.csv"\nreason = "small"\n'
    files = {"g/x.csv": SPLIT_CSV, "h/x.csv": SPLIT_CSV, "interlock.toml": allow}
    done = run("check", "g", "h", "--format", "json", files)
    found = {
        f["path"]: (f["schedules"][0]["waived"], f["schedules"][0]["answers"][0]["findings"])
        for f in done.report["files"]
    }
    assert (
        done.code == 0
        and len(found["g/x.csv"][0]) == 1
        and not found["g/x.csv"][1]
        and not found["h/x.csv"][0]
        and found["h/x.csv"][1]
    )
    waived = found["g/x.csv"][0][0]
    assert (waived["code"], waived["reason"], waived["place"]["file"], waived["place"]["line"]) == (
        "IL502",
        "small",
        "interlock.toml",
        2,
    )
    assert "waived: IL502 because small" in run("check", "g", "--verbose").out
    assert run("check", "g").last == "1 file: 1 valid; 1 waived"


def test_a_waiver_of_the_configuration_that_waives_nothing(run):
    allow = '[[allow]]\ncode = "IL502"\npath = "g/*.csv"\nreason = "small"\n'
    done = run("check", "g", {"g/x.csv": CSV, "h/x.csv": CSV, "interlock.toml": allow})
    assert done.code == 0 and "warning[IL906]" in done.out and "--> interlock.toml:2:9" in done.out
    assert "IL906" not in run("check", "h").out, "its files were not checked"


def test_severity_names():
    assert set(config.SEVERITIES) == {s.value for s in Severity} | {"off"}
