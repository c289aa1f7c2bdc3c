"""What a file is asked as SMT-LIB text, for any solver to decide: `interlock check --emit smt2`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from .language.source import Sources
from .pipeline import DEFAULT_MODEL, Options, freest, models_asked, with_capacity
from .program.ir import Program

GROUPS = ("dep: who waits for whom", "foot: which backward work exists", "mem: live bytes along each rank's order", "size: bytes of layers, capacities",
          "map: who owns a microbatch", "time: the certificate", "ask: what is asked")
PRESENCE = {"IL308", "IL601", "IL602", "IL605"}


@dataclass(frozen=True)
class Text:
    """`name`: of a file, without its ending."""

    name: str
    text: str


def queries(path: str, data: bytes, sources: Sources, options: Options = Options()) -> Iterator[Text]:
    """The queries of each schedule of a file, with the status that the rules and the graph engine find. Raises InputError."""
    if PurePath(path).suffix.lower() == ".csv":
        from .interchange import torch_csv
        program = torch_csv.read(sources.add(path, torch_csv.decode(data)), options.csv or torch_csv.CsvOptions())
        yield from _program(path, PurePath(path).stem, program, options.models or (DEFAULT_MODEL,), None)
        return
    from .algebra.elaborate import elaborate_schedule
    from .algebra.library import Library
    from .algebra.requirements import requirements
    from .check import unbounded, written
    from .language.parse import decode, parse
    file = parse(sources.add(path, decode(path, data)))
    library = Library(file, sources)
    for node in file.schedules:
        schedule = elaborate_schedule(with_capacity(node, options.capacity), library)
        peak = requirements(schedule).peak
        program = schedule.program
        memory = program.memory or (unbounded(program) if peak is not None else None)
        program = replace(program, memory=memory)
        if program.inserted and memory is not None:
            program = written(program, schedule.trained, schedule.comm_of) or replace(program, memory=None)
        yield from _program(path, schedule.name, program, models_asked(schedule, options), peak)
        if schedule.freezing:
            yield from _freezings(path, schedule, peak)
        yield from _owners(path, schedule)


def _program(path: str, name: str, program: Program, models: Sequence[str], peak: Sequence[int | None] | None) -> Iterator[Text]:
    from .engine import graph, smt
    from .program.facts import Facts
    from .rules import dependency, footprint
    from .rules.communication import Transfers
    from .rules.memory import Usage
    from .rules.waits import wait_graph
    facts = Facts(program)
    transfers = Transfers(facts)
    for model in models[:1] if program.inserted else models:
        waits = wait_graph(facts, transfers, model)
        under = "every model: transfers are inserted" if program.inserted else f"the model {model}"
        yield _text(path, name, f"dep-{'any' if program.inserted else model}", f"its waits, under {under}", lambda: smt.dependency_query(waits),
                    "sat" if graph.solve(waits).acyclic else "unsat")
    if not program.fragment:
        found = {f.code for f in (*dependency.check(facts), *footprint.check(facts)) if f.is_error} & PRESENCE
        yield _text(path, name, "foot", "its backward work", lambda: smt.footprint_query(program), "sat" if found else "unsat")
    if program.memory is not None and not program.inserted:
        limits = _limits(program, peak)
        over = any(limit is not None and used > limit for used, limit in zip(Usage(facts).peaks, limits))
        yield _text(path, name, "mem", "its bytes", lambda: smt.memory_query(program, limits=limits), "sat" if over else "unsat")


def _limits(program: Program, peak: Sequence[int | None] | None) -> tuple[int | None, ...]:
    """The smaller of capacity and required peak of each rank."""
    both = zip(program.memory.capacity, peak or program.memory.capacity)
    return tuple(min((x for x in pair if x is not None), default=None) for pair in both)


def _freezings(path: str, schedule, peak: Sequence[int | None] | None) -> Iterator[Text]:
    from .engine import smt
    from .program.facts import Facts
    from .program.linearise import compute_times
    trained, placed = freest(schedule, peak)
    if not trained.inserted or not compute_times(Facts(trained)).complete:
        return
    limits = _limits(placed, peak) if placed is not None else None
    trained = replace(trained, memory=None)
    yield _text(path, schedule.name, "invariance", "every freezing of its layers",
                lambda: smt.invariance_query(trained, schedule.freezing, written=placed, limits=limits), "unsat")


def _owners(path: str, schedule) -> Iterator[Text]:
    from .engine import smt
    try:
        query = smt.owner_query(schedule.trained or schedule.program)
    except ValueError:
        return
    yield _text(path, schedule.name, "owners", "every owner map of its first region, hand-overs as a prefix", lambda: query, "unsat")


def _text(path: str, schedule: str, what: str, about: str, ask: Callable, expected: str) -> Text:
    """`ask` makes the query. One that is too large is a comment that says so."""
    from .engine import smt
    head = [f"{PurePath(path).name}, schedule {schedule}: {about}"]
    try:
        query = ask()
    except smt.TooLarge as reason:
        return Text(f"{schedule}.{what}", f"; {head[0]}\n; not written: {reason}\n")
    head += ["", *(line for line in GROUPS if line.split(":")[0] in query.groups), ""]
    return Text(f"{schedule}.{what}", smt.emit(query, expected, head))
