"""What every rule of the grammar needs: its place, the words in it, and where mistakes go."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from interlock.language import ast
from interlock.language.operations import OperationError
from interlock.text.finding import Finding, Mark
from interlock.text.quantities import DIMENSION, PHRASE, WRITTEN_UNITS, NumberError, read_amount, read_int
from interlock.text.source import Span

MODELS = ("buffered", "edge", "pair", "rank", "blocking")
TARGETS = ("torch", "torchtitan", "hyperparallel", "npu")
_LONGEST_NAME = 128
_MOST_KEPT = 1000  # diagnostics; a million wrong operations are no more use than these

_VALUES = frozenset(
    [
        "NAME",
        "SKELETON_NAME",
        "OP_WORD",
        "CAPITALS",
        "NUMBER",
        "STRING",
        "OPS",
        "OP_REPEAT",
        "PROPERTY",
        "VALID",
        "INVALID",
        "UNKNOWN",
        "VACUOUS",
        "IMAGE",
        "WEIGHT",
        "PARAMETER",
        "VOCABULARY",
        "FRAGMENT",
        "INSERTED",
        "WRITTEN",
        "SHARDED",
        "REPLICATED",
        "OVERLAP",
        "GROUP",
        "COMPARE",
        "PLUS",
        "MINUS",
        "TIMES",
        "DIV",
        "MOD",
    ]
)


@dataclass(slots=True)
class Part:
    """What a rule without a node of its own became."""

    tag: str
    value: Any
    span: Span


def rule(method):
    @functools.wraps(method)
    def call(self, children):
        if not children:
            return method(self, Span(self.base, 0))
        first, last = children[0], children[-1]
        at = first.span.at if hasattr(first, "span") else self.base + first.start_pos
        end = last.span.at + last.span.width if hasattr(last, "span") else self.base + last.end_pos
        return method(
            self, Span(at, end - at), *[c for c in children if getattr(c, "type", "NAME") in _VALUES]
        )

    return call


class Base:
    """Mistakes are collected in `errors`, so that one does not hide the next, and something harmless stands
    in for them.
    """

    def __init__(self, base: int):
        self.base = base
        self.errors: list[Finding] = []
        self.depth: dict[int, int] = {}  # of whole expressions, by id; the tree keeps them alive
        self.too_deep = False

    def fail(self, code: str, message: str, span: Span, help: str = "", label: str = "") -> None:
        if len(self.errors) < _MOST_KEPT:
            self.errors.append(Finding.of_input(code, message, (Mark(span, label),), help))

    def _place(self, token) -> Span:
        return Span(self.base + token.start_pos, token.end_pos - token.start_pos)

    def _word(self, token) -> ast.Word:
        if len(token) > _LONGEST_NAME:
            self.fail(
                "IL104",
                f"a name of {len(token):,} characters",
                self._place(token),
                f"the most is {_LONGEST_NAME}",
            )
        return ast.Word(str(token), self._place(token))

    def _int(self, token) -> ast.Int:
        try:
            value = read_int(token)
        except NumberError as e:
            self.fail(e.code, e.message, self._place(token), e.help)
            value = 1
        return ast.Int(value, self._place(token))

    def _positive(self, token, what: str) -> ast.Int:
        number = self._int(token)
        if number.value == 0:
            self.fail("IL102", f"`{what} 0`: expected at least 1", number.span, f"write `{what} 1` or more")
        return number

    def _amount(self, token, field: str = "", per_image: bool = False) -> ast.Quantity:
        span = self._place(token)
        try:
            amount = read_amount(token)
        except NumberError as e:
            self.fail(e.code, e.message, span, e.help)
            return ast.Quantity(0, DIMENSION.get(field, "number"), span)
        wanted = DIMENSION.get(field, amount.dimension)
        if amount.dimension != wanted:
            if amount.value:
                units = WRITTEN_UNITS.get(wanted)
                self.fail(
                    "IL102",
                    f"expected {PHRASE[wanted]} after `{field.split(maxsplit=1)[0]}`, not `{token}`",
                    span,
                    f"units: {units}" if units else "write the number alone",
                )
            return ast.Quantity(0, wanted, span, 1, per_image)
        return ast.Quantity(amount.value, amount.dimension, span, amount.scale, per_image)

    def _string(self, token) -> str:
        return str(token)[1:-1]

    def _once(self, parts, what: str) -> dict[str, Any]:
        """Parts by tag; a tag given twice is IL103."""
        found: dict[str, Part] = {}
        for part in parts:
            if part.tag in found:
                self.twice(
                    f"`{part.tag}` is given twice in {what}",
                    part.span,
                    found[part.tag].span,
                    "delete one of them",
                )
            found.setdefault(part.tag, part)
        return {tag: part.value for tag, part in found.items()}

    def twice(self, message: str, span: Span, first: Span, help: str) -> None:
        if len(self.errors) < _MOST_KEPT:
            self.errors.append(
                Finding.of_input(
                    "IL103", message, (Mark(span, "again here"), Mark(first, "first here")), help
                )
            )

    def _models(self, words, targets: tuple[str, ...] = ()) -> tuple[ast.Word, ...]:
        for word in words:
            if word.text not in MODELS + targets:
                self.fail(
                    "IL107",
                    f"unknown communication model `{word.text}`",
                    word.span,
                    f"models: {', '.join(MODELS)}" + (f"; targets: {', '.join(targets)}" if targets else ""),
                )
        return tuple(words)

    def _try(self, span, make, *arguments):
        try:
            return make(*arguments)
        except OperationError as e:
            self.fail(e.code, e.message, e.span, e.help)
            return Part("ops", [], span)

    # ---- lists and words ------------------------------------------------------------------------

    @rule
    def index_range(self, span, first, last=None):
        low = self._int(first)
        high = self._int(last) if last else low
        if high.value < low.value:
            self.fail(
                "IL102",
                f"`{low.value}..{high.value}` is empty",
                span,
                f"`a..b` includes both ends: write `{high.value}..{low.value}`",
            )
        return ast.IndexRange(low.value, high.value, span)

    @rule
    def int_list(self, span, *items):
        return Part("list", items, span)

    @rule
    def layer_ref(self, span, name, index=None):
        return ast.LayerRef(self._word(name), index, span)

    @rule
    def int(self, span, token):
        return self._int(token)

    @rule
    def word(self, span, token):
        return self._word(token)

    skeleton_name = word

    @rule
    def comm_name(self, span, token):
        return Part("comm", self._word(token), span)
