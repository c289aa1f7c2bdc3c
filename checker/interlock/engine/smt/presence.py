"""What is listed against what the footprint asks for: R-FOOT-1, R-FOOT-2, R-RANK, presence in R-DEP-5."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from interlock.engine.smt.footprint import FOOT, FootprintTerms
from interlock.engine.smt.query import TIMEOUT_MS, Query, Unknown, Unsat
from interlock.engine.smt.solvers import decide
from interlock.engine.smt.terms import FALSE, TRUE, conjoin, disjoin, negate
from interlock.engine.smt.violations import ASK, Suspects, Violation
from interlock.program.facts import Facts
from interlock.program.ir import Kind, Program, Tie
from interlock.program.transfers import tie_ranks

Gate = Callable[
    [Kind, int, int], str
]  # (kind, class, stage or tie): the term under which what is listed is there

HALVES = (Kind.B, Kind.I, Kind.W)
COMPUTED = (Kind.F, *HALVES)
PLACED = (*HALVES, Kind.SEND_B, Kind.WAIT_B, Kind.RECV_B)
AWAY = 1 << len(COMPUTED + PLACED)  # the bit after those of what is listed: prev(s, m) lies on another rank


def compare_presence(
    facts: Facts, footprint: FootprintTerms, gate: Gate, suspects: Suspects, *, exact: bool
) -> None:
    """Suspects that what is listed, as far as its gates are open, is not the footprint.

    `exact`: forwards and transfers that are missing, and idle weight work, are suspected too.
    """
    if not facts.S or not facts.M:
        return
    comparison = _Comparison(facts, footprint, gate, suspects, exact)
    for listing in comparison.find_listings():
        comparison.compare_listing(listing)
    reductions = np.flatnonzero((facts.kind == Kind.REDUCE) & facts.placed)
    for stage in range(facts.S):
        comparison.compare_reductions(stage, reductions[facts.stage[reductions] == stage])
    for number, tie in enumerate(facts.program.ties):
        comparison.compare_tie_reductions(number, tie)


@dataclass(frozen=True)
class _Listing:
    """What is listed of a stage and a microbatch, one that stands for all of its class that list the same.

    `rows`: the first on its rank, -1 where there is none; `forward`: that of F; `has`: the terms under which
    they are there; `whole`, `input_half`, `weight_half`: likewise B, I and W, on any rank unless the
    comparison is exact (IL304 judges the rank); `away`: prev(s, m) lies on another rank.
    """

    cls: int
    stage: int
    microbatch: int
    rows: dict[Kind, int]
    forward: int
    has: dict[Kind, str]
    whole: str
    input_half: str
    weight_half: str
    away: bool

    def name(self, kind: Kind) -> str:
        return f"{self.stage}{kind.name}{self.microbatch}"


@dataclass(frozen=True)
class _Comparison:
    facts: Facts
    footprint: FootprintTerms
    gate: Gate
    suspects: Suspects
    exact: bool

    def find_listings(self) -> Iterator[_Listing]:
        """One for each (class, stage) and what is listed of it: few, whatever the number of microbatches."""
        facts = self.facts
        computed = {kind: facts.first(kind) if self.exact else facts.listed[kind] for kind in COMPUTED}
        placed = {kind: facts.first(kind) for kind in PLACED}
        classes, stages, flags = self._describe_pairs([*computed.values(), *placed.values()])
        on_path = self._find_paths()
        asked = np.flatnonzero(on_path[classes, stages])
        alike = (classes[asked] * facts.S + stages[asked]) * (2 * AWAY) + flags[asked]
        _, first = np.unique(alike, return_index=True)
        for pair in asked[first].tolist():
            cls, stage = int(classes[pair]), int(stages[pair])
            rows = {kind: int(table[pair]) for kind, table in placed.items()}
            has = {kind: self._gate_row(kind, cls, stage, row) for kind, row in rows.items()}
            whole, input_half, weight_half = (
                self._gate_row(kind, cls, stage, int(computed[kind][pair])) for kind in HALVES
            )
            # B without its W half is I
            with_weights = conjoin(whole, self.gate(Kind.W, cls, stage)) if self.exact else whole
            yield _Listing(
                cls,
                stage,
                pair % facts.M,
                rows,
                int(computed[Kind.F][pair]),
                has,
                whole,
                input_half,
                disjoin(weight_half, with_weights),
                bool(flags[pair] & AWAY),
            )

    def _gate_row(self, kind: Kind, cls: int, stage: int, row: int) -> str:
        return self.gate(kind, cls, stage) if row >= 0 else FALSE

    def _describe_pairs(self, tables: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For each (stage, microbatch), by stage: its class, its stage, and which tables list it, as the bits
        of a number.
        """
        facts, footprint = self.facts, self.facts.footprint
        pair = np.arange(facts.S * facts.M)
        stage, microbatch = pair // facts.M, pair % facts.M
        cls = footprint.of[microbatch]
        flags = np.zeros(len(pair), dtype=np.int64)
        for i, table in enumerate(tables):
            flags |= (table >= 0).astype(np.int64) << i
        before = footprint.prev[cls, stage]
        ranks = facts.rank_at(np.maximum(before, 0), microbatch)
        away = (before >= 0) & (ranks != facts.rank_at(stage, microbatch))
        return cls, stage, flags | np.where(away, AWAY, 0)

    def _find_paths(self) -> np.ndarray:
        """Whether a stage is on the path of a class; shape [classes, stages]."""
        stages = self.facts.program.stages
        return np.array(
            [[here[s.first : s.last].any() for s in stages] for here in self.facts.footprint.present]
        )

    def compare_listing(self, listing: _Listing) -> None:
        self._suspect_missing_backward(listing)
        if self.exact:
            self._suspect_missing_halves(listing)
        if not self.facts.program.placeholders:
            self._suspect_excluded(listing)
        if self.exact and listing.away:
            crosses = self.footprint.cross[listing.cls, listing.stage]
            self.suspects.add(
                conjoin(crosses, negate(listing.has[Kind.SEND_B])),
                "IL401",
                f"{listing.name(Kind.SEND_B)} is missing",
                [listing.rows[Kind.B], listing.rows[Kind.I]],
            )

    def _suspect_missing_backward(self, listing: _Listing) -> None:
        """R-FOOT-1: with back(s, m), B is listed, or I, and with I also W if wwork(s, m)."""
        back = self.footprint.back[listing.cls, listing.stage]
        wwork = self.footprint.wwork[listing.cls, listing.stage]
        some = disjoin(listing.whole, listing.input_half, listing.weight_half)
        if some != TRUE:
            self.suspects.add(
                conjoin(back, negate(some)),
                "IL601",
                f"{listing.name(Kind.B)} is missing",
                [listing.forward],
            )
        self.suspects.add(
            conjoin(back, listing.input_half, negate(listing.weight_half), wwork),
            "IL601",
            f"{listing.name(Kind.W)} is missing",
            [listing.rows[Kind.I]],
        )

    def _suspect_missing_halves(self, listing: _Listing) -> None:
        """F is listed, and weight work iff wwork(s, m)."""
        wwork = self.footprint.wwork[listing.cls, listing.stage]
        if listing.forward < 0:
            self.suspects.add(TRUE, "IL302", f"{listing.name(Kind.F)} is missing", [])
        self.suspects.add(
            conjoin(listing.whole, negate(listing.weight_half), wwork),
            "IL601",
            f"the W half of {listing.name(Kind.B)} is missing",
            [listing.rows[Kind.B]],
        )
        self.suspects.add(
            conjoin(listing.weight_half, negate(wwork)),
            "IL603",
            f"the weight work of {listing.name(Kind.B)} is idle",
            [listing.rows[Kind.B], listing.rows[Kind.W]],
        )

    def _suspect_excluded(self, listing: _Listing) -> None:
        """R-FOOT-2: nothing is listed without back(s, m), nothing sent back that does not cross."""
        back = self.footprint.back[listing.cls, listing.stage]
        cross = self.footprint.cross[listing.cls, listing.stage]
        for kind in (Kind.B, Kind.I, Kind.W, Kind.RECV_B):
            self._suspect_unless(back, listing, kind)
        for kind in (Kind.SEND_B, Kind.WAIT_B):
            self._suspect_unless(cross, listing, kind)

    def _suspect_unless(self, condition: str, listing: _Listing, kind: Kind) -> None:
        self.suspects.add(
            conjoin(listing.has[kind], negate(condition)),
            "IL602",
            f"{listing.name(kind)} must not exist",
            [listing.rows[kind]],
        )

    def compare_reductions(self, s: int, rows: np.ndarray) -> None:
        """R-DEP-5, of a Replicated stage R-RANK: REDUCE(s), at `rows`, once on each of its ranks iff
        reduce(s).
        """
        facts, program, suspects = self.facts, self.facts.program, self.suspects
        stage, reduces = program.stages[s], self.footprint.reduce[s]
        count = np.bincount(facts.rank[rows], minlength=program.ranks)
        here = self.gate(Kind.REDUCE, 0, s) if len(rows) else FALSE
        code = "IL605" if stage.replicated else "IL308"
        if not program.reductions_inserted:
            for r in range(program.ranks) if stage.replicated else (stage.rank,):
                if count[r] == 0:
                    suspects.add(reduces, code, f"{s}REDUCE is missing on rank {r}", rows[:1])
                elif count[r] > 1:
                    twice = rows[facts.rank[rows] == r][:2]
                    suspects.add(
                        conjoin(reduces, here), code, f"{s}REDUCE is listed twice on rank {r}", twice
                    )
        if not len(rows):
            return
        suspects.add(conjoin(reduces, negate(here)), code, f"{s}REDUCE is missing", rows[:1])
        if not program.placeholders:
            suspects.add(
                conjoin(here, negate(reduces)), "IL308", f"{s}REDUCE has nothing to reduce", rows[:1]
            )

    def compare_tie_reductions(self, number: int, tie: Tie) -> None:
        """R-DEP-5: REDUCE_TIE once on every rank of a tie, on its communicator, iff one of its stages
        reduces.
        """
        facts, program, suspects = self.facts, self.facts.program, self.suspects
        name = program.names.index(tie.name) if tie.name in program.names else -1
        rows = np.flatnonzero((facts.kind == Kind.REDUCE_TIE) & (facts.name == name))
        count = np.bincount(facts.rank[rows], minlength=program.ranks)
        own = np.bincount(facts.rank[rows[facts.comm[rows] == tie.comm]], minlength=program.ranks)
        group = tie_ranks(program, tie)
        reduces = disjoin(*(self.footprint.reduce[s] for s in tie.stages))
        here = self.gate(Kind.REDUCE_TIE, 0, number) if len(rows) else FALSE
        called = f"reduce(tie: {tie.name})"
        if not program.reductions_inserted and len(group) > 1:
            for r in group:
                if own[r] == 0:
                    what = f"rank {r} has no reduction of the tied parameters {tie.name}"
                    suspects.add(reduces, "IL308", what, rows[:1])
        for r in np.flatnonzero(count > 1).tolist():
            twice = rows[facts.rank[rows] == r][:2]
            suspects.add(here, "IL308", f"{called} is listed twice on rank {r}", twice)
        if self.exact and len(rows):
            suspects.add(conjoin(reduces, negate(here)), "IL308", f"{called} is missing", rows[:1])
            suspects.add(conjoin(here, negate(reduces)), "IL308", f"{called} has nothing to reduce", rows[:1])


@dataclass(frozen=True)
class Agrees:
    """What is listed is the footprint, by that many queries."""

    queries: int


@dataclass(frozen=True)
class Differs:
    """One violation for each group of alike operations."""

    differences: tuple[Violation, ...]

    @property
    def codes(self) -> frozenset[str]:
        return frozenset(violation.code for violation in self.differences)


def check_footprint(
    program: Program, *, timeout_ms: int = TIMEOUT_MS, second: bool = False
) -> Agrees | Differs | Unknown:
    """Decides IL601, IL602, IL605 and the presence that IL308 asks for. A fragment is not asked.

    `second`: cvc5 is asked too (solvers.py).
    """
    if program.fragment:
        return Agrees(0)
    query, suspects = _ask(program)
    answer = decide(query, timeout_ms, second=second)
    if isinstance(answer, Unknown):
        return answer
    return Agrees(1) if isinstance(answer, Unsat) else Differs(tuple(suspects.select(answer)))


def build_footprint_query(program: Program) -> Query:
    """Sat iff the listed operations of a concrete program are not those of its footprint (IL601, IL602,
    IL605, IL308).
    """
    return _ask(program)[0]


def _ask(program: Program) -> tuple[Query, Suspects]:
    query = Query(
        "sat: what is listed differs from the backward footprint; unsat: it is the footprint", "QF_UF"
    )
    facts = Facts(program)
    suspects = Suspects(query, FOOT)
    terms = FootprintTerms(query, program, facts.footprint.present, symbolic=frozenset())
    compare_presence(facts, terms, _always_present, suspects, exact=False)
    query.add(ASK, suspects.disjunction)
    return query, suspects


def _always_present(kind: Kind, cls: int, at: int) -> str:
    return TRUE
