"""Names of a file: given twice (IL103), unknown (IL107), and a file that says nothing (IL106)."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice

from interlock.language import ast
from interlock.language.expand import MAX_OPERATIONS, count_operations
from interlock.text.finding import Finding, Mark
from interlock.text.source import Span

FUNCTIONS = ("min", "max")


def validate(file: ast.File) -> Iterator[Finding]:
    if not file.schedules and not file.skeletons:
        yield Finding.of_input(
            "IL106",
            "this file contains neither a schedule nor a skeleton",
            (Mark(Span(file.span.at, 1)),),
            "begin with `schedule NAME { .. }`",
        )
    yield from _twice("schedule", (s.name for s in file.schedules))
    yield from _twice("skeleton", (s.name for s in file.skeletons))
    for skeleton in file.skeletons:
        yield from _Skeleton(skeleton).check()
    for schedule in file.schedules:
        yield from _schedule(schedule)


def _twice(what: str, names: Iterable[ast.Word]) -> Iterator[Finding]:
    seen: dict[str, ast.Word] = {}
    for name in names:
        if name.text in seen:
            yield Finding.of_input(
                "IL103",
                f"{what} `{name}` is defined twice",
                (Mark(name.span, "again here"), Mark(seen[name.text].span, "first here")),
                "rename one of them",
            )
        seen.setdefault(name.text, name)


def _unknown(what: str, name: str, span: Span, known: Iterable[str], none: str = "") -> Finding:
    known = list(islice(known, 200))
    near = difflib.get_close_matches(name[:60], known, 1, 0.6)
    listed = ", ".join(known[:12]) + (", .." if len(known) > 12 else "")
    return Finding.of_input(
        "IL107",
        f"unknown {what} `{name if len(name) <= 40 else name[:37] + '...'}`",
        (Mark(span),),
        f"did you mean `{near[0]}`?" if near else f"known here: {listed}" if known else none,
    )


# ---- schedules ---------------------------------------------------------------------------------


def _schedule(s: ast.Schedule) -> Iterator[Finding]:
    yield from _required(s)
    groups: dict[str, int] | None = {} if s.model and s.model.profile is None else None
    if groups is not None:
        yield from _model(s.model, groups)
    regions = s.cut.regions if s.cut else ()
    yield from _twice("region", (r.name for r in regions))
    yield from _twice("communicator", (c.name for c in s.communicators))
    yield from _twice("tie", (t.name for t in s.ties if t.name))

    refs = (
        [ref for r in regions for ref in r.layers]
        + [ref for f in s.freezes for ref in f.layers]
        + [ref for t in s.ties for ref in t.layers]
        + [a.layer for a in s.assumptions]
    )
    refs += [ref for f in s.for_any for ref in f.of if ref.group.text not in {r.name.text for r in regions}]
    if groups is not None:
        for ref in refs:
            yield from _layer_ref(ref, groups)
    elif s.model is None:
        for ref in refs:
            yield Finding.of_input(
                "IL107",
                f"unknown layer group `{ref.group}`: the schedule has no model",
                (Mark(ref.span),),
                "add `model { .. }`; without one, stages are frozen and tied by number: `freeze stage 0`",
            )

    known = {c.name.text for c in s.communicators}
    none = "declare it: `communicator NAME = ranks 0, 1`"
    for tie in s.ties:
        if tie.comm and tie.comm.text not in known:
            yield _unknown("communicator", tie.comm.text, tie.comm.span, known, none)
    if s.order:
        yield from _order(s.order, known, none)


def _required(s: ast.Schedule) -> Iterator[Finding]:
    if s.ranks is None and not s.order:
        yield Finding.of_input(
            "IL101",
            f"schedule `{s.name}` does not say how many ranks it has",
            (Mark(s.name.span),),
            "add `ranks 4`",
        )
    if s.microbatches is None and not s.order:
        yield Finding.of_input(
            "IL101",
            f"schedule `{s.name}` does not say how many microbatches it has",
            (Mark(s.name.span),),
            "add `microbatches 8`",
        )
    if s.cut and s.order:
        yield Finding.of_input(
            "IL101",
            f"schedule `{s.name}` has a `cut` and an order written out",
            (Mark(s.order.span), Mark(s.cut.span)),
            "keep one of the two",
        )
    if s.place and s.cut:
        yield Finding.of_input(
            "IL101",
            "`place` stands beside an order written out, not beside a `cut`",
            (Mark(s.place.span),),
            "delete it: the skeletons place the stages",
        )


def _model(model: ast.Model, groups: dict[str, int]) -> Iterator[Finding]:
    yield from _twice(
        "layer group",
        (name for item in model.items if isinstance(item, (ast.Layers, ast.Pattern)) and (name := item.name)),
    )
    kinds = {item.name.text: item for item in model.items if isinstance(item, ast.Layers) and item.size == 0}
    for item in model.items:
        match item:
            case ast.Layers() if item.size:
                groups[item.name.text] = item.size
            case ast.Pattern():
                if item.name:
                    groups[item.name.text] = len(item.text)
                for kind in item.kinds:
                    if kind.properties and kind.kind.text in kinds:
                        yield Finding.of_input(
                            "IL103",
                            f"kind `{kind.kind}` is described twice",
                            (Mark(kind.span), Mark(kinds[kind.kind.text].span)),
                            "describe it in one place",
                        )
                    elif not kind.properties and kind.kind.text not in kinds:
                        yield _unknown(
                            "kind",
                            kind.kind.text,
                            kind.kind.span,
                            kinds,
                            f"describe it: `kind {kind.kind} {{ forward 1ms .. }}`",
                        )
                    groups[kind.kind.text] = groups.get(kind.kind.text, 0) + item.text.count(kind.letter)
    for item in model.items:
        if isinstance(item, ast.Attach):
            yield from _layer_ref(item.layer, groups)
            yield from _layer_ref(item.to, groups)


def _layer_ref(ref: ast.LayerRef, groups: dict[str, int]) -> Iterator[Finding]:
    size = groups.get(ref.group.text)
    if size is None:
        yield _unknown("layer group", ref.group.text, ref.group.span, groups, "the model has no layer")
    elif ref.range and ref.range.last >= size:
        yield Finding.of_input(
            "IL107",
            f"`{ref.group}` has no layer {ref.range.last}",
            (Mark(ref.range.span),),
            f"it has {size}: `{ref.group}[0..{size - 1}]`"
            if size > 1
            else f"it is one layer: write `{ref.group}`",
        )


def _order(order: ast.Order, known: set[str], none: str) -> Iterator[Finding]:
    total = sum(count_operations(rank.items) for rank in order.ranks)
    if total > MAX_OPERATIONS:
        yield Finding.of_input(
            "IL104",
            f"this {order.form} lists {total:,} operations",
            (Mark(Span(order.span.at, 5)),),
            f"the most is {MAX_OPERATIONS:,}; a skeleton has no such limit",
        )
    for rank in order.ranks:
        for op in _ops(rank.items):
            if op.comm and op.comm not in known:
                yield _unknown("communicator", op.comm, op.span, known, none)


def _ops(items) -> Iterator[ast.Op]:
    for item in items:
        match item:
            case ast.Op():
                yield item
            case ast.Repeat():
                yield from _ops(item.first)
            case _:
                yield from _ops(item.items)


# ---- skeletons ---------------------------------------------------------------------------------


class _Skeleton:
    """Names in the loops of a skeleton: parameters, the rank, `let`s and loop variables, each with one
    meaning.
    """

    def __init__(self, skeleton: ast.Skeleton):
        self.skeleton = skeleton
        self.known: dict[str, Span] = {}

    def check(self) -> Iterator[Finding]:
        s = self.skeleton
        yield from _twice("parameter", s.parameters)
        self.known = {p.text: p.span for p in s.parameters}
        if isinstance(s.chunks, ast.Name):
            yield from self._expression(s.chunks)
        if isinstance(s.place, ast.PlaceMap):
            with self._scope(s.place.rank, s.place.chunk) as again:
                yield from again
                yield from self._expression(s.place.stage)
        if s.where is not None:
            yield from self._condition(s.where)
        for given in (g for prove in s.proves for g in prove.given):
            yield from self._condition(given)
        if s.program is None:
            yield Finding.of_input(
                "IL101", f"skeleton `{s.name}` has no program", (Mark(s.name.span),), "add `rank r { .. }`"
            )
        else:
            with self._scope(s.program.variable) as again:
                yield from again
                yield from self._steps(s.program.body)

    def _define(self, name: ast.Word) -> Iterator[Finding]:
        if name.text in self.known:
            yield Finding.of_input(
                "IL103",
                f"`{name}` already has a meaning here",
                (Mark(name.span, "again here"), Mark(self.known[name.text], "first here")),
                "take another name",
            )
        self.known.setdefault(name.text, name.span)

    @contextmanager
    def _scope(self, *names: ast.Word):
        """The names defined inside end with it. Gives the diagnostics of `names`."""
        before = len(self.known)
        yield [d for name in names for d in self._define(name)]
        for name in list(islice(reversed(self.known), len(self.known) - before)):
            del self.known[name]

    def _steps(self, steps) -> Iterator[Finding]:
        with self._scope():
            for step in steps:
                yield from self._step(step)

    def _step(self, step) -> Iterator[Finding]:  # noqa: C901, PLR0912
        match step:
            case ast.Let():
                yield from self._expression(step.value)
                yield from self._define(step.name)
            case ast.For():
                if isinstance(step.over, ast.Range):
                    yield from self._expression(step.over.first)
                    yield from self._expression(step.over.end)
                else:
                    for argument in step.over.arguments:
                        yield from self._expression(argument)
                    if len(step.over.arguments) != 1:
                        yield Finding.of_input(
                            "IL101",
                            "`owned` takes one argument, the rank",
                            (Mark(step.over.span),),
                            "write `owned(r)`",
                        )
                with self._scope(step.variable) as again:
                    yield from again
                    yield from self._steps(step.body)
            case ast.If():
                for condition in step.conditions:
                    yield from self._condition(condition)
                for block in (*step.blocks, step.otherwise):
                    yield from self._steps(block)
            case ast.Group():
                for op in step.body:
                    yield from self._step(op)
            case ast.SkeletonOp():
                for argument in step.arguments:
                    yield from self._expression(argument)

    def _condition(self, c) -> Iterator[Finding]:
        match c:
            case ast.Logic():
                yield from self._condition(c.left)
                yield from self._condition(c.right)
            case ast.Not():
                yield from self._condition(c.operand)
            case ast.Compare():
                yield from self._expression(c.left)
                yield from self._expression(c.right)
            case _:
                yield Finding.of_input(
                    "IL101",
                    "expected a condition, not a number",
                    (Mark(c.span),),
                    "compare it with something: `i == 0`",
                )

    def _expression(self, e) -> Iterator[Finding]:
        match e:
            case ast.Name():
                if e.text not in self.known:
                    yield _unknown("name", e.text, e.span, self.known)
            case ast.Quantity():
                yield Finding.of_input(
                    "IL102",
                    "expected a whole number without a unit",
                    (Mark(e.span),),
                    "a skeleton counts microbatches and stages",
                )
            case ast.Binary():
                yield from self._expression(e.left)
                yield from self._expression(e.right)
            case ast.Negate():
                yield from self._expression(e.operand)
            case ast.Call():
                if e.function.text == "owned":
                    yield Finding.of_input(
                        "IL101",
                        "`owned` is no number",
                        (Mark(e.span),),
                        "it stands after `in`: `for m in owned(r) { .. }`",
                    )
                elif e.function.text not in FUNCTIONS:
                    yield _unknown("function", e.function.text, e.function.span, FUNCTIONS)
                for argument in e.arguments:
                    yield from self._expression(argument)
