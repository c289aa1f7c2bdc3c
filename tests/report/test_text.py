"""What a person reads. The files in golden/ are the reports as they stand; look at them, and update them with
--update-golden.
"""

import pytest

from interlock.check.program import check_program
from interlock.check.verdict import Answer, CaseResult, Expectation, Verdict
from interlock.report import text
from interlock.report.outcome import Unread
from interlock.text.finding import Finding, Mark
from interlock.text.source import Sources, Span
from report.sample import COMPUTE, CROSSED, GPIPE, LAUNCHES, RING, TIGHT, TWO_RANKS, VEE, sample

ALL = ("buffered", "edge", "pair", "rank", "blocking")


def checked(source, models=("pair",), *expectations, path="vlm.sched", sources=None, **options):
    program, sources = sample(source, path=path, sources=sources, **options)
    name = source.split()[1]
    at = sources._sources[-1].base
    return CaseResult(
        path, name, check_program(program, models), expectations, at=at, width=len(f"schedule {name}")
    ), sources


def report(c, sources, **options):
    return text.render([c], lambda path: sources, **options)


@pytest.mark.parametrize("width", [80, 140])
@pytest.mark.parametrize(
    "name, source, models, options",
    [
        ("two_ranks", TWO_RANKS, ALL, {}),
        ("launches", LAUNCHES, ("edge", "pair"), {}),
        ("ring", RING, ("edge", "rank"), {"fragment": True}),
        ("compute", COMPUTE, ("pair", "rank"), {"inserted": True}),
        ("crossed", CROSSED, ("pair",), {}),
        ("memory", GPIPE, ("edge", "pair"), TIGHT),
        ("vee", VEE, ("edge", "pair"), {"place": [0, 1, 1, 0]}),
    ],
)
def test_golden(golden, name, source, models, options, width):
    c, sources = checked(source, models, **options)
    golden(f"{name}_{width}.txt", report(c, sources, width=width, box=width > 100))


def test_lines_fit_the_width():
    for source, options in ((TWO_RANKS, {}), (LAUNCHES, {}), (GPIPE, TIGHT)):
        c, sources = checked(source, ALL, **options)
        told = report(c, sources, width=80).splitlines()
        assert [l for l in told if len(l) > 80 and not l.startswith(("error", "vlm.sched: "))] == []


def test_verbose_tells_the_deadlock_of_every_model():
    c, sources = checked(TWO_RANKS, ("pair", "blocking"))
    assert report(c, sources).count("error[IL402]: deadlock under `pair` and `blocking`") == 1
    c, sources = checked(RING, ("rank", "blocking"), fragment=True)
    assert (
        report(c, sources, verbose=True).count(
            "error[IL402]: deadlock under `rank` and `blocking`: ranks 0, 1 and 2"
        )
        == 1
    )


def test_colour_changes_nothing_but_colour():
    c, sources = checked(TWO_RANKS, ALL)
    import re

    assert re.sub("\x1b\\[[0-9;]*m", "", report(c, sources, color=True)) == report(c, sources)


def test_run_over_many_files(golden):
    found, sources = [], Sources()
    for path, source, expectations in (
        ("a.sched", GPIPE, ()),
        ("b.sched", GPIPE, ()),
        ("bad.sched", TWO_RANKS, (Expectation(Verdict.INVALID, "IL402", (), True),)),
        ("hoped.sched", TWO_RANKS, (Expectation(Verdict.VALID, None, ("pair",), False),)),
    ):
        found.append(checked(source, ("pair",), *expectations, path=path, sources=sources)[0])
    found.append(
        CaseResult(
            "prove.sched",
            "family",
            (
                Answer(
                    "pair",
                    reason="the search for times was cut off after 10 s; --timeout 60 or fewer chunks "
                    "would decide it",
                ),
            ),
        )
    )
    torn = sources.add("torn.sched", "schedule x {\n  ranks two\n}\n")
    unread = Unread(
        "torn.sched",
        (
            Finding.of_input(
                "IL101",
                "a number is expected here",
                (Mark(Span(torn.base + 21, 3), "not a number"),),
                "write the number of ranks, as in `ranks 4`",
            ),
        ),
    )
    golden("many.txt", text.render(found, lambda path: sources, unread=[unread]))


def test_operations_without_a_place_are_named():
    c, _ = checked(GPIPE, ("pair",), inserted=False, **TIGHT)
    program = c.answers[0].program
    order = program.order
    from dataclasses import replace

    bare = replace(program, order=replace(order, at=order.at * 0 - 1))
    c = CaseResult("x.csv", "x", check_program(bare, ("pair",)))
    told = report(c, None)
    assert " --> x.csv\n" in told
    assert "= note: rank 0, operation 5: 0RECV_B0: peak of rank 0: 29 GiB" in told


def test_an_unknown_never_reads_like_success():
    c = CaseResult(
        "x.sched",
        "x",
        (Answer("pair", reason="z3 gave up; a smaller M would decide it"),),
        (Expectation(Verdict.UNKNOWN, met=True),),
    )
    told = text.render([c], lambda path: None)
    assert "x.sched: x: unknown under pair" in told and "z3 gave up; a smaller M would decide it" in told
    assert told.splitlines()[-1] == "1 file: 1 unknown"


def test_valid_without_a_certificate_says_so():
    c = CaseResult("x.sched", "x", (Answer("pair", Verdict.VALID),))
    assert "valid under pair (no certificate)" in text.render([c], lambda path: None)
