"""One program to a verdict: the rules and the engine search, the kernel judges, the executor replays what is invalid."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from interlock.check.verdict import Answer, Verdict
from interlock.engine import graph
from interlock.kernel.judge import Judgement, judge_all
from interlock.program.facts import Facts
from interlock.program.ir import Memory, Program
from interlock.program.linearise import compute_times
from interlock.program.plain import plain_form
from interlock.program.transfers import insert, restrict
from interlock.rules import communication, dependency, footprint, memory
from interlock.rules.waits import MODELS, WaitGraph, wait_graph
from interlock.text.finding import Finding
from interlock.witness import story

REPLAY_LIMIT = 200_000  # operations up to which the executor replays a counterexample,
REPLAY_SPACE = 2_000_000  # ... and layers times microbatches
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

    `trained`: the fully trained program that a derived one was restricted from; its linearisation places the transfers where memory asks for
    them, on communicator comm_of[s] across the right border of stage s. Raises Disagreement, and ValueError for an unknown engine or model.
    """
    if engine not in ENGINES or any(m not in MODELS for m in models):
        raise ValueError(f"unknown engine or model: {engine}, {', '.join(models)}")
    if limits.peak is not None and program.memory is None:
        program = replace(program, memory=unbounded(program))
    needs_bytes = limits.of_memory or (
        program.memory is not None and any(c is not None for c in program.memory.capacity)
    )
    if program.inserted and needs_bytes:
        program = written(program, trained, comm_of) or program
    if program.inserted and program.memory is not None:
        program = replace(program, memory=None)  # a cyclic order: no bytes to count, the cycle is the answer
    try:
        return _Check(program, engine, limits).answers(models)
    except MemoryError:
        reason = f"checking its {len(program.order):,} operations takes more memory than there is; a smaller member of its family may be decided"
        return tuple(Answer(model, program=program, reason=reason) for model in models)


def unbounded(program: Program) -> Memory:
    """For a program without `memory` whose bytes a requirement asks for."""
    return Memory((None,) * program.ranks)


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
        self.plain = plain_form(program)
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
                    found.append(
                        Finding(
                            "IL702",
                            "R-REQ-3",
                            f"rank {r} has {count} microbatches in flight where `require in_flight` allows {limit}",
                            (),
                            "fewer warmup forwards on this rank",
                            rank=r,
                            data={"in_flight": count, "limit": limit},
                        )
                    )
        return found

    def answers(self, models: Sequence[str]) -> tuple[Answer, ...]:
        """Decides under each model, and has the kernel judge all their claims in one reading of the program."""
        inserted = self.program.inserted  # then one answer is that of every model
        drafts = [self._decide(model) for model in (models[:1] if inserted else models)]
        claims = [claim for _, claims in drafts for claim in claims]
        judgements = iter(judge_all(self.plain, claims) if claims else ())
        answers = [
            self._judged(answer, claims, [next(judgements) for _ in claims]) for answer, claims in drafts
        ]
        return (
            tuple(replace(answers[0], model=model) for model in models)
            if inserted and answers
            else tuple(answers)
        )

    def _judged(self, answer: Answer, claims: list[dict], judgements: list[Judgement]) -> Answer:
        for claim, judgement in zip(claims, judgements):
            if not judgement.accepted:
                what = (
                    "a valid claim"
                    if answer.verdict is Verdict.VALID
                    else claim.get("fault", claim.get("walk"))
                )
                raise Disagreement(f"the kernel rejects {what} under {answer.model}: {judgement.reason}")
        run = None
        if (
            answer.verdict is Verdict.INVALID
            and any(f.code not in ("IL701", "IL702") for f in answer.errors)
            and self._replayable()
        ):
            run = self._replay(answer.model, answer.errors)
        return replace(answer, certificates=(self._document(claims),) if claims else (), replay=run)

    def _decide(self, model: str) -> tuple[Answer, list[dict]]:
        """An answer under one model, and the claims that the kernel has to accept for it."""
        findings = self.static + list(communication.grouped_alike(self.facts, self.transfers, model))
        errors = [f for f in findings if f.is_error]
        claim = None
        if not any(f.code not in ("IL701", "IL702", "IL501", "IL408") for f in errors):
            solution = self._solve(model)
            if isinstance(solution, str):
                if not errors:
                    return Answer(model, Verdict.UNKNOWN, self.program, tuple(findings), solution), []
            elif solution.walk:
                cycle = story.deadlock(self.facts, model, solution.walk, solution.shortest)
                findings.append(cycle)
                errors.append(cycle)
            else:
                claim = self._valid_claim(model, solution)
        if errors:
            return Answer(model, Verdict.INVALID, self.program, tuple(findings), ""), [
                self._invalid_claim(model, f) for f in errors
            ]
        claims = [claim]
        if self.program.memory is not None:
            claims.append({"claim": "peak", "peaks": self.peaks})
        if self.limits.in_flight is not None:
            claims.append(self._stash_claim())
        return Answer(model, Verdict.VALID, self.program, tuple(findings), ""), claims

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
        from interlock.engine import smt

        try:
            if self._undecided:
                return self._undecided
            answer = smt.solve(waits, second=self.engine == "both")
        except smt.Contradiction as error:
            raise Disagreement(str(error)) from error
        return answer.reason if isinstance(answer, smt.Unknown) else answer

    @cached_property
    def _undecided(self) -> str:
        """Why the solvers do not decide the footprint or the bytes; empty: they do, and agree with the rules."""
        from interlock.engine import smt

        second = self.engine == "both"
        if not self.program.fragment:
            foot = smt.footprint_agrees(self.program, second=second)
            if isinstance(foot, smt.Unknown):
                return foot.reason
            if isinstance(foot, smt.Differs):
                raise Disagreement(
                    f"z3 finds another footprint than the rules: {', '.join(d.what for d in foot.differences)}"
                )
        bytes_asked = self.program.memory is not None and not self.program.inserted
        for code, limits in (
            (("IL501", self.program.memory.capacity), ("IL701", self.limits.peak)) if bytes_asked else ()
        ):
            if limits is None or all(limit is None for limit in limits):
                continue
            answer = smt.fits(self.program, limits=limits, second=second)
            if isinstance(answer, smt.Unknown):
                return answer.reason
            found = set(answer.rows) if isinstance(answer, smt.Over) else set()
            told = {r for f in self.static if f.code == code for r in (f.rank, *map(int, f.data["others"]))}
            if found != told:
                raise Disagreement(
                    f"z3 finds other ranks with too many bytes than the rules: {sorted(found)}, not {sorted(told)}"
                )
        return ""

    def _valid_claim(self, model: str, solution: graph.Solution) -> dict:
        n = self.facts.n
        time = solution.time.tolist()
        launches = {}
        if not self.program.inserted:
            numbers = sorted(
                {int(x) for x in self.facts.launch[self.facts.is_unit & (self.facts.launch >= 0)]}
            )
            launches = {
                str(number): [time[n + 2 * g], time[n + 2 * g + 1]] for g, number in enumerate(numbers)
            }
        return {"claim": "valid", "model": model, "times": time[:n], "launches": launches}

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
            return {
                "claim": "invalid",
                "model": model,
                "walk": [[listed(a), why, listed(b)] for a, why, b in finding.walk],
            }
        return {
            "claim": "invalid",
            "model": model,
            "fault": {"code": finding.code, "rows": finding.fault_rows},
        }

    def _replayable(self) -> bool:
        p = self.program
        return self.facts.n <= REPLAY_LIMIT and len(p.layers) * p.microbatches <= REPLAY_SPACE

    def _replay(self, model: str, errors: Sequence[Finding]):
        from interlock.witness import executor

        walks = [f.walk for f in errors if f.code in ("IL402", "IL307")]
        if walks:
            run = executor.run(self.plain, model)
            ended = [row for a, _, b in walks[0] for kind, row in (a, b) if kind == "op" and row in run.done]
            if ended:
                raise Disagreement(
                    f"the executor ends {self.program.show(ended[0])}, which is on a cycle of waits under {model}"
                )
            return run
        run = executor.run(self.plain, model)
        if run.finished and not run.problems:
            raise Disagreement(
                f"the executor finds nothing wrong under {model}, the rules find {errors[0].code}"
            )
        return run
