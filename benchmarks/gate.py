"""How long a gate takes: many files in one call, with one process and with several.

    PYTHONPATH=checker python benchmarks/gate.py [--files 1000] [--jobs 1 2] [--rounds 3] [--json FILE]

Writes .sched files of several kinds (derived and explicit orders, 2 to 16 ranks, 4 to 64 microbatches, with
and without freezing) and PyTorch CSVs, and
measures whole processes: start, checking, the kernel, and the report as SARIF. The best of the rounds counts;
between two of one kind others are run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import cycle, islice, product
from pathlib import Path

from check import one_f_one_b

ROOT = Path(__file__).parents[1]


def derived(name: str, ranks: int, microbatches: int, skeleton: str, frozen: bool) -> str:
    first = "layers vit[4] { frozen }  layer proj { }" if frozen else "layers vit[4] { }"
    return f"""schedule {name} {{
  ranks {ranks}
  microbatches {microbatches}
  model {{ {first}  layers llm[{4 * ranks}] {{ }} }}
  cut {{ backbone = vit, {"proj, " * frozen}llm : {skeleton} }}
}}
"""


def written(name: str, ranks: int, microbatches: int) -> str:
    rows = "".join(
        f"    rank {r}: {' '.join(row)}\n" for r, row in enumerate(one_f_one_b(ranks, microbatches))
    )
    return (
        f"schedule {name} {{\n  ranks {ranks}\n  microbatches {microbatches}\n  order transfers inserted "
        f"{{\n{rows}  }}\n}}\n"
    )


def files() -> Iterator[tuple[str, str]]:
    """(ending, text), without end."""
    sizes = cycle(product((2, 4, 8, 16), (4, 16, 64)))
    for number, (ranks, microbatches) in enumerate(sizes):
        match number % 4:
            case 0:
                yield "sched", derived(f"s{number}", ranks, microbatches, "1f1b", frozen=False)
            case 1:
                yield "sched", derived(f"s{number}", ranks, microbatches, "gpipe", frozen=True)
            case 2:
                yield "sched", written(f"s{number}", ranks, microbatches)
            case 3:
                yield "csv", "\n".join(",".join(row) for row in one_f_one_b(ranks, microbatches)) + "\n"


def seconds(folder: Path, jobs: int) -> tuple[float, float]:
    """Wall, and of the processors."""
    before = os.times()
    began = time.perf_counter()
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "interlock.cli",
            "check",
            str(folder),
            "--no-config",
            "--format",
            "sarif",
            "--jobs",
            str(jobs),
        ],
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT / "checker"), "OPENBLAS_NUM_THREADS": "1"},
    )
    if done.returncode:
        raise SystemExit(f"exit code {done.returncode}: not every file is valid")
    took, after = time.perf_counter() - began, os.times()
    return took, after.children_user + after.children_system - before.children_user - before.children_system


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number, (ending, text) in enumerate(islice(files(), args.files)):
            (folder / f"{number:05}.{ending}").write_text(text)
        best = {jobs: (float("inf"), 0.0) for jobs in args.jobs}
        load = os.getloadavg()[0]
        for _ in range(args.rounds):
            for jobs in args.jobs:
                best[jobs] = min(best[jobs], seconds(folder, jobs))
    print(f"{args.files} files, best of {args.rounds}; {os.cpu_count()} cores, load {load:.1f} before")
    for jobs, (took, busy) in best.items():
        print(
            f"--jobs {jobs}: {took:6.2f} s, {1000 * took / args.files:5.2f} ms a file, "
            f"{best[args.jobs[0]][0] / took:.2f} times as fast; {busy:.2f} s of processors"
        )
    if args.json:
        args.json.write_text(
            json.dumps(
                {"files": args.files, "seconds": {str(j): round(t, 3) for j, (t, _) in best.items()}},
                indent=1,
            )
            + "\n"
        )


if __name__ == "__main__":
    main()
