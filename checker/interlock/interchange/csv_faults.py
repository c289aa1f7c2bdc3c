"""What is wrong with a schedule CSV as a text: each function yields its findings in the order of the file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import merge
from itertools import islice

import numpy as np

from interlock.interchange.bad_cell import explain, find_large_index, looks_cut_off, looks_like_operation
from interlock.interchange.cells import BAD, EMPTY, PAIR, Cells
from interlock.interchange.placement import MAX_INDEX
from interlock.program.kinds import COMPUTE, TRANSFER, Kind
from interlock.text.finding import Finding, InputError, Mark, error
from interlock.text.source import Source, Span

MAX_BYTES = 64 << 20
MAX_CELLS = 20_000_000
_SHOWN = 20  # errors reported in one run
_LOOKED_AT = 64  # cells of a line that may be a header
_COMPUTE = [int(k) for k in COMPUTE]
_SMALLER = "check a smaller member of the schedule's family, or prove the family with a skeleton"


@dataclass(frozen=True)
class CsvText:
    """A CSV and its cells. ranks: lines up to the last that is not blank; 0 for a file without any
    operation.
    """

    source: Source
    cells: Cells

    @cached_property
    def ranks(self) -> int:
        if (self.cells.kind == EMPTY).all():
            return 0
        return int(np.flatnonzero(~self.blank)[-1]) + 1

    @cached_property
    def blank(self) -> np.ndarray:
        """For every line whether nothing stands on it (a line of commas is a rank that does nothing)."""
        return (np.diff(self.cells.line) == 1) & (self.cells.kind[self.cells.line[:-1]] == EMPTY)

    @cached_property
    def other_than_compute(self) -> np.ndarray:
        """For every cell whether it is an operation that is not compute: no overlap is."""
        return (self.cells.kind < EMPTY) & ~np.isin(self.cells.kind, _COMPUTE)

    def text(self, cell: int) -> str:
        return self.source.text[self.cells.start[cell] : self.cells.end[cell]]

    def span(self, cell: int, last: int | None = None) -> Span:
        start, end = int(self.cells.start[cell]), int(self.cells.end[cell if last is None else last])
        return Span(self.source.base + start, max(end - start, 1))


def check_text(source: Source) -> None:
    """Raises IL104, IL105."""
    text = source.text
    check_size(len(text))
    if (at := text.find("\0")) >= 0:
        raise error(
            "IL105",
            "the file is not text: it holds a NUL character",
            Span(source.base + at),
            "here",
            "save the schedule as plain text, comma-separated, in UTF-8 (not UTF-16)",
        )
    if text.count(",") + text.count("\n") > MAX_CELLS:
        raise error("IL104", f"the file has more than {MAX_CELLS:,} cells", help=_SMALLER)


def check_size(size: int) -> None:
    """Of a file, in bytes, or of its text. Raises IL104."""
    if size > MAX_BYTES:
        raise error("IL104", f"the file is larger than {MAX_BYTES >> 20} MiB", help=_SMALLER)


def check_cells(csv: CsvText, with_transfers: bool, compute_only: bool) -> None:
    """`with_transfers`: the file is compute-comms; `compute_only`: it is declared not to be.

    Raises InputError with up to 20 places (IL104, IL108, IL109, IL110).
    """
    found = merge(
        _bad_cells(csv),
        _blank_lines(csv),
        _bubbles(csv) if with_transfers else (),
        _transfers(csv) if compute_only else (),
        _large_indices(csv),
        key=_place,
    )
    errors = list(islice(found, _SHOWN + 1))
    if len(errors) > _SHOWN:
        *shown, last, _ = errors
        more = "more errors follow in this file; the first 20 are shown"
        errors = [*shown, replace(last, detail=(*last.detail, more))]
    if errors:
        raise InputError(*errors)


def _place(finding: Finding) -> int:
    return finding.marks[0].span.at


def _bad_cells(csv: CsvText) -> Iterator[Finding]:
    cells = csv.cells
    bad = np.flatnonzero(cells.kind == BAD)
    i = 0
    while i < len(bad):
        line = cells.line_of(int(bad[i]))
        j = int(np.searchsorted(bad, cells.line[line + 1]))
        here = bad[i:j].tolist()
        i = j
        torn = _is_torn(csv, line, here[-1])
        if not torn and _is_no_rank(csv, line, here):
            yield _explain_line(csv, line)
            continue
        for cell in here:
            yield _explain_end(csv, cell) if torn and cell == here[-1] else _explain_cell(csv, cell)


def _is_torn(csv: CsvText, line: int, last_bad: int) -> bool:
    """Whether the file ends in the middle of an operation."""
    at_end = line == csv.ranks - 1 and last_bad == csv.cells.line[line + 1] - 1
    return at_end and not csv.source.text.endswith("\n") and looks_cut_off(csv.text(last_bad))


def _is_no_rank(csv: CsvText, line: int, bad: list[int]) -> bool:
    """Whether no cell of a line is an operation, and none looks like one."""
    kind = csv.cells.kind[int(csv.cells.line[line]) : int(csv.cells.line[line + 1])]
    if ((kind < EMPTY) | (kind == PAIR)).any():
        return False
    return not any(looks_like_operation(csv.text(cell)) for cell in bad[:_LOOKED_AT])


def _explain_line(csv: CsvText, line: int) -> Finding:
    first, last = int(csv.cells.line[line]), int(csv.cells.line[line + 1]) - 1
    if csv.text(first).startswith(("#", "//")):
        message = f"line {line + 1} is a comment, not a rank"
    elif line == 0:
        message = f"line {line + 1} is a header, not a rank"
    else:
        message = f"line {line + 1} holds no operation, and every line is a rank"
    help = "delete the line: the first line is rank 0, the second rank 1"
    return Finding.of_input("IL109", message, (Mark(csv.span(first, last)),), help)


def _explain_end(csv: CsvText, cell: int) -> Finding:
    return Finding.of_input(
        "IL110",
        f"the last line stops in the middle of an operation: `{csv.text(cell)}`",
        (Mark(csv.span(cell), "the end of the file"),),
        "the file looks cut off: write it out again, or end the line with a whole operation",
    )


def _explain_cell(csv: CsvText, cell: int) -> Finding:
    index = find_large_index(csv.text(cell), MAX_INDEX)
    if index is not None:
        return _explain_index(csv.span(cell), index)
    cause, repair = explain(csv.text(cell))
    return Finding.of_input("IL108", cause, (Mark(csv.span(cell)),), repair)


def _blank_lines(csv: CsvText) -> Iterator[Finding]:
    for line in np.flatnonzero(csv.blank[: csv.ranks]).tolist():
        yield Finding.of_input(
            "IL110",
            f"line {line + 1} is empty, and every line is a rank",
            (Mark(csv.span(int(csv.cells.line[line]))),),
            f"delete the line, or write the operations of rank {line} on it",
        )


def _bubbles(csv: CsvText) -> Iterator[Finding]:
    """Empty cells of a compute-comms file, one finding for each run of them."""
    line = csv.cells.line
    begins = line[: csv.ranks]
    empty = csv.cells.kind[: line[csv.ranks]] == EMPTY
    empty[begins[csv.blank[: csv.ranks]]] = False  # a matter of `_blank_lines`
    first = empty.copy()
    first[1:] &= ~empty[:-1]
    first[begins] = empty[begins]
    for cell in np.flatnonzero(first).tolist():
        line_end = int(line[csv.cells.line_of(cell) + 1])
        length = int(np.argmin(empty[cell:line_end])) or line_end - cell
        last = cell + length - 1
        what = "an empty cell stands" if length == 1 else f"{length} empty cells stand"
        yield Finding.of_input(
            "IL110",
            f"{what} in a compute-comms file",
            (Mark(csv.span(cell, last)),),
            "delete the commas at the end of the line"
            if last == line_end - 1
            else "delete the cell: only a compute-only file has cells for waiting",
        )


def _transfers(csv: CsvText) -> Iterator[Finding]:
    """Cells that a file declared compute-only does not hold."""
    for cell in np.flatnonzero(csv.other_than_compute).tolist():
        kind = Kind(int(csv.cells.kind[cell]))
        if kind in TRANSFER:
            what = "transfers are"
        elif kind is Kind.REDUCE:
            what = "the reduction is"
        else:
            what = "the sharding of weights is"
        yield Finding.of_input(
            "IL108",
            f"`{csv.text(cell)}` stands in a compute-only file",
            (Mark(csv.span(cell)),),
            "read the file as compute-comms, or delete the cell: "
            f"in a compute-only file {what} put in by the runtime",
        )


def _large_indices(csv: CsvText) -> Iterator[Finding]:
    cells = csv.cells
    large = (cells.kind < EMPTY) & (np.maximum(cells.stage, cells.mb) > MAX_INDEX)
    highest = cells.half_places.max(axis=(1, 2), initial=0)
    large[np.flatnonzero(cells.kind == PAIR)[highest > MAX_INDEX]] = True
    for cell in np.flatnonzero(large).tolist():
        index = find_large_index(csv.text(cell), MAX_INDEX)
        assert index is not None
        yield _explain_index(csv.span(cell), index)


def _explain_index(span: Span, index: int) -> Finding:
    return Finding.of_input(
        "IL104",
        f"the index {index} is above {MAX_INDEX:,}",
        (Mark(span),),
        "number stages and microbatches from 0, without gaps",
    )
