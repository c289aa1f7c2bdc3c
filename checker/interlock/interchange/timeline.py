"""A measured run, interlock.timeline/1: when each operation of a program began and ended (spec/lowering.md,
"Emulation").
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import numpy as np

from interlock.interchange.json_reader import Value, describe, read_json
from interlock.interchange.plan import program_head, read_program
from interlock.kernel.fields import Malformed
from interlock.kernel.wellformed import read as well_formed
from interlock.program.facts import IS_COMPUTE, Facts
from interlock.program.ir import Program
from interlock.program.kinds import WITH_MICROBATCH, WITH_STAGE, Kind
from interlock.rules.waits import MODELS
from interlock.text.finding import Finding, InputError, Mark, error
from interlock.text.source import Source, Span
from interlock.timing.timeline import Timeline

FORMAT = "interlock.timeline/1"
LATEST = 1 << 60  # ns: as in timing/durations.py
_PIPELINE = re.compile(r"(?P<stage>[0-9]{1,8})(?P<kind>[A-Z][A-Z_]*)(?P<mb>[0-9]{1,8})?(?:@(?P<comm>.+))?")
_CALL = re.compile(r"(?P<word>send|recv|wait|free|coll|init|reduce)\((?P<of>.*)\)(?:@(?P<comm>.+))?")
_FORM = 'an operation is `["0F0", start, end]`: its name, and nanoseconds or null'
_AGAIN = "write it with `interlock run FILE --emulate -o OUT.json`"


def dumps(name: str, timeline: Timeline) -> str:
    """One operation a line: `["0F0", start, end]`, null where it has none; a launch's number behind it, if it
    is in one.
    """
    p, launch = timeline.program, timeline.program.order.launch

    def compact(value):
        return json.dumps(value, separators=(",", ":"))

    times = [
        [None if x < 0 else int(x) for x in pair]
        for pair in zip(timeline.start.tolist(), timeline.end.tolist())
    ]

    def line(i):
        return compact([p.show(i), *times[i], *([int(launch[i])] if launch[i] >= 0 else [])])

    ranks = [
        "[" + ",\n".join(["", *map(line, range(a, b))])[1:] + "]"
        for a, b in zip(p.order.start[:-1].tolist(), p.order.start[1:].tolist())
    ]
    fields = {
        "format": FORMAT,
        "name": name,
        "model": timeline.model,
        "makespan": timeline.makespan,
        "program": program_head(p),
    }
    return (
        "{\n"
        + "".join(f'"{key}": {compact(value)},\n' for key, value in fields.items())
        + '"ranks": [\n'
        + ",\n".join(ranks)
        + "\n]}\n"
    )


@dataclass(frozen=True)
class Measured:
    """A run that was measured; `name` is the schedule's."""

    name: str
    timeline: Timeline


def read(source: Source) -> Measured:
    """Raises InputError (IL104, IL112, IL113), with the place."""
    value = read_json(source, booleans=True)
    entries = value.expect(dict, "a timeline", _AGAIN)

    def get(key, kind, what):
        return _entry(value, key).expect(kind, what, _AGAIN)

    if get("format", str, "a format") != FORMAT:
        raise error(
            "IL112",
            f"this version reads `{FORMAT}`, not {describe(entries['format'])}",
            entries["format"].span,
            help=_AGAIN,
        )
    name, model = get("name", str, "the name of a schedule"), get("model", str, "a communication model")
    if model not in MODELS:
        raise error(
            "IL112",
            f"there is no communication model {describe(entries['model'])}",
            entries["model"].span,
            help=f"there are {', '.join(MODELS)}",
        )
    plain = _plain(_entry(value, "program"))
    if not isinstance(plain, dict):
        raise error(
            "IL112",
            f"expected the program of a plan, not {describe(entries['program'])}",
            entries["program"].span,
            help=_AGAIN,
        )
    lists = get("ranks", list, "a list for each rank")
    rows = [
        [_operation(entry, plain) for entry in rank.expect(list, "the operations of a rank", _FORM)]
        for rank in lists
    ]
    program = _program(plain, rows, entries["program"].span, entries["ranks"].span)
    flat = [row for rank in rows for row in rank]
    start, end = (np.array([getattr(row, side) for row in flat], dtype=np.int64) for side in ("start", "end"))
    _in_order(program, flat, start, end)
    return Measured(name, Timeline(program, model, start, end))


def _entry(value: Value, key: str) -> Value:
    if key not in value.data:
        raise error("IL112", f"the timeline has no `{key}`", Span(value.span.at, 1), help=_AGAIN)
    return value.data[key]


def _plain(value: Value):
    """As `json.loads` gives it."""
    match value.data:
        case list() as items:
            return [_plain(v) for v in items]
        case dict() as entries:
            return {k: _plain(v) for k, v in entries.items()}
    return value.data


# ---- operations -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Row:
    action: dict  # as read_program takes it
    start: int
    end: int
    span: Span


def _operation(entry: Value, plain: dict) -> _Row:
    parts = entry.expect(list, "an operation", _FORM)
    if not 3 <= len(parts) <= 4:
        raise error("IL112", f"expected an operation, not {describe(entry)}", entry.span, help=_FORM)
    name = parts[0].expect(str, "an operation's name", _FORM)
    action = _action(name, plain)
    if action is None:
        raise error(
            "IL112",
            f"{describe(parts[0])} is no operation of this program",
            parts[0].span,
            help="operations are named as in a schedule: 0F0, 0SEND_F0, 1REDUCE, STEP",
        )
    if len(parts) == 4:
        action["launch"] = parts[3].expect(int, "the number of a launch", _FORM)
    if all(p.data is None for p in parts[1:3]):
        return _Row(action, -1, -1, entry.span)
    start, end = (p.expect(int, "nanoseconds", _FORM) for p in parts[1:3])
    if not 0 <= start <= end <= LATEST:
        which, what = (
            (parts[2], f"{name} ends at {end}, before it starts at {start}")
            if start > end
            else (parts[1 if start < 0 else 2], f"{name} has a time that no step has")
        )
        raise error("IL113", what, which.span, help="times are nanoseconds from the start of the step")
    return _Row(action, start, end, entry.span)


def _action(text: str, plain: dict) -> dict | None:
    """What an operation as `Program.show` writes it says; None: it is none."""
    comms = (
        [c.get("name") for c in plain.get("communicators") or [] if isinstance(c, dict)]
        if isinstance(plain.get("communicators"), list)
        else []
    )
    names = plain.get("names") if isinstance(plain.get("names"), list) else []
    if text in ("ZERO", "STEP"):
        return {"do": text}
    if found := _PIPELINE.fullmatch(text):
        kind = Kind.__members__.get(found["kind"])
        if kind not in (WITH_MICROBATCH if found["mb"] else WITH_STAGE - WITH_MICROBATCH):
            return None
        action = {"do": kind.name, "stage": int(found["stage"])} | (
            {"mb": int(found["mb"])} if found["mb"] else {}
        )
    elif found := _CALL.fullmatch(text):
        action = _call(found["word"], found["of"], comms, names)
        if action is None:
            return None
    else:
        return None
    if found["comm"]:
        if found["comm"] not in comms:
            return None
        action["comm"] = comms.index(found["comm"])
    return action


def _call(word: str, of: str, comms: list, names: list) -> dict | None:
    """`send(1, a0)`, `wait(a0)`, `coll(comm, a0)`, `init(comm)`, `reduce(tie: t)`, `reduce(data: a0)`."""
    first, comma, name = of.partition(", ")
    kind = {
        "send": Kind.SEND,
        "recv": Kind.RECV,
        "wait": Kind.WAIT,
        "free": Kind.FREE,
        "coll": Kind.COLL,
        "init": Kind.INIT,
    }.get(word)
    action: dict = {}
    if word == "reduce":
        which, _, name = of.partition(": ")
        kind = {"tie": Kind.REDUCE_TIE, "data": Kind.REDUCE_DATA}.get(which)
    elif kind in (Kind.SEND, Kind.RECV):
        if not re.fullmatch("[0-9]{1,8}", first):
            return None
        action["peer"] = int(first)
    elif kind in (Kind.COLL, Kind.INIT):
        if first not in comms or bool(comma) is (kind is Kind.INIT):
            return None
        action["comm"] = comms.index(first)
    else:
        name = of
    if kind is None or (kind is not Kind.INIT and name not in names):
        return None
    return {"do": kind.name} | action | ({} if kind is Kind.INIT else {"name": name})


# ---- the program ------------------------------------------------------------------------------------------


def _program(plain: dict, rows: list[list[_Row]], where: Span, lists: Span) -> Program:
    """Raises InputError where the whole is no program: the kernel's own reader says so, which takes
    any JSON.
    """
    names = plain.get("names") if isinstance(plain.get("names"), list) else []
    actions = [[row.action for row in rank] for rank in rows]
    flat = [a for rank in actions for a in rank]

    def column(key, absent):
        return [a.get(key, absent) for a in flat]

    start = [0]
    for rank in rows:
        start.append(start[-1] + len(rank))
    columns = {
        "kind": [int(Kind[a["do"]]) for a in flat],
        "stage": column("stage", -1),
        "mb": column("mb", -1),
        "peer": column("peer", -1),
        "name": [names.index(a["name"]) if "name" in a else -1 for a in flat],
        "comm": column("comm", 0),
        "launch": column("launch", -1),
    }
    kinds = [k.name for k in Kind]
    try:
        ranks = plain.get("ranks")
        none = [0] * (ranks + 1) if type(ranks) is int and 0 < ranks <= len(rows) else [0]
        well_formed({**plain, "kinds": kinds, "order": {"start": none} | {key: [] for key in columns}})
        if ranks != len(rows):
            raise error(
                "IL113", f"there are {len(rows)} lists of operations for {ranks} ranks", lists, help=_AGAIN
            )
    except Malformed as wrong:
        raise error("IL112", f"this is no program: {wrong}", where, help=_AGAIN) from None
    try:
        well_formed({**plain, "kinds": kinds, "order": {"start": start} | columns})
        return read_program(plain, actions)
    except Malformed as wrong:
        raise error("IL113", f"the operations are none of the program: {wrong}", lists, help=_AGAIN) from None
    except (KeyError, TypeError, ValueError, OverflowError) as wrong:
        raise error("IL112", f"this is no program: {wrong}", where, help=_AGAIN) from None


def _in_order(program: Program, rows: list[_Row], start: np.ndarray, end: np.ndarray) -> None:
    """A rank computes one thing at a time, in its order; the halves of an overlap get the interval of both.

    Raises InputError.
    """
    facts = Facts(program)
    for i in facts.second_halves.tolist():
        if start[i] >= 0 and start[i - 1] >= 0:
            start[i - 1 : i + 1], end[i - 1 : i + 1] = start[i - 1 : i + 1].min(), end[i - 1 : i + 1].max()
    work = np.flatnonzero((start >= 0) & IS_COMPUTE[facts.kind] & (facts.overlap_head == np.arange(facts.n)))
    early = np.flatnonzero(
        (start[work[1:]] < end[work[:-1]]) & (facts.rank[work[1:]] == facts.rank[work[:-1]])
    )
    if len(early):
        before, i = int(work[early[0]]), int(work[early[0] + 1])
        raise InputError(
            Finding.of_input(
                "IL113",
                f"rank {facts.rank[i]} computes {program.show(before)} and {program.show(i)} at the same "
                "time, or not in their order",
                (
                    Mark(rows[i].span, f"starts at {start[i]}"),
                    Mark(rows[before].span, f"ends at {end[before]}"),
                ),
                "a rank does one operation at a time: correct the times",
            )
        )
