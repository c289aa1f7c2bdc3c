"""Each judge's own verdict on a program under a model, with nothing shared between them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from interlock.check.certificates import certificates
from interlock.check.program import check_program
from interlock.check.verdict import Verdict
from interlock.engine import graph
from interlock.kernel import Judge
from interlock.kernel.faults import find_faults
from interlock.kernel.waits import WaitGraph
from interlock.program.facts import Facts
from interlock.program.ir import Program
from interlock.program.plain import plain_form
from interlock.rules import communication, dependency, footprint, memory
from interlock.rules.usage import Usage
from interlock.rules.waits import MODELS, wait_graph
from interlock.witness import executor

Seeds = range
Work = Callable[[Seeds], tuple[Counter, list]]  # -> (counts, disagreements)


def judge_by_rules(program: Program, model: str) -> bool:
    """The rules and the graph engine."""
    facts = Facts(program)
    transfers = communication.Transfers(facts)
    findings = [
        *dependency.check(facts),
        *footprint.check(facts),
        *communication.grouped_alike(facts, transfers, model),
    ]
    if program.inserted:
        findings += [
            *communication.collectives(facts),
            *communication.creation(facts),
            *communication.members(facts, transfers),
        ]
    else:
        findings += communication.check(facts, transfers)
        if program.memory is not None:
            findings += memory.check_capacity(Usage(facts))
    if any(f.is_error for f in findings):
        return False
    return graph.solve(wait_graph(facts, transfers, model)).acyclic


def judge_by_kernel(plain: dict, model: str) -> bool:
    """The kernel's rules and its own waits, searched for a cycle by peeling off what waits for nothing."""
    matched = Judge(plain).matched
    if next(find_faults(matched, model), None) is not None:
        return False
    waits = WaitGraph(matched, model)
    after: dict[Any, list] = {}
    left: dict[Any, int] = {}
    node = _Nodes(waits.find_shared_events())
    for a, b in (wait for _, relation in waits.list_relations() for wait in relation):
        a, b = node.find(a), node.find(b)
        after.setdefault(a, []).append(b)
        left[b] = left.get(b, 0) + 1
        left.setdefault(a, 0)
    free = [event for event, number in left.items() if number == 0]
    for event in free:  # grows while it runs
        for b in after.get(event, ()):
            left[b] -= 1
            if left[b] == 0:
                free.append(b)
    return len(free) == len(left)


class _Nodes:
    """One node for the events that are shared."""

    def __init__(self, shared: Iterable[tuple[Any, Any]]):
        self._parent: dict[Any, Any] = {}
        for a, b in shared:
            self._parent[self.find(a)] = self.find(b)

    def find(self, event: Any) -> Any:
        while self._parent.get(event, event) != event:
            event = self._parent[event]
        return event


def judge_by_executor(plain: dict, model: str, seed: int | None = None) -> bool:
    result = executor.run(plain, model, seed=seed)
    return result.finished and not result.problems


def judge_by_all(program: Program, *, seed: int | None = None, z3: bool = False) -> tuple[list[bool], list]:
    """The verdict under each model, and what the judges disagree about.

    Judges are the rules (z3 beside them if asked), the kernel, the executor, and `check_program`.
    """
    plain = plain_form(program)
    verdicts: list[bool] = []
    disagreements: list[tuple] = []
    for model in MODELS:
        answers = (
            judge_by_rules(program, model),
            judge_by_kernel(plain, model),
            judge_by_executor(plain, model, seed=seed),
        )
        if len(set(answers)) > 1:
            disagreements.append((model, answers))
        verdicts.append(answers[0])
    checked = check_program(program, MODELS, engine="both" if z3 else "graph")
    uncertified = any(not certificates(answer) for answer in checked)
    if uncertified or [answer.verdict is Verdict.VALID for answer in checked] != verdicts:
        disagreements.append(("check", [answer.verdict.value for answer in checked]))
    return verdicts, disagreements


def sum_over_processes(work: Work, total: int, step: int = 50) -> tuple[Counter, list]:
    """`work` done for 0 .. total - 1, on every core."""
    counts: Counter = Counter()
    disagreements: list = []
    parts = [range(first, min(first + step, total)) for first in range(0, total, step)]
    with ProcessPoolExecutor(os.cpu_count() or 1, mp_context=get_context("spawn")) as pool:
        for counted, found in pool.map(work, parts):
            counts += counted
            disagreements += found
    return counts, disagreements
