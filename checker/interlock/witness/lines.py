"""The picture of a deadlock: the line of each rank up to where it stops, and who waits for whom."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from interlock.program.facts import IS_TRANSFER
from interlock.program.ir import Kind, Program
from interlock.witness.story import name
from interlock.witness.walk import Leg, legs

MOST_RANKS = 8  # lines of ranks, and of arrows
MOST_AFTER = 400  # operations looked at beyond the point where a rank stops
MOST_BEFORE = 60  # and before it
ROOM_BEFORE = 14  # columns kept for what came before the bar


@dataclass(frozen=True)
class Token:
    text: str
    marked: bool


def picture(program: Program, done: Iterable[int], walk, width: int, *, box: bool = False) -> list[str]:
    """Lines of at most `width` columns where the operations' names allow it.

    `done`: the rows that ended (the executor's Run.done, or the rows that have a time). A rank's line: what
    is done, a bar, what is not, up
    to the last operation of the walk; `[ ]` on the walk, `( )` done although it is listed behind the bar.
    `box`: box-drawing characters.
    """
    circle = legs(program, walk)
    if not circle:
        return []
    ended = _ended(program, done)
    on_walk = {int(n) for a, _, b in walk for what, n in (a, b) if what == "op"}
    ranks = sorted({leg.rank for leg in circle})
    shown = (
        ranks
        if len(ranks) <= MOST_RANKS
        else sorted({leg.rank for leg in circle[: MOST_RANKS - 1]} | {circle[-1].rank})
    )
    bar, arrow = ("┃", "─▶") if box else ("|", "-->")
    digits = len(str(max(shown)))
    lines = [_line(program, r, ended, on_walk, bar, f"rank {r:>{digits}}  ", width) for r in shown]
    legend = [f"left of {bar}: done", "[ ]: in the circle"] + (
        ["( ): done as well"] if any(" (" in line for line in lines) else []
    )
    lines += ["", *_arrows(program, circle, arrow, width), *_others(program, ended, ranks, len(shown))]
    return [*lines, "", ", ".join(legend)]


def _ended(program: Program, done: Iterable[int]) -> np.ndarray:
    kind = program.order.kind
    ended = (kind == Kind.UNSHARD) | (kind == Kind.RESHARD) | (kind == Kind.FREE)
    rows = np.fromiter(done, dtype=np.int64)
    ended[rows] = True
    return ended


def _line(
    program: Program, rank: int, ended: np.ndarray, on_walk: set[int], bar: str, head: str, width: int
) -> str:
    a, b = (int(x) for x in program.order.start[rank : rank + 2])
    open_ = np.flatnonzero(~ended[a:b])
    stop = _head(program, a + int(open_[0])) if len(open_) else b
    marked = [r for r in on_walk if a <= r < b]
    last = _tail(program, max([stop, *marked]), b)
    before = _tokens(
        program, range(max(a, _head(program, max(a, stop - MOST_BEFORE))), stop), ended, on_walk, False
    )
    after = _tokens(program, _window(stop, last, on_walk), ended, on_walk, True) if stop < b else []
    room = width - len(head) - len(" |  ...")
    tail, more = _fit(after, max(room - min(ROOM_BEFORE, _length(before)), 12), last + 1 < b)
    kept = _last(before, room - len(tail), stop - a > 0 and len(before) > 0, truncated=stop - a > MOST_BEFORE)
    return f"{head}{kept}{' ' if kept else ''}{bar}{' ' if tail else ''}{tail}{more}".rstrip()


def _head(program: Program, row: int) -> int:
    launch = program.order.launch
    while launch[row] >= 0 and row > 0 and launch[row - 1] == launch[row]:
        row -= 1
    return row


def _tail(program: Program, row: int, end: int) -> int:
    launch = program.order.launch
    while row + 1 < end and launch[row] >= 0 and launch[row + 1] == launch[row]:
        row += 1
    return row


def _window(stop: int, last: int, on_walk: set[int]) -> list[int]:
    """Rows from stop to last; of very many those at the ends and about the walk (-1 stands for what is left
    out).
    """
    if last - stop < MOST_AFTER:
        return list(range(stop, last + 1))
    keep = sorted({stop, last} | {r for r in on_walk if stop <= r <= last})
    out: list[int] = []
    for r in keep:
        if out and r > out[-1] + 1:
            out.append(-1)
        out.append(r)
    return out


def _tokens(
    program: Program, rows: Iterable[int], ended: np.ndarray, on_walk: set[int], beyond: bool
) -> list[Token]:
    """Operations, launches and overlaps as words. `beyond` the bar what is done is put in parentheses."""
    o, out, open_, inner, hit = program.order, [], -1, [], False

    def close():
        nonlocal inner, hit
        if inner:
            words = " ".join(inner)
            out.append(Token(f"{{ {words} }}" if IS_TRANSFER[o.kind[first]] else f"overlap({words})", hit))
        inner, hit = [], False

    for r in rows:
        launch = int(o.launch[r]) if r >= 0 else -1
        if launch != open_ or launch < 0:
            close()
            open_, first = launch, r
        if r < 0:
            out.append(Token("...", False))
            continue
        word = program.show(r)
        if r in on_walk:
            word = f"[{word}]"
        elif beyond and ended[r]:
            word = f"({word})"
        if launch >= 0:
            inner.append(word)
            hit = hit or r in on_walk
        else:
            out.append(Token(word, r in on_walk))
    close()
    return out


def _length(tokens: list[Token]) -> int:
    return sum(len(t.text) + 1 for t in tokens)


def _fit(tokens: list[Token], room: int, more: bool) -> tuple[str, str]:
    """The tokens beyond the bar: plain ones give way to `...` from the right, marked ones stay."""
    if _length(tokens) > room:
        tokens = [
            Token(_short(t.text), t.marked) if t.marked and len(t.text) > room // 2 else t for t in tokens
        ]
    drop = [i for i, t in enumerate(tokens) if not t.marked]
    keep = [True] * len(tokens)
    while drop and _length(_joined(tokens, keep)) > room:
        keep[drop.pop()] = False
    if _length(_joined(tokens, keep)) > room:
        marked = [i for i, t in enumerate(tokens) if t.marked]
        for i in marked[1:-1][::-1]:
            keep[i] = False
    return " ".join(t.text for t in _joined(tokens, keep)), " ..." if more else ""


def _joined(tokens: list[Token], keep: list[bool]) -> list[Token]:
    out: list[Token] = []
    for token, kept in zip(tokens, keep):
        if kept and token.text != "...":
            out.append(token)
        elif not out or out[-1].text != "...":
            out.append(Token("...", False))
    return out


def _short(launch: str) -> str:
    """A launch reduced to what is on the walk."""
    if not launch.startswith(("{", "overlap(")):
        return launch
    words = launch.strip("{} ").removeprefix("overlap(").removesuffix(")").split(" ")
    text = " ".join(
        t.text
        for t in _joined([Token(w, w.startswith("[")) for w in words], [w.startswith("[") for w in words])
    )
    return f"{{ {text} }}" if launch.startswith("{") else f"overlap({text})"


def _last(tokens: list[Token], room: int, some: bool, truncated: bool) -> str:
    """As many of the last tokens as there is room for."""
    if not some:
        return ""
    out: list[str] = []
    left = room - (0 if not truncated and _length(tokens) <= room else 4)
    for token in reversed(tokens):
        if len(token.text) + 1 > left:
            break
        left -= len(token.text) + 1
        out.append(token.text)
    if len(out) < len(tokens) or truncated:
        out.append("...")
    return " ".join(reversed(out))


def _arrows(program: Program, circle: list[Leg], arrow: str, width: int) -> list[str]:
    lines = []
    digits = len(str(max(leg.rank for leg in circle)))
    for i, (leg, after) in enumerate(zip(circle, circle[1:] + circle[:1])):
        if MOST_RANKS <= i + 1 < len(circle):
            if i + 1 == MOST_RANKS:
                lines.append(f"... {len(circle) - MOST_RANKS} more waits")
            continue
        what, needs, late = (name(program, ("op", row)) for row in (leg.stop, after.owed, after.stop))
        line = f"rank {leg.rank:>{digits}} {arrow} rank {after.rank:>{digits}}  {what} waits for {needs}"
        why = f", which comes after {late}" if after.stop != after.owed else ""
        lines.append(line + why if len(line + why) <= width else line)
    return lines


def _others(program: Program, ended: np.ndarray, circle: list[int], shown: int) -> list[str]:
    """How the ranks fare that have no line."""
    start = program.order.start
    behind = np.concatenate([[0], np.cumsum(~ended)])
    left = behind[start[1:]] - behind[start[:-1]]
    others = [r for r in range(program.ranks) if r not in set(circle)]
    finished = sum(1 for r in others if left[r] == 0)
    parts = [
        (len(circle) - shown, "in the circle"),
        (len(others) - finished, "stopped too"),
        (finished, "finished"),
    ]
    parts = [(count, what) for count, what in parts if count]
    if not parts:
        return []
    count = sum(c for c, _ in parts)
    return [
        f"{count} other rank{'s' if count > 1 else ''}: "
        + ", ".join(what if c == count else f"{c} {what}" for c, what in parts)
    ]
