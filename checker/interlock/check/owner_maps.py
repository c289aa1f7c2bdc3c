"""`owner: any`: what is claimed of a schedule holds for every owner map of a Replicated region (spec/algebra.md, IL216)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice, product

from interlock.algebra.elaborate import elaborate_schedule
from interlock.algebra.requirements import requirements
from interlock.check.pipeline import Options, decided
from interlock.check.verdict import Answer, Verdict
from interlock.language import ast
from interlock.program.facts import Facts
from interlock.text.finding import Finding, Severity

MOST, FEW = 256, 32  # owner maps checked one by one; where each asks a solver
MOST_OPERATIONS = 400_000  # of the maps that stand for all


def every_owner(
    schedule,
    library,
    answers: tuple[Answer, ...],
    figures: dict,
    options: Options,
    models: Sequence[str],
    targets: Sequence[str],
):
    """The answers for every owner map. `answers`, `figures`: of the map that the schedule was elaborated with.

    Few maps are all checked, and the kernel judges each. Of more, some are tried for a counterexample, and the solver is asked about waits.
    """
    program = schedule.program
    s = next(s for s, stage in enumerate(program.stages) if stage.region == schedule.any_owner)
    footprint = Facts(program).footprint
    visits = [m for m in range(program.microbatches) if footprint.on_path[footprint.of[m], s]]
    most = FEW if schedule.freezing or schedule.assumes or options.engine != "graph" else MOST
    count = program.ranks ** len(visits)
    own = program.stages[s].owner
    known = {own: answers}
    for owner in _all(own, visits, program.ranks) if count <= most else _extreme(own, visits, program.ranks):
        if owner not in known:
            known[owner] = decided(
                elaborate_schedule(_with(schedule, owner), library), library, options, models, targets
            )[0]
    named = {owner: f"with owners {', '.join(map(str, owner))}" for owner in known}
    figures = {f"{name}, {named[own]}": value for name, value in figures.items()}
    out = [_of_all([(named[owner], found[i]) for owner, found in known.items()]) for i in range(len(answers))]
    if count <= most:
        said = f"holds for every owner map of `{schedule.any_owner}`: each of the {count:,} was checked"
        return tuple(_noted(a, said) for a in out), figures
    return tuple(
        _beyond(a, schedule, library, options, visits, f"{program.ranks}^{len(visits)}") for a in out
    ), figures


def _all(own: Sequence[int], visits: Sequence[int], ranks: int) -> Iterator[tuple[int, ...]]:
    """Every owner map; microbatches that do not visit the region keep what they have."""
    for choice in product(range(ranks), repeat=len(visits)):
        owner = list(own)
        for m, r in zip(visits, choice):
            owner[m] = r
        yield tuple(owner)


def _extreme(own: Sequence[int], visits: Sequence[int], ranks: int) -> Iterator[tuple[int, ...]]:
    """One rank owns everything."""
    here = set(visits)
    return islice((tuple(r if m in here else o for m, o in enumerate(own)) for r in range(ranks)), FEW)


def _with(schedule, owner: Sequence[int]) -> ast.Schedule:
    """The schedule's statements with the owner map written out."""
    node = schedule.node

    def mapped(region: ast.Region) -> ast.Region:
        value = lambda a: ast.ListValue(tuple(ast.Int(r, a.span) for r in owner), a.span)
        return replace(
            region,
            arguments=tuple(
                replace(a, value=value(a)) if a.name and a.name.text == "owner" else a
                for a in region.arguments
            ),
        )

    regions = tuple(mapped(r) if r.name.text == schedule.any_owner else r for r in node.cut.regions)
    return replace(node, cut=replace(node.cut, regions=regions))


def _of_all(found: Sequence[tuple[str, Answer]]) -> Answer:
    """Valid only if every map is; else the first that is not, which says the map."""
    for verdict in (Verdict.INVALID, Verdict.UNKNOWN, Verdict.VACUOUS):
        for where, answer in found:
            if answer.verdict is verdict:
                cause = lambda f: {"cause": f"{f.data['cause']}, {where}"} if "cause" in f.data else {}
                say = lambda f: (
                    replace(f, message=f"{where}: {f.message}", data=f.data | cause(f)) if f.is_error else f
                )
                return replace(
                    answer,
                    findings=tuple(map(say, answer.findings)),
                    reason=f"{where}: {answer.reason}" if answer.reason else "",
                )
    first = found[0][1]
    return replace(first, certificates=tuple(c for _, a in found for c in a.certificates))


def _noted(answer: Answer, said: str) -> Answer:
    if answer.verdict is not Verdict.VALID or answer.target:
        return answer
    return replace(
        answer, findings=(*answer.findings, Finding("IL216", "R-OWN-2", said, severity=Severity.NOTE))
    )


def _beyond(answer: Answer, schedule, library, options: Options, visits: Sequence[int], count: str) -> Answer:
    """More maps than are checked one by one: what is shown of all of them, if waits are all that is asked. Raises Disagreement."""
    from interlock.check.program import Disagreement
    from interlock.engine import smt

    if answer.verdict is not Verdict.VALID:
        return answer
    asked, memory = requirements(schedule), schedule.program.memory
    counted = bool(asked.peak or (memory and any(c is not None for c in memory.capacity)))
    what = {
        "bytes": counted,
        "`in_flight`": asked.in_flight,
        "`bounded_stash`": asked.bounded_stash,
        **{f"`{b.figure}`": True for b in asked.costs},
        "`for any freezing`": schedule.freezing,
        f"the target {answer.model}": answer.target,
    }
    if any(what.values()):
        return _open(
            answer,
            f"{', '.join(name for name, asked in what.items() if asked)} for every owner map of `{schedule.any_owner}`: "
            f"there are {count} of them, and at most {MOST} are checked one by one",
        )
    if not schedule.program.inserted:
        return _late(answer, schedule, library, visits, count)
    try:
        found = smt.any_owner(schedule.program, second=options.engine == "both")
    except smt.Contradiction as error:
        raise Disagreement(str(error)) from error
    if isinstance(found, smt.Holds):
        return _noted(
            answer,
            f"waits in no cycle for every owner map of `{schedule.any_owner}`: "
            "one query over all of them, which the kernel does not judge",
        )
    return _open(
        answer,
        f"owner maps of `{schedule.any_owner}`: {found.reason if isinstance(found, smt.Unknown) else found.what}",
    )


def _late(answer: Answer, schedule, library, visits: Sequence[int], count: str) -> Answer:
    """Late gathers: the maps that show every two operations of a rank together, each checked, and one set of times for all of them."""
    from interlock.check.program import check_program
    from interlock.engine import every_owner as engine

    program, name = schedule.program, schedule.any_owner
    if not _in_turn(next(r.skeleton for r in schedule.regions if r.name == name)):
        return _open(
            answer,
            f"owner maps of `{name}`: {count} of them, and its skeleton does more than to run what a rank owns in turn",
        )
    footprint = Facts(program).footprint
    beside = {program.stages[int(footprint.next[c, 0])].rank for c in {int(footprint.of[m]) for m in visits}}
    maps = list(dict.fromkeys(engine.covering(program.stages[0].owner, visits, program.ranks, beside)))
    if len(maps) * len(program.order) > MOST_OPERATIONS:
        return _open(
            answer,
            f"owner maps of `{name}`: {len(maps)} of them stand for all {count}, together of more than {MOST_OPERATIONS:,} operations",
        )
    programs = []
    for owner in maps:
        program = elaborate_schedule(_with(schedule, owner), library).program
        (found,) = check_program(program, (answer.model,))
        if found.verdict is not Verdict.VALID:
            return _of_all([(f"with owners {', '.join(map(str, owner))}", found)])
        programs.append(program)
    if engine.one_order(programs, answer.model) is None:
        return _open(
            answer,
            f"owner maps of `{name}`: no fixed times serve all {count} of them under {answer.model}; {len(maps)} of them were checked, and are valid",
        )
    return _noted(
        answer,
        f"waits in no cycle for every owner map of `{name}`: one set of times serves all {count}, which the kernel does not judge",
    )


def _in_turn(skeleton: ast.Skeleton) -> bool:
    """Whether it only loops over what a rank owns, before and after the body: the order of two microbatches is then theirs alone."""
    rank = skeleton.program.variable.text
    name = lambda x, text: isinstance(x, ast.Name) and x.text == text
    owned = lambda x: (
        isinstance(x, ast.Call)
        and x.function.text == "owned"
        and len(x.arguments) == 1
        and name(x.arguments[0], rank)
    )
    of_turn = lambda loop, op: (
        isinstance(op, ast.SkeletonOp)
        and len(op.arguments) == 1
        and name(op.arguments[0], loop.variable.text)
    )
    return all(
        isinstance(s, ast.Body)
        or isinstance(s, ast.For)
        and owned(s.over)
        and all(of_turn(s, op) for op in s.body)
        for s in skeleton.program.body
    )


def _open(answer: Answer, reason: str) -> Answer:
    return replace(answer, verdict=Verdict.UNKNOWN, reason=reason)
