"""Every golden order of HyperParallel against the skeletons, operation by operation: all 3,064 cases, in
every run.

What is compared is the compute order: transfers, DATA steps and bubbles are left out (V = 1 `less_memory` has
1F1B's compute order
with other transfers). On purpose different, each with its own test:

* `less_memory` with V > 1 has no standard skeleton: interleaved with half the warmup slope, written here in
the language.
* `overflow: min` encodes on rank 0 what no other rank owns just before its forward; the transpose encodes all
as a prefix.
* `central` runs the encoder's backward on rank 0, again after the forward of the owner; the algebra runs it
on the owner.
* `owner` has no step for the encoder's backward of what rank 0 owns: it is part of BWD(m, 0).
"""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from interlock.algebra.elaborate import elaborate
from interlock.language.parse import parse
from interlock.program.kinds import Kind
from interlock.text import resources
from interlock.text.source import Sources

from .. import hyperparallel as golden

LESS_MEMORY = (
    resources.read_text("spec/std/interleaved.sched")
    .replace("skeleton interleaved", "skeleton less_memory")
    .replace("2*(P - 1 - r)", "(P - 1 - r)")
)
NAMES = {Kind.F: "F", Kind.B: "B", Kind.I: "B"}


def elaborated(P: int, M: int, cut: str, layers: int) -> list[list[tuple[str, int, int]]]:
    text = (
        f"{LESS_MEMORY}\nschedule s {{ ranks {P} microbatches {M} model {{ layer enc {{ }} layers "
        f"u[{layers}] {{ }} }} cut {{ {cut} }} }}"
    )
    sources = Sources()
    [schedule] = elaborate(parse(sources.add("s.sched", text)), sources)
    o = schedule.program.order
    rows = [(NAMES[Kind(k)], m, s) for k, m, s in zip(o.kind.tolist(), o.mb.tolist(), o.stage.tolist())]
    return [rows[o.start[r] : o.start[r + 1]] for r in range(P)]


@cache
def skeleton(P: int, M: int, V: int, written: str) -> list[list[tuple[str, int, int]]]:
    """The order of one skeleton alone (the encoder's layer goes to its first stage)."""
    return elaborated(P, M, f"x = enc, u : {written}", max(P * V - 1, 1))


@cache
def transposed(P: int, M: int, V: int, written: str) -> list[list[tuple[str, int, int]]]:
    """The order of <transpose, skeleton>: stage 0 is the encoder, stage s + 1 the skeleton's stage s."""
    return elaborated(P, M, f"e = enc : transpose  x = u : {written}", P * V)


def written(case: dict) -> str:
    """The skeleton a case, or its body, must equal."""
    match case["kind"]:
        case "gpipe" | "1f1b":
            return case["kind"]
    if case["less_memory"]:
        return "1f1b" if case["V"] == 1 else f"less_memory(chunks: {case['V']})"
    return f"interleaved(chunks: {case['V']})"


def test_the_skeleton_written_here_differs_in_its_warmup_only():
    assert (
        LESS_MEMORY.count("(V - 1)*first + (P - 1 - r)") == 1
        and "skeleton less_memory(P, M, V)" in LESS_MEMORY
    )


def test_the_compute_order_of_every_case_is_that_of_its_skeleton():
    equal, wrong = Counter(), []
    for case in golden.cases():
        ours, theirs = (
            skeleton(case["P"], case["M"], case["V"], written(case)),
            [golden.compute(r) for r in golden.steps(case)],
        )
        equal[case["kind"], written(case).split("(")[0]] += ours == theirs
        wrong += [golden.shown(case)] * (ours != theirs)
    assert not wrong, wrong[:5]
    assert equal == {
        ("gpipe", "gpipe"): 70,
        ("1f1b", "1f1b"): 70,
        ("interleaved1f1b", "interleaved"): 202,
        ("interleaved1f1b", "1f1b"): 70,
        ("interleaved1f1b", "less_memory"): 132,
        ("mpipe", "interleaved"): 1308,
        ("mpipe", "1f1b"): 420,
        ("mpipe", "less_memory"): 792,
    }
    assert sum(equal.values()) == 3064


def test_eager_is_what_hyperparallel_runs_at_one_chunk():
    shapes = {(c["P"], c["M"]) for c in golden.cases()}
    assert len(shapes) == 35 and all(
        skeleton(P, M, 1, "eager") == skeleton(P, M, 1, "interleaved(chunks: 1)") for P, M in shapes
    )


def mpipe(**wanted) -> list[dict]:
    return [c for c in golden.cases() if c["kind"] == "mpipe" and all(c[k] == v for k, v in wanted.items())]


def program_of(case: dict) -> list[list[tuple[str, int, int]]]:
    """A rank's work in a case, the encoder as stage 0, without encoder backwards."""
    out = []
    for rank in golden.steps(case):
        row = []
        for kind, m, s in map(str.split, rank):
            if kind == "MPIPE_TRANSPOSE_FWD":
                row.append(("F", int(m), 0))
            elif kind in ("FWD", "BWD"):
                row.append((kind[0], int(m), int(s) + 1))
        out.append(row)
    return [[("F" if k == "F" else "B", m, s) for k, m, s in row] for row in out]


def frozen(order):
    """Without the encoder's backwards."""
    return [[op for op in row if op[0] == "F" or op[2] > 0] for row in order]


def test_a_full_overflow_is_transpose_and_the_skeleton():
    """Encodes included, in all modes: 1,260 cases, of which 48 have no transposed layer at all (`dataonly`)."""
    equal = 0
    for case in mpipe(overflow="full"):
        ours, theirs = frozen(transposed(case["P"], case["M"], case["V"], written(case))), program_of(case)
        if case["mode"] == "dataonly":
            theirs = [
                [("F", m, 0) for m in range(case["M"]) if case["owner"][m] == r] + row
                for r, row in enumerate(theirs)
            ]
        assert ours == theirs, golden.shown(case)
        equal += 1
    assert equal == 1260 and all(
        c["owner"] == [m % c["P"] for m in range(c["M"])] for c in mpipe(overflow="full")
    )


def test_a_min_overflow_encodes_the_rest_on_rank_0_just_in_time():
    equal = different = 0
    for case in mpipe(overflow="min"):
        P, M = case["P"], case["M"]
        ours, theirs = frozen(transposed(P, M, case["V"], written(case))), program_of(case)
        if case["mode"] == "dataonly":
            assert not any(golden.encodes(r) for r in golden.steps(case))
            continue
        if M <= P:
            equal += ours == theirs
            continue
        different += 1
        assert case["owner"] == [m if m < P else 0 for m in range(M)]
        assert theirs[1:] == [[op for op in row if op[2] > 0 or op[1] < P] for row in ours[1:]], golden.shown(
            case
        )
        assert [op for op in theirs[0] if op[2] > 0] == [op for op in ours[0] if op[2] > 0]
        late = [i for i, op in enumerate(theirs[0]) if op[2] == 0 and op[1] >= P]
        assert all(theirs[0][i + 1] == ("F", theirs[0][i][1], 1) for i in late) and len(late) == M - P
    assert equal + different + len(mpipe(overflow="min", mode="dataonly")) == 1260
    assert (equal, different) == (
        sum(c["M"] <= c["P"] for c in mpipe(overflow="min") if c["mode"] != "dataonly"),
        1212 - equal,
    )


def test_encoder_backwards_on_the_owner_come_after_the_body_in_the_order_of_the_algebra():
    """And only there: what rank 0 owns has no step of its own."""
    for case in mpipe(mode="owner", overflow="full"):
        ours = transposed(case["P"], case["M"], case["V"], written(case))
        for r, (row, rank) in enumerate(zip(ours, golden.steps(case))):
            backward = [m for k, m, s in row if k == "B" and s == 0]
            assert row[len(row) - len(backward) :] == [("B", m, 0) for m in backward]
            assert golden.encoder_backwards(rank) == (backward if r else []), golden.shown(case)


def test_a_central_encoder_backward_follows_the_first_stage_s_on_rank_0():
    for case in mpipe(mode="central"):
        for r, rank in enumerate(golden.steps(case)):
            assert bool(golden.encoder_backwards(rank)) == (r == 0)
            for before, step in zip(rank, rank[1:]):
                kind, m, _ = step.split()
                assert kind != "MPIPE_TRANSPOSE_BWD" or before == f"BWD {m} 0", golden.shown(case)


@pytest.mark.parametrize("shape", [(4, 8, 2), (3, 5, 3)])
def test_less_memory_and_interleaved_are_two_orders(shape):
    P, M, V = shape
    assert skeleton(P, M, V, f"less_memory(chunks: {V})") != skeleton(P, M, V, f"interleaved(chunks: {V})")
