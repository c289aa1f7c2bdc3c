"""Bytes and stashes of a program: R-MEM-1, and what `require` asks of them (spec/memory.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from interlock.check.obligation import Disagreement, Record
from interlock.check.sizes import Sizes
from interlock.check.subject import Subject
from interlock.check.verdict import Outcome, Verdict
from interlock.rules import memory
from interlock.text.finding import Finding


@dataclass(frozen=True)
class Peak:
    """R-MEM-1 and R-REQ-2: the bytes of every rank within its capacity and within `require peak`. `sizes`:
    assumed in intervals.
    """

    subject: Subject
    models: tuple[str, ...]
    sizes: Sizes | None = None
    name: str = "the bytes of every rank"

    def discharge(self, earlier: Record) -> Outcome:
        subject, limits = self.subject, self.subject.limits
        if not subject.sound:
            return Outcome(reason="not asked: the program has errors", moot=True)
        if not subject.counts_bytes:
            return Outcome(Verdict.VALID, "", program=subject.program)
        found = list(memory.check_capacity(subject.usage))
        if limits.peak is not None:
            found += memory.check_peaks(
                subject.usage, limits.peak, "IL701", "R-REQ-2", "`require peak` allows"
            )
        open_ = _ask_solver(subject, found) if subject.engine != "graph" else ""
        if self.sizes is not None:
            found = [self.sizes.place(f, subject.program, limits.peak) for f in found]
        peaks: dict[str, Any] = {"claim": "peak", "peaks": subject.usage.peaks}
        errors = [f for f in found if f.is_error]
        if errors:
            statements: list[dict[str, Any]] = [peaks] if any(f.code == "IL701" for f in errors) else []
            statements += [
                {"claim": "invalid", "model": self.models[0], "fault": {"code": f.code, "rows": f.fault_rows}}
                for f in errors
                if f.code != "IL701"
            ]
            claims = tuple(subject.claim(s) for s in statements)
            exceeded = [f for f in errors if f.code != "IL701"]
            replay = subject.replay(self.models[0], exceeded) if exceeded else None
            return Outcome(Verdict.INVALID, "", tuple(found), subject.program, claims, replay)
        if open_:
            return Outcome(Verdict.UNKNOWN, open_, tuple(found), subject.program)
        return Outcome(Verdict.VALID, "", tuple(found), subject.program, (subject.claim(peaks),))


def _ask_solver(subject: Subject, found: list[Finding]) -> str:
    """Why the solver does not decide the bytes; "": it does, and finds the ranks that the rules find. Raises
    Disagreement.
    """
    from interlock.engine import smt

    assert subject.program.memory is not None
    for code, limits in (("IL501", subject.program.memory.capacity), ("IL701", subject.limits.peak)):
        if limits is None or all(limit is None for limit in limits):
            continue
        try:
            answer = smt.check_memory(subject.program, limits=limits, second=subject.engine == "both")
        except smt.Contradiction as error:
            raise Disagreement(str(error)) from error
        if isinstance(answer, smt.Unknown):
            return str(answer.reason)
        theirs = set(answer.rows) if isinstance(answer, smt.Over) else set()
        ours = {
            r
            for f in found
            if f.code == code and f.rank is not None
            for r in (f.rank, *map(int, f.data["others"]))
        }
        if theirs != ours:
            ranks = f"{sorted(theirs)}, not {sorted(ours)}"
            raise Disagreement(f"z3 finds other ranks with too many bytes than the rules: {ranks}")
    return ""


@dataclass(frozen=True)
class InFlight:
    """R-REQ-3: the microbatches in flight on every rank within `require in_flight`."""

    subject: Subject
    models: tuple[str, ...]
    name: str = "the microbatches in flight on every rank"

    def discharge(self, earlier: Record) -> Outcome:
        subject, limits = self.subject, self.subject.limits.in_flight
        if limits is None:
            return Outcome(Verdict.VALID, "")
        counts = memory.in_flight(subject.facts)
        findings = tuple(
            Finding(
                "IL702",
                "R-REQ-3",
                f"rank {r} has {count} microbatches in flight where `require in_flight` allows {limit}",
                (),
                "fewer warmup forwards on this rank",
                rank=r,
                data={"in_flight": count, "limit": limit},
            )
            for r, (count, limit) in enumerate(zip(counts, limits))
            if limit is not None and count > limit
        )
        claim = subject.claim({"claim": "in_flight", "counts": counts})
        verdict = Verdict.INVALID if findings else Verdict.VALID
        return Outcome(verdict, "", findings, subject.program, (claim,))
