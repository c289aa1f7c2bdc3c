"""Plans: read back as written, refused where they were changed, and written for verified programs only."""

from __future__ import annotations

import hashlib
import json

import pytest

from command import ROOT, interlock, start_interlock
from interlock.check import certificates as certificate_files
from interlock.check.files import Ruling
from interlock.check.verdict import Answer, CaseResult, Verdict
from interlock.interchange import plan as plans
from interlock.kernel import verify
from interlock.load import case_of
from interlock.lower import backends
from interlock.lower.lowering import LoweringRefused, lower
from interlock.program.plain import plain_form

from ..runtime.support import lowered, schedule

VLM = (ROOT / "examples" / "vlm.sched").read_text()


@pytest.fixture(scope="module")
def vlm():
    return lowered(VLM)


def test_a_plan_reads_back(vlm):
    again = plans.loads(vlm.text)
    assert plans.describe_difference(vlm.plan.program, again.program) == "" and (
        again.name,
        again.target,
        again.rewrites,
    ) == ("vlm", "torch", ("early_transfers",))
    assert plans.dumps(again) == vlm.text and again.sha256 == hashlib.sha256(vlm.text.encode()).hexdigest()


def test_lines_name_operations(vlm):
    text = vlm.text.splitlines()
    for r, (lines, ranks) in enumerate(zip(vlm.plan.lines, json.loads(vlm.text)["ranks"], strict=True)):
        assert [json.loads(text[n - 1].rstrip(",")) for n in lines] == ranks, r


def test_a_rank_without_operations_keeps_the_lines_right():
    text = (
        "schedule s { ranks 3 microbatches 1 order transfers inserted reductions written { rank 0: 0F0 "
        "0B0 0REDUCE rank 1: rank 2: 1F0 1B0 1REDUCE } }"
    )
    found = lowered(text, "json")
    assert [len(x) for x in found.plan.lines] == [6, 0, 6] and plans.describe_difference(
        plans.loads(found.text).program, found.plan.program
    ) == ""
    lines = found.text.splitlines()
    assert all(lines[n - 1].startswith('{"do"') for rank in found.plan.lines for n in rank)


@pytest.mark.parametrize(
    "before, after",
    [
        ("interlock.plan/1", "interlock.plan/2"),
        ('"to":"local"', '"to":"wire"'),
        ('"cross":false', '"cross":true'),
        ('"peer":1', '"peer":2'),
        ('"drop":true', '"drop":false'),
        ('"do":"B"', '"do":"F"'),
        ('"do":"RECV_F"', '"do":"NONE"'),
        ('"ranks":4', '"ranks":3'),
        ('"stage":1,', ""),
        ("{", "["),
        ('"mb":1,', '"mb":99,'),
        ('"rank":3', '"rank":2'),
        ('"name"', '"nom"'),
    ],
)
def test_what_was_changed_is_refused(vlm, before, after):
    assert before in vlm.text
    with pytest.raises(plans.PlanError) as error:
        plans.loads(vlm.text.replace(before, after, 1))
    assert error.value.code == "IL845"


def test_the_certificate_is_the_plan_s_own(tmp_path):
    out, folder = tmp_path / "vlm.plan", tmp_path / "certificates"
    done = interlock(
        "lower",
        ROOT / "examples" / "vlm.sched",
        "--to",
        "torch",
        "-o",
        out,
        "--certificate",
        folder,
        "--comm",
        "rank",
    )
    assert done.code == 0 and not done.out
    plan = plans.loads(out.read_text())
    assert set(plan.certificates) == {"pair", "rank"}
    for model, digest in plan.certificates.items():
        path = folder / f"vlm.torch.{model}.cert"
        assert hashlib.sha256(path.read_bytes()).hexdigest() == digest
        document = certificate_files.read(path)
        assert all(j.accepted for j in verify(document)) and document["program"] == plain_form(plan.program)


@pytest.mark.parametrize(
    "text, code, said",
    [
        (
            "schedule s { ranks 2 microbatches 1 order transfers inserted { rank 0: 0F0 0B0 rank 1: 1B0 1F0 "
            "} }",
            1,
            "IL301",
        ),
        (
            "schedule s { ranks 2 microbatches 1 order transfers inserted { rank 0: 0F0 0B0 rank 1: 1B0 1F0 "
            "} expect invalid IL301 }",
            1,
            "as it is expected to be",
        ),
        ("schedule s { ranks 2 fragment trace { rank 0: send(1, x) rank 1: recv(0, x) } }", 3, "fragment"),
        (
            "schedule s { ranks 2 microbatches 2 model { layers u[2] { } } cut { a = u : 1f1b } expect "
            "invalid }",
            1,
            "not as it is expected",
        ),
    ],
)
@pytest.mark.parametrize("to", ["json", "torch-csv"])
def test_an_unverified_program_is_not_lowered(tmp_path, text, code, said, to):
    path, out = tmp_path / "s.sched", tmp_path / "out"
    path.write_text(text)
    done = interlock("lower", path, "--to", to, "-o", out)
    assert (done.code, done.out, out.exists()) == (code, "", False), done.text
    assert "error[IL843]" in done.err and said in done.err


@pytest.mark.parametrize("verdict", [Verdict.UNKNOWN, Verdict.VACUOUS])
@pytest.mark.parametrize("models", [("pair",), ("buffered", "pair")])
def test_unknown_and_vacuous_are_no_verdicts_to_run_by(verdict, models):
    answers = (
        *(Answer(m, Verdict.VALID) for m in models[1:]),
        Answer(models[0], verdict, reason="the search gave up"),
    )
    with pytest.raises(LoweringRefused) as refused:
        lower(Ruling(case_of(None), CaseResult("s.sched", "s", answers)), backends.find("json"))
    assert (refused.value.code, refused.value.exit) == ("IL843", 3) and "the search gave up" in str(
        refused.value
    )
    with pytest.raises(LoweringRefused) as refused:
        lower(Ruling(case_of(None), CaseResult("s.sched", "s", ())), backends.find("json"))
    assert refused.value.exit == 3


def test_usage(tmp_path):
    path = tmp_path / "s.sched"
    path.write_text(
        schedule("1f1b", 2, 2).replace("schedule s", "schedule a")
        + schedule("gpipe", 2, 2).replace("schedule s", "schedule b")
    )
    for args, said in (
        (("--to", "nothing"), "there is no back end 'nothing'"),
        (("--to", "json"), "has several schedules"),
        (("--to", "json", "--schedule", "c"), "has no schedule 'c'"),
    ):
        done = interlock("lower", path, *args)
        assert done.code == 2 and said in done.err and not done.out
    done = interlock("lower", path, "--to", "json", "--schedule", "b")
    assert done.code == 0 and plans.loads(done.out).name == "b"
    path.write_text("schedule {")
    assert interlock("lower", path, "--to", "json").code == 2


def test_others_register_back_ends(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from interlock.lower.neutral import Json\nclass Mine(Json):\n    name = 'mine'\n    def "
        "write(self, plan, program):\n"
        "        return super().write(plan, program) + ' '\nBACKEND = Mine()\nclass Bad(Json):\n    name = "
        "'bad'\n    def write(self, plan, program):\n"
        "        return super().write(plan, program).replace('\"back\":true', '\"back\":false', 1)\nBAD = "
        "Bad()\n"
    )
    info = tmp_path / "mine-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[interlock.backends]\nmine = mine:BACKEND\nbad = mine:BAD\ngone = nothing:BACKEND\n"
    )
    path = tmp_path / "s.sched"
    path.write_text(schedule("1f1b", 2, 2))
    where = {"PYTHONPATH": f"{ROOT / 'checker'}:{tmp_path}"}
    done = start_interlock("lower", path, "--to", "mine", **where)
    assert done.code == 0 and json.loads(done.out)["target"] == "mine"
    done = start_interlock("lower", path, "--to", "gone", **where)
    assert done.code == 2 and "cannot be loaded" in done.err
    done = start_interlock("lower", path, "--to", "bad", **where)
    assert done.code == 101 and "IL841" in done.err and not done.out


def test_a_rewrite_that_would_break_the_plan_is_left_out(monkeypatch):
    """One for speed is, with a note; one the target needs is an error."""
    from interlock.lower import rewrites
    from interlock.lower.neutral import Json
    from interlock.lower.rank_rows import rows_of, with_rows

    back_to_front = rewrites.Rewrite(
        "back_to_front",
        lambda p, trained: with_rows(p, [rank[::-1] for rank in rows_of(p)]),
        lambda before, after: "",
    )
    greedy = rewrites.Rewrite("greedy", back_to_front.apply, rewrites.TRAINERS.check)
    for needed, rewrite, code in (
        (False, back_to_front, None),
        (True, back_to_front, "IL842"),
        (False, greedy, "IL841"),
    ):
        monkeypatch.setattr(Json, "rewrites", lambda self, program, options: [(rewrite, needed)])
        if code is None:
            found = lowered(schedule("1f1b", 2, 3), "json")
            assert (
                found.plan.rewrites == ()
                and "back_to_front was left out" in found.notes[0]
                and "IL301" in found.notes[0]
            )
        else:
            with pytest.raises(LoweringRefused) as refused:
                lowered(schedule("1f1b", 2, 3), "json")
            assert refused.value.code == code


def test_built_in_back_ends_are_found():
    assert set(backends.names()) >= {"json", "torch", "torch-csv"} and all(
        backends.find(n).name == n for n in backends.BUILT_IN
    )
