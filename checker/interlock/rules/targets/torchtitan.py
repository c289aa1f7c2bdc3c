"""torchtitan's `pipeline_parallel_schedule_csv`: spec/targets.md, R-TGT-TITAN. PyTorch's rules hold
as well.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from interlock.program.facts import Facts
from interlock.program.ir import Kind
from interlock.rules.communication import Transfers
from interlock.rules.targets import torch
from interlock.rules.targets.context import Context, elsewhere, loop
from interlock.text.finding import Finding, Mark, Severity


def check(facts: Facts, transfers: Transfers, context: Context) -> Iterator[Finding]:
    yield from torch.check(facts, transfers, context)
    yield from compute_only(facts, transfers)
    yield from placement(facts, context)
    yield from few_microbatches(facts)


def compute_only(facts: Facts, transfers: Transfers) -> Iterator[Finding]:
    """IL811: torchtitan loads compute-only files."""
    if not facts.program.inserted:
        yield Finding(
            "IL811",
            "R-TGT-TITAN-1",
            "the transfers are written: torchtitan loads its schedule as compute-only, and a transfer in it "
            "is refused",
            tuple(Mark(int(r), "a transfer") for r in transfers.rows[:1]),
            "list F, B, I and W alone: PyTorch puts the transfers in",
        )


def placement(facts: Facts, context: Context) -> Iterator[Finding]:
    """IL812: as many stages on every rank. IL813: stage s on rank s mod P, or there and back where a V
    schedule is named.
    """
    p = facts.program
    S, P = facts.S, p.ranks
    if facts.is_replicated.any():  # IL806 says it
        return
    held = np.bincount([s.rank for s in p.stages], minlength=P)
    if S % P or (held != held[0]).any():
        most, least = int(np.argmax(held)), int(np.argmin(held))
        row = np.flatnonzero((facts.kind == Kind.F) & (facts.rank == most))
        yield Finding(
            "IL812",
            "R-TGT-TITAN-2",
            f"rank {most} has {held[most]} stage{'s' * int(held[most] > 1)} and rank {least} has "
            f"{held[least]}: torchtitan builds as many on every rank",
            tuple(Mark(int(r), f"rank {most} has most stages") for r in row[:1]),
            f"cut the model into a multiple of {P} stages, as many on every rank",
            rank=most,
        )
        return
    if context.placement == "vee":
        if S != 2 * P:
            yield Finding(
                "IL813",
                "R-TGT-TITAN-3",
                f"a V schedule has two stages on every rank, and this one has {S // P}",
                (),
                "declare the placement `loop`, or use two stages on each rank",
            )
            return
        want, why = (
            [s if s < P else S - 1 - s for s in range(S)],
            "with a V schedule torchtitan builds stage {stage} on rank {rank}",
        )
        help = (
            "name a schedule whose stages lie in a loop as `pipeline_parallel_schedule`, and leave "
            "`--placement vee` out"
        )
    else:
        want, why = (
            loop(S, P),
            "torchtitan builds stage {stage} on rank {rank}: the placement comes from the schedule's name, "
            "not from the file",
        )
        help = (
            "place stage s on rank s mod P; for a V set `pipeline_parallel_schedule=ZBVZeroBubble`, and "
            "say so here with `--placement vee`"
        )
    yield from elsewhere(facts, want, "IL813", "R-TGT-TITAN-3", why, help)


def few_microbatches(facts: Facts) -> Iterator[Finding]:
    """IL814, a warning: fewer microbatches than stages."""
    if facts.M < facts.S:
        yield Finding(
            "IL814",
            "R-TGT-TITAN-4",
            f"{facts.M} microbatches are fewer than the {facts.S} stages: torchtitan warns",
            (),
            f"use {facts.S} microbatches or more",
            Severity.WARNING,
        )
