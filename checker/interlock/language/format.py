"""The one layout of a `.sched` text: indentation by brackets, one blank between words, two where the writer
set things apart.

Line breaks are the writer's. A line that goes on with what an earlier one began, behind its bracket or behind
`rank 0:`, stands below
that. In neighbouring lines the first `{` or `=` is aligned where the writer began to align it, and so are
comments at line ends.
Works on words, not on the syntax tree, so that text with errors can be formatted as well.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby

_TOKEN = re.compile(r'#.*|"[^"]*"|[ \t\f\v\r]+|[{}()\[\],]|[^ \t\f\v\r{}()\[\],"#]+|.', re.DOTALL)
_BLANK = " \t\f\v\r"
_OPENING, _CLOSING = "{([", "})]"
_INDENT = "  "


@dataclass
class _Line:
    left: str = ""  # up to the first `{` or `=`, indentation included
    right: str = ""  # from there on
    sign: str = ""  # which of the two
    apart: bool = False  # the writer put more than one blank before it
    comment: str = ""
    below: tuple[int, int] | None = (
        None  # goes on behind the n-th open bracket of a line, or its `rank 0:` (n = -1)
    )

    def text(self, width: int) -> str:
        return self.left.ljust(width) + " " * bool(self.left.strip() and self.right) + self.right


@dataclass
class _Bracket:
    line: int  # where it was opened, and the how-manieth bracket of that line it is
    number: int
    hangs: bool  # something stands behind it on its line
    order: bool  # it opens the ranks of an order or a trace
    indents: bool = False
    rank: int = -1  # the last line in it that begins with `rank`


def format(text: str) -> str:
    """The text in its layout; formatting that again changes nothing. Every word and comment stays."""
    lines: list[_Line] = []
    brackets: list[_Bracket] = []
    for raw in text.split("\n"):
        tokens = _TOKEN.findall(raw.strip(_BLANK))
        if not tokens and (not lines or lines[-1] == _Line()):
            continue
        below = _below(tokens, brackets, len(lines))
        line = _line(tokens, _INDENT * _enter(tokens, brackets, len(lines)))
        if below is not None:
            line = _Line(
                "".join((line.left, " " * bool(line.left.strip() and line.right), line.right)).lstrip(" "),
                comment=line.comment,
                below=below,
            )
        lines.append(line)
    while lines and lines[-1] == _Line():
        lines.pop()
    return "".join(line + "\n" for line in _aligned(lines))


def _below(tokens: list[str], brackets: list[_Bracket], number: int) -> tuple[int, int] | None:
    """What a line that begins with these tokens goes on with, if anything; keeps count of the
    `rank` lines.
    """
    if not tokens or not brackets or tokens[0] in _CLOSING:
        return None
    inner = brackets[-1]
    if inner.order and tokens[0] == "rank":
        inner.rank = number
    elif inner.order and inner.rank >= 0 and not tokens[0].startswith("#"):
        return inner.rank, -1
    return (inner.line, inner.number) if inner.hangs else None


def _enter(tokens: list[str], brackets: list[_Bracket], number: int) -> int:
    """The indentation of a line, after which `brackets` is as the line leaves it. One line indents by one
    step at most.
    """
    leading = True
    indent = sum(b.indents for b in brackets)
    before = len(brackets)
    count = 0
    for at, token in enumerate(tokens):
        if token in _OPENING:
            behind = [t for t in tokens[at + 1 :] if t[0] not in _BLANK]
            brackets.append(
                _Bracket(
                    number,
                    count,
                    bool(behind) and behind[0][0] != "#",
                    {"order", "trace"} & set(tokens[:at]) != set(),
                )
            )
            count += 1
        elif token in _CLOSING and brackets:
            brackets.pop()
            before = min(before, len(brackets))
            if leading:
                indent = sum(b.indents for b in brackets)
        leading = leading and (token in _CLOSING or token[0] in _BLANK)
    if len(brackets) > before:
        brackets[before].indents = True
    return indent


def _line(tokens: list[str], indent: str) -> _Line:
    line = _Line()
    parts = [indent] if tokens else []
    gap = before = ""
    for token in tokens:
        if token[0] in _BLANK:
            gap = token
            continue
        if token.startswith("#"):
            line.comment = token.rstrip(_BLANK)
            break
        apart = len(gap.expandtabs()) > 1
        if token in ("{", "=") and before and not line.sign:
            line.sign, line.apart, line.left, parts = token, apart, "".join(parts), [token]
        elif before:
            parts += [
                "  " if apart and _space(before, token, True) else " " * _space(before, token, bool(gap)),
                token,
            ]
        else:
            parts.append(token)
        before, gap = token, ""
    if line.sign and parts == ["{"]:  # a block over several lines aligns with nothing
        line.left, line.sign, line.apart = f"{line.left} {{", "", False
    elif line.sign:
        line.right = "".join(parts)
    else:
        line.left = "".join(parts)
    return line


def _space(before: str, token: str, gap: bool) -> bool:
    """Whether a blank stands between two words: as written, but for brackets and commas."""
    if token == "," or before in ("(", "[") or token in (")", "]"):
        return False
    if before in (",", "{", "}") or token in ("{", "}"):
        return True
    return gap


def _aligned(lines: list[_Line]) -> list[str]:
    texts: dict[int, str] = {}

    def key(n):
        return (lines[n].sign, len(lines[n].left) - len(lines[n].left.lstrip(" ")))

    for (sign, _), group in groupby((n for n, line in enumerate(lines) if line.below is None), key):
        rows = list(group)
        width = max(len(lines[n].left) for n in rows) if sign and any(lines[n].apart for n in rows) else 0
        texts |= {n: lines[n].text(width) for n in rows}
    for n, line in enumerate(lines):
        if line.below is not None:
            texts[n] = " " * _column(texts[line.below[0]], line.below[1]) + line.left
    result: list[str] = []
    for trailing, group in groupby(range(len(lines)), lambda n: bool(lines[n].comment and texts[n].strip())):
        rows = list(group)
        width = max(len(texts[n]) for n in rows) + 2 if trailing else 0
        result += [(texts[n].ljust(width) + lines[n].comment).rstrip(_BLANK) for n in rows]
    return result


def _column(text: str, bracket: int) -> int:
    """Where the text behind the n-th open bracket of a line begins; -1: behind its first colon."""
    at = 0
    for token in _TOKEN.findall(text):
        at += len(token)
        if bracket < 0 and token.endswith(":"):
            break
        if token in _OPENING:
            if bracket == 0:
                break
            bracket -= 1
    return at + len(text[at:]) - len(text[at:].lstrip(" "))
