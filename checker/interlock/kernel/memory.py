"""Bytes along the rows (spec/memory.md)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from operator import or_

from interlock.kernel.fields import Malformed, require
from interlock.kernel.matching import Matched
from interlock.kernel.placement import OFF, Path, Placed, Rows, merge
from interlock.kernel.program import REPLICATED, Kind, Layer, Memory, Program, Size
from interlock.kernel.wellformed import MAX_WORK

Interval = tuple[int, int, int]  # first row, last row, bytes


def check_capacity(matched: Matched) -> Iterator[tuple[str, tuple[int, ...]]]:
    """IL501, R-MEM-1: peak(r) <= capacity(r). Asked where transfers are written."""
    memory = matched.program.memory
    if memory is not None and not matched.program.inserted:
        for r, live in enumerate(count_live_bytes(matched)):
            capacity = memory.capacity[r]
            if capacity is not None and max(live) > capacity:
                rows = enumerate(live[1:], matched.order.start[r])
                yield "IL501", tuple(i for i, size in rows if size > capacity)


def find_peaks(matched: Matched) -> list[int]:
    """The peak of every rank in bytes. Raises Malformed."""
    return [max(live) for live in count_live_bytes(matched)]


def count_in_flight(placed: Placed) -> list[int]:
    """IL702: by rank the largest number of (s, m) with back(s, m) whose F has run and X has not ended."""
    usage = Usage(placed)
    live = [
        (f, max(f, usage.end_at(f, usage.x[s].get(m))), 1)
        for s, m, f in usage.find_listed(placed.first[Kind.F])
        if placed.path[m].back[s]
    ]
    return [max(counts) for counts in _add_up(placed, live, [0] * placed.program.ranks)]


def count_live_bytes(matched: Matched) -> Iterator[list[int]]:
    """For each rank the static bytes, then those live while each of its rows runs. Raises Malformed."""
    memory = matched.program.memory
    if memory is None:
        raise Malformed("the program carries no memory")
    require(not matched.program.inserted, "peaks are counted where transfers are written")
    usage, second = Usage(matched.placed), matched.order.second_halves
    together = (  # the halves of an overlap are live together
        (start - (start in second), end + (end + 1 in second), size)
        for start, end, size in usage.find_intervals()
    )
    return _add_up(matched.placed, together, _static_bytes(matched.program, memory))


def _add_up(placed: Placed, intervals: Iterable[Interval], static: list[int]) -> Iterator[list[int]]:
    """For each rank what is static, then the sum at each row. An interval may end before it starts: empty."""
    start, rank = placed.order.start, placed.order.rank
    change = [0] * (len(rank) + len(static))  # a rank has one place past its end
    for first, last, size in intervals:
        if first <= last:
            change[first + rank[first]] += size
            change[last + rank[first] + 1] -= size
    for r, fixed in enumerate(static):
        yield list(accumulate(change[start[r] + r : start[r + 1] + r], initial=fixed))


def _static_bytes(program: Program, memory: Memory) -> list[int]:
    """By rank: weights of its stages, of trainable layers also gradients and optimizer state, rounded up."""
    total, everywhere = [0] * program.ranks, 0
    for stage in program.stages:
        layers = [program.layers[layer] for layer in stage.layers]
        trained = [layer.weights for layer in layers if layer.trainable]
        shares = (memory.gradient, memory.optimizer)
        size = sum(layer.weights for layer in layers)
        size += sum(-(-weights * above // below) for weights in trained for above, below in shares)
        if stage.rank == REPLICATED:
            everywhere += size
        else:
            total[stage.rank] += size
    return [own + everywhere for own in total]


@dataclass(frozen=True, slots=True)
class StageBytes:
    """What stage s holds of microbatch m."""

    until_w: int  # stash
    until_x: int  # and the inputs of recomputed runs that do not begin L(s, m)
    recomputed_until_w: int  # stash of recomputed layers
    recomputed_until_x: int
    keeps_payload: bool  # a recomputed run with a stash begins L(s, m)
    output: int
    workspace: int


class Usage:
    """What is live for how long, rows inclusive, for all that is not static."""

    def __init__(self, placed: Placed) -> None:
        self.placed, self.path, self.first = placed, placed.path, placed.first
        w, b = placed.first[Kind.W], placed.first[Kind.B]
        self.x = merge(w, placed.x)  # X(s, m), or where it is not listed W
        self.w = merge(placed.x, w, b)  # W(s, m), or B, or where neither is listed X
        self.sizes: dict[tuple[int, int, int], StageBytes] = {}

    def find_listed(self, *tables: Rows) -> Iterator[tuple[int, int, int]]:
        """(s, m, row) of these rows that are on the path."""
        for s, rows in (of_stage for table in tables for of_stage in table.items()):
            yield from ((s, m, row) for m, row in rows.items() if self.path[m].next[s] != OFF)

    def find_with_neighbour(self, table: Rows, *, after: bool) -> Iterator[tuple[int, int, int, int, bool]]:
        """(s, m, row, neighbour, whether that is on another rank) of rows with a stage after or before s."""
        for s, m, row in self.find_listed(table):
            neighbour = (self.path[m].next if after else self.path[m].prev)[s]
            if neighbour >= 0:
                yield s, m, row, neighbour, self.placed.rank_of(s, m) != self.placed.rank_of(neighbour, m)

    def end_at(self, start: int, end: int | None) -> int:
        """The row `end`, or where it is not listed the last row of the rank of `start`."""
        order = self.placed.order
        return order.start[order.rank[start] + 1] - 1 if end is None else end

    def find_last_read(self, s: int, m: int) -> int | None:
        """The last row that reads the payload given to s."""
        return (self.x if self.measure(s, m).keeps_payload else self.first[Kind.F])[s].get(m)

    def measure(self, s: int, m: int) -> StageBytes:
        images = self.placed.program.images[m]
        sort = (self.path[m].number, s, images)
        if sort not in self.sizes:
            self.sizes[sort] = _stage_bytes(self.placed.program, self.path[m], s, images)
        return self.sizes[sort]

    def find_intervals(self) -> Iterator[Interval]:
        """Raises Malformed if there are too many sizes."""
        program = self.placed.program
        sorts = {(path.number, images) for path, images in zip(self.path, program.images)}
        few = len(sorts) * len(program.layers) <= MAX_WORK
        require(few, "there are too many sizes of microbatches for the layers")
        held = (self.find_stash(), self.find_recomputation(), self.find_workspace())
        return chain(*held, self.find_handovers(), self.find_sent(), self.find_received())

    def find_stash(self) -> Iterator[Interval]:
        """Only if back(s, m): the part of trainable layers from F until W (or B), everything else until X."""
        for s, m, f in self.find_listed(self.first[Kind.F]):
            if self.path[m].back[s]:
                yield f, self.end_at(f, self.w[s].get(m)), self.measure(s, m).until_w
                yield f, self.end_at(f, self.x[s].get(m)), self.measure(s, m).until_x

    def find_recomputation(self) -> Iterator[Interval]:
        """Of recomputed layers, from X on instead of F: until W what is kept until W, else while X runs."""
        for s, m, _ in self.find_listed(self.first[Kind.F]):
            x, w = self.x[s].get(m), self.w[s].get(m)
            if x is not None and w is not None and self.path[m].back[s]:
                yield x, w, self.measure(s, m).recomputed_until_w
                yield x, x, self.measure(s, m).recomputed_until_x

    def find_handovers(self) -> Iterator[Interval]:
        """On one rank: an output from F(s, m) until F(next, m), its gradient from X(next, m) to X(s, m)."""
        for s, m, f, n, remote in self.find_with_neighbour(self.first[Kind.F], after=True):
            if not remote:
                yield f, self.end_at(f, self.find_last_read(n, m)), self.measure(s, m).output
        for n, m, x, s, remote in self.find_with_neighbour(self.x, after=False):
            if not remote and self.path[m].cross[n]:
                yield x, self.end_at(x, self.x[s].get(m)), self.measure(s, m).output

    def find_sent(self) -> Iterator[Interval]:
        """An output from F(s, m) until WAIT_F(s, m), an input's gradient from X(s, m) until WAIT_B(s, m)."""
        for s, m, f, _, remote in self.find_with_neighbour(self.first[Kind.F], after=True):
            if remote:
                yield f, self.end_at(f, self.first[Kind.WAIT_F][s].get(m)), self.measure(s, m).output
        for s, m, x, p, remote in self.find_with_neighbour(self.x, after=False):
            if remote and self.path[m].cross[s]:
                yield x, self.end_at(x, self.first[Kind.WAIT_B][s].get(m)), self.measure(p, m).output

    def find_received(self) -> Iterator[Interval]:
        """An input from RECV_F(s, m) until F(s, m), an output's gradient from RECV_B(s, m) until X(s, m)."""
        for s, m, row, p, remote in self.find_with_neighbour(self.first[Kind.RECV_F], after=False):
            if remote:
                yield row, self.end_at(row, self.find_last_read(s, m)), self.measure(p, m).output
        for s, m, row, n, remote in self.find_with_neighbour(self.first[Kind.RECV_B], after=True):
            if remote and self.path[m].cross[n]:
                yield row, self.end_at(row, self.x[s].get(m)), self.measure(s, m).output

    def find_workspace(self) -> Iterator[Interval]:
        """While a compute row runs."""
        for s, m, row in self.find_listed(*(self.first[kind] for kind in Kind.COMPUTE)):
            yield row, row, self.measure(s, m).workspace


def _stage_bytes(program: Program, path: Path, s: int, images: int) -> StageBytes:
    layers = [program.layers[layer] for layer in path.layers[s]]
    has_stash = list(accumulate((layer.trainable for layer in layers), or_, initial=path.cross[s]))[1:]
    stashes = [(x.recompute, *_layer_stash(x, images)) for x, has in zip(layers, has_stash) if has]
    marks = [layer.recompute for layer in layers]
    firsts = [i for i, (before, here) in enumerate(pairwise([False, *marks])) if here and not before]
    lasts = [i for i, (here, after) in enumerate(pairwise([*marks, False])) if here and not after]
    runs = [first for first, last in zip(firsts, lasts) if has_stash[last]]
    inputs = sum(_size(layers[first - 1].output, images) for first in runs if first > 0)
    return StageBytes(
        until_w=sum(w for recomputed, w, _ in stashes if not recomputed),
        until_x=sum(x for recomputed, _, x in stashes if not recomputed) + inputs,
        recomputed_until_w=sum(w for recomputed, w, _ in stashes if recomputed),
        recomputed_until_x=sum(x for recomputed, _, x in stashes if recomputed),
        keeps_payload=0 in runs,
        output=_size(layers[-1].output, images),
        workspace=max(_size(layer.workspace, images) for layer in layers),
    )


def _layer_stash(layer: Layer, images: int) -> tuple[int, int]:
    """What of a layer's activation is kept until W, and until X."""
    activation = _size(layer.activation, images)
    until_w = min(_size(layer.until_weight, images), activation) if layer.trainable else 0
    return until_w, activation - until_w


def _size(size: Size, images: int) -> int:
    return size[0] + size[1] * images
