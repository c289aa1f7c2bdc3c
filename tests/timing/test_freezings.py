"""Bubble and exposure for every freezing (spec/cost.md, R-DUR-2), against all 2^k of them."""

from __future__ import annotations

import itertools
import random
import re
from dataclasses import replace

from interlock.algebra.machine import machine_of
from interlock.algebra.standard import elaborate_text
from interlock.check.certificates import certificates
from interlock.check.files import check_file
from interlock.load import Question
from interlock.program.transfers import restrict
from interlock.text import resources
from interlock.timing.durations import compute_durations
from interlock.timing.exposure import compute_exposure
from interlock.timing.figures import compute_figures
from interlock.timing.freezings import FREEZINGS_LIMIT, distinct_freezings, name_layers
from interlock.timing.simulate import simulate


def check(text: str, **options):
    result = check_file("s.sched", text.encode(), Question(**options))
    assert not result.errors, result.errors
    return result.checked[0]


def values(e, trained):
    program = restrict(
        e.trained,
        tuple(
            replace(l, trainable=i not in e.freezing or i in trained) for i, l in enumerate(e.trained.layers)
        ),
    )
    found = compute_durations(program, e.times, machine_of(e))
    timeline = simulate(program, found, critical=False)
    return (
        compute_figures(timeline).bubble,
        timeline.makespan,
        compute_exposure(program, found).exposed if program.stages[0].replicated else 0,
    )


def test_the_classes_are_all_that_differs(request):
    """Every value that one of the 2^k freezings has, a class has, and the reverse."""
    draw = random.Random(5)
    for _ in range(400 if request.config.getoption("--thorough") else 8):

        def us():
            return f"{draw.randint(0, 9)}us"

        def maybe(text, share=0.3):
            return text if draw.random() < share else ""

        P, mod, proj, encodes = (
            draw.choice([1, 2, 3]),
            maybe("modality v"),
            maybe("p", 0.5),
            draw.random() < 0.7,
        )

        def times():
            return f"forward {us()}  backward_input {us()}  backward_weight {us()}"

        model = f"layers vit[{draw.randint(1, 3)}] {{ {times()} {mod} {maybe('recompute')} }} " + (
            f"layer p {{ {times()} {mod} }}" if proj else ""
        )
        front = "vit, p" if proj else "vit"
        cut = (
            f"e = {front} : transpose  x = u : 1f1b"
            if encodes
            else f"x = {front}, u : {draw.choice(['1f1b', 'gpipe', 'zb_h1'])}"
        )
        e = elaborate_text(
            f"schedule s {{ ranks {P} microbatches {draw.choice([2, 5])} model {{ {model} layers u[{P + 2}] "
            f"{{ {times()} output 1MB }} }} cut {{ {cut} }}"
            f" {'modality v in microbatches 0, 1' if mod else ''} {maybe('link { latency 1us }')} device {{ "
            f"{maybe('overhead 1us')} {maybe('speed 0.7 on ranks 0')} }}"
            f" for any freezing of {front}{maybe(', u[0..1]', 0.5)} }}"
        )
        few = list(distinct_freezings(e.trained, e.freezing, list(e.times)))
        assert len(few) == len(set(few)) and few[0] == frozenset(e.freezing) and few[1] == frozenset()
        every = {
            values(e, frozenset(c))
            for n in range(len(e.freezing) + 1)
            for c in itertools.combinations(e.freezing, n)
        }
        assert {values(e, c) for c in few} == every


def test_how_many_there_are():
    e = elaborate_text(
        "schedule s { ranks 2 microbatches 2 model { layers vit[24] { forward 1ms } layer proj { } layers "
        "llm[2] { } }"
        " cut { e = vit, proj : transpose  x = llm : 1f1b } for any freezing of vit, proj }"
    )
    assert len(list(distinct_freezings(e.trained, e.freezing, list(e.times)))) == 602


def vlm(requires: str, vit: int = 3, more: str = "") -> str:
    return (
        f"schedule s {{ ranks 2 microbatches 4 model {{ layers vit[{vit}] {{ forward 1ms  backward_input "
        f"1ms  backward_weight 1ms }} layer proj {{ forward 1ms  backward_input 1ms  backward_weight "
        f"1ms }}"
        f" layers llm[2] {{ forward 2ms  backward_input 2ms  backward_weight 2ms }} }} cut {{ e = vit, proj "
        f": transpose  x = llm : 1f1b }}"
        f" for any freezing of vit, proj {more} require {{ {requires} }} }}"
    )


def test_a_bound_that_only_some_freezing_breaks():
    """The bound is the value with everything trained: what breaks it is told with what is frozen, and checks
    so when declared.
    """
    e = elaborate_text(vlm(""))
    trained = values(e, frozenset(e.freezing))[0]
    worst = max(values(e, frozenset(c))[0] for n in range(5) for c in itertools.combinations(e.freezing, n))
    assert trained < worst

    def share(x, up):
        return -(-x.numerator * 10**6 // x.denominator) + up

    assert check(vlm(f"bubble <= {share(worst, 1) / 10**4}%")).verdict.value == "valid"
    found = check(vlm(f"bubble <= {share(trained, 1) / 10**4}%"))
    (finding,) = found.answers[0].errors
    assert finding.code == "IL703" and not certificates(found.answers[0])
    frozen = re.search(r"with (.*) frozen", finding.message)[1]
    declared = vlm(f"bubble <= {share(trained, 1) / 10**4}%").replace(
        "for any freezing of vit, proj", f"freeze {frozen}"
    )
    assert check(declared).answers[0].errors[0].data["value"] == finding.data["value"]


def test_exposure_and_models():
    e = elaborate_text(vlm(""))
    worst = max(values(e, frozenset(c))[2] for n in range(5) for c in itertools.combinations(e.freezing, n))
    assert (
        check(vlm(f"exposure <= {worst}ns")).verdict.value == "valid"
        and check(vlm(f"exposure < {worst}ns")).verdict.value == "invalid"
    )
    two = check(vlm("bubble <= 90%  exposure <= 1s", more="comm pair, rank"))
    assert [a.verdict.value for a in two.answers] == ["valid", "valid"]


def test_too_many_are_left_open(monkeypatch):
    monkeypatch.setattr("interlock.check.durations.FREEZINGS_LIMIT", 10)
    found = check(vlm("bubble <= 90%"))
    assert (
        found.verdict.value == "unknown"
        and "more than 10 of them differ" in found.answers[0].reason
        and FREEZINGS_LIMIT == 1024
    )


def test_with_durations_assumed():
    text = vlm("bubble <= %s", vit=2, more="assume llm.forward in [1ms, 3ms]")
    assert check(text % "90%").verdict.value == "valid"
    found = check(text % "20%").answers[0].errors[0]
    assert "frozen" in found.message and "llm.forward = " in found.message


def test_a_makespan_where_overlaps_have_durations_of_their_own():
    """An overlap of 1 ms is shorter than its forward alone: without the backward, frozen, the step is longer."""
    text = (
        "schedule s { ranks 1 microbatches 2 model { layer a { forward 5ms  backward_input 5ms  "
        "backward_weight 5ms } layer b { forward 5ms  backward_input 5ms  backward_weight 5ms } }"
        " device { overlap 1ms } place { rank 0: 0, 1 } %s"
        " require { makespan <= %s } order transfers inserted { rank 0: 0F0 1F0 1B0 overlap(0F1 0B0) 1F1 "
        "1B1 0B1 } }"
    )
    e = elaborate_text(text % ("for any freezing of a", "1s"))
    every = {}
    for frozen in (False, True):
        program = restrict(
            e.program,
            tuple(replace(l, trainable=not (frozen and i == 0)) for i, l in enumerate(e.program.layers)),
        )
        every[frozen] = simulate(program, compute_durations(program, e.times, machine_of(e))).makespan
    limit = f"{max(every.values()) - 1}ns"
    assert check(text % ("for any freezing of a", limit)).verdict.value == "invalid"
    assert check(text % ("for any freezing of a", f"{max(every.values())}ns")).verdict.value == "valid"


def test_names_of_layers():
    e = elaborate_text(vlm(""))
    assert (
        name_layers(e.program, [0, 1, 2, 3]) == "vit, proj"
        and name_layers(e.program, [0, 2]) == "vit[0], vit[2]"
        and name_layers(e.program, [1, 2, 4, 5]) == "vit[1..2], llm"
    )
    assert name_layers(e.program, []) == "nothing"


def test_the_examples_of_the_page():
    page = resources.read_text("spec/cost.md").split("## Every freezing")[1].split("\n## ")[0]
    blocks = re.findall(r"```sched \w+\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        assert all(e.met for e in check(block).expectations)
        assert check(block.replace("for any freezing of vit", "")).verdict.value == "valid"
