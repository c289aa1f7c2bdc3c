"""Schedules from a text, and programs of the standard skeletons over a model of one layer a stage: to
measure, to fit, to test.
"""

from __future__ import annotations

from functools import lru_cache

from interlock.algebra.elaborate import Elaborated, elaborate
from interlock.algebra.instance import chunk_parameter
from interlock.language.parse import parse
from interlock.program.ir import Program
from interlock.text.resources import read_text
from interlock.text.source import Sources


def elaborate_text(source: str, *, ranks: int | None = None, microbatches: int | None = None) -> Elaborated:
    """The only schedule of a text. Raises InputError."""
    sources = Sources()
    file = parse(sources.add("schedule.sched", source))
    (schedule,) = elaborate(file, sources, ranks=ranks, microbatches=microbatches)
    return schedule


@lru_cache(maxsize=256)
def derive_standard(skeleton: str, ranks: int, microbatches: int, chunks: int = 1) -> Program:
    """The program of the standard skeleton of this name, every layer trained. `chunks`: of a skeleton that
    takes them.
    """
    (node,) = parse(Sources().add(f"{skeleton}.sched", read_text(f"spec/std/{skeleton}.sched"))).skeletons
    call = f"{skeleton}(chunks: {chunks})" if chunk_parameter(node) else skeleton
    model = f"model {{ layers u[{ranks * chunks}] {{ }} }}"
    return elaborate_text(
        f"schedule s {{ ranks {ranks} microbatches {microbatches} {model} cut {{ x = u : {call} }} }}"
    ).program
