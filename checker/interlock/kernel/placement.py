"""Where operations belong (spec/program.md, spec/footprint.md): the second stage."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from operator import or_

from interlock.kernel.fields import require
from interlock.kernel.program import KINDS, Key, Kind, Order, Program

MAX_PATHS = 2 * 10**6  # classes of microbatches * layers
NONE, OFF = -1, -2  # in place of a neighbour: the path ends here; the stage is not on the path

Pair = tuple[int, int]  # two rows or events


class Rows(dict[int, dict[int, int]]):
    """stage -> microbatch -> row. With (stage, microbatch) as one key a million rows took twice the time."""

    def __missing__(self, stage: int) -> dict[int, int]:
        return {}


@dataclass(frozen=True, slots=True)
class Path:
    """path(m) of microbatches with the same layers present, and the footprint on it; lists are by stage."""

    number: int
    layers: list[list[int]]  # L(s, m)
    stages: list[int]  # path(m)
    prev: list[int]
    next: list[int]
    cross: list[bool]
    back: list[bool]
    wwork: list[bool]


@dataclass(frozen=True, slots=True)
class Placed:
    """A program and where its operations belong. A row takes part if it is in range and on rank(s, m)."""

    program: Program
    order: Order
    paths: list[Path]
    path: list[Path]  # by microbatch
    reduces: list[bool]  # reduce(s)
    listed: list[Rows]  # by kind: the first row of each (s, m), wherever it is
    first: list[Rows]  # by kind: the first row of each (s, m) that takes part
    x: Rows  # of these that of X(s, m): I or B, whichever is listed
    out_of_range: list[int]  # rows whose stage or microbatch does not exist
    off_path: list[int]  # rows whose stage is not on the path
    misplaced: list[int]  # rows on another rank than rank(s, m)
    stray: set[int]  # rows out of range or misplaced
    nowhere: set[Key]  # (s, m) of the rows out of range or off the path

    def rank_of(self, s: int, m: int) -> int:
        return self.program.stages[s].rank_of(m)

    def is_in_range(self, i: int) -> bool:
        return 0 <= self.order.stage[i] < len(self.program.stages) and 0 <= self.order.mb[i] < len(self.path)

    def sum_over_paths(self, by_path: list[int]) -> int:
        """Over all microbatches the sum of a number of each path."""
        return sum(by_path[path.number] for path in self.path)


def place(program: Program) -> Placed:
    """Raises Malformed if the paths are too many."""
    order, stages = program.order, program.stages
    paths, path = _find_paths(program)
    out_of_range, off_path, misplaced = [], [], []
    for i in (i for kind in Kind.WITH_MICROBATCH for i in order.rows[kind]):
        s, m = order.stage[i], order.mb[i]
        if not (0 <= s < len(stages) and 0 <= m < len(path)):
            out_of_range.append(i)
            continue
        if path[m].next[s] == OFF:
            off_path.append(i)
        if order.rank[i] != stages[s].rank and order.rank[i] != stages[s].rank_of(m):
            misplaced.append(i)
    stray = {*out_of_range, *misplaced}
    nowhere = {(order.stage[i], order.mb[i]) for i in (*out_of_range, *off_path)}
    reduces = [any(program.layers[layer].trainable for layer in stage.layers) for stage in stages]
    listed = [_first_rows(order, order.rows[kind] if kind in Kind.WITH_MICROBATCH else ()) for kind in KINDS]
    first = listed
    if stray:
        first = [_first_rows(order, (i for i in order.rows[kind] if i not in stray)) for kind in KINDS]
    x = merge(first[Kind.B], first[Kind.I])
    strays = (out_of_range, off_path, misplaced, stray, nowhere)
    return Placed(program, order, paths, path, reduces, listed, first, x, *strays)


def _first_rows(order: Order, rows: Iterable[int]) -> Rows:
    found: defaultdict[int, dict[int, int]] = defaultdict(dict)
    for i in rows:
        found[order.stage[i]].setdefault(order.mb[i], i)
    return Rows(found)


def merge(*tables: Rows) -> Rows:
    """The rows of all, those of a later table first."""
    listed = [table for table in tables if table]
    if len(listed) == 1:
        return listed[0]
    merged = Rows()
    for s, rows in (of_stage for table in listed for of_stage in table.items()):
        merged[s] = merged[s] | rows
    return merged


def _find_paths(program: Program) -> tuple[list[Path], list[Path]]:
    """The paths, and that of each microbatch."""
    number = [0] * program.microbatches  # equal for microbatches with the same layers present
    count = 1
    for modality in dict.fromkeys(layer.modality for layer in program.layers):
        renumbered: dict[int, int] = {}
        for m in program.modalities.get(modality, ()) if modality is not None else ():
            if number[m] not in renumbered:
                renumbered[number[m]], count = count, count + 1
            number[m] = renumbered[number[m]]
    example = {n: m for m, n in enumerate(number)}
    few = len(example) * len(program.layers) <= MAX_PATHS
    require(few, "the program has too many kinds of microbatches for its layers")
    paths = {n: _path_of(program, position, m) for position, (n, m) in enumerate(example.items())}
    return list(paths.values()), [paths[n] for n in number]


def _path_of(program: Program, number: int, m: int) -> Path:
    listed = [
        program.modalities.get(x) if x is not None else None
        for x in (layer.modality for layer in program.layers)
    ]
    layers = [[n for n in stage.layers if (mbs := listed[n]) is None or m in mbs] for stage in program.stages]
    stages = [s for s, own in enumerate(layers) if own]
    prev, next_ = [OFF] * len(layers), [OFF] * len(layers)
    for p, n in pairwise([NONE, *stages, NONE]):
        if n != NONE:
            prev[n] = p
        if p != NONE:
            next_[p] = n
    wwork = [any(program.layers[layer].trainable for layer in own) for own in layers]
    before = list(accumulate(wwork, or_, initial=False))  # a layer in before(s, m) is trainable
    cross = [bool(own) and trained for own, trained in zip(layers, before)]
    back = [bool(own) and trained for own, trained in zip(layers, before[1:])]
    return Path(number, layers, stages, prev, next_, cross, back, wwork)


def find_dependencies(placed: Placed) -> Iterator[Pair]:
    """R-DEP-1 to R-DEP-4: (a, b) where row b waits for row a, between any ranks."""
    path, x = placed.path, placed.x
    f, b, i, w, loss = (placed.first[kind] for kind in (Kind.F, Kind.B, Kind.I, Kind.W, Kind.LOSS))
    for s, rows in f.items():  # R-DEP-1: F(prev(s, m), m) -> F(s, m)
        for m, row in rows.items():
            if (p := path[m].prev[s]) >= 0 and (other := f[p].get(m)) is not None:
                yield other, row
    for s, rows in chain(b.items(), i.items()):  # R-DEP-2: X(n, m) -> X(s, m) if cross(n, m), n = next(s, m)
        for m, row in rows.items():
            if (n := path[m].next[s]) >= 0 and path[m].cross[n] and (other := x[n].get(m)) is not None:
                yield other, row
    last = Rows(
        {s: {m: row for m, row in rows.items() if path[m].next[s] == NONE} for s, rows in loss.items()}
    )
    # of one (s, m): R-DEP-2 F -> X, F -> W; R-DEP-3 F -> LOSS -> X on the last stage; R-DEP-4 I -> W
    for before, after in ((f, b), (f, i), (f, w), (f, last), (last, b), (last, i), (i, w)):
        for s, rows in after.items():
            earlier = before[s]
            yield from ((earlier[m], row) for m, row in rows.items() if m in earlier)
