"""Repeats written out: `0F0..3` and `(1F4 1B0) .. (1F15 1B11)` to the operations they stand for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from interlock.language.ast import Item, Launch, Op, Overlap, Repeat
from interlock.text.finding import error

MAX_OPERATIONS = 20_000_000


def count_operations(items: Iterable[Item]) -> int:
    """How many operations the items stand for, without writing them out."""
    total = 0
    for item in items:
        match item:
            case Op():
                total += 1
            case Repeat():
                total += item.times * count_operations(item.first)
            case Launch() | Overlap():
                total += count_operations(item.items)
    return total


def expand(items: tuple[Item, ...]) -> Iterator[Op | Launch | Overlap]:
    """The items in order without Repeats, one after the other. Raises InputError (IL104) before the first one
    if there are too many.
    """
    total = count_operations(items)
    if total > MAX_OPERATIONS:
        widest = max(items, key=lambda item: count_operations((item,)))
        raise error(
            "IL104",
            f"{total:,} operations are too many",
            widest.span,
            "here",
            f"the most a file may list is {MAX_OPERATIONS:,}; a skeleton has no such limit",
        )
    return _expand(items)


def _expand(items: tuple[Item, ...]) -> Iterator[Op | Launch | Overlap]:
    for item in items:
        match item:
            case Op() | Overlap():
                yield item
            case Launch():
                yield Launch(tuple(_expand(item.items)), item.span)
            case Repeat():
                for k in range(item.times):
                    for first, last in zip(item.first, item.last):
                        yield _advance(first, last, k)


def _advance(first, last, k: int):
    """`first` with every index that differs from that of `last` advanced by k."""
    if isinstance(first, Op):
        return Op(
            first.kind,
            first.span,
            first.stage + k * (first.stage != last.stage),
            first.mb + k * (first.mb != last.mb),
            first.peer + k * (first.peer != last.peer),
            first.name,
            first.comm,
        )
    return type(first)(tuple(_advance(a, b, k) for a, b in zip(first.items, last.items)), first.span)
