"""The group `foot`: the backward footprint (spec/footprint.md) over one Bool a layer, and what is listed compared with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from interlock.engine.smt.query import (
    FALSE,
    TIMEOUT_MS,
    TRUE,
    Query,
    Unknown,
    Unsat,
    both,
    decide,
    either,
    no,
)
from interlock.program.facts import Facts
from interlock.program.ir import Kind, Program
from interlock.program.transfers import tie_ranks

FOOT = "foot"


@dataclass(frozen=True)
class Difference:
    """What is listed and what the footprint asks for differ; `rows` are one instance of it."""

    code: str
    what: str
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Agrees:
    queries: int


@dataclass(frozen=True)
class Differs:
    """One difference for each group of alike operations."""

    differences: tuple[Difference, ...]

    @property
    def codes(self) -> frozenset[str]:
        return frozenset(d.code for d in self.differences)


class Suspects:
    """Differences that may hold, each with the symbol that says whether it does."""

    def __init__(self, query: Query, group: str):
        self._query, self._group = query, group
        self.all: list[tuple[str, Difference]] = []

    def add(self, term: str, code: str, what: str, rows: Iterable[int]) -> None:
        if term == FALSE:
            return
        symbol = f"wrong.{self._group}.{len(self.all)}"
        rows = tuple(sorted({int(r) for r in rows if r >= 0}))
        self._query.notes[symbol] = f"{code}: {what}"
        self.all.append((self._query.define(self._group, symbol, term), Difference(code, what, rows)))

    def found(self, value: Callable[[str], int | bool]) -> list[Difference]:
        return [d for symbol, d in self.all if value(symbol)]

    @property
    def any(self) -> str:
        return either(*(symbol for symbol, _ in self.all))


class Feet:
    """Symbols of the footprint: `cross`, `back`, `wwork` by (class, stage) on the path, `reduce` by stage, `bit` by layer; `wanted` by
    (class, layer): the gradient of the layer's output.

    As reverse-mode differentiation finds them, layer by layer: the gradient of a layer's input is wanted iff a present layer before it is
    trained (g_0 = false, g_{l+1} = g_l or t_l), that of its weights iff it is trained. Classes and their present layers are the program's
    (spec/program.md, Presence); nothing else is taken over from program/footprint.py.
    """

    def __init__(self, query: Query, program: Program, present: np.ndarray, symbolic: frozenset[int]):
        self.present, self.stages = present, program.stages
        self.bit: list[str] = []
        for l, layer in enumerate(program.layers):
            symbol = f"trainable.{l}"
            fixed = TRUE if layer.trainable else FALSE
            self.bit.append(query.boolean(symbol) if l in symbolic else query.define(FOOT, symbol, fixed))
        self.cross, self.back, self.wwork, self.wanted = {}, {}, {}, {}
        for c in range(len(present)):
            wanted = FALSE
            for s, stage in enumerate(program.stages):
                layers = self.layers(c, range(stage.first, stage.last))
                if not layers:
                    continue
                at = f"c{c}.s{s}"
                self.cross[c, s] = query.define(FOOT, f"cross.{at}", wanted)
                for l in layers:
                    wanted = self.wanted[c, l] = query.define(
                        FOOT, f"wanted.c{c}.l{l + 1}", either(wanted, self.bit[l])
                    )
                self.back[c, s] = query.define(FOOT, f"back.{at}", wanted)
                self.wwork[c, s] = query.define(FOOT, f"wwork.{at}", either(*(self.bit[l] for l in layers)))
        self.reduce = [
            query.define(FOOT, f"reduce.s{s}", either(*self.bit[stage.first : stage.last]))
            for s, stage in enumerate(program.stages)
        ]

    def layers(self, cls: int, span: Iterable[int]) -> list[int]:
        """Those of the layers that are present in the class."""
        return [l for l in span if self.present[cls, l]]


# what is listed for a (stage, microbatch), as the bits of one number
_COUNTED = (
    Kind.F,
    Kind.B,
    Kind.I,
    Kind.W,
)  # for what is missing: on whatever rank (IL304 judges that), unless exact
_PLACED = (Kind.B, Kind.I, Kind.W, Kind.SEND_B, Kind.WAIT_B, Kind.RECV_B)
_AWAY = 1 << len(_COUNTED + _PLACED)  # prev(s, m) lies on another rank
Present = Callable[
    [Kind, int, int], str
]  # (kind, class, stage or tie): the term under which a listed operation is there


def compare(facts: Facts, feet: Feet, present: Present, suspects: Suspects, exact: bool) -> None:
    """R-FOOT-1, R-FOOT-2, R-RANK. `exact`: forwards and transfers that are missing, and idle weight work, differ as well."""
    if not facts.S or not facts.M:
        return
    counted = {k: facts.first(k) if exact else facts.listed[k] for k in _COUNTED}
    placed = {k: facts.first(k) for k in _PLACED}
    for cls, s, m, flags in _listings(facts, [*counted.values(), *placed.values()]):
        at = s * facts.M + m
        forward = int(counted[Kind.F][at])
        rows = {kind: int(table[at]) for kind, table in placed.items()}
        term = lambda kind, table: present(kind, cls, s) if table[at] >= 0 else FALSE
        has = {kind: term(kind, table) for kind, table in placed.items()}
        whole, first, second = (term(kind, counted[kind]) for kind in (Kind.B, Kind.I, Kind.W))
        cross, back, wwork = feet.cross[cls, s], feet.back[cls, s], feet.wwork[cls, s]
        half = both(whole, present(Kind.W, cls, s)) if exact else whole  # B without its W half is I
        second = either(second, half)
        some = either(whole, first, second)
        if some != TRUE:
            suspects.add(both(back, no(some)), "IL601", f"{s}B{m} is missing", [forward])
        suspects.add(both(back, first, no(second), wwork), "IL601", f"{s}W{m} is missing", [rows[Kind.I]])
        if exact:
            if forward < 0:
                suspects.add(TRUE, "IL302", f"{s}F{m} is missing", [])
            suspects.add(
                both(whole, no(second), wwork), "IL601", f"the W half of {s}B{m} is missing", [rows[Kind.B]]
            )
            suspects.add(
                both(second, no(wwork)),
                "IL603",
                f"the weight work of {s}B{m} is idle",
                [rows[Kind.B], rows[Kind.W]],
            )
        if not facts.program.placeholders:
            for kind in (Kind.B, Kind.I, Kind.W, Kind.RECV_B):
                suspects.add(
                    both(has[kind], no(back)), "IL602", f"{s}{kind.name}{m} must not exist", [rows[kind]]
                )
            for kind in (Kind.SEND_B, Kind.WAIT_B):
                suspects.add(
                    both(has[kind], no(cross)), "IL602", f"{s}{kind.name}{m} must not exist", [rows[kind]]
                )
        if exact and flags & _AWAY:
            suspects.add(
                both(cross, no(has[Kind.SEND_B])),
                "IL401",
                f"{s}SEND_B{m} is missing",
                [rows[Kind.B], rows[Kind.I]],
            )
    _compare_reductions(facts, feet, present, suspects, exact)


def _listings(facts: Facts, tables: list[np.ndarray]) -> list[tuple[int, int, int, int]]:
    """(class, stage, a microbatch, what is listed) for each different listing: few, whatever M is."""
    fp, M = facts.footprint, facts.M
    key = np.arange(facts.S * M)
    stage, mb = key // M, key % M
    cls = fp.of[mb]
    flags = np.zeros(len(key), dtype=np.int64)
    for i, table in enumerate(tables):
        flags |= (table >= 0).astype(np.int64) << i
    before = fp.prev[cls, stage]
    away = (before >= 0) & (facts.rank_at(np.maximum(before, 0), mb) != facts.rank_at(stage, mb))
    flags |= np.where(away, _AWAY, 0)
    on_path = np.array(
        [
            [fp.present[c, s.first : s.last].any() for s in facts.program.stages]
            for c in range(len(fp.present))
        ]
    )
    here = np.flatnonzero(on_path[cls, stage])
    different = (cls[here] * facts.S + stage[here]) * (2 * _AWAY) + flags[here]
    _, one = np.unique(different, return_index=True)
    at = here[one]
    return list(zip(cls[at].tolist(), stage[at].tolist(), mb[at].tolist(), flags[at].tolist()))


def _compare_reductions(facts: Facts, feet: Feet, present: Present, suspects: Suspects, exact: bool) -> None:
    """IL308, IL605."""
    p = facts.program
    asked = not p.reductions_inserted
    placed = np.flatnonzero((facts.kind == Kind.REDUCE) & facts.placed)
    for s, stage in enumerate(p.stages):
        rows = placed[facts.stage[placed] == s]
        count = np.bincount(facts.rank[rows], minlength=p.ranks)
        here = present(Kind.REDUCE, 0, s) if len(rows) else FALSE
        code = "IL605" if stage.replicated else "IL308"
        for r in (range(p.ranks) if stage.replicated else (stage.rank,)) if asked else ():
            if count[r] == 0:
                suspects.add(feet.reduce[s], code, f"{s}REDUCE is missing on rank {r}", rows[:1])
            elif count[r] > 1:
                suspects.add(
                    both(feet.reduce[s], here),
                    code,
                    f"{s}REDUCE is listed twice on rank {r}",
                    rows[facts.rank[rows] == r][:2],
                )
        if len(rows):
            suspects.add(both(feet.reduce[s], no(here)), code, f"{s}REDUCE is missing", rows[:1])
            if not p.placeholders:
                suspects.add(
                    both(here, no(feet.reduce[s])), "IL308", f"{s}REDUCE has nothing to reduce", rows[:1]
                )
    for number, tie in enumerate(p.ties):
        name = p.names.index(tie.name) if tie.name in p.names else -1
        rows = np.flatnonzero((facts.kind == Kind.REDUCE_TIE) & (facts.name == name))
        count = np.bincount(facts.rank[rows], minlength=p.ranks)
        group = tie_ranks(p, tie)
        trained = either(*(feet.reduce[s] for s in tie.stages))
        here = present(Kind.REDUCE_TIE, 0, number) if len(rows) else FALSE
        mine = np.bincount(facts.rank[rows[facts.comm[rows] == tie.comm]], minlength=p.ranks)
        for r in group if asked and len(group) > 1 else ():
            if mine[r] == 0:
                suspects.add(
                    trained, "IL308", f"rank {r} has no reduction of the tied parameters {tie.name}", rows[:1]
                )
        for r in np.flatnonzero(count > 1).tolist():
            suspects.add(
                here,
                "IL308",
                f"reduce(tie: {tie.name}) is listed twice on rank {r}",
                rows[facts.rank[rows] == r][:2],
            )
        if exact and len(rows):
            suspects.add(both(trained, no(here)), "IL308", f"reduce(tie: {tie.name}) is missing", rows[:1])
            suspects.add(
                both(here, no(trained)), "IL308", f"reduce(tie: {tie.name}) has nothing to reduce", rows[:1]
            )


def footprint_query(program: Program) -> Query:
    """Sat iff the listed operations of a concrete program are not those of its footprint (IL601, IL602, IL605, IL308)."""
    return _question(program)[0]


def _question(program: Program) -> tuple[Query, Suspects]:
    query = Query(
        "sat: what is listed differs from the backward footprint; unsat: it is the footprint", "QF_UF"
    )
    facts = Facts(program)
    suspects = Suspects(query, FOOT)
    compare(
        facts,
        Feet(query, program, facts.footprint.present, frozenset()),
        lambda kind, cls, at: TRUE,
        suspects,
        exact=False,
    )
    query.add("ask", suspects.any)
    return query, suspects


def footprint_agrees(
    program: Program, *, timeout_ms: int = TIMEOUT_MS, second: bool = False
) -> Agrees | Differs | Unknown:
    """Decides IL601, IL602, IL605 and the presence that IL308 asks for. A fragment is not asked."""
    if program.fragment:
        return Agrees(0)
    query, suspects = _question(program)
    answer = decide(query, timeout_ms, second=second)
    if isinstance(answer, Unknown):
        return answer
    if isinstance(answer, Unsat):
        return Agrees(1)
    return Differs(tuple(suspects.found(answer.value)))
