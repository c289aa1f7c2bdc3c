"""Values with their places: a strict reader of JSON, and of the flow lists that YAML and Python share with
it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from interlock.text.finding import InputError, error
from interlock.text.source import Source, Span

MAX_BYTES = 64 << 20
MAX_VALUES = 2_000_000
_DEEPEST = 8
_LONG = 60  # characters of the text that a message shows
_TOKEN = re.compile(
    r"""[ \t\r\n]*(?:(?P<mark>[][{},:()]) | (?P<string>"(?:[^"\\\x00-\x1f]|\\.)*")
                        | (?P<number>-?(?:0|[1-9][0-9]{0,29})(?:\.[0-9]{1,18})?)(?![\w.]) | (?P<word>[A-Za-z_][A-Za-z_0-9]*) | (?P<end>\Z) | (?P<bad>.))""",  # noqa: E501
    re.X | re.S,
)
_CLOSING = {"[": "]", "{": "}", "(": ")"}


@dataclass(frozen=True, slots=True)
class Value:
    """`data`: str, int, bool, Decimal, None, a list of values, or a dict from str to values.

    `span`: its text.
    """

    data: object
    span: Span

    def expect(self, kind: type, what: str, help: str):
        """The data, if of that kind. Raises IL112."""
        if not isinstance(self.data, kind) or isinstance(self.data, bool):
            raise error("IL112", f"expected {what}, not {describe(self)}", self.span, help=help)
        return self.data


def describe(value: Value) -> str:
    match value.data:
        case None:
            return "`null`"
        case bool():
            return f"`{str(value.data).lower()}`"
        case str() as text:
            return f"`{shorten(text)}`"
        case list() as items:
            return f"a list of {len(items)}"
        case dict():
            return "an object"
    return f"`{value.data}`"


def shorten(text: str) -> str:
    shown = text if text.isprintable() else ascii(text)[1:-1]
    return shown if len(shown) <= _LONG else f"{shown[:_LONG]}.."


def decode(data: bytes) -> str:
    """The text of a file. Raises IL104, IL105, IL106."""
    if len(data) > MAX_BYTES:
        raise error(
            "IL104",
            f"the file is larger than {MAX_BYTES >> 20} MiB",
            help="import a smaller member of the schedule's family",
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        raise error(
            "IL105",
            f"the file is not text: byte {e.start}, in line {data.count(10, 0, e.start) + 1}, is not UTF-8",
            help="save the file as plain text in UTF-8",
        ) from None
    if "\0" in text:
        raise error(
            "IL105",
            "the file is not text: it holds a NUL character",
            help="save the file as plain text in UTF-8",
        )
    if not text.strip():
        raise error("IL106", "the file is empty", help="write the schedule out into it first")
    return text


class Reader:
    """Reads values from a text, one after another.

    `words` admits bare words as strings and parentheses as lists, `booleans` true and false.
    """

    def __init__(self, source: Source, start: int = 0, words: bool = False, booleans: bool = False):
        self._source, self._words, self._booleans, self._count = source, words, booleans, 0
        self._at = start
        self._scan()

    def _scan(self) -> None:
        found = _TOKEN.match(self._source.text, self._at)
        self.kind, self._at = found.lastgroup, found.end()
        self.text = found[found.lastgroup]
        self.span = Span(self._source.base + found.start(self.kind), max(len(self.text), 1))

    def wrong(self, expected: str, help: str = "") -> InputError:
        if self.kind == "end":
            return error(
                "IL112",
                f"the file ends where {expected} is expected",
                Span(self._source.base + max(len(self._source.text.rstrip()) - 1, 0)),
                "the last character",
                help or "the file looks cut off: write it out again",
            )
        if self.kind == "bad" and self.text == '"':
            return error(
                "IL112", "a string without its end", self.span, help='close it with `"` on the same line'
            )
        if self.text == "'":
            return error(
                "IL112",
                "a string in single quotes",
                self.span,
                help="JSON has double quotes: write the file with `json.dump`",
            )
        return error(
            "IL112",
            f"expected {expected}, not `{shorten(self.text)}`",
            self.span,
            help=help
            or (
                "lists stand in brackets, their items with commas between"
                if self._words
                else "the file is read as JSON: write it with `json.dump`"
            ),
        )

    def done(self) -> bool:
        return self.kind == "end"

    def value(self) -> Value:
        """The next value. Raises IL104, IL112."""
        return self._value(0)

    def _value(self, depth: int) -> Value:
        self._count += 1
        if self._count > MAX_VALUES:
            raise error(
                "IL104",
                f"the file has more than {MAX_VALUES:,} values",
                self.span,
                help="import a smaller member of the schedule's family",
            )
        kind, text, span = self.kind, self.text, self.span
        if kind == "mark" and text in "[{" or self._words and text == "(":
            if depth == _DEEPEST:
                raise error(
                    "IL112",
                    f"lists are nested more than {_DEEPEST} deep",
                    span,
                    help="a schedule is a list of steps for each rank",
                )
            return self._object(depth) if text == "{" else self._list(depth)
        if kind == "string":
            value = self._unescaped()
        elif kind == "number":
            value = Decimal(text) if "." in text else int(text)
        elif kind == "word" and (text == "null" or self._words):
            value = None if text == "null" else text
        elif kind == "word" and self._booleans and text in ("true", "false"):
            value = text == "true"
        else:
            raise self.wrong("a value")
        self._scan()
        return Value(value, span)

    def _unescaped(self) -> str:
        try:
            return json.loads(self.text)
        except ValueError:
            raise error(
                "IL112",
                "a string with an escape that JSON does not have",
                self.span,
                help="names of steps hold letters, digits and `_`",
            ) from None

    def _list(self, depth: int) -> Value:
        first = self.span
        items = [] if self._open() else list(self._items(lambda: self._value(depth + 1)))
        return Value(items, self._close(first))

    def _object(self, depth: int) -> Value:
        first, entries = self.span, {}
        if not self._open():
            for _ in self._items(lambda: self._entry(depth, entries)):
                pass
        return Value(entries, self._close(first))

    def _open(self) -> bool:
        """Whether the list that opens here is empty."""
        self._closing = _CLOSING[self.text]
        self._scan()
        return self.text == self._closing

    def _items(self, one) -> Iterator:
        closing = self._closing
        while True:
            yield one()
            self._closing = closing
            if self.kind == "mark" and self.text == closing:
                return
            if self.kind != "mark" or self.text != ",":
                raise self.wrong(f"`,` or `{closing}`")
            self._scan()
            if self.kind == "mark" and self.text == closing and self._words:
                return

    def _close(self, first: Span) -> Span:
        span = first.to(self.span)
        self._scan()
        return span

    def _entry(self, depth: int, entries: dict[str, Value]) -> None:
        if self.kind != "string":
            raise self.wrong("a name in double quotes")
        name, span = self._unescaped(), self.span
        if name in entries:
            raise error("IL112", f"`{shorten(name)}` is given twice", span, help="delete one of the two")
        self._scan()
        if self.text != ":":
            raise self.wrong("`:`")
        self._scan()
        entries[name] = self._value(depth + 1)


def read_json(source: Source, booleans: bool = False) -> Value:
    """The one value of a JSON text: strings, integers and decimals, null, lists, objects; true and false if
    asked. Raises IL104, IL112.
    """
    reader = Reader(source, booleans=booleans)
    value = reader.value()
    if not reader.done():
        raise reader.wrong("the end of the file", "a file holds one value")
    return value
