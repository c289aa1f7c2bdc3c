"""When every operation runs: what the simulator finds and the pictures draw. Integers, nanoseconds."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from interlock.program.ir import Program


@dataclass(frozen=True)
class Timeline:
    """A run of a program with written transfers under one communication model.

    start, end: for each row, ns from the start of the step (equal where a row takes no time; -1 where it has
    no event); the two halves of an overlap share theirs. A transfer's interval is the time it occupies its
    link, on both of its rows. critical: rows of one longest path, in the order of time. makespan: the largest
    end. figures: what timing/figures.py says of it, by name.
    """

    program: Program
    model: str
    start: np.ndarray
    end: np.ndarray
    critical: tuple[int, ...] = ()
    figures: dict = field(default_factory=dict)

    @property
    def makespan(self) -> int:
        return int(self.end.max()) if len(self.end) else 0
