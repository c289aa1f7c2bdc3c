"""The bytes of what is live (live.py), as linear terms over the sizes of layers and the trainable bits: spec/memory.md.

A size is a symbol with its value asserted in the group `size`, a parameter, or left open. Where bits are symbolic, what a frozen layer keeps is
`ite bit bytes 0`, with its bounds stated beside it: so a sum is bounded without a split on every bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from interlock.engine.smt import live
from interlock.engine.smt.footprint import Feet
from interlock.engine.smt.live import EACH, WITHIN, Moment, Part
from interlock.engine.smt.query import FALSE, TRUE, Query, add
from interlock.program.facts import Facts

MEM, SIZE = "mem", "size"
PROPERTIES = ("weights", "activation", "until_weight", "output", "workspace")
NAMES = {
    live.STASH: "stash",
    live.UNTIL_WEIGHT: "until_weight",
    live.ANEW: "anew",
    live.ANEW_UNTIL_WEIGHT: "anew_until_weight",
    live.OUTPUT: "output",
    live.INPUT: "input",
    live.INPUT_UNTIL_X: "input_until_X",
    live.GRADIENT: "gradient",
    live.WORKSPACE: "workspace",
}


@dataclass(frozen=True)
class Parameter:
    """One number that stands for the fixed bytes of a property of each of these layers."""

    name: str
    property: str
    layers: tuple[int, ...]


class Bytes:
    """Sizes of parts as terms. `symbolic`: layers whose bits are open; `open_sizes`: no size is given, each is any number from 0."""

    def __init__(
        self,
        query: Query,
        facts: Facts,
        feet: Feet,
        symbolic: frozenset[int],
        parameters: Sequence[Parameter] = (),
        open_sizes: bool = False,
        gate: Callable[[int], str] = lambda group: TRUE,
    ):
        self._query, self._facts, self._feet, self._symbolic = query, facts, feet, symbolic
        self._open, self._gate = open_sizes, gate
        self._parameter = {(l, p.property): p.name for p in parameters for l in p.layers}
        self._sized: dict[tuple, str] = {}
        self._several = len(set(facts.program.images)) > 1

    # sizes of a layer

    def size(self, l: int, what: str, images: int = 0) -> str:
        """Bytes of a layer with so many images (EACH: what one adds) as a term; weights have none."""
        declared = getattr(self._facts.program.layers[l], what)
        fixed, per_image = (declared, 0) if what == "weights" else (declared.fixed, declared.per_image)
        name = "" if images == EACH else self._parameter.get((l, what)) or self._number(f"{what}.l{l}", fixed)
        if what == "weights" or images == 0:
            return name
        each = self._number(f"{what}_per_image.l{l}", per_image)
        return each if images == EACH else add((1, name), (images, each))

    def _number(self, symbol: str, value: int) -> str:
        """A size as a symbol, with its value if sizes are given. What is 0 has none."""
        if not self._open and value == 0:
            return "0"
        if symbol not in self._query.sorts:
            self._query.integer(symbol)
            self._query.add(SIZE, f"(<= 0 {symbol})" if self._open else f"(= {symbol} {value})")
        return symbol

    def _value(self, l: int, what: str, images: int) -> int | None:
        if self._open or (l, what) in self._parameter:
            return None
        declared = getattr(self._facts.program.layers[l], what)
        return declared.per_image if images == EACH else declared.fixed + declared.per_image * images

    @property
    def linear(self) -> bool:
        """What is kept until W, the smaller of two sizes, is so many bytes and so many for each image."""
        sizes = lambda l, images: (
            self._value(l, "until_weight", images),
            self._value(l, "activation", images),
        )
        pairs = [sizes(l, images) for l in range(len(self._facts.program.layers)) for images in (0, EACH)]
        return all(None not in pair and pair[0] <= pair[1] for pair in pairs)

    def _for_weight(self, l: int, images: int) -> str:
        """`until_weight` of a layer, at most its activation."""
        part, whole = self.size(l, "until_weight", images), self.size(l, "activation", images)
        values = self._value(l, "until_weight", images), self._value(l, "activation", images)
        if None not in values:
            return part if values[0] <= values[1] else whole
        if part == "0" or whole == "0":
            return "0"
        symbol = f"kept_for_W.l{l}" + self._of(images)
        if symbol not in self._query.sorts:
            self._query.number(SIZE, symbol, f"(ite (<= {part} {whole}) {part} {whole})")
        return symbol

    def _state(self, l: int) -> str:
        """Gradients and optimizer state of a trainable layer, each rounded up."""
        memory, weights = self._facts.program.memory, self.size(l, "weights")
        if memory is None or weights == "0":
            return "0"
        total = []
        for name, (above, below) in (("gradients", memory.gradient), ("optimizer", memory.optimizer)):
            if below == 1 or above == 0:
                total.append((above, weights))
                continue
            symbol = f"{name}.l{l}"
            if symbol not in self._query.sorts:
                self._query.integer(symbol)
                scaled, whole = add((above, weights)), f"(* {below} {symbol})"
                self._query.add(
                    SIZE, f"(and (<= {scaled} {whole}) (< {whole} {add((1, scaled), (below, '1'))}))"
                )
            total.append((1, symbol))
        return add(*total)

    def _of(self, images: int) -> str:
        return (".each" if images == EACH else f".i{images}") if self._several else ""

    # bits

    def _bit(self, l: int, trained: bool) -> str:
        layer = self._facts.program.layers[l]
        return (
            (TRUE if trained else self._feet.bit[l])
            if l in self._symbolic
            else TRUE
            if layer.trainable
            else FALSE
        )

    def _wanted(self, cls: int, layers: Sequence[int], trained: bool) -> str:
        """Whether one of the layers, all that are present up to the last of them, is trained."""
        bits = {self._bit(l, trained) for l in layers}
        return TRUE if TRUE in bits else FALSE if bits <= {FALSE} else self._feet.wanted[cls, layers[-1]]

    def _held(self, gate: str, bytes_: str, symbol: str) -> str:
        """The bytes where the gate is open."""
        if gate == FALSE or bytes_ == "0":
            return "0"
        if gate == TRUE:
            return bytes_
        if symbol not in self._query.sorts:
            self._query.number(MEM, symbol, f"(ite {gate} {bytes_} 0)")
            self._query.add(MEM, f"(and (<= 0 {symbol}) (<= {symbol} {bytes_}))")
        return symbol

    # sizes of parts

    def part(self, part: Part, trained: bool) -> str:
        """`trained`: as if every symbolic bit were true. STASH and ANEW are the whole activation, what is kept for W included."""
        key = part, trained
        if key not in self._sized:
            term = self._part(part, trained)
            at = (
                f".s{part.stage}.c{part.cls}"
                + self._of(part.images)
                + (f".g{part.gate}" if part.gate else "")
            )
            symbol = f"{'trained.' if trained else ''}{NAMES[part.what]}{at}"
            if term not in self._query.sorts and not term.isdigit():
                region = self._facts.program.stages[part.stage].region
                self._query.notes[symbol] = f"{NAMES[part.what]} of stage {part.stage} ({region})"
                term = self._query.number(MEM, symbol, term)
            self._sized[key] = term
        return self._sized[key]

    def _part(self, part: Part, trained: bool) -> str:
        cls, images, of = part.cls, part.images, self._of(part.images)
        layers = self._present(cls, part.stage)
        declared = self._facts.program.layers
        wanted = lambda l: self._wanted(cls, self._feet.layers(cls, range(l + 1)), trained)
        output = lambda l, gate, name: self._held(
            gate, self.size(l, "output", images), f"{name}.c{cls}.l{l}{of}"
        )
        match part.what:
            case live.STASH | live.ANEW:
                mine = [l for l in layers if declared[l].recompute == (part.what == live.ANEW)]
                total = [
                    self._held(wanted(l), self.size(l, "activation", images), f"held.c{cls}.l{l}{of}")
                    for l in mine
                ]
                if part.what == live.STASH:  # and the inputs of the recomputed layers
                    total += [
                        output(before, wanted(last), f"input_of.l{last}")
                        for before, last in self._runs(cls, part.stage)
                        if before is not None
                    ]
            case live.UNTIL_WEIGHT | live.ANEW_UNTIL_WEIGHT:
                mine = [l for l in layers if declared[l].recompute == (part.what == live.ANEW_UNTIL_WEIGHT)]
                total = [
                    self._held(
                        self._bit(l, trained), self._for_weight(l, images), f"held_for_W.c{cls}.l{l}{of}"
                    )
                    for l in mine
                ]
            case live.OUTPUT:
                total = [output(layers[-1], TRUE, "")]
            case live.INPUT | live.INPUT_UNTIL_X:
                before = self._present(cls, int(self._facts.footprint.prev[cls, part.stage]))[-1]
                kept = [wanted(last) for made_of, last in self._runs(cls, part.stage) if made_of is None]
                gate = TRUE if part.what == live.INPUT else kept[0] if kept else FALSE
                total = [output(before, gate, f"input_of.s{part.stage}")]
            case live.GRADIENT:  # crosses iff a layer up to the end of its stage is trained
                total = [output(layers[-1], wanted(layers[-1]), "crossing")]
            case _:
                largest = self._most(
                    [self.size(l, "workspace", images) for l in layers],
                    f"most_workspace.s{part.stage}.c{cls}{of}",
                )
                total = [
                    self._held(
                        TRUE if trained else self._gate(part.gate),
                        largest,
                        f"working.s{part.stage}.c{cls}.g{part.gate}{of}",
                    )
                ]
        return add(*((1, term) for term in total))

    def _present(self, cls: int, stage: int) -> list[int]:
        here = self._facts.program.stages[stage]
        return self._feet.layers(cls, range(here.first, here.last))

    def _runs(self, cls: int, stage: int) -> list[tuple[int | None, int]]:
        """Of each run of recomputed layers of a stage the layer before it in the stage, None for the first, and its last layer."""
        out: list[tuple[int | None, int]] = []
        before, run = None, False
        for l in self._present(cls, stage):
            again = self._facts.program.layers[l].recompute
            if again:
                out = [*out[:-1], (out[-1][0], l)] if run else [*out, (before, l)]
            before, run = l, again
        return out

    def _most(self, terms: Iterable[str], symbol: str) -> str:
        terms = [t for t in dict.fromkeys(terms) if t != "0"]
        if len(terms) < 2:
            return terms[0] if terms else "0"
        if symbol not in self._query.sorts:
            self._query.integer(symbol)
            self._query.add(
                SIZE,
                f"(and {' '.join(f'(<= {t} {symbol})' for t in terms)} (or {' '.join(f'(= {t} {symbol})' for t in terms)}))",
            )
        return symbol

    # sums

    def static(self, rank: int, trained: bool) -> str:
        symbol = f"{'trained.' if trained else ''}static.r{rank}"
        if symbol not in self._query.sorts:
            total = []
            for stage in self._facts.program.stages:
                if stage.replicated or stage.rank == rank:
                    for l in range(stage.first, stage.last):
                        total += [
                            (1, self.size(l, "weights")),
                            (1, self._held(self._bit(l, trained), self._state(l), f"state.l{l}")),
                        ]
            self._query.notes[symbol] = f"weights, gradients and optimizer state of rank {rank}"
            self._query.number(MEM, symbol, add(*total))
        return symbol

    def live(self, moment: Moment, trained: bool = False) -> str:
        """The bytes of a moment. What lasts longer than what it lies within is counted where that has ended."""
        total = [(1, self.static(moment.rank, trained))]
        for part, n in moment.counts.items():
            if part.what in WITHIN:
                n -= moment.counts.get(part._replace(what=WITHIN[part.what]), 0)
            total.append((n, self.part(part, trained)))
        return add(*total)
