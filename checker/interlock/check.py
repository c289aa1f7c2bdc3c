"""One program to a verdict: the rules and the engine search, the kernel judges, the executor replays what is invalid."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from .engine import graph
from .kernel.judge import judge_all
from .program.facts import Facts
from .program.ir import Memory, Program
from .program.linearise import compute_times
from .program.transfers import insert, restrict
from .rules import communication, dependency, footprint, memory
from .rules.finding import Finding
from .rules.waits import MODELS, WaitGraph, wait_graph
from .verdict import Answer, Verdict
from .witness import story

REPLAY_LIMIT = 200_000           # operations up to which the executor replays a counterexample
ENGINES = ("graph", "smt", "both")


class Disagreement(Exception):
    """Two judges disagree (IL902): an internal error, never a verdict."""


@dataclass(frozen=True)
class Limits:
    """What `require` asks beyond the rules. Bytes, and stashes, for each rank; None: not asked."""

    peak: tuple[int | None, ...] | None = None
    in_flight: tuple[int | None, ...] | None = None

    @property
    def of_memory(self) -> bool:
        return self.peak is not None


def check_program(program: Program, models: Sequence[str] = ("pair",), *, engine: str = "graph", limits: Limits = Limits(),
                  trained: Program | None = None, comm_of: Sequence[int] = ()) -> tuple[Answer, ...]:
    """The verdict of a program under each model, claims accepted by the kernel and counterexamples replayed.

    `trained`: the fully trained program that a derived one was restricted from; its linearisation places the transfers where memory asks for
    them, on communicator comm_of[s] across the right border of stage s. Raises Disagreement, and ValueError for an unknown engine or model.
    """
    if engine not in ENGINES or any(m not in MODELS for m in models):
        raise ValueError(f"unknown engine or model: {engine}, {', '.join(models)}")
    if limits.peak is not None and program.memory is None:
        program = replace(program, memory=Memory((None,) * program.ranks))
    needs_bytes = limits.of_memory or (program.memory is not None and any(c is not None for c in program.memory.capacity))
    if program.inserted and needs_bytes:
        program = written(program, trained, comm_of) or program
    if program.inserted and program.memory is not None:
        program = replace(program, memory=None)          # a cyclic order: no bytes to count, the cycle is the answer
    check = _Check(program, engine, limits)
    return tuple(check.under(model) for model in models)


def written(program: Program, trained: Program | None = None, comm_of: Sequence[int] = ()) -> Program | None:
    """An inserted program with its transfers placed along the linearisation of the fully trained one; None if that is cyclic or faulty."""
    base = trained or program
    facts = Facts(base)
    if any(f.is_error for f in _static(facts, communication.Transfers(facts))):
        return None
    times = compute_times(facts)
    if not times.complete:
        return None
    full = insert(base, times, (lambda s: comm_of[s]) if comm_of else None)
    return full if trained is None else replace(restrict(full, program.layers), memory=program.memory)


def _static(facts: Facts, transfers: communication.Transfers) -> Iterable[Finding]:
    """Findings that are the same under every model."""
    yield from dependency.check(facts)
    yield from footprint.check(facts)
    if facts.program.inserted:
        yield from communication.collectives(facts)
        yield from communication.creation(facts)
        yield from communication.members(facts, transfers)
    else:
        yield from communication.check(facts, transfers)
    yield from memory.weight_stash_note(facts)


class _Check:
    """What the models of one program share."""

    def __init__(self, program: Program, engine: str, limits: Limits):
        self.program, self.engine, self.limits = program, engine, limits
        self.facts = Facts(program)
        self.transfers = communication.Transfers(self.facts)
        self.static = list(_static(self.facts, self.transfers))
        self.plain = program.plain()
        self.compute_level: Answer | None = None
        if not any(f.is_error for f in self.static) and not program.inserted:
            self.static += self._bytes()
        self.static += self._stashes()

    def _bytes(self) -> list[Finding]:
        p = self.program
        if p.memory is None:
            return []
        usage = memory.Usage(self.facts)
        self.peaks = usage.peaks
        found = list(memory.capacity(usage))
        if self.limits.peak is not None:
            found += memory.over(usage, self.limits.peak, "IL701", "R-REQ-2", "`require peak` allows")
        return found

    def _stashes(self) -> list[Finding]:
        found = []
        if self.limits.in_flight is not None:
            for r, (count, limit) in enumerate(zip(memory.in_flight(self.facts), self.limits.in_flight)):
                if limit is not None and count > limit:
                    found.append(Finding("IL702", "R-REQ-3", f"rank {r} has {count} microbatches in flight where `require in_flight` allows {limit}",
                                         (), "fewer warmup forwards on this rank", rank=r, data={"in_flight": count, "limit": limit}))
        return found

    def under(self, model: str) -> Answer:
        if self.program.inserted:                        # one answer for every model
            if self.compute_level is None:
                self.compute_level = self._decide(model)
            return replace(self.compute_level, model=model)
        return self._decide(model)

    def _decide(self, model: str) -> Answer:
        findings = self.static + list(communication.grouped_alike(self.facts, self.transfers, model))
        errors = [f for f in findings if f.is_error]
        claim = None
        if not any(f.code not in ("IL701", "IL702", "IL501", "IL408") for f in errors):
            solution = self._solve(model)
            if isinstance(solution, str):
                if not errors:
                    return Answer(model, Verdict.UNKNOWN, self.program, tuple(findings), solution)
            elif solution.walk:
                cycle = story.deadlock(self.facts, model, solution.walk, solution.shortest)
                findings.append(cycle)
                errors.append(cycle)
            else:
                claim = self._valid_claim(model, solution)
        if errors:
            return self._invalid(model, findings, errors)
        return self._valid(model, findings, claim)

    def _solve(self, model: str) -> graph.Solution | str:
        """A solution of the wait graph, or why there is none."""
        if self.program.inserted and self.engine == "graph":
            times = compute_times(self.facts)
            if times.complete:
                return graph.Solution(times.time)
        waits = wait_graph(self.facts, self.transfers, model)
        answers = []
        if self.engine in ("graph", "both"):
            answers.append(graph.solve(waits))
        if self.engine in ("smt", "both"):
            answers.append(self._smt(waits))
        for answer in answers:
            if isinstance(answer, str):
                return answer
        if len({bool(a.walk) for a in answers}) > 1:
            raise Disagreement(f"the graph engine and z3 disagree about a cycle under {model}")
        return answers[0]

    def _smt(self, waits: WaitGraph) -> graph.Solution | str:
        from .engine import smt
        if not self.program.fragment:
            foot = smt.footprint_agrees(self.program)
            if isinstance(foot, smt.Unknown):
                return foot.reason
            if isinstance(foot, smt.Differs):
                raise Disagreement(f"z3 finds another footprint than the rules: {', '.join(d.what for d in foot.differences)}")
        answer = smt.solve(waits)
        return answer.reason if isinstance(answer, smt.Unknown) else answer

    def _valid_claim(self, model: str, solution: graph.Solution) -> dict:
        n = self.facts.n
        time = solution.time.tolist()
        launches = {}
        if not self.program.inserted:
            numbers = sorted({int(x) for x in self.facts.launch[self.facts.is_unit & (self.facts.launch >= 0)]})
            launches = {str(number): [time[n + 2 * g], time[n + 2 * g + 1]] for g, number in enumerate(numbers)}
        return {"claim": "valid", "model": model, "times": time[:n], "launches": launches}

    def _valid(self, model: str, findings: list[Finding], claim: dict) -> Answer:
        claims = [claim]
        if self.program.memory is not None:
            claims.append({"claim": "peak", "peaks": self.peaks})
        if self.limits.in_flight is not None:
            claims.append(self._stash_claim())
        for judgement in judge_all(self.plain, claims):
            if not judgement.accepted:
                raise Disagreement(f"the kernel rejects a valid claim under {model}: {judgement.reason}")
        return Answer(model, Verdict.VALID, self.program, tuple(findings), "", (self._document(claims),))

    def _invalid(self, model: str, findings: list[Finding], errors: list[Finding]) -> Answer:
        claims = [self._invalid_claim(model, f) for f in errors]
        for judgement, claim in zip(judge_all(self.plain, claims), claims):
            if not judgement.accepted:
                raise Disagreement(f"the kernel rejects {claim.get('fault', claim.get('walk'))} under {model}: {judgement.reason}")
        run = None
        if any(f.code not in ("IL701", "IL702") for f in errors) and self.facts.n <= REPLAY_LIMIT:
            run = self._replay(model, errors)
        return Answer(model, Verdict.INVALID, self.program, tuple(findings), "", (self._document(claims),) if claims else (), run)

    def _document(self, claims: list[dict]) -> dict:
        return {"format": "interlock.certificate/1", "program": self.plain, "claims": claims}

    def _stash_claim(self) -> dict:
        return {"claim": "in_flight", "counts": memory.in_flight(self.facts)}

    def _invalid_claim(self, model: str, finding: Finding) -> dict:
        if finding.code == "IL702":
            return self._stash_claim()
        if finding.code == "IL701":
            return {"claim": "peak", "peaks": self.peaks}
        if finding.code in ("IL402", "IL307"):
            listed = lambda event: [event[0], event[1]]
            return {"claim": "invalid", "model": model, "walk": [[listed(a), why, listed(b)] for a, why, b in finding.walk]}
        return {"claim": "invalid", "model": model, "fault": {"code": finding.code, "rows": finding.fault_rows}}

    def _replay(self, model: str, errors: list[Finding]):
        from .witness import executor
        walks = [f.walk for f in errors if f.code in ("IL402", "IL307")]
        if walks:
            run = executor.run(self.plain, model)
            ended = [row for a, _, b in walks[0] for kind, row in (a, b) if kind == "op" and row in run.done]
            if ended:
                raise Disagreement(f"the executor ends {self.program.show(ended[0])}, which is on a cycle of waits under {model}")
            return run
        run = executor.run(self.plain, model)
        if run.finished and not run.problems:
            raise Disagreement(f"the executor finds nothing wrong under {model}, the rules find {errors[0].code}")
        return run
