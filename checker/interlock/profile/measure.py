"""Times a chain of torch modules and counts what they hold: the one module of this room that imports torch
(spec/profiles.md, "Measured").
"""

from __future__ import annotations

import contextlib
import platform
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from interlock.profile.data import LayerProfile, Measured, Profile, interquartile_range, median
from interlock.profile.modules import Chain, call_user_code, load_chain, measure_error
from interlock.program.ir import Size

DEVICES = ("cpu", "cuda", "npu", "xpu")
_INPUT = re.compile(r"([0-9]{1,9}(?:x[0-9]{1,9})*)(?::([a-z][a-z0-9_]*))?")
_MAX_SAMPLE_BYTES = 2**40  # of a sample input


@dataclass(frozen=True)
class Settings:
    """device, dtype: of torch, by name; None: the accelerator there is, else cpu; what the modules have.
    input: `4x16:int64`, with commas.
    """

    device: str | None = None
    dtype: str | None = None
    input: str | None = None
    repeats: int = 20
    warmup: int = 5


def measure_chain(
    where: str, settings: Settings, step: Callable[[str, int], None] = lambda name, total: None
) -> Profile:
    """Measures the modules that `where` names, one after the other. `step(name, total)` is called before each
    of the `total` runs.

    Raises InputError (IL117).
    """
    device, dtype = _device(settings.device), _dtype(settings.dtype)
    chain = load_chain(where, nn)
    inputs = _inputs(chain, settings.input, device, dtype)
    layers = []
    for name, module in chain.modules:
        step(name, len(chain.modules))
        home = next((t.device for t in (*module.parameters(), *module.buffers())), device)
        call_user_code(f"moving layer `{name}` to {device}", lambda: module.to(device=device, dtype=dtype))  # noqa: B023
        layer, outputs = call_user_code(
            f"layer `{name}`", _Layer(name, module, inputs, device, settings).profile
        )
        module.to(device=home)  # the device need not hold all layers at once
        layers.append(layer)
        inputs = tuple(t.detach() for t in outputs)
    dtypes = sorted({_name(p.dtype) for _, module in chain.modules for p in module.parameters()})
    by = f"interlock profile {where}" if where.isprintable() and len(where) < 400 else None
    measured = Measured(
        by,
        _device_name(device),
        ", ".join(dtypes) or None,
        torch.__version__,
        settings.warmup,
        settings.repeats,
    )
    return Profile(tuple(layers), measured)


class _Layer:
    """One module with its inputs: what the forward is given, and what the backward is asked for."""

    def __init__(
        self,
        name: str,
        module: nn.Module,
        inputs: Sequence[torch.Tensor],
        device: torch.device,
        settings: Settings,
    ):
        self.name, self.module, self.device, self.settings = name, module, device, settings
        self.inputs = [t.detach().requires_grad_(t.is_floating_point() or t.is_complex()) for t in inputs]
        self.asked = [t for t in self.inputs if t.requires_grad]
        self.parameters = [p for p in module.parameters() if p.requires_grad]
        self.frozen = not self.parameters and any(True for _ in module.parameters())

    def profile(self) -> tuple[LayerProfile, list[torch.Tensor]]:
        outputs = self.forward()
        taken = {"forward": self._samples(lambda: None, lambda _: self.forward())}
        both = [*self.asked, *self.parameters] if self.asked and self.parameters else []
        tracked = any(t.requires_grad for t in outputs)
        for part, wanted in (
            ("backward", both),
            ("backward_input", self.asked),
            ("backward_weight", self.parameters),
        ):
            if wanted and tracked:
                taken[part] = self._samples(
                    self._roots,
                    lambda roots: self.gradients(roots, wanted, retain=part == "backward_input"),  # noqa: B023
                )
            elif part == "backward_input" or part == "backward_weight" and not self.frozen:
                taken[part] = [0]  # of frozen weights it is not known what training them would take
        times = {part: Size(median(values)) for part, values in taken.items() if values}
        spread = {part: interquartile_range(values) for part, values in taken.items() if len(values) > 1}
        activation, until_weight = self.saved()
        sizes = {
            "activation": activation,
            "until_weight": until_weight,
            "output": sum(t.numel() * t.element_size() for t in outputs),
            "weights": self.weights(),
        }
        tensors = {"inputs": tuple(map(_shape, self.inputs)), "outputs": tuple(map(_shape, outputs))}
        sizes = {k: Size(v) for k, v in sizes.items()}
        return LayerProfile(
            self.name, times, sizes, frozen=not self.parameters, spread=spread, **tensors
        ), outputs

    def forward(self) -> list[torch.Tensor]:
        with torch.enable_grad():
            result = self.module(*self.inputs)
        outputs = list(result) if isinstance(result, (tuple, list)) else [result]
        if not outputs or not all(isinstance(t, torch.Tensor) for t in outputs):
            raise measure_error(
                f"layer `{self.name}` gave {', '.join(type(t).__name__ for t in outputs) or 'nothing'}",
                "a layer returns a tensor or a tuple of tensors",
            )
        return outputs

    def _roots(self) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """What a backward starts from, and the gradients there."""
        roots = [t for t in self.forward() if t.requires_grad]
        return roots, [torch.ones_like(t) for t in roots]

    def gradients(self, roots, wanted: Sequence[torch.Tensor], retain: bool = False) -> None:
        torch.autograd.grad(roots[0], wanted, roots[1], retain_graph=retain, allow_unused=True)

    def _samples(self, prepare: Callable, run: Callable) -> list[int]:
        """ns of each repeat of run(prepare()), of which `run` is timed."""
        warmup, repeats = self.settings.warmup, self.settings.repeats
        if self.device.type == "cpu":
            taken = []
            for _ in range(warmup + repeats):
                given = prepare()
                began = time.perf_counter_ns()
                kept = run(given)
                taken.append(time.perf_counter_ns() - began)
                del kept, given
            return taken[warmup:]
        backend = getattr(torch, self.device.type)
        for _ in range(warmup):
            run(prepare())
        backend.synchronize(self.device)
        marks = []
        for _ in range(repeats):  # handed over without waiting: the device's clock, not the host's
            given = prepare()
            first, last = backend.Event(enable_timing=True), backend.Event(enable_timing=True)
            first.record()
            run(given)
            last.record()
            marks.append((first, last))
        backend.synchronize(self.device)
        return [round(first.elapsed_time(last) * 1e6) for first, last in marks]

    def saved(self) -> tuple[int, int]:
        """Bytes that autograd saves for the backward, and those of them that the weight gradients need.

        Distinct storages; the module's own are not counted.
        """
        packed: list[torch.Tensor] = []
        needed: list[torch.Tensor] = []

        def pack(t: torch.Tensor) -> int:
            packed.append(t)
            return len(packed) - 1

        def unpack(i: int) -> torch.Tensor:
            needed.append(packed[i])
            return packed[i]

        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            roots = self._roots()
        everything = self._bytes(packed)
        if self.parameters and roots[0]:
            self.gradients(roots, self.parameters)
        return everything, self._bytes(needed)

    def _bytes(self, tensors: Iterable[torch.Tensor]) -> int:
        found = dict(map(_storage, tensors))
        for own in (*self.module.parameters(), *self.module.buffers()):
            found.pop(_storage(own)[0], None)
        return sum(found.values())

    def weights(self) -> int:
        """Bytes of parameters and buffers."""
        return sum(dict(map(_storage, (*self.module.parameters(), *self.module.buffers()))).values())


def _storage(t: torch.Tensor) -> tuple[object, int]:
    """What tells a storage from others, and its bytes."""
    try:
        storage = t.untyped_storage()
        return (t.device, storage.data_ptr()), storage.nbytes()
    except (NotImplementedError, RuntimeError):  # sparse tensors have none
        return id(t), t.numel() * t.element_size()


# ---- where and on what -----------------------------------------------------------------------------------


def _device(name: str | None) -> torch.device:
    if name is None or name.startswith("npu"):
        with contextlib.suppress(ImportError):
            import torch_npu  # noqa: F401
    if name is None:
        return torch.device(
            next(
                (
                    kind
                    for kind in ("cuda", "npu", "xpu")
                    if hasattr(torch, kind) and getattr(torch, kind).is_available()
                ),
                "cpu",
            )
        )
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in DEVICES:
        raise measure_error(
            f"there is no device `{name}` to measure on", f"known are {', '.join(DEVICES)}, also as `cuda:1`"
        )
    if device.type != "cpu":
        backend = getattr(torch, device.type, None)
        if backend is None or not backend.is_available() or (device.index or 0) >= backend.device_count():
            raise measure_error(f"device `{name}` is not there", "`--device cpu` measures on the CPU")
        backend.set_device(device)
    return device


def _device_name(device: torch.device) -> str:
    if device.type == "cpu":
        return f"cpu, {platform.machine()}, {torch.get_num_threads()} threads"
    return str(getattr(torch, device.type).get_device_name(device))


def _dtype(name: str | None) -> torch.dtype | None:
    if name is None:
        return None
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise measure_error(f"`{name}` is no floating-point type of torch", "write `--dtype bfloat16`")
    return dtype


def _inputs(
    chain: Chain, text: str | None, device: torch.device, dtype: torch.dtype | None
) -> tuple[torch.Tensor, ...]:
    if text is not None:
        given = tuple(_sample(part.strip()) for part in text.split(","))
    elif chain.inputs is None:
        raise measure_error(
            "there is no sample input",
            "add `--input 4x128:int64`, or name a function that returns (modules, sample input)",
        )
    else:
        given = chain.inputs
    if not given or not all(isinstance(t, torch.Tensor) for t in given):
        raise measure_error(
            f"the sample input is {', '.join(type(t).__name__ for t in given) or 'empty'}",
            "give a tensor, or a tuple of tensors",
        )
    return tuple(
        call_user_code(
            "the sample input",
            lambda: t.to(device=device, dtype=dtype if t.is_floating_point() else None),  # noqa: B023
        )
        for t in given
    )


def _sample(text: str) -> torch.Tensor:
    match = _INPUT.fullmatch(text)
    dtype = getattr(torch, match[2] or "float32", None) if match else None
    if not isinstance(dtype, torch.dtype):
        raise measure_error(
            f"`{text}` is no shape", "write `4x16`, or with a type `4x128:int64`; several with commas"
        )
    shape = [int(n) for n in match[1].split("x")]
    size = dtype.itemsize
    for n in shape:
        size *= n
    if size > _MAX_SAMPLE_BYTES:
        raise measure_error(f"a sample of {text} has {size:,} bytes", "measure one microbatch")
    return call_user_code(
        "the sample input",
        lambda: torch.randn(shape).to(dtype) if dtype.is_floating_point else torch.zeros(shape, dtype=dtype),
    )


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _shape(t: torch.Tensor) -> str:
    return f"{_name(t.dtype)}{list(t.shape)}"
