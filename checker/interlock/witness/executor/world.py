"""Reads the plain form (spec/program.md): the chain of layers, each microbatch's path, and who needs what of
whom.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

COMPUTE = ("F", "B", "I", "W", "LOSS")
PIPELINE = ("SEND_F", "RECV_F", "SEND_B", "RECV_B")
TRANSFER = (*PIPELINE, "SEND", "RECV")
WITH_MICROBATCH = (*COMPUTE, *PIPELINE, "WAIT_F", "WAIT_B")
WITH_STAGE = (*WITH_MICROBATCH, "REDUCE", "UNSHARD", "RESHARD")


class Op(NamedTuple):
    row: int
    rank: int
    kind: str
    stage: int
    mb: int
    peer: int
    name: str
    comm: int
    launch: int

    def __str__(self) -> str:
        if self.kind in WITH_MICROBATCH:
            return f"{self.stage}{self.kind}{self.mb}"
        if self.kind in WITH_STAGE:
            return f"{self.stage}{self.kind}"
        return f"{self.kind}({self.name})" if self.name else self.kind


@dataclass
class Work:
    """What a forward and reverse-mode differentiation do on one stage in one microbatch."""

    layers: list[int] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)  # layers whose forward left something on the tape
    back: bool = False  # a gradient arrived here
    cross: bool = False  # ... and left for the stage before
    inputs: bool = False  # a layer computed the gradient of its input
    weights: bool = False  # a layer computed the gradient of its weights


class World:
    def __init__(self, program: dict):
        self.ranks, self.mbs = program["ranks"], program["microbatches"]
        self.layers, self.stages = program["layers"], program["stages"]
        self.images, self.modalities = program["images"], program["modalities"]
        self.comms, self.ties, self.memory = program["communicators"], program["ties"], program["memory"]
        self.inserted = program["transfers"] == "inserted"
        self.reductions_written = program["reductions"] == "written"
        self.fragment, self.placeholders = program["fragment"], program["placeholders"]
        self.ops = list(_operations(program))
        self.by_rank: list[list[Op]] = [[] for _ in range(self.ranks)]
        for op in self.ops:
            self.by_rank[op.rank].append(op)
        self._rows: dict[tuple[str, int, int], list[int]] = {}
        for op in self.ops:
            self._rows.setdefault((op.kind, op.stage, op.mb), []).append(op.row)
        self.work = [self._differentiate(m) for m in range(self.mbs)]
        self.path = [list(work) for work in self.work]
        self.turn = [{s: at for at, s in enumerate(path)} for path in self.path]
        self.first: dict[tuple[str, int, int], int] = {}  # of the rows that take part, the first of its kind
        for op in self.ops:
            if (
                op.kind in WITH_MICROBATCH
                and self.in_place(op)
                and (op.kind not in PIPELINE or self.far_end(op) is not None)
            ):
                self.first.setdefault((op.kind, op.stage, op.mb), op.row)
        self.steps = [list(self._steps(ops)) for ops in self.by_rank]

    def _differentiate(self, m: int) -> dict[int, Work]:
        """Runs the present layers forward, recording, and then the tape backward; the stages come out in path
        order.
        """
        work: dict[int, Work] = {}
        tape, flows = [], False  # the data asks for no gradient
        for s, stage in enumerate(self.stages):
            for number in range(*stage["layers"]):
                layer = self.layers[number]
                if m not in self.modalities.get(layer["modality"], [m]):
                    continue
                here = work.setdefault(s, Work())
                here.layers.append(number)
                input_asks, flows = flows, flows or layer["trainable"]
                if flows:
                    here.kept.append(number)
                    tape.append((s, number, input_asks))
        for s, number, input_asks in reversed(tape):
            here = work[s]
            here.back = True
            here.weights |= self.layers[number]["trainable"]
            here.inputs |= input_asks
            if number == here.layers[0]:
                here.cross = input_asks
        return work

    def _steps(self, ops: list[Op]) -> Iterator[list[Op]]:
        """The operations of a rank, those of one launch together."""
        i = 0
        while i < len(ops):
            j = i + 1
            while j < len(ops) and ops[i].launch >= 0 and ops[j].launch == ops[i].launch:
                j += 1
            kinds = [op.kind for op in ops[i:j]]
            if ops[i].launch >= 0 and not all(k in TRANSFER for k in kinds):  # noqa: SIM102
                if len(kinds) != 2 or kinds.count("F") != 1 or not {"B", "I", "W"} & set(kinds):
                    raise ValueError(f"launch {ops[i].launch} is neither transfers nor an F with a B, I or W")
            if self.inserted and kinds[0] in (*TRANSFER, "WAIT_F", "WAIT_B", "WAIT", "FREE"):
                raise ValueError(f"row {ops[i].row}: a {kinds[0]} where transfers are inserted")
            yield ops[i:j]
            i = j

    # Rows

    def rows(self, kind: str, s: int, m: int) -> tuple[int, ...]:
        """Every row of this operation, wherever it stands."""
        return tuple(self._rows.get((kind, s, m), ()))

    def row(self, kind: str, s: int | None, m: int) -> int | None:
        """The one of them that takes part."""
        return self.first.get((kind, s, m))

    def x(self, s: int | None, m: int) -> int | None:
        """The operation on the gradient of the input of s."""
        found = [r for r in (self.row("I", s, m), self.row("B", s, m)) if r is not None]
        return min(found, default=None)

    # Places

    def rank(self, s: int, m: int) -> int:
        stage = self.stages[s]
        return stage["rank"] if stage.get("owner") is None else stage["owner"][m]

    def replicated(self, s: int) -> bool:
        return self.stages[s].get("owner") is not None

    def ranks_of(self, s: int) -> list[int]:
        return list(range(self.ranks)) if self.replicated(s) else [self.stages[s]["rank"]]

    def trains(self, s: int) -> bool:
        return any(self.layers[number]["trainable"] for number in range(*self.stages[s]["layers"]))

    def neighbour(self, s: int, m: int, by: int) -> int | None:
        """The next (by = 1) or the previous (by = -1) stage on path(m)."""
        path, at = self.path[m], self.turn[m].get(s)
        return path[at + by] if at is not None and 0 <= at + by < len(path) else None

    def stage_exists(self, op: Op) -> bool:
        return 0 <= op.stage < len(self.stages)

    def in_place(self, op: Op) -> bool:
        """Stage and microbatch exist, and this is their rank."""
        return self.stage_exists(op) and 0 <= op.mb < self.mbs and op.rank == self.rank(op.stage, op.mb)

    # Transfers

    def far_end(self, op: Op) -> int | None:
        """The other rank of a transfer that is in place, None where there is none."""
        if op.kind in ("SEND", "RECV"):
            other = op.peer if 0 <= op.peer < self.ranks else None
        else:
            n = self.neighbour(op.stage, op.mb, 1 if op.kind in ("SEND_F", "RECV_B") else -1)
            other = None if n is None else self.rank(n, op.mb)
        return None if other == op.rank else other

    def takes_part(self, op: Op) -> bool:
        return (op.kind in ("SEND", "RECV") or self.in_place(op)) and self.far_end(op) is not None

    def channel(self, op: Op) -> tuple[int, int, int]:
        """(source, destination, communicator)"""
        ends = (op.rank, self.far_end(op))
        return (*(ends if op.kind.startswith("SEND") else ends[::-1]), op.comm)

    def payload(self, op: Op) -> tuple:
        """What this transfer is to carry."""
        match op.kind:
            case "SEND_F" | "SEND_B":
                return op.kind[-1], op.stage, op.mb
            case "RECV_F":
                return "F", self.neighbour(op.stage, op.mb, -1), op.mb
            case "RECV_B":
                return "B", self.neighbour(op.stage, op.mb, 1), op.mb
        return "named", op.name

    # Collectives

    def is_collective(self, op: Op) -> bool:
        if op.kind == "REDUCE":
            return self.stage_exists(op) and self.replicated(op.stage)
        return op.kind in ("COLL", "INIT", "REDUCE_TIE")

    def signature(self, op: Op) -> tuple:
        return op.kind, op.stage if op.kind == "REDUCE" else op.name

    # Needs

    def crossing(self, s: int | None, m: int) -> bool:
        return s in self.work[m] and self.work[m][s].cross

    def needs(self, op: Op) -> list[int]:
        """The rows that R-DEP-1 to R-DEP-4 put before this one, on any rank."""
        s, m = op.stage, op.mb
        if op.kind not in COMPUTE or self.first.get((op.kind, s, m)) != op.row:
            return []
        last = self.path[m][-1:] == [s]
        match op.kind:
            case "F":
                rows = [self.row("F", self.neighbour(s, m, -1), m)]
            case "LOSS":
                rows = [self.row("F", s, m)] if last else []
            case "W":
                rows = [self.row("F", s, m), self.row("I", s, m)]
            case _:
                after = self.neighbour(s, m, 1)
                rows = [
                    self.row("F", s, m),
                    self.row("LOSS", s, m) if last else None,
                    self.x(after, m) if self.crossing(after, m) else None,
                ]
        return [r for r in rows if r is not None]

    def transfers_needed(self, op: Op) -> list[int]:
        """The rows of the transfers on this rank that a compute operation or a WAIT_F, WAIT_B waits for
        ("consume").
        """
        s, m = op.stage, op.mb
        if not self.in_place(op) or self.first.get((op.kind, s, m), op.row) != op.row and op.kind in COMPUTE:
            return []
        wanted = {"F": "RECV_F", "B": "RECV_B", "I": "RECV_B", "WAIT_F": "SEND_F", "WAIT_B": "SEND_B"}.get(
            op.kind
        )
        if op.kind == "W" and self.x(s, m) is None:
            wanted = "RECV_B"
        found = self.row(wanted, s, m) if wanted else None
        return [] if found is None else [found]


def _operations(program: dict) -> Iterator[Op]:
    order, names, kinds = program["order"], program["names"], program["kinds"]
    start = order["start"]
    columns = [
        v if isinstance(v, list) else [v] * start[-1]
        for v in (order[c] for c in ("kind", "stage", "mb", "peer", "name", "comm", "launch"))
    ]
    if len(start) != program["ranks"] + 1 or any(len(c) != start[-1] for c in columns):
        raise ValueError("start and the columns of the order do not fit together")
    rank = 0
    for row, (kind, stage, mb, peer, name, comm, launch) in enumerate(zip(*columns)):
        while row >= start[rank + 1]:
            rank += 1
        if not 0 <= comm < len(program["communicators"]):
            raise ValueError(f"row {row}: there is no communicator {comm}")
        yield Op(row, rank, kinds[kind], stage, mb, peer, names[name] if name >= 0 else "", comm, launch)
