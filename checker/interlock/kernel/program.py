"""A program as it was read, well-formed (spec/program.md): the first of the kernel's three stages."""

from __future__ import annotations

from dataclasses import dataclass


class Kind:
    """The kinds of operations, and sets of them. Numbers: an Enum takes 20 times as long to name a member."""

    F, B, I, W, LOSS, SEND_F, RECV_F, SEND_B, RECV_B, WAIT_F, WAIT_B, SEND, RECV, WAIT, FREE = range(15)
    REDUCE, REDUCE_DATA, REDUCE_TIE, COLL, INIT, ZERO, STEP, UNSHARD, RESHARD = range(15, 24)
    REDUCE_REPLICATED = 24  # REDUCE of a Replicated stage

    COMPUTE = frozenset({F, B, I, W, LOSS})
    COMPUTE_LIKE = COMPUTE | {WAIT_F, WAIT_B, WAIT, ZERO, STEP, REDUCE_DATA, REDUCE}
    SENDS = frozenset({SEND_F, SEND_B, SEND})
    RECEIVES = frozenset({RECV_F, RECV_B, RECV})
    TRANSFERS = SENDS | RECEIVES
    PIPELINE = TRANSFERS - {SEND, RECV}
    REDUCES = frozenset({REDUCE, REDUCE_REPLICATED})
    COLLECTIVES = frozenset({COLL, INIT, REDUCE_TIE, REDUCE_REPLICATED})
    WITHOUT_EVENT = frozenset({UNSHARD, RESHARD, FREE})
    WITH_MICROBATCH = COMPUTE | PIPELINE | {WAIT_F, WAIT_B}
    WITH_STAGE = WITH_MICROBATCH | REDUCES | {UNSHARD, RESHARD}
    WITH_NAME = frozenset({SEND, RECV, WAIT, FREE, REDUCE_DATA, REDUCE_TIE, COLL})
    HALVES = frozenset({F, B, I, W})  # of an overlap


WORDS = [word for word, number in vars(Kind).items() if type(number) is int]  # by kind
KINDS = range(len(WORDS))

Key = tuple[int, int]  # (stage, microbatch)
Size = tuple[int, int]  # bytes, and bytes for each image
REPLICATED = -1


@dataclass(frozen=True, slots=True)
class Layer:
    trainable: bool
    modality: str | None
    recompute: bool
    weights: int
    activation: Size
    until_weight: Size
    output: Size
    workspace: Size


@dataclass(frozen=True, slots=True)
class Stage:
    layers: range
    rank: int  # or REPLICATED
    owner: list[int]  # of a Replicated stage, by microbatch

    def rank_of(self, m: int) -> int:
        """rank(s, m)."""
        return self.owner[m] if self.rank == REPLICATED else self.rank


@dataclass(frozen=True, slots=True)
class Tie:
    name: int  # -1: no operation has it
    stages: frozenset[int]
    comm: int


@dataclass(frozen=True, slots=True)
class Memory:
    capacity: list[int | None]  # by rank
    gradient: tuple[int, int]  # numerator, denominator per weight byte of a trainable layer
    optimizer: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Order:
    """The operations in columns. Events are numbers: rows, then start and end of each grouped launch."""

    start: list[int]  # rank r owns the rows start[r] .. start[r + 1] - 1
    kind: list[int]
    stage: list[int]
    mb: list[int]
    peer: list[int]
    name: list[int]  # equal names have equal numbers
    comm: list[int]
    launch: list[int]
    rank: list[int]
    rows: list[list[int]]  # of each kind, ascending
    second_halves: set[int]  # rows: the overlap is this one and the one before
    grouped: dict[int, int]  # launch -> its start event; its end event is the next
    grouped_rows: list[int]  # the first row of each grouped launch

    def rows_of(self, *kinds: int) -> list[int]:
        """Rows of these kinds, ascending."""
        return sorted(i for kind in kinds for i in self.rows[kind])

    def by_rank(self, *kinds: int, column: list[int] | None = None) -> dict[tuple[int, int], list[int]]:
        """Rows of these kinds, ascending, by rank and value in the column (0 without one)."""
        found: dict[tuple[int, int], list[int]] = {}
        for i in self.rows_of(*kinds):
            found.setdefault((self.rank[i], column[i] if column else 0), []).append(i)
        return found

    def row_of(self, event: int) -> int:
        """The row of an event, of a launch its first one."""
        return event if event < len(self.kind) else self.grouped_rows[(event - len(self.kind)) // 2]


@dataclass(frozen=True, slots=True)
class Program:
    ranks: int
    microbatches: int
    fragment: bool
    placeholders: bool
    inserted: bool  # transfers
    reductions_inserted: bool
    images: list[int]  # by microbatch
    layers: list[Layer]
    stages: list[Stage]
    modalities: dict[str, frozenset[int]]  # the microbatches listed for each
    communicators: list[frozenset[int]]
    ties: list[Tie]
    memory: Memory | None
    order: Order
