"""Reading texts in tests: the tree, or the errors as (code, line, column, message)."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from interlock.language import ast
from interlock.language.parse import parse
from interlock.text.finding import InputError
from interlock.text.source import Sources, Span

DATA = Path(__file__).parent / "data"
FILES = sorted(DATA.glob("*.sched"))
HEAD = "schedule s {\n  ranks 2\n  microbatches 4\n"


def read(text: str) -> ast.File:
    return parse(Sources().add("t.sched", text))


def schedule(statements: str) -> ast.Schedule:
    return read(f"{HEAD}{statements}\n}}").schedules[0]


def skeleton(steps: str, header: str = "s(P, M) sharded") -> ast.Skeleton:
    return read(f"skeleton {header} {{ rank r {{ {steps} }} }}").skeletons[0]


def diagnostics(text: str):
    """The diagnostics of a text that has some, and its source."""
    source = Sources().add("t.sched", text)
    try:
        parse(source)
    except InputError as e:
        return e.findings, source
    raise AssertionError(f"read without an error:\n{text}")


def errors(text: str) -> list[tuple[str, int, int, str]]:
    found, source = diagnostics(text)
    return [(d.code, *source.line_column(d.marks[0].span.at), d.message) for d in found]


def codes(text: str) -> list[str]:
    return [d.code for d in diagnostics(text)[0]]


def bare(node):
    """A tree as nested tuples without its places."""
    if isinstance(node, Span):
        return None
    if isinstance(node, tuple):
        return tuple(map(bare, node))
    if dataclasses.is_dataclass(node):
        return (type(node).__name__, *(bare(getattr(node, f.name)) for f in dataclasses.fields(node)))
    return node
