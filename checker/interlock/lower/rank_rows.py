"""Orders as lists of rows, to take apart and put together again."""

from __future__ import annotations

from typing import NamedTuple

from interlock.program.build import OrderBuilder
from interlock.program.ir import Program
from interlock.program.kinds import COMPUTE, Kind


class Row(NamedTuple):
    """One operation with every column of the order."""

    kind: Kind
    stage: int
    mb: int
    peer: int = -1
    name: int = -1
    comm: int = 0
    launch: int = -1
    at: int = -1
    width: int = 0

    @property
    def key(self) -> tuple[int, int]:
        return self.stage, self.mb


def rows_of(program: Program) -> list[list[Row]]:
    o = program.order
    columns = [getattr(o, c).tolist() for c in Row._fields]
    rows = [Row(Kind(k), *rest) for k, *rest in zip(*columns)]
    start = o.start.tolist()
    return [rows[a:b] for a, b in zip(start, start[1:])]


def with_rows(program: Program, ranks: list[list[Row]], **changes) -> Program:
    """The same program with other lists; launches are numbered anew, and an overlap that lost a
    half is none.
    """
    order = OrderBuilder()
    for rank in ranks:
        i = 0
        while i < len(rank):
            j = i + 1
            while j < len(rank) and rank[i].launch >= 0 and rank[j].launch == rank[i].launch:
                j += 1
            lone = rank[i].launch < 0 or (j == i + 1 and rank[i].kind in COMPUTE)
            launch = -1 if lone else order.new_launch()
            for row in rank[i:j]:
                order.op(
                    row.kind,
                    row.stage,
                    row.mb,
                    peer=row.peer,
                    name=row.name,
                    comm=row.comm,
                    launch=launch,
                    at=row.at,
                    width=row.width,
                )
            i = j
        order.end_rank()
    return program.with_order(order.build(), **changes)


def unlaunched(rank: list[Row]) -> list[Row]:
    """Without the numbers of launches, which say nothing when operations were put in or taken away, and
    without places.
    """
    return [row._replace(launch=-1, at=-1, width=0) for row in rank]
