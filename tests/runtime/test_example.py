"""examples/train.py: the transposed schedule and the baseline give one loss curve, and benchmarks/loss.py
draws it.
"""

import importlib.util
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from command import ROOT, interlock
from torch_ranks import ENVIRONMENT, run_ranks

pytestmark = pytest.mark.torch


@pytest.fixture
def loss(monkeypatch):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    spec = importlib.util.spec_from_file_location("loss", ROOT / "benchmarks" / "loss.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def losses(name: str, steps: int, folder: Path) -> list[float]:
    """As loss.losses, without torchrun."""
    plan = folder / f"{name}.plan"
    example = ROOT / "examples" / "small_vlm.sched"
    assert interlock("lower", example, "--schedule", name, "--to", "torch", "-o", plan).code == 0
    arguments = (plan, "--steps", steps)
    ended = run_ranks(ROOT / "examples" / "train.py", [arguments] * 2, folder, 120)
    assert all(rank.code == 0 for rank in ended), ended
    return [float(x) for x in re.findall(r"^step \d+: loss ([\d.]+)$", ended[0].out, re.M)]


def test_both_schedules_give_one_curve(tmp_path, request, loss):
    """Under torchrun, and for more steps, with --thorough."""
    thorough = request.config.getoption("--thorough")
    steps, run = (50, loss.losses) if thorough else (3, losses)
    curves = {name: run(name, steps, tmp_path) for name in loss.CURVES}
    assert list(curves) == ["baseline", "transposed"] and all(
        len(c) == steps and c[-1] < c[0] for c in curves.values()
    )
    assert curves["transposed"] == pytest.approx(curves["baseline"], rel=0, abs=1e-6)
    drawn = ElementTree.fromstring(loss.draw(curves))
    paths = [
        p.get("d")
        for p in drawn.iter("{http://www.w3.org/2000/svg}path")
        if p.get("d").count("L") == steps - 1
    ]
    assert len(paths) == 2 and max(abs(a - b) for a, b in zip(*map(points, paths))) < 0.2


def points(path: str) -> list[float]:
    return [float(x) for pair in path[1:].split("L") for x in pair.split()]
