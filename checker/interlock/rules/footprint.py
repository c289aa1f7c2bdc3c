"""Which backward work a program must and may list: spec/footprint.md."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from interlock.program.facts import Facts
from interlock.program.ir import Kind
from interlock.rules.alike import MANY, alike, more
from interlock.text.finding import Finding, Mark, Severity


def check(facts: Facts) -> Iterator[Finding]:
    if facts.program.fragment or not facts.S or not facts.M:
        return
    yield from missing(facts)
    yield from excluded(facts)
    yield from idle(facts)
    yield from nothing_trains(facts)


def _by_key(facts: Facts, table: np.ndarray) -> np.ndarray:
    """A footprint table [classes, stages] as one answer for each stage * M + mb."""
    return table[facts.footprint.of].T.reshape(-1)


def missing(facts: Facts) -> Iterator[Finding]:
    """IL601, R-FOOT-1: no backward operation of the footprint is missing."""
    back, wwork = _by_key(facts, facts.footprint.back), _by_key(facts, facts.footprint.wwork)
    b, i, w = (facts.listed[k] >= 0 for k in (Kind.B, Kind.I, Kind.W))
    none = np.flatnonzero(back & ~b & ~i & ~w)
    half = np.flatnonzero(back & ~b & i & ~w & wwork)
    for keys, letter in ((none, "B"), (half, "W")):
        for key, count in alike(keys, keys // facts.M):
            s, m = divmod(key, facts.M)
            rank = int(facts.rank_at(np.array([s]), np.array([m]))[0])
            ran = int(facts.listed[Kind.I if letter == "W" else Kind.F][key])
            marks = (
                (Mark(ran, "the input half, W never follows" if letter == "W" else "its forward"),)
                if ran >= 0
                else ()
            )
            step = " before the step" if (facts.kind == Kind.STEP).any() else ""
            what = (
                f"{s}W{m} is missing{step}: the weight gradient of microbatch {m} on stage {s} is never "
                "computed"
                if letter == "W"
                else f"microbatch {m} has no backward on stage {s}, which a trainable layer at or before it "
                "asks for"
            )
            yield Finding(
                "IL601",
                "R-FOOT-1",
                what + more(count, "of the stage"),
                marks,
                f"add {s}{letter}{m} to rank {rank}, or declare what is frozen",
                rank=rank,
            )


def excluded(facts: Facts) -> Iterator[Finding]:
    """IL602, R-FOOT-2: nothing that the footprint excludes is listed; a placeholder is a warning."""
    p, fp, kind = facts.program, facts.footprint, facts.kind
    rows = np.flatnonzero(
        facts.placed
        & np.isin(kind, [int(k) for k in (Kind.B, Kind.I, Kind.W, Kind.SEND_B, Kind.WAIT_B, Kind.RECV_B)])
    )
    crossing = np.isin(kind[rows], [int(Kind.SEND_B), int(Kind.WAIT_B)])
    table = np.where(
        crossing, fp.cross[facts.cls[rows], facts.stage[rows]], fp.back[facts.cls[rows], facts.stage[rows]]
    )
    rows = rows[~table]
    for row, count in alike(rows, kind[rows], facts.stage[rows]):
        s, m = int(facts.stage[row]), int(facts.mb[row])
        if kind[row] == Kind.RECV_B:
            why = (
                f"stage {s} is frozen and nothing before it trains: there is no gradient edge from "
                f"{_next(facts, row)} to stage {s}"
            )
        elif kind[row] in (Kind.SEND_B, Kind.WAIT_B):
            why = f"nothing before stage {s} trains: no gradient goes back from it"
        else:
            why = f"stage {s} and everything before it is frozen: no gradient path reaches it"
        frozen = not fp.wwork[fp.of[m]].any()
        if frozen:
            why = f"nothing on the path of microbatch {m} trains, so it has no backward"
        if p.placeholders:
            yield Finding(
                "IL603",
                "R-FOOT-2",
                f"{p.show(row)} is a placeholder, work that the footprint excludes: "
                f"{why}{more(count, 'of the stage')}",
                (Mark(row, "does nothing"),),
                "",
                Severity.WARNING,
            )
        else:
            yield Finding(
                "IL602",
                "R-FOOT-3" if frozen else "R-FOOT-2",
                f"{p.show(row)} must not exist: {why}{more(count, 'of the stage')}",
                (Mark(row, "excluded by the footprint"),),
                "leave it out, on both ends of the boundary"
                if kind[row] in (Kind.RECV_B, Kind.SEND_B)
                else "leave it out",
            )


def _next(facts: Facts, row: int) -> str:
    after = int(facts.neighbour(facts.footprint.next, np.array([row]))[0])
    return f"stage {after}" if after >= 0 else "a stage that does not exist"


def idle(facts: Facts) -> Iterator[Finding]:
    """IL603, R-FOOT-2: weight work on a frozen pass-through stage."""
    _p, fp = facts.program, facts.footprint
    rows = np.flatnonzero(facts.placed & ((facts.kind == Kind.W) | (facts.kind == Kind.B)))
    through = fp.back[facts.cls[rows], facts.stage[rows]] & ~fp.wwork[facts.cls[rows], facts.stage[rows]]
    stages = np.unique(facts.stage[rows[through]])
    for s in stages[:MANY].tolist():
        mine = rows[through & (facts.stage[rows] == s)]
        row = int(mine[0])
        fix = f"write {s}I in place of {s}B" if facts.kind[row] == Kind.B else f"leave {s}W out"
        yield Finding(
            "IL603",
            "R-FOOT-2",
            f"stage {s} is frozen and only passes the gradient through: the W half of {len(mine)} "
            f"operation{'s' if len(mine) > 1 else ''} is idle and costs its time",
            (Mark(row, "the W half does nothing"),),
            fix,
            Severity.WARNING,
        )


def nothing_trains(facts: Facts) -> Iterator[Finding]:
    """IL604, R-FOOT-3: forward only."""
    if not facts.footprint.back[facts.footprint.of].any():
        yield Finding("IL604", "R-FOOT-3", "nothing trains: forward only", (), "", Severity.NOTE)
