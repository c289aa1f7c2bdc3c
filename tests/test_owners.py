"""`owner: any` (spec/algebra.md, R-OWN-2): against each owner map written out, and beyond what is checked one
by one.
"""

from __future__ import annotations

import re
from itertools import product

import pytest

from interlock.check import owner_maps as owners
from interlock.check.certificates import certificates
from interlock.check.files import check_file
from interlock.engine import owner_maps
from interlock.kernel import verify
from interlock.load import Question


def check(text: str, **options):
    result = check_file("s.sched", text.encode(), Question(**options))
    assert not result.errors, result.errors
    return result.checked[0]


def vlm(
    owner: str = "any",
    more: str = "",
    ranks: int = 2,
    microbatches: int = 3,
    vit: str = "",
    body: str = "1f1b",
) -> str:
    return (
        f"schedule s {{ ranks {ranks} microbatches {microbatches} model {{ layer vit {{ forward 2ms  "
        f"backward 4ms  activation 3MiB  output 1MiB {vit} }}"
        f" layers llm[{ranks}] {{ forward 1ms  backward 2ms  activation 1MiB  output 1MiB }} }} cut {{ enc "
        f"= vit : transpose(owner: {owner})  x = llm : {body} }} {more} }}"
    )


@pytest.mark.parametrize(
    "figure, vit, body",
    [
        ("makespan", "", "1f1b"),
        ("makespan", "frozen", "gpipe"),
        ("peak", "", "gpipe"),
        ("peak", "frozen", "1f1b"),
        ("exposure", "", "1f1b"),
    ],
)
def test_the_worst_of_the_maps_written_out(figure, vit, body):
    """`any` meets the largest figure of the maps and nothing below; what breaks it is one of them, told as if
    it were written.
    """
    unit = "B" if figure == "peak" else "ns"

    def failing(owner, limit):
        return (
            check(vlm(owner, f"require {{ {figure} <= {limit}{unit} }}", vit=vit, body=body))
            .answers[0]
            .errors
        )

    def value(error):
        return error.data["peak" if figure == "peak" else "value"]

    worst = max(value(failing(list(owner), 1)[0]) for owner in product(range(2), repeat=3))
    assert not failing("any", worst)
    (error,) = failing("any", worst - 1)
    named = [int(r) for r in re.match(r"with owners ([\d, ]+): ", error.message)[1].split(", ")]
    (same,) = failing(named, worst - 1)
    assert error.message.endswith(same.message) and error.code == same.code and value(error) == worst


def test_the_kernel_judges_every_map():
    (answer,) = check(vlm(more="memory { capacity 1GiB }")).answers
    maps = [tuple(d["program"]["stages"][0]["owner"]) for d in certificates(answer)]
    assert sorted(maps) == sorted(product(range(2), repeat=3))
    assert all(j.accepted for d in certificates(answer) for j in verify(d))
    assert [f.code for f in answer.findings if f.severity.value == "note"] == [
        "IL216"
    ] and "each of the 8" in answer.findings[-1].message


def test_late_gathers_under_every_map():
    """Hand-overs one by one on the backbone's communicator: the maps that hold and those that fail are those
    of the algebra page (rank 1 owns an m > 0).
    """
    text = vlm("any, gather: late, gather_on: default", vit="frozen")
    found = check(text).answers[0]
    assert found.verdict.value == "invalid" and re.match(
        r"with owners \d, (0, 1|1, \d): ", found.errors[0].message
    )
    assert check(text.replace("any, gather", "[1, 0, 0], gather")).verdict.value == "valid"
    assert check(vlm("any, gather: late", vit="frozen")).verdict.value == "valid"


def test_microbatches_that_do_not_visit_have_no_owner_to_vary():
    text = (
        vlm(vit="modality v")
        .replace("} }  }", "} } modality v in microbatches 1 }")
        .replace("x = llm : 1f1b }", "x = llm : 1f1b } modality v in microbatches 1")
    )
    assert "each of the 2" in check(text).answers[0].findings[-1].message


def test_more_maps_than_are_checked():
    many = dict(ranks=3, microbatches=9)
    (answer,) = check(vlm(**many), engine="graph").answers
    assert (
        answer.verdict.value == "valid" and "which the kernel does not judge" in answer.findings[-1].message
    )
    (open_,) = check(vlm(more="memory { capacity 1GiB }  require { makespan <= 1s }", **many)).answers
    assert (
        open_.verdict.value == "unknown"
        and "bytes, `makespan` for every owner map of `enc`: there are 3^9 of them" in open_.reason
    )
    (broken,) = check(
        vlm(more="require { makespan <= 65ms }", **many)
    ).answers  # one owner for all: 9 * (2 + 4) + ..
    assert broken.verdict.value == "invalid" and re.match(
        r"with owners (\d), (\1(, )?)+: ", broken.errors[0].message
    )


def test_more_late_gathers_than_are_checked():
    """tests/engine/test_owner_maps.py has the maps one by one."""
    many = dict(ranks=3, microbatches=9)
    answers = check(vlm("any, gather: late", **many), models=("buffered", "edge", "pair", "rank")).answers
    assert all(
        a.verdict.value == "valid" and "one set of times serves all 3^9" in a.findings[-1].message
        for a in answers
    )
    (stuck,) = check(
        vlm("any, gather: late, gather_on: s, scatter_on: s", "communicator s = ranks 0..2", **many),
        models=("rank",),
    ).answers
    assert (
        stuck.verdict.value == "invalid"
        and re.match(r"with owners [\d, ]+: deadlock", stuck.errors[0].message)
        and "with owners" in stuck.errors[0].data["cause"]
    )


def test_where_all_maps_are_not_decided(monkeypatch):
    late = vlm("any, gather: late", vit="frozen", ranks=3, microbatches=9)
    (answer,) = check(
        vlm("any", ranks=3, microbatches=9, body="1f1b  y = more : transpose").replace(
            "} } cut", "} layer more { } } cut"
        )
    ).answers
    assert answer.verdict.value == "unknown" and "one Replicated region, which comes first" in answer.reason
    own = (
        "skeleton mine(P, M) replicated { rank r { for m in 0 ..< M { if m mod P == r { F(m) } } body for "
        "m in owned(r) { B(m) } } } "
    )
    (answer,) = check(
        own + late.replace("transpose", "mine").replace("any", "[0, 1, 2, 0, 1, 2, 0, 1, 2]")
    ).answers
    assert answer.verdict.value == "valid"
    (answer,) = check(
        own.replace("if m mod P == r { F(m) }", "")
        .replace("{  }", "{ }")
        .replace("for m in 0 ..< M { }", "for m in owned(r) { if m < 99 { F(m) } }")
        + late.replace("transpose", "mine")
    ).answers
    assert answer.verdict.value == "unknown" and "its skeleton does more" in answer.reason
    monkeypatch.setattr(owners, "MOST_OPERATIONS", 1000)
    (answer,) = check(late).answers
    assert answer.verdict.value == "unknown" and "together of more than 1,000 operations" in answer.reason
    monkeypatch.undo()
    monkeypatch.setattr(owner_maps, "find_common_times", lambda programs, model: None)
    (answer,) = check(late).answers
    assert answer.verdict.value == "unknown" and "no fixed times serve all 3^9" in answer.reason


def test_every_freezing_of_every_map():
    assert check(vlm(more="for any freezing of vit")).verdict.value == "valid"
    (open_,) = check(
        vlm(more="for any freezing of vit", microbatches=6)
    ).answers  # 64 maps, each of which asks the solver
    assert open_.verdict.value == "unknown" and "`for any freezing`" in open_.reason


def test_figures_say_whose_they_are():
    assert "makespan, with owners 0, 1, 0" in check(vlm()).figures


def test_one_region_at_most():
    text = (
        "schedule s { ranks 2 microbatches 2 model { layer a { } layers b[2] { } layer c { } }"
        " cut { e = a : transpose(owner: any)  x = b : 1f1b  d = c : transpose(owner: any) } }"
    )
    (error,) = check_file("s.sched", text.encode()).errors
    assert error.code == "IL209" and "two regions" in error.message


def test_the_limits_are_those_of_the_page():
    assert (owners.MOST_MAPS, owners.MOST_SOLVED) == (256, 32)
