"""The IR: every kind of operation and every field (spec/program.md). Everything else is a function of a Program."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum

import numpy as np


class Kind(IntEnum):
    F = 0
    B = 1
    I = 2
    W = 3
    LOSS = 4
    SEND_F = 5
    RECV_F = 6
    SEND_B = 7
    RECV_B = 8
    WAIT_F = 9
    WAIT_B = 10
    SEND = 11
    RECV = 12
    WAIT = 13
    FREE = 14
    REDUCE = 15
    REDUCE_DATA = 16
    REDUCE_TIE = 17
    COLL = 18
    INIT = 19
    ZERO = 20
    STEP = 21
    UNSHARD = 22
    RESHARD = 23


COMPUTE = frozenset({Kind.F, Kind.B, Kind.I, Kind.W, Kind.LOSS})
TRANSFER = frozenset({Kind.SEND_F, Kind.RECV_F, Kind.SEND_B, Kind.RECV_B, Kind.SEND, Kind.RECV})
WITH_MICROBATCH = COMPUTE | {Kind.SEND_F, Kind.RECV_F, Kind.SEND_B, Kind.RECV_B, Kind.WAIT_F, Kind.WAIT_B}
WITH_STAGE = WITH_MICROBATCH | {Kind.REDUCE, Kind.UNSHARD, Kind.RESHARD}

COLUMNS = ("kind", "stage", "mb", "peer", "name", "comm", "launch")


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
    """Layers [first, last) of the chain, on one rank (Sharded) or on the owner of each microbatch (Replicated)."""

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
    """Bytes per rank (None: unbounded); gradient and optimizer bytes per weight byte as (numerator, denominator)."""

    capacity: tuple[int | None, ...]
    gradient: tuple[int, int] = (1, 1)
    optimizer: tuple[int, int] = (0, 1)


@dataclass(frozen=True)
class Order:
    """Columns of all operations; rank r owns rows start[r] .. start[r+1]-1. -1 means absent, comm 0 is the default.

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


@dataclass(frozen=True)
class Program:
    ranks: int
    microbatches: int
    layers: tuple[Layer, ...]
    stages: tuple[Stage, ...]
    order: Order
    images: tuple[int, ...] = ()  # one a microbatch; () is 1 for all
    modalities: dict[str, frozenset[int]] = field(default_factory=dict)
    inserted: bool = False  # transfers: inserted or written
    reductions_inserted: bool = False
    fragment: bool = False
    placeholders: bool = False
    communicators: tuple[Communicator, ...] = ()  # [0] is the default, all ranks
    ties: tuple[Tie, ...] = ()
    memory: Memory | None = None
    names: tuple[str, ...] = ()

    def __post_init__(self):
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
        """The operation as the field writes it: `2F0`, `1RECV_B3@seam`, `send(1, a0)`."""
        o = self.order
        kind, stage, mb = Kind(int(o.kind[row])), int(o.stage[row]), int(o.mb[row])
        name = self.names[o.name[row]] if o.name[row] >= 0 else ""
        comm = self.communicators[o.comm[row]].name
        at = f"@{comm}" if o.comm[row] > 0 else ""
        if kind in WITH_MICROBATCH:
            return f"{stage}{kind.name}{mb}{at}"
        if kind in WITH_STAGE:
            return f"{stage}{kind.name}"
        match kind:
            case Kind.SEND | Kind.RECV:
                return f"{kind.name.lower()}({o.peer[row]}, {name}){at}"
            case Kind.WAIT | Kind.FREE:
                return f"{kind.name.lower()}({name})"
            case Kind.COLL:
                return f"coll({comm}, {name})"
            case Kind.INIT:
                return f"init({comm})"
            case Kind.REDUCE_DATA:
                return f"reduce(data: {name})"
            case Kind.REDUCE_TIE:
                return f"reduce(tie: {name}){at}"
        return kind.name

    def plain(self) -> dict:
        """The plain form of spec/program.md: integers, strings, lists."""
        o = self.order
        size = lambda s: [s.fixed, s.per_image]
        return {
            "format": "interlock.program/1",
            "ranks": self.ranks,
            "microbatches": self.microbatches,
            "layers": [
                {
                    "name": l.name,
                    "trainable": l.trainable,
                    "modality": l.modality,
                    "weights": l.weights,
                    "activation": size(l.activation),
                    "until_weight": size(l.until_weight),
                    "output": size(l.output),
                    "workspace": size(l.workspace),
                }
                | ({"recompute": True} if l.recompute else {})
                for l in self.layers
            ],
            "stages": [
                {"region": s.region, "layers": [s.first, s.last]}
                | ({"owner": list(s.owner)} if s.replicated else {"rank": s.rank})
                for s in self.stages
            ],
            "images": list(self.images),
            "modalities": {k: sorted(v) for k, v in sorted(self.modalities.items())},
            "transfers": "inserted" if self.inserted else "written",
            "reductions": "inserted" if self.reductions_inserted else "written",
            "fragment": self.fragment,
            "placeholders": self.placeholders,
            "communicators": [{"name": c.name, "ranks": list(c.ranks)} for c in self.communicators],
            "ties": [{"name": t.name, "stages": list(t.stages), "comm": t.comm} for t in self.ties],
            "memory": None
            if self.memory is None
            else {
                "capacity": list(self.memory.capacity),
                "gradient": list(self.memory.gradient),
                "optimizer": list(self.memory.optimizer),
            },
            "names": list(self.names),
            "kinds": [k.name for k in Kind],
            "order": {"start": o.start.tolist()} | {c: _column(getattr(o, c)) for c in COLUMNS},
        }

    def with_order(self, order: Order, **changes) -> Program:
        return replace(self, order=order, **changes)


def _column(values: np.ndarray):
    """A constant column as its value (spec/program.md), any other as a list."""
    if len(values) and (values == values[0]).all():
        return int(values[0])
    return values.tolist()


class OrderBuilder:
    """Collects operations rank by rank. `op` adds one to the rank opened last; `rows` adds a block of columns."""

    def __init__(self):
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

    def rows(self, kind, stage, mb, at=-1, width=0, launch=-1) -> None:
        """Adds a block of compute operations: arrays of equal length, or one value for all."""
        self._flush()
        n = len(kind)
        block = {
            "kind": kind,
            "stage": stage,
            "mb": mb,
            "peer": -1,
            "name": -1,
            "comm": 0,
            "launch": launch,
            "at": at,
            "width": width,
        }
        self._blocks.append(
            {k: np.broadcast_to(np.asarray(v, dtype=np.int64), (n,)) for k, v in block.items()}
        )
        self._n += n

    def end_rank(self) -> None:
        self._start.append(self._n)

    def _flush(self) -> None:
        if self._rows:
            columns = np.array(self._rows, dtype=np.int64).T
            self._blocks.append(dict(zip((*COLUMNS, "at", "width"), columns)))
            self._rows = []

    def build(self) -> Order:
        self._flush()

        def column(key, dtype):
            if not self._blocks:
                return np.empty(0, dtype=dtype)
            return np.concatenate([b[key] for b in self._blocks]).astype(dtype)

        return Order(
            np.array(self._start, dtype=np.int64),
            column("kind", np.uint8),
            *(column(k, np.int32) for k in COLUMNS[1:]),
            column("at", np.int64),
            column("width", np.int32),
        )
