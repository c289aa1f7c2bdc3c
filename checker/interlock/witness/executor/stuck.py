"""Says in words what each rank that cannot proceed waits for."""

from __future__ import annotations

from interlock.witness.executor.machine import Machine, Unit
from interlock.witness.executor.world import Op


def stuck(machine: Machine) -> dict[int, list[tuple[int, str]]]:
    """By rank, the rows that have been issued and not ended, each with what it waits for. Ranks at their end
    are left out.
    """
    waiting: dict[int, list[tuple[int, str]]] = {}
    w = machine.world
    for rank in range(w.ranks):
        rows = [
            (op.row, _of_unit(machine, unit, op))
            for unit in machine.open[rank]
            for op in unit.ops
            if not machine.done[op.row]
        ]
        if machine.at[rank] < len(w.steps[rank]) and machine.held[rank] is None:
            for op in w.steps[rank][machine.at[rank]]:
                if needs := [f"{w.ops[row]} on rank {w.ops[row].rank}" for row in machine.waits(op)]:
                    rows.append((op.row, f"{op} waits for {', '.join(needs)}"))
        if rows:
            waiting[rank] = sorted(rows)
    return waiting


def _of_unit(machine: Machine, unit: Unit, op: Op) -> str:
    if not unit.started:
        key = next(key for key in unit.queues if machine.queues[key][0] is not unit)
        queue = machine.queues[key]
        ahead = queue[queue.index(unit) - 1]
        return f"{op} waits for its turn in a queue of rank {op.rank} ({key[0]}) behind {ahead.ops[0]}"
    side, k = machine.sides[op.row], machine.number[op.row]
    if side[0] == "coll":
        late = [("coll", op.comm, rank) for rank in machine.world.comms[op.comm]["ranks"]]
        late = [
            other
            for other in late
            if not (k < len(machine.ends[other]) and machine.ends[other][k].unit.started)
        ]
        return f"{op} waits for " + ", ".join(
            f"{_partner(machine, other, k)} on rank {other[2]}" for other in late
        )
    other = machine.other(side)
    rank = side[1][1] if side[0] == "SEND" else side[1][0]
    return f"{op} waits for {_partner(machine, other, k)} on rank {rank}"


def _partner(machine: Machine, side: tuple, k: int) -> str:
    if k >= machine.listed[side]:
        return "a partner, which is not listed,"
    if k < len(machine.ends[side]):
        return f"{machine.ends[side][k].op}, which has not started,"
    rows = [row for row, own in enumerate(machine.sides) if own == side]
    return f"{machine.world.ops[rows[k]]}, which has not been issued,"
