"""`owner: any`: what is claimed of a schedule holds for every owner map of a Replicated region
(spec/algebra.md, IL216).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, product

from interlock.check.obligation import Disagreement, Record
from interlock.check.program import check_program
from interlock.check.verdict import Answer, Outcome, Verdict, outcome_of
from interlock.engine import owner_maps as engine
from interlock.language import ast
from interlock.load import Case
from interlock.program.facts import Facts
from interlock.text.finding import Finding, Severity

MOST_MAPS, MOST_SOLVED = 256, 32  # owner maps checked one by one; where each asks a solver
MOST_OPERATIONS = 400_000  # of the maps that stand for all

Owners = tuple[int, ...]
Discharge = Callable[[Case], Record]


class OwnerMaps:
    """The owner maps of a case's region with `owner: any`, and the records of those that are checked one by
    one.

    All of them where they are few; else those in which one rank owns everything, tried for a counterexample.
    """

    def __init__(self, case: Case, discharge: Discharge):
        assert case.schedule is not None
        self.case, self._discharge = case, discharge
        self.schedule, self.program = case.schedule, case.program
        self.region = case.schedule.any_owner
        self.stage = next(s for s, x in enumerate(self.program.stages) if x.region == self.region)
        footprint = Facts(self.program).footprint
        self.visits = [
            m for m in range(self.program.microbatches) if footprint.on_path[footprint.of[m], self.stage]
        ]

    @property
    def own(self) -> Owners:
        """The map that the case was elaborated with."""
        owner = self.program.stages[self.stage].owner
        assert owner is not None
        return owner

    @property
    def count(self) -> int:
        return int(self.program.ranks ** len(self.visits))

    @property
    def power(self) -> str:
        return f"{self.program.ranks}^{len(self.visits)}"

    @property
    def all_checked(self) -> bool:
        solved = self.schedule.freezing or self.schedule.assumes or self.case.question.engine != "graph"
        return self.count <= (MOST_SOLVED if solved else MOST_MAPS)

    @cached_property
    def records(self) -> dict[Owners, Record]:
        """Of each map that is checked, its own first. Raises Disagreement."""
        maps = self._every() if self.all_checked else self._one_rank_owns_all()
        return {owner: self._discharge(self.with_owners(owner)) for owner in dict.fromkeys([self.own, *maps])}

    def with_owners(self, owner: Owners) -> Case:
        return self.case.with_owners(owner)

    def _every(self) -> Iterator[Owners]:
        """Every owner map; microbatches that do not visit the region keep what they have."""
        for choice in product(range(self.program.ranks), repeat=len(self.visits)):
            owner = list(self.own)
            for m, r in zip(self.visits, choice):
                owner[m] = r
            yield tuple(owner)

    def _one_rank_owns_all(self) -> Iterator[Owners]:
        visits = set(self.visits)
        maps = (
            tuple(r if m in visits else o for m, o in enumerate(self.own)) for r in range(self.program.ranks)
        )
        return islice(maps, MOST_SOLVED)


@dataclass(frozen=True)
class EveryOwnerMap:
    """R-OWN-2: everything asked of the case, for every owner map. Few maps are all checked, and the kernel
    judges each; of
    more, some are tried for a counterexample, and an engine is asked about waits. `model`: a communication
    model or a target.
    """

    maps: OwnerMaps
    model: str
    target: bool = False

    @property
    def name(self) -> str:
        return f"every owner map of {self.maps.region}"

    @property
    def models(self) -> tuple[str, ...]:
        return (self.model,)

    def discharge(self, earlier: Record) -> Outcome:
        maps = self.maps
        answers = {
            owner: record.answer(self.model, target=self.target) for owner, record in maps.records.items()
        }
        figures = {
            f"{figure}, {show_map(maps.own)}": value
            for figure, value in maps.records[maps.own].figures().items()
        }
        found = replace(fold_maps(answers), figures=figures)
        if found.verdict is not Verdict.VALID:
            return found
        if not maps.all_checked:
            return self._extend(found)
        if self.target:
            return found
        said = f"holds for every owner map of `{maps.region}`: each of the {maps.count:,} was checked"
        return add_note(found, said)

    def _extend(self, found: Outcome) -> Outcome:
        """More maps than are checked one by one: what is shown of all of them, if waits are all that is
        asked. Raises Disagreement.
        """
        maps = self.maps
        open_ = self._undecided()
        if open_:
            reason = (
                f"{', '.join(open_)} for every owner map of `{maps.region}`: "
                f"there are {maps.power} of them, and at most {MOST_MAPS} are checked one by one"
            )
            return leave_undecided(found, reason)
        if not maps.program.inserted:
            return self._late_gathers(found)
        return self._every_order(found)

    def _undecided(self) -> list[str]:
        """What is asked beside waits."""
        asked, memory = self.maps.case.requirements, self.maps.program.memory
        counted = bool(asked.peak or (memory and any(c is not None for c in memory.capacity)))
        what = {
            "bytes": counted,
            "`in_flight`": asked.in_flight,
            "`bounded_stash`": asked.bounded_stash,
            **{f"`{b.figure}`": True for b in asked.costs},
            "`for any freezing`": self.maps.schedule.freezing,
            f"the target {self.model}": self.target,
        }
        return [name for name, needed in what.items() if needed]

    def _every_order(self, found: Outcome) -> Outcome:
        from interlock.engine import smt

        maps = self.maps
        try:
            answer = smt.check_owner_maps(maps.program, second=maps.case.question.engine == "both")
        except smt.Contradiction as error:
            raise Disagreement(str(error)) from error
        if isinstance(answer, smt.Holds):
            said = (
                f"waits in no cycle for every owner map of `{maps.region}`: "
                "one query over all of them, which the kernel does not judge"
            )
            return add_note(found, said)
        why = answer.reason if isinstance(answer, smt.Unknown) else answer.what
        return leave_undecided(found, f"owner maps of `{maps.region}`: {why}")

    def _late_gathers(self, found: Outcome) -> Outcome:
        """The maps that show every two operations of a rank together, each checked, and one set of times for
        all of them.
        """
        maps, about = self.maps, f"owner maps of `{self.maps.region}`"
        skeleton = next(r.skeleton for r in maps.schedule.regions if r.name == maps.region)
        if not runs_owned_in_turn(skeleton):
            reason = (
                f"{about}: {maps.power} of them, and its skeleton does more than to run what a rank "
                "owns in turn"
            )
            return leave_undecided(found, reason)
        footprint = Facts(maps.program).footprint
        classes = {int(footprint.of[m]) for m in maps.visits}
        after = (maps.program.stages[int(footprint.next[c, 0])].rank for c in classes)
        beside = {rank for rank in after if rank is not None}
        covering = list(
            dict.fromkeys(engine.list_covering_maps(maps.own, maps.visits, maps.program.ranks, beside))
        )
        if len(covering) * len(maps.program.order) > MOST_OPERATIONS:
            reason = (
                f"{about}: {len(covering)} of them stand for all {maps.power}, "
                f"together of more than {MOST_OPERATIONS:,} operations"
            )
            return leave_undecided(found, reason)
        programs = []
        for owner in covering:
            program = maps.with_owners(owner).program
            [answer] = check_program(program, (self.model,))
            if answer.verdict is not Verdict.VALID:
                return fold_maps({owner: answer})
            programs.append(program)
        if engine.find_common_times(programs, self.model) is None:
            reason = (
                f"{about}: no fixed times serve all {maps.power} of them under {self.model}; "
                f"{len(covering)} of them were checked, and are valid"
            )
            return leave_undecided(found, reason)
        said = (
            f"waits in no cycle for every owner map of `{maps.region}`: "
            f"one set of times serves all {maps.power}, which the kernel does not judge"
        )
        return add_note(found, said)


def show_map(owner: Owners) -> str:
    return f"with owners {', '.join(map(str, owner))}"


def fold_maps(answers: dict[Owners, Answer]) -> Outcome:
    """Valid only if every map is; else the first that is not, which says the map."""
    for verdict in (Verdict.INVALID, Verdict.UNKNOWN, Verdict.VACUOUS):
        for owner, answer in answers.items():
            if answer.verdict is verdict:
                where = show_map(owner)
                findings = tuple(_say_where(f, where) for f in answer.findings)
                reason = f"{where}: {answer.reason}" if answer.reason else ""
                return replace(outcome_of(answer), findings=findings, reason=reason)
    [first, *_] = answers.values()
    return replace(outcome_of(first), claims=tuple(c for a in answers.values() for c in a.claims))


def _say_where(finding: Finding, where: str) -> Finding:
    if not finding.is_error:
        return finding
    cause = {"cause": f"{finding.data['cause']}, {where}"} if "cause" in finding.data else {}
    return replace(finding, message=f"{where}: {finding.message}", data=finding.data | cause)


def add_note(found: Outcome, message: str) -> Outcome:
    note = Finding("IL216", "R-OWN-2", message, severity=Severity.NOTE)
    return replace(found, findings=(*found.findings, note))


def leave_undecided(found: Outcome, reason: str) -> Outcome:
    return replace(found, verdict=Verdict.UNKNOWN, reason=reason, claims=())


def runs_owned_in_turn(skeleton: ast.Skeleton) -> bool:
    """Whether it only loops over what a rank owns, before and after the body: the order of two microbatches
    is then theirs alone.
    """
    program = skeleton.program
    if program is None:
        return False
    rank = program.variable.text

    def is_name(node: object, text: str) -> bool:
        return isinstance(node, ast.Name) and node.text == text

    def loops_over_owned(loop: ast.For) -> bool:
        over = loop.over
        return (
            isinstance(over, ast.Call)
            and over.function.text == "owned"
            and len(over.arguments) == 1
            and is_name(over.arguments[0], rank)
        )

    def runs_its_turn(loop: ast.For) -> bool:
        turn = loop.variable.text
        return all(
            isinstance(op, ast.SkeletonOp) and len(op.arguments) == 1 and is_name(op.arguments[0], turn)
            for op in loop.body
        )

    return all(
        isinstance(s, ast.Body) or (isinstance(s, ast.For) and loops_over_owned(s) and runs_its_turn(s))
        for s in program.body
    )
