"""Operations a second (of processor time) of the performance model, from a program's arrays to its figures:
the whole way and each step of it.

A program of inserted transfers; operations are compute operations, each transfer is an edge of one delay.
Steps: durations of all operations; who waits for
whom; the longest path; figures (makespan; compute, communication, overlap and bubbles of every rank; the
steady period). `uneven`: the whole way where every
operation takes a time of its own and nothing repeats. Beside them a peer: an event loop on a heap that finds
the same ends, and no figures.

    PYTHONPATH=checker python benchmarks/simulate.py
"""

from __future__ import annotations

import time
from dataclasses import replace
from heapq import heappop, heappush

import numpy as np

from interlock.algebra.standard import derive_standard
from interlock.program.facts import Facts
from interlock.program.kinds import Kind
from interlock.timing.durations import durations_by_kind
from interlock.timing.inputs import find_inputs, travel_times
from interlock.timing.longest_path import compute_ends
from interlock.timing.simulate import simulate_figures

CASES = [
    ("1f1b", 8, 20_000, 1),
    ("zb_h1", 8, 20_000, 1),
    ("interleaved", 8, 10_000, 2),
    ("gpipe", 8, 20_000, 1),
    ("1f1b", 32, 8_192, 1),
    ("1f1b", 128, 2_048, 1),
    ("1f1b", 512, 1_024, 1),
    ("zb_v", 512, 512, 2),
]
TIMES = {Kind.F: 10, Kind.B: 20, Kind.I: 9, Kind.W: 11}
LAG = 3


def best(work, repeats: int = 5):
    times = []
    for _ in range(repeats):
        began = time.process_time()
        result = work()
        times.append(time.process_time() - began)
    return result, min(times)


def event_loop(start: list[int], need: list[int], takes: list[int], lag: int) -> list[int]:
    """The end of each operation: events (time, operation that ends) on a heap."""
    end, feeds = [-1] * len(takes), {}
    for i, other in enumerate(need):
        if other >= 0:
            feeds[other] = i
    last = set(start[1:])
    first = set(start)
    arrived, heap = {}, [(takes[i], i) for i in start[:-1] if need[i] < 0]
    heap.sort()
    while heap:
        now, i = heappop(heap)
        end[i] = now
        after = i + 1
        if after not in last and (need[after] < 0 or after in arrived):
            heappush(heap, (max(now, arrived.get(after, 0)) + takes[after], after))
        j = feeds.get(i)
        if j is not None:
            arrived[j] = now + lag
            if j in first or end[j - 1] >= 0:
                heappush(heap, (max(now + lag, end[j - 1] if j not in first else 0) + takes[j], j))
    return end


def main() -> None:
    print(
        "million operations a "
        f"second\n{'':24}{'operations':>12}{'durations':>11}{'waits':>8}{'longest path':>14}{'figures':>9}{'whole':>8}{'uneven':>8}{'event loop':>12}"
    )
    for name, P, M, V in CASES:
        source = derive_standard(name, P, M, V)
        n = len(source.order)

        def waits():
            facts = Facts(source)
            found = find_inputs(facts)
            return found, travel_times(facts, found, d)

        d, given = best(lambda: durations_by_kind(source, TIMES, LAG))
        (found, lag), waited = best(waits)
        ends, path = best(lambda: compute_ends(found, d.row, lag))
        _, whole = best(lambda: simulate_figures(source, durations_by_kind(source, TIMES, LAG)))
        row = np.random.default_rng(0).integers(1, 40, n)
        _, uneven = best(
            lambda: simulate_figures(source, replace(durations_by_kind(source, TIMES, LAG), row=row)), 2
        )
        peer, looped = best(
            lambda: event_loop(*(x.tolist() for x in (found.start, found.source, d.row)), LAG), 1
        )
        assert peer == ends.tolist()
        measured = simulate_figures(source, d)
        assert measured.makespan == ends.max()

        def rate(seconds):
            return f"{n / seconds / 1e6:.2f}"

        print(
            f"{f'{name}, P={P}, M={M}':24}{n:>12,}{rate(given):>11}{rate(waited):>8}{rate(path):>14}{rate(whole - given - waited - path):>9}{rate(whole):>8}{rate(uneven):>8}{rate(looped):>12}",
            flush=True,
        )


if __name__ == "__main__":
    main()
