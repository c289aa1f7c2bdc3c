"""What the emulated benchmarks share: plans of schedules with their times, predicted and run.

An emulated step has timed waits for compute and moves its payloads over gloo between processes of this
machine (spec/lowering.md, "Emulation").
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from interlock.program.ir import Program
from interlock.runtime.calibrate import lowered
from interlock.runtime.emulation import EmulationSettings, emulate
from interlock.runtime.pool import Pool
from interlock.timing.durations import Machine, compute_durations
from interlock.timing.simulate import simulate


@dataclass(frozen=True)
class Plan:
    """A schedule lowered to `torch`, with its layers' times."""

    program: Program
    times: tuple

    def predicted(self, machine: Machine) -> int:
        """ns of the step under `pair`."""
        return simulate(
            self.program, compute_durations(self.program, self.times, machine), "pair", critical=False
        ).makespan

    def measured(self, pool: Pool, asked: EmulationSettings = EmulationSettings()) -> int:
        """ns of one emulated step, in the model's time. Raises OSError, also if it stops."""
        run = emulate(self.program, compute_durations(self.program, self.times), asked, pool=pool)
        if not run.finished:
            raise OSError(0, "; ".join(run.stands), "the emulation stopped")
        return run.timeline.makespan


def plan(text: str) -> Plan:
    """The only schedule of a text, which must be valid under `pair`."""
    return Plan(*lowered(text))


def load() -> str:
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
