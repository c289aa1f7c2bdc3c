"""Each judge's own verdict on a program under a model, with nothing shared between them."""

from __future__ import annotations

import os
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from interlock.check.certificates import certificates
from interlock.check.program import check_program
from interlock.check.verdict import Verdict
from interlock.engine import graph
from interlock.kernel import Judge
from interlock.kernel.faults import find_faults
from interlock.kernel.waits import WaitGraph
from interlock.program.facts import Facts
from interlock.program.plain import plain_form
from interlock.rules import communication, dependency, footprint, memory
from interlock.rules.usage import Usage
from interlock.rules.waits import MODELS, wait_graph
from interlock.witness import executor


def engine(program, model: str) -> bool:
    """Rules and graph engine."""
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


def kernel(plain: dict, model: str) -> bool:
    """The kernel's rules and its own waits, searched for a cycle by peeling off what waits for nothing."""
    matched = Judge(plain).matched
    if next(find_faults(matched, model), None) is not None:
        return False
    after: dict = {}
    left: dict = {}
    waits = WaitGraph(matched, model)
    node = node_of(waits)
    for a, b in (wait for _, relation in waits.list_relations() for wait in relation):
        a, b = node(a), node(b)
        after.setdefault(a, []).append(b)
        left[b] = left.get(b, 0) + 1
        left.setdefault(a, 0)
    free = [e for e, n in left.items() if n == 0]
    for e in free:
        for b in after.get(e, ()):
            left[b] -= 1
            if left[b] == 0:
                free.append(b)
    return len(free) == len(left)


def node_of(waits):
    parent: dict = {}

    def find(e):
        while parent.get(e, e) != e:
            e = parent[e]
        return e

    for a, b in waits.find_shared_events():
        parent[find(a)] = find(b)
    return find


def machine(plain: dict, model: str, seed=None) -> bool:
    """The executor."""
    result = executor.run(plain, model, seed=seed)
    return result.finished and not result.problems


def all_of(program, *, seed=None, z3: bool = False) -> tuple[list[bool], list]:
    """The verdict under each model, and what the judges disagree about: engine (z3 beside it if asked), kernel, executor, and `check_program`."""
    plain = plain_form(program)
    verdicts, wrong = [], []
    for model in MODELS:
        said = engine(program, model), kernel(plain, model), machine(plain, model, seed=seed)
        if len(set(said)) > 1:
            wrong.append((model, said))
        verdicts.append(said[0])
    answers = check_program(program, MODELS, engine="both" if z3 else "graph")
    if [a.verdict is Verdict.VALID for a in answers] != verdicts or any(not certificates(a) for a in answers):
        wrong.append(("check", [a.verdict.value for a in answers]))
    return verdicts, wrong


def in_processes(work, total: int, step: int = 100):
    """work(range) -> (Counter, list) over 0 .. total-1, on every core: the sums."""
    counts, found = Counter(), []
    with ProcessPoolExecutor(os.cpu_count() or 1, mp_context=get_context("spawn")) as pool:
        for some, more in pool.map(work, [range(a, min(a + step, total)) for a in range(0, total, step)]):
            counts += some
            found += more
    return counts, found
