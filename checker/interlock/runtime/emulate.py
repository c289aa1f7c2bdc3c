"""Emulation: a plan executed by processes with compute replaced by timed waits, payloads of the real sizes, and ordered queues.

gloo buffers what is sent, NCCL's queues do not; so both ends of a transfer say through the store that they have come to it in their queue, and
only then does it move. Queues are those of a communication model (spec/communication.md): what the model's wait graph blocks, blocks here.
"""

from __future__ import annotations

import json
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from ..lower.plan import read_back
from ..program.facts import Facts
from ..program.ir import TRANSFER, Kind, Program

POLL = 0.0003
SENDS = (Kind.SEND_F, Kind.SEND_B, Kind.SEND)


@dataclass
class Part:
    """One transfer or collective of this rank: `name` is shared by its ends; `peers` are who has to come."""

    row: int
    name: str
    peers: tuple[int, ...]
    sends: bool | None                               # None: a collective
    peer: int = -1
    size: int = 0
    seconds: float = 0.0
    started: float = -1.0
    met: float = -1.0
    work: object = None
    ended: float = -1.0


@dataclass
class Unit:
    """A plain transfer, a grouped launch or a collective, in each of `queues` once."""

    parts: list[Part]
    queues: list = field(default_factory=list)

    @property
    def ended(self) -> bool:
        return all(p.ended >= 0 for p in self.parts)


class Emulation:
    """One rank of one program. seconds[i], sizes[i]: how long row i takes (a transfer on its link), and its payload's bytes."""

    def __init__(self, program: Program, model: str, seconds, sizes, rank: int, store, limit: float):
        self.program, self.model, self.rank, self.store, self.limit = program, model, rank, store, limit
        self.seconds, self.sizes = seconds, sizes
        self.facts = facts = Facts(program)
        self.rows = range(int(program.order.start[rank]), int(program.order.start[rank + 1]))
        self.names = _names(facts)
        self.queues: dict[tuple, deque[Unit]] = {}
        self.open: list[Unit] = []
        self.of_row: dict[int, Unit] = {}
        self.span: dict[int, list[float]] = {}
        self.pool = ThreadPoolExecutor(1)
        self.at = -1

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
                unit.parts.append(Part(row, name, (peer,), sends, peer, int(self.sizes[row]), float(self.seconds[row])))
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
        if part.started < 0:
            part.started = now
            self.store.set(f"{part.name}/{self.rank}", "")
        if part.met < 0:
            if not all(self.store.check([f"{part.name}/{r}"]) for r in part.peers):
                return
            part.met = time.perf_counter()
            if part.size and part.sends is not None:
                tag = int(part.name.split("#")[1])
                tensor = torch.empty(part.size, dtype=torch.uint8)
                start = dist.isend if part.sends else dist.irecv
                part.work = self.pool.submit(start(tensor, part.peer, tag=tag).wait)
        if (part.work is None or part.work.done()) and time.perf_counter() - part.met >= part.seconds:
            part.ended = time.perf_counter()
            self.span[part.row] = [part.met, part.ended]

    # ---- the rank --------------------------------------------------------------------------------------------------------

    def run(self) -> bool:
        """Whether everything ended; False where nothing ended on any rank for `limit` seconds."""
        kind = [Kind(k) for k in self.program.order.kind.tolist()]
        launch = self.program.order.launch
        head = self.facts.overlap_head
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
        while (left := end - time.perf_counter()) > 0:
            self.progress()
            if left > 2 * POLL:
                time.sleep(POLL)
        for row in rows:
            self.span[row] = [began, time.perf_counter()]

    def _needs(self, row: int, kind: Kind) -> list[Unit]:
        """The waits `consume` and `step` of communication.md; data of this rank has been computed, in the order listed."""
        o = self.program.order
        s, m, name = int(o.stage[row]), int(o.mb[row]), int(o.name[row])
        if kind is Kind.STEP:
            return list(self.of_row.values())
        wanted = {Kind.F: Kind.RECV_F, Kind.B: Kind.RECV_B, Kind.I: Kind.RECV_B, Kind.W: Kind.RECV_B, Kind.WAIT_F: Kind.SEND_F, Kind.WAIT_B: Kind.SEND_B}.get(kind)
        if wanted is not None:
            return [self.of_row[r] for r in self.of_row if o.kind[r] == wanted and o.stage[r] == s and o.mb[r] == m] or self._missing(wanted, s, m)
        if kind is Kind.WAIT:
            return [unit for r, unit in self.of_row.items() if o.name[r] == name and Kind(int(o.kind[r])) in TRANSFER]
        return []

    def _missing(self, kind: Kind, s: int, m: int):
        """A receive that is listed, and listed later: the operation waits for what this rank has not come to, and never comes to it."""
        o = self.program.order
        later = [r for r in self.rows if o.kind[r] == kind and o.stage[r] == s and o.mb[r] == m]
        return [Unit([Part(r, "", (), None)]) for r in later]

    def _until(self, ready) -> bool:
        """Waits; False once nothing of any rank has ended for `limit` seconds."""
        looked, seen, told = time.perf_counter(), -1, time.perf_counter()
        while not ready():
            self.progress()
            now = time.perf_counter()
            if now - told > self.limit / 8:                          # every rank says how far it is; as long as any number moves, nobody stops
                self.store.set(f"done/{self.rank}", str(len(self.span)))
                total = sum(int(self.store.get(f"done/{r}")) for r in range(self.program.ranks) if self.store.check([f"done/{r}"]))
                told = now
                if total != seen:
                    looked, seen = now, total
            if now - looked > self.limit:
                return False
            time.sleep(POLL)
        return True


def _names(facts: Facts) -> dict[int, tuple[str, int]]:
    """row -> (what both ends call it, the other rank): the i-th send of an edge meets its i-th receive, the k-th collective of a communicator that of the other members."""
    program, o = facts.program, facts.program.order
    rank_of = lambda s, m: program.stages[s].owner[m] if program.stages[s].replicated else program.stages[s].rank
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
            out[row] = f"t#{number}", peer
        elif facts.is_collective[row]:
            k = count.setdefault((comm, r), 0)
            count[comm, r] = k + 1
            out[row] = f"c{comm}#{k}", -1
    return out


# ---- processes -----------------------------------------------------------------------------------------------------------

def worker(rank: int, ranks: int, store: str, jobs: str, out: str) -> None:
    """Runs each job of a file on its first ranks: {plain, ranks: the plan's lists, model, seconds, sizes, limit}."""
    torch.set_num_threads(1)
    base = dist.FileStore(store, ranks)
    host = dist.TCPStore("127.0.0.1", int(base.get("port")) if rank else 0, ranks, is_master=rank == 0, wait_for_workers=False, timeout=timedelta(seconds=60))
    if rank == 0:
        base.set("port", str(host.port))
    dist.init_process_group("gloo", store=dist.PrefixStore("group", host), rank=rank, world_size=ranks)
    results = []
    for number, job in enumerate(json.loads(Path(jobs).read_text())):
        program = read_back(job["plain"], job["ranks"])
        own = dist.PrefixStore(f"job{number}", host)
        result = {"finished": True, "span": {}, "at": ""}
        own.set(f"here/{rank}", "")
        while not all(own.check([f"here/{r}"]) for r in range(ranks)):
            time.sleep(0.001)
        if rank < program.ranks:
            emulation = Emulation(program, job["model"], job["seconds"], job["sizes"], rank, own, job["limit"])
            began = time.perf_counter()
            finished = emulation.run()
            result = {"finished": finished, "began": began, "ended": time.perf_counter(), "span": {str(k): v for k, v in emulation.span.items()},
                      "at": program.show(emulation.at) if emulation.at >= 0 else "the end of its list",
                      "queue": [program.show(p.row) for u in emulation.open for p in u.parts if p.ended < 0][:8]}
        results.append(result)
        Path(out).write_text(json.dumps(results))
    own = dist.PrefixStore("end", host)
    own.set(f"here/{rank}", "")
    while rank == 0 and not all(own.check([f"here/{r}"]) for r in range(ranks)):
        time.sleep(0.001)

