"""The events of a Chrome trace, one after the other: a trace is long, and little of it is kept."""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from collections.abc import Iterator
from decimal import Decimal

from interlock.text.codes import rule_of
from interlock.text.finding import Finding, InputError, Mark
from interlock.text.source import Source, Span

MAX_BYTES = 256 * 2**20  # of the text, unpacked
_LATEST = 10**16  # microseconds: the year 2286
_BLANK = re.compile(r"[ \t\r\n]*")


def trace_error(code: str, message: str, help: str, *labels: Mark) -> InputError:
    return InputError(Finding.of_input(code, message, labels, help, rule=rule_of(code)))


def decode(name: str, data: bytes) -> str:
    """The text of a trace, unpacked where it is gzip. Raises InputError (IL104, IL105, IL116)."""
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.GzipFile(fileobj=io.BytesIO(data)).read(MAX_BYTES + 1)
        except (OSError, EOFError, zlib.error) as e:
            raise trace_error("IL116", f"{name} is a torn gzip file: {e}", "export the trace again") from None
    if len(data) > MAX_BYTES:
        raise trace_error(
            "IL104",
            f"{name} is larger than {MAX_BYTES >> 20} MiB",
            "record fewer steps: `schedule(wait=1, warmup=1, active=3)`",
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        raise trace_error(
            "IL105", f"{name} is not text: byte {e.start} is not UTF-8", "export the trace again"
        ) from None


class Trace:
    """Iterate over it once for the events; then `others` holds what else the top level says. Raises
    InputError (IL116).
    """

    def __init__(self, source: Source):
        self._source, self._text, self._at = source, source.text, 0
        self._decoder = json.JSONDecoder(parse_float=_decimal, parse_constant=_no_number)
        self.others: dict[str, object] = {}

    def __iter__(self) -> Iterator[dict]:
        found = False
        if self._next() == "[":
            yield from self._events()
            found = True
        else:
            for key in self._items("{", "}"):
                self._take(":")
                if key == "traceEvents" and self._next() == "[":
                    yield from self._events()
                    found = True
                else:
                    self.others[str(key)] = self._value()
        if self._next():
            raise self._wrong("the end of the file")
        if not found:
            raise trace_error(
                "IL116",
                "the file lists no `traceEvents`",
                'write it with `prof.export_chrome_trace("trace.json")`',
                Mark(Span(self._source.base)),
            )

    def _events(self) -> Iterator[dict]:
        for event in self._items("[", "]"):
            if isinstance(event, dict):
                yield event

    def _items(self, opening: str, closing: str) -> Iterator[object]:
        """The values of a list, or the keys of an object, each of whose values the caller reads."""
        self._take(opening)
        if self._next() == closing:
            self._at += 1
            return
        while True:
            yield self._value()
            if self._next() == closing:
                self._at += 1
                return
            self._take(",")

    def _next(self) -> str:
        self._at = _BLANK.match(self._text, self._at).end()
        return self._text[self._at : self._at + 1]

    def _take(self, mark: str) -> None:
        if self._next() != mark:
            raise self._wrong(f"`{mark}`")
        self._at += 1

    def _value(self) -> object:
        self._next()
        try:
            value, self._at = self._decoder.raw_decode(self._text, self._at)
        except json.JSONDecodeError as e:
            self._at = e.pos
            raise self._wrong("a value") from None
        except (RecursionError, ValueError, ArithmeticError):
            raise self._wrong("a value of moderate size") from None
        return value

    def _wrong(self, expected: str) -> InputError:
        at = min(self._at, max(len(self._text) - 1, 0))
        ends = self._at >= len(self._text.rstrip())
        return trace_error(
            "IL116",
            f"{'the file ends where' if ends else 'here'} {expected} is expected",
            "the trace is cut off or no JSON: export it again",
            Mark(Span(self._source.base + at)),
        )


def _decimal(text: str) -> Decimal:
    if len(text) > 40:
        raise ValueError
    return Decimal(text)


def _no_number(text: str):
    raise ValueError


def nanoseconds(value: object) -> int | None:
    """Of a number of microseconds in a trace; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)) or not -_LATEST <= value <= _LATEST:
        return None
    return int((Decimal(value) * 1000).to_integral_value())
