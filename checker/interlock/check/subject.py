"""A program as judged: what the obligations about one program share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from interlock.check.obligation import Disagreement
from interlock.check.verdict import Claim, Limits
from interlock.kernel import Judge
from interlock.program.facts import Facts
from interlock.program.ir import Memory, Program
from interlock.program.linearise import compute_times
from interlock.program.plain import plain_form
from interlock.program.transfers import insert, restrict
from interlock.rules import communication, dependency, footprint, memory
from interlock.rules.usage import Usage
from interlock.text.finding import Finding
from interlock.witness import executor

REPLAY_LIMIT = 200_000  # operations up to which the executor replays a counterexample,
REPLAY_SPACE = 2_000_000  # ... and layers times microbatches
ENGINES = ("graph", "smt", "both")


class Subject:
    """A program with its facts, what the rules find in it under every model, and the kernel's one reading of
    it.

    `engine`: who searches, one of ENGINES. `limits`: what `require` asks of its bytes and stashes.
    """

    def __init__(self, program: Program, engine: str = "graph", limits: Limits = Limits()):
        self.program, self.engine, self.limits = program, engine, limits
        self.facts = Facts(program)
        self.transfers = communication.Transfers(self.facts)
        self.static = list(static_findings(self.facts, self.transfers))

    @property
    def sound(self) -> bool:
        """Whether no rule that is the same under every model finds an error."""
        return not any(f.is_error for f in self.static)

    @cached_property
    def plain(self) -> dict[str, Any]:
        """The program in its plain form, as certificates hold it."""
        return plain_form(self.program)

    @cached_property
    def usage(self) -> Usage:
        """The bytes along its rows."""
        return Usage(self.facts)

    @property
    def counts_bytes(self) -> bool:
        return self.program.memory is not None and not self.program.inserted

    @cached_property
    def exceeds_capacity(self) -> bool:
        return self.counts_bytes and any(memory.check_capacity(self.usage))

    def claim(self, statement: dict[str, Any]) -> Claim:
        """The statement, which the kernel has accepted. Raises Disagreement if it rejects it."""
        judgement = self._judge.judge(statement)
        if not judgement.accepted:
            what = (
                "a valid claim"
                if statement["claim"] == "valid"
                else statement.get("fault", statement.get("walk"))
            )
            model = statement.get("model", "every model")
            raise Disagreement(f"the kernel rejects {what} under {model}: {judgement.reason}")
        return Claim(self.plain, statement)

    @cached_property
    def _judge(self) -> Judge:
        return Judge(self.plain)

    @cached_property
    def unbounded(self) -> Subject:
        """The same program without a word about its bytes: its waits, where its bytes do not fit."""
        return Subject(replace(self.program, memory=None), self.engine)

    def replay(self, model: str, errors: Sequence[Finding]) -> Any:
        """The executor's run of an invalid program; None if it is too long to be run. Raises Disagreement."""
        p = self.program
        if self.facts.n > REPLAY_LIMIT or len(p.layers) * p.microbatches > REPLAY_SPACE:
            return None
        run = executor.run(self.plain, model)
        walks = [f.walk for f in errors if f.code in CYCLES]
        if walks:
            on_cycle = (row for a, _, b in walks[0] for kind, row in (a, b) if kind == "op")
            ended = next((row for row in on_cycle if row in run.done), None)
            if ended is not None:
                what = f"the executor ends {p.show(ended)}, which is on a cycle of waits under {model}"
                raise Disagreement(what)
        elif run.finished and not run.problems:
            raise Disagreement(
                f"the executor finds nothing wrong under {model}, the rules find {errors[0].code}"
            )
        return run


CYCLES = ("IL402", "IL307")  # a cycle of waits: their findings hold a walk


def static_findings(facts: Facts, transfers: communication.Transfers) -> Iterable[Finding]:
    """What the rules find that is the same under every model."""
    yield from dependency.check(facts)
    yield from footprint.check(facts)
    if facts.program.inserted:
        yield from communication.collectives(facts)
        yield from communication.creation(facts)
        yield from communication.members(facts, transfers)
    else:
        yield from communication.check(facts, transfers)
    yield from memory.note_growing_stashes(facts)


def with_bytes(
    program: Program, limits: Limits, trained: Program | None = None, comm_of: Sequence[int] = ()
) -> Program:
    """The program to judge: with its transfers written, at the linearisation of `trained`, where bytes are
    asked of it.

    Without its `memory` where transfers stay inserted: bytes are then not asked, or its order is cyclic, and
    the cycle
    is the answer.
    """
    if limits.peak is not None and program.memory is None:
        program = replace(program, memory=unlimited(program))
    bounded = program.memory is not None and any(c is not None for c in program.memory.capacity)
    if program.inserted and (limits.peak is not None or bounded):
        program = write_transfers(program, trained, comm_of) or program
    if program.inserted and program.memory is not None:
        program = replace(program, memory=None)
    return program


def unlimited(program: Program) -> Memory:
    """For a program without `memory` whose bytes a requirement asks for."""
    return Memory((None,) * program.ranks)


def write_transfers(
    program: Program, trained: Program | None = None, comm_of: Sequence[int] = ()
) -> Program | None:
    """An inserted program with its transfers placed along the linearisation of the fully trained one; None if
    that is
    cyclic or faulty.

    The transfers across the right border of stage s are on communicator comm_of[s].
    """
    base = trained or program
    facts = Facts(base)
    if any(f.is_error for f in static_findings(facts, communication.Transfers(facts))):
        return None
    times = compute_times(facts)
    if not times.complete:
        return None
    full = insert(base, times, comm_of)
    return full if trained is None else replace(restrict(full, program.layers), memory=program.memory)
