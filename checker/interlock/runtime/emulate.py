"""Emulation: a plan executed by processes with compute replaced by timed waits, payloads of the real sizes,
and ordered queues.

gloo buffers what is sent, NCCL's queues do not; so both ends of a transfer tell each other that they have
come to it in their queue, and only then does it move. Queues are those of a communication model
(spec/communication.md): what the model's wait graph blocks, blocks here. Nobody polls: a process sleeps until
a message comes or something of its own is due, so that many ranks fit on few cores.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta

import torch
import torch.distributed as dist

from interlock.interchange.plan import read_program
from interlock.interchange.plan_actions import find_rank
from interlock.program.facts import Facts
from interlock.program.ir import Program
from interlock.program.kinds import SENDS, TO_NEXT, TRANSFER, WITH_PEER, Kind
from interlock.runtime.mail import Mail

AWAITED = {
    Kind.F: Kind.RECV_F,
    Kind.B: Kind.RECV_B,
    Kind.I: Kind.RECV_B,
    Kind.W: Kind.RECV_B,
    Kind.WAIT_F: Kind.SEND_F,
    Kind.WAIT_B: Kind.SEND_B,
}
NEVER = float("inf")
NOT_YET = -1.0
MAX_TAG = 100_000  # transfers of a program that have tags of their own


@dataclass
class Exchange:
    """One transfer or collective of this rank: `name` is shared by its ends; `peers` are who has to come.

    sends: None for a collective. seconds: how long it takes once all have come. started, met, ended: when
    this rank came to it, when all had come, when it had ended.
    """

    row: int
    name: str
    peers: tuple[int, ...]
    sends: bool | None = None
    peer: int = -1
    size: int = 0
    seconds: float = 0.0
    started: float = NOT_YET
    met: float = NOT_YET
    work: Future[object] | None = None
    buffer: torch.Tensor | None = None
    ended: float = NOT_YET

    @property
    def takes_time_only(self) -> bool:
        """All have come, and its payload has moved."""
        return self.ended < 0 <= self.met and (self.work is None or self.work.done())


@dataclass
class Unit:
    """A plain transfer, a grouped launch or a collective, in each of `queues` once."""

    exchanges: list[Exchange]
    queues: list[Hashable] = field(default_factory=list)

    @property
    def ended(self) -> bool:
        return all(x.ended >= 0 for x in self.exchanges)


class Process:
    """What outlives a job: messages, threads that wait for gloo, and buffers."""

    def __init__(self, mail: Mail):
        self.mail = mail
        self.threads = ThreadPoolExecutor(8)
        self.buffers: dict[int, list[torch.Tensor]] = {}

    def move(self, exchange: Exchange, tag: int) -> None:
        """Starts a transfer whose both ends are there; `exchange.work` is done when it is."""
        free = self.buffers.setdefault(exchange.size, [])
        exchange.buffer = free.pop() if free else torch.zeros(exchange.size, dtype=torch.uint8)
        start = dist.isend if exchange.sends else dist.irecv
        transfer = start(exchange.buffer, exchange.peer, tag=tag)
        assert transfer is not None  # this process is a member of the group
        exchange.work = self.threads.submit(transfer.wait)
        exchange.work.add_done_callback(lambda _: self.mail.wake())

    def reclaim_buffer(self, exchange: Exchange) -> None:
        if exchange.work is not None and exchange.buffer is not None:
            exchange.work.result()
            self.buffers[exchange.size].append(exchange.buffer)


class Emulation:
    """One rank of one program.

    seconds[i], sizes[i]: how long row i takes (a transfer on its link), and its payload's bytes.
    limit: seconds without any movement, on any rank, after which it gives up.
    """

    def __init__(
        self,
        program: Program,
        model: str,
        seconds: Sequence[float],
        sizes: Sequence[int],
        process: Process,
        job: int,
        limit: float,
    ):
        self.program, self.model, self.process, self.job, self.limit = program, model, process, job, limit
        self.mail, self.rank = process.mail, process.mail.rank
        self.seconds, self.sizes = seconds, sizes
        self.facts = Facts(program)
        self.kind = [Kind(k) for k in program.order.kind.tolist()]
        self.rows = range(int(program.order.start[self.rank]), int(program.order.start[self.rank + 1]))
        self.others = [r for r in range(program.ranks) if r != self.rank]
        self.names = name_exchanges(self.facts)
        self.transfers = self._transfers_of_rank()
        self.queues: dict[Hashable, deque[Unit]] = {}
        self.open: list[Unit] = []
        self.unit_of: dict[int, Unit] = {}
        self.span: dict[int, tuple[float, float]] = {}
        self.at = -1
        self.announced = self.moved = time.perf_counter()  # when this rank last said how far it is; any moved
        self.seen = (-1, -1)

    def _transfers_of_rank(self) -> dict[Hashable, list[int]]:
        """(kind, stage, mb), or the name of a named one -> rows of this rank."""
        o = self.program.order
        rows: dict[Hashable, list[int]] = {}
        for row in self.rows:
            kind = self.kind[row]
            if kind in WITH_PEER:
                rows.setdefault(int(o.name[row]), []).append(row)
            elif kind in TRANSFER:
                rows.setdefault((kind, int(o.stage[row]), int(o.mb[row])), []).append(row)
        return rows

    # ---- the queues
    # -------------------------------------------------------------------------------------------

    def issue(self, rows: Sequence[int]) -> None:
        """Puts a unit at the end of its queues."""
        queues = dict.fromkeys(queue for row in rows for queue in self._queues_of(row))
        unit = Unit([self._exchange(row) for row in rows], list(queues))
        for row in rows:
            self.unit_of[row] = unit
        for queue in unit.queues:
            self.queues.setdefault(queue, deque()).append(unit)
        self.open.append(unit)

    def _exchange(self, row: int) -> Exchange:
        name, peer = self.names[row]
        seconds = float(self.seconds[row])
        if self.kind[row] in TRANSFER:
            sends = self.kind[row] in SENDS
            return Exchange(row, name, (peer,), sends, peer, int(self.sizes[row]), seconds)
        members = self.program.communicators[self.program.order.comm[row]].ranks
        return Exchange(row, name, tuple(r for r in members if r != self.rank), seconds=seconds)

    def _queues_of(self, row: int) -> list[Hashable]:
        """Those in which a row stands, under the communication model."""
        o = self.program.order
        comm, peer = int(o.comm[row]), self.names[row][1]
        if self.kind[row] not in TRANSFER:
            return [("rank" if self.model == "rank" else "collective", comm)]
        ends = (self.rank, peer) if self.kind[row] in SENDS else (peer, self.rank)
        edge = ("edge", *ends, comm)
        if self.model == "pair":
            return [edge, ("group", comm) if o.launch[row] >= 0 else ("pair", peer, comm)]
        return [edge, ("rank", comm)] if self.model == "rank" else [edge]

    def progress(self) -> None:
        """Starts what stands at the head of its queues, moves what both ends have come to, ends what has
        moved.
        """
        for unit in list(self.open):
            if any(self.queues[queue][0] is not unit for queue in unit.queues):
                continue
            for exchange in unit.exchanges:
                if exchange.ended < 0:
                    self._advance(exchange)
            if unit.ended:
                self.open.remove(unit)
                for queue in unit.queues:
                    self.queues[queue].popleft()

    def _advance(self, exchange: Exchange) -> None:
        now = time.perf_counter()
        if exchange.started < 0:
            exchange.started = now
            self.mail.send(self.job, exchange.peers, exchange.name)
        if exchange.met < 0:
            received = self.mail.received[self.job]
            if not all((exchange.name, r) in received for r in exchange.peers):
                return
            exchange.met = now
            if exchange.size and exchange.sends is not None:
                self.process.move(exchange, self.job % 1000 * MAX_TAG + int(exchange.name[1:]))
        if exchange.takes_time_only and now - exchange.met >= exchange.seconds:
            self.process.reclaim_buffer(exchange)
            exchange.ended = time.perf_counter()
            self.span[exchange.row] = exchange.met, exchange.ended

    def _next_end(self) -> float:
        """When the next transfer that waits for nothing but time has taken what its link takes."""
        running = (x for unit in self.open for x in unit.exchanges if x.takes_time_only)
        return min((x.met + x.seconds for x in running), default=NEVER)

    # ---- the rank
    # ---------------------------------------------------------------------------------------------

    def run(self) -> bool:
        """Whether everything ended; False where nothing ended on any rank for `limit` seconds."""
        row = self.rows.start
        while row < self.rows.stop:
            self.at = row
            end = row + 1
            if self.facts.is_unit[row]:
                end = self._end_of_launch(row)
                self.issue(range(row, end))
                self.progress()
                if self.kind[row] is Kind.INIT and not self._wait_for([self.unit_of[row]]):
                    return False
            elif self.facts.has_event[row]:
                while end < self.rows.stop and self.facts.overlap_head[end] == row:
                    end += 1
                awaited = [unit for r in range(row, end) for unit in self._units_before(r)]
                if not self._wait_for(awaited):
                    return False
                self._compute(range(row, end))
            row = end
        self.at = -1
        return self._wait_until(lambda: not self.open)

    def _end_of_launch(self, row: int) -> int:
        launch, end = self.program.order.launch, row + 1
        while launch[row] >= 0 and end < self.rows.stop and launch[end] == launch[row]:
            end += 1
        return end

    def _compute(self, rows: Sequence[int]) -> None:
        began = time.perf_counter()
        end = began + float(self.seconds[rows[0]])
        while time.perf_counter() < end:
            self._sleep(end)
        self.moved = time.perf_counter()
        for row in rows:
            self.span[row] = began, self.moved

    def _units_before(self, row: int) -> list[Unit]:
        """The waits `consume` and `step` of communication.md; data of this rank has been computed, in the
        order listed.
        """
        o, kind = self.program.order, self.kind[row]
        if kind is Kind.STEP:
            return list(self.unit_of.values())
        if kind is Kind.WAIT:
            return [self.unit_of[r] for r in self.transfers.get(int(o.name[row]), ()) if r in self.unit_of]
        listed = self.transfers.get((AWAITED.get(kind), int(o.stage[row]), int(o.mb[row])), ())
        # one that is listed later only is never come to: the operation waits for it before
        return [self.unit_of[r] for r in listed if r in self.unit_of] or [
            Unit([Exchange(r, "", ())]) for r in listed
        ]

    def _wait_for(self, units: Sequence[Unit]) -> bool:
        return self._wait_until(lambda: all(unit.ended for unit in units))

    def _wait_until(self, ready: Callable[[], bool]) -> bool:
        """False once nothing of any rank has ended for `limit` seconds."""
        while not ready():
            if time.perf_counter() - self.moved > self.limit:
                return False
            self._sleep(NEVER)
        return True

    def _sleep(self, end: float) -> None:
        """Until `end`, a message or a transfer of this rank; as long as any rank says that it has moved,
        nobody gives up.
        """
        now = time.perf_counter()
        self.mail.wait(min(end, self._next_end(), now + self.limit / 8) - now)
        self.progress()
        now = time.perf_counter()
        if now - self.announced > self.limit / 8:
            self.announced = now
            self.mail.send(self.job, self.others, f"moved:{len(self.span)}")
        seen = len(self.span), len(self.mail.received[self.job])
        if seen != self.seen:
            self.seen, self.moved = seen, now

    def meet(self) -> None:
        """Waits until every rank has come to this job.

        Ends the process if the command that started it has ended.
        """
        received = self.mail.received.setdefault(self.job, set())
        self.mail.send(self.job, self.others, "here")
        parent = os.getppid()
        while not all(("here", r) in received for r in self.others):
            self.mail.wait(1)
            if os.getppid() != parent:  # it ended before it had told all
                os._exit(1)

    @property
    def position(self) -> str:
        return self.program.show(self.at) if self.at >= 0 else "the end of its list"

    @property
    def queued(self) -> list[str]:
        return [self.program.show(x.row) for unit in self.open for x in unit.exchanges if x.ended < 0]


def name_exchanges(facts: Facts) -> dict[int, tuple[str, int]]:
    """row -> (what both ends call it, the other rank; -1 for a collective).

    The i-th send of an edge meets its i-th receive, the k-th collective of a communicator that of the other
    members.
    """
    order = facts.program.order
    names: dict[int, tuple[str, int]] = {}
    legs: Counter[tuple[tuple[int, int, int], bool]] = Counter()
    collectives: Counter[tuple[int, int]] = Counter()
    numbers: dict[tuple[tuple[int, int, int], int], int] = {}
    for row in range(facts.n):
        kind, rank, comm = Kind(int(order.kind[row])), int(facts.rank[row]), int(order.comm[row])
        if kind in TRANSFER:
            peer, sends = _find_peer(facts, row), kind in SENDS
            edge = (rank, peer, comm) if sends else (peer, rank, comm)
            number = numbers.setdefault((edge, legs[edge, sends]), len(numbers) + 1)
            legs[edge, sends] += 1
            names[row] = f"t{number}", peer
        elif facts.is_collective[row]:
            names[row] = f"c{comm}:{collectives[comm, rank]}", -1
            collectives[comm, rank] += 1
    return names


def _find_peer(facts: Facts, row: int) -> int:
    order, paths = facts.program.order, facts.footprint
    kind = Kind(int(order.kind[row]))
    if kind in WITH_PEER:
        return int(order.peer[row])
    stage, mb = int(order.stage[row]), int(order.mb[row])
    neighbours = paths.next if kind in TO_NEXT else paths.prev
    return find_rank(facts.program.stages[int(neighbours[paths.of[mb], stage])], mb)


# ---- processes
# ------------------------------------------------------------------------------------------------


def work(rank: int, ranks: int, store: str, inbox: int, pipes: list[int]) -> None:
    """Runs the jobs that come on standard input, one a line; a line of result for each.

    A job is an object {number, plain, ranks: the plan's lists, model, seconds, sizes, limit}.
    """
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no result
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=ranks, timeout=timedelta(seconds=120)
    )
    process = Process(Mail(rank, inbox, pipes))
    gc.collect()
    gc.freeze()  # what torch made is not looked through again: that takes 0.1 s, in the middle of a step
    gc.disable()
    print("{}", file=out, flush=True)
    for line in sys.stdin:
        print(json.dumps(_run_job(process, json.loads(line))), file=out, flush=True)
    os._exit(0)  # a transfer of a job that stopped may never end


def _run_job(process: Process, job: dict) -> dict:
    number = job["number"]
    program = read_program(job["plain"], job["ranks"])
    emulation = Emulation(program, job["model"], job["seconds"], job["sizes"], process, number, job["limit"])
    gc.collect()
    emulation.meet()
    began = time.perf_counter()
    emulation.announced = emulation.moved = began
    finished = emulation.run()
    process.mail.forget(number)
    return {
        "finished": finished,
        "began": began,
        "span": {str(row): span for row, span in emulation.span.items()},
        "at": emulation.position,
        "queue": emulation.queued[:8],
    }
