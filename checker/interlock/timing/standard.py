"""Programs of the standard skeletons over a model of one layer a stage, to measure and to fit."""

from __future__ import annotations

from functools import lru_cache

from interlock.algebra.elaborate import Elaborated, elaborate
from interlock.algebra.instance import chunk_parameter
from interlock.language.parse import parse
from interlock.program.ir import Program
from interlock.text.resources import read_text
from interlock.text.source import Sources


def schedule(source: str, **asked) -> Elaborated:
    """The only schedule of a text. Raises InputError."""
    sources = Sources()
    (found,) = elaborate(parse(sources.add("schedule.sched", source)), sources, **asked)
    return found


@lru_cache(maxsize=256)
def program(skeleton: str, ranks: int, microbatches: int, chunks: int = 1) -> Program:
    """The skeleton of this name, every layer trained."""
    (node,) = parse(Sources().add(f"{skeleton}.sched", read_text(f"spec/std/{skeleton}.sched"))).skeletons
    call = f"{skeleton}(chunks: {chunks})" if chunk_parameter(node) else skeleton
    return schedule(
        f"schedule s {{ ranks {ranks} microbatches {microbatches} model {{ layers u[{ranks * chunks}] {{ }} }} cut {{ x = u : {call} }} }}"
    ).program
