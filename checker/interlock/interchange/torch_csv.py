"""PyTorch schedule CSVs <-> programs (spec/interchange.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np

from interlock.interchange.cells import EMPTY, OVERLAP, PAIR, WORDS, Cells, scan
from interlock.interchange.csv_faults import CsvText, check_cells, check_size, check_text
from interlock.interchange.importer import NO_CSV_OPTIONS, CsvOptions, Imported
from interlock.interchange.placement import MAX_RANKS, count_microbatches, count_stages, place_stages
from interlock.program.ir import Layer, Order, Program, Stage
from interlock.program.kinds import COMPUTE, Kind
from interlock.text.finding import error
from interlock.text.source import Source

_WORD_OF = {kind: word for word, kind in WORDS.items()}


class NotExpressible(ValueError):
    """The program has something the format has no text for; `row` is the first such operation (-1: none)."""

    def __init__(self, message: str, row: int = -1):
        super().__init__(message)
        self.row = row


def decode(data: bytes) -> str:
    """The text of a file. Raises IL104, IL105."""
    check_size(len(data))
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as e:
        line = data.count(b"\n", 0, e.start) + 1
        raise error(
            "IL105",
            f"the file is not text: byte {e.start}, in line {line}, is not UTF-8",
            help="save the schedule as plain text, comma-separated, in UTF-8",
        ) from None


def read(source: Source, options: CsvOptions = NO_CSV_OPTIONS) -> Program:
    """The program a CSV describes.

    Raises InputError with up to 20 places (IL104, IL105, IL106, IL108, IL109, IL110, IL204).
    """
    check_text(source)
    csv = CsvText(source, scan(source.text))
    ranks = csv.ranks
    _check_ranks(csv, ranks)
    written = options.format == "compute-comms"
    written |= options.format == "auto" and bool(csv.other_than_compute.any())
    check_cells(csv, written, options.format == "compute-only")

    order = _read_order(source, csv.cells, ranks)
    stages = count_stages(order)
    placement = place_stages(order, stages, ranks, options.placement)
    frozen = _find_frozen(options, stages)
    return Program(
        ranks,
        count_microbatches(order, options.microbatches),
        tuple(Layer(f"stage{s}", trainable=s not in frozen) for s in range(stages)),
        tuple(Stage("stages", s, s + 1, rank=r) for s, r in enumerate(placement)),
        order,
        inserted=not written,
        reductions_inserted=not written,
        placeholders=True,
    )


def _check_ranks(csv: CsvText, ranks: int) -> None:
    if not ranks:
        raise error(
            "IL106", "the file holds no operation", help="write one line for each rank: `0F0,0B0`, say"
        )
    if ranks > MAX_RANKS:
        raise error(
            "IL104",
            f"the file has {ranks} lines, and a schedule at most {MAX_RANKS} ranks",
            csv.span(int(csv.cells.line[MAX_RANKS])),
            "a rank too many",
            "a line is a rank, not a step: transpose the table if steps are its lines",
        )


def _find_frozen(options: CsvOptions, stages: int) -> frozenset[int]:
    """The frozen stages. Raises IL204."""
    frozen = frozenset(range(stages)) if options.frozen == "all" else options.frozen
    outside = sorted(s for s in frozen if not 0 <= s < stages)
    if outside:
        raise error(
            "IL204",
            f"stage {outside[0]} is declared frozen, and the file has stages 0 to {stages - 1}",
            help="name stages of the file as frozen",
        )
    return frozen


def _read_order(source: Source, cells: Cells, ranks: int) -> Order:
    """One row a cell, two for an overlap, none for a bubble."""
    pair = cells.kind == PAIR
    rows = np.where(pair, 2, cells.kind != EMPTY).astype(np.int8)
    start = np.concatenate(([0], np.cumsum(rows, dtype=np.int64)))
    first = start[:-1][pair]  # the row of the first half of every overlap
    cell = np.repeat(np.arange(len(rows), dtype=np.int32), rows)
    kind, stage, mb = (column[cell] for column in (cells.kind, cells.stage, cells.mb))
    launch = np.full(len(cell), -1, np.int32)
    for half in range(2):
        kind[first + half], stage[first + half], mb[first + half] = cells.halves[:, half].T
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


def write(program: Program) -> str:
    """The CSV of a program, in PyTorch's spelling.

    Compute-only if its transfers are inserted, else compute-comms. Raises NotExpressible.
    """
    return "".join(",".join(cells) + "\n" for cells in _write_ranks(program))


def _write_ranks(program: Program) -> Iterator[list[str]]:
    """The cells of each rank."""
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
        launched = (np.flatnonzero(o.launch[low:high] >= 0) + low).tolist()
        cells: list[str] = []
        done = low
        for _, group in groupby(launched, key=o.launch.__getitem__):
            first, *rest = group
            if len(rest) != 1 or Kind(int(o.kind[first])) not in COMPUTE:
                raise NotExpressible("a PyTorch CSV has no cell for a grouped launch", first)
            [second] = rest
            cells += text[done:first] + [f"({text[first]};{text[second]}{OVERLAP}"]
            done = second + 1
        yield cells + text[done:high]


class CsvImporter:
    companions: tuple[str, ...] = ()

    def decode(self, data: bytes) -> str:
        return decode(data)

    def read(self, source: Source, options: CsvOptions, companions: Sequence[Source | None]) -> Imported:
        return Imported(read(source, options))


IMPORTER = CsvImporter()
