"""Longest-path times of a program whose transfers are inserted (the wait graph of IL307): one linearisation of it.

Every rank does its rows in order; a row waits for what it needs on other ranks; the rows of one collective end together.
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
    """`time[row]`: steps on the longest path to the row, from 0; -1 if it never runs. `stuck[r]`: the row rank r stops at, or -1."""

    time: np.ndarray
    stuck: tuple[int, ...]

    @property
    def complete(self) -> bool:
        return all(row < 0 for row in self.stuck)


def compute_times(facts: Facts) -> Times:
    """Linear in rows. Asks that no row needs a later row of its own rank (IL301) and that collectives agree (IL404)."""
    sort, need = _sorts(facts), _needs(facts)
    if (
        facts.program.ranks >= MANY_RANKS
        and not sort.any()
        and (times := _wave(need, facts.program.order.start)) is not None
    ):
        return times
    sort, need = sort.tolist(), need.tolist()
    position, end = facts.program.order.start[:-1].tolist(), facts.program.order.start[1:].tolist()
    rows, event = facts.collective_key
    meeting = dict(zip(rows.tolist(), event.tolist()))
    members = np.bincount(event).tolist() if len(event) else []
    time = [-1] * facts.n
    clock = [-1] * facts.program.ranks
    waiting: dict[int, list[int]] = {}  # row -> ranks that wait for it
    coming: dict[int, list[tuple[int, int]]] = {}  # collective -> (rank, row) of the members that came
    ready = list(range(facts.program.ranks))[::-1]

    while ready:
        r = ready.pop()
        i, last, now = position[r], end[r], clock[r]
        while i < last:
            what = sort[i]
            if what == PLAIN or what == OVERLAP:
                blocked = -1
                for half in (i,) if what == PLAIN else (i, i + 1):
                    other = need[half]
                    if other >= 0:
                        done = time[other]
                        if done < 0:
                            blocked = other
                            break
                        if done > now:  # a loop over every operation: max() takes half as long again
                            now = done
                if blocked >= 0:
                    now = clock[r]
                    waiting.setdefault(blocked, []).append(r)
                    break
                now += 1
                for half in (i,) if what == PLAIN else (i, i + 1):
                    time[half] = now
                    if half in waiting:
                        ready.extend(waiting.pop(half))
                i += 1 if what == PLAIN else 2
                clock[r] = now
            elif what == NOTHING:
                i += 1
            else:
                came = coming.setdefault(meeting[i], [])
                came.append((r, i))
                if len(came) == members[meeting[i]]:
                    now = max(clock[q] for q, _ in came) + 1
                    for q, row in came:
                        time[row] = clock[q] = now
                        position[q] = row + 1
                        if q != r:
                            ready.append(q)
                    i += 1
                else:
                    break
        position[r] = i
    return Times(np.array(time, dtype=np.int64), tuple(i if i < e else -1 for i, e in zip(position, end)))


def _wave(need: np.ndarray, start: np.ndarray) -> Times | None:
    """Of plain rows alone: one row of every rank that can go on, again and again. None where too few can for this to be fast."""
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


def _sorts(facts: Facts) -> np.ndarray:
    sort = np.full(facts.n, PLAIN, dtype=np.uint8)
    sort[~facts.has_event] = NOTHING
    sort[facts.is_collective] = COLLECTIVE
    halves = np.flatnonzero(facts.overlap_head != np.arange(facts.n))
    sort[halves - 1] = OVERLAP
    return sort


def _needs(facts: Facts) -> np.ndarray:
    """The row of another rank each row needs: at most one, its forward input or its gradient; -1: none."""
    need = np.full(facts.n, -1, dtype=np.int64)
    edges = facts.data
    away = facts.rank[edges.src] != facts.rank[edges.dst]
    need[edges.dst[away]] = edges.src[away]
    return need
