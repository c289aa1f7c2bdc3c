"""Mutants of every standard skeleton: the judges agree on each, and all of them find what a change broke.

100,000 mutants with `--thorough`, 300 by default; z3 is asked on every tenth.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from random import Random

from interlock.algebra.elaborate import elaborate
from interlock.language.parse import parse
from interlock.program.ir import Program
from interlock.program.transfers import insert
from interlock.text import resources
from interlock.text.source import Sources

from . import judges
from .generate import freeze
from .mutants import mutate, stir

SHARDED = sorted(
    p.stem for p in (resources.find_folder() / "spec/std").glob("*.sched") if p.stem != "transpose"
)
CHUNKS = {"interleaved": 2, "interleaved_zb": 2, "breadth_first": 2, "gpipe": 2, "hanayo": 2}
SORTS = {"drop", "twice", "swap", "move", "mb", "stage", "rank", "group", "kind", "bit"}


@cache
def derive(skeleton: str, ranks: int, microbatches: int, encoder: bool) -> Program:
    """A derived program, fully trained, its transfers inserted; `encoder`: a transposed one before it."""
    argument = f"(chunks: {CHUNKS[skeleton]})" if skeleton in CHUNKS else ""
    vit = "layer vit { forward 1ms }" if encoder else ""
    region = "encoder = vit : transpose" if encoder else ""
    sources = Sources()
    text = f"""schedule s {{
      ranks {ranks}
      microbatches {microbatches}
      model {{ {vit} layers l[8] {{ forward 1ms }} }}
      cut {{ {region}
             decoder = l : {skeleton}{argument} }}
    }}"""
    return elaborate(parse(sources.add("s.sched", text)), sources)[0].program


def judge(seeds: range) -> tuple[Counter, list]:
    counts: Counter = Counter()
    disagreements = []
    for seed in seeds:
        rng = Random(seed)
        skeleton = SHARDED[seed % len(SHARDED)]
        ranks = rng.choice((1, 2, 2, 3))
        program = derive(
            skeleton,
            ranks,
            max(rng.randint(1, 4), 2 * ranks - 1 if skeleton == "dualpipev" else 1),
            rng.random() < 0.2,
        )
        if rng.random() < 0.7:
            program = insert(program)
            if rng.random() < 0.4:
                program = stir(program, rng)
        if rng.random() < 0.3:
            program = freeze(program, rng)
        mutant, sort = mutate(program, rng)
        verdicts, wrong = judges.judge_by_all(
            mutant, seed=seed % 3 or None, z3=seed % 10 == 0 and len(mutant.order) <= 120
        )
        disagreements += [(seed, skeleton, sort, *w) for w in wrong]
        counts["mutants"] += 1
        counts[sort] += 1
        counts["caught " + sort] += not all(verdicts)
        counts["of", skeleton] += 1
    return counts, disagreements


def test_the_judges_agree_on_mutants_of_every_standard_skeleton(pytestconfig):
    total = 100_000 if pytestconfig.getoption("--thorough") else 300
    counts, disagreements = judges.sum_over_processes(judge, total)
    print({str(k): n for k, n in sorted(counts.items(), key=str)})
    assert not disagreements, disagreements[:5]
    assert counts["mutants"] == total
    assert all(counts["of", s] >= total // len(SHARDED) for s in SHARDED)
    assert {s for s in SORTS if counts[s] and counts["caught " + s]} == SORTS
    assert counts["caught drop"] > 0.8 * counts["drop"]  # a dropped wait or step may do no harm
    assert counts["caught twice"] > 0.8 * counts["twice"]
