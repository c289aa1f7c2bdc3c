"""HyperParallel's `PipelineScheduleRuntime`: spec/targets.md, R-TGT-HYPER."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from interlock.program.facts import IS_COMPUTE, IS_TRANSFER, Facts
from interlock.program.ir import Kind
from interlock.rules.alike import alike, more
from interlock.rules.communication import Transfers
from interlock.rules.targets.context import Context, elsewhere, loop
from interlock.text.finding import Finding, Mark


def check(facts: Facts, transfers: Transfers, context: Context) -> Iterator[Finding]:
    stages = [s for s, stage in enumerate(facts.program.stages) if not stage.replicated]
    yield from placement(facts, stages, context)
    yield from leading(facts)
    yield from ascending(facts)
    yield from ends(facts, stages)
    yield from gathers(facts, transfers, stages)
    yield from one_rank(facts, stages)
    yield from transport(facts)
    yield from without_gradient(facts)


def placement(facts: Facts, stages: list[int], context: Context) -> Iterator[Finding]:
    """IL821: the k-th Sharded stage on rank k mod P, or there and back for a V."""
    p, S, P = facts.program, len(stages), facts.program.ranks
    held = np.bincount([p.stages[s].rank for s in stages], minlength=P)
    vee = context.placement == "vee"
    if S % P or vee and S != 2 * P:
        row = np.flatnonzero((facts.kind == Kind.F) & np.isin(facts.stage, stages))
        most, least = int(np.argmax(held)), int(np.argmin(held))
        yield Finding(
            "IL821",
            "R-TGT-HYPER-1",
            f"{S} Sharded stages on {P} ranks: HyperParallel has as many on every rank"
            + (", in a V two" if vee else "")
            + (
                f"; rank {most} has {held[most]} and rank {least} has {held[least]}"
                if held[most] != held[least]
                else ""
            ),
            tuple(Mark(int(r), "the first of them") for r in row[:1]),
            f"use {2 * P if vee else f'a multiple of {P}'} Sharded stages",
        )
        return
    want = [k if k < P else S - 1 - k for k in range(S)] if vee else loop(S, P)
    yield from elsewhere(
        facts,
        want,
        "IL821",
        "R-TGT-HYPER-1",
        "HyperParallel looks for stage {stage} on rank {rank}" + (" in a V" if vee else ""),
        "move stage {stage} to rank {rank}" + ("" if vee else ", or declare a V with `--placement vee`"),
        stages,
    )


def leading(facts: Facts) -> Iterator[Finding]:
    """IL822: a Replicated region comes first, or there is none."""
    for s, stage in enumerate(facts.program.stages):
        if stage.replicated and s > 0:
            rows = np.flatnonzero((facts.kind == Kind.F) & (facts.stage == s))
            where = "last" if s == facts.S - 1 else "in the middle"
            yield Finding(
                "IL822",
                "R-TGT-HYPER-2",
                f"the Replicated region {stage.region} (stage {s}) lies {where}: HyperParallel runs one "
                "before the Sharded stages only",
                tuple(Mark(int(r), "a Replicated stage") for r in rows[:1]),
                "give this region a Sharded skeleton, or put it first",
            )


def ascending(facts: Facts) -> Iterator[Finding]:
    """IL823: the weight gradients of a stage are computed in ascending order of microbatch."""
    fp = facts.footprint
    rows = np.flatnonzero(facts.placed & ((facts.kind == Kind.B) | (facts.kind == Kind.W)))
    for s in np.flatnonzero(fp.reduce & ~facts.is_replicated).tolist():
        mine = rows[facts.stage[rows] == s]
        wrong = np.flatnonzero(np.diff(facts.mb[mine]) < 0)
        if len(wrong):
            early, late = int(mine[wrong[0]]), int(mine[wrong[0] + 1])
            p = facts.program
            yield Finding(
                "IL823",
                "R-TGT-HYPER-3",
                f"stage {s} runs {p.show(early)} before {p.show(late)}: HyperParallel reduces the gradients "
                "of a stage after the backward of "
                f"microbatch {facts.M - 1}, so what comes later would be lost",
                (Mark(late, "a smaller microbatch comes later"), Mark(early, "listed before it")),
                f"run the backwards of stage {s} in the order of the microbatches",
            )


def ends(facts: Facts, stages: list[int]) -> Iterator[Finding]:
    """IL824: every microbatch enters at the first Sharded stage and ends at the last."""
    fp = facts.footprint
    for s, what in (
        ((stages[0], "reads the samples"), (stages[-1], "gives losses")) if stages and facts.M else ()
    ):
        absent = np.flatnonzero(~fp.on_path[fp.of, s])
        if len(absent):
            m = int(absent[0])
            rows = np.flatnonzero((facts.kind == Kind.F) & (facts.mb == m))
            yield Finding(
                "IL824",
                "R-TGT-HYPER-4",
                f"microbatch {m} skips stage {s}{more(len(absent), 'microbatches')}: in HyperParallel only "
                f"this stage {what}",
                tuple(Mark(int(r), f"this microbatch never visits stage {s}") for r in rows[:1]),
                f"give stage {s} a layer that is present in every microbatch",
            )


def gathers(facts: Facts, transfers: Transfers, stages: list[int]) -> Iterator[Finding]:
    """IL825: what other ranks encode is encoded and handed over before the Sharded stages begin."""
    p, fp = facts.program, facts.footprint
    if not stages or not p.stages[0].replicated or facts.M == 0:
        return
    body = np.flatnonzero(
        IS_COMPUTE[facts.kind] & facts.placed & ~facts.is_replicated[np.where(facts.stage_ok, facts.stage, 0)]
    )
    first = {r: int(mine[0]) for r in range(p.ranks) if len(mine := facts.on_rank(body, r))}
    after = np.array([first.get(r, facts.n) for r in range(p.ranks)])
    rows = np.flatnonzero(
        facts.placed
        & (
            ((facts.stage == 0) & np.isin(facts.kind, [int(Kind.F), int(Kind.SEND_F)]))
            | (facts.kind == Kind.RECV_F)
        )
    )
    to = fp.next[
        facts.cls[rows], 0
    ]  # the stage that takes the encoded microbatch; -1: none, or it skips the region
    leaves = (to >= 0) & ((facts.stage[rows] == 0) | (facts.stage[rows] == to))
    rows, to = rows[leaves], to[leaves]
    away = facts.rank_at(to, facts.mb[rows]) != facts.rank_at(np.zeros_like(to), facts.mb[rows])
    late = rows[away & (rows > after[facts.rank[rows]])]
    for row, count in alike(late, facts.rank[late], facts.kind[late]):
        r = int(facts.rank[row])
        yield Finding(
            "IL825",
            "R-TGT-HYPER-5",
            f"{p.show(row)} comes after {p.show(first[r])}, where the Sharded stages of rank {r} "
            f"begin{more(count, f'on rank {r}')}: HyperParallel exchanges the shape "
            "of every payload with a blocking call, which among the transfers of the body does not come to "
            "an end",
            (Mark(row, "encoded or handed over late"), Mark(first[r], "the body begins")),
            "encode and hand over in front of the body; what the rank of the first stage owns itself may "
            "come later",
        )


def one_rank(facts: Facts, stages: list[int]) -> Iterator[Finding]:
    """IL826: on one rank there is one stage."""
    if facts.program.ranks == 1 and len(stages) > 1:
        rows = np.flatnonzero((facts.kind == Kind.F) & (facts.stage == stages[1]))
        yield Finding(
            "IL826",
            "R-TGT-HYPER-6",
            f"one rank has {len(stages)} stages: HyperParallel feeds every stage but the first by a "
            "receive, and on one rank there is none",
            tuple(Mark(int(r), "nothing brings its input") for r in rows[:1]),
            "put all layers into one stage",
        )


def transport(facts: Facts) -> Iterator[Finding]:
    """IL827: the transfers of a communicator are all grouped or all plain."""
    rows = np.flatnonzero(IS_TRANSFER[facts.kind])
    for c in np.unique(facts.comm[rows]).tolist():
        mine = rows[facts.comm[rows] == c]
        grouped = facts.launch[mine] >= 0
        if grouped.any() and not grouped.all():
            a, b = int(mine[grouped][0]), int(mine[~grouped][0])
            p = facts.program
            yield Finding(
                "IL827",
                "R-TGT-HYPER-7",
                f"{p.show(a)} is grouped and {p.show(b)} is not: `p2p_transport` is one for all ranks, and "
                "the HCCL below refuses a grouped end that meets a plain one",
                (Mark(a, f"grouped, on rank {facts.rank[a]}"), Mark(b, f"plain, on rank {facts.rank[b]}")),
                "group every transfer, one by itself too, or none",
            )


def without_gradient(facts: Facts) -> Iterator[Finding]:
    """IL828: no backward without a gradient path, not even as a placeholder."""
    fp = facts.footprint
    rows = np.flatnonzero(facts.placed & np.isin(facts.kind, [int(k) for k in (Kind.B, Kind.I, Kind.W)]))
    rows = rows[~fp.back[facts.cls[rows], facts.stage[rows]]]
    for row, count in alike(rows, facts.stage[rows]):
        s = int(facts.stage[row])
        yield Finding(
            "IL828",
            "R-TGT-HYPER-8",
            f"{facts.program.show(row)}: nothing at or before stage {s} "
            f"trains{more(count, f'of stage {s}')}, and HyperParallel's backward of outputs that need "
            "no gradient raises an error",
            (Mark(row, "stops the run"),),
            "leave it out, or build the stage with `has_backward=False`",
        )
