"""Schedule invariance (spec/footprint.md): one order serves every freezing."""

from __future__ import annotations

from .listing import data
from .wellformed import F, LOSS, MOST_WORK, W, View, require

ALWAYS = -1                # a disjunction is a set of bits in an integer; all bits: the constant 1


def needs_something_absent(v: View, bits: list[int]) -> tuple[int, int] | None:
    """Rows (a, b) and bits exist under which b is present and a, which it needs, is not; None: for no choice.

    The presence of an operation is a disjunction of bits, and "b needs a" holds for every choice iff the disjunction of b
    is included in that of a: F and LOSS always, X(s, m) by back, W(s, m) by wwork. A transfer exists iff both ends cross,
    which is the presence of X at the receiver; REDUCE(s), and what has no stage, needs nothing.
    """
    require(len(v.paths) * v.S * (len(bits) + 64) <= 20 * MOST_WORK, "there are too many bits for the stages")
    bit = {l: 1 << n for n, l in enumerate(bits)}
    back, wwork = [], []                                             # by class and stage
    for path in v.paths:
        back.append([0] * v.S)
        wwork.append([0] * v.S)
        before = 0
        for s in path.stages:
            own = 0
            for l in path.layers[s]:
                if v.trainable[l]:
                    own |= bit.get(l, ALWAYS)
            before |= own
            wwork[-1][s], back[-1][s] = own, before

    def presence(i: int) -> int:
        if v.kind[i] in (F, LOSS):
            return ALWAYS
        return (wwork if v.kind[i] == W else back)[v.cls[v.mb[i]]][v.stage[i]]

    for a, b in data(v):
        if presence(b) & ~presence(a):
            return a, b
    return None
