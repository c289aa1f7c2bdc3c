"""An encoder on ranks of its own against transpose, emulated: the encoder's share of a step's compute from 5
to 60 %, at 4 and 8 ranks.

    PYTHONPATH=checker python benchmarks/sweep.py [--ranks P ..] [--repeats N] [--svg FILE] [--json FILE]

A frozen encoder of 4 layers before a backbone whose F, I and W take the same; 2 P microbatches of one length.
`stage`: the encoder is the first stage of a 1F1B pipeline and the
backbone the others. `best`: the fastest, by the performance model, of the 1F1B pipelines that spread the
encoder evenly over 1, 2 or 4 stages, the last of them with some of the
backbone or none, the rest of it evenly over the others. `transpose`: the encoder on every rank, late gathers,
the owner map with the least exposure. Speedups are of transpose over each. Measured as in fidelity.py, beside
what the performance model says with this machine's overhead and links.

Of transpose also the paper's spill_r = max(0, E_r - w_r), the ranks that spill, and the exact exposure T -
T0, both for transfers that queue nowhere and take no time
(spec/cost.md, "Transpose"): rank 0 has no warmup and cannot start before the first encode is done, so
something is exposed where nothing spills.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import mean, median

from chart import Chart, Line
from emulated import Plan, load, plan

from interlock.algebra.standard import elaborate_text
from interlock.runtime.calibrate import calibrate
from interlock.runtime.emulation import EmulationSettings
from interlock.runtime.pool import Pool
from interlock.timing.durations import compute_durations
from interlock.timing.exposure import compute_exposure
from interlock.timing.simulate import makespan

SHARES = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6)
RANK_MS = 45  # the backbone's compute of one microbatch on one of P ranks: F, I and W
LAYERS = {4: 12, 8: 56}  # of the backbone: P and P - 1 stages of equal ones


def text(ranks: int, share: float, cut: str) -> str:
    """`share`: the encoder's of the compute of a microbatch."""
    backbone, count = RANK_MS * ranks, LAYERS[ranks]
    layer = round(backbone / count / 3 * 1e6)
    encode = round(backbone * share / (1 - share) / 4 * 1e6)
    return (
        f"schedule s {{ ranks {ranks} microbatches {2 * ranks} cut {{ {cut} }} model {{ layers vit[4] {{ "
        f"forward {encode}ns output 1MiB frozen }}"
        f" layers llm[{count}] {{ forward {layer}ns backward_input {layer}ns backward_weight {layer}ns "
        f"output 1MiB }} }} }}"
    )


def pipeline(partition: Iterable[int]) -> str:
    return f"all = vit, llm : 1f1b(partition: [{', '.join(map(str, partition))}])"


def transposed(how: str) -> str:
    return f"encoder = vit : transpose({how})  backbone = llm : 1f1b"


def partitions(ranks: int) -> Iterator[list[int]]:
    """Layers of each stage: those of `best`, the encoder alone on the first stage among them."""
    for over in (1, 2, 4):
        left = ranks - over
        for mixed in range(LAYERS[ranks] // ranks + 1) if left else ():
            rest = LAYERS[ranks] - mixed
            yield (
                [4 // over] * (over - 1)
                + [4 // over + mixed]
                + [rest // left + (k < rest % left) for k in range(left)]
            )


def plans_of(ranks: int, share: float) -> dict[str, Plan]:
    def predicted(counts: list[int]) -> int:
        e = elaborate_text(text(ranks, share, pipeline(counts)))
        return makespan(e.program, compute_durations(e.program, e.times))

    best = min(partitions(ranks), key=predicted)
    cuts = {
        "stage": pipeline(next(partitions(ranks))),
        "best": pipeline(best),
        "transpose": transposed("owner: balanced, gather: late"),
    }
    return {which: plan(text(ranks, share, cut)) for which, cut in cuts.items()}


def exposed(ranks: int, share: float):
    e = elaborate_text(text(ranks, share, transposed("owner: balanced")))
    return compute_exposure(e.program, compute_durations(e.program, e.times))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[4, 8], choices=sorted(LAYERS))
    parser.add_argument(
        "--repeats", type=int, default=3, help="runs of each schedule; the median counts (default: 3)"
    )
    parser.add_argument("--svg", metavar="FILE", type=Path, help="also draw the speedups")
    parser.add_argument("--json", metavar="FILE", type=Path, help="also write the figures")
    args = parser.parse_args()
    found = []
    for ranks in args.ranks:
        with Pool(ranks) as pool:
            links = calibrate(pool, ranks)
            machine = links.machine(EmulationSettings())
            print(
                f"\n{ranks} ranks, {2 * ranks} microbatches, {args.repeats} runs each; {load()}\nmeasured "
                f"first: {links}"
            )
            print(
                f"{'':9}{'step, ms: measured (predicted)':^48}{'speedup: measured (predicted)':^35}{'of transpose, ms':^36}\nencoder"
                f"{'stage':>18}{'best':>16}{'transpose':>16}{'over stage':>17}{'over best':>17}{'largest spill, of ranks':>27}{'exposed':>10}"
            )
            for share in SHARES:
                plans = plans_of(ranks, share)
                said = {w: p.predicted(machine) for w, p in plans.items()}
                runs = {w: [p.measured(pool) for _ in range(args.repeats)] for w, p in plans.items()}
                ran = {w: median(r) for w, r in runs.items()}
                x = exposed(ranks, share)
                spills = [r for r, s in enumerate(x.spill) if s]
                found.append(
                    {
                        "ranks": ranks,
                        "share": share,
                        "measured_ns": runs,
                        "predicted_ns": said,
                        "spill_ns": x.spill,
                        "exposed_ns": x.exposed,
                        "error": mean(abs(said[w] / ran[w] - 1) for w in ran),
                    }
                )

                def step(w):
                    return f"{ran[w] / 1e6:.0f} ({said[w] / 1e6:.0f})"

                def over(w):
                    return f"{ran[w] / ran['transpose']:.2f} ({said[w] / said['transpose']:.2f})"

                print(
                    f"{share:>7.0%}{step('stage'):>18}{step('best'):>16}{step('transpose'):>16}{over('stage'):>17}{over('best'):>17}"
                    f"{f'{x.estimate / 1e6:.1f} of {len(spills)} ({_these(spills)})' if spills else 'none':>27}{x.exposed / 1e6:>10.1f}",
                    flush=True,
                )
    print(
        f"\nprediction of a step off by {mean(f['error'] for f in found):.2%} on average, "
        f"{max(f['error'] for f in found):.2%} at most; {load()}"
    )
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")
    if args.svg:
        args.svg.write_text(chart(found).svg())
    return 0


def _these(ranks: list[int]) -> str:
    return f"{ranks[0]}-{ranks[-1]}" if len(ranks) > 1 else str(ranks[0])


def chart(found: list[dict]) -> Chart:
    lines = []
    for k, ranks in enumerate(sorted({f["ranks"] for f in found})):
        rows = [f for f in found if f["ranks"] == ranks]
        for which, dash in (("stage", False), ("best", True)):
            said = [(f["share"], f["predicted_ns"][which] / f["predicted_ns"]["transpose"]) for f in rows]
            ran = [
                (f["share"], median(f["measured_ns"][which]) / median(f["measured_ns"]["transpose"]))
                for f in rows
            ]
            lines.append(
                Line(
                    f"{ranks} ranks, over {'a stage' if which == 'stage' else 'the best 1F1B'}",
                    said,
                    k,
                    dash,
                    ran,
                )
            )
    top = max(v for line in lines for _, v in (*line.points, *line.dots))
    return Chart(
        "Transpose against an encoder in the pipeline",
        "Speedup of a step: predicted (lines) and measured on emulated compute (dots). Frozen encoder, 2 P "
        "microbatches.",
        "encoder's share of the compute",
        "speedup of transpose",
        lines,
        max(SHARES) + 0.02,
        top * 1.08,
        0.5 if top < 5 else 1,
    )


if __name__ == "__main__":
    sys.exit(main())
