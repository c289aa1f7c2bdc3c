"""A profile: the layers of a model in the order of the chain, with what each was measured to take and to
hold.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median_high, quantiles

from interlock.program.ir import Size
from interlock.text.source import Span

FORMAT = "interlock.profile/1"
TIMES = ("forward", "backward", "backward_input", "backward_weight")
SIZES = ("activation", "until_weight", "output", "weights", "workspace")
NEEDED = SIZES[:4]  # the sizes without which bytes cannot be counted
LOGITS = ("vocabulary", "tokens")
LONGEST_NAME = 128
NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:\[(0|[1-9][0-9]{0,5})\])?", re.ASCII)


@dataclass(frozen=True)
class LayerProfile:
    """`times` (ns) by a word of TIMES, `sizes` (bytes) by a word of SIZES, and LOGITS (numbers): what is not
    there was not measured.
    `spread`: ns, by a word of TIMES.

    name: `proj`, or `llm[3]`, which is layer 3 of the group `llm`; count: so many equal layers. inputs,
    outputs: tensors as `float32[4, 16]`.
    """

    name: str
    times: dict[str, Size]
    sizes: dict[str, Size] = field(default_factory=dict)
    count: int = 1
    modality: str | None = None
    frozen: bool = False
    recompute: bool = False
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    spread: dict[str, int] = field(default_factory=dict)
    span: Span = field(default=Span(-1), compare=False)

    @property
    def group(self) -> str:
        return self.name.partition("[")[0]


@dataclass(frozen=True)
class Measured:
    """How the figures were found; what is not known is None. repeats: how many of which each time is the
    median.
    """

    by: str | None = None
    device: str | None = None
    dtype: str | None = None
    torch: str | None = None
    warmup: int | None = None
    repeats: int | None = None


@dataclass(frozen=True)
class Profile:
    layers: tuple[LayerProfile, ...]
    measured: Measured = Measured()

    def unsized(self) -> tuple[LayerProfile, str] | None:
        """The first layer without one of the sizes NEEDED, and which."""
        return next(
            ((layer, size) for layer in self.layers for size in NEEDED if size not in layer.sizes), None
        )


def median(values: Sequence[int]) -> int:
    """The upper of the two in the middle: a duration that occurred, and never the smaller one."""
    return median_high(values)


def interquartile_range(values: Sequence[int]) -> int:
    """From the lower to the upper quartile; 0 of a single one."""
    if len(values) < 2:
        return 0
    low, _, high = quantiles(values, n=4, method="inclusive")
    return round(high - low)
