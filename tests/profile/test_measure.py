"""`interlock profile MODULE`: bytes against what PyTorch is known to save, what is timed, and modules that
cannot be run.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import types

import pytest
import torch
from torch import nn

from command import ROOT, interlock, start_interlock
from interlock.profile import measure, modules
from interlock.profile.write import to_toml
from profiles import read, refusal

pytestmark = pytest.mark.torch

FLOAT = 4
GIB = 2**30


def of(tmp_path, code: str, attribute: str = "layers", **settings):
    path = tmp_path / "some_layers.py"
    path.write_text("import torch\nfrom torch import nn\n" + textwrap.dedent(code))
    return measure.measure_chain(
        f"{path}:{attribute}", measure.Settings(**({"device": "cpu", "repeats": 2, "warmup": 0} | settings))
    )


def sizes(profile) -> list[dict[str, int]]:
    return [{k: v.fixed for k, v in layer.sizes.items()} for layer in profile.layers]


def test_linear_and_relu(tmp_path):
    """Linear saves its input, which W alone needs; ReLU its output, for I. Weights are not counted."""
    profile = of(
        tmp_path,
        "layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8, bias=False))",
        input="4x16",
    )
    assert [l.name for l in profile.layers] == ["layer[0]", "layer[1]", "layer[2]"]
    assert sizes(profile) == [
        {
            "activation": 4 * 16 * FLOAT,
            "until_weight": 4 * 16 * FLOAT,
            "output": 4 * 32 * FLOAT,
            "weights": (16 * 32 + 32) * FLOAT,
        },
        {"activation": 4 * 32 * FLOAT, "until_weight": 0, "output": 4 * 32 * FLOAT, "weights": 0},
        {
            "activation": 4 * 32 * FLOAT,
            "until_weight": 4 * 32 * FLOAT,
            "output": 4 * 8 * FLOAT,
            "weights": 32 * 8 * FLOAT,
        },
    ]
    assert [l.frozen for l in profile.layers] == [False, True, False]
    assert [sorted(l.times) for l in profile.layers] == [
        ["backward", "backward_input", "backward_weight", "forward"],
        ["backward_input", "backward_weight", "forward"],
        ["backward", "backward_input", "backward_weight", "forward"],
    ]
    assert (
        all(l.times["forward"].fixed > 0 < l.times["backward_input"].fixed for l in profile.layers)
        and profile.layers[1].times["backward_weight"].fixed == 0
    )
    assert (
        profile.layers[0].inputs == ("float32[4, 16]",)
        and profile.layers[2].outputs == ("float32[4, 8]",)
        and profile.measured.dtype == "float32"
    )
    assert read(to_toml(profile)) == profile


def test_distinct_storages_count_once(tmp_path):
    """x * x saves x twice; a view shares its storage; a chain saves what lies between its parts."""
    code = """
        class Square(nn.Module):
            def forward(self, x): return x * x
        class Halves(nn.Module):
            def forward(self, x): return x[:, :4] * x[:, 4:]
        layers = [Square(), Halves(), nn.Sequential(nn.Linear(4, 6), nn.Sigmoid(), nn.Linear(6, 4))]
    """
    found = sizes(of(tmp_path, code, input="4x8"))
    assert [f["activation"] for f in found] == [
        4 * 8 * FLOAT,
        4 * 8 * FLOAT,
        (4 * 4 + 4 * 6) * FLOAT,
    ]  # the sigmoid's output is the second linear's input
    assert found[2]["until_weight"] == found[2]["activation"]


def test_tokens_frozen_layers_and_tuples(tmp_path):
    code = """
        class Two(nn.Module):
            def forward(self, x): return x, 2 * x
        class Sum(nn.Module):
            def forward(self, x, y): return x + y
        def layers():
            frozen = nn.Linear(8, 8).requires_grad_(False)
            return {"embed": nn.Embedding(10, 8), "llm[0]": frozen, "two": Two(), "llm[1]": Sum()}, torch.zeros(2, 3, dtype=torch.int64)
    """
    embed, frozen, two, both = of(tmp_path, code).layers
    assert (
        embed.times["backward_input"].fixed == 0
        and "backward" not in embed.times
        and embed.sizes["activation"].fixed == 2 * 3 * 8
        and embed.inputs == ("int64[2, 3]",)
    )
    assert (
        frozen.frozen
        and "backward_weight" not in frozen.times
        and frozen.times["backward_input"].fixed > 0
        and frozen.sizes["activation"].fixed == 0
    )
    assert frozen.sizes["weights"].fixed == (8 * 8 + 8) * FLOAT
    assert (
        two.sizes["output"].fixed == 2 * 2 * 3 * 8 * FLOAT and len(both.inputs) == 2 and both.name == "llm[1]"
    )


def test_type_and_buffers(tmp_path):
    profile = of(tmp_path, "layers = [nn.BatchNorm1d(8)]", input="4x8", dtype="float64")
    assert (
        profile.layers[0].inputs == ("float64[4, 8]",)
        and profile.layers[0].sizes["weights"].fixed == 4 * 8 * 8 + 8
    )  # scale, shift, mean, variance; a count


def test_what_is_timed(tmp_path):
    """Each half computes its own gradients and no others; warm-up and repeats are as asked."""
    code = """
        ran = []
        class Noted(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, w): return x * w
            @staticmethod
            def backward(ctx, g):
                ran.append(ctx.needs_input_grad)
                return g, g.sum(0)
        class Layer(nn.Module):
            def __init__(self):
                super().__init__()
                self.w = nn.Parameter(torch.ones(4))
                self.calls = 0
            def forward(self, x):
                self.calls += 1
                return Noted.apply(x, self.w)
        layers = [Layer()]
    """
    of(tmp_path, code, input="2x4", repeats=3, warmup=2)
    module = sys.modules["some_layers"]
    assert (
        module.layers[0].calls == 1 + 4 * 5 + 1
    )  # once for the outputs, each of four times, once for the bytes
    assert len(module.ran) == 3 * 5 + 1 and module.layers[0].w.grad is None


def test_an_accelerator_is_synchronised(monkeypatch):
    """Warm-up, then synchronised; repeats between two events each; synchronised before they are read. On a
    stand-in for a device.
    """
    did = []

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            did.append("event")

        def elapsed_time(self, other):
            return did.append("read") or 0.25

    backend = types.SimpleNamespace(Event=Event, synchronize=lambda device: did.append("synchronize"))
    monkeypatch.setattr(measure.torch, "standin", backend, raising=False)
    layer = measure._Layer(
        "a",
        nn.ReLU(),
        [torch.ones(2)],
        types.SimpleNamespace(type="standin"),
        measure.Settings(repeats=2, warmup=1),
    )
    assert layer._samples(lambda: did.append("prepare"), lambda _: did.append("run")) == [250_000, 250_000]
    assert did == [
        "prepare",
        "run",
        "synchronize",
        *["prepare", "event", "run", "event"] * 2,
        "synchronize",
        "read",
        "read",
    ]


@pytest.fixture(autouse=True)
def fresh():
    """Each test imports its own file, and leaves the search path alone."""
    path = list(sys.path)
    sys.modules.pop("some_layers", None)
    yield
    sys.path[:] = path
    sys.modules.pop("some_layers", None)


WRONG = {
    "no attribute named": ("layers = []", None, {}, "names no attribute"),
    "no such attribute": ("layers = []", "others", {}, "has no attribute `others`"),
    "no list": ("layers = 3", "layers", {}, "is a int, and no list of layers"),
    "one module": ("layers = nn.Linear(2, 2)", "layers", {}, "is a Linear, and no list of layers"),
    "no layer": ("layers = []", "layers", {}, "has no layer"),
    "no module": ("layers = [3]", "layers", {}, "item 0 of `layers` is a int, and no torch module"),
    "a name of signs": ("layers = {'a b': nn.ReLU()}", "layers", {}, "`a b` is no name of a layer"),
    "no input": ("layers = [nn.ReLU()]", "layers", {"input": None}, "there is no sample input"),
    "no shape": ("layers = [nn.ReLU()]", "layers", {"input": "4,x"}, "`x` is no shape"),
    "no type": ("layers = [nn.ReLU()]", "layers", {"input": "4:load"}, "`4:load` is no shape"),
    "a large input": ("layers = [nn.ReLU()]", "layers", {"input": "999999999x999999999"}, "a sample of"),
    "an input of text": (
        "def layers(): return [nn.ReLU()], 'x'",
        "layers",
        {"input": None},
        "the sample input is str",
    ),
    "a shape that does not fit": (
        "layers = [nn.Linear(2, 2)]",
        "layers",
        {},
        "layer `layer[0]` raised RuntimeError: mat1 and mat2",
    ),
    "no tensor": (
        "class A(nn.Module):\n    def forward(self, x): return 3\nlayers = [A()]",
        "layers",
        {},
        "layer `layer[0]` gave int",
    ),
    "raises": ("raise ValueError('not today')", "layers", {}, "raised ValueError: not today"),
    "ends": ("import sys; sys.exit(0)", "layers", {}, "raised SystemExit"),
    "a function that raises": (
        "def layers(): return 1 / 0",
        "layers",
        {},
        "`layers` raised ZeroDivisionError",
    ),
    "syntax": ("layers = (", "layers", {}, "raised SyntaxError"),
    "an unknown device": (
        "layers = [nn.ReLU()]",
        "layers",
        {"device": "toaster"},
        "there is no device `toaster`",
    ),
    "a device that is not there": (
        "layers = [nn.ReLU()]",
        "layers",
        {"device": "cuda:99"},
        "device `cuda:99` is not there",
    ),
    "no floating-point type": (
        "layers = [nn.ReLU()]",
        "layers",
        {"dtype": "int64"},
        "`int64` is no floating-point type",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_measured(name, tmp_path):
    code, attribute, settings, message = WRONG[name]
    (tmp_path / "some_layers.py").write_text(f"import torch\nfrom torch import nn\n{code}\n")
    where = f"{tmp_path}/some_layers.py" + (f":{attribute}" if attribute else "")
    _, (found, said, help) = refusal(
        measure.measure_chain,
        where,
        measure.Settings(**({"device": "cpu", "input": "4x16", "repeats": 1, "warmup": 0} | settings)),
    )
    assert found == "IL117" and message in said and help


def test_a_module_by_its_name(tmp_path, monkeypatch):
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "deep.py").write_text(
        "from torch import nn\nclass Models:\n    small = nn.ModuleList([nn.ReLU()])\n"
    )
    monkeypatch.chdir(tmp_path)
    assert [name for name, _ in modules.load_chain("pack.deep:Models.small", nn).modules] == ["layer[0]"]
    for wrong in ("pack.none:x", "no such:x", "nothing.py:x", "pack.deep:", ":x"):
        assert refusal(modules.load_chain, wrong, nn)[1][0] == "IL117"
    for name in ("pack", "pack.deep"):
        sys.modules.pop(name, None)


# ---- the command -----------------------------------------------------------------------------------------

CODE = """import torch
from torch import nn
print("building")
layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))
"""


def test_the_command_line(tmp_path):
    (tmp_path / "model.py").write_text(CODE)
    done = interlock(
        "profile",
        "model.py:layers",
        "--input",
        "4x16",
        "--device",
        "cpu",
        "--repeats",
        "3",
        cwd=tmp_path,
        memory=16 * GIB,
        seconds=180,
    )
    assert (
        (done.code, done.out) == (0, "")
        and "building" in done.err
        and "wrote profile.toml: 3 layers" in done.err
    ), done.text
    assert sorted(p.name for p in tmp_path.iterdir() if p.suffix != "" and p.is_file()) == [
        "model.py",
        "profile.toml",
    ]
    (tmp_path / "s.sched").write_text(
        'schedule s {\n  ranks 2\n  microbatches 4\n  model "profile.toml"\n  cut { all = layer : 1f1b }\n  '
        "memory { capacity 1MiB }\n"
        "  for any freezing of layer[0]\n  require { makespan <= 10s  peak <= 1MiB }\n}\n"
    )
    done = interlock("check", "s.sched", cwd=tmp_path)
    assert done.code == 0, done.text
    assert interlock("show", "s.sched", cwd=tmp_path).code == 0
    (tmp_path / "s.sched").write_text((tmp_path / "s.sched").read_text().replace("1MiB", "2KiB"))
    assert interlock("check", "s.sched", cwd=tmp_path).code == 1


def test_an_interruption_leaves_what_was_there(tmp_path):
    (tmp_path / "model.py").write_text(
        CODE
        + "class Slow(nn.Module):\n    def forward(self, x):\n        import time\n        print('slow', "
        "flush=True)\n        time.sleep(60)\nlayers.append(Slow())\n"
    )
    (tmp_path / "profile.toml").write_text("what was there\n")
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "interlock.cli",
            "profile",
            "model.py:layers",
            "--input",
            "4x16",
            "--device",
            "cpu",
            "--repeats",
            "1",
        ],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT / "checker")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert any("slow" in line for line in process.stderr)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130 and out == "" and err.endswith("interrupted\n")
    assert (tmp_path / "profile.toml").read_text() == "what was there\n"
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_file()) == ["model.py", "profile.toml"]


def test_without_torch(tmp_path):
    (tmp_path / "torch.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')\n"
    )
    done = start_interlock(
        "profile", "model.py:layers", cwd=tmp_path, PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT / 'checker'}"
    )
    assert (
        done.code == 2
        and "error[IL117]: PyTorch is not installed" in done.err
        and "`pip install torch`" in done.err
    )


@pytest.mark.parametrize(
    "wrong",
    [
        (),
        ("a:b", "--trace", "t.json"),
        ("a:b", "--label", "x"),
        ("--trace", "t.json", "--device", "cpu"),
        ("a:b", "--repeats", "0"),
        ("a:b", "-o", "none/p.toml"),
        ("--trace", "t.json", "--label", "("),
    ],
)
def test_usage(wrong, tmp_path):
    done = interlock("profile", *wrong, cwd=tmp_path)
    assert (
        done.code == 2 and re.search(r"interlock( profile)?: ", done.err) and list(tmp_path.iterdir()) == []
    )
