"""Emulation: a plan executed by processes with compute replaced by timed waits, payloads of the real sizes, and ordered queues.

gloo buffers what is sent, NCCL's queues do not; so both ends of a transfer tell each other that they have come to it in their queue, and only then
does it move. Queues are those of a communication model (spec/communication.md): what the model's wait graph blocks, blocks here. Nobody polls: a
process sleeps until a message comes or something of its own is due, so that many ranks fit on few cores.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta

import torch
import torch.distributed as dist

from interlock.interchange.plan import read_program
from interlock.program.facts import Facts
from interlock.program.ir import TRANSFER, Kind, Program
from interlock.runtime.mail import Mail

SENDS = (Kind.SEND_F, Kind.SEND_B, Kind.SEND)
WAITS_FOR = {
    Kind.F: Kind.RECV_F,
    Kind.B: Kind.RECV_B,
    Kind.I: Kind.RECV_B,
    Kind.W: Kind.RECV_B,
    Kind.WAIT_F: Kind.SEND_F,
    Kind.WAIT_B: Kind.SEND_B,
}
NEVER = float("inf")


@dataclass
class Part:
    """One transfer or collective of this rank: `name` is shared by its ends; `peers` are who has to come."""

    row: int
    name: str
    peers: tuple[int, ...]
    sends: bool | None  # None: a collective
    peer: int = -1
    size: int = 0
    seconds: float = 0.0
    started: float = -1.0
    met: float = -1.0
    work: Future | None = None
    buffer: torch.Tensor | None = None
    ended: float = -1.0


@dataclass
class Unit:
    """A plain transfer, a grouped launch or a collective, in each of `queues` once."""

    parts: list[Part]
    queues: list = field(default_factory=list)

    @property
    def ended(self) -> bool:
        return all(p.ended >= 0 for p in self.parts)


class Process:
    """What outlives a job: messages, threads that wait for gloo, and buffers."""

    def __init__(self, mail: Mail):
        self.mail = mail
        self.threads = ThreadPoolExecutor(8)
        self.buffers: dict[int, list[torch.Tensor]] = {}

    def move(self, part: Part, tag: int) -> None:
        """Starts a transfer whose both ends are there; `part.work` is done when it is."""
        free = self.buffers.setdefault(part.size, [])
        part.buffer = free.pop() if free else torch.zeros(part.size, dtype=torch.uint8)
        start = dist.isend if part.sends else dist.irecv
        part.work = self.threads.submit(start(part.buffer, part.peer, tag=tag).wait)
        part.work.add_done_callback(lambda _: self.mail.wake())

    def take_back(self, part: Part) -> None:
        if part.work is not None:
            part.work.result()
            self.buffers[part.size].append(part.buffer)


class Emulation:
    """One rank of one program. seconds[i], sizes[i]: how long row i takes (a transfer on its link), and its payload's bytes."""

    def __init__(
        self, program: Program, model: str, seconds, sizes, process: Process, job: int, limit: float
    ):
        self.program, self.model, self.process, self.job, self.limit = program, model, process, job, limit
        self.mail, self.rank = process.mail, process.mail.rank
        self.seconds, self.sizes = seconds, sizes
        self.facts = facts = Facts(program)
        self.rows = range(int(program.order.start[self.rank]), int(program.order.start[self.rank + 1]))
        self.others = [r for r in range(program.ranks) if r != self.rank]
        self.names = _names(facts)
        self.queues: dict[tuple, deque[Unit]] = {}
        self.open: list[Unit] = []
        self.of_row: dict[int, Unit] = {}
        self.span: dict[int, list[float]] = {}
        o = program.order
        self.kind = [Kind(k) for k in o.kind.tolist()]
        self.transfers: dict[
            tuple, list[int]
        ] = {}  # (kind, stage, mb), or the name of a named one -> rows of this rank
        for row in self.rows:
            if self.kind[row] in TRANSFER:
                named = self.kind[row] in (Kind.SEND, Kind.RECV)
                self.transfers.setdefault(
                    (int(o.name[row]),) if named else (self.kind[row], int(o.stage[row]), int(o.mb[row])), []
                ).append(row)
        self.at = -1
        self.told = self.moved = (
            time.perf_counter()
        )  # when this rank last said how far it is, and when any rank last moved
        self.seen = (-1, -1)

    # ---- the queues ------------------------------------------------------------------------------------------------------

    def issue(self, rows: list[int]) -> None:
        """Puts a unit at the end of its queues."""
        p, o = self.program, self.program.order
        grouped = int(o.launch[rows[0]]) >= 0
        unit = Unit([])
        queues: dict = {}
        for row in rows:
            kind, comm = Kind(int(o.kind[row])), int(o.comm[row])
            name, peer = self.names[row]
            if kind in TRANSFER:
                sends = kind in SENDS
                src, dst = (self.rank, peer) if sends else (peer, self.rank)
                unit.parts.append(
                    Part(row, name, (peer,), sends, peer, int(self.sizes[row]), float(self.seconds[row]))
                )
                queues["edge", src, dst, comm] = None
                if self.model == "pair":
                    queues[("group", comm) if grouped else ("pair", peer, comm)] = None
                elif self.model == "rank":
                    queues["rank", comm] = None
            else:
                others = tuple(r for r in p.communicators[comm].ranks if r != self.rank)
                unit.parts.append(Part(row, name, others, None, seconds=float(self.seconds[row])))
                queues["rank" if self.model == "rank" else "collective", comm] = None
            self.of_row[row] = unit
        unit.queues = list(queues)
        for q in unit.queues:
            self.queues.setdefault(q, deque()).append(unit)
        self.open.append(unit)

    def progress(self) -> None:
        """Starts what stands at the head of its queues, moves what both ends have come to, ends what has moved."""
        for unit in list(self.open):
            if any(self.queues[q][0] is not unit for q in unit.queues):
                continue
            for part in unit.parts:
                if part.ended < 0:
                    self._move(part)
            if unit.ended:
                self.open.remove(unit)
                for q in unit.queues:
                    self.queues[q].popleft()

    def _move(self, part: Part) -> None:
        now = time.perf_counter()
        heard = self.mail.heard[self.job]
        if part.started < 0:
            part.started = now
            self.mail.tell(self.job, part.peers, part.name)
        if part.met < 0:
            if not all((part.name, r) in heard for r in part.peers):
                return
            part.met = now
            if part.size and part.sends is not None:
                self.process.move(part, self.job % 1000 * 100_000 + int(part.name[1:]))
        if (part.work is None or part.work.done()) and now - part.met >= part.seconds:
            self.process.take_back(part)
            part.ended = time.perf_counter()
            self.span[part.row] = [part.met, part.ended]

    def _due(self) -> float:
        """When the next transfer that waits for nothing but time has taken what its link takes."""
        return min(
            (
                p.met + p.seconds
                for u in self.open
                for p in u.parts
                if p.ended < 0 <= p.met and (p.work is None or p.work.done())
            ),
            default=NEVER,
        )

    # ---- the rank --------------------------------------------------------------------------------------------------------

    def run(self) -> bool:
        """Whether everything ended; False where nothing ended on any rank for `limit` seconds."""
        kind, launch, head = self.kind, self.program.order.launch, self.facts.overlap_head
        i = 0
        rows = list(self.rows)
        while i < len(rows):
            row = rows[i]
            self.at = row
            j = i + 1
            if self.facts.is_unit[row]:
                while launch[row] >= 0 and j < len(rows) and launch[rows[j]] == launch[row]:
                    j += 1
                self.issue(rows[i:j])
                self.progress()
                if kind[row] is Kind.INIT and not self._until(lambda: self.of_row[row].ended):
                    return False
            elif self.facts.has_event[row]:
                while j < len(rows) and head[rows[j]] == row:
                    j += 1
                needs = [unit for r in rows[i:j] for unit in self._needs(r, kind[r])]
                if not self._until(lambda: all(unit.ended for unit in needs)):
                    return False
                self._work(rows[i:j])
            i = j
        self.at = -1
        return self._until(lambda: not self.open)

    def _work(self, rows: list[int]) -> None:
        began = time.perf_counter()
        end = began + float(self.seconds[rows[0]])
        while time.perf_counter() < end:
            self._sleep(end)
        self.moved = time.perf_counter()
        for row in rows:
            self.span[row] = [began, self.moved]

    def _needs(self, row: int, kind: Kind) -> list[Unit]:
        """The waits `consume` and `step` of communication.md; data of this rank has been computed, in the order listed."""
        o = self.program.order
        if kind is Kind.STEP:
            return list(self.of_row.values())
        if kind is Kind.WAIT:
            return [self.of_row[r] for r in self.transfers.get((int(o.name[row]),), ()) if r in self.of_row]
        listed = self.transfers.get((WAITS_FOR.get(kind), int(o.stage[row]), int(o.mb[row])), ())
        # one that is listed later only is never come to: the operation waits for it before
        return [self.of_row[r] for r in listed if r in self.of_row] or [
            Unit([Part(r, "", (), None)]) for r in listed
        ]

    def _until(self, ready: Callable[[], bool]) -> bool:
        """Waits; False once nothing of any rank has ended for `limit` seconds."""
        while not ready():
            if time.perf_counter() - self.moved > self.limit:
                return False
            self._sleep(NEVER)
        return True

    def _sleep(self, end: float) -> None:
        """Until `end`, a message or a transfer of this rank; as long as any rank says that it has moved, nobody gives up."""
        now = time.perf_counter()
        self.mail.wait(min(end, self._due(), now + self.limit / 8) - now)
        self.progress()
        now = time.perf_counter()
        if now - self.told > self.limit / 8:
            self.told = now
            self.mail.tell(self.job, self.others, f"moved:{len(self.span)}")
        seen = len(self.span), len(self.mail.heard[self.job])
        if seen != self.seen:
            self.seen, self.moved = seen, now


def _names(facts: Facts) -> dict[int, tuple[str, int]]:
    """row -> (what both ends call it, the other rank): the i-th send of an edge meets its i-th receive, the k-th collective of a communicator that of the other members."""
    program, o = facts.program, facts.program.order
    rank_of = lambda s, m: (
        program.stages[s].owner[m] if program.stages[s].replicated else program.stages[s].rank
    )
    fp, out, count = facts.footprint, {}, {}
    numbers: dict[tuple, int] = {}
    for row in range(facts.n):
        kind = Kind(int(o.kind[row]))
        r, comm = int(facts.rank[row]), int(o.comm[row])
        if kind in TRANSFER:
            if kind in (Kind.SEND, Kind.RECV):
                peer = int(o.peer[row])
            else:
                s, m = int(o.stage[row]), int(o.mb[row])
                table = fp.next if kind in (Kind.SEND_F, Kind.RECV_B) else fp.prev
                peer = rank_of(int(table[fp.of[m], s]), m)
            sends = kind in SENDS
            edge = (r, peer, comm) if sends else (peer, r, comm)
            i = count.setdefault((edge, sends), 0)
            count[edge, sends] = i + 1
            number = numbers.setdefault((edge, i), len(numbers) + 1)
            out[row] = f"t{number}", peer
        elif facts.is_collective[row]:
            k = count.setdefault((comm, r), 0)
            count[comm, r] = k + 1
            out[row] = f"c{comm}:{k}", -1
    return out


# ---- processes -----------------------------------------------------------------------------------------------------------


def worker(rank: int, ranks: int, store: str, inbox: int, pipes: list[int]) -> None:
    """Runs the jobs that come on standard input, one a line: {number, plain, ranks: the plan's lists, model, seconds, sizes, limit}; a line of result for each."""
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
        print(json.dumps(_job(process, json.loads(line))), file=out, flush=True)
    os._exit(0)  # a transfer of a job that stopped may never end


def _job(process: Process, job: dict) -> dict:
    mail, number = process.mail, job["number"]
    program = read_program(job["plain"], job["ranks"])
    emulation = Emulation(program, job["model"], job["seconds"], job["sizes"], process, number, job["limit"])
    mail.heard.setdefault(number, set())
    gc.collect()
    mail.tell(number, emulation.others, "here")
    parent = os.getppid()
    while not all(("here", r) in mail.heard[number] for r in emulation.others):
        mail.wait(1)
        if os.getppid() != parent:  # it ended before it had told all
            os._exit(1)
    began = time.perf_counter()
    emulation.told = emulation.moved = began
    finished = emulation.run()
    mail.forget(number)
    return {
        "finished": finished,
        "began": began,
        "span": {str(k): v for k, v in emulation.span.items()},
        "at": program.show(emulation.at) if emulation.at >= 0 else "the end of its list",
        "queue": [program.show(p.row) for u in emulation.open for p in u.parts if p.ended < 0][:8],
    }
