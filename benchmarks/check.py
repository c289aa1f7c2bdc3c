"""How long a check takes, beside the loader of PyTorch 2.13 on the same file.

    PYTHONPATH=checker python benchmarks/check.py [--quick | --full] [--json FILE]

Writes 1F1B and interleaved schedules as compute-only CSVs and measures, each in a process of its own,

* Interlock: the whole process (`interlock check FILE`: start, certificate and kernel included), and in one
process read, check under `pair` (rules,
  engine, kernel), and the kernel alone;
* PyTorch, where torch 2.13 can be imported: what its loader does (parse, `_validate_schedule`,
`_add_unshard_reshard` and `_add_reduce_grad`,
  `_add_send_recv`) and the simulation `_simulate_comms_compute`, without its start. `_add_unshard_reshard` is
  quadratic in the operations of a rank and
  left out where it would take an hour; `--full` takes about a quarter of an hour in all.

The ratio is PyTorch's steps over our whole process. What each checks is not the same: PyTorch knows no
deadlock on ordered channels, no memory, no footprint, and hands over no certificate.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
QUICK, FULL = (1_000, 10_000, 100_000), (1_000, 10_000, 100_000, 1_000_000)
PER_RANK = 20_000  # compute operations a rank up to which PyTorch's quadratic step is run
MODELS = ("pair",)


# ---- schedules --------------------------------------------------------------------------------------


def one_f_one_b(ranks: int, microbatches: int) -> Iterator[list[str]]:
    """The compute operations of each rank."""
    for r in range(ranks):
        warm = min(ranks - 1 - r, microbatches)
        row = [f"{r}F{m}" for m in range(warm)]
        for m in range(microbatches - warm):
            row += (f"{r}F{warm + m}", f"{r}B{m}")
        yield row + [f"{r}B{m}" for m in range(microbatches - warm, microbatches)]


def interleaved(ranks: int, chunks: int, microbatches: int) -> Iterator[list[str]]:
    """Megatron's order, in groups of `ranks` microbatches; `microbatches` is a multiple of it."""
    total, group = chunks * microbatches, ranks * chunks
    for r in range(ranks):

        def op(k: int, backward: bool) -> str:
            chunk = k % group // ranks
            chunk = chunks - 1 - chunk if backward else chunk
            return f"{chunk * ranks + r}{'B' if backward else 'F'}{k // group * ranks + k % ranks}"

        warm = min(total, (ranks - 1 - r) * 2 + (chunks - 1) * ranks)
        row = [op(k, False) for k in range(warm)]
        for k in range(total - warm):
            row += (op(warm + k, False), op(k, True))
        yield row + [op(k, True) for k in range(total - warm, total)]


def schedules(operations: int) -> Iterator[tuple[str, int, int, Callable[[], Iterator[list[str]]]]]:
    """(name, stages, microbatches, its rows) with about so many compute operations."""
    ranks = 16 if operations < 1_000_000 else 64
    m = operations // (2 * ranks)
    yield f"1F1B, {ranks} ranks", ranks, m, lambda: one_f_one_b(ranks, m)
    n = operations // (2 * 8 * 2) // 8 * 8
    yield "interleaved, 8 ranks of 2", 16, n, lambda: interleaved(8, 2, n)


# ---- measured in a process of their own ---------------------------------------------------------------


class Stages(dict):
    """Seconds by name."""

    def time(self, name: str, work: Callable):
        began = time.perf_counter()
        result = work()
        self[name] = time.perf_counter() - began
        return result


def measure_interlock(path: str) -> dict:
    began = time.perf_counter()
    from interlock.check.certificates import certificates
    from interlock.check.program import check_program
    from interlock.interchange import torch_csv
    from interlock.kernel.judge import judge_all
    from interlock.text.source import Sources

    stages = Stages({"import": time.perf_counter() - began})
    program = stages.time(
        "read", lambda: torch_csv.read(Sources().add(path, torch_csv.decode(Path(path).read_bytes())))
    )
    (answer,) = stages.time("check", lambda: check_program(program, MODELS))
    assert answer.verdict.value == "valid"
    (document,) = certificates(answer)
    (judgement,) = stages.time("kernel alone", lambda: judge_all(document["program"], document["claims"]))
    assert judgement.accepted
    stages["rules, engine"] = stages["check"] - stages["kernel alone"]
    return {"seconds": stages, "operations": len(program.order), "peak": peak()}


def measure_torch(path: str, stages_of: int, microbatches: int) -> dict:
    began = time.perf_counter()
    import csv

    from torch.distributed.pipelining import schedules as pp

    seconds = Stages({"import": time.perf_counter() - began})

    def parse():
        with open(path, newline="") as file:
            return {
                rank: [pp._Action.from_str(cell) for cell in row] for rank, row in enumerate(csv.reader(file))
            }

    order = seconds.time("parse", parse)
    ranks = len(order)

    def to_rank(stage):
        return stage % ranks

    seconds.time("_validate_schedule", lambda: pp._validate_schedule(order, ranks, stages_of, microbatches))
    if max(map(len, order.values())) <= PER_RANK:
        order = seconds.time(
            "unshard, reduce",
            lambda: {
                r: pp._add_reduce_grad(pp._add_unshard_reshard(row), microbatches) for r, row in order.items()
            },
        )
    lowered = seconds.time(
        "_add_send_recv", lambda: pp._add_send_recv(order, stage_to_rank=to_rank, num_stages=stages_of)
    )
    known = {
        r: [a for a in row if a.computation_type not in (pp.UNSHARD, pp.RESHARD, pp.REDUCE_GRAD)]
        for r, row in lowered.items()
    }
    seconds.time("_simulate_comms_compute", lambda: pp._simulate_comms_compute(known, to_rank, stages_of))
    return {"seconds": seconds, "operations": sum(map(len, lowered.values())), "peak": peak()}


def peak() -> int:
    """Bytes of this process at their most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def in_a_process(*args: object) -> dict | None:
    """What this file measures when called with these arguments; None if that fails."""
    done = subprocess.run(
        [sys.executable, __file__, "--measure", *map(str, args)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "checker"), "OMP_NUM_THREADS": "1"},
    )
    if done.returncode:
        print(f"  {args[0]} failed: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def whole_process(path: Path) -> tuple[float, int]:
    """(seconds, peak bytes) of `interlock check FILE`."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "interlock.cli", "check", path],
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT / "checker")},
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return time.perf_counter() - began, usage.ru_maxrss * 1024


def has_torch() -> bool:
    import importlib.util

    return importlib.util.find_spec("torch") is not None


# ---- the table ----------------------------------------------------------------------------------------


def measure(operations: int, torch: bool, repeats: int) -> Iterator[dict]:
    for name, stages, microbatches, rows in schedules(operations):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "schedule.csv"
            with open(path, "w") as file:
                file.writelines(",".join(row) + "\n" for row in rows())
            best = min((whole_process(path) for _ in range(repeats)), key=lambda x: x[0])
            ours = min(
                (in_a_process("interlock", path) for _ in range(repeats)), key=lambda r: r["seconds"]["check"]
            )
            theirs = in_a_process("torch", path, stages, microbatches) if torch else None
        yield {
            "schedule": name,
            "microbatches": microbatches,
            "whole": {"seconds": best[0], "peak": best[1]},
            "interlock": ours,
            "torch": theirs,
        }


def show(row: dict) -> None:
    n, ours, theirs = row["interlock"]["operations"], row["interlock"], row["torch"]

    def second(s):
        return f"{s * 1000:9.1f} ms" if s < 1 else f"{s:9.2f} s "

    def line(what, s, more=""):
        return print(f"  {what:<26}{second(s)}  {s / n * 1e6:7.2f} us/op{more}")

    print(f"{row['schedule']}, {row['microbatches']:,} microbatches: {n:,} compute operations")
    line(
        "interlock check (process)",
        row["whole"]["seconds"],
        f"   peak {row['whole']['peak'] / 2**20:,.0f} MiB",
    )
    for what in ("read", "rules, engine", "kernel alone"):
        line(f"  {what}", ours["seconds"][what])
    if theirs is None:
        print("  PyTorch: not measured")
        return
    s = theirs["seconds"]
    for what in (
        "parse",
        "_validate_schedule",
        "unshard, reduce",
        "_add_send_recv",
        "_simulate_comms_compute",
    ):
        if what in s:
            line(f"  torch {what.removeprefix('_').removesuffix('_comms_compute')}", s[what])
    steps = sum(v for k, v in s.items() if k != "import")
    line(
        "torch, these steps",
        steps,
        f"   peak {theirs['peak'] / 2**20:,.0f} MiB, import {s['import']:.1f} s more",
    )
    left_out = "" if "unshard, reduce" in s else " (its quadratic step left out)"
    print(
        f"  Interlock, process start included, is {steps / row['whole']['seconds']:.1f} times as fast as "
        f"these steps{left_out}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="10^3 to 10^5 operations (default)")
    size.add_argument("--full", action="store_true", help="10^3 to 10^6 operations")
    parser.add_argument("--json", metavar="FILE", type=Path, help="also write the figures")
    parser.add_argument("--no-torch", action="store_true", help="Interlock alone")
    parser.add_argument("--measure", nargs="+", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        who, path, *numbers = args.measure
        print(
            json.dumps(
                measure_interlock(path)
                if who == "interlock"
                else measure_torch(path, int(numbers[0]), int(numbers[1]))
            )
        )
        return
    rows = []
    for operations in FULL if args.full else QUICK:
        for row in measure(
            operations, has_torch() and not args.no_torch, repeats=3 if operations <= 10_000 else 1
        ):
            show(row)
            rows.append(row)
            if args.json:
                args.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
