"""Peaks within their limits, stashes that do not grow: the rules of spec/memory.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from interlock.program.facts import Facts
from interlock.program.ir import Kind
from interlock.rules.usage import Usage
from interlock.text.finding import Finding, Mark, Severity

MOMENT = ", while "  # what follows it in a message says what is live
MOST_OTHERS = 4  # further ranks above their limits that a message names


def check_capacity(usage: Usage) -> Iterator[Finding]:
    """IL501, R-MEM-1: the peak of every rank fits."""
    memory = usage.facts.program.memory
    if memory is not None:
        yield from check_peaks(usage, memory.capacity, "IL501", "R-MEM-1", "its capacity")


def check_peaks(
    usage: Usage, limits: Sequence[int | None], code: str, rule: str, what: str
) -> Iterator[Finding]:
    """One finding: when the rank furthest above its limit is and what is live then; of others the excess."""
    excess = {
        r: usage.peaks[r] - limit
        for r, limit in enumerate(limits)
        if limit is not None and usage.peaks[r] > limit
    }
    if not excess:
        return
    worst = max(excess, key=lambda r: (excess[r], -r))
    others = {r: n for r, n in excess.items() if r != worst}
    row = usage.peak_row(worst)
    held = usage.held_at(row) if row >= 0 else []
    marks = []
    if row >= 0:
        marks.append(Mark(row, f"peak of rank {worst}: {show_bytes(usage.peaks[worst])}"))
    if held and held[0].oldest != row:
        marks.append(Mark(held[0].oldest, f"the oldest {held[0].part} still live"))
    limit = usage.peaks[worst] - excess[worst]
    message = (
        f"rank {worst} needs {show_bytes(usage.peaks[worst])}, {show_bytes(excess[worst])} more than {what} "
        f"({show_bytes(limit)}){_name_others(others)}"
    )
    if row >= 0:
        live = "".join(f", {x.count} x {x.part} {show_bytes(x.size)}" for x in held)
        shown = usage.facts.program.show(row)
        message += f"{MOMENT}{shown} runs: static {show_bytes(usage.static[worst])}{live}"
    yield Finding(
        code,
        rule,
        message,
        tuple(marks),
        "fewer microbatches in flight, a smaller stage on this rank, or more capacity; "
        "the fullest rank counts, not the mean",
        rank=worst,
        data={
            "peak": usage.peaks[worst],
            "limit": limit,
            "static": usage.static[worst],
            "excess": excess[worst],
            "others": {str(r): n for r, n in others.items()},
            "live": [{"part": x.part, "count": x.count, "bytes": x.size} for x in held],
        },
    )


def _name_others(excess: dict[int, int]) -> str:
    """Ranks that are above their limits too, by how much."""
    if not excess:
        return ""
    named = [f"rank {r} ({show_bytes(n)} too many)" for r, n in list(excess.items())[:MOST_OTHERS]]
    more = f" and {len(excess) - MOST_OTHERS} more" if len(excess) > MOST_OTHERS else ""
    return f", as {', '.join(named)}{more} {'does' if len(excess) == 1 else 'do'}"


def in_flight(facts: Facts, until: str = "X") -> list[int]:
    """For each rank the most live stashes at a time: F has run, X (or W: `until`) has not ended (IL702)."""
    live = count_stashes(facts, until)
    start = facts.program.order.start
    return [int(live[a:b].max()) if b > a else 0 for a, b in zip(start[:-1], start[1:])]


def count_stashes(facts: Facts, until: str, stage: int | None = None) -> np.ndarray:
    """Live stashes while each row runs; of one stage if given."""
    f, M = facts, facts.M
    if not f.S or not M or not f.n:
        return np.zeros(f.n, dtype=np.int64)
    forwards = f.first_F if stage is None else f.first_F[stage * M : (stage + 1) * M]
    rows = forwards[forwards >= 0]
    rows = rows[f.footprint.back[f.cls[rows], f.stage[rows]]]
    end = (f.first_X_or_W if until == "X" else f.first_W_or_X)[f.place[rows]]
    last = f.program.order.start[1:][f.rank[rows]] - 1
    end = np.where((end >= 0) & (f.rank[end] == f.rank[rows]), end, last)
    change = np.zeros(f.n + 1, dtype=np.int64)
    np.add.at(change, rows, 1)
    np.subtract.at(change, np.maximum(end, rows) + 1, 1)
    return np.cumsum(change)[: f.n]


def note_growing_stashes(facts: Facts) -> Iterator[Finding]:
    """IL502, R-MEM-2, of an explicit order: a rank holds the W stash of every microbatch at once (a note)."""
    weight = np.flatnonzero((facts.kind == Kind.W) & facts.placed)
    if facts.M < 3 or not len(weight):
        return
    for s in np.unique(facts.stage[weight]).tolist():
        rows = weight[facts.stage[weight] == s]
        if len(rows) < facts.M or facts.program.stages[s].replicated:
            continue
        if count_stashes(facts, "W", s).max() >= facts.M > count_stashes(facts, "X", s).max():
            r = facts.program.stages[s].rank
            yield Finding(
                "IL502",
                "R-MEM-2",
                f"rank {r} holds the weight-gradient stash of all {facts.M} microbatches of stage {s} "
                "at once: it grows with M",
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
