"""Ascend NPUs under HCCL: spec/targets.md, R-TGT-NPU. One queue for each pair of ranks is the model
`pair`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from interlock.program.facts import IS_TRANSFER, Facts
from interlock.rules.alike import MANY
from interlock.rules.communication import Transfers
from interlock.rules.targets.context import Context
from interlock.text.finding import Finding, Mark


def check(facts: Facts, transfers: Transfers, context: Context) -> Iterator[Finding]:
    told: set[int] = set()
    for finding in ends(facts, transfers):
        told.add(int(facts.comm[finding.marks[0].row]))
        yield finding
    yield from mixed(facts, told)
    yield from first_launch(facts)


def ends(facts: Facts, t: Transfers) -> Iterator[Finding]:
    """IL831: both ends of a transfer are grouped, or neither, under every model."""
    a, b = t.pairs
    grouped = facts.launch[t.rows] >= 0
    p = facts.program
    for i in np.flatnonzero(grouped[a] != grouped[b])[:MANY].tolist():
        send, recv = int(t.rows[a[i]]), int(t.rows[b[i]])

        def word(at):
            return "grouped" if grouped[at] else "not grouped"

        yield Finding(
            "IL831",
            "R-TGT-NPU-1",
            f"{p.show(send)} and {p.show(recv)} are the two ends of one transfer, one end grouped, the "
            "other not: HCCL refuses the pair (EI0005)",
            (Mark(send, word(a[i])), Mark(recv, word(b[i]))),
            "group both ends, or neither",
        )


def mixed(facts: Facts, told: set[int]) -> Iterator[Finding]:
    """IL832: on one communicator every transfer is grouped, or none."""
    p = facts.program
    rows = np.flatnonzero(IS_TRANSFER[facts.kind])
    for c in np.unique(facts.comm[rows]).tolist():
        mine = rows[facts.comm[rows] == c]
        grouped = facts.launch[mine] >= 0
        if c not in told and grouped.any() and not grouped.all():
            a, b = int(mine[grouped][0]), int(mine[~grouped][0])
            yield Finding(
                "IL832",
                "R-TGT-NPU-2",
                f"communicator {p.communicators[c].name} carries grouped and plain transfers: {p.show(a)} "
                f"is grouped, {p.show(b)} is not",
                (Mark(a, "grouped"), Mark(b, "not grouped")),
                "group every transfer of the communicator, or give the plain ones their own",
            )


def first_launch(facts: Facts) -> Iterator[Finding]:
    """IL833: the first grouped launch on a communicator is issued by every member."""
    p = facts.program
    rows = np.flatnonzero(IS_TRANSFER[facts.kind] & (facts.launch >= 0))
    for c in np.unique(facts.comm[rows]).tolist():
        mine = rows[facts.comm[rows] == c]
        issue = set(facts.rank[mine].tolist())
        absent = [r for r in p.communicators[c].ranks if r not in issue]
        if absent:
            who = (
                f"rank {absent[0]} issues"
                if len(absent) == 1
                else f"ranks {', '.join(map(str, absent[:4]))}{' and others' if len(absent) > 4 else ''} "
                "issue"
            )
            row = int(mine[0])
            yield Finding(
                "IL833",
                "R-TGT-NPU-3",
                f"{who} no grouped launch on communicator {p.communicators[c].name}: the first one needs "
                f"the whole group, and {p.show(row)} waits for it",
                (Mark(row, "the first launch"),),
                "use a communicator of the ranks that take part, or plain transfers",
                rank=absent[0],
            )
