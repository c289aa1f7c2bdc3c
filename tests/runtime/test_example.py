"""examples/train.py under torchrun: the transposed schedule and the baseline give one loss curve."""

import re
import subprocess
import sys

import pytest

from ..command import ROOT, interlock
from .support import environment

SCHED = ROOT / "examples" / "small_vlm.sched"


def curve(folder, name: str, steps: int) -> list[float]:
    plan = folder / f"{name}.plan"
    done = interlock("lower", SCHED, "--schedule", name, "--to", "torch", "-o", plan)
    assert done.code == 0, done.text
    run = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", ROOT / "examples" / "train.py", plan, "--steps", str(steps)],
                         env=environment(), cwd=folder, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stdout + run.stderr
    return [float(x) for x in re.findall(r"^step \d+: loss ([\d.]+)$", run.stdout, re.M)]


def test_both_schedules_give_one_curve(tmp_path, request):
    steps = 50 if request.config.getoption("--thorough") else 3
    transposed, baseline = curve(tmp_path, "transposed", steps), curve(tmp_path, "baseline", steps)
    assert transposed == pytest.approx(baseline, rel=1e-4) and len(transposed) == steps and transposed[-1] < transposed[0]
