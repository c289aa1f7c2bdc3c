"""Mpipe's two published speedups beside the performance model: which share of the compute an encoder must
have for transpose to give them, by ranks and baseline.

    PYTHONPATH=checker python benchmarks/mpipe.py [--svg FILE] [--json FILE]

The paper (arXiv 2607.03229) says neither how many ranks and microbatches its pipelines have nor where the
encoder's load lies between them, so nothing is reproduced: this shows for
which shares its figures are what the model predicts. A trained encoder and a backbone of equal stages, B = 2
F, 4 P microbatches of one length, transfers free. Baselines:

* `before`: the encoder in front of the backbone's first stage, the backbone spread evenly over all ranks
(Megatron-LM; the paper's experiment B)
* `apart`: the encoder on a rank of its own, the backbone on the others (as DistTrain separates them;
experiment A)

Transpose has the owner map with the least exposure. HyperParallel's own transpose, which hides nothing of the
encoder, is compared with it in tables.py.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from chart import Chart, Line

from interlock.algebra.standard import elaborate_text
from interlock.timing.durations import compute_durations
from interlock.timing.simulate import makespan

RANKS = (8, 16, 32, 64)
PER_RANK = (1, 4, 8)  # microbatches a rank; the figure is drawn for 4
SHARES = (0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6)
BASELINES = ("before", "apart")
TOP = 3.4
VIT_LAYERS, LLM_LAYERS = 32, 61  # Qwen2-VL, DeepSeek-V3


def step(ranks: int, microbatches: int, share: float, cut: str) -> int:
    """ns of a step in which a rank's part of the backbone takes 1 ms forwards."""
    stages = ranks - 1 if cut == "apart" else ranks
    encode, layer = (round(1e6 * ranks * x) for x in (share / (1 - share), 1 / stages))
    skeletons = {
        "before": f"all = vit, llm : 1f1b(partition: [2, {', '.join(['1'] * (ranks - 1))}])",
        "apart": "all = vit, llm : 1f1b",
        "transpose": "encoder = vit : transpose(owner: balanced)  backbone = llm : 1f1b",
    }
    e = elaborate_text(
        f"schedule s {{ ranks {ranks} microbatches {microbatches} cut {{ {skeletons[cut]} }} model {{ layer "
        f"vit {{ forward {encode}ns backward {2 * encode}ns }}"
        f" layers llm[{stages}] {{ forward {layer}ns backward {2 * layer}ns }} }} }}"
    )
    return makespan(e.program, compute_durations(e.program, e.times))


def speedups(ranks: int, per_rank: int) -> dict[str, list[float]]:
    """Of transpose over each baseline, by share."""
    taken = {
        cut: [step(ranks, per_rank * ranks, share, cut) for share in SHARES]
        for cut in (*BASELINES, "transpose")
    }
    return {cut: [a / b for a, b in zip(taken[cut], taken["transpose"])] for cut in BASELINES}


def share_for(speedup: float, curve: list[float]) -> float | None:
    """The smallest share from which on the speedup is reached, between points of the grid by a straight line;
    None beyond the grid.
    """
    below = [k for k, v in enumerate(curve) if v < speedup]
    k = below[-1] if below else -1
    if k < 0 or k == len(curve) - 1:
        return None
    return float(np.interp(speedup, curve[k : k + 2], SHARES[k : k + 2]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--svg", metavar="FILE", type=Path, help="also draw the speedups")
    parser.add_argument("--json", metavar="FILE", type=Path, help="also write the figures")
    args = parser.parse_args()
    published = json.loads(Path(__file__).with_name("tables.json").read_text())["mpipe"]
    goals = {e["name"]: e["speedup"] for e in published["experiments"]}
    for e in published["experiments"]:
        print(
            f"published {e['name']}: {e['model']}, {e['hardware']}: {e['baseline_s']} s -> {e['mpipe_s']} "
            f"s, {e['speedup']:.2f}x"
        )
    table = published["table1"]
    vit, llm = VIT_LAYERS * table["ViT layer"]["FLOPs"], LLM_LAYERS * table["LLM layer"]["FLOPs"]
    own = vit / (vit + llm)
    print(
        "\nOurs: the share of the compute from which on transpose gives these speedups; and what it gives "
        f"at {own:.1%}, that of {VIT_LAYERS} ViT and {LLM_LAYERS} LLM layers of Table 1\n"
        f"{'ranks':>6}{'microbatches':>14}{'baseline':>10}"
        + "".join(f"{f'{goals[g]:.2f}x ({g})':>14}" for g in goals)
        + f"{f'at {own:.1%}':>12}"
    )
    curves, rows = {}, []
    for ranks in RANKS:
        for per_rank in PER_RANK:
            found = speedups(ranks, per_rank)
            curves.update({(ranks, cut): found[cut] for cut in BASELINES if per_rank == 4})
            for cut in BASELINES:
                shares = {g: share_for(goals[g], found[cut]) for g in goals}
                rows.append(
                    {
                        "ranks": ranks,
                        "microbatches": per_rank * ranks,
                        "baseline": cut,
                        "shares": shares,
                        "at_table_1": float(np.interp(own, SHARES, found[cut])),
                    }
                )
                print(
                    f"{ranks:>6}{per_rank * ranks:>14}{cut:>10}"
                    + "".join(f"{'-' if s is None else f'{s:.1%}':>14}" for s in shares.values())
                    + f"{rows[-1]['at_table_1']:>11.2f}x",
                    flush=True,
                )
    if args.json:
        args.json.write_text(
            json.dumps(
                {
                    "shares": SHARES,
                    "rows": rows,
                    "speedups": [{"ranks": r, "baseline": c, "of": v} for (r, c), v in curves.items()],
                },
                indent=1,
            )
            + "\n"
        )
    if args.svg:
        args.svg.write_text(chart(curves, goals, own).svg())
    return 0


def chart(curves: dict[tuple[int, str], list[float]], goals: dict[str, float], own: float) -> Chart:
    lines = []
    for (ranks, cut), curve in curves.items():
        shown = [(s, v) for s, v in zip(SHARES, curve) if v <= TOP and s <= 0.3]
        over = share_for(TOP, curve)
        if over is not None and over <= 0.3:
            shown.append((over, TOP))
        marks = [(s, g) for g in goals.values() if (s := share_for(g, curve)) is not None and s <= 0.3]
        lines.append(
            Line(
                f"{ranks} ranks" if cut == "before" else "", shown, RANKS.index(ranks), cut == "apart", marks
            )
        )
    return Chart(
        "When transpose gives the published speedups",
        "Predicted, 4 P microbatches. Over the encoder before the first stage (lines), or on a rank of its "
        "own (broken). Dots: as published.",
        "encoder's share of the compute",
        "speedup of transpose",
        lines,
        0.3,
        TOP + 0.2,
        0.5,
        [(v, f"{v:.2f}x, experiment {g}") for g, v in goals.items()],
        [(own, f"{own:.1%}: the layers of the paper's Table 1")],
        step=0.05,
    )


if __name__ == "__main__":
    sys.exit(main())
