"""The wait graph of a model, relation by relation (spec/communication.md; for inserted transfers IL307)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise

from interlock.kernel.matching import ORDERED, Matched
from interlock.kernel.placement import Pair, find_dependencies, merge
from interlock.kernel.program import Kind

QUEUES = {  # in which a unit stands, by sort; `_queues` says of what each sort has one
    "buffered": {"receives", "collectives"},
    "edge": {"sends", "receives", "collectives"},
    "pair": {"sends", "receives", "plain", "grouped", "collectives"},
    "rank": {"communicator"},
    "blocking": {"rank"},
}
MODELS = tuple(QUEUES)

Waits = Iterator[Pair]
Queue = tuple[int, str, int, int]  # (rank, sort, peer, communicator); -1: any


class WaitGraph:
    """The waits (a, b) of a program under a model: event b happens after event a.

    A relation that leads along one rank is listed from nearest to nearest; `covers` says for which later
    events its waits hold too.
    """

    def __init__(self, matched: Matched, model: str) -> None:
        self.matched, self.model, self.order = matched, model, matched.order

    def list_relations(self) -> Iterator[tuple[str, Waits]]:
        """Every relation with its name."""
        rank, inserted = self.order.rank, self.matched.program.inserted
        dependencies = find_dependencies(self.matched.placed)
        yield "order", self.find_order_waits()
        yield "data", ((a, b) for a, b in dependencies if inserted or rank[a] == rank[b])
        if not inserted:
            yield "after", self.find_after_waits()
            yield "queue", self.find_queue_waits()
            yield "member", self.find_member_waits()
            yield "consume", self.find_consume_waits()
            yield "step", self.find_step_waits()
            if self.model == "buffered":
                yield "match", self.find_match_waits()
            if self.model == "blocking":
                yield "block", self.find_block_waits()

    def find_shared_events(self) -> Waits:
        """(a, b) that share an event: halves of overlaps, members of collectives, a send and its receive."""
        yield from ((i - 1, i) for i in self.order.second_halves)
        for entered in self.matched.entered.values():
            longest, *others = sorted(entered.values(), key=len, reverse=True)
            for rows in others:
                yield from zip(longest, rows)
        if self.model != "buffered":
            yield from self.find_match_waits()

    def find_order_waits(self) -> Waits:
        """Each compute-like operation or INIT (if inserted: each with an event) -> the next of its rank."""
        second_halves = self.order.second_halves
        for rows in self.matched.ordered:
            for a, b in pairwise(rows):
                if b not in second_halves:
                    yield a, b
                    if a in second_halves:
                        yield a - 1, b

    def find_after_waits(self) -> Waits:
        """The last compute-like operation or INIT listed before a unit on its rank -> the unit's start."""
        for unit in self.matched.units:
            rows = self.matched.ordered[unit.rank]
            if before := bisect_left(rows, unit.rows[0]):
                a = rows[before - 1]
                yield a, unit.start
                if a in self.order.second_halves:
                    yield a - 1, unit.start

    def find_queue_waits(self) -> Waits:
        """The end of a unit -> the start of the next unit of the same queue on that rank."""
        ends: dict[Queue, int] = {}
        for unit in self.matched.units:
            for queue in {(unit.rank, *queue) for i in unit.rows for queue in self._queues(i)}:
                if queue in ends:
                    yield ends[queue], unit.start
                ends[queue] = unit.end

    def _queues(self, i: int) -> Iterator[tuple[str, int, int]]:
        """The queues on its rank that row i of a unit asks for: (sort, peer, communicator)."""
        peer, comm, sorts = self.matched.peer.get(i), self.order.comm[i], QUEUES[self.model]
        found = [("rank", -1, -1), ("communicator", -1, comm)]
        if peer is None:
            found.append(("collectives", -1, comm))
        else:
            found.append(("sends" if self.order.kind[i] in Kind.SENDS else "receives", peer, comm))
            found.append(("grouped", -1, comm) if self.order.launch[i] >= 0 else ("plain", peer, comm))
        return (queue for queue in found if queue[0] in sorts)

    def find_member_waits(self) -> Waits:
        """A launch's start -> each of its members -> its end."""
        for unit in self.matched.units:
            for i in unit.rows if unit.start != unit.end else ():
                yield unit.start, i
                yield i, unit.end

    def find_match_waits(self) -> Waits:
        """A send -> its receive."""
        for channel in self.matched.channels:
            yield from channel.pairs()

    def find_consume_waits(self) -> Waits:
        """The end of RECV_F -> F, of RECV_B -> X (W if no X is listed), of SEND_F, SEND_B -> WAIT_F, WAIT_B.

        The end of a transfer of x -> the next WAIT(x) of its rank.
        """
        first, x = self.matched.placed.first, self.matched.placed.x
        consumers = {
            Kind.RECV_F: first[Kind.F],
            Kind.RECV_B: merge(first[Kind.W], x),
            Kind.SEND_F: first[Kind.WAIT_F],
            Kind.SEND_B: first[Kind.WAIT_B],
        }
        waits = self.order.by_rank(Kind.WAIT, column=self.order.name)
        for unit in self.matched.units:
            for i in (i for i in unit.rows if i in self.matched.peer):
                if self.order.kind[i] in consumers:
                    consumer = consumers[self.order.kind[i]][self.order.stage[i]].get(self.order.mb[i])
                else:
                    consumer = _first_after(i, waits.get((unit.rank, self.order.name[i]), []))
                if consumer is not None:
                    yield unit.end, consumer

    def find_step_waits(self) -> Waits:
        """The end of every unit listed before a STEP on its rank -> the STEP."""
        steps = self.order.by_rank(Kind.STEP)
        for unit in self.matched.units:
            if (step := _first_after(unit.rows[0], steps.get((unit.rank, 0), []))) is not None:
                yield unit.end, step

    def find_block_waits(self) -> Waits:
        """The end of each operation with an event -> the start of the next on its rank; a launch is one."""
        second_halves = self.order.second_halves
        spans = [(unit.rank, unit.rows[0], unit.start, [unit.end]) for unit in self.matched.units]
        for i in (i for rows in self.matched.ordered for i in rows):
            if i not in second_halves and self.order.kind[i] not in Kind.COLLECTIVES:
                spans.append((self.order.rank[i], i, i, [i, i + 1] if i + 1 in second_halves else [i]))
        for (rank, _, _, ends), (next_rank, _, start, _) in pairwise(sorted(spans)):
            yield from ((end, start) for end in ends if rank == next_rank)

    def covers(self, name: str, b: int, later: int) -> bool:
        """A wait `name` that ends in b holds for `later` too, a later event of its relation on b's rank."""
        order = self.order
        i, j = order.row_of(b), order.row_of(later)
        kind, is_row = order.kind[j], later < len(order.kind)
        if order.rank[i] != order.rank[j] or i > j:
            return False
        if name == "order":
            inserted = self.matched.program.inserted
            return is_row and (kind not in Kind.WITHOUT_EVENT if inserted else kind in ORDERED)
        if name == "block" and is_row:
            alone = j in self.matched.peer and order.launch[j] not in order.grouped
            return alone or kind in Kind.COMPUTE_LIKE | Kind.COLLECTIVES
        if name == "block":
            return later == order.grouped[order.launch[j]]
        # consume and step: from the first WAIT of a name, or the first STEP, to a later one
        alike = all(column[i] == column[j] for column in (order.kind, order.stage, order.mb, order.name))
        return is_row and alike and kind in (Kind.STEP, Kind.WAIT, Kind.WAIT_F, Kind.WAIT_B)


def _first_after(i: int, rows: list[int]) -> int | None:
    """The first of these ascending rows after row i, which is none of them."""
    k = bisect_left(rows, i)
    return rows[k] if k < len(rows) else None
