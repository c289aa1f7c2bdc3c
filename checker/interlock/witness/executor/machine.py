"""The machine: hosts that walk their rows, serial queues, channels with tokens; it fires what is enabled
until nothing is.

A host issues transfers and collectives without waiting and stays at a compute-like operation until that has
run, and at
an INIT until every member has come; under `blocking`, and where transfers are inserted, it stays at every
operation.
An issued unit starts when it is at the head of all its queues. A transfer moves when both ends have started.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field

from interlock.witness.executor.world import COMPUTE, TRANSFER, Op, World

MODELS = ("buffered", "edge", "pair", "rank", "blocking")


@dataclass(eq=False)
class Unit:
    """A plain transfer, a grouped launch or a collective that a host has issued."""

    rank: int
    ops: list[Op]
    queues: list[tuple]
    started: bool = False
    left: int = 0


@dataclass
class End:
    """One end of a transfer or of a collective: the k-th of its channel side."""

    op: Op
    unit: Unit
    token: tuple | None = None
    sent: bool = False


@dataclass
class Machine:
    world: World
    model: str
    seed: int | None = None
    lend: bool = False  # a partner that no rank lists counts as come: what still stands is a circle

    trace: list[int] = field(default_factory=list)
    wrong: list[tuple[int, tuple | None, tuple]] = field(default_factory=list)

    def __post_init__(self):
        w = self.world
        self.stays = self.model == "blocking" or w.inserted
        self.random = None if self.seed is None else random.Random(self.seed)
        self.done = [False] * len(w.ops)
        self.at = [0] * w.ranks  # each host's step
        self.held: list[Unit | None] = [None] * w.ranks  # the unit a host stays at
        self.open: list[list[Unit]] = [[] for _ in range(w.ranks)]  # issued and not ended
        self.named: dict[tuple[int, str], list[int]] = defaultdict(
            list
        )  # transfers of a name issued on a rank
        self.queues: dict[tuple, deque[Unit]] = defaultdict(deque)
        self.ends: dict[tuple, list[End]] = defaultdict(
            list
        )  # a channel's sends, its receives; a member's collectives
        self.store: dict[tuple, tuple] = {}  # (rank, payload) -> what lies in its place
        self.losses = any(op.kind == "LOSS" for op in w.ops)
        self.sides = [self._side(op) for op in w.ops]
        self.listed = Counter(self.sides)  # how many ends each side will ever have
        self.number: dict[int, int] = {}  # row -> its k on its side, once issued
        self.unit_of: dict[
            int, Unit
        ] = {}  # a grouped transfer has ended for those that wait when its launch has
        self.ready: list[tuple] = []
        self.offered = [False] * w.ranks

    def run(self) -> None:
        for rank in range(self.world.ranks):
            self._offer_host(rank)
        while self.ready:
            what, *where = self.ready.pop(self.random.randrange(len(self.ready)) if self.random else 0)
            getattr(self, "_" + what)(*where)

    # Which side of which channel or communicator

    def _side(self, op: Op) -> tuple | None:
        """None: an operation that issues nothing."""
        w = self.world
        if op.kind in TRANSFER:
            return (op.kind[:4], w.channel(op)) if w.takes_part(op) else None
        if w.is_collective(op) and op.rank in w.comms[op.comm]["ranks"]:
            return "coll", op.comm, op.rank
        return None

    def other(self, side: tuple) -> tuple:
        return ("RECV" if side[0] == "SEND" else "SEND", side[1])

    def _queues(self, ops: list[Op]) -> list[tuple]:
        """The table of communication.md: the queues that a unit of this rank is in."""
        rank, grouped, keys = ops[0].rank, ops[0].launch >= 0, set()
        for op in ops:
            if self.stays:
                continue
            if self.model == "rank":
                keys.add(("rank", rank, op.comm))
            elif op.kind not in TRANSFER:
                keys.add(("collectives", rank, op.comm))
            elif self.model != "buffered" or op.kind.startswith("RECV"):
                source, destination, comm = self.world.channel(op)
                keys.add(("edge", rank, source, destination, comm))
                if self.model == "pair":
                    keys.add(
                        ("groups", rank, comm)
                        if grouped
                        else ("pair", rank, *sorted((source, destination)), comm)
                    )
        return sorted(keys)

    # Hosts

    def waits(self, op: Op) -> list[int]:
        """The rows on which a compute-like operation still waits."""
        w = self.world
        rows: list[int] = []
        if op.kind in COMPUTE:
            rows = [r for r in w.needs(op) if w.inserted or w.ops[r].rank == op.rank] + w.transfers_needed(op)
        elif op.kind in ("WAIT_F", "WAIT_B"):
            rows = w.transfers_needed(op)
        elif op.kind == "WAIT":
            rows = self.named[op.rank, op.name]
        elif op.kind == "STEP":
            rows = [o.row for unit in self.open[op.rank] for o in unit.ops]
        return [r for r in rows if not self.done[r] or (r in self.unit_of and self.unit_of[r].left)]

    def _offer_host(self, rank: int) -> None:
        steps = self.world.steps[rank]
        if self.offered[rank] or self.held[rank] or self.at[rank] == len(steps):
            return
        if not any(self.waits(op) for op in steps[self.at[rank]]):
            self.offered[rank] = True
            self.ready.append(("host", rank))

    def _host(self, rank: int) -> None:
        self.offered[rank] = False
        step = self.world.steps[rank][self.at[rank]]
        self.at[rank] += 1
        issued = [op for op in step if self.sides[op.row] is not None]
        if issued:
            unit = self._issue(rank, issued)
            if self.stays or issued[0].kind == "INIT":
                self.held[rank] = unit
        for op in step:
            if op.kind in COMPUTE:
                self._compute(op)
        self._end([op for op in step if op not in issued])
        self._offer_host(rank)

    def _end(self, ops: list[Op]) -> None:
        for op in ops:
            self.done[op.row] = True
            self.trace.append(op.row)
        for rank in range(self.world.ranks) if self.world.inserted else {op.rank for op in ops}:
            self._offer_host(rank)

    # Units

    def _issue(self, rank: int, ops: list[Op]) -> Unit:
        unit = Unit(rank, ops, self._queues(ops), left=len(ops))
        self.open[rank].append(unit)
        for op in ops:
            if op.kind in ("SEND", "RECV"):
                self.named[rank, op.name].append(op.row)
            side = self.sides[op.row]
            self.unit_of[op.row] = unit
            self.number[op.row] = len(self.ends[side])
            self.ends[side].append(End(op, unit, self._token(op) if side[0] == "SEND" else None))
        for key in unit.queues:
            self.queues[key].append(unit)
        self._start_if_first(unit)
        return unit

    def _start_if_first(self, unit: Unit) -> None:
        if unit.started or any(self.queues[key][0] is not unit for key in unit.queues):
            return
        unit.started = True
        for op in unit.ops:
            side, k = self.sides[op.row], self.number[op.row]
            if side[0] == "coll":
                self._offer_meeting(op.comm, k)
            elif self.model == "buffered" and side[0] == "SEND":
                self.ready.append(("put", side, k))
            elif self._come(self.other(side), k):
                self.ready.append(("move", side[1], k))

    def _come(self, side: tuple, k: int) -> bool:
        """The k-th end of this side is there: started, and under `buffered` sent."""
        if self.lend and k >= self.listed[side]:
            return True
        if k >= len(self.ends[side]):
            return False
        end = self.ends[side][k]
        return end.sent if self.model == "buffered" and side[0] == "SEND" else end.unit.started

    def _offer_meeting(self, comm: int, k: int) -> None:
        if all(self._come(("coll", comm, rank), k) for rank in self.world.comms[comm]["ranks"]):
            self.ready.append(("meet", comm, k))

    def _put(self, side: tuple, k: int) -> None:
        end = self.ends[side][k]
        end.sent = True
        self._finish([end])
        if k < self.listed[self.other(side)] and self._come(self.other(side), k):
            self.ready.append(("move", side[1], k))

    def _move(self, channel: tuple, k: int) -> None:
        send, receive = (self.ends[kind, channel][k : k + 1] for kind in ("SEND", "RECV"))
        if send and receive:
            self._receive(receive[0].op, send[0].token)
        self._finish(receive if self.model == "buffered" else send + receive)

    def _meet(self, comm: int, k: int) -> None:
        self._finish(
            [
                end
                for rank in self.world.comms[comm]["ranks"]
                for end in self.ends["coll", comm, rank][k : k + 1]
            ]
        )

    def _finish(self, ends: list[End]) -> None:
        """These ends have ended, with them the units of which they were the last."""
        self._end([end.op for end in ends])
        for unit in [end.unit for end in ends]:
            unit.left -= 1
            if unit.left:
                continue
            self.open[unit.rank].remove(unit)
            for key in unit.queues:
                self.queues[key].popleft()
            for key in unit.queues:
                if self.queues[key]:
                    self._start_if_first(self.queues[key][0])
            if self.held[unit.rank] is unit:
                self.held[unit.rank] = None
            self._offer_host(unit.rank)

    # Payloads

    def _place(self, rank: int) -> int:
        return -1 if self.world.inserted else rank  # inserted: what one rank made lies before every rank

    def _token(self, op: Op) -> tuple:
        """What a send carries: what lies in the place of its payload when it is issued."""
        w, payload = self.world, self.world.payload(op)
        made = w.row("F", op.stage, op.mb) if op.kind == "SEND_F" else w.x(op.stage, op.mb)
        unmade = payload if op.kind == "SEND" or made is None else ("unmade", *payload)
        return self.store.get((op.rank, payload), unmade)

    def _receive(self, op: Op, token: tuple) -> None:
        own = self.world.payload(op)
        self.store[op.rank, own] = token
        if token != own:
            self.wrong.append((op.row, token, own))

    def _compute(self, op: Op) -> None:
        w, s, m = self.world, op.stage, op.mb
        if w.first.get((op.kind, s, m)) != op.row:
            return  # out of place or listed before: nobody waits for its result
        place, last = self._place(op.rank), w.path[m][-1:] == [s]
        if op.kind == "LOSS" and not last:
            return
        wanted, made = [], []
        if op.kind != "F":
            wanted.append(("F", s, m))
        if op.kind == "F":
            before = w.neighbour(s, m, -1)
            wanted += [] if before is None else [("F", before, m)]
            made.append(("F", s, m))
        elif op.kind == "LOSS":
            made.append(("LOSS", s, m))
        elif op.kind == "W":
            wanted.append(("I", s, m))
        else:
            after = w.neighbour(s, m, 1)
            wanted += [("B", after, m)] if w.crossing(after, m) else []
            wanted += [("LOSS", s, m)] if last and self.losses else []
            made += [("B", s, m), ("I", s, m)]
        for payload in wanted:
            found = self.store.get((place, payload))
            if found != payload and not (found is None and w.fragment):
                self.wrong.append((op.row, found, payload))
        for payload in made:
            self.store[place, payload] = payload
