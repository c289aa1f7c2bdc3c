"""Walks each rank's rows and keeps the books: what ran, what is in flight, which gradients are summed (the
rules of order).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from interlock.witness.executor.world import COMPUTE, Op, World


class Problem(NamedTuple):
    code: str
    rows: tuple[int, ...]
    sentence: str


class Ledger:
    """The books of one rank. Each entry method reads the books before the operation is written into them."""

    def __init__(self, world: World, rank: int):
        self.world, self.rank = world, rank
        self.listed = {(op.kind, op.stage, op.mb) for op in world.by_rank[rank]}
        self.rows_done: set[int] = set()
        self.ran: dict[tuple, int] = {}  # (kind, stage, microbatch)
        self.reduced: dict[int, list[Op]] = defaultdict(list)  # by stage
        self.tied: dict[str, list[Op]] = defaultdict(list)
        self.summed: dict[str, list[Op]] = defaultdict(list)  # REDUCE_DATA by name
        self.in_flight: dict[str, list[Op]] = defaultdict(list)  # by name, until its WAIT
        self.used: set[str] = set()  # names of which a transfer was listed
        self.gradients: Op | None = None  # the latest one that a ZERO would lose
        self.step: Op | None = None

    def read(self) -> Iterator[Problem]:
        for step in self.world.steps[self.rank]:
            for op in step if step[0].kind in COMPUTE else ():
                yield from self._inputs(op)
            for op in step:
                yield from self._order_of_reductions(op)
                yield from self._ends_of_transfers(op)
                yield from self._buffers(op)
                self._write(op)

    def _write(self, op: Op) -> None:
        self.rows_done.add(op.row)
        self.ran.setdefault((op.kind, op.stage, op.mb), op.row)
        match op.kind:
            case "REDUCE":
                self.reduced[op.stage].append(op)
            case "REDUCE_TIE":
                self.tied[op.name].append(op)
            case "REDUCE_DATA":
                self.summed[op.name].append(op)
            case "SEND" | "RECV":
                self.in_flight[op.name].append(op)
                self.used.add(op.name)
            case "WAIT":
                self.in_flight[op.name].clear()
            case "STEP":
                self.step, self.gradients = op, None
        if op.kind in ("W", "B", "REDUCE"):
            self.gradients = op

    def _inputs(self, op: Op) -> Iterator[Problem]:
        """IL301: what an operation needs of its own rank has run before it."""
        for row in self.world.needs(op):
            before = self.world.ops[row]
            if before.rank == self.rank and row not in self.rows_done:
                yield Problem("IL301", (row, op.row), f"{op} runs on rank {self.rank} before {before} has")

    def _order_of_reductions(self, op: Op) -> Iterator[Problem]:
        ties = [t for t in self.world.ties if op.stage in t["stages"]]
        if op.kind in ("W", "B"):
            for late in [*self.reduced[op.stage], *(r for t in ties for r in self.tied[t["name"]])]:
                yield Problem(
                    "IL309", (late.row, op.row), f"{late} has summed the gradient when {op} adds to it"
                )
        if op.kind == "REDUCE_TIE":
            stages = {s for t in self.world.ties if t["name"] == op.name for s in t["stages"]}
            for early in [*self.summed[op.name], *(r for s in sorted(stages) for r in self.reduced[s])]:
                yield Problem(
                    "IL310",
                    (early.row, op.row),
                    f"{early} has summed the gradient when {op} adds that of the tie",
                )
        if op.kind in ("REDUCE_TIE", "REDUCE_DATA"):
            books = self.tied if op.kind == "REDUCE_TIE" else self.summed
            for twin in books[op.name][:1]:
                yield Problem(
                    "IL308", (twin.row, op.row), f"{op} sums again what is summed on rank {self.rank}"
                )
        if self.step and op.kind in ("W", "B", "I", "REDUCE", "REDUCE_DATA", "REDUCE_TIE", "STEP"):
            yield Problem("IL311", (self.step.row, op.row), f"{op} comes after the STEP of rank {self.rank}")
        if op.kind == "ZERO" and self.gradients:
            yield Problem(
                "IL313",
                (self.gradients.row, op.row),
                f"ZERO clears the gradient of {self.gradients} before the STEP",
            )

    def _ends_of_transfers(self, op: Op) -> Iterator[Problem]:
        """IL312: a send has something to send, a receive comes before its use, a wait has its transfer."""
        s, m = op.stage, op.mb

        def has(books, *kinds):
            return any((k, s, m) in books for k in kinds)

        bad = None
        match op.kind:
            case "SEND_F":
                bad = (
                    has(self.listed, "F")
                    and not has(self.ran, "F")
                    and f"{s}F{m} has not run when {op} is issued"
                )
            case "SEND_B":
                bad = (
                    has(self.listed, "B", "I")
                    and not has(self.ran, "B", "I")
                    and f"the gradient does not exist when {op} is issued"
                )
            case "RECV_F":
                bad = has(self.ran, "F") and f"{s}F{m} has run when {op} fetches its input"
            case "RECV_B":
                bad = has(self.ran, "B", "I", "W") and f"the backward has run when {op} fetches its input"
            case "WAIT_F":
                bad = not has(self.ran, "SEND_F") and f"no send has been issued when {op} waits for it"
            case "WAIT_B":
                bad = not has(self.ran, "SEND_B") and f"no send has been issued when {op} waits for it"
            case "WAIT":
                bad = (
                    op.name not in self.used
                    and f"no transfer of {op.name} has been issued when rank {self.rank} waits for it"
                )
        if bad:
            yield Problem("IL312", (op.row,), bad)

    def _buffers(self, op: Op) -> Iterator[Problem]:
        """IL407: a buffer in flight is neither given up nor written, and not read before it is filled."""
        flying = self.in_flight[op.name] if op.kind in ("FREE", "SEND", "RECV") else []
        if op.kind != "FREE":
            flying = [o for o in flying if o.launch < 0 or o.launch != op.launch]
        if op.kind == "SEND":
            flying = [o for o in flying if o.kind == "RECV"]
        if flying:
            yield Problem(
                "IL407",
                (flying[-1].row, op.row),
                f"{op} meets buffer {op.name} in flight: {flying[-1]} was not waited for",
            )
