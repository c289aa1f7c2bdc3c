"""spec/gate.md, "Waivers": comments that let warnings and notes pass, and nothing else."""

from __future__ import annotations

import pytest

from gate.scratch import BAD, GOOD, GROWS, RAISED, WAIVER
from interlock.language.format import format


def codes(done) -> list[str]:
    return [f["code"] for s in done.schedules for a in s["answers"] for f in a["findings"]] + [
        w["code"] for s in done.schedules for w in s["warnings"]
    ]


@pytest.mark.parametrize(
    "text, waived",
    [
        (WAIVER + GROWS, True),
        (GROWS.replace("grows {", "grows {   # interlock: allow IL502 because it is small"), True),
        (WAIVER + "# and a further comment\n" + GROWS, True),
        ("# interlock: allow IL603, IL502 because it is small\n" + GROWS, True),
        ("#interlock:allow IL502 because it is small\n" + GROWS, True),
        (WAIVER + "\n" + GROWS, False),  # an empty line between them
        (GROWS.replace("  ranks", "  " + WAIVER + "  ranks"), False),
        ("# interlock: allow IL603 because it is small\n" + GROWS, False),
        ("# interlock: allow IL502\n" + GROWS, False),
        ("# interlock: allow IL502 because\n" + GROWS, False),
        ("# interlock: allow IL999 because it is small\n" + GROWS, False),
        ("# interlock: ignore IL502\n" + GROWS, False),
    ],
)
def test_where_and_how(run, text, waived):
    """What does not waive is reported as IL906, and the finding stays."""
    done = run("check", "a.sched", "--format", "json", {"a.sched": text})
    assert done.code == 0
    if "IL603," in text:
        assert codes(done) == ["IL906"] and len(done.schedules[0]["waived"]) == 1
    else:
        assert codes(done) == ([] if waived else ["IL502", "IL906"]), done.out
        assert len(done.schedules[0]["waived"]) == waived


def test_a_finding_at_an_operation(run):
    """On the line of the finding's primary place: IL502 of an explicit order marks the first W."""
    order = """schedule s {
  ranks 1
  microbatches 3
  order transfers inserted {
    rank 0: 0F0 0I0 0F1 0I1 0F2 0I2
            0W0 0W1 0W2
  }
}
"""
    place = "            0W0"
    assert codes(run("check", "a.sched", "--format", "json", {"a.sched": order})) == ["IL502"]
    comment = "# interlock: allow IL502 because three fit\n"
    assert (
        codes(
            run(
                "check",
                "a.sched",
                "--format",
                "json",
                {"a.sched": order.replace(place, f"            {comment}{place}")},
            )
        )
        == []
    )
    assert (
        codes(
            run(
                "check", "a.sched", "--format", "json", {"a.sched": order.replace("0W2\n", f"0W2  {comment}")}
            )
        )
        == []
    )
    assert codes(
        run(
            "check",
            "a.sched",
            "--format",
            "json",
            {"a.sched": order.replace("    rank 0", f"    {comment}    rank 0")},
        )
    ) == ["IL502", "IL906"]


def test_of_two_schedules_the_one_it_stands_at(run):
    done = run(
        "check",
        "a.sched",
        "--format",
        "json",
        {"a.sched": WAIVER + GROWS + "\n" + GROWS.replace("grows", "other")},
    )
    assert [len(s["waived"]) for s in done.schedules] == [1, 0] and codes(done) == ["IL502"]
    done = run("check", "a.sched", "--format", "json", {"a.sched": GROWS + WAIVER + GOOD})
    assert [[w["code"] for w in s["warnings"]] for s in done.schedules] in ([["IL906"], []], [[], ["IL906"]])


@pytest.mark.parametrize("code", ["IL307", "IL402", "IL501", "IL101", "IL901", "IL902", "IL907"])
def test_an_error_cannot_be_waived(run, code):
    """The file is refused; with `expect invalid` it says what it means."""
    done = run("check", "a.sched", {"a.sched": f"# interlock: allow {code} because it never hung\n" + BAD})
    assert done.code == 2 and "error[IL907]" in done.out and "a.sched:1:1" in done.out
    if code == "IL307":
        assert "write `expect invalid IL307` in it" in done.out
        done = run("check", "a.sched", {"a.sched": BAD.replace("  order", "  expect invalid IL307\n  order")})
        assert done.code == 0 and "invalid as expected" in done.last


def test_a_waiver_never_touches_a_verdict(run):
    done = run(
        "check",
        "a.sched",
        "--format",
        "json",
        {"a.sched": "# interlock: allow IL502, IL603 because it never hung\n" + BAD},
    )
    assert (done.code, done.schedules[0]["verdict"], done.schedules[0]["outcome"]) == (
        1,
        "invalid",
        "invalid",
    )


def test_a_raised_warning_can_be_waived(run):
    done = run(
        "check",
        ".",
        {"a.sched": WAIVER + GROWS, "b.sched": GROWS.replace("grows", "other"), "interlock.toml": RAISED},
    )
    assert done.code == 1 and done.last == "2 files: 1 valid, 1 not allowed; 1 waived"
    assert run("check", "a.sched").code == 0


def test_stale_waivers_can_be_made_errors(run):
    done = run(
        "check", "a.sched", {"a.sched": WAIVER + GOOD, "interlock.toml": '[severity]\nIL906 = "error"\n'}
    )
    assert done.code == 1 and "error[IL906]" in done.out


def test_not_stale_where_nothing_was_decided(run):
    """A requirement left open, and a rule of a target that was not asked."""
    done = run(
        "check", "a.sched", {"a.sched": WAIVER + GOOD.replace("  cut", "  require { bubble <= 12% }\n  cut")}
    )
    assert done.code == 3 and "IL906" not in done.out
    allow = "# interlock: allow IL814 because there are few\n"
    assert "IL906" not in run("check", "b.sched", {"b.sched": allow + GOOD}).out
    assert "IL906" in run("check", "b.sched", "--target", "hyperparallel").out


def test_a_comment_within_a_string_is_none(run):
    done = run("check", "b.sched", {"b.sched": f'use "# interlock: allow IL402 because.sched"\n{GOOD}'})
    assert done.code == 2 and "IL907" not in done.out


def test_the_formatter_keeps_them(run):
    for text in (
        WAIVER + GROWS,
        GROWS.replace("grows {", "grows {   # interlock: allow IL502 because it is small"),
    ):
        assert codes(run("check", "a.sched", "--format", "json", {"a.sched": format(text)})) == []
