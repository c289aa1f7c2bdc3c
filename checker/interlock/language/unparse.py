"""A program with its orders written out -> a `.sched` file (spec/language.md, orders and traces)."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from interlock.program.ir import Program
from interlock.program.kinds import COMPUTE, WITH_STAGE, Kind

_COLUMNS = 100
_COMPUTE = frozenset(int(k) for k in COMPUTE)
_NAMED = [int(k) for k in (Kind.SEND, Kind.RECV, Kind.WAIT, Kind.COLL, Kind.STEP)]


class UnparseError(ValueError):
    """A program that `.sched` text of this form cannot say; `row`: the operation, -1 where it is not one."""

    def __init__(self, message: str, row: int = -1):
        super().__init__(message)
        self.row = row


def to_sched(program: Program, name: str, expect: str | None = None, comments: Sequence[str] = ()) -> str:
    """The `.sched` text of a program without sizes and modalities, as importers make them.

    `expect` is the rest of an expect line (`valid under buffered`), `comments` stand in front. Raises
    UnparseError.
    """
    _check(program)
    frozen = [s for s, stage in enumerate(program.stages) if not program.layers[stage.first].trainable]
    lines = wrap_comments(comments)
    lines += [
        f"schedule {make_identifier(name)} {{",
        f"  ranks {program.ranks}",
        f"  microbatches {program.microbatches}",
        "",
        "  place {",
    ]
    placed: dict[int, list[int]] = {}
    for s, stage in enumerate(program.stages):
        if stage.replicated:
            lines += _wrapped(f"    replicated {s}: owner", _listed(stage.owner))
        else:
            placed.setdefault(stage.rank, []).append(s)
    for r in sorted(placed):
        lines += _wrapped(f"    rank {r}:", _with_commas(_ranges(placed[r])))
    lines += ["  }"]
    if frozen:
        lines += _wrapped("  freeze stage", _with_commas(_ranges(frozen)))
    for c in program.communicators[1:]:
        lines += _wrapped(f"  communicator {c.name} = ranks", _with_commas(_ranges(list(c.ranks))))

    def mode(inserted):
        return "inserted" if inserted else "written"

    reductions = (
        f" reductions {mode(program.reductions_inserted)}"
        if program.reductions_inserted != program.inserted
        else ""
    )
    lines += ["", f"  order transfers {mode(program.inserted)}{reductions} {{"]
    for r in range(program.ranks):
        lines += _wrapped(f"    rank {r}:", _items(program, r))
    lines += ["  }"]
    if expect is not None:
        lines += ["", f"  expect {expect}"]
    return "\n".join([*lines, "}", ""])


def wrap_comments(comments: Iterable[str]) -> list[str]:
    """Comment lines of at most 100 columns."""
    return [
        f"# {line}"
        for text in comments
        for line in textwrap.wrap(text, _COLUMNS - 2, break_long_words=False, break_on_hyphens=False)
    ]


def _check(program: Program) -> None:
    o = program.order
    fits = np.isin(o.kind, [int(k) for k in WITH_STAGE]) & (o.comm == 0) | np.isin(o.kind, _NAMED)
    if not fits.all():
        row = int(np.argmin(fits))
        raise UnparseError(f"`{program.show(row)}` cannot be written by the importer", row)
    if (
        program.memory
        or program.ties
        or program.fragment
        or any(s.last - s.first != 1 for s in program.stages)
    ):
        raise UnparseError(
            "only a program of stages of one layer each, without memory and ties, is written out"
        )


def _items(program: Program, rank: int) -> Iterator[str]:
    """Operations of a rank; consecutive microbatches of one kind and stage as `0F0..3`."""
    o = program.order
    rows = slice(int(o.start[rank]), int(o.start[rank + 1]))
    kind, stage, mb, launch = (c[rows].tolist() for c in (o.kind, o.stage, o.mb, o.launch))
    names = [k.name for k in Kind]

    def write(k):
        return _op(names[kind[k]], stage[k], mb[k]) if stage[k] >= 0 else program.show(rows.start + k)

    i, n = 0, len(kind)
    while i < n:
        j = i + 1
        if launch[i] >= 0:
            while j < n and launch[j] == launch[i]:
                j += 1
            inner = " ".join(map(write, range(i, j)))
            yield f"overlap({inner})" if kind[i] in _COMPUTE else f"{{ {inner} }}"
        else:
            while (
                j < n
                and mb[i] >= 0
                and launch[j] < 0
                and kind[j] == kind[i]
                and stage[j] == stage[i]
                and mb[j] == mb[i] + j - i
            ):
                j += 1
            text = write(i)
            yield text if j == i + 1 else f"{text}..{mb[j - 1]}"
        i = j


def _op(kind: str, stage: int, mb: int) -> str:
    return f"{stage}{kind}{mb}" if mb >= 0 else f"{stage}{kind}"


def _ranges(numbers: list[int]) -> list[str]:
    """Ascending numbers, runs of three or more as `a..b`."""
    out, i = [], 0
    while i < len(numbers):
        j = i
        while j + 1 < len(numbers) and numbers[j + 1] == numbers[j] + 1:
            j += 1
        if j - i >= 2:
            out.append(f"{numbers[i]}..{numbers[j]}")
        else:
            out += [str(k) for k in numbers[i : j + 1]]
        i = j + 1
    return out


def _listed(numbers: Sequence[int]) -> list[str]:
    words = _with_commas([str(n) for n in numbers])
    return [f"[{words[0]}", *words[1:-1], f"{words[-1]}]"] if len(words) > 1 else [f"[{words[0]}]"]


def _with_commas(words: list[str]) -> list[str]:
    return [w + "," for w in words[:-1]] + words[-1:]


def _wrapped(head: str, words: Iterable[str]) -> Iterator[str]:
    """Lines of at most 100 columns; a continuation stands under the first word."""
    line, indent = head, " " * (len(head) + 1)
    for word in words:
        if len(line) + 1 + len(word) > _COLUMNS and line.strip() and line != head:
            yield line
            line = indent + word
        else:
            line += f" {word}"
    yield line


def make_identifier(name: str) -> str:
    word = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_")[:100]
    return word if word[:1].isalpha() else f"schedule_{word}".rstrip("_")
