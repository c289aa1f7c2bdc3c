"""The operations of a program as lists, one for each rank, that tests change and put back."""

from __future__ import annotations

from typing import Any

from interlock.program.build import OrderBuilder
from interlock.program.ir import Kind, Order, Program

Operation = dict[
    str, Any
]  # kind, stage, mb, peer, name, comm; launch: an object that its members share, or None

TRANSFERS = {Kind.SEND_F, Kind.RECV_F, Kind.SEND_B, Kind.RECV_B, Kind.SEND, Kind.RECV}
BACKWARDS = {Kind.B, Kind.I, Kind.W}


def make_operation(
    kind: Kind,
    stage: int = -1,
    mb: int = -1,
    peer: int = -1,
    name: int = -1,
    comm: int = 0,
    launch: object | None = None,
) -> Operation:
    return {
        "kind": kind,
        "stage": stage,
        "mb": mb,
        "peer": peer,
        "name": name,
        "comm": comm,
        "launch": launch,
    }


def list_operations(program: Program) -> list[list[Operation]]:
    """The operations of each rank."""
    order = program.order
    launches: dict[int, object] = {}
    lists = []
    for rank in range(program.ranks):
        operations = []
        for row in range(order.start[rank], order.start[rank + 1]):
            launch = int(order.launch[row])
            shared = launches.setdefault(launch, object()) if launch >= 0 else None
            columns = (order.stage, order.mb, order.peer, order.name, order.comm)
            values = (int(column[row]) for column in columns)
            operations.append(make_operation(Kind(int(order.kind[row])), *values, launch=shared))
        lists.append(operations)
    return lists


def build_order(lists: list[list[Operation]]) -> Order:
    """Lists back to columns; a launch that lost its unity is cut into its consecutive runs."""
    builder = OrderBuilder()
    for operations in lists:
        number, previous = -1, None
        for operation in operations:
            launch = operation["launch"]
            if launch is None:
                number = -1
            elif launch is not previous:
                number = builder.new_launch()
            previous = launch
            builder.op(
                operation["kind"],
                operation["stage"],
                operation["mb"],
                peer=operation["peer"],
                name=operation["name"],
                comm=operation["comm"],
                launch=number,
            )
        builder.end_rank()
    return builder.build()


def replace_operations(program: Program, lists: list[list[Operation]], **changes: Any) -> Program:
    return program.with_order(build_order([_drop_wrong_launches(ops) for ops in lists]), **changes)


def _drop_wrong_launches(operations: list[Operation]) -> list[Operation]:
    """Without the launch of what is no overlap of two adjacent halves and may not be grouped."""
    kept = [dict(operation) for operation in operations]
    start = 0
    while start < len(kept):
        launch, end = kept[start]["launch"], start + 1
        while launch is not None and end < len(kept) and kept[end]["launch"] is launch:
            end += 1
        if not _may_be_launched([operation["kind"] for operation in kept[start:end]]):
            for operation in kept[start:end]:
                operation["launch"] = None
        start = end
    return kept


def _may_be_launched(kinds: list[Kind]) -> bool:
    overlap = len(kinds) == 2 and Kind.F in kinds and not BACKWARDS.isdisjoint(kinds)
    return overlap or TRANSFERS.issuperset(kinds)
