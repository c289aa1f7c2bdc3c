"""Compositions of skeletons over a grid of ranks and microbatches: the orders they derive are pinned, and
valid under all five models.

tests/algebra/golden/NAME.txt has a paragraph for each P and M, a line for each rank; `pytest --update-golden`
rewrites them.
"""

from __future__ import annotations

from itertools import product

import pytest

from interlock.check.program import check_program
from interlock.check.verdict import Verdict
from interlock.program.facts import Facts
from interlock.program.transfers import insert
from interlock.rules.waits import MODELS

from . import judging

COMPOSITIONS = (
    "1f1b",
    "1f1b,1f1b",
    "1f1b,1f1b,1f1b",
    "gpipe,gpipe",
    "transpose,1f1b",
    "transpose,1f1b,1f1b",
    "1f1b,transpose,1f1b",
    "1f1b,gpipe",
    "gpipe,1f1b",
    "transpose,gpipe",
    "1f1b,transpose",
    "transpose,1f1b,transpose",
)
GRID = tuple(product(range(2, 5), range(1, 7)))
each = pytest.mark.parametrize("skeletons", COMPOSITIONS)


def text(skeletons: str, P: int, M: int) -> str:
    names = skeletons.split(",")
    layers = " ".join(f"layers u{i}[{P}] {{ }}" for i in range(len(names)))
    cut = "  ".join(f"r{i} = u{i} : {name}" for i, name in enumerate(names))
    return f"schedule s {{ ranks {P} microbatches {M} model {{ {layers} }} cut {{ {cut} }} }}"


@pytest.fixture(scope="module")
def derived():
    """All of a composition's programs, made once."""
    known: dict[str, dict] = {}

    def of(skeletons: str):
        if skeletons not in known:
            known[skeletons] = {(P, M): judging.schedule(text(skeletons, P, M)) for P, M in GRID}
        return known[skeletons]

    return of


@each
def test_golden(derived, skeletons, golden):
    blocks = []
    for (P, M), schedule in derived(skeletons).items():
        lines = [f"rank {r}: {' '.join(ops)}" for r, ops in enumerate(judging.rows(schedule.program))]
        blocks.append("\n".join([f"P={P} M={M}", *lines]))
    golden(f"{skeletons.replace(',', '-')}.txt", "\n\n".join(blocks) + "\n")


@each
def test_valid_under_all_models(derived, skeletons):
    """As compute orders, with the kernel's word; and with their transfers put in, under each model of its
    own.
    """
    for (P, M), schedule in derived(skeletons).items():
        answers = check_program(schedule.program, MODELS, trained=schedule.trained)
        assert [a.verdict for a in answers] == [Verdict.VALID] * 5, (P, M)
        written = insert(schedule.program)
        assert judging.codes(Facts(written)) == dict.fromkeys(MODELS, set()), (P, M)


@each
def test_warnings_and_seams(derived, skeletons):
    """IL211 for a Replicated region that is not first, and where an order is list-scheduled; the seam table
    between the regions.
    """
    names = skeletons.split(",")
    sharded = [n for n in names if n != "transpose"]
    unhidden = names[1:].count("transpose")
    mixed = len(set(sharded)) > 1 or unhidden > 0
    table = {
        (True, False): ("Gather", "Scatter"),
        (False, False): ("Send", "RecvGrad"),
        (False, True): ("Scatter", "Gather"),
    }
    replicated = [n == "transpose" for n in names]
    for schedule in derived(skeletons).values():
        assert [w.code for w in schedule.warnings] == ["IL211"] * (unhidden + mixed)
        assert [("bubble" in w.message, "ignored" in w.message) for w in schedule.warnings] == [
            (True, False)
        ] * unhidden + [(False, True)] * mixed
        assert [(s.forward, s.backward) for s in schedule.seams] == [
            table[pair] for pair in zip(replicated, replicated[1:])
        ]


def test_weaving(derived):
    """<1f1b>^V is interleaved(chunks: V), whose V = 1 is not 1f1b; a leading transposed region does not
    unweave what follows it.
    """
    for (P, M), woven in derived("1f1b,1f1b").items():
        single = judging.schedule(
            f"schedule s {{ ranks {P} microbatches {M} model {{ layers u[{2 * P}] {{}} }} cut {{ x = u : "
            f"interleaved(chunks: 2) }} }}"
        )
        assert judging.rows(woven.program) == judging.rows(single.program)
        shifted = [
            [f"{int(o[: o.index(k)]) + 1}{o[o.index(k) :]}" for o in ops for k in "FB" if k in o]
            for ops in judging.rows(woven.program)
        ]
        behind = [
            [o for o in ops if not o.startswith(("0F", "0B"))]
            for ops in judging.rows(derived("transpose,1f1b,1f1b")[P, M].program)
        ]
        assert behind == shifted
    alone, eager = (
        judging.schedule(
            f"schedule s {{ ranks 4 microbatches 6 model {{ layers u[4] {{}} }} cut {{ x = u : {name} }} }}"
        )
        for name in ("1f1b", "interleaved(chunks: 1)")
    )
    assert judging.rows(alone.program) != judging.rows(eager.program)
