"""OctoPipe results -> programs (spec/interchange.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from interlock.interchange.importer import NO_STEP_OPTIONS, Imported, StepListImporter, StepOptions
from interlock.interchange.json_reader import MAX_VALUES, Reader, Value, describe, read_json, shorten
from interlock.interchange.placement import MAX_RANKS
from interlock.interchange.step_lists import assemble_program, build_order, parse_index
from interlock.program.build import OrderBuilder
from interlock.program.kinds import Kind
from interlock.text.finding import Finding, InputError, Mark, error
from interlock.text.source import Source, Span

_LINE = re.compile(
    r"([A-Za-z])_([0-9]+)_([0-9]+)_([0-9]+)[ \t]*,[ \t]*([0-9]{1,30}(?:\.[0-9]{1,18})?)[ \t]*,[ \t]*([0-9]{1,30}(?:\.[0-9]{1,18})?)"  # noqa: E501
)
_FORM = "a line is `f_0_1_1, 695, 1390`: type, microbatch, stage, device, start and end"
_TUPLE = "an entry is `[f, 0, 1, 1, 695, 1390]`: type, microbatch, stage, device, start and end"
_KEYS = ("schedule", "partition", "placement", "scheduling")


@dataclass(frozen=True, slots=True)
class _Work:
    type: str
    mb: int
    stage: int
    device: int
    start: Decimal
    end: Decimal
    span: Span


def read(
    source: Source,
    options: StepOptions = NO_STEP_OPTIONS,
    partition: Source | None = None,
    placement: Source | None = None,
) -> Imported:
    """The program of a result: each device does its work in the order of its starts, transfers inserted.

    Raises InputError (IL104, IL106, IL112, IL113, IL204).

    `partition`, `placement`: the contents of `partition.txt` and `placement.txt`, which go with a
    `result.txt`.
    """
    text = source.text
    if text.lstrip().startswith("{"):
        value = read_json(source)
        sections = value.expect(dict, "an object", "write `schedule`, `partition`, `placement`, `scheduling`")
        work, layers, stages = _of_sections(sections, value.span)
    elif re.match(rf"(?:[ \t]*(?:#[^\n]*)?\r?\n)*(?:{'|'.join(_KEYS)})[ \t]*:", text):
        work, layers, stages = _of_sections(_sections(source), Span(source.base, 1))
    else:
        work, layers, stages = list(_lines(source)), None, None
    layers = _numbers(partition) if partition is not None else layers
    stages = _lists(placement) if placement is not None else stages
    return _program(work, layers, stages, options)


def _program(  # noqa: C901, PLR0912
    work: list[_Work], partition: Value | None, placement: Value | None, options: StepOptions
) -> Imported:
    if not work:
        raise error("IL106", "the file holds no forward and no backward", help=_FORM)
    places = _places(placement) if placement is not None else None
    ranks = max(w.device for w in work) + 1
    if places is not None:
        ranks = max(ranks, len(placement.data))
        for w in work:
            if w.stage >= len(places):
                raise error(
                    "IL204",
                    f"stage {w.stage} is placed on no device",
                    w.span,
                    help=f"the placement has {len(places)} stages: add this one",
                )
            if places[w.stage] != w.device:
                raise error(
                    "IL113",
                    f"stage {w.stage} is placed on device {places[w.stage]}, and this work of it is on "
                    f"device {w.device}",
                    w.span,
                    help="correct the one or the other",
                )
    if ranks > MAX_RANKS:
        last = max(work, key=lambda w: w.device)
        raise error(
            "IL104",
            f"the file has {ranks} devices, and a schedule at most {MAX_RANKS} ranks",
            last.span,
            help="number the devices from 0, without gaps",
        )
    split = any(w.type == "w" for w in work)
    kinds = {"f": Kind.F, "b": Kind.I if split else Kind.B, "w": Kind.W}
    devices: list[list[_Work]] = [[] for _ in range(ranks)]
    for w in work:
        devices[w.device].append(w)
    builder = OrderBuilder()
    for device, listed in enumerate(devices):
        listed.sort(key=lambda w: (w.start, w.end))
        for before, w in zip(listed, listed[1:]):
            if w.start < before.end:
                raise InputError(
                    Finding.of_input(
                        "IL113",
                        f"two operations of device {device} overlap in time: which comes first cannot be "
                        "told",
                        (Mark(w.span, f"starts at {w.start}"), Mark(before.span, f"ends at {before.end}")),
                        "a device does one operation at a time: correct the times",
                    )
                )
        for w in listed:
            builder.op(kinds[w.type], w.stage, w.mb, at=w.span.at, width=w.span.width)
        builder.end_rank()
    order = build_order(builder)
    if places is not None and options.placement is None:
        options = StepOptions(tuple(places), options.microbatches)
        run = {w.stage for w in work}
        missing = next((s for s in range(len(places)) if s not in run), None)
        if missing is not None:
            raise error(
                "IL204",
                f"stage {missing} is placed, and no device runs it",
                placement.span,
                help="take it out of the placement, or write out the whole result",
            )
    program = assemble_program(order, options, inserted=True, reductions_inserted=True)
    comments = ()
    if partition is not None:
        sizes = _sizes(partition)
        if len(sizes) != len(program.stages):
            raise error(
                "IL204",
                f"the partition has {len(sizes)} stages, and the result {len(program.stages)}",
                partition.span,
                help="give one number of layers for each stage",
            )
        comments = (f"partition: {sizes}, {sum(sizes)} layers",)
    return Imported(program, comments)


# -- result.txt
# ----------------------------------------------------------------------------------------------------------


def _lines(source: Source) -> Iterator[_Work]:
    at, count = 0, 0
    for line in source.text.split("\n"):
        body = line.strip()
        span = Span(source.base + at + len(line) - len(line.lstrip()), max(len(body), 1))
        at += len(line) + 1
        if not body or body.startswith("#"):
            continue
        count += 1
        if count > MAX_VALUES:
            raise error(
                "IL104",
                f"the file has more than {MAX_VALUES:,} lines",
                span,
                help="import a smaller member of the schedule's family",
            )
        found = _LINE.fullmatch(body)
        if not found:
            raise error("IL112", f"`{shorten(body)}` is no work of a device", span, help=_FORM)
        kind, *numbers, start, end = found.groups()
        of = Value(body, span)
        yield _work(kind, *(parse_index(n, of) for n in numbers), Decimal(start), Decimal(end), span, _FORM)


def _work(
    kind: str, mb: int, stage: int, device: int, start: Decimal, end: Decimal, span: Span, form: str
) -> _Work:
    if kind.lower() not in ("f", "b", "w"):
        raise error(
            "IL112",
            f"the type `{shorten(kind)}` does not exist",
            span,
            help=f"the types are f, b and w; {form}",
        )
    if end < start:
        raise error(
            "IL113",
            f"the work ends at {end}, before it starts at {start}",
            span,
            help="correct the times: the start comes first",
        )
    return _Work(kind.lower(), mb, stage, device, start, end, span)


def _numbers(source: Source) -> Value:
    """`[2, 2, 3]`, or the numbers with commas or blanks."""
    text = source.text.strip()
    if text.startswith("["):
        return _whole(source)
    return Value(
        [_number(source, m) for m in re.finditer(r"[^\s,]+", source.text)],
        Span(source.base, max(len(text), 1)),
    )


def _lists(source: Source) -> Value:
    """`[[0, 2], [1, 3]]`, or a line of numbers for each device."""
    if source.text.strip().startswith("["):
        return _whole(source)
    out, at = [], 0
    for line in source.text.rstrip().split("\n"):
        row = [_number(source, m, at) for m in re.finditer(r"[^\s,]+", line)]
        out.append(Value(row, Span(source.base + at, max(len(line), 1))))
        at += len(line) + 1
    return Value(out, Span(source.base, max(len(source.text.rstrip()), 1)))


def _whole(source: Source) -> Value:
    reader = Reader(source)
    value = reader.value()
    if not reader.done():
        raise reader.wrong("the end of the file", "the file holds one list")
    return value


def _number(source: Source, found: re.Match, at: int = 0) -> Value:
    span = Span(source.base + at + found.start(), len(found[0]))
    if not re.fullmatch("[0-9]+", found[0]):
        raise error(
            "IL112",
            f"`{shorten(found[0])}` is no number",
            span,
            help="write whole numbers, with commas or blanks, or a list in brackets",
        )
    return Value(parse_index(found[0], Value(None, span)), span)


# -- partition and placement
# ---------------------------------------------------------------------------------------------


def _sizes(partition: Value) -> list[int]:
    sizes = [
        v.expect(int, "a number of layers", "write whole numbers")
        for v in partition.expect(list, "a list of layer counts", "write `[2, 2, 3]`")
    ]
    if wrong := next((v for v in partition.data if not 1 <= v.data <= 100_000), None):
        raise error(
            "IL205" if wrong.data == 0 else "IL104",
            f"a stage of {wrong.data} layers",
            wrong.span,
            help="a stage has 1 to 100,000 layers",
        )
    return sizes


def _places(placement: Value) -> list[int]:
    """The device of every stage. Raises IL112, IL204 (a stage twice, or a gap)."""
    at: dict[int, tuple[int, Span]] = {}
    for device, stages in enumerate(
        placement.expect(list, "a list of stages for each device", "write `[[0, 2], [1, 3]]`")
    ):
        for v in stages.expect(list, "a list of stages", "write `[[0, 2], [1, 3]]`"):
            stage = v.expect(int, "a stage", "write whole numbers from 0")
            if not 0 <= stage < 100_000:
                raise error(
                    "IL104",
                    f"the stage {stage} is not 0 to 99,999",
                    v.span,
                    help="number stages from 0, without gaps",
                )
            if stage in at:
                raise InputError(
                    Finding.of_input(
                        "IL204",
                        f"stage {stage} is placed twice",
                        (
                            Mark(v.span, f"on device {device}"),
                            Mark(at[stage][1], f"on device {at[stage][0]}"),
                        ),
                        "a stage lies on one device",
                    )
                )
            at[stage] = device, v.span
    if not at:
        raise error(
            "IL204",
            "the placement places no stage",
            placement.span,
            help="write `[[0, 2], [1, 3]]`: the stages of each device",
        )
    missing = next((s for s in range(len(at)) if s not in at), None)
    if missing is not None:
        raise error(
            "IL204",
            f"stage {missing} is placed on no device",
            placement.span,
            help="number stages from 0, without gaps",
        )
    return [at[s][0] for s in range(len(at))]


# -- the YAML form, and JSON
# ---------------------------------------------------------------------------------------------


def _of_sections(sections: dict[str, Value], whole: Span) -> tuple[list[_Work], Value | None, Value | None]:
    if odd := next((k for k in sections if k not in _KEYS), None):
        raise error(
            "IL112",
            f"`{shorten(odd)}` is no part of a schedule",
            sections[odd].span,
            "its value",
            f"the parts are {', '.join(_KEYS)}",
        )
    if "scheduling" not in sections:
        raise error("IL112", "the file has no `scheduling`", whole, help=f"write it out: {_TUPLE}")
    if "schedule" in sections and sections["schedule"].data != "octopipe":
        raise error(
            "IL112",
            f"the schedule is {describe(sections['schedule'])}, and no work is listed for it",
            sections["schedule"].span,
            help="only `schedule: octopipe` lists its work",
        )
    entries = sections["scheduling"].expect(list, "a list of work", _TUPLE)
    return [_entry(e) for e in entries], sections.get("partition"), sections.get("placement")


def _entry(entry: Value) -> _Work:
    parts = entry.expect(list, "an entry of six parts", _TUPLE)
    if len(parts) != 6:
        raise error("IL112", f"an entry of {len(parts)} parts", entry.span, help=_TUPLE)
    kind = parts[0].expect(str, "a type", _TUPLE)
    for p in parts[1:4]:
        p.expect(int, "an index", _TUPLE)
        if p.data < 0:
            raise error("IL112", f"the index {p.data} is negative", p.span, help="number from 0")
    for p in parts[4:]:
        if not isinstance(p.data, int | Decimal) or p.data < 0:
            raise error("IL112", f"expected a time, not {describe(p)}", p.span, help=_TUPLE)
    return _work(
        kind,
        *(parse_index(str(p.data), p) for p in parts[1:4]),
        Decimal(parts[4].data),
        Decimal(parts[5].data),
        entry.span,
        _TUPLE,
    )


_KEY = re.compile(rf"({'|'.join(_KEYS)})[ \t]*:")


def _sections(source: Source) -> dict[str, Value]:
    """The one shape of YAML that is read: keys at the line's start, flow lists, and `- ` items below a key.

    Comments are blanked out.
    """
    text = re.sub(r"(^|\s)#[^\n]*", lambda m: m[1] + " " * (len(m[0]) - len(m[1])), source.text)
    plain = Source(source.name, text, source.base)
    out: dict[str, Value] = {}
    at = 0
    while (at := _skip(text, at)) < len(text):
        key = _KEY.match(text, at)
        if not key or at and text[at - 1] != "\n":
            line = text[at:].split("\n", 1)[0]
            raise error(
                "IL112",
                f"expected a key, not `{shorten(line)}`",
                Span(source.base + at, max(len(line), 1)),
                help=f"the keys are {', '.join(_KEYS)}, each at the start of a line; nothing else of YAML "
                "is read",
            )
        if key[1] in out:
            raise error(
                "IL112",
                f"`{key[1]}` is given twice",
                Span(source.base + at, len(key[1])),
                help="delete one of the two",
            )
        out[key[1]], at = _word(plain, key.end()) if key[1] == "schedule" else _section(plain, key.end())
    return out


def _word(source: Source, at: int) -> tuple[Value, int]:
    """The rest of a line, as text."""
    end = source.text.find("\n", at) % (len(source.text) + 1)
    text = source.text[at:end]
    return Value(
        text.strip().strip("\"'"),
        Span(source.base + at + len(text) - len(text.lstrip()), max(len(text.strip()), 1)),
    ), end


def _section(source: Source, at: int) -> tuple[Value, int]:
    """The value after a key, and where the text goes on."""
    text = source.text
    start = _skip(text, at)
    if not text.startswith("- ", start):
        reader = Reader(source, at, words=True)
        value = reader.value()
        return value, _start(reader, source)
    items = []
    while text.startswith("- ", start):
        if len(items) > MAX_VALUES // 6:
            raise error(
                "IL104",
                f"the file has more than {MAX_VALUES // 6:,} entries",
                Span(source.base + start),
                help="import a smaller member of the schedule's family",
            )
        reader = Reader(source, start + 2, words=True)
        items.append(reader.value())
        start = _start(reader, source)
    return Value(items, items[0].span.to(items[-1].span)), start


def _start(reader: Reader, source: Source) -> int:
    return len(source.text) if reader.done() else reader.span.at - source.base


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


IMPORTER = StepListImporter(read, ("partition.txt", "placement.txt"))
