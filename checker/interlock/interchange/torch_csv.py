"""PyTorch schedule CSVs <-> programs (spec/interchange.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from heapq import merge
from itertools import groupby, islice
from typing import Literal

import numpy as np

from interlock.interchange.bad_cell import explain, looks_cut_off, looks_like_operation, too_large
from interlock.interchange.cells import BAD, EMPTY, OVERLAP, PAIR, WORDS, Cells, scan
from interlock.program.ir import Layer, Order, Program, Stage
from interlock.program.kinds import COMPUTE, TRANSFER, WITH_MICROBATCH, Kind
from interlock.text.finding import Finding, InputError, Mark, error
from interlock.text.source import Source, Span

MAX_BYTES = 64 << 20
MAX_CELLS = 20_000_000
MAX_RANKS = 4096
MAX_INDEX = 10_000_000
MAX_STAGES = 100_000
_SHOWN = 20  # errors reported in one run
_COMPUTE = [int(k) for k in COMPUTE]
_WORD_OF = {kind: word for word, kind in WORDS.items()}


@dataclass(frozen=True)
class CsvOptions:
    """What a CSV cannot say of itself.

    `placement`: the rank of every stage, or `loop`, `vee`; None: as in the file. `frozen`: stages, or `all`.
    """

    format: Literal["auto", "compute-only", "compute-comms"] = "auto"
    placement: Literal["loop", "vee"] | tuple[int, ...] | None = None
    microbatches: int | None = None
    frozen: frozenset[int] | Literal["all"] = frozenset()


class NotExpressible(ValueError):
    """The program has something the format has no text for; `row` is the first such operation (-1: none in
    particular).
    """

    def __init__(self, message: str, row: int = -1):
        super().__init__(message)
        self.row = row


def decode(data: bytes) -> str:
    """The text of a file. Raises IL104, IL105."""
    if len(data) > MAX_BYTES:
        raise _too_large()
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as e:
        line = data.count(b"\n", 0, e.start) + 1
        raise error(
            "IL105",
            f"the file is not text: byte {e.start}, in line {line}, is not UTF-8",
            help="save the schedule as plain text, comma-separated, in UTF-8",
        ) from None


def read(source: Source, options: CsvOptions = CsvOptions()) -> Program:
    """The program a CSV describes.

    Raises InputError with up to 20 places (IL104, IL105, IL106, IL108, IL109, IL110, IL204).
    """
    text = source.text
    _check_text(source)
    cells = scan(text)
    ranks = _lines(cells)
    if not ranks:
        raise error(
            "IL106", "the file holds no operation", help="write one line for each rank: `0F0,0B0`, say"
        )
    if ranks > MAX_RANKS:
        raise error(
            "IL104",
            f"the file has {ranks} lines, and a schedule at most {MAX_RANKS} ranks",
            _span(source, cells, int(cells.line[MAX_RANKS])),
            "a rank too many",
            "a line is a rank, not a step: transpose the table if steps are its lines",
        )

    comms = options.format == "compute-comms" or options.format == "auto" and _has_comms(cells)
    found = merge(
        _bad_cells(source, cells, ranks),
        _blank_lines(source, cells, ranks),
        _empty_cells(source, cells, ranks, comms),
        _forbidden(source, cells, options),
        _large(source, cells),
        key=lambda d: d.marks[0].span.at,
    )
    if errors := list(islice(found, _SHOWN + 1)):
        if len(errors) > _SHOWN:
            errors[_SHOWN - 1 :] = [
                _with_detail(errors[_SHOWN - 1], "more errors follow in this file; the first 20 are shown")
            ]
        raise InputError(*errors)

    order = _order(source, cells, ranks)
    stages = count_stages(order)
    placement = placed(order, stages, ranks, options.placement)
    frozen = frozenset(range(stages)) if options.frozen == "all" else options.frozen
    if odd := sorted(s for s in frozen if not 0 <= s < stages):
        raise error(
            "IL204",
            f"stage {odd[0]} is declared frozen, and the file has stages 0 to {stages - 1}",
            help="name stages of the file as frozen",
        )
    return Program(
        ranks,
        count_microbatches(order, options.microbatches),
        tuple(Layer(f"stage{s}", trainable=s not in frozen) for s in range(stages)),
        tuple(Stage("stages", s, s + 1, rank=r) for s, r in enumerate(placement)),
        order,
        inserted=not comms,
        reductions_inserted=not comms,
        placeholders=True,
    )


def write(program: Program) -> str:
    """The CSV of a program, in PyTorch's spelling: compute-only if its transfers are inserted, else
    compute-comms. Raises NotExpressible.
    """
    return "".join(",".join(row) + "\n" for row in _rows(program))


def _rows(program: Program) -> Iterator[list[str]]:
    o = program.order
    expressible = np.isin(o.kind, [int(k) for k in WORDS.values()]) & (o.comm == 0)
    if not expressible.all():
        row = int(np.argmin(expressible))
        raise NotExpressible(f"a PyTorch CSV has no cell for `{program.show(row)}`", row)
    words = [_WORD_OF.get(k, "") for k in Kind]
    text = [
        f"{s}{words[k]}{m}" if m >= 0 else f"{s}{words[k]}"
        for k, s, m in zip(o.kind.tolist(), o.stage.tolist(), o.mb.tolist())
    ]
    for r in range(program.ranks):
        low, high = int(o.start[r]), int(o.start[r + 1])
        launched = np.flatnonzero(o.launch[low:high] >= 0) + low
        if not len(launched):
            yield text[low:high]
            continue
        row, done = [], low
        for _, group in groupby(launched.tolist(), key=lambda i: o.launch[i]):
            a, *rest = group
            if len(rest) != 1 or o.kind[a] not in _COMPUTE:
                raise NotExpressible("a PyTorch CSV has no cell for a grouped launch", a)
            row += text[done:a] + [f"({text[a]};{text[rest[0]]}{OVERLAP}"]
            done = rest[0] + 1
        yield row + text[done:high]


# -- what a file may be ------------------------------------------------------------------------------------------------


def _too_large() -> InputError:
    return error(
        "IL104",
        f"the file is larger than {MAX_BYTES >> 20} MiB",
        help="check a smaller member of the schedule's family, or prove the family with a skeleton",
    )


def _check_text(source: Source) -> None:
    text = source.text
    if len(text) > MAX_BYTES:
        raise _too_large()
    if (at := text.find("\0")) >= 0:
        raise error(
            "IL105",
            "the file is not text: it holds a NUL character",
            Span(source.base + at),
            "here",
            "save the schedule as plain text, comma-separated, in UTF-8 (not UTF-16)",
        )
    if text.count(",") + text.count("\n") > MAX_CELLS:
        raise error(
            "IL104",
            f"the file has more than {MAX_CELLS:,} cells",
            help="check a smaller member of the schedule's family, or prove the family with a skeleton",
        )


def _blank(cells: Cells) -> np.ndarray:
    """For every line whether nothing stands on it (a line of commas is a rank that does nothing)."""
    return (np.diff(cells.line) == 1) & (cells.kind[cells.line[:-1]] == EMPTY)


def _lines(cells: Cells) -> int:
    """The number of lines up to the last that is not blank; 0 for a file without any operation."""
    if (cells.kind == EMPTY).all():
        return 0
    return int(np.flatnonzero(~_blank(cells))[-1]) + 1


def _has_comms(cells: Cells) -> bool:
    return bool((_is_operation(cells) & ~np.isin(cells.kind, _COMPUTE)).any())


def _is_operation(cells: Cells) -> np.ndarray:
    return cells.kind < EMPTY


def _span(source: Source, cells: Cells, cell: int, last: int | None = None) -> Span:
    start, end = int(cells.start[cell]), int(cells.end[cell if last is None else last])
    return Span(source.base + start, max(end - start, 1))


def _with_detail(d: Finding, line: str) -> Finding:
    return replace(d, detail=(*d.detail, line))


def _bad_cells(source: Source, cells: Cells, ranks: int) -> Iterator[Finding]:
    text = source.text
    of = lambda cell: text[cells.start[cell] : cells.end[cell]]
    bad = np.flatnonzero(cells.kind == BAD)
    i = 0
    while i < len(bad):
        line = cells.line_of(int(bad[i]))
        low, high = int(cells.line[line]), int(cells.line[line + 1])
        j = int(np.searchsorted(bad, high))
        here = bad[i:j].tolist()
        i = j
        torn = (
            line == ranks - 1
            and here[-1] == high - 1
            and not text.endswith("\n")
            and looks_cut_off(of(here[-1]))
        )
        if (
            not torn
            and not ((cells.kind[low:high] < EMPTY) | (cells.kind[low:high] == PAIR)).any()
            and not any(looks_like_operation(of(cell)) for cell in here[:64])
        ):
            yield _no_rank(_span(source, cells, low, high - 1), line, of(low))
            continue
        for cell in here:
            span = _span(source, cells, cell)
            if torn and cell == here[-1]:
                yield Finding.of_input(
                    "IL110",
                    f"the last line stops in the middle of an operation: `{of(cell)}`",
                    (Mark(span, "the end of the file"),),
                    "the file looks cut off: write it out again, or end the line with a whole operation",
                )
            elif (index := too_large(of(cell), MAX_INDEX)) is not None:
                yield _too_large_index(span, index)
            else:
                cause, repair = explain(of(cell))
                yield Finding.of_input("IL108", cause, (Mark(span),), repair)


def _no_rank(span: Span, line: int, first: str) -> Finding:
    what = "a comment" if first.startswith(("#", "//")) else "a header" if line == 0 else "no operation"
    message = (
        f"line {line + 1} is {what}, not a rank"
        if what != "no operation"
        else f"line {line + 1} holds no operation, and every line is a rank"
    )
    return Finding.of_input(
        "IL109", message, (Mark(span),), "delete the line: the first line is rank 0, the second rank 1"
    )


def _blank_lines(source: Source, cells: Cells, ranks: int) -> Iterator[Finding]:
    for line in np.flatnonzero(_blank(cells)[:ranks]).tolist():
        yield Finding.of_input(
            "IL110",
            f"line {line + 1} is empty, and every line is a rank",
            (Mark(_span(source, cells, int(cells.line[line]))),),
            f"delete the line, or write the operations of rank {line} on it",
        )


def _empty_cells(source: Source, cells: Cells, ranks: int, comms: bool) -> Iterator[Finding]:
    """Bubbles of a compute-comms file, one diagnostic for each run of them."""
    if not comms:
        return
    empty = cells.kind[: cells.line[ranks]] == EMPTY
    empty[cells.line[:ranks][_blank(cells)[:ranks]]] = False  # a matter of `_blank_lines`
    first = empty.copy()
    first[1:] &= ~empty[:-1]
    first[cells.line[:ranks]] = empty[cells.line[:ranks]]
    for cell in np.flatnonzero(first).tolist():
        line_end = int(cells.line[cells.line_of(cell) + 1])
        length = int(np.argmin(empty[cell:line_end])) or line_end - cell
        last = cell + length - 1
        trailing = last == line_end - 1
        yield Finding.of_input(
            "IL110",
            f"{'an empty cell stands' if length == 1 else f'{length} empty cells stand'} in a compute-comms file",
            (Mark(_span(source, cells, cell, last)),),
            "delete the commas at the end of the line"
            if trailing
            else "delete the cell: only a compute-only file has cells for waiting",
        )


def _forbidden(source: Source, cells: Cells, options: CsvOptions) -> Iterator[Finding]:
    """Cells a file declared compute-only does not hold."""
    if options.format != "compute-only":
        return
    for cell in np.flatnonzero(_is_operation(cells) & ~np.isin(cells.kind, _COMPUTE)).tolist():
        kind = Kind(int(cells.kind[cell]))
        text = source.text[cells.start[cell] : cells.end[cell]]
        what = (
            "transfers are"
            if kind in TRANSFER
            else "the reduction is"
            if kind is Kind.REDUCE
            else "the sharding of weights is"
        )
        yield Finding.of_input(
            "IL108",
            f"`{text}` stands in a compute-only file",
            (Mark(_span(source, cells, cell)),),
            f"read the file as compute-comms, or delete the cell: in a compute-only file {what} put in by the runtime",
        )


def _large(source: Source, cells: Cells) -> Iterator[Finding]:
    large = (cells.kind < EMPTY) & (np.maximum(cells.stage, cells.mb) > MAX_INDEX)
    pairs = np.flatnonzero(cells.kind == PAIR)
    highest = cells.halves[:, (1, 2, 4, 5)].max(axis=1, initial=0)
    large[pairs[highest > MAX_INDEX]] = True
    for cell in np.flatnonzero(large).tolist():
        span = _span(source, cells, cell)
        text = source.text[cells.start[cell] : cells.end[cell]]
        yield _too_large_index(span, too_large(text, MAX_INDEX))


def _too_large_index(span: Span, index: int) -> Finding:
    return Finding.of_input(
        "IL104",
        f"the index {index} is above {MAX_INDEX:,}",
        (Mark(span),),
        "number stages and microbatches from 0, without gaps",
    )


# -- from cells to a program -------------------------------------------------------------------------------------------


def _order(source: Source, cells: Cells, ranks: int) -> Order:
    """One row a cell, two for an overlap, none for a bubble."""
    pair = cells.kind == PAIR
    rows = np.where(pair, 2, cells.kind != EMPTY).astype(np.int8)
    start = np.concatenate(([0], np.cumsum(rows, dtype=np.int64)))
    first = start[:-1][pair]  # the row of the first half of every overlap
    cell = np.repeat(np.arange(len(rows), dtype=np.int32), rows)
    kind, stage, mb = (column[cell] for column in (cells.kind, cells.stage, cells.mb))
    launch = np.full(len(cell), -1, np.int32)
    for half in (0, 1):
        kind[first + half], stage[first + half], mb[first + half] = cells.halves[:, 3 * half : 3 * half + 3].T
        launch[first + half] = np.arange(len(first))
    none = np.full(len(cell), -1, np.int32)
    at = cells.start[cell].astype(np.int64)
    width = (cells.end[cell] - at).astype(np.int32)
    return Order(
        start[cells.line[: ranks + 1]],
        kind,
        stage,
        mb,
        none,
        none,
        np.zeros(len(cell), np.int32),
        launch,
        at + source.base,
        width,
    )


def count_stages(order: Order) -> int:
    largest = int(order.stage.max())
    row = int(np.argmax(order.stage))
    span = Span(int(order.at[row]), int(order.width[row]))
    mentioned = np.bincount(order.stage, minlength=largest + 1) > 0
    if not mentioned.all():
        gap = int(np.argmin(mentioned))
        rest = np.flatnonzero(mentioned[gap:])
        missing = f"stage {gap}" if rest[0] == 1 else f"stages {gap} to {gap + int(rest[0]) - 1}"
        raise error(
            "IL204",
            f"no rank mentions {missing}, and the file goes up to stage {largest}",
            span,
            f"stage {largest}",
            f"correct the stage here, or add {missing}: stages are numbered from 0 without gaps",
        )
    if largest >= MAX_STAGES:
        raise error(
            "IL104",
            f"the file has {largest + 1:,} stages, and a schedule at most {MAX_STAGES:,}",
            span,
            "the last stage",
            "check a schedule of fewer stages",
        )
    return largest + 1


def placed(order: Order, stages: int, ranks: int, placement) -> list[int]:
    """The rank of every stage: as declared (`CsvOptions.placement`), else the one with most of its compute
    operations (ties: the lowest).
    """
    match placement:
        case "loop":
            return [s % ranks for s in range(stages)]
        case "vee":
            return [s % ranks if s // ranks % 2 == 0 else ranks - 1 - s % ranks for s in range(stages)]
        case tuple(declared):
            if len(declared) != stages:
                raise error(
                    "IL204",
                    f"the declared placement has {len(declared)} stages, and the file has {stages}",
                    help="declare one rank for each stage of the file",
                )
            if odd := [s for s, r in enumerate(declared) if not 0 <= r < ranks]:
                raise error(
                    "IL204",
                    f"the declared placement puts stage {odd[0]} on rank {declared[odd[0]]}, and the file has ranks 0 to {ranks - 1}",
                    help="declare ranks of the file: a line is a rank",
                )
            return list(declared)
    rank = np.repeat(np.arange(ranks), np.diff(order.start))
    pair, where, mentions = np.unique(
        order.stage.astype(np.int64) * ranks + rank, return_inverse=True, return_counts=True
    )
    compute = np.bincount(where, weights=np.isin(order.kind, _COMPUTE), minlength=len(pair)).astype(np.int64)
    best = np.lexsort((pair % ranks, -mentions, -compute, pair // ranks))
    stage = pair[best] // ranks
    return (pair[best][np.append(True, stage[1:] != stage[:-1])] % ranks).tolist()


def count_microbatches(order: Order, declared: int | None) -> int:
    """The most microbatches one stage runs forward: a wrong index among them is then out of range, not one
    more microbatch.
    """
    if declared is not None:
        if not 1 <= declared <= MAX_INDEX:
            raise error("IL104", f"{declared} microbatches are declared", help=f"declare 1 to {MAX_INDEX:,}")
        return declared
    for rows in (order.kind == Kind.F, np.isin(order.kind, [int(k) for k in WITH_MICROBATCH])):
        if rows.any():
            pairs = np.sort(
                order.stage[rows].astype(np.int64) << 32 | order.mb[rows]
            )  # much faster than np.unique
            return int(np.bincount(pairs[np.append(True, pairs[1:] != pairs[:-1])] >> 32).max())
    return 1
