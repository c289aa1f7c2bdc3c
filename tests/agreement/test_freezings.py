"""One certificate for every freezing of a program with written transfers, against each freezing by itself (spec/footprint.md).

The judges of a single freezing are the rules with the graph engine, and now and then the executor; those of all of them z3's one query and the
kernel, which are given the program as it is listed.
"""

from __future__ import annotations

from collections import Counter
from itertools import product
from random import Random

from algebra import judging
from interlock.check.freezings import check_invariance
from interlock.check.program import check_program
from interlock.check.verdict import Verdict
from interlock.kernel import Judge, judge
from interlock.kernel.invariant import find_presence
from interlock.program.footprint import with_trainable
from interlock.program.ir import Kind
from interlock.program.plain import plain_form
from interlock.program.transfers import insert, restrict
from interlock.rules.waits import MODELS
from kernel.build import claim

from . import generate, judges


def freezings(program, layers):
    """(bits of the layers, what the freezing leaves)."""
    for bits in product((True, False), repeat=len(layers)):
        trainable = [l.trainable for l in program.layers]
        for layer, bit in zip(layers, bits):
            trainable[layer] = bit
        yield bits, restrict(program, with_trainable(program.layers, trainable))


def written(seed: int):
    """A schedule with its transfers moved about, grouped, mutated, or with late gathers; and some of its trained layers."""
    rng = Random(seed)
    if seed % 4 == 0:
        program = late(rng)
    else:
        program = generate.stir(insert(generate.schedule(rng)), rng)
    if rng.random() < 0.4:
        program = generate.mutate(program, rng)
    trained = [l for l, layer in enumerate(program.layers) if layer.trainable]
    return program, sorted(rng.sample(trained, min(len(trained), rng.randint(1, 4))))


def late(rng: Random):
    P, M = rng.randint(2, 3), rng.randint(1, 5)
    how = rng.choice(
        (
            "",
            ", post: early",
            ", gather_on: seam, scatter_on: seam",
            ", gather_on: default, scatter_on: default",
        )
    )
    images = f"images {[rng.randint(0, 2) for _ in range(M)]}" if rng.random() < 0.5 else ""
    return judging.schedule(f"""schedule s {{ ranks {P} microbatches {M} {images} communicator seam = ranks 0..{P - 1}
      model {{ layers vit[2] {{ modality vision }} layers llm[{P}] {{ }} }}
      cut {{ encoder = vit : transpose(owner: {[rng.randrange(P) for _ in range(M)]}, gather: late{how})  backbone = llm : {rng.choice(("1f1b", "gpipe", "zb_h1"))} }} }}""").trained


def kept(program, layers) -> list:
    """Rows that the kernel has present under each choice of bits, as (bits, rows of the freezing). It has one bit for the layers of a stage and modality."""
    there = find_presence(Judge(plain_form(program)).matched.placed, layers)
    stage = [s for s, x in enumerate(program.stages) for _ in range(x.first, x.last)]
    number: dict = {}
    atoms = [number.setdefault((stage[l], program.layers[l].modality), len(number)) for l in layers]
    out = []
    for bits, _ in freezings(program, layers):
        chosen = sum({1 << atom for atom, bit in zip(atoms, bits) if bit})
        out.append((bits, [row for row, terms in enumerate(there) if terms == -1 or terms & chosen]))
    return out


def shown(program, rows=None) -> list[str]:
    """Operations, a backward by the half that does not decide whether it is there."""
    return [
        program.show(i).replace("B", "I") if program.order.kind[i] == Kind.B else program.show(i)
        for i in (range(len(program.order)) if rows is None else rows)
    ]


def agree(seeds: range) -> tuple[Counter, list]:
    counts, wrong = Counter(), []
    for seed in seeds:
        program, layers = written(seed)
        single = [left for _, left in freezings(program, layers)]
        plain = plain_form(program)
        for model, answer in zip(MODELS, check_program(program, MODELS)):
            expected = judges.engine(program, model) and all(judges.engine(left, model) for left in single)
            if seed % 10 == 0:
                expected = expected and all(judges.machine(plain_form(left), model) for left in single)
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
                for (bits, rows), left in zip(kept(program, layers), single):
                    if shown(program, rows) != shown(left):
                        wrong.append((seed, bits))
    return counts, wrong


def test_one_certificate_and_every_freezing(pytestconfig):
    """The kernel's presence of every row is what `restrict` leaves, too."""
    if pytestconfig.getoption("--thorough"):
        counts, wrong = judges.in_processes(agree, 20_000)
    else:
        counts, wrong = agree(range(60))
    assert not wrong
    for model in MODELS:
        assert counts[model, True] > 10 and counts[model, False] > 10
    assert counts["presence"] > 20
