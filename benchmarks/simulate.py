"""Operations a second of the simulator on programs of compute operations (transfers as edges of one delay), each way, and of what comes before and after.

    PYTHONPATH=checker python benchmarks/simulate.py
"""

from __future__ import annotations

import time

from interlock.cost import compute
from interlock.cost.durations import by_kind
from interlock.cost.figures import figures
from interlock.cost.simulate import simulate
from interlock.cost.standard import program
from interlock.program.facts import Facts
from interlock.program.ir import Kind

CASES = [("1f1b", 8, 20_000, 1), ("zb_h1", 8, 20_000, 1), ("interleaved", 8, 10_000, 2), ("1f1b", 32, 8_192, 1), ("1f1b", 128, 2_048, 1), ("1f1b", 512, 1_024, 1), ("zb_v", 512, 512, 2)]


def best(work, repeats: int = 3):
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        result = work()
        times.append(time.perf_counter() - began)
    return result, min(times)


def main() -> None:
    print(f"{'':24}{'operations':>12}{'dependencies':>14}{'rank by rank':>14}{'wave':>10}{'whole timeline':>16}   million operations a second")
    for name, P, M, V in CASES:
        source = program(name, P, M, V)
        n = len(source.order)
        d = by_kind(source, {Kind.F: 10, Kind.B: 20, Kind.I: 9, Kind.W: 11}, 3)

        def prepare():
            facts = Facts(source)
            found = compute.needs(facts)
            return found, compute.lags(facts, found, d)
        (found, lag), prepared = best(prepare)
        rows, by_rows = best(lambda: compute.ends(found, d.row, lag, wave=False))
        wave, by_wave = best(lambda: compute.ends(found, d.row, lag, wave=True))
        assert (rows == wave).all()
        whole = best(lambda: figures(simulate(source, d)), 1)[1] if n < 600_000 else 0
        rate = lambda seconds: f"{n / seconds / 1e6:.2f}" if seconds else "-"
        print(f"{f'{name}, P={P}, M={M}':24}{n:>12,}{rate(prepared):>14}{rate(by_rows):>14}{rate(by_wave):>10}{rate(whole):>16}", flush=True)


if __name__ == "__main__":
    main()
