"""The bytes of what is live (holdings.py), as linear terms over the sizes of layers and the trainable bits:
spec/memory.md.

A size is a symbol with its value asserted in the group `size`, a parameter, or left open. Where bits are
symbolic, what a frozen layer keeps is `ite bit bytes 0`, with its bounds stated beside it: so a sum is
bounded without a split on every bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from interlock.engine.smt.footprint import FootprintTerms
from interlock.engine.smt.holdings import EACH_IMAGE, OUTLASTS, Content, Holding
from interlock.engine.smt.live import Moment
from interlock.engine.smt.query import Query
from interlock.engine.smt.terms import FALSE, TRUE, sum_terms
from interlock.program.facts import Facts

MEM, SIZE = "mem", "size"
PROPERTIES = ("weights", "activation", "until_weight", "output", "workspace")


@dataclass(frozen=True)
class Parameter:
    """One number that stands for the fixed bytes of a property of each of these layers."""

    name: str
    property: str
    layers: tuple[int, ...]


def always_open(group: int) -> str:
    """The gate of rows where no bit is symbolic."""
    return TRUE


class Sizes:
    """Symbols for the sizes of layers, with their values asserted unless they are open or parameters."""

    def __init__(self, query: Query, facts: Facts, parameters: Sequence[Parameter], open_sizes: bool):
        self._query, self._program, self._open = query, facts.program, open_sizes
        self._parameter = {(l, p.property): p.name for p in parameters for l in p.layers}
        self._several_images = len(set(facts.program.images)) > 1

    def find_size(self, layer: int, what: str, images: int) -> str:
        """Bytes of a property of a layer with so many images (EACH_IMAGE: what one adds)."""
        declared = getattr(self._program.layers[layer], what)
        fixed = ""
        if images != EACH_IMAGE:
            fixed = self._find_fixed(layer, what, declared.fixed)
        if images == 0:
            return fixed
        each = self._find_number(f"{what}_per_image.l{layer}", declared.per_image)
        return each if images == EACH_IMAGE else sum_terms((1, fixed), (images, each))

    def find_weights(self, layer: int) -> str:
        return self._find_fixed(layer, "weights", self._program.layers[layer].weights)

    def _find_fixed(self, layer: int, what: str, value: int) -> str:
        return self._parameter.get((layer, what)) or self._find_number(f"{what}.l{layer}", value)

    def _find_number(self, symbol: str, value: int) -> str:
        """A size as a symbol, with its value if sizes are given. What is 0 has none."""
        if not self._open and value == 0:
            return "0"
        if symbol not in self._query.sorts:
            self._query.declare_integer(symbol)
            self._query.add(SIZE, f"(<= 0 {symbol})" if self._open else f"(= {symbol} {value})")
        return symbol

    def _find_value(self, layer: int, what: str, images: int) -> int | None:
        """The bytes as a number; None where they are open."""
        if self._open or (layer, what) in self._parameter:
            return None
        declared = getattr(self._program.layers[layer], what)
        if images == EACH_IMAGE:
            return int(declared.per_image)
        return int(declared.fixed + declared.per_image * images)

    @property
    def linear(self) -> bool:
        """What is kept until W, the smaller of two sizes, is so many bytes and so many for each image."""
        return all(
            self._compare_kept(layer, images) == "part"
            for layer in range(len(self._program.layers))
            for images in (0, EACH_IMAGE)
        )

    def _compare_kept(self, layer: int, images: int) -> str:
        """Which is smaller: `until_weight`, the part, or `activation`, the whole; "" where one is open."""
        part = self._find_value(layer, "until_weight", images)
        whole = self._find_value(layer, "activation", images)
        if part is None or whole is None:
            return ""
        return "part" if part <= whole else "whole"

    def find_kept_for_weight(self, layer: int, images: int) -> str:
        """`until_weight` of a layer, at most its activation."""
        part = self.find_size(layer, "until_weight", images)
        whole = self.find_size(layer, "activation", images)
        smaller = self._compare_kept(layer, images)
        if smaller:
            return part if smaller == "part" else whole
        if part == "0" or whole == "0":
            return "0"
        symbol = f"kept_for_W.l{layer}{self.write_images(images)}"
        if symbol not in self._query.sorts:
            self._query.define_integer(SIZE, symbol, f"(ite (<= {part} {whole}) {part} {whole})")
        return symbol

    def find_state(self, layer: int) -> str:
        """Gradients and optimizer state of a trainable layer, each rounded up (R-MEM-3)."""
        memory, weights = self._program.memory, self.find_weights(layer)
        if memory is None or weights == "0":
            return "0"
        return sum_terms(
            self._scale_up(f"gradients.l{layer}", weights, *memory.gradient),
            self._scale_up(f"optimizer.l{layer}", weights, *memory.optimizer),
        )

    def _scale_up(self, symbol: str, weights: str, above: int, below: int) -> tuple[int, str]:
        """ceil(weights * above / below), as a factor and a term."""
        if below == 1 or above == 0:
            return above, weights
        if symbol not in self._query.sorts:
            self._query.declare_integer(symbol)
            scaled, whole = sum_terms((above, weights)), f"(* {below} {symbol})"
            following = sum_terms((1, scaled), (below, "1"))
            self._query.add(SIZE, f"(and (<= {scaled} {whole}) (< {whole} {following}))")
        return 1, symbol

    def find_largest(self, terms: Iterable[str], symbol: str) -> str:
        terms = [term for term in dict.fromkeys(terms) if term != "0"]
        if len(terms) < 2:
            return terms[0] if terms else "0"
        if symbol not in self._query.sorts:
            self._query.declare_integer(symbol)
            bounds = " ".join(f"(<= {term} {symbol})" for term in terms)
            values = " ".join(f"(= {term} {symbol})" for term in terms)
            self._query.add(SIZE, f"(and {bounds} (or {values}))")
        return symbol

    def write_images(self, images: int) -> str:
        """The end of a symbol of so many images, where microbatches have different numbers of them."""
        if not self._several_images:
            return ""
        return ".each" if images == EACH_IMAGE else f".i{images}"


class Bytes:
    """The bytes of holdings, moments and ranks as terms."""

    def __init__(
        self,
        query: Query,
        facts: Facts,
        footprint: FootprintTerms,
        symbolic: frozenset[int],
        parameters: Sequence[Parameter] = (),
        open_sizes: bool = False,
        gate: Callable[[int], str] = always_open,
    ):
        """`symbolic`: layers whose bits are open; `open_sizes`: no size is given, each is any number from 0.

        `gate`: of a group of rows (gates.py).
        """
        self._query, self._facts, self._footprint, self._symbolic = query, facts, footprint, symbolic
        self._sizes = Sizes(query, facts, parameters, open_sizes)
        self._gate = gate
        self._found: dict[tuple[Holding, bool], str] = {}
        self._layers = facts.program.layers

    @property
    def linear(self) -> bool:
        return self._sizes.linear

    # bits

    def _find_bit(self, layer: int, trained: bool) -> str:
        if layer in self._symbolic:
            return TRUE if trained else self._footprint.bit[layer]
        return TRUE if self._layers[layer].trainable else FALSE

    def _find_wanted(self, cls: int, last: int, trained: bool) -> str:
        """Whether a present layer up to `last` is trained, and so the gradient of its output wanted."""
        bits = {
            self._find_bit(layer, trained) for layer in self._footprint.list_present(cls, range(last + 1))
        }
        if TRUE in bits:
            return TRUE
        return FALSE if bits <= {FALSE} else self._footprint.wanted[cls, last]

    def _hold_if(self, gate: str, size: str, symbol: str) -> str:
        """The bytes where the gate is open, else 0."""
        if gate == FALSE or size == "0":
            return "0"
        if gate == TRUE:
            return size
        if symbol not in self._query.sorts:
            self._query.define_integer(MEM, symbol, f"(ite {gate} {size} 0)")
            self._query.add(MEM, f"(and (<= 0 {symbol}) (<= {symbol} {size}))")
        return symbol

    # holdings

    def find_holding(self, holding: Holding, trained: bool) -> str:
        """`trained`: with every symbolic bit true. STASH and RECOMPUTED include what is kept until W."""
        key = holding, trained
        if key not in self._found:
            self._found[key] = self._name_holding(holding, trained)
        return self._found[key]

    def _name_holding(self, holding: Holding, trained: bool) -> str:
        term = sum_terms(*((1, size) for size in self._list_sizes(holding, trained)))
        if term in self._query.sorts or term.isdigit():
            return term
        content, stage = holding.content, holding.stage
        symbol = (
            f"{'trained.' if trained else ''}{content}.s{stage}.c{holding.cls}"
            f"{self._sizes.write_images(holding.images)}{f'.g{holding.gate}' if holding.gate else ''}"
        )
        region = self._facts.program.stages[stage].region
        self._query.notes[symbol] = f"{content} of stage {stage} ({region})"
        return self._query.define_integer(MEM, symbol, term)

    def _list_sizes(self, holding: Holding, trained: bool) -> list[str]:
        match holding.content:
            case Content.STASH | Content.RECOMPUTED:
                sizes = self._list_activations(holding, trained)
                if holding.content == Content.STASH:
                    sizes += self._list_inputs_of_runs(holding, trained)
                return sizes
            case Content.UNTIL_WEIGHT | Content.RECOMPUTED_UNTIL_WEIGHT:
                return self._list_kept_for_weight(holding, trained)
            case Content.OUTPUT:
                return [self._find_output(holding, self._list_present(holding)[-1], TRUE, "")]
            case Content.INPUT | Content.INPUT_UNTIL_X:
                return [self._find_input(holding, trained)]
            case Content.GRADIENT:
                return [self._find_gradient(holding, trained)]
            case Content.WORKSPACE:
                return [self._find_workspace(holding, trained)]

    def _list_present(self, holding: Holding) -> list[int]:
        return self._list_present_of(holding.cls, holding.stage)

    def _list_present_of(self, cls: int, stage: int) -> list[int]:
        here = self._facts.program.stages[stage]
        return self._footprint.list_present(cls, range(here.first, here.last))

    def _list_own(self, holding: Holding, recomputed: bool) -> list[int]:
        return [l for l in self._list_present(holding) if self._layers[l].recompute == recomputed]

    def _write_place(self, holding: Holding, layer: int) -> str:
        return f"c{holding.cls}.l{layer}{self._sizes.write_images(holding.images)}"

    def _list_activations(self, holding: Holding, trained: bool) -> list[str]:
        """Of layers with a trainable layer at or before them on the path."""
        return [
            self._hold_if(
                self._find_wanted(holding.cls, l, trained),
                self._sizes.find_size(l, "activation", holding.images),
                f"held.{self._write_place(holding, l)}",
            )
            for l in self._list_own(holding, holding.content == Content.RECOMPUTED)
        ]

    def _list_inputs_of_runs(self, holding: Holding, trained: bool) -> list[str]:
        """The inputs of runs of recomputed layers that do not begin the stage."""
        return [
            self._find_output(
                holding, before, self._find_wanted(holding.cls, last, trained), f"input_of.l{last}"
            )
            for before, last in self._find_runs(holding)
            if before is not None
        ]

    def _list_kept_for_weight(self, holding: Holding, trained: bool) -> list[str]:
        return [
            self._hold_if(
                self._find_bit(l, trained),
                self._sizes.find_kept_for_weight(l, holding.images),
                f"held_for_W.{self._write_place(holding, l)}",
            )
            for l in self._list_own(holding, holding.content == Content.RECOMPUTED_UNTIL_WEIGHT)
        ]

    def _find_output(self, holding: Holding, layer: int, gate: str, name: str) -> str:
        size = self._sizes.find_size(layer, "output", holding.images)
        return self._hold_if(gate, size, f"{name}.{self._write_place(holding, layer)}")

    def _find_gradient(self, holding: Holding, trained: bool) -> str:
        """It crosses iff a layer up to the end of its stage is trained."""
        last = self._list_present(holding)[-1]
        return self._find_output(holding, last, self._find_wanted(holding.cls, last, trained), "crossing")

    def _find_input(self, holding: Holding, trained: bool) -> str:
        """The output of the stage before; until X only if a run of recomputed layers begins with it."""
        previous = int(self._facts.footprint.prev[holding.cls, holding.stage])
        before = self._list_present_of(holding.cls, previous)[-1]
        gate = TRUE
        if holding.content == Content.INPUT_UNTIL_X:
            lasts = [last for previous, last in self._find_runs(holding) if previous is None]
            gate = self._find_wanted(holding.cls, lasts[0], trained) if lasts else FALSE
        return self._find_output(holding, before, gate, f"input_of.s{holding.stage}")

    def _find_workspace(self, holding: Holding, trained: bool) -> str:
        cls, stage, images = holding.cls, holding.stage, self._sizes.write_images(holding.images)
        sizes = [self._sizes.find_size(l, "workspace", holding.images) for l in self._list_present(holding)]
        largest = self._sizes.find_largest(sizes, f"most_workspace.s{stage}.c{cls}{images}")
        gate = TRUE if trained else self._gate(holding.gate)
        return self._hold_if(gate, largest, f"working.s{stage}.c{cls}.g{holding.gate}{images}")

    def _find_runs(self, holding: Holding) -> list[tuple[int | None, int]]:
        """Of each run of recomputed layers the layer before it in the stage, None for the first, and its last
        layer.
        """
        runs: list[tuple[int | None, int]] = []
        before, in_run = None, False
        for l in self._list_present(holding):
            recomputed = self._layers[l].recompute
            if recomputed and in_run:
                runs[-1] = (runs[-1][0], l)
            elif recomputed:
                runs.append((before, l))
            before, in_run = l, recomputed
        return runs

    # sums

    def find_static(self, rank: int, trained: bool) -> str:
        symbol = f"{'trained.' if trained else ''}static.r{rank}"
        if symbol not in self._query.sorts:
            terms: list[tuple[int, str]] = []
            for stage in self._facts.program.stages:
                if stage.replicated or stage.rank == rank:
                    for l in range(stage.first, stage.last):
                        state = self._hold_if(
                            self._find_bit(l, trained), self._sizes.find_state(l), f"state.l{l}"
                        )
                        terms += [(1, self._sizes.find_weights(l)), (1, state)]
            self._query.notes[symbol] = f"weights, gradients and optimizer state of rank {rank}"
            self._query.define_integer(MEM, symbol, sum_terms(*terms))
        return symbol

    def sum_live(self, moment: Moment, trained: bool = False) -> str:
        """The bytes of a moment. What outlasts another content is counted where that has ended."""
        terms = [(1, self.find_static(moment.rank, trained))]
        for holding, number in moment.counts.items():
            shorter = OUTLASTS.get(holding.content)
            if shorter:
                number -= moment.counts.get(holding._replace(content=shorter), 0)
            terms.append((number, self.find_holding(holding, trained)))
        return sum_terms(*terms)
