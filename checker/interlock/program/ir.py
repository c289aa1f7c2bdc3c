"""The IR: every field of a program (spec/program.md). Everything else is a function of a Program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from interlock.program.kinds import Kind

__all__ = [
    "COLUMNS",
    "ROW_COLUMNS",
    "Communicator",
    "Kind",
    "Layer",
    "Memory",
    "Order",
    "Program",
    "Size",
    "Stage",
    "Tie",
    "column_type",
]


COLUMNS = ("kind", "stage", "mb", "peer", "name", "comm", "launch")  # of the plain form
ROW_COLUMNS = (*COLUMNS, "at", "width")


def column_type(name: str) -> type[np.integer[Any]]:
    """The width of one of ROW_COLUMNS."""
    return np.uint8 if name == "kind" else np.int64 if name == "at" else np.int32


@dataclass(frozen=True)
class Size:
    """Bytes: `fixed + per_image * images[m]` in microbatch m."""

    fixed: int = 0
    per_image: int = 0


@dataclass(frozen=True)
class Layer:
    name: str
    trainable: bool = True
    modality: str | None = None
    weights: int = 0
    activation: Size = Size()
    until_weight: Size = Size()
    output: Size = Size()
    workspace: Size = Size()
    recompute: bool = False


@dataclass(frozen=True)
class Stage:
    """Layers [first, last) of the chain, on one rank (Sharded) or on each microbatch's owner (Replicated)."""

    region: str
    first: int
    last: int
    rank: int | None = None
    owner: tuple[int, ...] | None = None

    @property
    def replicated(self) -> bool:
        return self.owner is not None


@dataclass(frozen=True)
class Communicator:
    name: str
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Tie:
    """A parameter set shared by several stages, summed over communicator number `comm`."""

    name: str
    stages: tuple[int, ...]
    comm: int


@dataclass(frozen=True)
class Memory:
    """Bytes per rank (None: unbounded); gradient, optimizer: (numerator, denominator) per weight byte."""

    capacity: tuple[int | None, ...]
    gradient: tuple[int, int] = (1, 1)
    optimizer: tuple[int, int] = (0, 1)


@dataclass(frozen=True)
class Order:
    """Columns of all operations; rank r owns rows start[r] .. start[r+1]-1. -1: none; comm 0: default.

    `at` and `width` give each operation's place in the sources (characters, text/source.py); -1: none.
    """

    start: np.ndarray
    kind: np.ndarray
    stage: np.ndarray
    mb: np.ndarray
    peer: np.ndarray
    name: np.ndarray
    comm: np.ndarray
    launch: np.ndarray
    at: np.ndarray
    width: np.ndarray

    def __len__(self) -> int:
        return len(self.kind)

    def columns(self) -> dict[str, np.ndarray]:
        """Each of ROW_COLUMNS by its name."""
        return {name: getattr(self, name) for name in ROW_COLUMNS}

    def permute(self, rows: np.ndarray) -> Order:
        """The rows in another order, as many on each rank as before."""
        return Order(self.start, **{name: column[rows] for name, column in self.columns().items()})

    def select(self, keep: np.ndarray) -> Order:
        """The rows of a mask."""
        kept_before = np.concatenate([[0], np.cumsum(keep)]).astype(np.int64)
        return replace(self.permute(np.flatnonzero(keep)), start=kept_before[self.start])


@dataclass(frozen=True)
class Program:
    ranks: int
    microbatches: int
    layers: tuple[Layer, ...]
    stages: tuple[Stage, ...]
    order: Order
    images: tuple[int, ...] = ()  # one a microbatch; () is 1 for all
    modalities: Mapping[str, frozenset[int]] = field(default_factory=dict)
    inserted: bool = False  # transfers: inserted or written
    reductions_inserted: bool = False
    fragment: bool = False
    placeholders: bool = False
    communicators: tuple[Communicator, ...] = ()  # [0] is the default, all ranks
    ties: tuple[Tie, ...] = ()
    memory: Memory | None = None
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.communicators:
            object.__setattr__(self, "communicators", (Communicator("default", tuple(range(self.ranks))),))
        if not self.images:
            object.__setattr__(self, "images", (1,) * self.microbatches)

    def rank_of(self, row: int) -> int:
        return int(np.searchsorted(self.order.start, row, side="right")) - 1

    def row_ranks(self) -> np.ndarray:
        """The rank of every row."""
        return np.repeat(np.arange(self.ranks, dtype=np.int32), np.diff(self.order.start))

    def show(self, row: int) -> str:
        """The operation as it is written: `2F0`, `1RECV_B3@seam`, `send(1, a0)`."""
        o = self.order
        form = Kind(int(o.kind[row])).form
        return (form if o.comm[row] > 0 else form.removesuffix("@{comm}")).format(
            stage=o.stage[row],
            mb=o.mb[row],
            peer=o.peer[row],
            name=self.names[o.name[row]] if o.name[row] >= 0 else "",
            comm=self.communicators[o.comm[row]].name,
        )

    def with_order(self, order: Order, **changes: Any) -> Program:
        return replace(self, order=order, **changes)
