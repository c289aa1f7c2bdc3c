"""The plain form of spec/program.md, which the kernel and the executor read and a certificate carries."""

from __future__ import annotations

from typing import Any

import numpy as np

from interlock.program.ir import COLUMNS, Layer, Memory, Program, Size, Stage
from interlock.program.kinds import Kind


def plain_form(program: Program) -> dict[str, Any]:
    """np.ndarray, strings and lists alone: JSON."""
    p, o = program, program.order
    return {
        "format": "interlock.program/1",
        "ranks": p.ranks,
        "microbatches": p.microbatches,
        "layers": [_layer(layer) for layer in p.layers],
        "stages": [_stage(stage) for stage in p.stages],
        "images": list(p.images),
        "modalities": {name: sorted(mbs) for name, mbs in sorted(p.modalities.items())},
        "transfers": "inserted" if p.inserted else "written",
        "reductions": "inserted" if p.reductions_inserted else "written",
        "fragment": p.fragment,
        "placeholders": p.placeholders,
        "communicators": [{"name": c.name, "ranks": list(c.ranks)} for c in p.communicators],
        "ties": [{"name": t.name, "stages": list(t.stages), "comm": t.comm} for t in p.ties],
        "memory": None if p.memory is None else _memory(p.memory),
        "names": list(p.names),
        "kinds": [kind.name for kind in Kind],
        "order": {"start": o.start.tolist()} | {name: _column(getattr(o, name)) for name in COLUMNS},
    }


def _layer(layer: Layer) -> dict[str, Any]:
    form = {
        "name": layer.name,
        "trainable": layer.trainable,
        "modality": layer.modality,
        "weights": layer.weights,
        "activation": _size(layer.activation),
        "until_weight": _size(layer.until_weight),
        "output": _size(layer.output),
        "workspace": _size(layer.workspace),
    }
    return form | {"recompute": True} if layer.recompute else form


def _size(size: Size) -> list[int]:
    return [size.fixed, size.per_image]


def _stage(stage: Stage) -> dict[str, Any]:
    where = {"rank": stage.rank} if stage.owner is None else {"owner": list(stage.owner)}
    return {"region": stage.region, "layers": [stage.first, stage.last], **where}


def _memory(memory: Memory) -> dict[str, Any]:
    return {
        "capacity": list(memory.capacity),
        "gradient": list(memory.gradient),
        "optimizer": list(memory.optimizer),
    }


def _column(values: np.ndarray) -> int | list[int]:
    """A constant column as its value, any other as a list."""
    if len(values) and (values == values[0]).all():
        return int(values[0])
    return list(values.tolist())
