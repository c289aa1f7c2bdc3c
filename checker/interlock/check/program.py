"""One program to a verdict: the rules and the engine search, the kernel judges, the executor replays what is
invalid.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from interlock.check.memory import InFlight, Peak
from interlock.check.obligation import Disagreement, Obligation, Record, discharge_all
from interlock.check.sizes import Sizes
from interlock.check.subject import CYCLES, ENGINES, Subject, with_bytes
from interlock.check.verdict import Answer, Limits, Outcome, Verdict
from interlock.engine import graph
from interlock.program.ir import Program
from interlock.program.linearise import compute_times
from interlock.rules import communication
from interlock.rules.waits import MODELS, WaitGraph, wait_graph
from interlock.text.finding import Finding
from interlock.witness import story


def check_program(
    program: Program,
    models: Sequence[str] = ("pair",),
    *,
    engine: str = "graph",
    limits: Limits = Limits(),
    trained: Program | None = None,
    comm_of: Sequence[int] = (),
) -> tuple[Answer, ...]:
    """The verdict of a program under each model, claims accepted by the kernel and counterexamples replayed.

    `trained`: the fully trained program that a derived one was restricted from; its linearisation places the
    transfers
    where bytes are asked, on communicator comm_of[s] across the right border of stage s. Raises Disagreement,
    and
    ValueError for an unknown engine or model.
    """
    if engine not in ENGINES or any(m not in MODELS for m in models):
        raise ValueError(f"unknown engine or model: {engine}, {', '.join(models)}")
    try:
        subject = Subject(with_bytes(program, limits, trained, comm_of), engine, limits)
    except MemoryError:
        return tuple(Answer(m, program=program, reason=too_large(program)) for m in models)
    record = discharge_all(program_obligations(subject, models))
    return tuple(record.answer(m) for m in models)


def too_large(program: Program) -> str:
    return (
        f"checking its {len(program.order):,} operations takes more memory than there is; "
        "a smaller member of its family may be decided"
    )


def program_obligations(
    subject: Subject, models: Sequence[str], sizes: Sizes | None = None
) -> Iterator[Obligation]:
    """The rules under each model, once for all where transfers are inserted; the bytes; the stashes."""
    for group in (tuple(models),) if subject.program.inserted else ((m,) for m in models):
        yield RulesUnder(subject, group)
    yield Peak(subject, tuple(models), sizes)
    yield InFlight(subject, tuple(models))


@dataclass(frozen=True)
class RulesUnder:
    """R-DEP, R-ONCE, R-MB, R-FOOT, R-RANK, R-COM: no rule finds an error, and no wait is on a cycle. Several
    models only where
    transfers are inserted: one outcome is then that of every model."""

    subject: Subject
    models: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"the program under {', '.join(self.models)}"

    def discharge(self, earlier: Record) -> Outcome:
        subject, model = self.subject, self.models[0]
        findings = [
            *subject.static,
            *communication.grouped_alike(subject.facts, subject.transfers, model),
        ]
        errors = [f for f in findings if f.is_error]
        times: dict[str, Any] | None = None
        if all(f.code == "IL408" for f in errors):  # beside which a cycle is worth knowing too
            solution = solve(subject, model)
            if isinstance(solution, str):
                if not errors:
                    return Outcome(Verdict.UNKNOWN, solution, tuple(findings), subject.program)
            elif solution.walk:
                errors.append(story.deadlock(subject.facts, model, solution.walk, solution.shortest))
                findings.append(errors[-1])
            else:
                times = valid_statement(subject, model, solution)
        if errors:
            claims = tuple(subject.claim(invalid_statement(model, f)) for f in errors)
            replay = subject.replay(model, errors)
            return Outcome(Verdict.INVALID, "", tuple(findings), subject.program, claims, replay)
        assert times is not None
        judged = subject.unbounded if subject.exceeds_capacity else subject
        claim = judged.claim(times)
        return Outcome(Verdict.VALID, "", tuple(findings), subject.program, (claim,))


# ---- search -----------------------------------------------------------------------------------------------


def solve(subject: Subject, model: str) -> graph.Solution | str:
    """A solution of the wait graph, or why there is none. Raises Disagreement."""
    if subject.program.inserted and subject.engine == "graph":
        times = compute_times(subject.facts)
        if times.complete:
            return graph.Solution(times.time)
    waits = wait_graph(subject.facts, subject.transfers, model)
    if subject.engine == "graph":
        return graph.solve(waits)
    asked = _solve_by_solver(subject, waits)
    if subject.engine == "smt" or isinstance(asked, str):
        return asked
    found = graph.solve(waits)
    if bool(found.walk) != bool(asked.walk):
        raise Disagreement(f"the graph engine and z3 disagree about a cycle under {model}")
    return found


def _solve_by_solver(subject: Subject, waits: WaitGraph) -> graph.Solution | str:
    from interlock.engine import smt

    second = subject.engine == "both"
    try:
        if not subject.program.fragment:
            foot = smt.check_footprint(subject.program, second=second)
            if isinstance(foot, smt.Unknown):
                return foot.reason
            if isinstance(foot, smt.Differs):
                differences = ", ".join(d.what for d in foot.differences)
                raise Disagreement(f"z3 finds another footprint than the rules: {differences}")
        answer = smt.solve(waits, second=second)
    except smt.Contradiction as error:
        raise Disagreement(str(error)) from error
    return answer.reason if isinstance(answer, smt.Unknown) else answer


# ---- claims -----------------------------------------------------------------------------------------------


def valid_statement(subject: Subject, model: str, solution: graph.Solution) -> dict[str, Any]:
    """A time for every row, and a pair of times for every grouped launch."""
    n = subject.facts.n
    time = solution.time.tolist()
    launches = {}
    if not subject.program.inserted:
        launch = subject.facts.launch[subject.facts.is_unit & (subject.facts.launch >= 0)]
        numbers = sorted({int(x) for x in launch})
        launches = {str(number): [time[n + 2 * g], time[n + 2 * g + 1]] for g, number in enumerate(numbers)}
    return {"claim": "valid", "model": model, "times": time[:n], "launches": launches}


def invalid_statement(model: str, finding: Finding) -> dict[str, Any]:
    """A closed walk of waits, or the fault of a rule."""
    if finding.code in CYCLES:
        walk = [[list(a), why, list(b)] for a, why, b in finding.walk]
        return {"claim": "invalid", "model": model, "walk": walk}
    fault = {"code": finding.code, "rows": finding.fault_rows}
    return {"claim": "invalid", "model": model, "fault": fault}
