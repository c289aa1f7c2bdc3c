"""A trace of the PyTorch profiler to a Profile: times of the layers that `record_function` names
(spec/profiles.md, "From a trace").
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from interlock.profile.data import LayerProfile, Measured, Profile, interquartile_range, median
from interlock.profile.events import trace_error
from interlock.profile.records import Interval, Records, busy_time, read_records
from interlock.program.ir import Size
from interlock.text.finding import InputError
from interlock.text.phrases import join_words, suggest
from interlock.text.source import Source

STEP = re.compile(r"ProfilerStep#[0-9]+")
OWN = re.compile(
    r"ProfilerStep#.*|Optimizer\..*|enumerate\(DataLoader\).*|autograd::.*|torch::.*|c10d::.*|(?:nccl|gloo|hccl):.*|DistributedDataParallel.*|"
    r"FullyShardedDataParallel.*|FSDP::.*|Torch-Compiled Region.*|TorchDynamo.*|Pregraph.*|PyTorch "
    r"Profiler.*|## .*|PROFILER.*"
)
_PART = re.compile(r"(.+)\.(forward|backward|backward_input|backward_weight)")
_LAUNCHES = re.compile(r"LaunchKernel|GraphLaunch")


@dataclass(frozen=True)
class LayerSelection:
    """`label`: which ranges are layers, the name being its first group, if it has one; None: all that are not
    PyTorch's own.
    `frozen`: layers without a backward."""

    label: re.Pattern[str] | None = None
    frozen: frozenset[str] = frozenset()


@dataclass
class _Layer:
    """samples[part]: the intervals of each time, host side."""

    name: str
    samples: dict[str, list[list[Interval]]] = field(default_factory=lambda: defaultdict(list))


def read_trace(
    source: Source, selection: LayerSelection = LayerSelection()
) -> tuple[Profile, tuple[str, ...]]:
    """The profile of a trace, and what was used of it, in sentences. Raises InputError (IL116)."""
    found = read_records(source)
    if found.foreign is not None:
        raise _error(
            f"this trace has events of category `{found.foreign}`: of torch_npu, whose kernels are not read",
            "measure the modules on the device: `interlock profile MODULE --device npu`",
        )
    layers, count = _layers(found, selection)
    used = Counter(backward=_backward(found, layers))
    _all_there(found, layers, selection)
    on_device = bool(found.device) or any(
        _LAUNCHES.search(name) for rows in found.launches.values() for _, _, name in rows
    )
    profiles = tuple(_profile(found, layer, selection, on_device, used) for layer in layers.values())
    steps = sum(1 for r in found.ranges if STEP.fullmatch(r.name))
    notes = [
        f"{count} ranges (user_annotation) of {len(layers)} layers" + (f" in {steps} steps" if steps else ""),
        f"{used['backward']} autograd operations (evaluate_function), by sequence number"
        if used["backward"]
        else "no autograd operations",
        f"{used['device']} kernels, copies and fills, by the correlation id of their launch"
        if on_device
        else "no kernels: times are of the host's threads",
    ]
    if found.torn:
        notes.append(f"left out: {found.torn} events without a time")
    repeats = len(next(iter(layers.values())).samples["forward"])
    return Profile(
        profiles, Measured("a trace of the PyTorch profiler", found.device_name, repeats=repeats)
    ), tuple(notes)


# ---- forwards ------------------------------------------------------------------------------------------


def _layers(found: Records, selection: LayerSelection) -> tuple[dict[str, _Layer], int]:
    """By name, in the order of the chain; how many ranges they come from."""
    layers: dict[str, _Layer] = {}
    labels: dict[str, str] = {}
    count = 0
    for r in found.ranges:
        text = _layer_label(r.name, selection.label)
        if text is None:
            continue
        label, part = (m[1], m[2]) if (m := _PART.fullmatch(text)) else (text, "forward")
        name = layer_name(label)
        if labels.setdefault(name, label) != label:
            raise _error(
                f"the labels `{_shown(labels[name])}` and `{_shown(label)}` would both be layer `{name}`",
                "rename one of them in record_function",
            )
        layers.setdefault(name, _Layer(name)).samples[part].append([r])
        count += 1
    if not layers:
        there = sorted({r.name for r in found.ranges if not STEP.fullmatch(r.name)})
        raise _error(
            "no range of this trace is a layer: it has "
            f"{join_words(f'`{_shown(n)}`' for n in there[:8]) if there else 'none at all'}",
            'run each layer in `with torch.profiler.record_function("llm[0]"):`'
            + "; `--label REGEX` says which ranges are layers" * bool(there),
        )
    return _in_order(layers), count


def _layer_label(label: str, pattern: re.Pattern[str] | None) -> str | None:
    """What of a range's label names a layer; None where the range is no layer's."""
    if pattern is None:
        return None if OWN.fullmatch(label) else label
    match = pattern.fullmatch(label)
    return match and (match.groups() and match[1] or label)


def layer_name(label: str) -> str:
    """A name of the language for a label: `transformer.h.3` and `transformer.h[3]` are `transformer_h[3]`."""
    m = re.fullmatch(r"(.*?)(?:\[([0-9]{1,6})\]|[._/]([0-9]{1,6}))?", label[:200], re.S)
    name = re.sub(r"[^A-Za-z0-9_]+", "_", m[1], flags=re.A).strip("_") or "layer"
    name = ("_" if name[0].isdigit() else "") + name[:100]
    index = m[2] or m[3]
    return name if index is None else f"{name}[{int(index)}]"


def _in_order(layers: dict[str, _Layer]) -> dict[str, _Layer]:
    """By their first forwards. The layers of a group are counted from 0 in this order, as a profile wants
    them.
    """
    first = {
        name: (not layer.samples["forward"], [r.start for (r,) in layer.samples["forward"][:1]])
        for name, layer in layers.items()
    }
    layers = {name: layers[name] for name in sorted(layers, key=first.get)}
    groups: dict[str, list[str]] = defaultdict(list)
    for name in layers:
        groups[name.partition("[")[0]].append(name)
    for group, names in groups.items():
        if names != [group] and names != [f"{group}[{i}]" for i in range(len(names))]:
            raise _error(
                f"the layers of `{group}` run in the order {join_words(f'`{n}`' for n in names)}",
                f"label them `{group}[0]`, `{group}[1]` and so on in the order of the chain",
            )
    return layers


# ---- backwards -----------------------------------------------------------------------------------------


def _backward(found: Records, layers: dict[str, _Layer]) -> int:
    """Gives each forward the autograd operations of its nodes, where no ranges tell the backward; how many
    there were.
    """
    told = {name for name, layer in layers.items() if any(part != "forward" for part in layer.samples)}
    forwards = sorted(
        ((s[0], layer.name, n) for layer in layers.values() for n, s in enumerate(layer.samples["forward"])),
        key=lambda x: x[0].start,
    )
    threads = {r.thread for r, _, _ in forwards}
    origins = {key[0] for _, key in found.backward if key is not None}
    if len(threads) != 1 or len(origins) > 1:
        if set(layers) - told and found.backward:
            raise _error(
                f"forwards run on {max(len(threads), len(origins))} threads, and autograd numbers its "
                "operations on each of them anew",
                "trace one thread, or label the backward too: `llm[0].backward`",
            )
        return 0
    (thread,) = threads
    owner: dict[int, tuple[str, int]] = {}
    starts = [r.start for r, _, _ in forwards]
    for (where, number), op in found.forward.items():
        i = bisect_right(starts, op.start) - 1
        if where == thread and i >= 0 and forwards[i][0].holds(op):
            owner[number] = forwards[i][1:]
    parts: dict[tuple[str, int], list[Interval]] = defaultdict(list)
    last: dict[
        object, tuple[str, int] | None
    ] = {}  # an AccumulateGrad belongs to what its thread ran before it
    count = 0
    for op, key in found.backward:
        mine = last.get(op.thread) if key is None else owner.get(key[1])
        last[op.thread] = mine
        if mine is not None and mine[0] not in told:
            parts[mine].append(op)
            count += 1
    for (name, _), ops in sorted(parts.items()):
        layers[name].samples["backward"].append(ops)
    return count


# ---- what must be there ----------------------------------------------------------------------------------


def _all_there(found: Records, layers: dict[str, _Layer], selection: LayerSelection) -> None:
    for name in sorted(selection.frozen - set(layers)):
        raise _error(
            f"no layer of this trace is called `{name}`",
            suggest(name, layers) or f"there are {join_words(f'`{n}`' for n in layers)}",
        )
    _apart(layers)
    _once(found, layers)
    most = max(len(layer.samples["forward"]) for layer in layers.values())
    for layer in layers.values():
        forwards = len(layer.samples["forward"])
        if forwards != most:
            raise _error(
                f"layer `{layer.name}` has {forwards} forwards, others have {most}",
                "trace whole steps, in which every layer runs equally often; `--label REGEX` says which "
                "ranges are layers",
            )
        parts = {part: len(samples) for part, samples in layer.samples.items() if part != "forward"}
        if not parts and layer.name not in selection.frozen:
            raise _error(
                f"layer `{layer.name}` has no backward in this trace",
                f"trace the backward too; if nothing runs backward through it: `--frozen {layer.name}`",
            )
        for part, n in parts.items():
            if n != forwards:
                raise _error(
                    f"layer `{layer.name}` has {forwards} forwards and {n} of `{part}`",
                    "trace whole steps: some of these began before the trace, or end after it",
                )
        if "backward" not in parts and len(parts) == 1:
            there, lacks = next(iter(parts)), ({"backward_input", "backward_weight"} - set(parts)).pop()
            if layer.name not in selection.frozen:
                raise _error(
                    f"layer `{layer.name}` has `{there}` and no `{lacks}`",
                    f"label `{layer.name}.{lacks}` too; if it has no weights to train: `--frozen "
                    f"{layer.name}`",
                )


def _apart(layers: dict[str, _Layer]) -> None:
    """No two ranges of layers on a thread overlap: time would count twice."""
    ranges = [
        s[0]
        for layer in layers.values()
        for samples in layer.samples.values()
        for s in samples
        if not s[0].name.startswith("autograd::")
    ]
    ranges.sort(key=lambda r: (str(r.thread), r.start, -r.end))
    for a, b in zip(ranges, ranges[1:]):
        if a.thread == b.thread and b.start < a.end:
            raise _error(
                f"the ranges `{_shown(a.name)}` and `{_shown(b.name)}` overlap: which of them is the layer "
                "is ambiguous",
                "say which ranges are layers: `--label 'llm.*'`",
            )


def _once(found: Records, layers: dict[str, _Layer]) -> None:
    """No forward runs inside a backward: recomputation is no forward, and its time is the backward's."""
    until: dict[object, list[tuple[int, int]]] = defaultdict(list)
    for op, _ in found.backward:  # ascending
        rows = until[op.thread]
        rows.append((op.start, max(op.end, rows[-1][1] if rows else op.end)))
    for layer in layers.values():
        for (r,) in layer.samples["forward"]:
            i = bisect_right(until[r.thread], (r.start, r.start)) - 1
            if i >= 0 and r.start < until[r.thread][i][1]:
                raise _error(
                    f"layer `{layer.name}` runs again inside a backward: activations are recomputed",
                    "trace without recomputation, and write `recompute = true` into the profile",
                )


# ---- times -----------------------------------------------------------------------------------------------


def _profile(
    found: Records, layer: _Layer, selection: LayerSelection, on_device: bool, used: Counter
) -> LayerProfile:
    times, spread = {}, {}
    for part in ("forward", "backward", "backward_input", "backward_weight"):
        if part in layer.samples:
            samples = layer.samples[part]
            taken = [
                _on_device(found, layer, part, s, used)
                if on_device
                else busy_time((i.start, i.end) for i in s)
                for s in samples
            ]
            times[part], spread[part] = Size(median(taken)), interquartile_range(taken)
    return LayerProfile(layer.name, times, frozen=layer.name in selection.frozen, spread=spread)


def _on_device(found: Records, layer: _Layer, part: str, sample: Sequence[Interval], used: Counter) -> int:
    rows = sorted({row for interval in sample for row in found.launched_in(interval)})
    intervals: list[tuple[int, int]] = []
    for _, number, name in rows:
        if number in found.doubled and number in found.device:
            raise _error(
                f"correlation id {number} is launched twice: whose kernel it is, is ambiguous",
                "trace one process a file",
            )
        if number in found.device:
            intervals += found.device[number]
        elif _LAUNCHES.search(name):
            raise _error(
                f"layer `{layer.name}`: what `{_shown(name)}` with correlation id {number} launched is "
                "missing",
                "trace until the device is done: call `torch.cuda.synchronize()` before the profiler stops",
            )
    if not intervals:
        raise _error(
            f"the `{part}` of layer `{layer.name}` launches nothing on the device, and the trace has kernels",
            "give the range to the layer beside it, or trace the device's activity in every step",
        )
    used["device"] += len(intervals)
    return busy_time(intervals)


def _error(message: str, help: str) -> InputError:
    return trace_error("IL116", message, help)


def _shown(text: str) -> str:
    text = text if text.isprintable() else ascii(text)[1:-1]
    return text if len(text) <= 60 else text[:57] + "..."
