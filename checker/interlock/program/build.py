"""An order of operations, collected rank by rank."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from interlock.program.ir import ROW_COLUMNS, Order, column_type
from interlock.program.kinds import Kind


class OrderBuilder:
    """`op` adds an operation to the rank opened last, `rows` a block of columns, `end_rank` ends the rank."""

    def __init__(self) -> None:
        self._start = [0]
        self._n = 0
        self._blocks: list[dict[str, np.ndarray]] = []
        self._rows: list[tuple[int, ...]] = []
        self._launch = 0

    def new_launch(self) -> int:
        self._launch += 1
        return self._launch - 1

    def op(
        self,
        kind: Kind,
        stage: int = -1,
        mb: int = -1,
        *,
        peer: int = -1,
        name: int = -1,
        comm: int = 0,
        launch: int = -1,
        at: int = -1,
        width: int = 0,
    ) -> None:
        self._rows.append((kind, stage, mb, peer, name, comm, launch, at, width))
        self._n += 1

    def rows(
        self,
        kind: np.ndarray,
        stage: ArrayLike,
        mb: ArrayLike,
        at: ArrayLike = -1,
        width: ArrayLike = 0,
        launch: ArrayLike = -1,
    ) -> None:
        """Adds a block of compute operations: arrays of equal length, or one value for all."""
        self._flush()
        n = len(kind)
        columns: tuple[ArrayLike, ...] = (kind, stage, mb, -1, -1, 0, launch, at, width)
        self._blocks.append(
            {
                name: np.broadcast_to(np.asarray(column, dtype=np.int64), (n,))
                for name, column in zip(ROW_COLUMNS, columns, strict=True)
            }
        )
        self._n += n

    def end_rank(self) -> None:
        self._start.append(self._n)

    def _flush(self) -> None:
        if self._rows:
            columns = np.array(self._rows, dtype=np.int64).T
            self._blocks.append(dict(zip(ROW_COLUMNS, columns, strict=True)))
            self._rows = []

    def build(self) -> Order:
        self._flush()
        columns = {name: self._column(name, column_type(name)) for name in ROW_COLUMNS}
        return Order(np.array(self._start, dtype=np.int64), **columns)

    def _column(self, name: str, dtype: type[np.integer[Any]]) -> np.ndarray:
        if not self._blocks:
            return np.empty(0, dtype=dtype)
        return np.concatenate([block[name] for block in self._blocks]).astype(dtype)
