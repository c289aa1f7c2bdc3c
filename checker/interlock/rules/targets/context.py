"""What a program does not say of the runtime it is meant for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from interlock.program.facts import IS_COMPUTE, Facts
from interlock.rules.alike import alike, more
from interlock.text.finding import Finding, Mark


@dataclass(frozen=True)
class Context:
    """placement: where the runtime's stage objects lie: `loop`, `vee`, the rank of each stage; None: not
    said.
    """

    placement: str | tuple[int, ...] | None = None

    def ranks(self, stages: int, ranks: int) -> list[int] | None:
        """The declared rank of every stage, None if none is declared or the declaration is of another number
        of stages.
        """
        if self.placement == "loop":
            return loop(stages, ranks)
        if self.placement == "vee":
            return [s % ranks if s // ranks % 2 == 0 else ranks - 1 - s % ranks for s in range(stages)]
        return list(self.placement) if self.placement is not None and len(self.placement) == stages else None


def loop(stages: int, ranks: int) -> list[int]:
    return [s % ranks for s in range(stages)]


def elsewhere(
    facts: Facts,
    expected: list[int],
    code: str,
    rule: str,
    why: str,
    help: str,
    stages: list[int] | None = None,
) -> Iterator[Finding]:
    """One finding for each stage whose compute runs on another rank than `expected` (by stage, or by position
    in `stages`).
    """
    want = np.full(max(facts.S, 1), -1, dtype=np.int64)
    want[range(facts.S) if stages is None else stages] = expected
    rows = np.flatnonzero(IS_COMPUTE[facts.kind] & facts.stage_ok)
    asked = want[facts.stage[rows]]
    rows = rows[(asked >= 0) & (asked != facts.rank[rows])]
    for row, count in alike(rows, facts.stage[rows], facts.rank[rows]):
        s, r = int(facts.stage[row]), int(facts.rank[row])
        yield Finding(
            code,
            rule,
            f"{facts.program.show(row)} is on rank {r}, and "
            f"{why.format(stage=s, rank=int(want[s]))}{more(count, f'of stage {s}')}",
            (Mark(row, f"stage {s} on rank {r}"),),
            help.format(stage=s, rank=int(want[s])),
        )
