"""Traces to profiles: one made by torch.profiler here, small ones of a device by hand, and what is missing or
ambiguous.
"""

from __future__ import annotations

import gzip
import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from command import interlock
from interlock.profile import events, trace
from interlock.profile.trace import LayerSelection
from interlock.program.ir import Size
from interlock.text.finding import InputError
from interlock.text.source import Sources
from profiles import backward_op, event, forward_op, kernel, launch, range_, refusal, traced, untraced

# ---- made by PyTorch -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real(torch, tmp_path_factory):
    """Three steps of two microbatches, three layers, on the CPU: the path of the trace."""
    from torch.profiler import ProfilerActivity, profile, record_function, schedule

    layers = [
        torch.nn.Linear(64, 128),
        torch.nn.ReLU(),
        torch.nn.Sequential(torch.nn.Linear(128, 128), torch.nn.GELU(), torch.nn.LayerNorm(128)),
    ]
    path = tmp_path_factory.mktemp("trace") / "t.json"
    with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=1, warmup=1, active=3)) as prof:
        for _ in range(5):
            for _ in range(2):
                x = torch.randn(32, 64)
                for i, layer in enumerate(layers):
                    with record_function(f"model.block.{i}"):
                        x = layer(x)
                x.sum().backward()
            prof.step()
    prof.export_chrome_trace(str(path))
    return path


def test_a_trace_of_pytorch(real):
    """The figures against what the events themselves say: forwards by label, backwards by the names of their
    nodes.
    """
    profile, notes = trace.read_trace(Sources().add("t.json", real.read_text()))
    assert [l.name for l in profile.layers] == [
        "model_block[0]",
        "model_block[1]",
        "model_block[2]",
    ] and profile.measured.repeats == 6
    assert notes[0] == "18 ranges (user_annotation) of 3 layers in 3 steps" and notes[2].startswith(
        "no kernels"
    )
    rows = [e for e in json.loads(real.read_text())["traceEvents"] if e.get("ph") == "X"]
    for i, layer in enumerate(profile.layers):
        lengths = sorted(round(e["dur"] * 1000) for e in rows if e["name"] == f"model.block.{i}")
        assert len(lengths) == 6 and layer.times["forward"] == Size(lengths[3])
    ran = [
        re.sub(r".*(: |::)", "", e["name"])
        for e in sorted(rows, key=lambda e: e["ts"])
        if e["name"].startswith("autograd::engine::evaluate_function")
    ]
    assert ran[:13] == [
        "SumBackward0",
        "NativeLayerNormBackward0",
        "AccumulateGrad",
        "AccumulateGrad",
        "GeluBackward0",
        "AddmmBackward0",
        "AccumulateGrad",
        "TBackward0",
        "AccumulateGrad",
        "ReluBackward0",
        "AddmmBackward0",
        "AccumulateGrad",
        "TBackward0",
    ]
    relu = sorted(
        round(e["dur"] * 1000) for e in rows if e["name"].endswith("evaluate_function: ReluBackward0")
    )
    assert profile.layers[1].times["backward"] == Size(relu[3])
    backwards = [
        e
        for e in sorted(rows, key=lambda e: e["ts"])
        if e["name"].startswith("autograd::engine::evaluate_function")
    ]
    sums = sorted(
        sum(round(e["dur"] * 1000) for e in backwards[14 * k + 1 : 14 * k + 9]) for k in range(6)
    )  # all but the loss's
    assert profile.layers[2].times["backward"].fixed == sums[3]
    assert notes[1].startswith(f"{6 * 13} autograd operations")  # all but the loss's


def test_the_command_line(real, tmp_path):
    packed = tmp_path / "t.json.gz"
    packed.write_bytes(gzip.compress(real.read_bytes()))
    done = interlock("profile", "--trace", packed, "-o", "p.toml", cwd=tmp_path)
    assert done.code == 0 and "wrote p.toml: 3 layers" in done.err and done.out == "", done.text
    written = (tmp_path / "p.toml").read_text()
    assert "# 18 ranges" in written
    piped = interlock("profile", "--trace", "-", "-o", "-", stdin=real.read_bytes(), cwd=tmp_path)
    assert piped.code == 0 and piped.out == written
    (tmp_path / "s.sched").write_text(
        'schedule s { ranks 3 microbatches 4 model "p.toml" cut { all = model_block : 1f1b } require { '
        "makespan <= 1s } }"
    )
    assert interlock("check", "s.sched", cwd=tmp_path).code == 0
    assert interlock("profile", "--trace", "none.json", cwd=tmp_path).code == 2
    before = sorted(tmp_path.iterdir())
    torn = interlock("profile", "--trace", "-", "-o", "q.toml", stdin=real.read_bytes()[:-2000], cwd=tmp_path)
    assert torn.code == 2 and "error[IL116]" in torn.err and sorted(tmp_path.iterdir()) == before


# ---- of a device, by hand --------------------------------------------------------------------------------


def step(at: float, scale: int = 1, correlation: int = 0) -> list[dict]:
    """Two layers on thread 1 and stream 7, backward on thread 2. Kernels run later than the ranges that
    launch them.
    """
    c, s = correlation, correlation * 10
    return [
        range_("block[0]", at, 10),
        forward_op(at + 1, s + 1),
        launch(at + 1.2, c + 1),
        launch(at + 3, c + 2),
        forward_op(at + 5, s + 2),  # s + 2: of block[1]'s first node
        range_("block[1]", at + 12, 10),
        forward_op(at + 13, s + 2),
        launch(at + 13.2, c + 3),
        launch(at + 20, c + 9, name="cudaEventRecord"),
        kernel(at + 100, 10 * scale, c + 1),
        kernel(at + 105, 10 * scale, c + 2, stream=8),
        kernel(at + 130, 7 * scale, c + 3),  # the first two overlap
        backward_op(at + 40, 5, s + 2),
        launch(at + 41, c + 4, tid=2),
        backward_op(at + 46, 2, None),
        launch(at + 46.5, c + 5, tid=2, name="cudaMemsetAsync"),
        backward_op(at + 50, 5, s + 1),
        launch(at + 51, c + 6, tid=2),
        backward_op(at + 60, 5, s + 7),
        launch(at + 61, c + 7, tid=2),  # s + 7: of no layer
        kernel(at + 200, 20 * scale, c + 4),
        kernel(at + 400, 3 * scale, c + 5, category="gpu_memset"),
        kernel(at + 500, 30 * scale, c + 6),
        kernel(at + 900, 50, c + 7),
    ]


def test_kernels_by_correlation():
    profile = traced(step(0), deviceProperties=[{"id": 0, "name": "NVIDIA H200"}])
    first, second = profile.layers
    assert first.times == {"forward": Size(15_000), "backward": Size(30_000)}
    assert second.times == {
        "forward": Size(7_000),
        "backward": Size(23_000),
    }  # with the AccumulateGrad behind it
    assert profile.measured.device == "NVIDIA H200" and profile.unsized() == (first, "activation")


def test_the_median_over_steps():
    profile = traced([e for k, scale in enumerate((1, 5, 2)) for e in step(1000 * k, scale, 100 * (k + 1))])
    first, second = profile.layers
    assert (
        second.times == {"forward": Size(14_000), "backward": Size(46_000)}
        and second.spread["forward"] == round((35 + 14) / 2 - (14 + 7) / 2) * 1000
    )
    assert profile.measured.repeats == 3
    even = traced([e for k, scale in enumerate((1, 3)) for e in step(1000 * k, scale, 100 * (k + 1))])
    assert even.layers[1].times["forward"] == Size(21_000)  # the upper one of two


def test_ranges_of_the_backward():
    profile = traced(
        [
            range_("a", 0, 10),
            range_("a.backward_input", 20, 4),
            range_("a.backward_weight", 30, 5),
            range_("b", 12, 3),
            range_("b.backward", 16, 2),
            range_("ProfilerStep#1", 0, 50),
        ]
    )
    assert [l.times for l in profile.layers] == [
        {"forward": Size(10_000), "backward_input": Size(4_000), "backward_weight": Size(5_000)},
        {"forward": Size(3_000), "backward": Size(2_000)},
    ]


def test_a_trace_that_begins_with_a_backward():
    """The chain is in the order of the forwards."""
    rows = [range_("b.backward", 0, 1), range_("a.backward", 2, 1), range_("a", 4, 1), range_("b", 6, 1)]
    assert [l.name for l in traced(rows).layers] == ["a", "b"]


def test_labels():
    rows = [
        range_("train", 0, 90),
        range_("layer:enc.0", 1, 5),
        range_("layer:enc.1", 7, 5),
        range_("layer:head", 13, 5),
        range_("Optimizer.step#Adam.step", 50, 3),
    ]
    assert untraced(rows)[1].startswith("the ranges `train` and `layer:enc.0` overlap")
    asked = LayerSelection(re.compile("layer:(.*)"), frozenset({"enc[0]", "enc[1]", "head"}))
    profile = traced(rows, asked)
    assert [(l.name, l.frozen, sorted(l.times)) for l in profile.layers] == [
        ("enc[0]", True, ["forward"]),
        ("enc[1]", True, ["forward"]),
        ("head", True, ["forward"]),
    ]
    assert [
        trace.layer_name(x) for x in ("transformer.h.3", "a[07]", "3d conv", "Größe", "", "llm[0]", "x_1")
    ] == ["transformer_h[3]", "a[7]", "_3d_conv", "Gr_e", "layer", "llm[0]", "x[1]"]


LAYERED = [range_("a", 0, 10), range_("a.backward", 20, 4)]
WRONG = {
    "nothing": ([], "no range of this trace is a layer: it has none at all"),
    "none of the label": (
        LAYERED,
        "no range of this trace is a layer: it has `a` and `a.backward`",
        LayerSelection(re.compile("llm.*")),
    ),
    "two labels of a name": (
        LAYERED + [range_("x.y", 40, 1), range_("x_y", 50, 1)],
        "the labels `x.y` and `x_y` would both be layer `x_y`",
    ),
    "not from 0": ([range_("a[1]", 0, 10)], "the layers of `a` run in the order `a[1]`"),
    "another order": (
        [range_("a[1]", 0, 10), range_("a[0]", 20, 10)],
        "the layers of `a` run in the order `a[1]` and `a[0]`",
    ),
    "unequal forwards": (
        LAYERED + [range_("b", 40, 1), range_("b", 50, 1)],
        "layer `a` has 1 forwards, others have 2",
    ),
    "no forward": ([range_("a.backward", 0, 10)], "layer `a` has 0 forwards and 1 of `backward`"),
    "no backward": ([range_("a", 0, 10)], "layer `a` has no backward in this trace"),
    "few backwards": (LAYERED + [range_("a", 40, 1)], "layer `a` has 2 forwards and 1 of `backward`"),
    "few autograd operations": (
        [range_("a", 0, 10), forward_op(1, 5), range_("a", 20, 10), backward_op(40, 2, 5)],
        "layer `a` has 2 forwards and 1 of `backward`",
    ),
    "half a backward": (
        [range_("a", 0, 10), range_("a.backward_input", 20, 4)],
        "layer `a` has `backward_input` and no `backward_weight`",
    ),
    "nested": (
        LAYERED + [range_("b", 2, 3), range_("b.backward", 30, 1)],
        "the ranges `a` and `b` overlap: which of them is the layer is ambiguous",
    ),
    "crossing": (
        LAYERED + [range_("b", 9, 3), range_("b.backward", 30, 1)],
        "the ranges `a` and `b` overlap: which of them is the layer is ambiguous",
    ),
    "recomputed": (
        [range_("a", 0, 10), forward_op(1, 5), backward_op(20, 30, 5, tid=1), range_("a", 25, 10)],
        "layer `a` runs again inside a backward: activations are recomputed",
    ),
    "frozen and unknown": (
        LAYERED,
        "no layer of this trace is called `b`",
        LayerSelection(None, frozenset({"b"})),
    ),
    "two forward threads": (
        [range_("a", 0, 10), range_("a", 5, 10, tid=3), forward_op(1, 5), backward_op(20, 3, 5)],
        "forwards run on 2 threads, and autograd numbers its operations on each of them anew",
    ),
    "two origins": (
        [range_("a", 0, 10), forward_op(1, 5), backward_op(20, 3, 5), backward_op(30, 3, 5, origin=4)],
        "forwards run on 2 threads, and autograd numbers its operations on each of them anew",
    ),
    "a kernel is missing": (
        [e for e in step(0) if e["args"].get("correlation") != 3 or e["cat"] != "kernel"],
        "layer `block[1]`: what `cudaLaunchKernel` with correlation id 3 launched is missing",
    ),
    "all kernels are missing": (
        [e for e in step(0) if e["cat"] not in ("kernel", "gpu_memset")],
        "layer `block[0]`: what `cudaLaunchKernel` with correlation id",
    ),
    "of torch_npu": (
        LAYERED + [{"ph": "s", "cat": "async_npu", "name": "async_npu", "ts": 1}],
        "this trace has events of category `async_npu`",
    ),
    "launched twice": (
        step(0) + [launch(2, 3)],
        "correlation id 3 is launched twice: whose kernel it is, is ambiguous",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_missing_or_ambiguous(name):
    rows, message, *asked = WRONG[name]
    code, said, help = untraced(rows, *asked)
    assert code == "IL116" and said.startswith(message) and help


def test_a_range_without_a_kernel():
    rows = [e for e in step(0) if e["args"].get("correlation") != 3]
    assert (
        untraced(rows)[1]
        == "the `forward` of layer `block[1]` launches nothing on the device, and the trace has kernels"
    )


@given(st.data())
@settings(max_examples=100)
def test_a_trace_with_events_left_out_is_read_or_refused(data):
    rows = step(0) + step(1000, 2, 100)
    kept = [r for r in rows if data.draw(st.integers(0, 9))]
    try:
        profile = traced(data.draw(st.permutations(kept)))
        assert all(t.fixed > 0 for l in profile.layers for t in l.times.values())
    except InputError as refused:
        assert [d.code for d in refused.findings] == ["IL116"] and all(d.help for d in refused.findings)


TORN = {
    "empty": "",
    "a word": "hello",
    "a number": "3",
    "cut off": '{"traceEvents": [{"ph": "X"',
    "no events": "{}",
    "events are no list": '{"traceEvents": 3}',
    "more behind": '{"traceEvents": []} x',
    "not a number": '{"traceEvents": [{"ts": NaN}]}',
    "a long number": '{"traceEvents": [{"ts": %s}]}' % ("9" * 10000),
    "a long fraction": '{"traceEvents": [{"ts": 1.%s}]}' % ("9" * 100),
    "deep": '{{"traceEvents": {}{}}}'.format("[" * 100000, "]" * 100000),
    "no comma": '[{"ph": "X"} {"ph": "X"}]',
    "single quotes": "{'traceEvents': []}",
}


@pytest.mark.parametrize("name", TORN)
def test_what_is_no_trace(name):
    d, (code, message, help) = refusal(trace.read_trace, Sources().add("t.json", TORN[name]))
    assert (
        code == "IL116" and help and 0 <= d.marks[0].span.at <= len(TORN[name])
        if d.marks
        else "no range" in message
    )


def test_bytes(monkeypatch):
    packed = gzip.compress(b'{"traceEvents": []}')
    assert events.decode("t", packed) == '{"traceEvents": []}'
    assert (
        refusal(events.decode, "t", packed[:-9])[1][0] == "IL116"
        and refusal(events.decode, "t", b"\xff")[1][0] == "IL105"
    )
    monkeypatch.setattr(events, "MAX_BYTES", 1000)
    assert (
        refusal(events.decode, "t", gzip.compress(b" " * 10**7))[1][0]
        == "IL104"
        == refusal(events.decode, "t", b" " * 1001)[1][0]
    )


def test_events_without_sense_are_left_out():
    rows = [
        *LAYERED,
        3,
        None,
        {"ph": "X"},
        {"ph": "X", "cat": 3, "name": []},
        event("user_annotation", "a", "x", 1),
        event("user_annotation", "a", 10**30, 1),
        event("user_annotation", "a", 1, -4),
        {**event("cpu_op", "aten::mm", 1, 1), "args": 7, "pid": [1], "tid": {}},
    ]
    profile, notes = trace.read_trace(
        Sources().add("t.json", json.dumps(rows))
    )  # a list of events, as Chrome allows
    assert (
        profile.layers[0].times["forward"] == Size(10_000)
        and notes[-1] == "left out: 3 events without a time"
    )
