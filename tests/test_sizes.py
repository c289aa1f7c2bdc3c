"""`assume` over sizes (spec/memory.md, R-MEM-4): decided at the upper ends, against sizes drawn from the
intervals and against the solver.
"""

from __future__ import annotations

import random
import re
from dataclasses import replace

import pytest

from interlock import load
from interlock.algebra.elaborate import SIZED
from interlock.algebra.standard import elaborate_text
from interlock.check.certificates import certificates
from interlock.check.files import check_file
from interlock.check.subject import write_transfers
from interlock.kernel import verify
from interlock.load import Question, assumed_sizes, at_upper_ends, layers_at
from interlock.program.facts import Facts
from interlock.rules.usage import Usage
from interlock.text import resources


def check(text: str, **options):
    result = check_file("s.sched", text.encode(), Question(**options))
    assert not result.errors, result.errors
    return result.checked[0]


def listed(more: str, layer: str = "activation 4MiB  weights 1MiB", capacity: str = "12MiB") -> str:
    """Two microbatches in flight of one layer: 2 MiB static and two activations."""
    return (
        f"schedule s {{ ranks 1 microbatches 2 model {{ layer a {{ {layer} }} }} memory {{ capacity "
        f"{capacity} }} {more}"
        " order transfers inserted { rank 0: 0F0 0F1 0B0 0B1 } }"
    )


@pytest.mark.parametrize(
    "more, verdict",
    [
        ("", "valid"),
        ("assume a.activation in [1MiB, 5MiB]", "valid"),
        ("assume a.activation in [1MiB, 6MiB]", "invalid"),
        ("assume a.weights in [0B, 2MiB]", "valid"),
        ("assume a.weights in [0B, 3MiB]", "invalid"),
        ("assume a.activation in [2MiB, 3MiB]  assume a.weights in [1MiB, 3MiB]", "valid"),
        ("assume a.workspace in [0B, 3MiB]", "invalid"),
    ],
)
@pytest.mark.parametrize("engine", ["graph", "both"])
def test_by_hand(more, verdict, engine):
    found = check(listed(more), engine=engine)
    assert found.verdict.value == verdict
    for answer in found.answers:
        assert [f.code for f in answer.errors] == ["IL501"] * (verdict == "invalid")
        assert certificates(answer) and all(
            j.accepted for document in certificates(answer) for j in verify(document)
        )


def test_what_a_finding_says():
    def message(more, **options):
        return check(listed(more), **options).answers[0].errors[0].message

    assert "at a.activation = 6 MiB (it breaks from 5.00 MiB on), while 0F1 runs" in message(
        "assume a.activation in [1MiB, 6MiB]"
    )
    assert "at a.activation = 6 MiB, and at every smaller value assumed" in message(
        "assume a.activation in [5.5MiB, 6MiB]"
    )
    assert "at a.activation = 3 MiB, a.weights = 4 MiB, while" in message(
        "assume a.activation in [2MiB, 3MiB]  assume a.weights in [1MiB, 4MiB]"
    )


def test_a_peak_required_and_sizes_for_each_image():
    text = listed(
        "images [1, 3]  assume a.activation in [1MiB per image, 2MiB per image]  require { peak <= %s }",
        capacity="1GiB",
    )
    assert check(text % "10MiB").verdict.value == "valid"
    found = check(text % "9MiB")
    assert (
        found.verdict.value == "invalid"
        and "at a.activation = 2 MiB per image (it breaks from 1.75 MiB on)"
        in found.answers[0].errors[0].message
    )


def test_what_logits_add_stays():
    layer = "activation 1MiB  vocabulary 1024  tokens 256"  # 1 MiB of logits
    text = listed("assume a.activation in [1MiB, %s]", layer).replace(
        "capacity 12MiB", "capacity 12MiB  logits 4B per vocabulary entry"
    )
    assert (
        check(text % "5MiB").verdict.value == "valid" and check(text % "5.01MiB").verdict.value == "invalid"
    )


def test_no_size_in_the_intervals_needs_more(request):
    """Peaks at random sizes, each layer its own, never exceed those at the upper ends: recomputation,
    freezing, W apart, hand-overs.
    """
    draw = random.Random(11)
    for _ in range(2000 if request.config.getoption("--thorough") else 60):

        def size():
            return draw.choice([0, 1, 7, 100])

        def layer():
            return " ".join(f"{p} {size()}B" for p in SIZED) + draw.choice(["", " recompute"])

        P, M = draw.choice([1, 2, 3]), draw.choice([1, 3, 5])
        skeleton = draw.choice(["1f1b", "gpipe", "zb_h1", "interleaved(chunks: 2)"])
        vit, cut = (
            (f"layers vit[2] {{ {layer()} }}", "e = vit : transpose") if draw.random() < 0.5 else ("", "")
        )
        assume = " ".join(
            f"assume {g}.{p} in [{size()}B, {100 + size()}B]"
            for g in ["u", *(["vit"] if vit else [])]
            for p in SIZED
            if draw.random() < 0.5
        )
        e = elaborate_text(
            f"schedule s {{ ranks {P} microbatches {M} model {{ {vit} layers u[{2 * P + 1}] {{ {layer()} }} "
            f"}} cut {{ {cut} x = u : {skeleton} }}"
            f" memory {{ capacity 1GiB  optimizer 8B per parameter sharded 3 }} "
            f"{'freeze u[0]' if draw.random() < 0.3 else ''} {assume} }}"
        )
        top = at_upper_ends(e)
        full = write_transfers(top.program, top.trained, top.comm_of)
        peaks = Usage(Facts(full)).peaks
        for _ in range(5):
            layers = list(full.layers)
            for a in assumed_sizes(e):
                for l in a.layers:  # each layer a value of its own
                    layers[l] = layers_at(
                        e, layers, {replace(a, layers=(l,)): draw.randint(a.low.value, a.high.value)}
                    )[l]
            assert all(x <= y for x, y in zip(Usage(Facts(replace(full, layers=tuple(layers)))).peaks, peaks))


def test_the_solver_contradicts_a_wrong_upper_end(monkeypatch):
    """With `--engine smt` z3 has a symbol for each size: it is not told which end is worst."""
    from interlock.check.obligation import Disagreement

    monkeypatch.setattr(
        load, "at_upper_ends", lambda schedule: schedule
    )  # as if the written sizes were the worst
    with pytest.raises(Disagreement):
        check(listed("assume a.activation in [1MiB, 6MiB]"), engine="smt")


@pytest.mark.parametrize(
    "requires, verdict",
    [
        ("makespan <= 21ms", "valid"),
        ("makespan < 21ms", "invalid"),
        ("bubble <= 1%", "invalid"),
        ("bubble <= 90%", "unknown"),
    ],
)
def test_times_that_depend_on_a_size(requires, verdict):
    """An output of 2 MB takes 2 ms: two microbatches in flight go there and back twice, 0F0 1F0 1B0 0B0 0F2
    1F2 1B2 1F3 1B3 0B3.
    """
    text = (
        "schedule s { ranks 2 microbatches 4 model { layers u[2] { forward 1ms  backward_input 1ms  "
        "backward_weight 1ms  output 1MB } } cut { x = u : 1f1b }"
        " link { bandwidth 1GB/s } assume u.output in [1MB, 2MB] require { %s } }"
    )
    found = check(text % requires)
    assert found.verdict.value == verdict
    if verdict == "invalid":
        assert "at u.output = 1.91 MiB" in found.answers[0].errors[0].message
    if verdict == "unknown":
        assert "for other sizes" in found.answers[0].reason
    if "bubble" in requires:
        assert (
            check((text % "bubble <= 90%").replace("link { bandwidth 1GB/s }", "")).verdict.value == "valid"
        )


def test_the_queries_of_a_file_have_the_upper_ends(tmp_path):
    from emitted import queries_of

    texts = {
        t.name: t.text for t in queries_of("s.sched", listed("assume a.activation in [1MiB, 6MiB]").encode())
    }
    assert str(6 * 2**20) in texts["s.mem"]


def test_the_examples_of_the_page():
    page = resources.read_text("spec/memory.md").split("## Sizes within intervals")[1].split("\n## ")[0]
    blocks = re.findall(r"```sched \w+\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        assert all(e.met for e in check(block).expectations)
