"""One certificate for every freezing of a program with written transfers, against each freezing by itself.

Spec: footprint.md. The judges of a single freezing are the rules with the graph engine, and now and then the
executor; those of all of them z3's one query and the kernel, which are given the program as it is listed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from random import Random

from algebra import judging
from interlock.check.freezings import check_invariance
from interlock.check.program import check_program
from interlock.check.verdict import Verdict
from interlock.kernel import Judge, judge
from interlock.kernel.invariant import find_presence
from interlock.program.footprint import with_trainable
from interlock.program.ir import Kind, Program
from interlock.program.plain import plain_form
from interlock.program.transfers import insert, restrict
from interlock.rules.waits import MODELS
from kernel.build import claim

from . import judges
from .generate import make_schedule
from .mutants import mutate, stir

ALWAYS = -1  # the kernel's terms of a row that no freezing deletes
GATHERS = (
    "",
    ", post: early",
    ", gather_on: seam, scatter_on: seam",
    ", gather_on: default, scatter_on: default",
)
LATE_GATHERS = """schedule s {{ ranks {ranks} microbatches {microbatches} {images}
  communicator seam = ranks 0..{last}
  model {{ layers vit[2] {{ modality vision }} layers llm[{ranks}] {{ }} }}
  cut {{
    encoder = vit : transpose(owner: {owner}, gather: late{how})
    backbone = llm : {skeleton}
  }} }}"""


def list_freezings(program: Program, layers: Sequence[int]) -> Iterator[tuple[tuple[bool, ...], Program]]:
    """(bits of the layers, what the freezing leaves)."""
    for bits in product((True, False), repeat=len(layers)):
        trainable = [l.trainable for l in program.layers]
        for layer, bit in zip(layers, bits):
            trainable[layer] = bit
        yield bits, restrict(program, with_trainable(program.layers, trainable))


def make_written_program(seed: int) -> tuple[Program, list[int]]:
    """A schedule with stirred transfers or late gathers, perhaps mutated; and some of its trained layers."""
    rng = Random(seed)
    program = make_late_gathers(rng) if seed % 4 == 0 else stir(insert(make_schedule(rng)), rng)
    if rng.random() < 0.4:
        program, _ = mutate(program, rng)
    trained = [l for l, layer in enumerate(program.layers) if layer.trainable]
    return program, sorted(rng.sample(trained, min(len(trained), rng.randint(1, 4))))


def make_late_gathers(rng: Random) -> Program:
    ranks, microbatches = rng.randint(2, 3), rng.randint(1, 5)
    how = rng.choice(GATHERS)
    images = f"images {[rng.randint(0, 2) for _ in range(microbatches)]}" if rng.random() < 0.5 else ""
    text = LATE_GATHERS.format(
        ranks=ranks,
        microbatches=microbatches,
        images=images,
        last=ranks - 1,
        owner=[rng.randrange(ranks) for _ in range(microbatches)],
        how=how,
        skeleton=rng.choice(("1f1b", "gpipe", "zb_h1")),
    )
    return judging.schedule(text).trained


def list_present_rows(program: Program, layers: Sequence[int]) -> list[tuple[tuple[bool, ...], list[int]]]:
    """Rows that the kernel has present under each choice of bits, as (bits, rows of the freezing).

    It has one bit for the layers of a stage and modality.
    """
    terms = find_presence(Judge(plain_form(program)).matched.placed, layers)
    stage = [s for s, x in enumerate(program.stages) for _ in range(x.first, x.last)]
    number: dict[tuple[int, str | None], int] = {}
    atoms = [number.setdefault((stage[l], program.layers[l].modality), len(number)) for l in layers]
    found = []
    for bits, _ in list_freezings(program, layers):
        chosen = sum({1 << atom for atom, bit in zip(atoms, bits) if bit})
        found.append((bits, [row for row, term in enumerate(terms) if term == ALWAYS or term & chosen]))
    return found


def show_rows(program: Program, rows: Iterable[int] | None = None) -> list[str]:
    """Operations, a backward by the half that does not decide whether it is there."""
    shown = []
    for row in range(len(program.order)) if rows is None else rows:
        text = program.show(row)
        shown.append(text.replace("B", "I") if program.order.kind[row] == Kind.B else text)
    return shown


def agree(seeds: range) -> tuple[Counter, list]:
    counts: Counter = Counter()
    wrong: list[tuple] = []
    for seed in seeds:
        program, layers = make_written_program(seed)
        single = [left for _, left in list_freezings(program, layers)]
        plain = plain_form(program)
        for model, answer in zip(MODELS, check_program(program, MODELS)):
            expected = all(judges.judge_by_rules(left, model) for left in (program, *single))
            if seed % 10 == 0 and expected:
                expected = all(judges.judge_by_executor(plain_form(left), model) for left in single)
            times = claim(plain, model)
            kernel = (
                times is not None and judge(plain, {**times, "claim": "invariant", "bits": layers}).accepted
            )
            valid = answer.verdict is Verdict.VALID
            z3 = valid and check_invariance(program, layers, under=answer).verdict is Verdict.VALID
            counts[model, expected] += 1
            if {kernel, z3} != {expected}:
                wrong.append((seed, model, expected, kernel, z3))
            if valid and model == "buffered":
                counts["presence"] += 1
                wrong += compare_presence(seed, program, layers, single)
    return counts, wrong


def compare_presence(
    seed: int, program: Program, layers: Sequence[int], single: Sequence[Program]
) -> Iterator[tuple]:
    """The freezings of which the kernel has other rows present than `restrict` leaves."""
    for (bits, rows), left in zip(list_present_rows(program, layers), single):
        if show_rows(program, rows) != show_rows(left):
            yield seed, bits


def test_one_certificate_and_every_freezing(pytestconfig):
    """The kernel's presence of every row is what `restrict` leaves, too."""
    if pytestconfig.getoption("--thorough"):
        counts, wrong = judges.sum_over_processes(agree, 20_000)
    else:
        counts, wrong = agree(range(60))
    assert not wrong
    for model in MODELS:
        assert counts[model, True] > 10 and counts[model, False] > 10
    assert counts["presence"] > 20
