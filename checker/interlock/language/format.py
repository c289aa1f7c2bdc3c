"""The one layout of a `.sched` text: indentation by brackets, one blank between words, two where the writer set things apart.

Line breaks are the writer's. In neighbouring lines the first `{` or `=` is aligned where the writer began to align it, and
so are comments at line ends. Works on words, not on the syntax tree, so that text with errors can be formatted as well.
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
    left: str = ""                      # up to the first `{` or `=`, indentation included
    right: str = ""                     # from there on
    sign: str = ""                      # which of the two
    apart: bool = False                 # the writer put more than one blank before it
    comment: str = ""

    def text(self, width: int) -> str:
        return self.left.ljust(width) + " " * bool(self.left.strip() and self.right) + self.right


def format(text: str) -> str:
    """The text in its layout; formatting that again changes nothing. Every word and comment stays."""
    lines: list[_Line] = []
    open_brackets: list[bool] = []                              # of each one whether it indents the lines after it
    for raw in text.split("\n"):
        tokens = _TOKEN.findall(raw.strip(_BLANK))
        indent = _INDENT * _enter(tokens, open_brackets)
        line = _line(tokens, indent)
        if tokens or (lines and lines[-1] != _Line()):
            lines.append(line)
    while lines and lines[-1] == _Line():
        lines.pop()
    return "".join(line + "\n" for line in _aligned(lines))


def _enter(tokens: list[str], open_brackets: list[bool]) -> int:
    """The indentation of a line, after which `open_brackets` is as the line leaves it. One line indents by one step at most."""
    leading = True
    indent = sum(open_brackets)
    before = len(open_brackets)
    for token in tokens:
        if token in _OPENING:
            open_brackets.append(False)
        elif token in _CLOSING and open_brackets:
            open_brackets.pop()
            before = min(before, len(open_brackets))
            if leading:
                indent = sum(open_brackets)
        leading = leading and (token in _CLOSING or token[0] in _BLANK)
    if len(open_brackets) > before:
        open_brackets[before] = True
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
            parts += ["  " if apart and _space(before, token, True) else " " * _space(before, token, bool(gap)), token]
        else:
            parts.append(token)
        before, gap = token, ""
    if line.sign and parts == ["{"]:                             # a block over several lines aligns with nothing
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
    texts: list[str] = []
    key = lambda line: (line.sign, len(line.left) - len(line.left.lstrip(" ")))
    for (sign, _), group in groupby(lines, key):
        rows = list(group)
        width = max(len(row.left) for row in rows) if sign and any(row.apart for row in rows) else 0
        texts += [row.text(width) for row in rows]
    result: list[str] = []
    for trailing, group in groupby(zip(texts, lines), lambda pair: bool(pair[1].comment and pair[0].strip())):
        rows = list(group)
        width = max(len(text) for text, _ in rows) + 2 if trailing else 0
        result += [(text.ljust(width) + line.comment).rstrip(_BLANK) for text, line in rows]
    return result
