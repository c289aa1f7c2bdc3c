"""Published figures beside ours: bubble rates, makespans, peaks. Exits 1 if one that must agree does not.

    PYTHONPATH=checker python benchmarks/tables.py [--tables FILE] [--json FILE]

`--tables` is a file with the published values (default: benchmarks/tables.json, as printed in the papers that
it names). Every run of a schedule is a longest path
(spec/cost.md); a transfer takes a fixed time and nothing else waits for it, as in those papers.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from interlock.algebra.standard import derive_standard, elaborate_text
from interlock.program.build import OrderBuilder
from interlock.program.facts import Facts
from interlock.program.ir import Layer, Program, Stage
from interlock.program.kinds import Kind
from interlock.rules.memory import in_flight
from interlock.timing.durations import Machine, compute_durations, durations_by_kind
from interlock.timing.exposure import compute_exposure
from interlock.timing.figures import compute_figures
from interlock.timing.simulate import simulate

PUBLISHED = Path(__file__).with_name("tables.json")


@dataclass(frozen=True)
class Line:
    """One figure. must: a difference is a failure; None where nothing is published."""

    table: str
    what: str
    ours: object
    published: object
    must: bool = True
    remark: str = ""

    @property
    def agrees(self) -> bool:
        return None in (self.ours, self.published) or self.ours == self.published


def run(program: Program, F, I, W, transfer: int = 0, overlap: int | None = None):
    """Figures of a program whose B takes I + W."""
    both = [i + w for i, w in zip(I, W)] if isinstance(I, list) else I + W
    times = {Kind.F: F, Kind.B: both, Kind.I: I, Kind.W: W}
    return compute_figures(
        simulate(
            program, durations_by_kind(program, times, transfer, Machine(overlap=overlap)), critical=False
        )
    )


def rate(value: Fraction, places: int = 4) -> float:
    """Rounded half up as print shows it."""
    return float(f"{float(value):.{places}f}")


# ---- zero bubble ------------------------------------------------------------------------------------------


def zero_bubble(published: dict) -> Iterator[Line]:
    data = published["zero_bubble"]

    def us(ms):
        return round(ms * 1000)

    chunks = {"1.5B": 3, "6.2B": 4, "14.6B": 3, "28.3B": 2}
    rows = [
        (
            "table 5",
            row,
            us(i["tF_ms"]),
            us(i["tB_ms"]),
            us(i["tW_ms"]),
            us(i["tComm_ms"]),
            chunks[row["model"]],
        )
        for row, i in zip(data["bubble_table5"], data["inputs_table9"], strict=True)
    ]
    rows += [
        ("table 8", row, 2 * i["tF"], 2 * i["tB"], 2 * i["tW"], i["tComm"], 2)
        for row, i in zip(data["bubble_table8"], data["chunk_inputs_table8_us"], strict=True)
    ]
    for table, row, F, I, W, comm, V in rows:
        P, M = row["p"], row["m"]
        name = f"{row['model']} p={P} m={M}"
        table = f"zero bubble, {table}"
        for label, skeleton in (("1F1B", "1f1b"), ("ZB-H1", "zb_h1"), ("ZB-H2", "zb_h2")):
            found = run(derive_standard(skeleton, P, M), F, I, W, comm)
            yield Line(table, f"{name} {label}", rate(found.span_bubble), row[label])
        bubble = Fraction((P - 1) * (F + I + W), V) + ((2 * V - 1) * P - 2) * comm
        closed = bubble / (bubble + M * (F + I + W))
        direct = run(
            derive_standard("interleaved", P, M, V), F, I, W, V * comm
        )  # in units of 1/V us: a chunk takes what a stage does
        yield Line(
            table,
            f"{name} 1F1B-I",
            rate(closed),
            row["1F1B-I"],
            remark=f"closed form; simulated directly {float(direct.span_bubble):.4f}",
        )
        if "ZB-V" in row:
            found = run(derive_standard("zb_v", P, M, 2), F // 2, I // 2, W // 2, comm)
            yield Line(
                table,
                f"{name} ZB-V",
                rate(found.span_bubble),
                row["ZB-V"],
                must=False,
                remark="zb_v of the library is a loop program, theirs a search",
            )


# ---- controllable memory, DualPipe -------------------------------------------------------------------------


def controllable_memory(published: dict) -> Iterator[Line]:
    for row in published["controllable_memory"]["finite"]:
        P, M = row["p"], row["m"]
        program = derive_standard("v_min", P, M, 2)
        found = run(program, 1, 1, 1)
        peak = max(in_flight(Facts(program), "W"))
        yield Line(
            "controllable memory", f"V-Min p={P} m={M} bubble", rate(found.span_bubble), row["V-Min"][0]
        )
        yield Line(
            "controllable memory",
            f"V-Min p={P} m={M} peak / 1F1B's",
            rate(Fraction(peak, 2 * P), 3),
            row["V-Min"][1],
        )
        one = run(derive_standard("1f1b", P, M), 1, 1, 1)
        yield Line(
            "controllable memory", f"1F1B p={P} m={M} bubble", rate(one.span_bubble), row["1F1B_bubble"]
        )
        yield Line(
            "controllable memory",
            f"V-Half p={P} m={M} bubble",
            None,
            row["V-Half"][0],
            must=False,
            remark="a search under a limit: not in the library",
        )


def dualpipe(published: dict) -> Iterator[Line]:
    for P, M, idle, total in (
        (4, 10, published["dualpipe"]["idle"], published["dualpipe"]["total"]),
        (8, 20, 14, 134),
    ):
        found = run(derive_standard("dualpipev", P, M, 2), 1, 1, 1, overlap=3)
        yield Line("DualPipeV", f"P={P} M={M} makespan", found.makespan, total)
        yield Line(
            "DualPipeV", f"P={P} M={M} idle of every rank", sorted({r.bubble for r in found.ranks}), [idle]
        )


# ---- nemotron-nano-v2-9B -----------------------------------------------------------------------------------

OCTOPIPE = (
    [2, 2, 2, 2, 2, 2, 2, 3, 2, 3, 2, 3, 2, 3, 3, 2, 3, 3, 2, 2, 2, 3, 3, 1],
    [[0, 4, 8, 12, 16, 19, 20], [1, 5, 9, 13, 17, 21], [2, 6, 10, 14, 18, 22], [3, 7, 11, 15, 23]],
)


def nemotron_layers(data: dict) -> list[tuple[int, int, int]]:
    """[F, B, W] ticks of each of the 56 layers, embedding and head with the first and the last."""

    def tick(kind):
        return [round(data["ms"][kind][x] / data["tick_ms"]) for x in "FBW"]

    layers = [tick(letter) for letter in data["pattern"]]
    layers[0] = [a + b for a, b in zip(layers[0], tick("E"))]
    layers[-1] = [a + b for a, b in zip(layers[-1], tick("L"))]
    return [tuple(l) for l in layers]


def by_stage(layers, partition) -> list[tuple[int, int, int]]:
    out, at = [], 0
    for count in partition:
        out.append(tuple(sum(x) for x in zip(*layers[at : at + count])))
        at += count
    return out


def nemotron(published: dict) -> Iterator[Line]:
    data = published["octopipe"]["nemotron_nano_v2_9b"]
    layers = nemotron_layers(data)
    stages = by_stage(layers, data["1F1B_partition"])
    found = run(derive_standard("1f1b", data["pp"], data["m"]), *([s[i] for s in stages] for i in range(3)))
    table = "nemotron-nano-v2-9B (ticks of 0.01 ms)"
    yield Line(table, "1F1B makespan", found.makespan, data["1F1B_makespan_ticks"])
    yield Line(
        table, "1F1B compute of the ranks", [r.compute for r in found.ranks], data["1F1B_device_compute"]
    )
    partition, placement = OCTOPIPE
    stages = by_stage(layers, partition)
    compute = [data["m"] * sum(sum(stages[s]) for s in mine) for mine in placement]
    yield Line(table, "OctoPipe's plan: compute of the ranks", compute, data["OctoPipe_device_compute"])
    order = alternating(stages, placement, data["m"])
    found = run(order, *([s[i] for s in stages] for i in range(3)))
    yield Line(
        table,
        "OctoPipe's plan: makespan",
        found.makespan,
        data["OctoPipe_makespan_ticks"],
        remark="its partition and placement, ordered by its rule",
    )
    yield Line(
        table,
        "mean work of a rank, which no plan can beat",
        sum(sum(l) for l in layers) * data["m"] // data["pp"],
        data["work_bound_ticks"],
    )


def alternating(stages, placement, M: int) -> Program:
    """OctoPipe's rule: whatever can start first; on a rank B after F, else F, else B, then W. F by
    (microbatch, stage), B the later stage first.
    """
    S, P = len(stages), len(placement)
    done: dict[tuple[str, int, int], int] = {}
    free, rows = [0] * P, [[] for _ in range(P)]
    todo = [{(k, s, m) for s in mine for m in range(M) for k in "FBW"} for mine in placement]

    def ready(kind: str, s: int, m: int) -> int | None:
        before = {
            "F": [("F", s - 1, m)] if s else [],
            "W": [("B", s, m)],
            "B": [("B", s + 1, m)] if s < S - 1 else [("F", s, m)],
        }[kind]
        return None if any(b not in done for b in before) else max((done[b] for b in before), default=0)

    def turn(r: int, kind: str, s: int, m: int, at: int) -> tuple:
        wanted = "BFW" if not rows[r] or rows[r][-1][0] == "F" else "FBW"
        return max(at, free[r]), r, wanted.index(kind), (m, s) if kind == "F" else (-s, m)

    while any(todo):
        (start, r, *_), op = min(
            (turn(r, *op, at), op) for r in range(P) for op in todo[r] if (at := ready(*op)) is not None
        )
        done[op] = free[r] = start + stages[op[1]]["FBW".index(op[0])]
        rows[r].append(op)
        todo[r].remove(op)
    builder = OrderBuilder()
    for row in rows:
        for kind, s, m in row:
            builder.op({"F": Kind.F, "B": Kind.I, "W": Kind.W}[kind], s, m)
        builder.end_rank()
    rank = {s: r for r, mine in enumerate(placement) for s in mine}
    return Program(
        P,
        M,
        tuple(Layer(f"stage {s}") for s in range(S)),
        tuple(Stage("x", s, s + 1, rank=rank[s]) for s in range(S)),
        builder.build(),
        inserted=True,
        reductions_inserted=True,
    )


# ---- transpose --------------------------------------------------------------------------------------------


def transpose(published: dict) -> Iterator[Line]:
    """HyperParallel's transpose of a frozen encoder at unit costs (F = B = 1, an encode 1) adds ceil(M / P):
    all of it. Beside it the map with the least exposure, its
    hand-overs late and free: the closed formula, the longest path, and the program as written under `edge`.
    """
    for P in (4, 8, 16):
        for M in (P, 2 * P, 4 * P, 8 * P):

            def source(owner, more):
                return (
                    f"schedule s {{ ranks {P} microbatches {M} model {{ layer vit {{ forward 1ns frozen }} "
                    f"layers u[{P}] {{ forward 1ns backward 1ns }} }}"
                    f" cut {{ enc = vit : transpose(owner: {owner}, {more}) x = u : 1f1b }} }}"
                )

            e = elaborate_text(source("balanced", "gather: prefix"))
            found = compute_exposure(e.program, compute_durations(e.program, e.times))
            robin = elaborate_text(source("round_robin", "gather: prefix"))
            paper = compute_exposure(robin.program, compute_durations(robin.program, robin.times))
            late = elaborate_text(source(list(e.owners["enc"]), "gather: late, post: early"))
            ran = simulate(
                late.program, compute_durations(late.program, late.times), "edge", critical=False
            ).makespan
            spread = elaborate_text(source("balanced", "place: deadline"))
            bubbles = compute_exposure(
                spread.program, compute_durations(spread.program, spread.times)
            ).exposed
            whole = -(-M // min(P, M))
            table = (
                "transpose at unit costs: exposed of the encoder (HyperParallel exposes ceil(M / min(P, M)))"
            )
            hidden = Fraction(whole - found.exposed, whole)
            yield Line(table, f"P={P} M={M}: T0", found.without, 2 * M + 2 * (P - 1))
            yield Line(
                table,
                f"P={P} M={M}: exposed, HyperParallel's beside",
                found.exposed,
                whole,
                must=False,
                remark=f"{float(hidden):.0%} hidden; as written under `edge` {ran - found.without}; late "
                f"round robin {paper.exposed}; in any bubble {bubbles}",
            )


# ---- all of it --------------------------------------------------------------------------------------------

TABLES = (zero_bubble, controllable_memory, dualpipe, nemotron, transpose)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tables", type=Path, default=PUBLISHED, help="the published values")
    parser.add_argument("--json", metavar="FILE", type=Path, help="also write the figures")
    args = parser.parse_args()
    published = json.loads(args.tables.read_text())
    lines = [line for table in TABLES for line in table(published)]
    table = None
    for line in lines:
        if line.table != table:
            table = line.table
            print(f"{table}\n  {'':44}{'ours':>28}  {'published':>28}")
        mark = "" if line.agrees else "  DIFFERS" if line.must else "  differs"
        print(
            f"  {line.what:44}{str(line.ours):>28}  "
            f"{str(line.published):>28}{mark}{'   ' + line.remark if line.remark else ''}"
        )
    wrong = [l for l in lines if l.must and not l.agrees]
    compared = [l for l in lines if l.must and l.published is not None]
    print(
        f"{len(compared) - len(wrong)} of {len(compared)} figures that must agree do; "
        f"{sum(not l.agrees for l in lines) - len(wrong)} others differ"
    )
    if args.json:
        args.json.write_text(
            json.dumps(
                [
                    {
                        "table": l.table,
                        "what": l.what,
                        "ours": l.ours,
                        "published": l.published,
                        "must": l.must,
                        "remark": l.remark,
                    }
                    for l in lines
                ],
                indent=1,
            )
            + "\n"
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
