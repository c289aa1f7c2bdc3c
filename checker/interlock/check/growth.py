"""R-MEM-2 as far as elaboration tells: a derived program with more microbatches holds no more stashes
(spec/memory.md, IL502).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from interlock.check.obligation import Record
from interlock.check.verdict import Outcome, Verdict
from interlock.load import Case
from interlock.program.facts import Facts
from interlock.rules.memory import in_flight
from interlock.text.finding import Finding, InputError, Severity

MOST_OPERATIONS = 300_000  # up to which a derived program is elaborated again with more microbatches
STASHES = (("X", "microbatches in flight"), ("W", "weight-gradient stashes"))


@dataclass(frozen=True)
class BoundedStash:
    """R-MEM-2: no growth with M. A warning, and an error under `require bounded_stash`, which no growth seen
    does not prove.
    """

    case: Case
    models: tuple[str, ...]
    name: str = "stashes that do not grow with the number of microbatches"

    def discharge(self, earlier: Record) -> Outcome:
        required = self.case.requirements.bounded_stash
        if self.case.trained is None or len(self.case.program.order) > MOST_OPERATIONS:
            too_large = "`bounded_stash` is decided for derived programs of moderate size only"
            return leave_open(too_large) if required else Outcome(Verdict.VALID, "")
        found = measure_growth(self.case)
        if isinstance(found, Finding):
            if not required:
                return Outcome(Verdict.VALID, "", (found,))
            error = replace(found, severity=Severity.ERROR)
            return Outcome(Verdict.INVALID, "", (error,))
        return leave_open(found) if required else Outcome(Verdict.VALID, "")


def leave_open(reason: str) -> Outcome:
    """What `require` asks and nobody decided: R-REQ-1."""
    note = Finding("IL901", "R-REQ-1", reason, severity=Severity.NOTE)
    return Outcome(Verdict.UNKNOWN, reason, (note,))


def measure_growth(case: Case) -> Finding | str:
    """The warning, if a rank's live stashes grow with M; else what is left to prove."""
    P, M = case.program.ranks, case.program.microbatches
    fewest = max(M, 2 * P)
    sizes = (fewest, fewest + P, fewest + 2 * P)
    try:
        programs = [case.program if m == M else case.with_microbatches(m).program for m in sizes]
    except InputError as error:
        return (
            f"the schedule is not defined for {fewest} to {sizes[-1]} microbatches ({error}), "
            "so growth cannot be measured"
        )
    shown = ", ".join(map(str, sizes))
    for until, what in STASHES:
        first, second, third = (in_flight(Facts(p), until) for p in programs)
        for r in range(P):
            if first[r] < second[r] < third[r]:
                counts = [first[r], second[r], third[r]]
                return Finding(
                    "IL502",
                    "R-MEM-2",
                    f"the {what} of rank {r} grow with the number of microbatches: "
                    f"{', '.join(map(str, counts))} of them with M = {shown}",
                    (),
                    "use a skeleton with a bound, or keep M small",
                    Severity.WARNING,
                    rank=r,
                    data={"microbatches": list(sizes), "stashes": counts},
                )
    return f"`bounded_stash`: no growth was seen with M = {shown}, but that is no proof for every M"
