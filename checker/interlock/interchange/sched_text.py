"""A program with its orders written out -> a `.sched` file (spec/language.md, orders and traces)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import numpy as np

from ..program.ir import COMPUTE, WITH_STAGE, Kind, Program
from .torch_csv import NotExpressible

_COLUMNS = 100
_COMPUTE = frozenset(int(k) for k in COMPUTE)


def to_sched(program: Program, name: str, expect: str | None = None) -> str:
    """The `.sched` text of a program without sizes, modalities and named payloads, as importers make them.

    `expect` is the rest of an expect line (`valid under buffered`). Raises NotExpressible.
    """
    _check(program)
    frozen = [s for s, stage in enumerate(program.stages) if not program.layers[stage.first].trainable]
    lines = [f"schedule {_identifier(name)} {{", f"  ranks {program.ranks}", f"  microbatches {program.microbatches}", "", "  place {"]
    placed: dict[int, list[int]] = {}
    for s, stage in enumerate(program.stages):
        placed.setdefault(stage.rank, []).append(s)
    for r in sorted(placed):
        lines += _wrapped(f"    rank {r}:", _with_commas(_ranges(placed[r])))
    lines += ["  }"]
    if frozen:
        lines += _wrapped("  freeze stage", _with_commas(_ranges(frozen)))
    lines += ["", f"  order transfers {'inserted' if program.inserted else 'written'} {{"]
    for r in range(program.ranks):
        lines += _wrapped(f"    rank {r}:", _items(program, r))
    lines += ["  }"]
    if expect is not None:
        lines += ["", f"  expect {expect}"]
    return "\n".join([*lines, "}", ""])


def _check(program: Program) -> None:
    o = program.order
    fits = np.isin(o.kind, [int(k) for k in WITH_STAGE]) & (o.comm == 0)
    if not fits.all():
        row = int(np.argmin(fits))
        raise NotExpressible(f"`{program.show(row)}` cannot be written by the importer", row)
    if program.memory or program.ties or program.fragment or any(s.replicated or s.last - s.first != 1 for s in program.stages):
        raise NotExpressible("only a program of stages of one layer each, without memory, ties and replicated stages, is written out")


def _items(program: Program, rank: int) -> Iterator[str]:
    """Operations of a rank; consecutive microbatches of one kind and stage as `0F0..3`."""
    o = program.order
    rows = slice(int(o.start[rank]), int(o.start[rank + 1]))
    kind, stage, mb, launch = (c[rows].tolist() for c in (o.kind, o.stage, o.mb, o.launch))
    names = [k.name for k in Kind]
    i, n = 0, len(kind)
    while i < n:
        j = i + 1
        if launch[i] >= 0:
            while j < n and launch[j] == launch[i]:
                j += 1
            inner = " ".join(_op(names[kind[k]], stage[k], mb[k]) for k in range(i, j))
            yield f"overlap({inner})" if kind[i] in _COMPUTE else f"{{ {inner} }}"
        else:
            while j < n and mb[i] >= 0 and launch[j] < 0 and kind[j] == kind[i] and stage[j] == stage[i] and mb[j] == mb[i] + j - i:
                j += 1
            text = _op(names[kind[i]], stage[i], mb[i])
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
            out += [str(k) for k in numbers[i:j + 1]]
        i = j + 1
    return out


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


def _identifier(name: str) -> str:
    word = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_")
    return word if word[:1].isalpha() else f"schedule_{word}".rstrip("_")
