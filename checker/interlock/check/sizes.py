"""`assume` over sizes: no value in the intervals needs more bytes than the upper ends (spec/memory.md, "Sizes
within intervals").

A case holds its sizes at their upper ends (load.py); what is here says at which sizes a finding holds, and
has a solver
look for others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from interlock.algebra.elaborate import Assumption, Elaborated
from interlock.check.obligation import Disagreement, Record
from interlock.check.subject import Subject
from interlock.check.verdict import Outcome, Verdict
from interlock.load import assumed_sizes, layers_at
from interlock.program.facts import Facts
from interlock.program.ir import Program
from interlock.rules.memory import MOMENT, show_bytes
from interlock.rules.usage import Usage
from interlock.text.finding import Finding

Limit = Sequence[int | None] | None


@dataclass(frozen=True)
class Sizes:
    """What a schedule assumes of sizes."""

    schedule: Elaborated
    assumes: tuple[Assumption, ...]

    @staticmethod
    def of(schedule: Elaborated) -> Sizes | None:
        """None where it assumes nothing of sizes."""
        assumes = tuple(assumed_sizes(schedule))
        return Sizes(schedule, assumes) if assumes else None

    def place(self, finding: Finding, program: Program, peak: Limit) -> Finding:
        """A finding about bytes, with the sizes at which it holds and, of one assumption, from which on."""
        excess, _, moment = finding.message.partition(MOMENT)
        limits = program.memory.capacity if finding.code == "IL501" and program.memory is not None else peak
        tail = f"{MOMENT}{moment}" if moment else ""
        return replace(finding, message=f"{excess} {self._where(program, limits)}{tail}")

    def _where(self, program: Program, limits: Limit) -> str:
        where = f"at {self.show()}"
        if len(self.assumes) > 1:
            return where
        [assumption] = self.assumes
        low, high = assumption.low.value, assumption.high.value
        if self._exceeds(program, limits, low):
            return f"{where}, and at every smaller value assumed" if low < high else where
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._exceeds(program, limits, middle) else (middle, high)
        return f"{where} (it breaks from {show_bytes(high)} on)"

    def _exceeds(self, program: Program, limits: Limit, value: int) -> bool:
        """Whether a rank needs more than its limit where the only assumed size is `value`."""
        layers = layers_at(self.schedule, program.layers, {self.assumes[0]: value})
        peaks = Usage(Facts(replace(program, layers=layers))).peaks
        return any(limit is not None and used > limit for used, limit in zip(peaks, limits or ()))

    def show(self) -> str:
        """`vit.activation = 3 MiB`: what is assumed, at the upper ends."""
        return ", ".join(
            f"{name_assumption(self.schedule.program, a)} = "
            f"{show_bytes(a.high.value)}{' per image' * a.high.per_image}"
            for a in self.assumes
        )


def name_assumption(program: Program, assumption: Assumption) -> str:
    """`vit.forward`."""
    names = [program.layers[l].name for l in assumption.layers]
    group = names[0].split("[")[0] if len(names) > 1 else names[0]
    return f"{group}.{assumption.property}"


def smallest(*limits: Sequence[int | None]) -> tuple[int | None, ...]:
    """For each rank the smallest of the limits that there are."""
    return tuple(min((x for x in mine if x is not None), default=None) for mine in zip(*limits))


@dataclass(frozen=True)
class SizesWithin:
    """The solver finds no sizes in the intervals, each layer's its own, that need too many bytes. Sizes for
    each image stay at
    their upper ends."""

    subject: Subject
    sizes: Sizes
    models: tuple[str, ...]
    name: str = "every size within its interval"

    def discharge(self, earlier: Record) -> Outcome:
        from interlock.engine import smt

        assumes = [a for a in self.sizes.assumes if not a.high.per_image]
        program = self.subject.program
        if not assumes or not self.subject.counts_bytes or not self.subject.sound or program.memory is None:
            return Outcome(Verdict.VALID, "")
        limits = smallest(program.memory.capacity, self.subject.limits.peak or program.memory.capacity)
        if self.subject.exceeds_capacity or all(x is None for x in limits):
            return Outcome(Verdict.VALID, "")
        names = {(a, l): f"assumed.{a.property}.l{l}" for a in assumes for l in a.layers}
        parameters = [smt.Parameter(name, a.property, (l,)) for (a, l), name in names.items()]
        bounds = {name: (a.low.value, a.high.value) for (a, _), name in names.items()}
        found = smt.check_memory(program, parameters, bounds, limits)
        if isinstance(found, smt.Over):
            if any(used > x for used, x in zip(self.subject.usage.peaks, limits) if x is not None):
                return Outcome(Verdict.VALID, "")  # the upper ends need too many bytes: `Peak` says so
            what = (
                "z3 finds sizes within what is assumed that need more bytes than the upper ends: "
                f"{found.values}"
            )
            raise Disagreement(what)
        if isinstance(found, smt.Unknown):
            return Outcome(reason=f"sizes within their intervals: {found.reason}")
        return Outcome(Verdict.VALID, "")
