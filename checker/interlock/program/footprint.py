"""The backward footprint (spec/footprint.md): which backward work exists, from trainable bits and paths."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from interlock.program.ir import Layer, Program


@dataclass(frozen=True)
class Footprint:
    """Answers for each class of microbatches with the same present layers; `of[m]`: the class of m.

    Shapes: present, stashes [classes, layers]; reduce [stages]; all others [classes, stages].
    prev and next are -1 at the ends of a path.
    """

    of: np.ndarray
    present: np.ndarray
    stashes: np.ndarray
    on_path: np.ndarray
    prev: np.ndarray
    next: np.ndarray
    cross: np.ndarray
    back: np.ndarray
    iwork: np.ndarray
    wwork: np.ndarray
    reduce: np.ndarray


def footprint(program: Program) -> Footprint:
    """R-FOOT for every microbatch. Linear in microbatches + classes * layers."""
    layers, stages = program.layers, program.stages
    trainable = np.array([l.trainable for l in layers], dtype=bool)
    of, present = _presence(program)
    classes, count = len(present), len(stages)

    trained = present & trainable
    # layers before l, and up to l, that are present and trainable
    upto = np.cumsum(trained, axis=1) > 0
    before = np.zeros_like(upto)
    before[:, 1:] = upto[:, :-1]

    shape = (classes, count)
    on_path, cross, back, iwork, wwork = (np.zeros(shape, dtype=bool) for _ in range(5))
    prev, next_ = np.full(shape, -1, dtype=np.int64), np.full(shape, -1, dtype=np.int64)
    for s, stage in enumerate(stages):
        a, b = stage.first, stage.last
        here = present[:, a:b]
        on_path[:, s] = here.any(axis=1)
        cross[:, s] = before[:, a]
        back[:, s] = upto[:, b - 1]
        wwork[:, s] = trained[:, a:b].any(axis=1)
        last_present = b - 1 - np.argmax(here[:, ::-1], axis=1)
        iwork[:, s] = before[np.arange(classes), last_present]
    for c in range(classes):
        path = np.flatnonzero(on_path[c])
        prev[c, path[1:]] = path[:-1]
        next_[c, path[:-1]] = path[1:]
    for answer in (cross, back, iwork, wwork):
        answer &= on_path
    reduce = np.array([trainable[s.first : s.last].any() for s in stages], dtype=bool)
    return Footprint(of, present, present & upto, on_path, prev, next_, cross, back, iwork, wwork, reduce)


def _presence(program: Program) -> tuple[np.ndarray, np.ndarray]:
    """The class of every microbatch, and which layers are present in each class."""
    M = program.microbatches
    names = sorted(program.modalities)
    code = np.zeros(M, dtype=np.int64)
    for bit, name in enumerate(names):
        members = np.fromiter((m for m in program.modalities[name] if 0 <= m < M), dtype=np.int64)
        code[members] |= 1 << bit
    codes, of = np.unique(code, return_inverse=True)
    if M == 0:
        codes = np.zeros(1, dtype=np.int64)
    present = np.ones((len(codes), len(program.layers)), dtype=bool)
    for l, layer in enumerate(program.layers):
        if layer.modality in names:
            present[:, l] = (codes >> names.index(layer.modality)) & 1 == 1
    return of, present


def with_trainable(layers: tuple[Layer, ...], trainable: Iterable[bool]) -> tuple[Layer, ...]:
    """The same layers with other trainable bits."""
    return tuple(replace(l, trainable=bool(t)) for l, t in zip(layers, trainable, strict=True))
