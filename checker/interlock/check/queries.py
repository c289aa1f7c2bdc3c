"""What a file is asked as SMT-LIB text, for any solver to decide: `interlock check --emit smt2`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from interlock.check.pipeline import DEFAULT_MODEL, Options, freest, models_asked, with_capacity
from interlock.program.ir import Program
from interlock.text.source import Sources

GROUPS = (
    "dep: who waits for whom",
    "foot: which backward work exists",
    "mem: live bytes along each rank's order",
    "size: bytes of layers, capacities",
    "map: who owns a microbatch",
    "time: the certificate",
    "ask: what is asked",
)
PRESENCE = {"IL308", "IL601", "IL602", "IL605"}


@dataclass(frozen=True)
class Text:
    """`name`: of a file, without its ending."""

    name: str
    text: str


def queries(path: str, data: bytes, sources: Sources, options: Options = Options()) -> Iterator[Text]:
    """The queries of each schedule of a file, with the status that the rules and the graph engine find. Raises InputError."""
    if PurePath(path).suffix.lower() == ".csv":
        from interlock.interchange import torch_csv

        program = torch_csv.read(
            sources.add(path, torch_csv.decode(data)), options.csv or torch_csv.CsvOptions()
        )
        yield from _program(path, PurePath(path).stem, program, options.models or (DEFAULT_MODEL,), None)
        return
    from interlock.algebra.elaborate import elaborate_schedule
    from interlock.algebra.library import Library
    from interlock.algebra.requirements import requirements
    from interlock.check.program import unbounded, written
    from interlock.check.sizes import fullest
    from interlock.language.parse import decode, parse

    file = parse(sources.add(path, decode(path, data)))
    library = Library(file, sources)
    for node in file.schedules:
        schedule = fullest(elaborate_schedule(with_capacity(node, options.capacity), library))
        peak = requirements(schedule).peak
        program = schedule.program
        memory = program.memory or (unbounded(program) if peak is not None else None)
        program = replace(program, memory=memory)
        if program.inserted and memory is not None:
            program = written(program, schedule.trained, schedule.comm_of) or replace(program, memory=None)
        yield from _program(path, schedule.name, program, models_asked(schedule, options), peak)
        if schedule.freezing:
            yield from _freezings(path, schedule, peak, models_asked(schedule, options))
        yield from _owners(path, schedule)


def _program(
    path: str, name: str, program: Program, models: Sequence[str], peak: Sequence[int | None] | None
) -> Iterator[Text]:
    from interlock.engine import graph, smt
    from interlock.program.facts import Facts
    from interlock.rules import dependency, footprint
    from interlock.rules.communication import Transfers
    from interlock.rules.memory import Usage
    from interlock.rules.waits import wait_graph

    facts = Facts(program)
    transfers = Transfers(facts)
    for model in models[:1] if program.inserted else models:
        waits = wait_graph(facts, transfers, model)
        under = "every model: transfers are inserted" if program.inserted else f"the model {model}"
        yield _text(
            path,
            name,
            f"dep-{'any' if program.inserted else model}",
            f"its waits, under {under}",
            lambda: smt.dependency_query(waits),
            "sat" if graph.solve(waits).acyclic else "unsat",
        )
    if not program.fragment:
        found = {f.code for f in (*dependency.check(facts), *footprint.check(facts)) if f.is_error} & PRESENCE
        yield _text(
            path,
            name,
            "foot",
            "its backward work",
            lambda: smt.footprint_query(program),
            "sat" if found else "unsat",
        )
    if program.memory is not None and not program.inserted:
        limits = _limits(program, peak)
        over = any(limit is not None and used > limit for used, limit in zip(Usage(facts).peaks, limits))
        yield _text(
            path,
            name,
            "mem",
            "its bytes",
            lambda: smt.memory_query(program, limits=limits),
            "sat" if over else "unsat",
        )


def _limits(program: Program, peak: Sequence[int | None] | None) -> tuple[int | None, ...]:
    """The smaller of capacity and required peak of each rank."""
    from interlock.check.freezings import least

    return least(program.memory.capacity, peak or program.memory.capacity)


def _freezings(
    path: str, schedule, peak: Sequence[int | None] | None, models: Sequence[str]
) -> Iterator[Text]:
    from interlock.check.program import Limits, check_program
    from interlock.check.verdict import Verdict
    from interlock.engine import smt
    from interlock.program.facts import Facts
    from interlock.program.linearise import compute_times

    trained, placed = freest(schedule, peak)
    if trained.fragment:
        return
    if trained.inserted:
        if compute_times(Facts(trained)).complete:
            limits = _limits(placed, peak) if placed is not None else None
            trained = replace(trained, memory=None)
            yield _text(
                path,
                schedule.name,
                "invariance",
                "every freezing of its layers",
                lambda: smt.invariance_query(trained, schedule.freezing, written=placed, limits=limits),
                "unsat",
            )
        return
    for answer in check_program(trained, models, limits=Limits(peak)):
        what, about = (
            f"invariance-{answer.model}",
            f"every freezing of its layers, under the model {answer.model}",
        )
        limits = _limits(answer.program, peak) if answer.program.memory is not None else None
        if answer.verdict is Verdict.VALID:
            yield _text(
                path,
                schedule.name,
                what,
                about,
                lambda: smt.invariance_query(
                    answer.program, schedule.freezing, model=answer.model, limits=limits
                ),
                "unsat",
            )
        else:
            yield _unwritten(
                path,
                schedule.name,
                what,
                about,
                f"with all of these layers trained it is {answer.verdict.value}",
            )


def _owners(path: str, schedule) -> Iterator[Text]:
    from interlock.engine import smt

    try:
        query = smt.owner_query(schedule.trained or schedule.program)
    except ValueError:
        return
    yield _text(
        path,
        schedule.name,
        "owners",
        "every owner map of its first region, hand-overs as a prefix",
        lambda: query,
        "unsat",
    )


def _text(path: str, schedule: str, what: str, about: str, ask: Callable, expected: str) -> Text:
    """`ask` makes the query. One that is too large is a comment that says so."""
    from interlock.engine import smt

    try:
        query = ask()
    except smt.TooLarge as reason:
        return _unwritten(path, schedule, what, about, str(reason))
    head = [
        _head(path, schedule, about),
        "",
        *(line for line in GROUPS if line.split(":")[0] in query.groups),
        "",
    ]
    return Text(f"{schedule}.{what}", smt.emit(query, expected, head))


def _unwritten(path: str, schedule: str, what: str, about: str, reason: str) -> Text:
    return Text(f"{schedule}.{what}", f"; {_head(path, schedule, about)}\n; not written: {reason}\n")


def _head(path: str, schedule: str, about: str) -> str:
    return f"{PurePath(path).name}, schedule {schedule}: {about}"
