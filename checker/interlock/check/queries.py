"""What a case is asked as SMT-LIB text, for any solver to decide: `interlock check --emit smt2`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePath
from typing import Any

from interlock.check.freezings import Freezings
from interlock.check.obligations import limits_of
from interlock.check.sizes import smallest
from interlock.check.subject import Subject, unlimited, write_transfers
from interlock.check.verdict import Limits, Verdict
from interlock.engine import graph
from interlock.load import Case
from interlock.program.facts import Facts
from interlock.program.ir import Program
from interlock.program.linearise import compute_times
from interlock.rules import dependency, footprint
from interlock.rules.usage import Usage
from interlock.rules.waits import wait_graph

GROUPS = (
    "dep: who waits for whom",
    "foot: which backward work exists",
    "mem: live bytes along each rank's order",
    "size: bytes of layers, capacities",
    "map: who owns a microbatch",
    "time: the certificate",
    "ask: what is asked",
)
PRESENCE = {"IL308", "IL601", "IL602", "IL605"}


@dataclass(frozen=True)
class Text:
    """`name`: of a file, without its ending."""

    name: str
    text: str


def queries(case: Case) -> Iterator[Text]:
    """The queries of a case, with the status that the rules and the graph engine find."""
    limits = limits_of(case)
    about = _About(case.path, case.name)
    program = _with_bytes(case, limits)
    yield from _waits(about, program, case.models)
    yield from _footprint(about, program)
    yield from _bytes(about, program, limits)
    if case.schedule is not None and case.schedule.freezing:
        yield from _freezings(about, Freezings(case, limits), case.models)
    if case.schedule is not None:
        yield from _owners(about, case)


def _with_bytes(case: Case, limits: Limits) -> Program:
    """The program with its transfers written wherever it has bytes to count, limited or not."""
    program = case.program
    memory = program.memory or (unlimited(program) if limits.peak is not None else None)
    program = replace(program, memory=memory)
    if program.inserted and memory is not None:
        return write_transfers(program, case.trained, case.comm_of) or replace(program, memory=None)
    return program


@dataclass(frozen=True)
class _About:
    """Which schedule of which file; makes the texts of its queries."""

    path: str
    schedule: str

    def write(self, what: str, about: str, ask: Callable[[], Any], expected: str) -> Text:
        """`ask` makes the query. One that is too large is a comment that says so."""
        from interlock.engine import smt

        try:
            query = ask()
        except smt.TooLarge as reason:
            return self.explain(what, about, str(reason))
        groups = [line for line in GROUPS if line.split(":")[0] in query.groups]
        head = [self._head(about), "", *groups, ""]
        return Text(f"{self.schedule}.{what}", smt.emit(query, expected, head))

    def explain(self, what: str, about: str, reason: str) -> Text:
        """A comment that says why there is no query."""
        return Text(f"{self.schedule}.{what}", f"; {self._head(about)}\n; not written: {reason}\n")

    def _head(self, about: str) -> str:
        return f"{PurePath(self.path).name}, schedule {self.schedule}: {about}"


def _waits(about: _About, program: Program, models: Sequence[str]) -> Iterator[Text]:
    from interlock.engine import smt

    subject = Subject(program)
    for model in models[:1] if program.inserted else models:
        waits = wait_graph(subject.facts, subject.transfers, model)
        under = "every model: transfers are inserted" if program.inserted else f"the model {model}"
        name = f"dep-{'any' if program.inserted else model}"
        status = "sat" if graph.solve(waits).acyclic else "unsat"
        yield about.write(
            name, f"its waits, under {under}", partial(smt.build_dependency_query, waits), status
        )


def _footprint(about: _About, program: Program) -> Iterator[Text]:
    from interlock.engine import smt

    if program.fragment:
        return
    facts = Facts(program)
    errors = {f.code for f in (*dependency.check(facts), *footprint.check(facts)) if f.is_error}
    status = "sat" if errors & PRESENCE else "unsat"
    yield about.write("foot", "its backward work", partial(smt.build_footprint_query, program), status)


def _bytes(about: _About, program: Program, limits: Limits) -> Iterator[Text]:
    from interlock.engine import smt

    if program.memory is None or program.inserted:
        return
    most = _least_limits(program, limits)
    exceeds = any(x is not None and used > x for used, x in zip(Usage(Facts(program)).peaks, most))
    query = partial(smt.build_memory_query, program, limits=most)
    yield about.write("mem", "its bytes", query, "sat" if exceeds else "unsat")


def _least_limits(program: Program, limits: Limits) -> tuple[int | None, ...]:
    """The smaller of capacity and required peak of each rank."""
    assert program.memory is not None
    return smallest(program.memory.capacity, limits.peak or program.memory.capacity)


def _freezings(about: _About, freezings: Freezings, models: Sequence[str]) -> Iterator[Text]:
    from interlock.engine import smt

    trained, placed, limits = freezings.trained, freezings.placed, freezings.limits
    if trained.fragment:
        return
    if trained.inserted:
        if compute_times(Facts(trained)).complete:
            most = _least_limits(placed, limits) if placed is not None else None
            query = partial(
                smt.build_invariance_query,
                replace(trained, memory=None),
                freezings.layers,
                written=placed,
                limits=most,
            )
            yield about.write("invariance", "every freezing of its layers", query, "unsat")
        return
    for model in models:
        answer = freezings.record.answer(model)
        what = f"invariance-{model}"
        said = f"every freezing of its layers, under the model {model}"
        if answer.verdict is not Verdict.VALID or answer.program is None:
            yield about.explain(what, said, f"with all of these layers trained it is {answer.verdict.value}")
            continue
        most = _least_limits(answer.program, limits) if answer.program.memory is not None else None
        query = partial(
            smt.build_invariance_query, answer.program, freezings.layers, model=model, limits=most
        )
        yield about.write(what, said, query, "unsat")


def _owners(about: _About, case: Case) -> Iterator[Text]:
    from interlock.engine import smt

    try:
        query = smt.build_owner_query(case.trained or case.program)
    except ValueError:
        return
    said = "every owner map of its first region, hand-overs as a prefix"
    yield about.write("owners", said, lambda: query, "unsat")
