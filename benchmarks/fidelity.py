"""Predicted against measured step time on emulated compute: three families of models, two sequence lengths,
four schedules.

    PYTHONPATH=checker python benchmarks/fidelity.py [--repeats N] [--only WORD] [--json FILE]

The overhead of an operation and the links of this machine are measured first, by runs of other programs; with
them the performance model predicts each case, which is
then run: timed waits for compute, payloads over gloo, queues of the model `pair`. Exits 1 if the average
error is above 2 %. It says something on an idle machine only, or with
priority over whatever else runs (`chrt -f 1` before the command, as root).

Where the times come from (F, B, W of a layer, B the input gradient):
* Gemma (dense; 32 layers, hidden 1536, vocabulary 256000, tensor parallel 8) and DeepSeek (16 layers, the
first 3 dense and the rest MoE, hidden 2048, vocabulary 131072,
  tensor parallel 2): ratios of the OctoPipe authors' simulator (arXiv 2509.23722) at 4096 tokens. At 8192:
  what is linear in the length takes twice as long, attention's
  scores four times, their share of a layer's work being s / (6 h + s) at s tokens and hidden size h; a head
  and an expert layer's surplus are linear.
* Nemotron-H (attention among Mamba layers; 28 layers, hidden 1024, tensor parallel 2): the same source's
ratios at 4096 and at 32768 tokens.
* An embedding is to a layer as that of nemotron-nano-v2-9B is to its Mamba layer in the same source: F 0.28,
B none, W 1.07.
* The vision tower in front of DeepSeek: 32 layers (Qwen2-VL), each 2.88e17 / 4.76e18 of a layer of the
backbone (Mpipe, arXiv 2607.03229, Table 1), its F, B and W alike.
A payload is tokens x hidden x 2 bytes / tensor parallel, as one of its ranks sends it. The published ratios
have no unit: one is UNIT here. 32768 tokens are run with a quarter
of the time and of the bytes.
"""

from __future__ import annotations

import argparse
import json
import sys
from statistics import mean, median

from emulated import Plan, load, plan

from interlock.runtime.calibrate import calibrate
from interlock.runtime.emulation import EmulationSettings
from interlock.runtime.pool import Pool
from interlock.timing.durations import Machine

RANKS, MICROBATCHES, UNIT, GOAL = 4, 8, 4.0, 0.02  # UNIT in ms at 4096 tokens
EMBEDDING = (0.28, 0.0, 1.07)
VIT = (2.88e17 / 4.76e18,) * 3
SCHEDULES = ("1f1b", "interleaved(chunks: 2)", "zb_h1", "transpose")
Ratios = tuple[float, float, float]


def longer(ratios: Ratios, hidden: int, tokens: int, surplus: Ratios = (0, 0, 0)) -> Ratios:
    """A layer's at `tokens`, of those at 4096; `surplus`: the part of them that has no attention."""
    share, by = 4096 / (6 * hidden + 4096), tokens / 4096
    return tuple((r - s) * ((1 - share) * by + share * by * by) + s * by for r, s in zip(ratios, surplus))


def layers(name: str, count: int, ratios: Ratios, output: int) -> str:
    f, b, w = (f"{round(x * UNIT * 1e6)}ns" for x in ratios)
    return f"layers {name}[{count}] {{ forward {f} backward_input {b} backward_weight {w} output {output}B }}"


def gemma(tokens: int) -> tuple[str, str, list[str]]:
    """(layers, what is transposed, the rest)."""
    by, size = tokens / 4096, tokens * 1536 * 2 // 8
    return (
        "\n".join(
            [
                layers("embed", 1, tuple(x * by for x in EMBEDDING), size),
                layers("u", 32, longer((1.0, 1.65, 0.22), 1536, tokens), size),
                layers("head", 1, tuple(x * by for x in (5.72, 1.21, 0.58)), size),
            ]
        ),
        "embed",
        ["u", "head"],
    )


def nemotron(tokens: int) -> tuple[str, str, list[str]]:
    attention, mamba, head = {
        4096: ((3.12, 4.96, 0.52), (1.0, 2.79, 0.02), (13.99, 2.13, 0.86)),
        32768: ((4.81, 9.94, 0.65), (1.0, 2.91, 0.01), (35.18, 4.34, 2.54)),
    }[tokens]
    by, size = tokens / 4096, tokens * 1024 * 2 // 2
    blocks = (
        [("embed", 1, EMBEDDING)]
        + [(f"u{l}", 1, attention if l % 3 == 2 else mamba) for l in range(28)]
        + [("head", 1, head)]
    )
    return (
        "\n".join(layers(name, count, tuple(x * by for x in r), size) for name, count, r in blocks),
        "embed",
        [name for name, *_ in blocks[1:]],
    )


def vision_deepseek(tokens: int) -> tuple[str, str, list[str]]:
    by, size = tokens / 4096, tokens * 2048 * 2 // 2
    dense, expert = (1.0, 2.05, 0.0), (2.28, 3.49, 0.16)
    moe = longer(expert, 2048, tokens, tuple(e - d for e, d in zip(expert, dense)))
    return (
        "\n".join(
            [
                layers("vit", 32, tuple(x * moe[0] for x in VIT), size),
                layers("ffn", 3, longer(dense, 2048, tokens), size),
                layers("moe", 13, moe, size),
                layers("head", 1, tuple(x * by for x in (6.26, 1.98, 0.82)), size),
            ]
        ),
        "vit",
        ["ffn", "moe", "head"],
    )


CASES = [
    ("Gemma", gemma, 4096, 1.0),
    ("Gemma", gemma, 8192, 1.0),
    ("Nemotron-H", nemotron, 4096, 1.0),
    ("Nemotron-H", nemotron, 32768, 0.25),
    ("ViT + DeepSeek", vision_deepseek, 4096, 1.0),
    ("ViT + DeepSeek", vision_deepseek, 8192, 1.0),
]


def schedule(model: str, first: str, rest: list[str], skeleton: str) -> Plan:
    if skeleton == "transpose":
        cut = f"first = {first} : transpose  rest = {', '.join(rest)} : 1f1b(partition: balanced)"
    else:
        cut = (
            f"all = {', '.join([first, *rest])} : "
            f"{skeleton[:-1] + ', ' if skeleton.endswith(')') else skeleton + '('}partition: balanced)"
        )
    return plan(
        f"schedule s {{ ranks {RANKS} microbatches {MICROBATCHES} model {{ {model} }} cut {{ {cut} }} }}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--repeats", type=int, default=3, help="runs of each case; the median counts (default: 3)"
    )
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    parser.add_argument("--json", metavar="FILE", help="also write the figures")
    args = parser.parse_args()
    asked = [
        (
            f"{family}, {tokens} tokens, {'<transpose, 1f1b>' if skeleton == 'transpose' else skeleton}",
            model(tokens),
            skeleton,
            EmulationSettings(scale=part, payload=part),
        )
        for family, model, tokens, part in CASES
        for skeleton in SCHEDULES
    ]
    found = []
    with Pool(RANKS) as pool:
        machine = calibrate(pool, RANKS)
        print(
            f"{RANKS} ranks, {MICROBATCHES} microbatches, {args.repeats} runs each; {load()}\nmeasured "
            f"first: {machine}\n{'':56}{'predicted':>11}{'measured':>11}{'error':>8}{'spread':>8}"
        )
        for name, model, skeleton, how in asked:
            if args.only not in name:
                continue
            case = schedule(*model, skeleton)
            predicted, bare = case.predicted(machine.machine(how)), case.predicted(Machine())
            runs = [case.measured(pool, how) for _ in range(args.repeats)]
            middle = median(runs)
            found.append(
                {
                    "case": name,
                    "predicted_ns": predicted,
                    "measured_ns": runs,
                    "error": predicted / middle - 1,
                    "spread": (max(runs) - min(runs)) / middle,
                    "error_of_compute_alone": bare / middle - 1,
                }
            )
            print(
                f"{name:56}{predicted / 1e6:>8.0f} ms{middle / 1e6:>8.0f} "
                f"ms{found[-1]['error']:>+8.2%}{found[-1]['spread']:>8.2%}",
                flush=True,
            )
    average = mean(abs(f["error"]) for f in found)
    print(
        f"{len(found)} cases: {average:.2%} on average, {max(abs(f['error']) for f in found):.2%} at most; "
        f"with compute alone {mean(abs(f['error_of_compute_alone']) for f in found):.2%}; "
        f"spread {mean(f['spread'] for f in found):.2%} on average; {load()}"
    )
    if args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            json.dump(
                {
                    "overhead_ns": machine.overhead,
                    "latency_ns": machine.latency,
                    "bandwidth": machine.bandwidth,
                    "cases": found,
                },
                out,
                indent=1,
            )
    return 1 if average > GOAL else 0


if __name__ == "__main__":
    sys.exit(main())
