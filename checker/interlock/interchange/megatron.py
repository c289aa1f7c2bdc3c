"""Megatron-LM layouts -> schedules of the algebra (spec/interchange.md)."""

from __future__ import annotations

import re
import textwrap
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import accumulate

from interlock.language.unparse import make_identifier, wrap_comments
from interlock.text.finding import Finding, InputError, Mark, error
from interlock.text.source import Source, Span

MAX_TEXT = 1 << 20
MAX_ITEMS = 100_000  # layers of a model
MAX_RANKS = 65_536
_ITEMS = "EtmL"
_NAMES = {"E": "embed", "t": "decoder", "m": "mtp", "L": "loss"}
_TOKEN = re.compile(
    r"[ \t,]*(?:(?P<item>[EtmL])|(?P<mark>[|()])|(?P<count>\*[ \t]*(?P<digits>[0-9]+))|(?P<bad>.)|\Z)", re.S
)


@dataclass(frozen=True)
class LayoutSizes:
    """What a layout or flags must come to; None: not said."""

    ranks: int | None = None
    layers: int | None = None
    mtp: int | None = None


NO_SIZES = LayoutSizes()


@dataclass(frozen=True)
class Layout:
    """`stages[s]` are the items of stage s, as letters; stage s is chunk s div ranks of rank s mod ranks.

    `spans[s]`: its text.
    """

    ranks: int
    stages: tuple[str, ...]
    spans: tuple[Span | None, ...] = field(default=(), compare=False)
    notes: tuple[Finding, ...] = field(default=(), compare=False)

    @property
    def chunks(self) -> int:
        return len(self.stages) // self.ranks

    def count(self, item: str) -> int:
        return sum(s.count(item) for s in self.stages)

    def text(self) -> str:
        """The layout as Megatron writes it, without counts."""
        return "|".join(self.stages)


# -- layout strings
# ------------------------------------------------------------------------------------------------------


def read_layout(
    source: Source, sizes: LayoutSizes = NO_SIZES, start: int = 0, end: int | None = None
) -> Layout:
    """A layout string, or `[start, end)` of the source, in full.

    Raises InputError (IL104, IL106, IL111, IL214).

    `notes` are warnings of what Megatron accepts and no schedule should have: empty stages.
    """
    text = source.text[:end]
    if len(text) - start > MAX_TEXT:
        raise error(
            "IL104", f"the layout is longer than {MAX_TEXT >> 20} MiB", help="write repetitions as `(tt|)*30`"
        )
    if not text[start:].strip(" \t,\r\n"):
        raise error("IL106", "the layout is empty", help="write the items of each stage: `Et*3|(tt|)*29,m|L`")
    items = _expand(_Reader(source, start, len(text.rstrip(" \t\r\n"))).sequence())
    stages, spans = _stages(items)
    _check_items(stages, spans)
    ranks = len(stages) if sizes.ranks is None else sizes.ranks
    layout = Layout(ranks, tuple(stages), tuple(spans))
    _check_sizes(layout, sizes, Span(source.base + start, max(len(text[start:].rstrip()), 1)))
    return Layout(ranks, layout.stages, layout.spans, tuple(_empty(layout)))


class _Reader:
    """layout := (item [count] | "|" | "(" (item [count] | "|")* ")" count)*, with commas and blanks anywhere
    but within a count.
    """

    def __init__(self, source: Source, start: int, end: int):
        self._source, self._at, self._end = source, start, end
        self._next()

    def _next(self) -> None:
        found = _TOKEN.match(self._source.text, self._at, self._end)
        self._at = found.end()
        self.kind = found.lastgroup if found.lastgroup != "digits" else "count"
        if found["count"]:
            self.kind = "count"
        self.text = found[self.kind] if self.kind else ""
        self.digits = found["digits"]
        start = found.start(self.kind) if self.kind else max(self._end - 1, 0)
        self.span = Span(self._source.base + start, max(len(self.text), 1))

    def sequence(self) -> list[tuple[str, int, Span] | tuple[list, int, Span]]:
        out: list = []
        while self.kind:
            out.append(self._group() if self.text == "(" else self._item())
        return out

    def _item(self):
        text, span = self.text, self.span
        if self.kind not in ("item", "mark") or text == ")":
            raise self._wrong()
        self._next()
        count = self._count(span) if text != "|" else 1
        return text, count, span

    def _group(self):
        opened, inner = self.span, []
        self._next()
        while self.text != ")":
            if self.text == "(":
                raise InputError(
                    Finding.of_input(
                        "IL111",
                        "a group within a group",
                        (Mark(self.span), Mark(opened, "the group it stands in")),
                        "write the inner group out: groups do not nest",
                    )
                )
            if not self.kind:
                raise error(
                    "IL111", "a group without its end", opened, help="close it and say how often: `(tt|)*29`"
                )
            inner.append(self._item())
        closed = self.span
        self._next()
        if not inner:
            raise error(
                "IL111", "an empty group", opened.to(closed), help="delete it, or write its items: `(tt|)*29`"
            )
        if self.kind != "count":
            raise error(
                "IL111",
                "a group without a count",
                opened.to(closed),
                help="say how often it comes, `(tt|)*29`, or delete the parentheses",
            )
        return inner, self._count(opened.to(closed)), opened.to(closed)

    def _count(self, of: Span) -> int:
        if self.kind != "count":
            return 1
        span, digits = self.span, self.digits
        number = int(digits) if len(digits) < 12 else MAX_ITEMS + 1
        if number == 0:
            raise error(
                "IL111",
                f"`{self._source.text[of.at - self._source.base : span.at - self._source.base + span.width]}` "  # noqa: E501
                "comes "
                "0 "
                "times",
                of.to(span),
                help="delete it, or correct the count: Megatron drops such an item without a word",
            )
        if number > MAX_ITEMS:
            raise error(
                "IL104",
                f"a count of {digits[:20]} is above {MAX_ITEMS:,}",
                span,
                help="a model has at most 100,000 layers",
            )
        self._next()
        if self.kind == "count":
            raise error(
                "IL111",
                "a count after a count",
                self.span,
                help="multiply the two, or write the item again: `t*2t*3`",
            )
        if self.kind == "bad" and self.text.isdigit():
            raise error(
                "IL111",
                "a comma or a blank within a count",
                self.span,
                help=f"Megatron deletes commas first and reads `{digits}{self.text}`: write the count "
                "without",
            )
        return number

    def _wrong(self) -> InputError:
        text = self.text if self.text.isprintable() else ascii(self.text)[1:-1]
        if self.kind == "count":
            return error(
                "IL111",
                "a count with nothing before it",
                self.span,
                help="a count follows an item or a group: `t*3`, `(tt|)*29`",
            )
        if text == ")":
            return error(
                "IL111", "`)` closes no group", self.span, help="delete it, or open the group: `(tt|)*29`"
            )
        if text == "*":
            return error("IL111", "`*` without a number", self.span, help="say how often: `t*3`")
        if text.isdigit():
            return error(
                "IL111", f"the number `{text}` stands alone", self.span, help="a count follows `*`: `t*3`"
            )
        letter = next((c for c in _ITEMS if c.lower() == text.lower()), None)
        return error(
            "IL111",
            f"`{text}` is no item of a layout",
            self.span,
            help=f"`{letter}` was meant, perhaps: capitals count"
            if letter
            else "the items are E (embedding), t (decoder layer), m (MTP layer), L (loss), and `|` between "
            "stages",
        )


def _expand(sequence: list) -> list[tuple[str, Span]]:
    out: list[tuple[str, Span]] = []

    def one(item: str, count: int, span: Span) -> None:
        if len(out) + count > MAX_ITEMS:
            raise error(
                "IL104",
                f"the layout comes to more than {MAX_ITEMS:,} items",
                span,
                help="a model has at most 100,000 layers",
            )
        out.extend([(item, span)] * count)

    for what, count, span in sequence:
        if isinstance(what, str):
            one(what, count, span)
        else:
            for _ in range(count):
                for inner in what:
                    one(*inner)
    return out


def _stages(items: list[tuple[str, Span]]) -> tuple[list[str], list[Span | None]]:
    stages, spans = [""], [None]
    for text, span in items:
        if text == "|":
            spans[-1] = spans[-1] or span  # of an empty stage, the bar that ends it
            stages.append("")
            spans.append(None)
        else:
            stages[-1] += text
            spans[-1] = (
                span if spans[-1] is None else spans[-1].to(span) if span.at >= spans[-1].at else spans[-1]
            )
    if spans[-1] is None:
        spans[-1] = items[-1][1]
    return stages, spans


def _check_items(stages: list[str], spans: list[Span]) -> None:
    whole = "".join(stages)
    ends = list(accumulate(map(len, stages)))

    def place(at):
        return spans[bisect_right(ends, at)]

    for letter, what in (("E", "embedding"), ("L", "loss")):
        if whole.count(letter) > 1:
            raise error(
                "IL214",
                f"the layout has {whole.count(letter)} `{letter}`, and the {what} comes once",
                place(whole.index(letter, whole.index(letter) + 1)),
                "again here",
                f"keep {'the first' if letter == 'E' else 'the last'} of them",
            )
    if "E" not in whole:
        raise error(
            "IL214",
            "the layout has no embedding",
            spans[0],
            "the first stage",
            f"begin with `E`: `E{stages[0]}`",
        )
    if "L" not in whole:
        raise error(
            "IL214",
            "the layout has no loss",
            spans[-1],
            "the last stage",
            f"end with `L`: `{stages[-1]}L`" if len(stages[-1]) < 40 else "end with `L`",
        )
    if whole[0] != "E":
        raise error(
            "IL214",
            f"`{whole[0]}` stands before the embedding",
            place(0),
            help="begin with `E`: the embedding is the model's first layer",
        )
    if whole[-1] != "L":
        raise error(
            "IL214",
            f"`{whole[-1]}` stands after the loss",
            place(len(whole) - 1),
            help="end with `L`: the loss is the model's last layer",
        )
    if "t" in whole[max(whole.find("m"), 0) :] and "m" in whole:
        raise error(
            "IL214",
            "a decoder layer stands after an MTP layer",
            place(whole.rindex("t")),
            help="put every `m` after the last `t`",
        )


def _check_sizes(layout: Layout, sizes: LayoutSizes, whole: Span) -> None:
    ranks, n = layout.ranks, len(layout.stages)
    if not 1 <= ranks <= MAX_RANKS:
        raise error("IL104", f"{ranks} ranks are asked", help=f"ask for 1 to {MAX_RANKS:,}")
    if n % ranks:
        near = n // ranks * ranks or ranks
        raise error(
            "IL214",
            f"the layout has {n} stages, and {ranks} ranks take a multiple of {ranks}",
            whole,
            help=f"write {near if near == n - n % ranks and near else ranks} or {near + ranks} stages, or "
            f"ask for a number of ranks that divides {n}",
        )
    if sizes.layers is not None and layout.count("t") != sizes.layers:
        raise error(
            "IL214",
            f"the layout has {layout.count('t')} decoder layers, and {sizes.layers} are asked",
            whole,
            help=f"{'add' if layout.count('t') < sizes.layers else 'take out'} "
            f"{abs(layout.count('t') - sizes.layers)} `t`",
        )
    if sizes.mtp is not None and layout.count("m") != sizes.mtp:
        raise error(
            "IL214",
            f"the layout has {layout.count('m')} MTP layers, and {sizes.mtp} are asked",
            whole,
            help=f"{'add' if layout.count('m') < sizes.mtp else 'take out'} "
            f"{abs(layout.count('m') - sizes.mtp)} `m`",
        )
    holding = [s for s, items in enumerate(layout.stages) if "m" in items]
    if len(holding) > 1:
        raise error(
            "IL214",
            f"the MTP layers lie in stages {holding[0]} and {holding[1]}",
            layout.spans[holding[1]],
            help="put all of them into one stage",
        )
    for s in holding:
        rank, chunk = s % ranks, s // ranks
        if chunk != layout.chunks - 1:
            raise error(
                "IL214",
                f"the MTP layers lie in stage {s}, which is chunk {chunk} of rank {rank}",
                layout.spans[s],
                help=f"put them into the last chunk: {_stage_range(n - ranks + 1, n - 1)}",
            )
        if rank == 0:
            raise error(
                "IL214",
                f"the MTP layers lie in stage {s}, which is on the first rank",
                layout.spans[s],
                help=f"put them into a later stage of the last chunk: {_stage_range(n - ranks + 1, n - 1)}"
                if ranks > 1
                else "MTP layers want 2 ranks or more",
            )


def _stage_range(first: int, last: int) -> str:
    return f"stage {last}" if first >= last else f"stages {first} to {last}"


def _empty(layout: Layout):
    holders = next(s for s, items in enumerate(layout.stages) if "L" in items)
    for s, items in enumerate(layout.stages):
        if not items and s == len(layout.stages) - 1:
            yield Finding.of_input(
                "IL205",
                f"the last stage is empty: the loss is in stage {holders}, on rank "
                f"{holders % layout.ranks}, not on the last rank",
                (Mark(layout.spans[s], "the last stage follows"),),
                "move `L` into the last stage; Megatron accepts this layout, and its last rank then has no "
                "loss",
            )
        elif not items:
            yield Finding.of_input(
                "IL205",
                f"stage {s} is empty, and every stage of a schedule has a layer",
                (Mark(layout.spans[s], "it ends here"),),
                "move a layer into it, or take the stage out; Megatron accepts it as a stage that hands its "
                "input on",
            )


# -- a schedule
# ----------------------------------------------------------------------------------------------------------


def to_sched(layout: Layout, name: str, microbatches: int | None = None) -> str:
    """The `.sched` text of a layout: Megatron's order over its stages.

    Raises InputError (IL205: an empty stage; IL214: microbatches).
    """
    if layout.notes:
        raise InputError(*layout.notes[:20])
    ranks, chunks = layout.ranks, layout.chunks
    if chunks > 1 and ranks == 1:
        raise error(
            "IL214",
            f"{chunks} stages on one rank",
            help="ask for 2 ranks or more: Megatron interleaves over several",
        )
    if microbatches is None:
        microbatches = 2 * ranks
    if not 1 <= microbatches <= 10_000_000:
        raise error("IL104", f"{microbatches} microbatches are asked", help="ask for 1 to 10,000,000")
    if chunks > 1 and microbatches % ranks:
        low = microbatches // ranks * ranks
        raise error(
            "IL214",
            f"{microbatches} microbatches are no multiple of {ranks} ranks",
            help=f"ask for {f'{low} or ' if low else ''}{low + ranks}: Megatron's interleaved order takes "
            "whole rounds",
        )
    groups = [(_NAMES[i], layout.count(i)) for i in _ITEMS if layout.count(i)]
    layers = [
        f"    layer {i} {{ }}" if i in ("embed", "loss") else f"    layers {i}[{n}] {{ }}" for i, n in groups
    ]
    skeleton = "1f1b" if chunks == 1 else "interleaved"
    sizes = [str(len(s)) for s in layout.stages]
    first = f"chunks: {chunks}, " if chunks > 1 else ""
    region = f"    pipeline = {', '.join(i for i, _ in groups)} : {skeleton}({first}partition: ["
    partition = [f"{region}{', '.join(sizes)}])"]
    if len(partition[0]) > 100:
        partition = [
            region,
            *textwrap.wrap(", ".join(sizes), 100, initial_indent="      ", subsequent_indent="      "),
            "    ])",
        ]
    return "\n".join(
        [
            *wrap_comments(
                [
                    f"Megatron-LM, --pipeline-model-parallel-size {ranks} --pipeline-model-parallel-layout "
                    f'"{_short(layout)}"'
                ]
            ),
            f"schedule {make_identifier(name)} {{",
            f"  ranks {ranks}",
            f"  microbatches {microbatches}",
            "",
            "  model {",
            *layers,
            "  }",
            "",
            "  cut {",
            *partition,
            "  }",
            "}",
            "",
        ]
    )


def _short(layout: Layout) -> str:
    """The layout with equal neighbouring stages as groups."""

    def squeeze(items):
        return re.sub(r"(.)\1{2,}", lambda m: f"{m[1]}*{len(m[0])}", items)

    out, i, stages = "", 0, layout.stages
    while i < len(stages):
        j = i
        while j + 1 < len(stages) and stages[j + 1] == stages[i]:
            j += 1
        bar = j + 1 < len(stages)
        if j - i >= 2 and bar:
            out += f"({squeeze(stages[i])}|)*{j - i + 1}"
        else:
            out += "|".join(squeeze(s) for s in stages[i : j + 1]) + "|" * bar
        i = j + 1
    return out
