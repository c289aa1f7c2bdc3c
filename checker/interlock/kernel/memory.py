"""Bytes along the rows (spec/memory.md)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from itertools import accumulate

from .footprint import BACK, CROSS
from .listing import gradient_row
from .wellformed import COMPUTE, MOST_WORK, PIPELINE, RECV_B, RECV_F, WAIT_B, WAIT_F, B, F, View, W, require


def overflows(v: View) -> Iterator[tuple[str, tuple[int, ...]]]:
    """IL501, R-MEM-1: peak(r) <= capacity(r). Asked where transfers are written."""
    if v.capacity is not None and not v.inserted:
        for r, (capacity, fixed, live) in enumerate(zip(v.capacity, static(v), live_bytes(v))):
            if capacity is not None and max(live, default=fixed) > capacity:
                yield "IL501", tuple(i for i, bytes_ in enumerate(live, v.start[r]) if bytes_ > capacity)


def peaks(v: View) -> list[int]:
    """The peak of every rank in bytes. The program carries `memory`, its transfers are written."""
    return [max(live, default=fixed) for fixed, live in zip(static(v), live_bytes(v))]


def in_flight(v: View) -> list[int]:
    """IL702: for each rank the largest number of (s, m) with back(s, m) whose F has run and whose X has not ended."""
    change = [0] * (v.N + v.P)                                       # row i of rank r at i + r
    for key, row in v.first[F].items():
        s, m = divmod(key, v.M)
        if v.flags[v.cls[m]][s] & BACK:
            r = v.rank[row]
            x = gradient_row(v, key)
            x = v.first[W].get(key) if x is None else x
            change[row + r] += 1
            change[max(v.start[r + 1] - 1 if x is None else x, row) + r + 1] -= 1
    return [max(accumulate(change[v.start[r] + r:v.start[r + 1] + r]), default=0) for r in range(v.P)]


def static(v: View) -> list[int]:
    """For each rank: weights of its stages, and of trainable layers also gradients and optimizer state, rounded up."""
    total, everywhere = [0] * v.P, 0
    for s, home in enumerate(v.home):
        size = 0
        for l in v.span[s]:
            weights = v.sizes[l][0]
            size += weights
            if v.trainable[l]:
                size += sum(-(-weights * above // below) for above, below in (v.gradient, v.optimizer))
        if home >= 0:
            total[home] += size
        else:
            everywhere += size
    return [t + everywhere for t in total]


def live_bytes(v: View) -> Iterator[list[int]]:
    """For each rank the bytes live while each of its rows runs."""
    change = [0] * (v.N + v.P)                                       # row i of rank r at i + r: a rank has one place past its end
    twin = {}                                                        # the first and the last row of an overlap
    for i in v.overlaps:
        twin[i] = twin[i + 1] = (i, i + 1)
    for start, end, size in _intervals(v):
        start, end = twin.get(start, (start, start))[0], twin.get(end, (end, end))[1]
        if start <= end:
            r = v.rank[start]
            change[start + r] += size
            change[end + r + 1] -= size
    for r, fixed in enumerate(static(v)):
        yield [fixed + x for x in accumulate(change[v.start[r] + r:v.start[r + 1] + r])]


def _sizes(v: View, c: int, s: int, images: int) -> tuple[int, int, int, int, int, int]:
    """Of stage s in a microbatch of class c: stash until W, stash until X, both again of recomputed layers, output, workspace."""
    until_w, until_x = [0, 0], [0, 0]                                # [kept from F, made anew by X]
    workspace = run = 0                                              # run: what would be kept for the recomputed layers that come now
    trainable = bool(v.flags[c][s] & CROSS)                          # a trainable layer at or before this one
    size = lambda pair: pair[0] + pair[1] * images
    layers = v.paths[c].layers[s]
    for before, l, after in zip([None, *layers], layers, [*layers[1:], None]):
        _, activation, until_weight, _, work = v.sizes[l]
        workspace = max(workspace, size(work))
        trainable = trainable or v.trainable[l]
        anew = v.recompute[l]
        if anew and before is not None and not v.recompute[before]:
            run = size(v.sizes[before][3])
        if trainable:
            part = min(size(until_weight), size(activation)) if v.trainable[l] else 0
            until_w[anew] += part
            until_x[anew] += size(activation) - part
        if anew and (after is None or not v.recompute[after]):       # the run ends: its input is kept if it has a stash
            until_x[0] += run * trainable
            run = 0
    return until_w[0], until_x[0], until_w[1], until_x[1], size(v.sizes[layers[-1]][3]), workspace


def _from_input(v: View, c: int, s: int) -> bool:
    """Whether stage s keeps its own input until X: its first layers are recomputed, and one of them has a stash."""
    trainable = bool(v.flags[c][s] & CROSS)
    for l in v.paths[c].layers[s]:
        if not v.recompute[l]:
            return False
        trainable = trainable or v.trainable[l]
        if trainable:
            return True
    return False


def _intervals(v: View) -> Iterator[tuple[int, int, int]]:
    """(first row, last row, bytes), rows inclusive, for all that is not static."""
    M = v.M
    require(len(set(zip(v.cls, v.images))) * len(v.trainable) <= MOST_WORK, "there are too many sizes of microbatches for the layers")
    sizes_of, keeps = cache(partial(_sizes, v)), cache(partial(_from_input, v))
    listed = {k: {} for k in (RECV_F, RECV_B, WAIT_F, WAIT_B)}
    for k, rows in listed.items():
        for i in v.rows[k]:
            rows.setdefault((v.rank[i], v.stage[i], v.mb[i]), i)
    f, w = v.first[F], v.first[W]
    def gradient(key):                                               # X(s, m); where it is not listed: W
        row = gradient_row(v, key)
        return w.get(key) if row is None else row
    for key in set().union(*(v.first[k] for k in COMPUTE), (v.stage[i] * M + v.mb[i] for i in v.peer_of if v.kind[i] in PIPELINE)):
        s, m = divmod(key, M)
        c, r = v.cls[m], v.rank_of(s, m)
        if not v.flags[c][s]:
            continue
        until_w, until_x, anew_w, anew_x, output, workspace = sizes_of(c, s, v.images[m])
        rank_end = v.start[r + 1] - 1
        ends = lambda *rows: next((row for row in rows if row is not None), rank_end)
        x, own_w = gradient_row(v, key), v.first[B].get(key, w.get(key))
        if key in f and v.flags[c][s] & BACK:                        # stash
            yield f[key], ends(own_w, x), until_w
            yield f[key], ends(x, own_w), until_x
            begins = x if x is not None else own_w
            if begins is not None:                                   # made anew
                yield begins, ends(own_w, x), anew_w
                yield begins, begins, anew_x
        n = v.next[c][s]
        if n >= 0:
            peer, after = v.rank_of(n, m), n * M + m
            crossing = v.flags[c][n] & CROSS
            if peer == r:
                if key in f:                                         # output, handed over
                    yield f[key], ends(gradient(after) if keeps(c, n) else f.get(after)), output
                if crossing and gradient(after) is not None:         # gradient, handed over
                    yield gradient(after), ends(gradient(key)), output
            else:
                if key in f:                                         # output, sent
                    yield f[key], ends(listed[WAIT_F].get((r, s, m))), output
                if (r, s, m) in listed[RECV_B] and crossing:         # gradient, received
                    yield listed[RECV_B][r, s, m], ends(gradient(key)), output
        p = v.prev[c][s]
        if p >= 0 and v.rank_of(p, m) != r:
            output = sizes_of(c, p, v.images[m])[4]
            if (r, s, m) in listed[RECV_F]:                          # output, received
                yield listed[RECV_F][r, s, m], ends(gradient(key) if keeps(c, s) else f.get(key)), output
            if v.flags[c][s] & CROSS and gradient(key) is not None:  # gradient, sent
                yield gradient(key), ends(listed[WAIT_B].get((r, s, m))), output
        for k in COMPUTE:                                            # workspace
            if key in v.first[k]:
                yield v.first[k][key], v.first[k][key], workspace
