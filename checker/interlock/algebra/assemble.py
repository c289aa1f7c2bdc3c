"""The columns of every rank put together to an Order."""

from __future__ import annotations

import numpy as np

from interlock.program.ir import Order
from interlock.program.kinds import COMPUTE

# what the parts of a derived order are made of: one row of the array each
FIELDS = ("kind", "stage", "mb", "comm", "launch", "at", "width")
_COMPUTE = np.array(sorted(int(k) for k in COMPUTE))


def assemble(ranks: list[np.ndarray]) -> Order:
    """`ranks[r]` is an array [len(FIELDS), n]. Launches are numbered anew, ascending with the rows; a lone
    half of an overlap is plain.
    """
    start = np.zeros(len(ranks) + 1, dtype=np.int64)
    np.cumsum([part.shape[1] for part in ranks], out=start[1:])
    n = int(start[-1])
    dtype = {"kind": np.uint8, "at": np.int64}
    column = {}
    for row, name in enumerate(FIELDS):
        column[name] = np.concatenate([part[row] for part in ranks]).astype(
            dtype.get(name, np.int64 if name == "launch" else np.int32)
        )
    column["launch"] = _renumbered(column["launch"], column["kind"], start)
    absent = np.full(n, -1, dtype=np.int32)
    return Order(
        start,
        column["kind"],
        column["stage"],
        column["mb"],
        absent,
        absent,
        column["comm"],
        column["launch"],
        column["at"],
        column["width"],
    )


def _renumbered(launch: np.ndarray, kind: np.ndarray, start: np.ndarray) -> np.ndarray:
    out = np.full(len(launch), -1, dtype=np.int32)
    rows = np.flatnonzero(launch >= 0)
    if not len(rows):
        return out
    first = np.ones(len(rows), dtype=bool)
    first[1:] = (launch[rows[1:]] != launch[rows[:-1]]) | (np.diff(rows) != 1) | np.isin(rows[1:], start)
    number = np.cumsum(first) - 1
    lone = (np.bincount(number)[number] == 1) & np.isin(kind[rows], _COMPUTE)
    _, number = np.unique(number[~lone], return_inverse=True)
    out[rows[~lone]] = number
    return out
