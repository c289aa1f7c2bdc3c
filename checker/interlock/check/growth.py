"""R-MEM-2 as far as elaboration tells: a derived program with more microbatches holds no more stashes (spec/memory.md, IL502)."""

from __future__ import annotations

from interlock.algebra.elaborate import Elaborated, elaborate_schedule
from interlock.algebra.library import Library
from interlock.program.facts import Facts
from interlock.rules.memory import in_flight
from interlock.text.finding import Finding, InputError, Severity


def growth(schedule: Elaborated, library: Library, required: bool) -> tuple[Finding | None, str]:
    """The finding, if a rank's live stashes grow with M (an error where required); else None and what is left to prove."""
    P, M = schedule.program.ranks, schedule.program.microbatches
    fewer = max(M, 2 * P)
    sizes = (fewer, fewer + P, fewer + 2 * P)
    try:
        programs = [
            schedule if m == M else elaborate_schedule(schedule.node, library, microbatches=m) for m in sizes
        ]
    except InputError as error:
        return (
            None,
            f"the schedule is not defined for {fewer} to {sizes[-1]} microbatches ({error}), so growth cannot be measured",
        )
    for until, what in (("X", "microbatches in flight"), ("W", "weight-gradient stashes")):
        first, second, third = (in_flight(Facts(p.program), until) for p in programs)
        for r in range(P):
            if first[r] < second[r] < third[r]:
                return Finding(
                    "IL502",
                    "R-MEM-2",
                    f"the {what} of rank {r} grow with the number of microbatches: {first[r]}, {second[r]}, {third[r]} "
                    f"of them with M = {', '.join(map(str, sizes))}",
                    (),
                    "use a skeleton with a bound, or keep M small",
                    Severity.ERROR if required else Severity.WARNING,
                    rank=r,
                    data={"microbatches": list(sizes), "stashes": [first[r], second[r], third[r]]},
                ), ""
    return (
        None,
        f"`bounded_stash`: no growth was seen with M = {', '.join(map(str, sizes))}, but that is no proof for every M",
    )
