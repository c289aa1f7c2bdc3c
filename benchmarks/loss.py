"""Trains the small vision-language model of examples/ by both schedules of small_vlm.sched and draws the two loss curves over each other.

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

from interlock.report.timeline.palette import REGIONS

EXAMPLES = Path(__file__).parents[1] / "examples"
CURVES = {"baseline": "1f1b, the encoder among its stages", "transposed": "<transpose, 1f1b>, the encoder on every rank"}
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 360, 48, 16, 66, 40
STYLE = """text{font:11px system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue","DejaVu Sans",sans-serif}.p{fill:#fff}.i{fill:#16181d}.s{fill:#5c6370}.g{stroke:#e3e6eb}
path{fill:none;stroke-linejoin:round}.baseline{stroke:%s;stroke-width:7}.transposed{stroke:%s;stroke-width:1.8}
@media (prefers-color-scheme:dark){.p{fill:#14161a}.i{fill:#eceef2}.s{fill:#a2a9b6}.g{stroke:#2b3038}.baseline{stroke:%s}.transposed{stroke:%s}}"""


def losses(name: str, steps: int, folder: Path) -> list[float]:
    plan = folder / f"{name}.plan"
    python = [sys.executable, "-m"]
    subprocess.run([*python, "interlock.cli", "lower", EXAMPLES / "small_vlm.sched", "--schedule", name, "--to", "torch", "-o", plan], check=True)
    run = subprocess.run([*python, "torch.distributed.run", "--standalone", "--nproc-per-node", "2", EXAMPLES / "train.py", plan, "--steps", str(steps)],
                         env={**os.environ, "OMP_NUM_THREADS": "1"}, check=True, stdout=subprocess.PIPE, text=True)
    return [float(x) for x in re.findall(r"^step \d+: loss ([\d.]+)$", run.stdout, re.M)]


def draw(curves: dict[str, list[float]]) -> str:
    """The curves as the text of an SVG file, dark where the reader prefers it."""
    steps, top = len(curves["baseline"]), max(max(c) for c in curves.values())
    x = lambda step: LEFT + step * (WIDTH - LEFT - RIGHT) / (steps - 1)
    y = lambda loss: HEIGHT - BOTTOM - loss * (HEIGHT - TOP - BOTTOM) / top
    apart = max(abs(a - b) for a, b in zip(*curves.values(), strict=True))
    told = f"{steps} steps of examples/train.py on 2 ranks, float32: " + (f"at most {apart:.1e} apart" if apart else "the same loss in all nine decimals, step by step")
    light, dark = REGIONS[0], REGIONS[1]
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="t d">',
             f'<title id="t">Loss of a small vision-language model under two schedules</title><desc id="d">{told}; from {curves["baseline"][0]:.3f} to {curves["baseline"][-1]:.3f}</desc>',
             f"<style>{STYLE % (light[0], dark[1], light[1], dark[0])}</style>", f'<rect class="p" width="{WIDTH}" height="{HEIGHT}"/>',
             '<text class="i" x="12" y="20" style="font-size:14px;font-weight:600">Loss of a small vision-language model under two schedules</text>', f'<text class="s" x="12" y="37">{told}</text>']
    for value in range(int(top) + 1):
        lines.append(f'<path class="g" d="M{LEFT} {y(value):.1f}H{WIDTH - RIGHT}"/><text class="s" x="{LEFT - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{value}</text>')
    for step in range(0, steps, 10 if steps > 20 else 1):
        lines.append(f'<text class="s" x="{x(step):.1f}" y="{HEIGHT - BOTTOM + 17}" text-anchor="middle">{step}</text>')
    lines.append(f'<text class="s" x="{WIDTH - RIGHT}" y="{HEIGHT - 8}" text-anchor="end">step</text><text class="s" x="12" y="{TOP - 8}">loss, nats per token</text>')
    for n, (name, losses) in enumerate(curves.items()):
        lines.append(f'<path class="{name}" d="M{"L".join(f"{x(i):.1f} {y(loss):.1f}" for i, loss in enumerate(losses))}"/>')
        at = TOP + 26 + 22 * n
        lines.append(f'<path class="{name}" d="M{WIDTH - 330} {at}h28"/><text class="i" x="{WIDTH - 294}" y="{at + 4}">{CURVES[name].replace("<", "&lt;").replace(">", "&gt;")}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


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
    print(f"{args.steps} steps, from {curves['baseline'][0]:.9f} to {curves['baseline'][-1]:.9f}; at most {max(apart):.1e} apart, {sum(a == 0 for a in apart)} steps equal in all decimals")


if __name__ == "__main__":
    main()
