"""Bytes and stashes along each rank's program order: spec/memory.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import numpy as np

from interlock.program.facts import IS_COMPUTE, Facts
from interlock.program.ir import Kind
from interlock.text.finding import Finding, Mark, Severity

MOMENT = ", while "  # what follows it in a message says what is live
STATIC = ("weights", "gradients", "optimizer state")
PARTS = ("stash", "stash until W", "output", "gradient")


@dataclass(frozen=True)
class Intervals:
    """What is live: bytes from row `start` to row `end`, both included. `part` is a number of PARTS; `row` the operation it belongs to."""

    start: np.ndarray
    end: np.ndarray
    size: np.ndarray
    part: np.ndarray
    row: np.ndarray


class Usage:
    """Live bytes of every row of a program with written transfers, static bytes of every rank."""

    def __init__(self, facts: Facts):
        if facts.program.inserted:
            raise ValueError("memory is counted on written transfers: insert them first")
        self.facts = facts

    @cached_property
    def static(self) -> list[int]:
        """Weights, gradients and optimizer state a rank holds, in bytes."""
        return [sum(parts) for parts in self.static_parts]

    @cached_property
    def static_parts(self) -> list[tuple[int, ...]]:
        """For each rank the bytes of each of STATIC."""
        p = self.facts.program
        memory = p.memory
        per = lambda ratio, weights: -(-weights * ratio[0] // ratio[1])
        out = np.zeros((p.ranks, len(STATIC)), dtype=object)
        for stage in p.stages:
            for layer in p.layers[stage.first : stage.last]:
                state = (
                    [per(ratio, layer.weights) for ratio in (memory.gradient, memory.optimizer)]
                    if layer.trainable and memory is not None
                    else [0, 0]
                )
                out[slice(None) if stage.replicated else stage.rank] += np.array(
                    [layer.weights, *state], dtype=object
                )
        return [tuple(parts) for parts in out.tolist()]

    @cached_property
    def _tables(self):
        """For each (class, images) that occurs, by stage: stash, stash until W, output, workspace bytes, and what X makes anew of the first two;
        each microbatch's row."""
        f, p = self.facts, self.facts.program
        fp = f.footprint
        images = np.asarray(p.images, dtype=object)
        kinds = sorted({(int(c), int(i)) for c, i in zip(fp.of, images)})
        of = {k: n for n, k in enumerate(kinds)}
        tables = np.zeros((6, max(len(kinds), 1), max(f.S, 1)), dtype=object)
        for n, (c, i) in enumerate(kinds):
            at = lambda size: size.fixed + size.per_image * i
            for s, stage in enumerate(p.stages):
                layers = [l for l in range(stage.first, stage.last) if fp.present[c, l]]
                if not layers:
                    continue
                kept = [p.layers[l] for l in layers if fp.stashes[c, l]]
                for anew, (x, w) in ((False, (0, 1)), (True, (4, 5))):
                    mine = [l for l in kept if l.recompute == anew]
                    tables[w, n, s] = sum(
                        min(at(l.until_weight), at(l.activation)) for l in mine if l.trainable
                    )
                    tables[x, n, s] = sum(at(l.activation) for l in mine) - tables[w, n, s]
                tables[0, n, s] += sum(
                    at(p.layers[before].output)
                    for before in self._inputs_kept(c, layers)
                    if before is not None
                )
                tables[2, n, s] = at(p.layers[layers[-1]].output)
                tables[3, n, s] = max(at(p.layers[l].workspace) for l in layers)
        row = np.array([of[(int(c), int(i))] for c, i in zip(fp.of, images)], dtype=np.int64)
        largest = max((int(x) for x in tables.reshape(-1)), default=0)
        if largest * 8 * (f.n + 1) < 1 << 62:
            tables = tables.astype(np.int64)  # exact integers either way
        return tables, row

    def _inputs_kept(self, c: int, layers: list[int]) -> list[int | None]:
        """For each run of recomputed layers that has a stash, among the present layers of a stage: the layer before it in the stage, or None."""
        p, fp = self.facts.program, self.facts.footprint
        out, start = [], 0
        for again, run in groupby(layers, key=lambda l: p.layers[l].recompute):
            run = list(run)
            if again and fp.stashes[c, run[-1]]:
                out.append(layers[start - 1] if start else None)
            start += len(run)
        return out

    @cached_property
    def _keeps_input(self) -> np.ndarray:
        """[class, stage]: whether the stage keeps the payload it is given until X, since its first layers are recomputed."""
        f, p = self.facts, self.facts.program
        keeps = np.zeros(f.footprint.on_path.shape, dtype=bool)
        for s, stage in enumerate(p.stages):
            if any(l.recompute for l in p.layers[stage.first : stage.last]):
                for c in range(len(keeps)):
                    keeps[c, s] = None in self._inputs_kept(
                        c, [l for l in range(stage.first, stage.last) if f.footprint.present[c, l]]
                    )
        return keeps

    @cached_property
    def intervals(self) -> Intervals:
        f, fp, M = self.facts, self.facts.footprint, self.facts.M
        p = f.program
        tables, kind_of = self._tables
        last_row = p.order.start[1:] - 1
        tail = f.overlap_head.copy()  # the last row of each row's overlap
        tail[:] = np.arange(f.n)
        halves = np.flatnonzero(f.overlap_head != np.arange(f.n))
        tail[halves - 1] = halves
        parts: list[tuple] = []

        def add(start, end, size, part, rows):
            hit = size != 0
            parts.append((f.overlap_head[start][hit], end[hit], size[hit], part, rows[hit]))

        def end_of(table, key, rows, otherwise=None):
            """Row where `table` says it ends, on the rank of `rows`; else `otherwise`, else the rank's last row."""
            at = table[key]
            at = np.where((at >= 0) & (f.rank[at] == f.rank[rows]), at, -1)
            if otherwise is not None:
                at = np.where(at < 0, otherwise, at)
            return np.where(at < 0, last_row[f.rank[rows]], tail[at])

        if f.S and M and f.n:
            X = np.where(f.first_X >= 0, f.first_X, f.first_W)
            W = np.where(f.first_W >= 0, f.first_W, f.first_X)
            rows = f.first_F[f.first_F >= 0]
            key, cls, s, m = f.stage[rows] * M + f.mb[rows], f.cls[rows], f.stage[rows], f.mb[rows]
            back = fp.back[cls, s]
            held = lambda part: np.where(back, tables[part, kind_of[m], s], 0)
            add(rows, end_of(X, key, rows), held(0), 0, rows)
            add(rows, end_of(W, key, rows), held(1), 1, rows)
            begins = np.where(X[key] >= 0, X[key], W[key])
            made = (begins >= 0) & (f.rank[begins] == f.rank[rows])
            anew = lambda part: np.where(made, held(part), 0)
            add(np.where(made, begins, rows), np.where(made, tail[begins], rows), anew(4), 0, rows)
            add(np.where(made, begins, rows), end_of(W, key, rows), anew(5), 1, rows)
            nxt = fp.next[cls, s]
            has = nxt >= 0
            rows, s, m, nxt, cls = (x[has] for x in (rows, s, m, nxt, cls))
            away = f.rank_at(nxt, m) != f.rank[rows]
            size = tables[2, kind_of[m], s]
            waited = f.first(Kind.WAIT_F)[s * M + m]
            here = np.where(
                self._keeps_input[cls, nxt],
                end_of(X, nxt * M + m, rows),
                end_of(f.first_F, nxt * M + m, rows),
            )
            add(
                rows,
                np.where(away, np.where(waited >= 0, waited, last_row[f.rank[rows]]), here),
                size,
                2,
                rows,
            )
            rows = X[X >= 0]  # gradients: made by X(n, m) for the stage before
            s, m, cls = f.stage[rows], f.mb[rows], f.cls[rows]
            before = fp.prev[cls, s]
            has = (before >= 0) & fp.cross[cls, s]
            rows, s, m, before = (x[has] for x in (rows, s, m, before))
            away = f.rank_at(before, m) != f.rank[rows]
            size = tables[2, kind_of[m], before]
            waited = f.first(Kind.WAIT_B)[s * M + m]
            here = end_of(X, before * M + m, rows)
            add(
                rows,
                np.where(away, np.where(waited >= 0, waited, last_row[f.rank[rows]]), here),
                size,
                3,
                rows,
            )
            for kind, part, user in ((Kind.RECV_F, 2, f.first_F), (Kind.RECV_B, 3, X)):
                rows = np.flatnonzero((f.kind == kind) & f.placed)
                s, m, cls = f.stage[rows], f.mb[rows], f.cls[rows]
                maker = fp.prev[cls, s] if kind == Kind.RECV_F else s
                rows, s, m, cls, maker = (x[maker >= 0] for x in (rows, s, m, cls, maker))
                end = end_of(user, s * M + m, rows)
                if kind == Kind.RECV_F:
                    end = np.where(self._keeps_input[cls, s], end_of(X, s * M + m, rows), end)
                add(rows, end, tables[2, kind_of[m], maker], part, rows)
        if not parts:
            empty = np.empty(0, dtype=np.int64)
            return Intervals(empty, empty, empty, empty, empty)
        columns = [np.concatenate([x[i] for x in parts]) for i in (0, 1, 2, 4)]
        part = np.concatenate([np.full(len(x[0]), x[3]) for x in parts])
        return Intervals(columns[0], columns[1], columns[2], part, columns[3])

    @cached_property
    def live(self) -> np.ndarray:
        """Dynamic bytes while each row runs, workspace included."""
        f, i = self.facts, self.intervals
        tables, kind_of = self._tables
        change = np.zeros(f.n + 1, dtype=tables.dtype)
        np.add.at(change, i.start, i.size)
        np.subtract.at(change, i.end + 1, i.size)
        live = np.cumsum(change)[: f.n]
        rows = np.flatnonzero(IS_COMPUTE[f.kind] & f.placed)
        space = np.zeros(f.n, dtype=tables.dtype)
        space[rows] = tables[3, kind_of[f.mb[rows]], f.stage[rows]]
        halves = np.flatnonzero(f.overlap_head != np.arange(f.n))
        both = space[halves - 1] + space[halves]  # the halves of an overlap are live together
        space[halves - 1], space[halves] = both, both
        return live + space

    @cached_property
    def peaks(self) -> list[int]:
        """Largest static + live bytes of each rank."""
        start = self.facts.program.order.start
        return [
            self.static[r] + (int(self.live[a:b].max()) if b > a else 0)
            for r, (a, b) in enumerate(zip(start[:-1], start[1:]))
        ]

    def peak_row(self, rank: int) -> int:
        a, b = self.facts.program.order.start[rank : rank + 2]
        return int(a + np.argmax(self.live[a:b])) if b > a else -1

    def held_at(self, row: int) -> list[tuple[str, int, int, int]]:
        """What is live at a row: (part, how many, bytes, first operation), largest first."""
        i = self.intervals
        hit = (i.start <= row) & (row <= i.end)
        hit &= self.facts.rank[i.start] == self.facts.rank[row]
        out = []
        for part, name in enumerate(PARTS):
            mine = np.flatnonzero(hit & (i.part == part))
            if len(mine):
                out.append((name, len(mine), int(i.size[mine].sum()), int(i.row[mine].min())))
        return sorted(out, key=lambda x: -x[2])


def in_flight(facts: Facts, until: str = "X") -> list[int]:
    """For each rank the largest number of live stashes: F has run and X (or W: `until`) has not ended (spec/memory.md, IL701)."""
    live = stash_counts(facts, until)
    start = facts.program.order.start
    return [int(live[a:b].max()) if b > a else 0 for a, b in zip(start[:-1], start[1:])]


def stash_counts(facts: Facts, until: str, stage: int | None = None) -> np.ndarray:
    """Live stashes while each row runs; of one stage if given."""
    f, fp, M = facts, facts.footprint, facts.M
    if not f.S or not M or not f.n:
        return np.zeros(f.n, dtype=np.int64)
    last_row = f.program.order.start[1:] - 1
    table = (
        np.where(f.first_X >= 0, f.first_X, f.first_W)
        if until == "X"
        else np.where(f.first_W >= 0, f.first_W, f.first_X)
    )
    first = f.first_F if stage is None else f.first_F[stage * M : (stage + 1) * M]
    rows = first[first >= 0]
    rows = rows[fp.back[f.cls[rows], f.stage[rows]]]
    end = table[f.stage[rows] * M + f.mb[rows]]
    end = np.where((end >= 0) & (f.rank[end] == f.rank[rows]), end, last_row[f.rank[rows]])
    change = np.zeros(f.n + 1, dtype=np.int64)
    np.add.at(change, rows, 1)
    np.subtract.at(change, np.maximum(end, rows) + 1, 1)
    return np.cumsum(change)[: f.n]


def capacity(usage: Usage) -> Iterator[Finding]:
    """IL501, R-MEM-1: the peak of every rank fits."""
    memory = usage.facts.program.memory
    if memory is not None:
        yield from over(usage, memory.capacity, "IL501", "R-MEM-1", "its capacity")


def over(usage: Usage, limits: Sequence[int | None], code: str, rule: str, what: str) -> Iterator[Finding]:
    """Peaks above their limits. The rank with most bytes too many is told in full: the moment, what is live, the excess; of the others the excess."""
    excess = {
        r: usage.peaks[r] - limit
        for r, limit in enumerate(limits)
        if limit is not None and usage.peaks[r] > limit
    }
    if excess:
        worst = max(excess, key=lambda r: (excess[r], -r))
        yield _over(
            usage, worst, limits[worst], {r: n for r, n in excess.items() if r != worst}, code, rule, what
        )


def _over(
    usage: Usage, r: int, limit: int, others: dict[int, int], code: str, rule: str, what: str
) -> Finding:
    p, row = usage.facts.program, usage.peak_row(r)
    held = usage.held_at(row) if row >= 0 else []
    text = ", ".join(f"{count} x {name} {show_bytes(size)}" for name, count, size, _ in held)
    marks = ((Mark(row, f"peak of rank {r}: {show_bytes(usage.peaks[r])}"),) if row >= 0 else ()) + tuple(
        Mark(first, f"the oldest {name} still live") for name, _, _, first in held[:1] if first != row
    )
    message = (
        f"rank {r} needs {show_bytes(usage.peaks[r])}, {show_bytes(usage.peaks[r] - limit)} more than {what} ({show_bytes(limit)})"
        + (", as " + _also(others) if others else "")
        + (
            f"{MOMENT}{p.show(row)} runs: static {show_bytes(usage.static[r])}"
            + (", " + text if text else "")
            if row >= 0
            else ""
        )
    )
    return Finding(
        code,
        rule,
        message,
        marks,
        "fewer microbatches in flight, a smaller stage on this rank, or more capacity; the fullest rank counts, not the mean",
        rank=r,
        data={
            "peak": usage.peaks[r],
            "limit": limit,
            "static": usage.static[r],
            "excess": usage.peaks[r] - limit,
            "others": {str(q): n for q, n in others.items()},
            "live": [{"part": n, "count": c, "bytes": b} for n, c, b, _ in held],
        },
    )


def _also(others: dict[int, int]) -> str:
    shown = [f"rank {r} ({show_bytes(n)} too many)" for r, n in list(others.items())[:4]]
    return (
        ", ".join(shown)
        + (f" and {len(others) - 4} more" if len(others) > 4 else "")
        + (" does" if len(others) == 1 else " do")
    )


def weight_stash_note(facts: Facts) -> Iterator[Finding]:
    """IL502, R-MEM-2, for an explicit order: a stage whose W stash of every microbatch is held at once (a note)."""
    weight = np.flatnonzero((facts.kind == Kind.W) & facts.placed)
    if facts.M < 3 or not len(weight):
        return
    for s in np.unique(facts.stage[weight]).tolist():
        rows = weight[facts.stage[weight] == s]
        if len(rows) < facts.M or facts.program.stages[s].replicated:
            continue
        if stash_counts(facts, "W", s).max() >= facts.M > stash_counts(facts, "X", s).max():
            r = facts.program.stages[s].rank
            yield Finding(
                "IL502",
                "R-MEM-2",
                f"rank {r} holds the weight-gradient stash of all {facts.M} microbatches of stage {s} at once: it grows with M",
                (Mark(int(rows[0]), "the first W comes only here"),),
                "run each W soon after its I to bound it",
                Severity.NOTE,
                rank=r,
            )


def show_bytes(n: int) -> str:
    """Bytes as people read them; exact where a binary unit divides them, else to two places."""
    for unit, size in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if abs(n) >= size:
            return f"{n // size} {unit}" if n % size == 0 else f"{n / size:.2f} {unit}"
    return f"{n} B"
