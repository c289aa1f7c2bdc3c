"""The chain of layers of a schedule, with names for its parts and the times a layer takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from interlock.algebra.machine import bytes_per_parameter, logits_of
from interlock.language import ast
from interlock.program.ir import Layer, Size
from interlock.text.finding import Finding, InputError, Mark, error
from interlock.text.phrases import join_words, list_names, suggest
from interlock.text.quantities import LARGEST
from interlock.text.source import Span
from interlock.timing.layer_times import LayerTimes

LAYER_LIMIT = 100_000
_SIZES = ("activation", "until_weight", "output", "workspace")


@dataclass(frozen=True)
class Chain:
    """`groups[name]` are the layers of a name in order, `spans[l]` where layer l is described, and
    `glued` the borders l (between l-1 and l) that no partition may cut, with the place of their `attach`.
    `logits[l]` is a part of the activation of l.
    """

    layers: tuple[Layer, ...]
    times: tuple[LayerTimes, ...]
    spans: tuple[Span, ...]
    groups: dict[str, Sequence[int]]
    glued: dict[int, Span] = field(default_factory=dict)
    logits: tuple[Size, ...] = ()

    def resolve(self, ref: ast.LayerRef) -> Sequence[int]:
        """The layers a reference means, ascending. Raises IL107."""
        if ref.group.text not in self.groups:
            raise error(
                "IL107",
                f"no layer group is called `{ref.group}`",
                ref.group.span,
                "unknown",
                suggest(ref.group.text, self.groups) or f"known groups: {list_names(self.groups)}",
            )
        layers = self.groups[ref.group.text]
        if ref.range is None:
            return layers
        if ref.range.first > ref.range.last or ref.range.last >= len(layers):
            count = len(layers)
            raise error(
                "IL107",
                f"`{ref.group}` has {count} layer{'s' * (count != 1)}, no `{_shown(ref.range)}`",
                ref.range.span,
                help=f"its layers are 0..{count - 1}",
            )
        return layers[ref.range.first : ref.range.last + 1]

    @property
    def modalities(self) -> list[str]:
        return sorted({l.modality for l in self.layers if l.modality is not None})


def _shown(r: ast.IndexRange) -> str:
    return f"[{r.first}]" if r.first == r.last else f"[{r.first}..{r.last}]"


def build(model: ast.Model, device: ast.Device | None = None, memory: ast.MemoryBlock | None = None) -> Chain:  # noqa: C901, PLR0912
    """Raises IL101 (logits of nothing), IL107 (unknown names), IL103 (a name twice), IL104 (too many layers),
    IL201 (`attach` of layers that are no neighbours).
    """
    kinds = {item.name.text: item for item in model.items if isinstance(item, ast.Layers) and item.size == 0}
    layers: list[Layer] = []
    times: list[LayerTimes] = []
    spans: list[Span] = []
    logits: list[Size] = []
    groups: dict[str, Sequence[int]] = {}
    named: dict[str, Span] = {}

    def declare(name: ast.Word, first: int) -> None:
        if name.text in named:
            raise InputError(
                Finding.of_input(
                    "IL103",
                    f"two layer groups are called `{name}`",
                    (Mark(name.span, "this one"), Mark(named[name.text], "and this one")),
                    "rename one of them",
                )
            )
        groups[name.text] = range(first, len(layers))
        named[name.text] = name.span

    def add(name: str, properties: tuple[ast.Property, ...], span: Span) -> None:
        if len(layers) >= LAYER_LIMIT:
            raise error("IL104", f"the model has more than {LAYER_LIMIT:,} layers", span)
        logits.append(_logits(properties, memory))
        layers.append(_layer(name, properties, logits[-1], memory, span))
        times.append(_times(properties, device))
        spans.append(span)

    for item in model.items:
        first = len(layers)
        match item:
            case ast.Layers(size=0):
                continue
            case ast.Layers(name=name, size=count, properties=properties):
                if count > LAYER_LIMIT:
                    raise error("IL104", f"the model has more than {LAYER_LIMIT:,} layers", item.span)
                for i in range(count):
                    add(f"{name}[{i}]" if count > 1 else name.text, properties, name.span)
                declare(name, first)
            case ast.Pattern():
                for name, members in _pattern(item, kinds, add, first).items():
                    groups[name] = [*groups.get(name, ()), *members]
                if item.name is not None:
                    declare(item.name, first)
    if not layers:
        raise error("IL201", "the model has no layer", model.span, help="add `layer NAME { .. }`")
    if memory is not None and memory.logits is not None and all(l == Size() for l in logits):
        raise error(
            "IL101",
            "no layer has a `vocabulary` that `logits` could count",
            memory.logits.span,
            help="write `vocabulary 131072  tokens 4096` in the head's layer",
        )
    chain = Chain(tuple(layers), tuple(times), tuple(spans), groups, logits=tuple(logits))
    glued: dict[int, Span] = {}
    for item in model.items:
        if isinstance(item, ast.Attach):
            a, b = sorted((chain.resolve(item.layer), chain.resolve(item.to)), key=lambda layers: layers[0])
            if a[-1] + 1 != b[0]:
                raise error(
                    "IL201",
                    f"`{item.layer.group}` and `{item.to.group}` are no neighbours in the chain",
                    item.span,
                    help="`attach` glues the border between two layers that follow one another",
                )
            glued[b[0]] = item.span
    return replace(chain, glued=glued)


def _pattern(item: ast.Pattern, kinds: dict[str, ast.Layers], add, at: int) -> dict[str, list[int]]:
    """Adds the layers of a pattern, of which `at` is the first; the layers of each kind."""
    described: dict[str, tuple[str, tuple[ast.Property, ...]]] = {}
    for kind in item.kinds:
        if kind.letter in described:
            raise error(
                "IL103",
                f"the letter `{kind.letter}` is described twice",
                kind.span,
                help="delete one of the two lines",
            )
        properties = kind.properties
        if not properties and kind.kind.text in kinds:
            properties = kinds[kind.kind.text].properties
        elif not properties and kinds:
            raise error(
                "IL107",
                f"no kind of layer is called `{kind.kind}`",
                kind.kind.span,
                help=suggest(kind.kind.text, kinds) or f"known kinds: {list_names(kinds)}",
            )
        described[kind.letter] = (kind.kind.text, properties)
    unknown = sorted(set(item.text) - set(described))
    if unknown:
        raise error(
            "IL107",
            f"the pattern's letter{'s' * (len(unknown) > 1)} {join_words(map('`{}`'.format, unknown))} "
            f"{'are' if len(unknown) > 1 else 'is'} not described",
            item.span,
            help=f'write `"{unknown[0]}" = NAME {{ .. }}` in the pattern',
        )
    members: dict[str, list[int]] = {}
    for l, letter in enumerate(item.text, at):
        name, properties = described[letter]
        own = members.setdefault(name, [])
        add(f"{name}[{len(own)}]", properties, item.span)
        own.append(l)
    return members


def _size(quantity: ast.Quantity | None) -> Size:
    if quantity is None:
        return Size()
    return Size(0, quantity.value) if quantity.per_image else Size(quantity.value, 0)


def _logits(properties: tuple[ast.Property, ...], memory: ast.MemoryBlock | None) -> Size:
    found = {p.name: p.value for p in properties}
    if memory is None or memory.logits is None or "vocabulary" not in found:
        return Size()
    return logits_of(memory.logits, found["vocabulary"].value, _size(found["tokens"]))


def _layer(
    name: str, properties: tuple[ast.Property, ...], logits: Size, memory: ast.MemoryBlock | None, span: Span
) -> Layer:
    """`parameters` become weights, logits a part of the activation. Raises IL104."""
    found = {p.name: p for p in properties}
    size = {k: _size(found[k].value) for k in _SIZES if k in found}
    if logits != Size():
        kept = size.get("activation", Size())
        size["activation"] = Size(kept.fixed + logits.fixed, kept.per_image + logits.per_image)
    modality = found["modality"].value.text if "modality" in found else None
    weights = found["weights"].value.value if "weights" in found else 0
    if "parameters" in found:
        weights = found["parameters"].value.value * bytes_per_parameter(memory.weights if memory else None)
    if max([weights, *(n for s in size.values() for n in (s.fixed, s.per_image))]) > LARGEST:
        raise error(
            "IL104",
            f"layer `{name}` has more than 2^53 bytes of weights or logits",
            span,
            help="count what one rank holds",
        )
    return Layer(name, "frozen" not in found, modality, weights, **size, recompute="recompute" in found)


def _times(properties: tuple[ast.Property, ...], device: ast.Device | None) -> LayerTimes:
    found = {p.name: _size(p.value) for p in properties if p.name in LayerTimes.__dataclass_fields__}
    times = LayerTimes(**found)
    if times.forward is None and device is not None and (times.flops or times.hbm_bytes):
        once = _roofline(times, device)
        halves = (
            {}
            if times.backward
            else {
                "backward_input": times.backward_input or once,
                "backward_weight": times.backward_weight or once,
            }
        )
        times = replace(times, forward=once, **halves)
    return times


def _roofline(times: LayerTimes, device: ast.Device) -> Size | None:
    """max(flops / peak_flops, hbm_bytes / hbm_bandwidth), rounded up to a nanosecond; each half of the
    backward likewise.
    """

    def part(pick) -> int:
        work, moved = (pick(s) if s is not None else 0 for s in (times.flops, times.hbm_bytes))
        out = 0
        for amount, rate in ((work, device.peak_flops), (moved, device.hbm_bandwidth)):
            if rate is not None and rate.value > 0:
                out = max(out, -(-amount * 10**9 // rate.value))
        return out

    return Size(part(lambda s: s.fixed), part(lambda s: s.per_image))
