"""Text of a schedule CSV -> columns of numbers, without a Python object a cell.

A place here is an index into the text. Whether a text that is no operation is a typo, a header or a torn line
is said by `bad_cell`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from interlock.program.facts import HAS_MICROBATCH
from interlock.program.kinds import Kind

WORDS = {
    "F": Kind.F,
    "B": Kind.B,
    "I": Kind.I,
    "W": Kind.W,
    "SEND_F": Kind.SEND_F,
    "RECV_F": Kind.RECV_F,
    "SEND_B": Kind.SEND_B,
    "RECV_B": Kind.RECV_B,
    "UNSHARD": Kind.UNSHARD,
    "RESHARD": Kind.RESHARD,
    "REDUCE_GRAD": Kind.REDUCE,
}
OVERLAP = ")OVERLAP_F_B"
EMPTY, BAD, PAIR = 253, 254, 255  # besides the values of Kind, in Cells.kind

_MAX_DIGITS = 9  # one more than the largest index needs; fits 32 bits
_BLOCK = 1 << 16  # cells scanned at a time: the columns stay in the cache


@dataclass(frozen=True)
class Cells:
    """The cells of a text in order.

    `line[i]` is the first cell of line i (0-based), with one more entry at the end.

    `start`, `end`: the cell without blanks around it. `kind`: of `Kind`, or EMPTY, BAD, PAIR. An overlap
    (PAIR) has its two operations in `halves`, in order: [overlaps, 2, (kind, stage, mb)].
    """

    start: np.ndarray
    end: np.ndarray
    line: np.ndarray
    kind: np.ndarray
    stage: np.ndarray
    mb: np.ndarray
    halves: np.ndarray

    @property
    def half_places(self) -> np.ndarray:
        """Stage and microbatch of the halves of overlaps."""
        return self.halves[:, :, 1:]

    def line_of(self, cell: int) -> int:
        return int(np.searchsorted(self.line, cell, side="right")) - 1


def scan(text: str) -> Cells:
    """Linear in time and memory, whatever the text. Expects no NUL."""
    text = text.replace("\r\n", " \n")  # same length: places stay
    if text.startswith("\ufeff"):
        text = " " + text[1:]
    chars = np.frombuffer(text.encode("latin-1", "replace") + bytes(16), dtype=np.uint8)
    cut = np.flatnonzero((chars == ord(",")) | (chars == ord("\n")))
    end = cut if text.endswith("\n") else np.append(cut, len(text))
    start = np.empty_like(end)
    start[:1], start[1:] = 0, end[:-1] + 1
    newline = chars[end] == ord("\n")
    newline[-1:] = True
    line = np.append(0, np.flatnonzero(newline) + 1)
    end = end.copy()
    _strip(text, chars, start, end)

    n = len(start)
    kind, stage, mb = np.empty(n, np.uint8), np.empty(n, np.int32), np.empty(n, np.int32)
    halves = [np.empty((0, 2, 3), np.int32)]
    for low in range(0, n, _BLOCK):
        part = slice(low, low + _BLOCK)
        kind[part], stage[part], mb[part] = _operations(chars, start[part], end[part])
        pairs, found = _overlaps(chars, start[part], end[part])
        kind[low + pairs] = PAIR
        halves.append(found)
    kind[start == end] = EMPTY
    return Cells(start, end, line, kind, stage, mb, np.concatenate(halves))


def _strip(text: str, chars: np.ndarray, start: np.ndarray, end: np.ndarray) -> None:
    """Moves `start` and `end` over blanks, in place."""
    blank = np.zeros(256, dtype=bool)
    blank[[ord(" "), ord("\t")]] = True
    for edge, step, offset in ((end, -1, -1), (start, 1, 0)):  # `end` first: an empty cell stays at its comma
        rows = np.flatnonzero(blank[chars[edge + offset]] & (start < end))
        for _ in range(64):
            if not len(rows):
                break
            edge[rows] += step
            rows = rows[blank[chars[edge[rows] + offset]] & (start[rows] < end[rows])]
        for row in rows.tolist():  # a long run of blanks
            cell = text[start[row] : end[row]]
            edge[row] = (
                start[row] + len(cell) - len(cell.lstrip(" \t"))
                if step > 0
                else start[row] + len(cell.rstrip(" \t"))
            )


def _operations(
    chars: np.ndarray, start: np.ndarray, end: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Kind, stage and microbatch (-1: none) of the texts [start, end); kind BAD where the text is no
    operation.
    """
    n = len(start)
    stage, word = np.zeros(n, np.int32), start.copy()
    run = np.ones(n, dtype=bool)
    for _ in range(_MAX_DIGITS):
        digit = chars[word] - np.uint8(48)  # wraps: above 9 for anything but a digit
        run &= (digit <= 9) & (word < end)
        if not run.any():
            break
        stage = np.where(run, stage * 10 + digit, stage)
        word += run

    mb, stop = np.zeros(n, np.int32), end.copy()
    run[:] = True
    for power in range(_MAX_DIGITS):
        digit = chars[stop - 1] - np.uint8(48)
        run &= (digit <= 9) & (stop > word)
        if not run.any():
            break
        mb += np.where(run, digit, 0) * np.int32(10**power)
        stop -= run

    kind = _words(chars, word, stop - word)
    leading_zero = (chars[start] == ord("0")) & (word - start > 1)
    leading_zero |= (chars[stop] == ord("0")) & (end - stop > 1)
    good = (word > start) & ~leading_zero & (HAS_MICROBATCH[kind] == (stop < end))
    kind[~good] = BAD
    mb[stop == end] = -1
    return kind, stage, mb


def _words(chars: np.ndarray, at: np.ndarray, length: np.ndarray) -> np.ndarray:
    """The Kind each word names, BAD for a word that names none."""
    kind = np.full(len(at), BAD, dtype=np.uint8)
    for size in sorted({len(w) for w in WORDS}):
        rows = np.flatnonzero(length == size)
        if not len(rows):
            continue
        words = np.ascontiguousarray(chars[at[rows, None] + np.arange(size)]).view(f"S{size}").ravel()
        found = kind[rows]
        for word, value in WORDS.items():
            if len(word) == size:
                found[words == word.encode()] = value
        kind[rows] = found
    return kind


def _overlaps(chars: np.ndarray, start: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The texts that read `(0F7;7B3)OVERLAP_F_B`, one F and one of B, I, W in either order; and their
    halves.
    """
    size = len(OVERLAP)
    rows = np.flatnonzero((chars[start] == ord("(")) & (end - start > size))
    if len(rows):
        tail = np.ascontiguousarray(chars[end[rows, None] - size + np.arange(size)]).view(f"S{size}").ravel()
        rows = rows[tail == OVERLAP.encode()]
    if not len(rows):
        return rows, np.empty((0, 2, 3), np.int32)
    first, last = start[rows[0]], end[rows[-1]]
    semicolon = np.append(np.flatnonzero(chars[first:last] == ord(";")) + first, [last, last])
    i = np.searchsorted(semicolon, start[rows])
    middle, after = semicolon[i], semicolon[i + 1]
    one = (middle < end[rows]) & (after >= end[rows])  # exactly one semicolon
    rows, middle = rows[one], middle[one]
    left = _operations(chars, start[rows] + 1, middle)
    right = _operations(chars, middle + 1, end[rows] - size)
    halves = np.stack([np.stack(half, axis=1).astype(np.int32) for half in (left, right)], axis=1)
    before, behind = halves[:, 0, 0], halves[:, 1, 0]  # their kinds
    good = (before == Kind.F) & _is_backward(behind) | _is_backward(before) & (behind == Kind.F)
    return rows[good], halves[good]


def _is_backward(kind: np.ndarray) -> np.ndarray:
    return (kind >= Kind.B) & (kind <= Kind.W)
