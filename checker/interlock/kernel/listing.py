"""What is listed and takes part: first rows of operations, their dependencies (spec/dependency.md), matched transfers and
the members of collectives (spec/communication.md)."""

from __future__ import annotations

from collections.abc import Iterator

from .footprint import CROSS, trace
from .wellformed import (
    COLLECTIVE,
    COMPUTE,
    LOSS,
    PIPELINE,
    RECV_B,
    RECV_F,
    SEND,
    SEND_B,
    SEND_F,
    TRANSFER,
    B,
    F,
    I,
    View,
    W,
    read,
)


def view(plain) -> View:
    """The view with all that is derived from it. Raises Malformed.

    seen[kind]: (s, m) as s * M + m (out of range: the pair) -> first row; repeated: rows of operations seen before;
    first[kind]: the same as seen for the rows that take part, those in range and on rank(s, m); astray[kind]: the other rows.
    peer_of[row]: of the transfers that take part; no_peer: transfers where only the peer is at fault;
    edges[source, destination, comm] = (sends, receives); entered[comm][rank] = rows of the collectives its members list.
    """
    v = read(plain)
    trace(v)
    _operations(v)
    _transfers(v)
    v.entered = {}
    for i in sorted(i for k in COLLECTIVE for i in v.rows[k]):
        if v.rank[i] in v.members[v.comm[i]]:
            v.entered.setdefault(v.comm[i], {}).setdefault(v.rank[i], []).append(i)
    return v


def in_range(v: View, i: int) -> bool:
    return 0 <= v.stage[i] < v.S and 0 <= v.mb[i] < v.M


def at_home(v: View, i: int) -> bool:
    """The operation's stage and microbatch are in range and it is listed on rank(s, m)."""
    return in_range(v, i) and v.rank_of(v.stage[i], v.mb[i]) == v.rank[i]


def _operations(v: View) -> None:
    v.seen, v.repeated, v.astray = {}, [], {}
    astray = v.astray
    S, M, stage, mb, rank, home, owner = v.S, v.M, v.stage, v.mb, v.rank, v.home, v.owner
    for k in COMPUTE:
        v.seen[k] = seen = {}
        for i in v.rows[k]:
            s, m = stage[i], mb[i]
            if 0 <= s < S and 0 <= m < M:
                key = s * M + m
                if rank[i] != (home[s] if home[s] >= 0 else owner[s][m]):
                    astray.setdefault(k, set()).add(i)
            else:
                key = s, m
                astray.setdefault(k, set()).add(i)
            if key in seen:
                v.repeated.append(i)
            else:
                seen[key] = i
    v.first = dict(v.seen)
    for k, rows in astray.items():
        v.first[k] = first = {}
        for i in v.rows[k]:
            if i not in rows:
                first.setdefault(stage[i] * M + mb[i], i)


def gradient_row(v: View, key: int) -> int | None:
    """The row of X(s, m): I or B, whichever is listed."""
    return v.first[I].get(key, v.first[B].get(key))


def data(v: View) -> Iterator[tuple[int, int]]:
    """R-DEP-1 to R-DEP-4: (a, b) where row b waits for row a, between any ranks."""
    M = v.M
    f, b, i, w, loss = (v.first[k] for k in (F, B, I, W, LOSS))
    before = [[(p - s) * M if p >= 0 else None for s, p in enumerate(prev)] for prev in v.prev]    # key of the neighbour less the key
    after = [[(n - s) * M if n >= 0 else None for s, n in enumerate(next_)] for next_ in v.next]
    for key, row in f.items():                                       # R-DEP-1
        step = before[v.cls[key % M]][key // M]
        if step is not None and (a := f.get(key + step)) is not None:
            yield a, row
    for x in (b, i):
        for key, row in x.items():
            if (a := f.get(key)) is not None:                        # R-DEP-2
                yield a, row
            c, s = v.cls[key % M], key // M
            step = after[c][s]
            if step is not None:
                if v.flags[c][v.next[c][s]] & CROSS:                 # R-DEP-2
                    a = i.get(key + step)
                    if a is None:
                        a = b.get(key + step)
                    if a is not None:
                        yield a, row
            elif key in loss and v.next[c][s] == -1:                 # R-DEP-3
                yield loss[key], row
    for key, row in w.items():
        if key in f:                                                 # R-DEP-2
            yield f[key], row
        if key in i:                                                 # R-DEP-4
            yield i[key], row
    for key, row in loss.items():                                    # R-DEP-3
        if key in f and v.next[v.cls[key % M]][key // M] == -1:
            yield f[key], row


def _transfers(v: View) -> None:
    """Matching: a transfer takes part if it is well placed, its peer exists and is another rank."""
    v.peer_of, v.no_peer, v.edges = {}, [], {}
    for i in sorted(i for k in TRANSFER for i in v.rows[k]):
        peer = v.peer[i]
        if v.kind[i] in PIPELINE:
            other = (v.next if v.kind[i] in (SEND_F, RECV_B) else v.prev)[v.cls[v.mb[i]]][v.stage[i]] if at_home(v, i) else -2
            if other == -2:
                continue
            peer = v.rank_of(other, v.mb[i]) if other >= 0 else -1
        if peer == -1 or peer == v.rank[i]:
            v.no_peer.append(i)
            continue
        v.peer_of[i] = peer
        sends = v.kind[i] in (SEND_F, SEND_B, SEND)
        edge = (v.rank[i], peer, v.comm[i]) if sends else (peer, v.rank[i], v.comm[i])
        v.edges.setdefault(edge, ([], []))[not sends].append(i)


def payload(v: View, i: int) -> tuple:
    """The payload of a transfer that takes part: (F, s, m), (B, s, m) of its sender, or its name."""
    k, s, m = v.kind[i], v.stage[i], v.mb[i]
    if k not in PIPELINE:
        return (SEND, v.name[i])
    if k == RECV_F:
        s = v.prev[v.cls[m]][s]
    elif k == RECV_B:
        s = v.next[v.cls[m]][s]
    return (F if k in (SEND_F, RECV_F) else B, s, m)
