"""Paths and footprints (spec/program.md, spec/footprint.md).

Microbatches with the same present layers form a class; everything here is stored once a class.
"""

from __future__ import annotations

from .wellformed import MOST_PATHS, View, require

ON, CROSS, BACK, IWORK, WWORK = 1, 2, 4, 8, 16


class Path:
    """One class: `stages` is path(m); prev, next (-1: none, -2: the stage is not on the path) and flags are lists over all stages."""

    def __init__(self, v: View, present: list[bool]):
        self.present = present
        self.layers = [[l for l in span if present[l]] for span in v.span]        # L(s, m)
        self.stages = [s for s in range(v.S) if self.layers[s]]
        self.prev, self.next = [-2] * v.S, [-2] * v.S
        self.flags = [0] * v.S
        for p, n in zip([-1, *self.stages], [*self.stages, -1]):
            if n >= 0:
                self.prev[n] = p
            if p >= 0:
                self.next[p] = n
        before = False                                   # a layer in before(s, m) is trainable
        for s in self.stages:
            own = [v.trainable[l] for l in self.layers[s]]
            self.flags[s] = (ON
                             | CROSS * before                       # the gradient crosses from s to prev(s, m)
                             | BACK * (before or any(own))          # s runs a backward
                             | IWORK * (before or any(own[:-1]))    # the I half has work
                             | WWORK * any(own))                    # W has work
            before = before or any(own)
        self.backward = sum(1 for s in self.stages if self.flags[s] & BACK)
        # neighbours that may lie on two ranks, and all those of Sharded stages that do
        self.seams = [(p, n) for p, n in zip(self.stages, self.stages[1:]) if v.home[p] < 0 or v.home[n] < 0 or v.home[p] != v.home[n]]


def trace(v: View) -> None:
    """Adds to the view: cls[m], paths[class], and by class prev, next, flags; reduces[s]. Raises Malformed if that is too large."""
    v.cls = [0] * v.M
    number = 1
    for x in sorted({x for x in v.modality if x is not None and x in v.listed}):
        renamed = {}
        for m in v.listed[x]:
            if v.cls[m] not in renamed:
                renamed[v.cls[m]], number = number, number + 1
            v.cls[m] = renamed[v.cls[m]]
    example = {c: m for m, c in enumerate(v.cls)}
    require(len(example) * len(v.trainable) <= MOST_PATHS, "the program has too many kinds of microbatches for its layers")
    compact = {c: n for n, c in enumerate(example)}
    v.cls = [compact[c] for c in v.cls]
    v.paths = [Path(v, [x is None or x not in v.listed or m in v.listed[x] for x in v.modality]) for m in example.values()]
    v.prev, v.next, v.flags = ([getattr(p, key) for p in v.paths] for key in ("prev", "next", "flags"))
    v.reduces = [any(v.trainable[l] for l in span) for span in v.span]     # reduce(s)
