"""Texts of profiles and traces, and what is said of them."""

from __future__ import annotations

import json

from interlock.profile import read as reading
from interlock.profile import trace
from interlock.profile.data import Profile
from interlock.text.finding import InputError
from interlock.text.source import Sources

HEAD = 'format = "interlock.profile/1"\n'
LAYER = '[[layer]]\nname = "a"\nforward = 5\n'


def read(text: str) -> Profile:
    return reading.read(Sources().add("p.toml", text))


def refusal(function, *arguments):
    """(code, line, column, message, help) of the one diagnostic; the place is None where there is none."""
    try:
        function(*arguments)
    except InputError as refused:
        [d] = refused.findings
        return d, (d.code, d.message, d.help)
    raise AssertionError("taken")


def wrong(text: str) -> tuple[str, int, int, str, str]:
    source = Sources().add("p.toml", text)
    d, said = refusal(reading.read, source)
    return said[0], *source.line_column(d.marks[0].span.at), *said[1:]


# ---- traces ----------------------------------------------------------------------------------------------


def event(category: str, name: str, ts: float, dur: float, tid: int = 1, **args) -> dict:
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": 1,
        "tid": tid,
        "ts": ts,
        "dur": dur,
        "args": {k.replace("_", " "): v for k, v in args.items()},
    }


def range_(name: str, ts: float, dur: float, tid: int = 1) -> dict:
    return event("user_annotation", name, ts, dur, tid)


def launch(ts: float, correlation: int, tid: int = 1, name: str = "cudaLaunchKernel") -> dict:
    return event("cuda_runtime", name, ts, 0.5, tid, correlation=correlation)


def kernel(ts: float, dur: float, correlation: int, stream: int = 7, category: str = "kernel") -> dict:
    return event(category, "gemm", ts, dur, stream, correlation=correlation)


def forward_op(ts: float, number: int, dur: float = 0.5, name: str = "aten::mm") -> dict:
    return event("cpu_op", name, ts, dur, 1, Sequence_number=number, Fwd_thread_id=0)


def backward_op(ts: float, dur: float, number: int | None, tid: int = 2, origin: int = 1) -> dict:
    name = "autograd::engine::evaluate_function: " + (
        "torch::autograd::AccumulateGrad" if number is None else "MmBackward0"
    )
    return event(
        "cpu_op",
        name,
        ts,
        dur,
        tid,
        **({} if number is None else {"Sequence_number": number, "Fwd_thread_id": origin}),
    )


def traced(events, asked=trace.LayerSelection(), **top) -> Profile:
    return trace.read_trace(Sources().add("t.json", json.dumps({"traceEvents": events, **top})), asked)[0]


def untraced(events, asked=trace.LayerSelection()) -> tuple[str, str, str]:
    return refusal(traced, events, asked)[1]
