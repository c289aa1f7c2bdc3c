"""Megatron-LM's flags that place layers -> a layout (spec/interchange.md)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from interlock.interchange.megatron import (
    MAX_ITEMS,
    MAX_RANKS,
    MAX_TEXT,
    NO_SIZES,
    Layout,
    LayoutSizes,
    read_layout,
)
from interlock.text.finding import Finding, InputError, Mark, error
from interlock.text.source import Source, Span

_FLAGS = {
    "--num-layers": "layers",
    "--pipeline-model-parallel-size": "ranks",
    "--num-layers-per-virtual-pipeline-stage": "per_stage",
    "--num-virtual-stages-per-pipeline-rank": "chunks",
    "--decoder-first-pipeline-num-layers": "first",
    "--decoder-last-pipeline-num-layers": "last",
    "--mtp-num-layers": "mtp",
    "--account-for-embedding-in-pipeline-split": "embedding",
    "--account-for-loss-in-pipeline-split": "loss",
    "--pipeline-model-parallel-layout": "layout",
}
_SWITCHES = {"embedding", "loss"}
_NO_LAYERS = "leave it out: only flags that place layers are read"


@dataclass(frozen=True)
class _Flag:
    value: int
    span: Span
    at: tuple[int, int] = (0, 0)  # of a layout: where it stands


def read_flags(source: Source, sizes: LayoutSizes = NO_SIZES) -> Layout:
    """The layout that Megatron's flags come to. Raises InputError (IL104, IL106, IL111, IL214, IL215)."""
    flags = _flags(source)

    def value(name):
        return flags[name].value if name in flags else None

    whole = Span(source.base, max(len(source.text.rstrip()), 1))
    if "ranks" not in flags:
        raise error(
            "IL111",
            "the flags give no number of ranks",
            whole,
            help="add `--pipeline-model-parallel-size 4`, say",
        )
    if sizes.ranks not in (None, value("ranks")):
        raise error(
            "IL214",
            f"the flags give {value('ranks')} ranks, and {sizes.ranks} are asked",
            flags["ranks"].span,
            help="ask for the same number, or leave it out",
        )
    if not 1 <= value("ranks") <= MAX_RANKS:
        raise error(
            "IL104",
            f"{value('ranks')} ranks are asked",
            flags["ranks"].span,
            help=f"ask for 1 to {MAX_RANKS:,}",
        )
    if "layout" in flags:
        return _layout_of_flags(source, flags, sizes)
    if "layers" not in flags:
        raise error("IL111", "the flags give no number of layers", whole, help="add `--num-layers 32`, say")
    if not 1 <= value("layers") <= MAX_ITEMS:
        raise error(
            "IL104",
            f"{value('layers')} layers are asked",
            flags["layers"].span,
            help=f"ask for 1 to {MAX_ITEMS:,}",
        )
    for name, number in (("layers", sizes.layers), ("mtp", sizes.mtp)):
        if number is not None and number != (value(name) or 0):
            raise error(
                "IL214",
                f"the flags give {value(name) or 0} {'MTP ' if name == 'mtp' else ''}layers, and {number} "
                "are asked",
                flags[name].span if name in flags else whole,
                help="ask for the same number, or leave it out",
            )
    per_chunk, chunks = _split(flags)
    return _built(flags, per_chunk, chunks)


def _flags(source: Source) -> dict[str, _Flag]:
    if len(source.text) > MAX_TEXT:
        raise error(
            "IL104",
            f"the flags are longer than {MAX_TEXT >> 20} MiB",
            help="give the flags that place layers only",
        )
    words = [(m[0], m.start()) for m in re.finditer(r"[^\s=]+|=", source.text)]
    words = [w for i, w in enumerate(words) if w[0] != "=" or i == 0 or not words[i - 1][0].startswith("--")]
    if not words:
        raise error(
            "IL106",
            "there are no flags",
            help="write `--num-layers 32 --pipeline-model-parallel-size 4`, say",
        )
    out: dict[str, _Flag] = {}
    i = 0
    while i < len(words):
        text, at = words[i]
        span = Span(source.base + at, len(text))
        name = _FLAGS.get(text)
        if name is None:
            from difflib import get_close_matches

            near = get_close_matches(text[:80], _FLAGS, n=1, cutoff=0.8)
            shown = text if len(text) <= 60 else f"{text[:60]}.."
            raise error(
                "IL111",
                f"`{shown}` is no flag that places layers",
                span,
                help=f"`{near[0]}` was meant, perhaps" if near else _NO_LAYERS,
            )
        if name in out:
            raise InputError(
                Finding.of_input(
                    "IL111",
                    f"`{text}` is given twice",
                    (Mark(span), Mark(out[name].span, "and here")),
                    "delete one of them",
                )
            )
        if name in _SWITCHES:
            out[name] = _Flag(1, span)
            i += 1
            continue
        if i + 1 == len(words) or words[i + 1][0].startswith("--"):
            raise error(
                "IL111",
                f"`{text}` has no value",
                span,
                help="write a layout after it"
                if name == "layout"
                else f"write a number after it: `{text} 4`",
            )
        word, start = words[i + 1]
        both = span.to(Span(source.base + start, len(word)))
        if name == "layout":
            quoted = len(word) > 1 and word[0] in "\"'" and word[-1] == word[0]
            out[name] = _Flag(0, both, (start + quoted, start + len(word) - quoted))
        elif not re.fullmatch("[0-9]{1,9}", word):
            raise error(
                "IL111",
                f"`{word[:40]}` is no number",
                Span(source.base + start, len(word)),
                help=f"write a whole number: `{text} 4`",
            )
        else:
            out[name] = _Flag(int(word), both)
        i += 2
    return out


def _layout_of_flags(source: Source, flags: dict[str, _Flag], sizes: LayoutSizes) -> Layout:
    for name in ("per_stage", "chunks", "first", "last", "embedding", "loss"):
        if name in flags:
            raise InputError(
                Finding.of_input(
                    "IL111",
                    "a layout says where every layer is, and this flag says it again",
                    (Mark(flags[name].span), Mark(flags["layout"].span, "the layout")),
                    "delete one of the two",
                )
            )

    def value(name):
        return flags[name].value if name in flags else None

    start, end = flags["layout"].at
    layers = value("layers") if sizes.layers is None else sizes.layers
    mtp = value("mtp") if sizes.mtp is None else sizes.mtp
    return read_layout(
        source,
        LayoutSizes(value("ranks"), layers, mtp if mtp is not None else 0 if layers is not None else None),
        start,
        end,
    )


def _split(flags: dict[str, _Flag]) -> tuple[list[int], int]:  # noqa: C901
    """Items of each rank, the embedding and the loss among them where they count as layers, and the chunks.

    Raises IL111, IL215.
    """

    def value(name):
        return flags[name].value if name in flags else None

    layers, ranks, first, last = value("layers"), value("ranks"), value("first"), value("last")
    _together(flags, "per_stage", "chunks", "both give the number of chunks")
    for name in ("first", "last"):
        for other in ("embedding", "loss"):
            _together(flags, name, other, "Megatron does not combine the two")
        _together(
            flags,
            name,
            "per_stage",
            "Megatron wants `--num-virtual-stages-per-pipeline-rank` where the split is uneven",
        )
    counted = layers + ("embedding" in flags) + ("loss" in flags)
    items = [counted // ranks] * ranks
    if first is not None or last is not None:
        if ranks == 1 or ranks == 2 and first is not None and last is not None and first + last != layers:
            built = sum(x for x in (first, last) if x is not None)
            raise _lost(
                layers,
                built,
                flags["first" if first is not None else "last"].span,
                f"{ranks} rank{'s' * (ranks > 1)} hold {built} of them",
                "give numbers that sum to the layers asked",
            )
        left = layers - (first or 0) - (last or 0)
        between = ranks - (first is not None) - (last is not None)
        if left < 0 or between and left % between:
            built = max((first or 0) + (last or 0) + max(left, 0) // max(between, 1) * between, 0)
            raise _lost(
                layers,
                built,
                flags["layers"].span,
                f"{max(left, 0)} layers are left for {between} ranks",
                _multiples(left, between)
                if left >= 0
                else "the first and the last rank take more than there are",
            )
        items = [left // between if between else 0] * ranks
        items[0] = items[0] if first is None else first
        items[-1] = items[-1] if last is None else last
    elif counted % ranks:
        what = (
            f"{counted} layers (with the embedding or the loss)" if counted != layers else f"{layers} layers"
        )
        raise _lost(
            layers,
            _whole(counted // ranks, flags, ranks) - (counted - layers),
            flags["layers"].span,
            f"{what} on {ranks} ranks",
            _multiples(counted, ranks),
        )
    chunks = value("chunks") or 1
    if "chunks" in flags and not value("chunks"):
        raise error("IL111", "0 chunks a rank are asked", flags["chunks"].span, help="write 1 or more")
    if "per_stage" in flags:
        per = value("per_stage")
        if not per:
            raise error(
                "IL111", "0 layers a stage are asked", flags["per_stage"].span, help="write 1 or more"
            )
        if items[0] % per:
            raise _lost(
                layers,
                items[0] // per * per * ranks - (counted - layers),
                flags["per_stage"].span,
                f"{items[0]} layers a rank, in stages of {per}",
                _multiples(items[0], per),
            )
        chunks = items[0] // per
    for r, number in enumerate(items):
        if number % chunks:
            raise _lost(
                layers,
                sum(n // chunks * chunks for n in items) - (counted - layers),
                flags["chunks"].span,
                f"{number} layers on rank {r} in {chunks} chunks",
                _multiples(number, chunks),
            )
    return items, chunks


def _whole(per_rank: int, flags: dict[str, _Flag], ranks: int) -> int:
    """The layers that whole stages of equal size hold."""
    chunks = flags["chunks"].value if "chunks" in flags else 1
    return per_rank // max(chunks, 1) * max(chunks, 1) * ranks


def _lost(layers: int, built: int, span: Span, label: str, help: str) -> InputError:
    return error("IL215", f"{layers} layers are asked, {built} built", span, label, help)


def _multiples(number: int, of: int) -> str:
    low = number // of * of
    return f"{number} is no multiple of {of}: {f'{low} or ' if low else ''}{low + of} would be"


def _together(flags: dict[str, _Flag], a: str, b: str, why: str) -> None:
    if a in flags and b in flags:
        raise InputError(
            Finding.of_input(
                "IL111",
                why,
                (Mark(flags[b].span), Mark(flags[a].span, "with this one")),
                "keep one of the two",
            )
        )


def _built(flags: dict[str, _Flag], per_rank: list[int], chunks: int) -> Layout:
    ranks, layers = len(per_rank), flags["layers"].value
    if ranks * chunks > MAX_ITEMS:
        raise error(
            "IL104", f"{ranks * chunks:,} stages are asked", help="a model has at most 100,000 layers"
        )
    numbers = [per_rank[s % ranks] // chunks for s in range(ranks * chunks)]
    for name, s in (("embedding", 0), ("loss", -1)):
        if name in flags:
            if not numbers[s]:
                raise error(
                    "IL215",
                    f"no room is left for the {name} in the {'first' if s == 0 else 'last'} stage",
                    flags[name].span,
                    help="ask for fewer stages",
                )
            numbers[s] -= 1
    if sum(numbers) != layers:  # what the checks above must have found
        raise _lost(layers, sum(numbers), flags["layers"].span, "", "correct the split")
    stages = ["t" * n for n in numbers]
    stages[0] = "E" + stages[0]
    stages[-1] += "m" * (flags["mtp"].value if "mtp" in flags else 0) + "L"
    span = flags["layers"].span
    layout = Layout(ranks, tuple(stages), (span,) * len(stages))
    empty = [
        Finding.of_input(
            "IL205",
            f"stage {s} gets no layer, and every stage of a schedule has one",
            (Mark(span),),
            "ask for fewer stages, or for more layers",
        )
        for s, items in enumerate(stages)
        if not items
    ]
    return Layout(ranks, layout.stages, layout.spans, tuple(empty))
