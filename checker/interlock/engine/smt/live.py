"""What is live while each row runs, as counts of parts whose bytes are left open: spec/memory.md, derived anew from the page.

Nothing here depends on sizes or trainable bits: a part that a freezing does away with has no bytes then (memory.py), and its interval may stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from interlock.program.facts import IS_COMPUTE, Facts
from interlock.program.ir import Kind

STASH, UNTIL_WEIGHT, ANEW, ANEW_UNTIL_WEIGHT, OUTPUT, INPUT, INPUT_UNTIL_X, GRADIENT, WORKSPACE = range(9)
WITHIN = {
    UNTIL_WEIGHT: STASH,
    ANEW_UNTIL_WEIGHT: ANEW,
    INPUT_UNTIL_X: INPUT,
}  # the first lasts as long as the second, and longer
EACH = -1  # what each image adds
MOST_ROWS = 400_000  # of a program
MOST_CELLS = 20_000_000  # rows of a rank times the different parts on it
MOST_MOMENTS = 10_000  # asked of the solver
MOST_COMPARED = 400  # moments that others are compared with


class TooLarge(Exception):
    """The message is the reason of an Unknown."""


class Part(NamedTuple):
    """Of a microbatch of class `cls` with so many images, or what each image adds: what `stage` keeps from F until X, or until W; what X makes
    anew of recomputed layers, until X ends, or until W; its output on the way to another rank; its input until F, or until X; the gradient of
    its output; its workspace while an operation of the row group `gate` runs (0: one that is always there)."""

    what: int
    cls: int
    stage: int
    images: int
    gate: int = 0


@dataclass(frozen=True)
class Moment:
    """A row (an overlap: its first) with what is live; `gate`: the group of rows that are present with it, 0: it always is.

    Of a pair in WITHIN both are counted: what is kept for the longer time alone is the second count less the first.
    """

    rank: int
    row: int
    gate: int
    counts: dict[Part, int]


def moments(facts: Facts, group: np.ndarray, linear: bool) -> list[Moment]:
    """The moments at which a rank may hold most, whatever the sizes: no other that is present with it holds as much of every part.

    `group`: for each row a number, equal for rows that are present together, 0 for those that always are. `linear`: every part but workspace
    is so many bytes and so many for each image; parts are then counted as those without images, and their images. Raises TooLarge.
    """
    p = facts.program
    if p.inserted:
        raise ValueError("memory is counted on written transfers: insert them first")
    if facts.n > MOST_ROWS:
        raise TooLarge(f"the memory of {facts.n:,} operations; up to {MOST_ROWS:,} are put to a solver")
    head = facts.overlap_head.tolist()
    tail = list(range(facts.n))
    for row, first in enumerate(head):
        tail[first] = row
    parts: list[dict[Part, int]] = [{} for _ in range(p.ranks)]  # number of each part on the rank
    spans: list[list[tuple[int, int, int, int]]] = [[] for _ in range(p.ranks)]
    rank = facts.rank.tolist()
    linear = linear and len(set(p.images)) > 1
    for first, last, part in (*_intervals(facts), *_workspace(facts, group)):
        first, last = head[first], tail[last]
        if first > last:
            continue
        apart = linear and part.what != WORKSPACE
        for number, counted in (
            ((1, part._replace(images=0)), (part.images, part._replace(images=EACH)))
            if apart
            else ((1, part),)
        ):
            mine = parts[rank[first]]
            spans[rank[first]].append((first, last, mine.setdefault(counted, len(mine)), number))
    out = []
    for r in range(p.ranks):
        out += _largest(facts, r, group, parts[r], spans[r])
    if len(out) > MOST_MOMENTS:
        raise TooLarge(
            f"memory may be fullest at {len(out):,} moments; up to {MOST_MOMENTS:,} are put to a solver"
        )
    return out


def _workspace(facts: Facts, group: np.ndarray) -> Iterator[tuple[int, int, Part]]:
    images = facts.program.images
    for row in np.flatnonzero(IS_COMPUTE[facts.kind] & facts.placed).tolist():
        m = int(facts.mb[row])
        yield (
            row,
            row,
            Part(WORKSPACE, int(facts.cls[row]), int(facts.stage[row]), images[m], int(group[row])),
        )


def _intervals(facts: Facts) -> Iterator[tuple[int, int, Part]]:
    """(first row, last row, part), rows inclusive, in the order of spec/memory.md."""
    fp, p = facts.footprint, facts.program
    first: dict[Kind, dict[tuple[int, int], int]] = {k: {} for k in Kind}
    rows = np.flatnonzero(facts.placed & (facts.mb >= 0))
    for row, kind, s, m in zip(
        rows.tolist(), facts.kind[rows].tolist(), facts.stage[rows].tolist(), facts.mb[rows].tolist()
    ):
        first[Kind(kind)].setdefault((s, m), row)
    listed = lambda at, *kinds: next((first[k][at] for k in kinds if at in first[k]), None)
    forward = lambda at: listed(at, Kind.F)
    input_half = lambda at: listed(at, Kind.I, Kind.B, Kind.W)  # X; where it is not listed, W
    weight_half = lambda at: listed(at, Kind.W, Kind.I, Kind.B)
    end_of = (p.order.start[1:] - 1).tolist()
    path, before, after = fp.on_path.tolist(), fp.prev.tolist(), fp.next.tolist()
    recomputed = np.array([l.recompute for l in p.layers], dtype=bool)
    again = [[bool((here & recomputed)[s.first : s.last].any()) for s in p.stages] for here in fp.present]
    stages = np.arange(facts.S)
    for m, c in enumerate(fp.of.tolist()):
        home = facts.rank_at(stages, np.full(facts.S, m)).tolist()
        part = lambda what, stage: Part(what, c, stage, p.images[m])
        for s in range(facts.S):
            if not path[c][s]:
                continue
            at, r = (s, m), home[s]
            until = lambda row: end_of[r] if row is None else row
            f, x = forward(at), input_half(at)
            if f is not None:
                yield f, until(x), part(STASH, s)
                yield f, until(weight_half(at)), part(UNTIL_WEIGHT, s)
                if x is not None and again[c][s]:
                    yield x, x, part(ANEW, s)
                    yield x, until(weight_half(at)), part(ANEW_UNTIL_WEIGHT, s)
            n = after[c][s]
            if n >= 0 and home[n] == r:
                if f is not None:
                    yield f, until(forward((n, m))), part(INPUT, n)
                    if again[c][n]:
                        yield f, until(input_half((n, m))), part(INPUT_UNTIL_X, n)
                gradient = input_half((n, m))
                if gradient is not None:
                    yield gradient, until(x), part(GRADIENT, s)
            elif n >= 0:
                if f is not None:
                    yield f, until(listed(at, Kind.WAIT_F)), part(OUTPUT, s)
                if at in first[Kind.RECV_B]:
                    yield first[Kind.RECV_B][at], until(x), part(GRADIENT, s)
            n = before[c][s]
            if n >= 0 and home[n] != r:
                if at in first[Kind.RECV_F]:
                    yield first[Kind.RECV_F][at], until(f), part(INPUT, s)
                    if again[c][s]:
                        yield first[Kind.RECV_F][at], until(x), part(INPUT_UNTIL_X, s)
                if x is not None:
                    yield x, until(listed(at, Kind.WAIT_B)), part(GRADIENT, n)


def _largest(
    facts: Facts, rank: int, group: np.ndarray, parts: dict[Part, int], spans: list[tuple[int, int, int, int]]
) -> list[Moment]:
    a, b = facts.program.order.start[rank : rank + 2].tolist()
    if a == b:
        return []
    if (b - a) * (len(parts) + 1) > MOST_CELLS:
        raise TooLarge(
            f"rank {rank} holds {len(parts):,} different payloads and stashes over {b - a:,} operations, too many to compare"
        )
    counts = np.zeros((b - a + 1, len(parts)), dtype=np.int64)
    if spans:
        first, last, column, number = np.array(spans).T
        np.add.at(counts, (first - a, column), number)
        np.subtract.at(counts, (last - a + 1, column), number)
    counts = np.cumsum(counts, axis=0)[:-1]
    rows = np.arange(a, b)
    heads = facts.overlap_head[rows] == rows
    gate = group[rows].copy()
    tails = np.flatnonzero(~heads)
    gate[tails - 1] = 0  # its F is always there
    counts, gate, rows = counts[heads], gate[heads], rows[heads]
    _, one = np.unique(np.column_stack([counts, gate]), axis=0, return_index=True)
    least = _at_least(counts, parts)
    one = one[
        np.lexsort((one, gate[one], -least[one].sum(axis=1)))
    ]  # what dominates comes before what it dominates
    kept: list[int] = []
    for i in one.tolist():
        others = kept[:MOST_COMPARED]
        more = (least[others] >= least[i]).all(axis=1) & ((gate[others] == 0) | (gate[others] == gate[i]))
        if not more.any():
            kept.append(i)
    names = list(parts)
    return [
        Moment(
            rank,
            int(rows[i]),
            int(gate[i]),
            {names[j]: int(counts[i, j]) for j in np.flatnonzero(counts[i]).tolist()},
        )
        for i in sorted(kept)
    ]


def _at_least(counts: np.ndarray, parts: dict[Part, int]) -> np.ndarray:
    """Workspace counted as "that of so many images or more", since it grows with the images; everything else as it is."""
    out = counts.copy()
    last: dict[Part, int] = {}
    for part, column in sorted(parts.items(), key=lambda item: -item[0].images):
        if part.what == WORKSPACE:
            alike = part._replace(images=0)
            if alike in last:
                out[:, column] += out[:, last[alike]]
            last[alike] = column
    return out
