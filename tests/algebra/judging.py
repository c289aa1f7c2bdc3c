"""A schedule from its text, its operations as written, and what the rules and the graph engine find in it
under each model.
"""

from __future__ import annotations

from interlock.algebra.elaborate import Elaborated, elaborate
from interlock.engine import graph
from interlock.language.parse import parse
from interlock.program.facts import Facts
from interlock.program.ir import Program
from interlock.rules import communication, dependency, footprint
from interlock.rules.waits import MODELS, wait_graph
from interlock.text.source import Sources


def schedule(text: str) -> Elaborated:
    sources = Sources()
    (found,) = elaborate(parse(sources.add("t.sched", text)), sources)
    return found


def rows(program: Program) -> list[list[str]]:
    start = program.order.start
    return [[program.show(i) for i in range(start[r], start[r + 1])] for r in range(program.ranks)]


def codes(facts: Facts) -> dict[str, set[str]]:
    """The errors of a program with written transfers under each model."""
    transfers = communication.Transfers(facts)
    static = {
        f.code
        for f in [*dependency.check(facts), *footprint.check(facts), *communication.check(facts, transfers)]
        if f.is_error
    }
    return {
        m: static or (set() if graph.solve(wait_graph(facts, transfers, m)).acyclic else {"IL402"})
        for m in MODELS
    }
