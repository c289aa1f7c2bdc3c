"""A Profile to the text of a file, which `read` takes back unchanged."""

from __future__ import annotations

from dataclasses import asdict

from interlock.profile.data import FORMAT, LOGITS, SIZES, TIMES, LayerProfile, Profile
from interlock.program.ir import Size

_ESCAPES = {"\\": "\\\\", '"': '\\"'}


def to_toml(profile: Profile, notes: tuple[str, ...] = ()) -> str:
    """`notes`: lines of a comment at the head of the file."""
    lines = [
        *(f"# {note}" for note in notes),
        "# Times are nanoseconds (medians; spread: from the lower to the upper quartile), sizes bytes.",
        f'format = "{FORMAT}"',
    ]
    told = {k: v for k, v in asdict(profile.measured).items() if v is not None}
    if told:
        lines += ["", "[measured]", *(f"{k} = {_value(v)}" for k, v in told.items())]
    for layer in profile.layers:
        lines += ["", *_layer(layer)]
    return "\n".join(lines) + "\n"


def _layer(layer: LayerProfile):
    yield "[[layer]]"
    yield f"name = {_value(layer.name)}"
    if layer.count > 1:
        yield f"count = {layer.count}"
    for key in TIMES:
        if key in layer.times:
            yield f"{key} = {_size(layer.times[key], 'ns')}"
    if layer.spread:
        yield f"spread = {{ {', '.join(f'{k} = {v:_}' for k, v in layer.spread.items())} }}"
    for key in (*SIZES, *LOGITS):
        if key in layer.sizes:
            yield f"{key} = {_size(layer.sizes[key], 'B' if key in SIZES else '')}"
    if layer.modality is not None:
        yield f"modality = {_value(layer.modality)}"
    for key in ("frozen", "recompute"):
        if getattr(layer, key):
            yield f"{key} = true"
    for key in ("inputs", "outputs"):
        if tensors := getattr(layer, key):
            yield f"{key} = [{', '.join(map(_value, tensors))}]"


def _size(size: Size, unit: str) -> str:
    return f'"{size.per_image}{unit} per image"' if size.per_image else f"{size.fixed:_}"


def _value(value: str | int) -> str:
    if isinstance(value, int):
        return str(value)
    return '"' + "".join(_ESCAPES.get(c, c) for c in value) + '"'
