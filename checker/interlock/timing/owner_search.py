"""The owner map with the least exposure of a frozen encoder (spec/cost.md, "Transpose")."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from interlock.timing.exposure import Deadlines, exposure_of_owners
from interlock.timing.search import Search, Tries

SEARCH_LIMIT = 200_000  # tries of the exact search before it gives up


def find_least_exposed(encode: Sequence[int], due: Deadlines) -> tuple[int, ...] | None:
    """An owner map that minimises `exposure_of_owners`, exactly; None if the search gives up.

    encode[m]: ns of the encode of microbatch m. Microbatches that do not visit the encoder: m mod P.
    """
    guesses = [_assign_greedily(encode, due, preference) for preference in _PREFERENCES]
    best = min(guesses, key=lambda owner: exposure_of_owners(owner, encode, due))
    low, high = _lower_bound(encode, due), exposure_of_owners(best, encode, due)
    tries = Tries(SEARCH_LIMIT)
    while low < high:
        middle = (low + high) // 2
        found = _find_within(encode, due, middle, tries)
        if tries.used_up:
            return None
        if found is None:
            low = middle + 1
        else:
            best, high = found, exposure_of_owners(found, encode, due)
    return best


def _lower_bound(encode: Sequence[int], due: Deadlines) -> int:
    """No map exposes less: a single encode, and the work due by each deadline against the time that all ranks
    have until then."""
    P = len(due.begins)
    bound, work, deadline = 0, 0, 0
    for m in due.order:
        gather = int(due.gather[m].min())
        bound = max(bound, encode[m] + gather - int(due.feeds[m]))
        work, deadline = work + encode[m], max(deadline, int(due.feeds[m]) - gather)
        bound = max(bound, -(-(work - int(np.minimum(due.begins, deadline).sum())) // P))
    return max(bound, -(-(work - int(due.begins.sum())) // P))


def _spread_evenly(encode: Sequence[int], due: Deadlines) -> list[int]:
    """m mod P, which the microbatches that visit no encoder keep."""
    return [m % len(due.begins) for m in range(len(encode))]


# ---- greedy maps --------------------------------------------------------------------------------------


def _least_load(load: int, room: int) -> int:
    return load


def _least_room(load: int, room: int) -> int:
    return room


def _most_room(load: int, room: int) -> int:
    return -room


_PREFERENCES: tuple[Callable[[int, int], int], ...] = (_least_load, _least_room, _most_room)


def _assign_greedily(
    encode: Sequence[int], due: Deadlines, preference: Callable[[int, int], int]
) -> tuple[int, ...]:
    """Each encode in turn to the rank where it is least late, then by `preference` of the rank's load and
    room before its deadline."""
    begins, feeds, gather = due.begins.tolist(), due.feeds.tolist(), due.gather.tolist()
    load, owner = [0] * len(begins), _spread_evenly(encode, due)
    for m in due.order:
        keys = []
        for r, begin in enumerate(begins):
            end = load[r] + encode[m]
            late = max(end + gather[m][r] - feeds[m], end - begin, 0)
            keys.append((late, preference(load[r], begin - load[r]), r))
        *_, r = min(keys)
        owner[m] = r
        load[r] += encode[m]
    return tuple(owner)


# ---- the exact search ---------------------------------------------------------------------------------


def _find_within(encode: Sequence[int], due: Deadlines, limit: int, tries: Tries) -> tuple[int, ...] | None:
    """A map that exposes at most `limit`; None if there is none, or the tries are used up."""
    if not due.order:
        return tuple(_spread_evenly(encode, due))
    if _are_alike(encode, due):
        ranks = _assign_alike(encode[due.order[0]], due, limit)
    else:
        search = _OwnerSearch(encode, due, limit)
        ranks = search.chosen if search.run(tries) else None
    if ranks is None:
        return None
    owner = _spread_evenly(encode, due)
    for m, r in zip(due.order, ranks):
        owner[m] = r
    return tuple(owner)


class _OwnerSearch(Search):
    """Ranks for the encodes in order, each within `limit` of its deadlines; loads known to fail are not tried
    again."""

    def __init__(self, encode: Sequence[int], due: Deadlines, limit: int):
        super().__init__(len(due.order))
        self.takes = [encode[m] for m in due.order]
        self.latest = [(due.feeds[m] - due.gather[m] + limit).tolist() for m in due.order]  # end on each rank
        self.begins = due.begins.tolist()
        self.limit = limit
        self.load = [0] * len(self.begins)
        self.failed: set[tuple[int, tuple[tuple[int, int], ...]]] = set()
        self.twin = [self._first_like(r, due.gather) for r in range(len(self.begins))]

    def _first_like(self, rank: int, gather: np.ndarray) -> int:
        """The lowest rank with the same deadline and the same hand-overs."""
        return next(
            q
            for q in range(rank + 1)
            if self.begins[q] == self.begins[rank] and (gather[:, q] == gather[:, rank]).all()
        )

    def _state(self) -> tuple[int, tuple[tuple[int, int], ...]]:
        return len(self.chosen), tuple(sorted(zip(self.twin, self.load)))

    def candidates(self) -> list[int]:
        """Ranks in time, of those alike and equally loaded one; that with the least room left first."""
        if self._state() in self.failed:
            return []
        job, seen, ranks = len(self.chosen), set(), []
        for r in sorted(range(len(self.load)), key=self._overrun, reverse=True):
            end = self.load[r] + self.takes[job]
            in_time = end <= self.begins[r] + self.limit and end <= self.latest[job][r]
            if in_time and (self.twin[r], self.load[r]) not in seen:
                seen.add((self.twin[r], self.load[r]))
                ranks.append(r)
        return ranks[::-1]

    def _overrun(self, rank: int) -> int:
        return self.load[rank] - self.begins[rank]

    def place(self, job: int, where: int) -> None:
        self.load[where] += self.takes[job]

    def remove(self, job: int, where: int) -> None:
        self.load[where] -= self.takes[job]

    def exhaust(self) -> None:
        self.failed.add(self._state())


def _are_alike(encode: Sequence[int], due: Deadlines) -> bool:
    """Whether all encodes take and travel the same, and are due in the order in which they come."""
    if len({(encode[m], *due.gather[m].tolist()) for m in due.order}) != 1:
        return False
    feeds = due.feeds[list(due.order)]
    return bool((feeds[:-1] <= feeds[1:]).all())


def _assign_alike(takes: int, due: Deadlines, limit: int) -> list[int] | None:
    """Ranks for encodes that are alike: of the ends that ranks can offer, the earliest to the first."""
    gather = due.gather[due.order[0]].tolist()
    offers = sorted(
        (k * takes + gather[r], r)
        for r, begin in enumerate(due.begins.tolist())
        for k in range(1, len(due.order) + 1)
        if k * takes <= begin + limit
    )[: len(due.order)]
    late = any(end > int(due.feeds[m]) + limit for (end, _), m in zip(offers, due.order))
    return None if late or len(offers) < len(due.order) else [r for _, r in offers]
