"""spec/report.schema.json and what `json` and `json-lines` write, over everything the repository has. The
schema leaves nothing open.
"""

import json
from pathlib import Path

import jsonschema
import pytest

from interlock import __version__
from interlock.check.files import check_file
from interlock.check.targets import TARGETS
from interlock.check.verdict import Answer, CaseResult, Verdict, Waived
from interlock.load import Question
from interlock.report import explain, render
from interlock.report.outcome import OUTCOMES
from interlock.rules.waits import MODELS
from interlock.text.finding import Severity
from report.run import FILES, given, run

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "spec/report.schema.json").read_text(encoding="utf-8"))
DEFS = SCHEMA["$defs"]


def validator(name: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": DEFS})


REPORT, KINDS = (
    validator("report"),
    {name.removesuffix("_line"): validator(name) for name in DEFS if name.endswith("_line")},
)


def agree(results) -> set[str]:
    """Asserts that both formats of a run are as the schema says. The kinds of line that came."""
    checked, sources, more = given(results)
    told = next(REPORT.iter_errors(json.loads(render("json", checked, sources, **more))), None)
    assert told is None, f"{told.json_path}: {told.message[:500]}"
    kinds = set()
    for text in render("json-lines", checked, sources, **more).splitlines():
        line = json.loads(text)
        told = next(KINDS[line["kind"]].iter_errors(line), None)
        assert told is None, f"{line['kind']} {told.json_path}: {told.message[:500]}"
        kinds.add(line["kind"])
    return kinds


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    whole = jsonschema.Draft202012Validator(SCHEMA)
    checked, sources, more = given(run({"runs/memory.sched": FILES["runs/memory.sched"]}))
    assert whole.is_valid(json.loads(render("json", checked, sources, **more)))
    assert all(
        whole.is_valid(json.loads(line))
        for line in render("json-lines", checked, sources, **more).splitlines()
    )


def test_nothing_is_left_open():
    """Every object of the schema that is not a part of others refuses what it does not name."""

    def objects(value, path=""):
        if isinstance(value, dict):
            if "properties" in value and value.get("type") == "object":
                yield path, value
            for key, inner in value.items():
                yield from objects(inner, f"{path}/{key}")
        elif isinstance(value, list):
            for i, inner in enumerate(value):
                yield from objects(inner, f"{path}/{i}")

    for path, found in objects(DEFS):
        closed = found.get("additionalProperties") is False or found.get("unevaluatedProperties") is False
        assert closed or path.endswith("_fields") or "propertyNames" in found, path
    for name in DEFS:
        if name.endswith("_fields"):
            assert any(
                name in json.dumps(d) and d.get("unevaluatedProperties") is False for d in DEFS.values()
            )


def test_it_names_what_the_program_knows():
    assert set(DEFS["model"]["enum"]) == set(MODELS)
    assert DEFS["outcome"]["enum"] == list(OUTCOMES)
    assert DEFS["verdict"]["enum"] == [v.value for v in Verdict]
    assert DEFS["severity"]["enum"] == [s.value for s in Severity]


def test_every_kind_of_answer():
    assert agree(run()) == set(KINDS) - {"warning"}
    report = json.loads(render("json", *given(run())[:2]))
    assert report["interlock"] == __version__


def test_cases_and_examples_for_every_model_and_target():
    paths = sorted(
        [
            *(ROOT / "tests/cases").glob("*.sched"),
            *(p for p in (ROOT / "examples").iterdir() if p.suffix in (".sched", ".csv")),
        ]
    )
    assert len(paths) > 35
    agree(
        [
            check_file(str(p.relative_to(ROOT)), p.read_bytes(), Question(MODELS, targets=tuple(TARGETS)))
            for p in paths
        ]
    )


def test_csvs():
    paths = sorted((ROOT / "tests/data/torch/cases").glob("*.csv"))[:25]
    agree([check_file(p.name, p.read_bytes()) for p in paths])


def test_the_examples_of_every_code():
    files = {f"{s.code}.{b.shows}.{b.language}": b.text for s in explain.sections() for b in s.examples}
    assert len(files) > 100
    kinds = agree(run(files))
    assert kinds == set(KINDS)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"schedule",
        b"schedule x {",
        b"skeleton s {}",
        "schedule \u202e { ranks 1e999 }".encode(),
        b"# expect: invalid IL999\nx",
        b"0F0,\x00",
    ],
)
def test_bad_input(data):
    agree(run({"bad.sched": data, "bad.csv": data}))


def test_what_is_no_number_and_what_is_waived():
    c = CaseResult(
        "a\udcff.sched",
        "a",
        (Answer("pair", reason="P < \ud800"), Answer("torch", target=True)),
        waived=(Waived("IL502", "grows", "known"),),
        excused=False,
    )
    report = json.loads(render("json", [c], lambda path: None))
    REPORT.validate(report)
    assert report["files"][0]["schedules"][0]["waived"][0]["reason"] == "known"


@pytest.mark.parametrize(
    "change",
    [
        lambda r: r.update(new=1),
        lambda r: r["files"][0].update(new=1),
        lambda r: r["files"][0]["schedules"][0].update(new=1),
        lambda r: r["files"][0]["schedules"][0]["answers"][0].update(new=1),
        lambda r: r.pop("interlock"),
        lambda r: r["files"][0]["schedules"][0]["answers"][0]["findings"][0]["places"][0].update(new=1),
        lambda r: r["files"][0]["schedules"][0]["answers"][0]["findings"][0]["figures"].update(new=1),
        lambda r: r["summary"].pop("unknown"),
        lambda r: r["files"][0]["schedules"][0].update(verdict="maybe"),
    ],
)
def test_a_change_of_the_output_is_seen(change):
    checked, sources, more = given(run({"runs/deadlock.sched": FILES["runs/deadlock.sched"]}))
    report = json.loads(render("json", checked, sources, **more))
    assert REPORT.is_valid(report)
    change(report)
    assert not REPORT.is_valid(report)
