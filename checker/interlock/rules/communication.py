"""Matching, collectives, communicators, buffers: spec/communication.md. Deadlock (R-COM-3) is
rules/waits.py's and the engine's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cached_property

import numpy as np

from interlock.program.facts import IS_SEND, IS_TRANSFER, Facts, count_earlier
from interlock.program.ir import Kind
from interlock.rules.alike import MANY
from interlock.text.finding import Finding, Mark


class Transfers:
    """The transfers of a program that are well placed, and how the transport matches them (communication.md,
    Matching).

    `rows` ascending; by position in it: source, destination, edge (number of the (source, destination,
    communicator)), turn (the
    how-manieth of its direction on the edge), payload (an integer, equal iff the payloads are).
    """

    def __init__(self, facts: Facts):
        self.facts = facts
        kind, fp, p = facts.kind, facts.footprint, facts.program
        rows = np.flatnonzero(IS_TRANSFER[kind] & facts.placed)
        stage, mb, k = facts.stage[rows], facts.mb[rows], kind[rows]
        named = (k == Kind.SEND) | (k == Kind.RECV)
        ahead = (k == Kind.SEND_F) | (k == Kind.RECV_B)  # the other end is the next stage's
        safe = np.where(named, 0, stage)
        cls = facts.cls[rows]
        other = np.where(ahead, fp.next[cls, safe], fp.prev[cls, safe]) if facts.S else np.full(len(rows), -1)
        peer = facts.peer[rows].astype(np.int64)
        pipeline = np.flatnonzero(~named & (other >= 0))
        peer[pipeline] = facts.rank_at(other[pipeline], mb[pipeline])
        peer[~named & (other < 0)] = -1
        good = (peer >= 0) & (peer < p.ranks) & (peer != facts.rank[rows])
        self.stray = rows[~good]  # IL401: no peer
        self.stray_peer = peer[~good]
        self.other = np.full(facts.n, -1, dtype=np.int64)
        self.other[rows] = other
        rows, k, peer, stage, mb, other, named = (x[good] for x in (rows, k, peer, stage, mb, other, named))
        rank = facts.rank[rows].astype(np.int64)
        self.rows, self.is_send, self.peer = rows, IS_SEND[k], peer
        self.source = np.where(self.is_send, rank, peer)
        self.destination = np.where(self.is_send, peer, rank)
        comm = facts.comm[rows].astype(np.int64)
        key = (comm * p.ranks + self.source) * p.ranks + self.destination
        self.edges, self.edge = np.unique(key, return_inverse=True)
        self.turn = count_earlier(self.edge * 2 + self.is_send)
        # payload: (F, producer), (B, producer) or the name
        SM = max(facts.S * facts.M, 1)
        producer = np.where(np.isin(k, [int(Kind.SEND_F), int(Kind.SEND_B)]), stage, other)
        backward = (k == Kind.SEND_B) | (k == Kind.RECV_B)
        self.payload = np.where(named, 2 * SM + facts.name[rows], backward * SM + producer * facts.M + mb)

    @cached_property
    def counts(self) -> tuple[np.ndarray, np.ndarray]:
        """(sends, receives) of each edge."""
        n = len(self.edges)
        return np.bincount(self.edge[self.is_send], minlength=n), np.bincount(
            self.edge[~self.is_send], minlength=n
        )

    @cached_property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows of matched sends and receives, as positions in `rows`: the i-th send of an edge with its i-th
        receive.
        """
        sends, recvs = np.flatnonzero(self.is_send), np.flatnonzero(~self.is_send)
        wide = len(self.rows) + 1

        def key(at):
            return self.edge[at] * wide + self.turn[at]

        _, a, b = np.intersect1d(key(sends), key(recvs), assume_unique=True, return_indices=True)
        return sends[a], recvs[b]

    def end_points(self, edge: int) -> tuple[int, int]:
        p = self.facts.program
        key = int(self.edges[edge])
        return key // p.ranks % p.ranks, key % p.ranks


def check(facts: Facts, transfers: Transfers) -> Iterator[Finding]:
    """Every rule of the page that does not depend on the model, but R-COM-3."""
    alone = [*strays(facts, transfers), *required(facts, transfers)]
    yield from alone
    yield from pairing(facts, transfers, {m.row for f in alone for m in f.marks})
    yield from collectives(facts)
    yield from creation(facts)
    yield from members(facts, transfers)
    yield from buffers(facts)


def strays(facts: Facts, t: Transfers) -> Iterator[Finding]:
    """IL401: a transfer whose other end does not exist or is the rank itself."""
    p = facts.program
    for row, peer in list(zip(t.stray.tolist(), t.stray_peer.tolist()))[:MANY]:
        kind, s = Kind(int(facts.kind[row])), int(facts.stage[row])
        thing = "an activation" if kind in (Kind.SEND_F, Kind.RECV_F) else "a gradient"
        if kind in (Kind.SEND, Kind.RECV):
            why = (
                f"rank {facts.rank[row]} has no peer {facts.peer[row]}"
                if peer != facts.rank[row]
                else "a rank does not send to itself"
            )
        elif peer < 0:
            side = "before" if kind in (Kind.RECV_F, Kind.SEND_B) else "after"
            verb = "receives" if kind in (Kind.RECV_F, Kind.RECV_B) else "sends"
            way = "from" if verb == "receives" else "to"
            why = f"stage {s} {verb} {thing} {way} nowhere: there is no stage {side} it"
        else:
            why = f"the other end lies on the same rank {peer}: nothing is sent, the tensor is handed over"
        yield Finding(
            "IL401", "R-COM-1", f"{p.show(row)}: {why}", (Mark(row, "no such transfer"),), "leave it out"
        )


def required(facts: Facts, t: Transfers) -> Iterator[Finding]:
    """IL401: each dependency between ranks is carried by one transfer, and there is no other pipeline
    transfer.
    """
    p, fp, M = facts.program, facts.footprint, facts.M
    if p.fragment or not facts.S or not M:
        return
    on_path, nxt = (x[fp.of].T.reshape(-1) for x in (fp.on_path, fp.next))
    keys = np.flatnonzero(on_path & (nxt >= 0))
    stage, mb, after = keys // M, keys % M, nxt[keys]
    here, there = facts.rank_at(stage, mb), facts.rank_at(after, mb)
    away = here != there
    stage, mb, after, here, there = (x[away] for x in (stage, mb, after, here, there))
    cross = fp.cross[fp.of[mb], after]
    crossed = _crossed_pairs(t)  # there IL403 says it better
    for kind, s, own, other, ask in (
        (Kind.SEND_F, stage, here, there, slice(None)),
        (Kind.RECV_F, after, there, here, slice(None)),
        (Kind.SEND_B, after, there, here, cross),
        (Kind.RECV_B, stage, here, there, cross),
    ):
        rows = np.flatnonzero((facts.kind == kind) & facts.placed)
        key = facts.stage[rows] * M + facts.mb[rows]
        count = np.bincount(key, minlength=facts.S * M)
        columns = [x[ask] for x in (s, mb, stage, after, own, other)]
        lacking = np.flatnonzero(count[columns[0] * M + columns[1]] == 0)
        said = 0
        for i in lacking.tolist():
            s_, m, left, right, rank, peer = (int(x[i]) for x in columns)
            if (min(rank, peer), max(rank, peer)) not in crossed and said < MANY:
                said += 1
                yield _lacking(facts, kind, s_, m, left, right, rank, peer)
        again = rows[count[key] > 1]
        for row in again[count_earlier(facts.stage[again] * M + facts.mb[again]) > 0][:MANY].tolist():
            if tuple(sorted((int(facts.rank[row]), _peer(t, row)))) not in crossed:
                first = int(
                    rows[(facts.stage[rows] == facts.stage[row]) & (facts.mb[rows] == facts.mb[row])][0]
                )
                lone = "a send without its receive" if IS_SEND[kind] else "a receive without its send"
                yield Finding(
                    "IL401",
                    "R-COM-1",
                    f"{p.show(row)} is listed twice: {lone}",
                    (Mark(row, "a second time"), Mark(first, "first here")),
                    "delete one of the two",
                )


def _peer(t: Transfers, row: int) -> int:
    at = np.searchsorted(t.rows, row)
    return int(t.peer[at]) if at < len(t.rows) and t.rows[at] == row else -1


def _crossed_pairs(t: Transfers) -> set[tuple[int, int]]:
    """Pairs of ranks between which the counts agree but payloads do not: IL403 is reported there."""
    sends, recvs = t.counts
    a, b = t.pairs
    crossed = np.unique(t.edge[a[t.payload[a] != t.payload[b]]])
    out = set()
    for e in crossed.tolist():
        if sends[e] == recvs[e]:
            out.add(tuple(sorted(t.end_points(e))))
    return out


def _lacking(facts, kind, s, m, left, right, rank, peer) -> Finding:
    carried = {
        Kind.SEND_F: f"the output of {left}F{m}",
        Kind.RECV_F: f"the input of {right}F{m}",
        Kind.SEND_B: f"the gradient of {right} for microbatch {m}",
        Kind.RECV_B: f"the gradient for {left} of microbatch {m}",
    }[kind]
    other = {
        Kind.SEND_F: (Kind.RECV_F, right),
        Kind.RECV_F: (Kind.SEND_F, left),
        Kind.SEND_B: (Kind.RECV_B, left),
        Kind.RECV_B: (Kind.SEND_B, right),
    }[kind]
    row = np.flatnonzero((facts.kind == other[0]) & (facts.stage == other[1]) & (facts.mb == m))
    marks = tuple(Mark(int(r), "its other end") for r in row[:1])
    if not marks:
        user = facts.first_F[(right if kind in (Kind.SEND_F, Kind.RECV_F) else left) * facts.M + m]
        marks = (Mark(int(user), "nothing carries what this stage needs"),) if user >= 0 else ()
    what = "a receive without its send" if IS_SEND[kind] else "a send without its receive"
    head = f"{s}{kind.name}{m} is missing on rank {rank}"
    text = (
        f"{head}: {what}"
        if len(row)
        else f"{head}: stages {left} and {right} are on ranks {rank} and {peer} and nothing carries {carried}"
    )
    return Finding("IL401", "R-COM-1", text, marks, f"add {s}{kind.name}{m} to rank {rank}", rank=rank)


def pairing(facts: Facts, t: Transfers, told: set[int]) -> Iterator[Finding]:
    """IL401 (counts of an edge differ) and IL403, R-COM-2 (matched by order, other payload). `told`: rows
    whose lone end is known.
    """
    p = facts.program
    sends, recvs = t.counts
    said = 0
    for e in np.flatnonzero(sends != recvs).tolist():
        source, destination = t.end_points(e)
        surplus_is_send = sends[e] > recvs[e]
        mine = np.flatnonzero((t.edge == e) & (t.is_send == surplus_is_send))
        theirs = Counter(t.payload[(t.edge == e) & (t.is_send != surplus_is_send)].tolist())
        extra = []
        for at in mine.tolist():
            if theirs[int(t.payload[at])] > 0:
                theirs[int(t.payload[at])] -= 1
            else:
                extra.append(int(t.rows[at]))
        row = extra[0] if extra else int(t.rows[mine[-1]])
        if row in told:
            continue
        have, lack, verb = (
            ("send", "receive", "sends") if surplus_is_send else ("receive", "send", "waits for")
        )
        gradient = (
            ": only a payload with a gradient has one to send back"
            if not surplus_is_send and p.names and facts.kind[row] == Kind.RECV
            else ""
        )
        fix = (
            f"drop this {have}: no gradient crosses this boundary"
            if _excluded(facts, row)
            else (f"add the {lack} to rank {destination if surplus_is_send else source}, or drop this {have}")
        )
        many = int(max(sends[e], recvs[e]))
        yield Finding(
            "IL401",
            "R-COM-1",
            f"{p.show(row)} is a {have} without its {lack}: rank {facts.rank[row]} {verb} "
            f"{many} transfer{'s' * (many > 1)} {'to' if surplus_is_send else 'from'} rank "
            f"{destination if surplus_is_send else source}, which "
            f"{'receives' if surplus_is_send else 'sends'} {min(sends[e], recvs[e])}{gradient}",
            (Mark(row, f"a {have} without its {lack}"),),
            fix,
        )
        said += 1
        if said == MANY:
            break
    a, b = t.pairs
    wrong = np.flatnonzero((t.payload[a] != t.payload[b]) & (sends[t.edge[a]] == recvs[t.edge[a]]))
    by_row = wrong[np.argsort(t.rows[a[wrong]], kind="stable")]
    seen: Counter = Counter()
    for i in by_row.tolist():
        e = int(t.edge[a[i]])
        seen[e] += 1
        if seen[e] == 1 and len(seen) <= MANY:
            yield _crossed(facts, t, e, int(a[i]), int(b[i]), int((t.edge[a[wrong]] == e).sum()))


def _excluded(facts: Facts, row: int) -> bool:
    """Whether a transfer carries a gradient that the footprint excludes (IL602)."""
    if facts.program.fragment or facts.kind[row] not in (Kind.SEND_B, Kind.RECV_B):
        return False
    table = facts.footprint.cross if facts.kind[row] == Kind.SEND_B else facts.footprint.back
    return not table[facts.cls[row], facts.stage[row]]


def _crossed(facts: Facts, t: Transfers, e: int, a: int, b: int, many: int) -> Finding:
    p = facts.program
    send, recv = int(t.rows[a]), int(t.rows[b])
    source, destination = t.end_points(e)
    on_edge = t.edge == e
    sent, asked = (
        Counter(t.payload[on_edge & t.is_send].tolist()),
        Counter(t.payload[on_edge & ~t.is_send].tolist()),
    )
    kinds = {int(facts.kind[send]), int(facts.kind[recv])}
    gradient = kinds == {int(Kind.SEND_F), int(Kind.RECV_B)} or kinds == {int(Kind.SEND_B), int(Kind.RECV_F)}
    if sent == asked:
        how = (
            "an activation and a gradient are exchanged"
            if gradient
            else "they are exchanged on a channel without tags"
        )
    else:
        often = next((x for x, c in sent.items() if c > asked[x]), None)
        never = next((x for x, c in asked.items() if c > sent[x]), None)

        def first(x, mask):
            return int(t.rows[np.flatnonzero(on_edge & mask & (t.payload == x))[0]])

        how = (
            f"{p.show(first(often, t.is_send))} is sent {sent[often]} times where {asked[often]} "
            f"{'is' if asked[often] == 1 else 'are'} asked, "
            f"what {p.show(first(never, ~t.is_send))} asks for is "
            f"{'never sent' if sent[never] == 0 else 'sent too seldom'}"
        )
    fix = "send and receive in one order"
    if gradient or p.ranks == 2 and sent == asked:
        same = (
            "with two ranks the previous and the next peer are the same"
            if p.ranks == 2
            else "these ranks are both previous and next to each other"
        )
        fix += (
            f"; {same}, so that activations and gradients share one channel unless one of them gets its "
            "own communicator"
        )
    return Finding(
        "IL403",
        "R-COM-2",
        f"wrong data: {p.show(send)} on rank {source} is received by {p.show(recv)} on rank {destination}, "
        f"and nothing stops: {how}"
        + (f" ({many} transfers of this channel are crossed)" if many > 1 else ""),
        (
            Mark(send, f"number {t.turn[a] + 1} that rank {source} sends to rank {destination}"),
            Mark(recv, f"number {t.turn[b] + 1} that rank {destination} receives from rank {source}"),
        ),
        fix,
    )


def collectives(facts: Facts) -> Iterator[Finding]:
    """IL404, R-COM-4: members of a communicator list the same collectives in the same order."""
    p = facts.program
    rows = np.flatnonzero(facts.is_collective)
    comm_of = facts.comm[rows]
    for c in np.unique(comm_of).tolist():
        mine = rows[comm_of == c]
        lists = {r: facts.on_rank(mine, r).tolist() for r in p.communicators[c].ranks if r < p.ranks}

        def sign(row):
            return (int(facts.kind[row]), int(facts.stage[row]), int(facts.name[row]))

        longest = max(lists, key=lambda r: (len(lists[r]), -r))
        for r, theirs in lists.items():
            ours = lists[longest]
            k = next(
                (i for i, (x, y) in enumerate(zip(ours, theirs)) if sign(x) != sign(y)),
                min(len(ours), len(theirs)),
            )
            if k == len(ours) == len(theirs):
                continue
            name = p.communicators[c].name
            if k == len(theirs):
                yield Finding(
                    "IL404",
                    "R-COM-4",
                    f"rank {r} never enters {p.show(ours[k])}: {len(lists)} members of communicator {name} "
                    "are needed, "
                    f"{sum(len(x) > k for x in lists.values())} come" + _frozen_rank(facts, r),
                    (Mark(ours[k], f"rank {longest} waits here for rank {r}"),),
                    f"let rank {r} take part, also if it has nothing to add",
                    rank=r,
                )
            else:
                meets = f"{p.show(ours[k])} on rank {longest} meets {p.show(theirs[k])} on rank {r}"
                skipped = next(
                    (
                        (who, row)
                        for who, row, rows_ in ((r, ours[k], theirs), (longest, theirs[k], ours))
                        if sign(row) not in {sign(x) for x in rows_}
                    ),
                    None,
                )
                what = (
                    f"rank {skipped[0]} skips {p.show(skipped[1])}, and the rest pair with the wrong one"
                    if skipped
                    else f"members of communicator {name} issue its collectives in different orders"
                )
                fix = (
                    f"let rank {skipped[0]} take part, also if it has nothing to add (no image in its "
                    "samples, no such layer)"
                    if skipped
                    else "issue the same collectives in the same order on every member"
                )
                yield Finding(
                    "IL404",
                    "R-COM-4",
                    f"{what}: {meets}",
                    (
                        Mark(ours[k], f"number {k + 1} on rank {longest}"),
                        Mark(theirs[k], f"number {k + 1} on rank {r}"),
                    ),
                    fix,
                    rank=r,
                )
            break


def _frozen_rank(facts: Facts, rank: int) -> str:
    p = facts.program
    mine = [s for s, stage in enumerate(p.stages) if stage.replicated or stage.rank == rank]
    return (
        f"; rank {rank} owns nothing trainable, but the communicator spans it"
        if mine and not any(facts.footprint.reduce[s] for s in mine)
        else ""
    )


def creation(facts: Facts) -> Iterator[Finding]:
    """IL405, R-COM-5: the ranks' orders of communicator creation have no cycle."""
    p = facts.program
    rows = np.flatnonzero(facts.kind == Kind.INIT)
    after: dict[int, dict[int, tuple[int, int]]] = {}
    for r in range(p.ranks):
        mine = facts.on_rank(rows, r).tolist()
        for a, b in zip(mine, mine[1:]):
            after.setdefault(int(facts.comm[a]), {}).setdefault(int(facts.comm[b]), (a, b))
    cycle = _shortest_cycle(after)
    if cycle:
        steps = [after[c][d] for c, d in zip(cycle, cycle[1:] + cycle[:1])]
        names = ", ".join(p.communicators[c].name for c in cycle)
        yield Finding(
            "IL405",
            "R-COM-5",
            f"the ranks' orders of creation form a cycle: {names}, although every two ranks may agree",
            tuple(
                Mark(
                    b,
                    f"rank {facts.rank[b]} creates {p.communicators[facts.comm[b]].name} only after "
                    f"{p.communicators[facts.comm[a]].name}",
                )
                for a, b in steps
            ),
            "create the communicators eagerly, in one order on every rank",
        )


def _shortest_cycle(after: dict[int, dict]) -> list[int]:
    best: list[int] = []
    for start in sorted(after):
        back, queue = {start: None}, [start]
        for node in queue:
            if best and len(queue) > 10_000:
                break
            for nxt in after.get(node, ()):
                if nxt == start:
                    walk = [node]
                    while back[walk[-1]] is not None:
                        walk.append(back[walk[-1]])
                    if not best or len(walk) < len(best):
                        best = walk[::-1]
                    queue.clear()
                    break
                if nxt not in back:
                    back[nxt] = node
                    queue.append(nxt)
    return best


def members(facts: Facts, t: Transfers) -> Iterator[Finding]:
    """IL406, R-COM-6: only members use a communicator."""
    p = facts.program
    used = np.unique(facts.comm[facts.is_unit])
    for c in used[used > 0].tolist():
        inside = np.zeros(p.ranks, dtype=bool)
        inside[[r for r in p.communicators[c].ranks if r < p.ranks]] = True
        rows = np.flatnonzero(facts.is_unit & (facts.comm == c) & ~inside[facts.rank])
        at = np.flatnonzero((facts.comm[t.rows] == c) & ~inside[t.peer] & inside[facts.rank[t.rows]])
        for row, who in [(r, int(facts.rank[r])) for r in rows[:MANY].tolist()] + [
            (int(t.rows[i]), int(t.peer[i])) for i in at[:MANY]
        ]:
            yield Finding(
                "IL406",
                "R-COM-6",
                f"{p.show(row)}: rank {who} is no member of communicator {p.communicators[c].name}",
                (Mark(row, f"rank {who} is not in it"),),
                f"add rank {who} to the communicator, or use another",
            )


def buffers(facts: Facts) -> Iterator[Finding]:
    """IL407, R-COM-7: a buffer is not reused or freed before its transfer was waited for."""
    p = facts.program
    rows = np.flatnonzero(
        np.isin(facts.kind, [int(k) for k in (Kind.SEND, Kind.RECV, Kind.WAIT, Kind.FREE)])
    ).tolist()
    pending: dict[tuple[int, int], list[int]] = {}  # (rank, name) -> transfers not yet waited for
    for row in rows:
        key, kind = (int(facts.rank[row]), int(facts.name[row])), facts.kind[row]
        open_ = pending.setdefault(key, [])
        name = p.names[key[1]]
        if kind == Kind.WAIT:
            open_.clear()
            continue
        if kind == Kind.FREE:
            clash = open_[-1:]
        else:
            other = [x for x in open_ if facts.launch[x] < 0 or facts.launch[x] != facts.launch[row]]
            clash = (other if kind == Kind.RECV else [x for x in other if facts.kind[x] == Kind.RECV])[-1:]
            open_.append(row)
        for before in clash:
            what = "freed" if kind == Kind.FREE else "received into" if kind == Kind.RECV else "sent"
            yield Finding(
                "IL407",
                "R-COM-7",
                f"buffer {name} is {what} on rank {key[0]} before anything waits for {p.show(before)}",
                (Mark(row, f"{what} here"), Mark(before, "still under way")),
                f"add wait({name}) before it",
            )


def grouped_alike(facts: Facts, t: Transfers, model: str) -> Iterator[Finding]:
    """IL408, R-COM-8: under `pair`, both ends of a transfer are grouped or neither."""
    if model != "pair":
        return
    a, b = t.pairs
    grouped = facts.launch[t.rows] >= 0
    for i in np.flatnonzero(grouped[a] != grouped[b])[:MANY].tolist():
        send, recv = int(t.rows[a[i]]), int(t.rows[b[i]])
        p = facts.program
        yield Finding(
            "IL408",
            "R-COM-8",
            f"{p.show(send)} and {p.show(recv)} are the two ends of one transfer, one end grouped, the "
            "other not: "
            "with lazily initialised NCCL they go through different communicators",
            (
                Mark(send, "grouped" if grouped[a[i]] else "not grouped"),
                Mark(recv, "grouped" if grouped[b[i]] else "not grouped"),
            ),
            "group both ends, or neither",
        )
