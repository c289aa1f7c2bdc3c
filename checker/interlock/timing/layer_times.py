"""What a model says of the time its layers take."""

from __future__ import annotations

from dataclasses import dataclass

from interlock.program.ir import Size


@dataclass(frozen=True)
class LayerTimes:
    """Nanoseconds of a layer, `fixed + per_image * images[m]`; None: not given.

    `backward` is both halves as one.

    flops and hbm_bytes are counts, from which a device's peak rates give times (roofline).
    """

    forward: Size | None = None
    backward: Size | None = None
    backward_input: Size | None = None
    backward_weight: Size | None = None
    flops: Size | None = None
    hbm_bytes: Size | None = None

    def total(self) -> Size | None:
        """F, I and W together, or F and B; None if a part is missing."""
        halves = (self.backward_input, self.backward_weight)
        parts = (self.forward, *(halves if all(halves) else (self.backward,)))
        given = [part for part in parts if part is not None]
        if len(given) < len(parts):
            return None
        return Size(sum(part.fixed for part in given), sum(part.per_image for part in given))
