"""The executor: the third judge. It runs a program (plain form, spec/program.md) and reports what went wrong.

It shares nothing with the rules, the engine and the kernel but the specification.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from interlock.witness.executor.inspection import inspect
from interlock.witness.executor.ledger import Ledger, Problem
from interlock.witness.executor.machine import MODELS, Machine
from interlock.witness.executor.peaks import peaks
from interlock.witness.executor.stuck import stuck
from interlock.witness.executor.world import World

__all__ = ["MODELS", "Problem", "Run", "replay", "run", "verdict"]


@dataclass(frozen=True)
class Run:
    """One maximal run of a program under one communication model.

    `done`: the rows that ended, `trace` in their order. `stuck`: by rank, the issued rows that cannot proceed
    and in
    words what each waits for. `wrong`: (row, payload it got or None, payload it needs). `circular`: it is
    stuck even if
    every partner that no rank lists is lent. `peaks`: bytes a rank; empty where transfers are inserted.
    """

    finished: bool
    done: frozenset[int]
    trace: list[int]
    stuck: dict[int, list[tuple[int, str]]]
    wrong: list[tuple[int, tuple | None, tuple]]
    circular: bool
    peaks: list[int]
    problems: list[Problem]


def run(program: dict, model: str, *, seed: int | None = None) -> Run:
    """Runs to the end: the oldest enabled event first, or with a seed any. ValueError: the plain form is
    malformed.
    """
    if model not in MODELS:
        raise ValueError(f"there is no model {model}; there are {', '.join(MODELS)}")
    world = World(program)
    machine = Machine(world, model, seed)
    machine.run()
    finished = all(machine.done)
    circular = False
    if not finished:
        lent = Machine(world, model, lend=True)
        lent.run()
        circular = not all(lent.done)
    waiting = stuck(machine)
    problems = [p for rank in range(world.ranks) for p in Ledger(world, rank).read()] + list(
        inspect(world, model)
    )
    bytes_of = peaks(world)
    if world.memory:
        for rank, (has, capacity) in enumerate(zip(bytes_of, world.memory["capacity"])):
            if capacity is not None and has > capacity:
                problems.append(Problem("IL501", (), f"rank {rank} holds {has} bytes of {capacity}"))
    if world.inserted and circular:
        rows = tuple(row for rows in waiting.values() for row, _ in rows)
        problems.append(Problem("IL307", rows, "the ranks wait for each other in a circle"))
    known = {(p.code, row) for p in problems for row in p.rows}
    problems += [p for p in _mistakes(world, machine) if (p.code, p.rows[0]) not in known]
    return Run(
        finished,
        frozenset(machine.trace),
        machine.trace,
        waiting,
        machine.wrong,
        circular,
        bytes_of,
        problems,
    )


def verdict(program: dict, model: str) -> tuple[str, list[Problem]]:
    """ "valid" if the program runs to its end without a problem, else "invalid"."""
    result = run(program, model)
    return ("valid" if result.finished and not result.problems else "invalid"), result.problems


def replay(program: dict, model: str, walk: Iterable[int]) -> Run:
    """Runs to the end and confirms that no operation of `walk` ever ends. ValueError: one does."""
    result = run(program, model)
    for row in walk:
        if row in result.done:
            raise ValueError(f"row {row} ends; the run does not bear the deadlock out")
    return result


def _mistakes(world: World, machine: Machine) -> Iterable[Problem]:
    """What the machine saw itself: a payload of another, or none because nobody makes it."""
    for row, got, need in machine.wrong:
        op = world.ops[row]
        if got is not None:
            side = machine.sides[row]
            if side and got[0] != "unmade" and machine.listed[side] == machine.listed[machine.other(side)]:
                yield Problem("IL403", (row,), f"{op} gets {got} and needs {need}")
            continue
        what, s, m = need
        makers = {"F": ["F"], "B": ["B", "I"], "I": ["B", "I"], "LOSS": ["LOSS"]}[what]
        near = world.inserted or s == op.stage or world.rank(s, m) == op.rank
        if not near:
            makers = ["RECV_" + what]
            s = op.stage
        if not any(world.rows(kind, s, m) for kind in makers):
            code = "IL401" if not near else {"B": "IL601", "I": "IL305"}.get(what, "IL302")
            yield Problem(code, (row,), f"{op} needs {need}, and nothing on rank {op.rank} ever brings it")
