"""How long a command takes to start, beside Python alone and Python with NumPy.

    PYTHONPATH=checker python benchmarks/start.py [--runs N] [--json FILE]

Runs each command N times, in alternation, so that what else the machine does falls on all of them alike.
Prints the smallest and the median wall-clock and processor time with their ratios to `import numpy`. On a
machine that does other work the smallest processor time is the figure to compare.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "python -c 'import numpy'": ["-c", "import numpy"],
    "interlock --help": ["-m", "interlock.cli", "--help"],
    "interlock check small_llm.sched": [
        "-m",
        "interlock.cli",
        "check",
        str(ROOT / "examples/small_llm.sched"),
    ],
}
UNIT = "python -c 'import numpy'"


class Run(NamedTuple):
    """Seconds: by the clock, and of processors (user and system)."""

    wall: float
    cpu: float


def run(arguments: list[str]) -> Run:
    began = time.perf_counter()
    null = os.open(os.devnull, os.O_WRONLY)
    process = os.posix_spawn(
        sys.executable,
        [sys.executable, *arguments],
        os.environ | {"PYTHONDONTWRITEBYTECODE": ""},
        file_actions=[(os.POSIX_SPAWN_DUP2, null, 1)],
    )
    os.close(null)
    _, status, usage = os.wait4(process, 0)
    if status:
        raise SystemExit(f"{' '.join(arguments)} ended with {os.waitstatus_to_exitcode(status)}")
    return Run(time.perf_counter() - began, usage.ru_utime + usage.ru_stime)


def measure(runs: int) -> dict[str, list[Run]]:
    """The first run of each command, which writes byte code and fills caches, is left out."""
    found: dict[str, list[Run]] = {name: [] for name in COMMANDS}
    for number in range(runs + 1):
        for name, arguments in COMMANDS.items():
            taken = run(arguments)
            if number:
                found[name].append(taken)
    return found


def summarize(found: dict[str, list[Run]]) -> dict[str, dict[str, float]]:
    return {
        name: {
            "wall min": min(r.wall for r in taken),
            "wall median": statistics.median(r.wall for r in taken),
            "cpu min": min(r.cpu for r in taken),
            "cpu median": statistics.median(r.cpu for r in taken),
        }
        for name, taken in found.items()
    }


def table(figures: dict[str, dict[str, float]]) -> str:
    columns = list(figures[UNIT])
    lines = [f"{'':34}" + "".join(f"{column:>20}" for column in columns)]
    for name, row in figures.items():
        cells = (f"{row[c] * 1e3:9.0f} ms ({row[c] / figures[UNIT][c]:4.2f})" for c in columns)
        lines.append(f"{name:34}" + "".join(f"{cell:>20}" for cell in cells))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Start-up time of the commands.")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    figures = summarize(measure(args.runs))
    print(f"{args.runs} runs each; in brackets: times as long as {UNIT}")
    print(table(figures))
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
