"""Trains the small vision-language model of examples/ by both schedules of small_vlm.sched and draws the two
loss curves over each other.

PYTHONPATH=checker python benchmarks/loss.py [--steps 50] [-o examples/loss.svg]
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from chart import Chart, Line

EXAMPLES = Path(__file__).parents[1] / "examples"
CURVES = {"baseline": "1f1b", "transposed": "<transpose, 1f1b>"}


def losses(name: str, steps: int, folder: Path) -> list[float]:
    plan = folder / f"{name}.plan"
    python = [sys.executable, "-m"]
    subprocess.run(
        [
            *python,
            "interlock.cli",
            "lower",
            EXAMPLES / "small_vlm.sched",
            "--schedule",
            name,
            "--to",
            "torch",
            "-o",
            plan,
        ],
        check=True,
    )
    run = subprocess.run(
        [
            *python,
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node",
            "2",
            EXAMPLES / "train.py",
            plan,
            "--steps",
            str(steps),
        ],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return [float(x) for x in re.findall(r"^step \d+: loss ([\d.]+)$", run.stdout, re.M)]


def draw(curves: dict[str, list[float]]) -> str:
    """The curves as the text of an SVG file, the second thin upon the first."""
    steps, top = len(curves["baseline"]), max(map(max, curves.values()))
    apart = max(abs(a - b) for a, b in zip(*curves.values(), strict=True))
    told = f"{steps} steps on 2 ranks, float32, an encoder among the stages or on every rank: " + (
        f"at most {apart:.1e} apart" if apart else "the same in all nine decimals"
    )
    lines = [
        Line(CURVES[name], list(enumerate(losses)), hue, width=width)
        for (name, losses), hue, width in zip(curves.items(), (0, 1), (7, 2))
    ]
    return Chart(
        "Loss of a small vision-language model under two schedules",
        told,
        "step",
        "loss, nats per token",
        lines,
        steps - 1,
        top,
        1,
        step=10 if steps > 20 else 1,
        form="{:.0f}",
    ).svg()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("-o", dest="out", type=Path, default=EXAMPLES / "loss.svg")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        curves = {name: losses(name, args.steps, Path(folder)) for name in CURVES}
    assert all(len(c) == args.steps > 1 for c in curves.values())
    args.out.write_text(draw(curves), encoding="utf-8")
    apart = [abs(a - b) for a, b in zip(*curves.values())]
    print(
        f"{args.steps} steps, from {curves['baseline'][0]:.9f} to {curves['baseline'][-1]:.9f}; at most "
        f"{max(apart):.1e} apart, {sum(a == 0 for a in apart)} steps equal in all decimals"
    )


if __name__ == "__main__":
    main()
