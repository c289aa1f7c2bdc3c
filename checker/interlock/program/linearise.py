"""Longest-path times of a program with inserted transfers (the wait graph of IL307): one linearisation of it.

Every rank runs its rows in order; a row waits for what it needs elsewhere; a collective ends for all at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from interlock.program.facts import Facts

PLAIN, OVERLAP, COLLECTIVE, NOTHING = range(4)
MANY_RANKS = 128  # from here on a wave over the ranks is faster than a walk along each
FEW = 32  # rows that go on in a wave, on average, below which it is slower


@dataclass(frozen=True)
class Times:
    """`time[row]`: steps on the longest path to it; -1: it never runs. `stuck[r]`: where rank r stops."""

    time: np.ndarray
    stuck: tuple[int, ...]

    @property
    def complete(self) -> bool:
        return all(row < 0 for row in self.stuck)


def compute_times(facts: Facts) -> Times:
    """Linear in rows. No row may need a later row of its own rank (IL301), and collectives agree (IL404)."""
    roles, need = _roles(facts), _needs(facts)
    if facts.program.ranks >= MANY_RANKS and not roles.any():
        times = _wave(need, facts.program.order.start)
        if times is not None:
            return times
    return _Walk(facts, roles, need).run()


class _Walk:
    """Every rank walks along its rows until one has to wait; a rank that is waited for wakes the others."""

    def __init__(self, facts: Facts, roles: np.ndarray, need: np.ndarray):
        start, ranks = facts.program.order.start, facts.program.ranks
        self.roles, self.need = roles.tolist(), need.tolist()
        self.position, self.end = start[:-1].tolist(), start[1:].tolist()
        rows, event = facts.collective_key
        self.event = dict(zip(rows.tolist(), event.tolist()))
        self.members = np.bincount(event).tolist() if len(event) else []
        self.time = [-1] * facts.n
        self.clock = [-1] * ranks
        self.waiting: dict[int, list[int]] = {}  # row -> ranks that wait for it
        self.arrived: dict[int, list[tuple[int, int]]] = {}  # collective -> (rank, row) of its members so far
        self.ready = list(range(ranks))[::-1]

    def run(self) -> Times:
        while self.ready:
            self._advance(self.ready.pop())
        stuck = tuple(row if row < end else -1 for row, end in zip(self.position, self.end))
        return Times(np.array(self.time, dtype=np.int64), stuck)

    def _advance(self, rank: int) -> None:
        roles, need, time, waiting = self.roles, self.need, self.time, self.waiting
        row, end, now = self.position[rank], self.end[rank], self.clock[rank]
        while row < end:
            role = roles[row]
            if role == PLAIN:
                other = need[row]
                if other >= 0:
                    done = time[other]
                    if done < 0:
                        waiting.setdefault(other, []).append(rank)
                        break
                    if done > now:  # a loop over every operation: max() takes half as long again
                        now = done
                now += 1
                time[row] = now
                if row in waiting:
                    self.ready.extend(waiting.pop(row))
            elif role != NOTHING:
                self.clock[rank] = now
                if not (self._overlap(rank, row) if role == OVERLAP else self._enter(rank, row)):
                    break
                now = self.clock[rank]
                row += role == OVERLAP
            row += 1
        self.position[rank], self.clock[rank] = row, now

    def _overlap(self, rank: int, row: int) -> bool:
        """Runs the two halves as one; False: one of them has to wait."""
        now = self.clock[rank]
        for half in (row, row + 1):
            other = self.need[half]
            if other >= 0:
                if self.time[other] < 0:
                    self.waiting.setdefault(other, []).append(rank)
                    return False
                if self.time[other] > now:
                    now = self.time[other]
        self.clock[rank] = now + 1
        for half in (row, row + 1):
            self.time[half] = now + 1
            self.ready.extend(self.waiting.pop(half, ()))
        return True

    def _enter(self, rank: int, row: int) -> bool:
        """Enters a collective; True: as the last member, and it ends."""
        event = self.event[row]
        arrived = self.arrived.setdefault(event, [])
        arrived.append((rank, row))
        if len(arrived) < self.members[event]:
            return False
        now = max(self.clock[member] for member, _ in arrived) + 1
        for member, theirs in arrived:
            self.time[theirs] = self.clock[member] = now
            self.position[member] = theirs + 1
            if member != rank:
                self.ready.append(member)
        return True


def _wave(need: np.ndarray, start: np.ndarray) -> Times | None:
    """Of plain rows alone: a row of every rank that can go on, again and again. None where too few can."""
    n, place, last = len(need), start[:-1].astype(np.int64), start[1:].astype(np.int64)
    time = np.full(n + 1, -2, dtype=np.int64)
    time[n] = -1  # the end of a need that is none
    need, clock = np.where(need >= 0, need, n), np.full(len(place), -1, dtype=np.int64)
    going = np.flatnonzero(place < last)
    waves = ran = 0
    while going.size:
        if waves > 4 * len(place) and ran < FEW * waves:
            return None
        rows = place[going]
        done = time[need[rows]]
        able = done > -2
        if not able.any():
            break
        moved, rows = going[able], rows[able]
        time[rows] = clock[moved] = np.maximum(clock[moved], done[able]) + 1
        place[moved] = rows + 1
        waves, ran = waves + 1, ran + len(rows)
        going = going[place[going] < last[going]]
    return Times(np.maximum(time[:n], -1), tuple(np.where(place < last, place, -1).tolist()))


def _roles(facts: Facts) -> np.ndarray:
    roles = np.full(facts.n, PLAIN, dtype=np.uint8)
    roles[~facts.has_event] = NOTHING
    roles[facts.is_collective] = COLLECTIVE
    roles[facts.second_halves - 1] = OVERLAP
    return roles


def _needs(facts: Facts) -> np.ndarray:
    """The row of another rank each row needs: at most one, its forward input or its gradient; -1: none."""
    need = np.full(facts.n, -1, dtype=np.int64)
    edges = facts.data
    away = facts.rank[edges.src] != facts.rank[edges.dst]
    need[edges.dst[away]] = edges.src[away]
    return need
