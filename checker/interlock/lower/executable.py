"""What interlock.runtime executes: whole schedules, no payloads named by the writer."""

from __future__ import annotations

from interlock.program.ir import Kind, Program

NONE = (Kind.SEND, Kind.RECV, Kind.WAIT, Kind.FREE, Kind.COLL, Kind.REDUCE_DATA)


def without_action(program: Program) -> str:
    """Why a program cannot be run by interlock.runtime; empty: it can."""
    for row, kind in enumerate(program.order.kind.tolist()):
        if kind in NONE:
            return (
                f"the runtime has no action for {program.show(row)} on rank {program.rank_of(row)}: it "
                "names what only its writer knows"
            )
    return ""
