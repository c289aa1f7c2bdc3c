"""Schedules from text, and operations as the field writes them."""

from __future__ import annotations

import pytest

from interlock.algebra.elaborate import elaborate
from interlock.language.parse import parse
from interlock.text.finding import InputError
from interlock.text.source import Sources


@pytest.fixture
def elaborated():
    """The only schedule of a text, elaborated."""

    def run(text: str, name: str = "t.sched", **asked):
        sources = Sources()
        (schedule,) = elaborate(parse(sources.add(name, text)), sources, **asked)
        return schedule

    return run


@pytest.fixture
def refused():
    """(code, line, message) of the error a text gives."""

    def run(text: str, name: str = "t.sched", **asked):
        sources = Sources()
        with pytest.raises(InputError) as caught:
            elaborate(parse(sources.add(name, text)), sources, **asked)
        first = caught.value.findings[0]
        line = sources.of(first.marks[0].span.at).line_column(first.marks[0].span.at)[0]
        return first.code, line, f"{first.message} | {first.marks[0].label} | {first.help}"

    return run


@pytest.fixture
def single(elaborated):
    """The fully trained program of one skeleton over a model of one layer a stage."""

    def run(skeleton: str, ranks: int, microbatches: int, chunks: int = 1, layers: int | None = None):
        text = (
            f"schedule s {{ ranks {ranks} microbatches {microbatches} model {{ layers "
            f"u[{layers or ranks * chunks}] {{}} }}\n"
            f"cut {{ x = u : {skeleton} }} }}"
        )
        return elaborated(text).program

    return run


@pytest.fixture
def rows():
    """The operations of every rank, as written: [["0F0", ..], ..]."""

    def run(program):
        start = program.order.start
        return [[program.show(i) for i in range(start[r], start[r + 1])] for r in range(program.ranks)]

    return run
