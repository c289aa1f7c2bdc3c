"""PyTorch's pipelining runtime (`_PipelineScheduleRuntime`): spec/targets.md, R-TGT-TORCH."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from interlock.program.facts import IS_TRANSFER, Facts
from interlock.program.ir import Kind
from interlock.rules import memory
from interlock.rules.alike import MANY, alike, more
from interlock.rules.communication import Transfers
from interlock.rules.targets.context import Context, elsewhere
from interlock.rules.targets.torch_memory import TorchUsage
from interlock.text.finding import Finding, Mark

OF_THE_TRAINER = (
    Kind.LOSS,
    Kind.ZERO,
    Kind.STEP,
)  # the loss is computed in F; the trainer clears and steps around the schedule
CELLS = (
    Kind.F,
    Kind.B,
    Kind.I,
    Kind.W,
    Kind.SEND_F,
    Kind.RECV_F,
    Kind.SEND_B,
    Kind.RECV_B,
    Kind.REDUCE,
    Kind.UNSHARD,
    Kind.RESHARD,
)
LOADED = (Kind.REDUCE, Kind.UNSHARD, Kind.RESHARD)  # what the loader of a compute-only file puts in itself


def check(facts: Facts, transfers: Transfers, context: Context) -> Iterator[Finding]:
    for rule in (losses, first_trainable, placeholders, skipped, shapes):
        yield from rule(facts)
    yield from stage_objects(facts, context)
    yield from without_cell(facts)
    yield from mixture(facts)
    yield from peaks(facts)


def losses(facts: Facts) -> Iterator[Finding]:
    """IL801: the last stage runs its forwards in ascending order of microbatch."""
    last = facts.S - 1
    rows = np.flatnonzero((facts.kind == Kind.F) & (facts.stage == last) & facts.placed)
    wrong = np.flatnonzero(np.diff(facts.mb[rows]) < 0)
    if len(wrong) == 0 or facts.is_replicated[last]:
        return
    p, early, late = facts.program, int(rows[wrong[0]]), int(rows[wrong[0] + 1])
    yield Finding(
        "IL801",
        "R-TGT-TORCH-1",
        f"the last stage runs {p.show(early)} before {p.show(late)}: PyTorch stores losses by their "
        "position, so the "
        "backward of one microbatch starts from the loss of another, and the stages before get its gradient "
        "without an error",
        (
            Mark(late, "a smaller microbatch comes later"),
            Mark(early, f"its loss is number {wrong[0]} of the list"),
        ),
        f"run the forwards of stage {last} in the order of the microbatches: 0, 1, 2, ..",
    )


def first_trainable(facts: Facts) -> Iterator[Finding]:
    """IL802: the first trainable stage after a frozen prefix uses B, not I and W."""
    fp = facts.footprint
    rows = np.flatnonzero(facts.placed & ((facts.kind == Kind.I) | (facts.kind == Kind.W)))
    at = facts.cls[rows], facts.stage[rows]
    first = (facts.stage[rows] > 0) & fp.wwork[at] & ~fp.cross[at]
    rows = rows[first]
    for row, _ in alike(rows, facts.stage[rows]):
        s, m = int(facts.stage[row]), int(facts.mb[row])
        mine = rows[facts.stage[rows] == s]
        weights = mine[facts.kind[mine] == Kind.W]
        marks = (Mark(row, "finds no input that needs a gradient"),) + tuple(
            Mark(int(w), "does nothing") for w in weights[:1] if w != row
        )
        yield Finding(
            "IL802",
            "R-TGT-TORCH-2",
            f"stage {s} is the first trainable stage, everything before it is frozen, and its backward is "
            "split: PyTorch finds the weights by walking "
            f"back from inputs that need a gradient, finds none, and {s}W adds nothing: the weight "
            f"gradients of stage {s} are lost without an error"
            f"{more(len(np.unique(facts.mb[mine])), 'microbatches')}",
            marks,
            f"write {s}B{m} in place of {s}I{m} and {s}W{m}, for every microbatch",
        )


def placeholders(facts: Facts) -> Iterator[Finding]:
    """IL803: a CSV lists a whole backward also where the footprint asks for none."""
    fp = facts.footprint
    if not facts.program.placeholders or not facts.S or not facts.M:
        return
    b, i, w = (facts.listed[k] >= 0 for k in (Kind.B, Kind.I, Kind.W))

    def table(t):
        return t[fp.of].T.reshape(-1)

    on_path, back, wwork = table(fp.on_path), table(fp.back), table(fp.wwork)
    none = on_path & ~back & ~b & ~i & ~w
    half = on_path & ~b & (i != w) & (~back | ~wwork)
    for keys, whole in ((np.flatnonzero(none), True), (np.flatnonzero(half), False)):
        for key, count in alike(keys, keys // facts.M):
            s, m = divmod(key, facts.M)
            lacking = "B" if whole else "W" if i[key] else "I"
            forward = facts.listed[Kind.F][key]
            near = int(
                forward if whole else facts.listed[Kind.I][key] if i[key] else facts.listed[Kind.W][key]
            )
            what = (
                f"{s}B{m} is missing: stage {s} is frozen and so is everything before it, and PyTorch's "
                "loader asks for a backward of every stage and microbatch all the same"
                if whole
                else f"{s}{lacking}{m} is missing: PyTorch's loader asks for as many W as I on every stage, "
                "also on a frozen one"
            )
            yield Finding(
                "IL803",
                "R-TGT-TORCH-3",
                what + more(count, "of the stage"),
                (Mark(near, "without its backward" if whole else "the other half is missing"),)
                if near >= 0
                else (),
                f"add {s}{lacking}{m} as a placeholder: it does nothing when the schedule runs",
                rank=_rank(facts, s, m),
            )


def _rank(facts: Facts, s: int, m: int) -> int:
    return int(facts.rank_at(np.array([s]), np.array([m]))[0])


def skipped(facts: Facts) -> Iterator[Finding]:
    """IL804: only neighbouring stages exchange: every microbatch visits every stage."""
    fp = facts.footprint
    for s in range(facts.S if facts.M else 0):
        absent = np.flatnonzero(~fp.on_path[fp.of, s])
        if len(absent):
            m = int(absent[0])
            rows = np.flatnonzero((facts.kind == Kind.F) & (facts.mb == m))
            yield Finding(
                "IL804",
                "R-TGT-TORCH-4",
                f"microbatch {m} skips stage {s}{more(len(absent), 'microbatches')}: in PyTorch only "
                "neighbouring stages exchange, and every stage runs every microbatch",
                tuple(Mark(int(r), f"this microbatch never visits stage {s}") for r in rows[:1]),
                f"give stage {s} a layer that is present in every microbatch, or run an empty sample "
                "through it",
            )


def shapes(facts: Facts) -> Iterator[Finding]:
    """IL805: what crosses a boundary has one shape in every microbatch."""
    p, fp = facts.program, facts.footprint
    if not facts.S or not facts.M:
        return
    kinds: dict[tuple[int, int], int] = {}  # (class, images) -> the first such microbatch
    for m, kind in enumerate(zip(fp.of.tolist(), p.images)):
        kinds.setdefault(kind, m)
    for s, stage in enumerate(p.stages[:-1]):
        sizes: dict[int, int] = {}
        for (c, images), m in kinds.items():
            present = np.flatnonzero(fp.present[c, stage.first : stage.last])
            if len(present):
                output = p.layers[stage.first + int(present[-1])].output
                sizes.setdefault(output.fixed + output.per_image * images, m)
        if len(sizes) > 1:
            (one, m), (other, n) = list(sizes.items())[:2]
            rows = [
                int(r)
                for x in (m, n)
                for r in np.flatnonzero((facts.kind == Kind.F) & (facts.stage == s) & (facts.mb == x))[:1]
            ]
            labels = (
                f"its output has {memory.show_bytes(one)}",
                f"its output has {memory.show_bytes(other)}",
            )
            yield Finding(
                "IL805",
                "R-TGT-TORCH-5",
                f"the output of stage {s} has {memory.show_bytes(one)} in microbatch {m} and "
                f"{memory.show_bytes(other)} in microbatch {n}: "
                "PyTorch takes the shape of microbatch 0 for all",
                tuple(map(Mark, rows, labels)) if len(rows) == 2 else (),
                "pad the microbatches to one size, or give each as many images",
            )


def stage_objects(facts: Facts, context: Context) -> Iterator[Finding]:
    """IL806: every stage is one object on one rank, where the schedule runs it."""
    for s, stage in enumerate(facts.program.stages):
        if stage.replicated:
            rows = np.flatnonzero((facts.kind == Kind.F) & (facts.stage == s))
            yield Finding(
                "IL806",
                "R-TGT-TORCH-6",
                f"stage {s} ({stage.region}) is Replicated: in PyTorch a stage is one object on one rank",
                tuple(Mark(int(r), "on the rank that owns the microbatch") for r in rows[:1]),
                "give the region a Sharded skeleton, such as 1f1b",
            )
    declared = context.ranks(facts.S, facts.program.ranks)
    if declared is not None:
        yield from elsewhere(
            facts,
            declared,
            "IL806",
            "R-TGT-TORCH-6",
            "the stage object lies on rank {rank}",
            "build the stages where the schedule runs them, or correct the declared placement",
        )


def without_cell(facts: Facts) -> Iterator[Finding]:
    """IL807: nothing that PyTorch's lists have no action for."""
    p, kind = facts.program, facts.kind
    known = np.isin(kind, [int(k) for k in (*CELLS, *OF_THE_TRAINER)])
    for row, count in alike(np.flatnonzero(~known), kind[~known]):
        yield Finding(
            "IL807",
            "R-TGT-TORCH-7",
            f"PyTorch has no action for {p.show(row)}{more(count, 'of its kind')}",
            (Mark(row, "cannot be written"),),
            _instead(Kind(int(kind[row]))),
        )
    rows = np.flatnonzero(known & (facts.comm > 0))
    for row, count in alike(rows, facts.comm[rows]):
        yield Finding(
            "IL807",
            "R-TGT-TORCH-7",
            f"{p.show(row)} uses a communicator of its own{more(count, 'on it')}: PyTorch's transfers all "
            "use the group of the pipeline",
            (Mark(row, "another communicator"),),
            "leave the communicator out",
        )
    rows = np.flatnonzero((facts.launch >= 0) & IS_TRANSFER[kind])
    for row, count in alike(rows, np.zeros(len(rows), dtype=np.int64)):
        yield Finding(
            "IL807",
            "R-TGT-TORCH-7",
            f"{p.show(row)} is part of a grouped launch{more(count, 'transfers')}: PyTorch's lists have none",
            (Mark(row, "in a launch { }"),),
            "write the transfers one by one, or let them be inserted",
        )
    for tie in p.ties:
        ranks = {
            r
            for s in tie.stages
            for r in ((p.stages[s].rank,) if not p.stages[s].replicated else range(p.ranks))
        }
        if len(ranks) > 1 and any(facts.footprint.reduce[s] for s in tie.stages):
            stages = ", ".join(map(str, tie.stages))
            yield Finding(
                "IL807",
                "R-TGT-TORCH-7",
                f"the tied parameters {tie.name} lie on stages {stages} of several ranks, and PyTorch has "
                "no action for their reduction",
                (),
                "put the tied layers into stages of one rank, or untie them",
            )


def _instead(kind: Kind) -> str:
    if kind in (Kind.WAIT_F, Kind.WAIT_B, Kind.WAIT, Kind.FREE):
        return (
            "leave it out: sends are held until the end of the step, receives are waited for by the "
            "operation that needs them"
        )
    if kind in (Kind.SEND, Kind.RECV):
        return "write the transfers of the pipeline: 0SEND_F0, 1RECV_F0"
    return "leave it to the trainer, outside the schedule"


def mixture(facts: Facts) -> Iterator[Finding]:
    """IL808: a file is compute-only or compute-comms, never a mixture."""
    p = facts.program
    if p.inserted:
        rows = np.flatnonzero(np.isin(facts.kind, [int(k) for k in LOADED]))
        for row, count in alike(rows, facts.kind[rows]):
            yield Finding(
                "IL808",
                "R-TGT-TORCH-8",
                f"{p.show(row)} is listed where transfers are inserted{more(count, 'of its kind')}: "
                "PyTorch's loader refuses it in a compute-only file, "
                "and puts it in itself",
                (Mark(row, "not in a compute-only file"),),
                "leave it out, or write the transfers too",
            )
    elif p.reductions_inserted:
        for s in np.flatnonzero(facts.footprint.reduce).tolist()[:MANY]:
            rows = np.flatnonzero(((facts.kind == Kind.W) | (facts.kind == Kind.B)) & (facts.stage == s))
            yield Finding(
                "IL808",
                "R-TGT-TORCH-8",
                f"transfers are written and the reduction of stage {s} is not: in a compute-comms file "
                "PyTorch's loader puts nothing in, "
                "so gradients would be neither reduced nor divided by the number of microbatches",
                tuple(Mark(int(r), "the last gradient of the stage") for r in rows[-1:]),
                f"write {s}REDUCE after it",
                rank=p.stages[s].rank,
            )


def peaks(facts: Facts) -> Iterator[Finding]:
    """IL809: the peak that PyTorch's buffers make fits."""
    p = facts.program
    if p.memory is None or not any(c is not None for c in p.memory.capacity) or not facts.S or not facts.M:
        return
    usage = TorchUsage(facts)
    for f in memory.check_peaks(usage, p.memory.capacity, "IL809", "R-TGT-TORCH-9", "its capacity"):
        yield replace(
            f,
            message=f"with PyTorch's buffers {f.message}",
            marks=tuple(Mark(int(usage.rows[m.row]), m.label) for m in f.marks),
            help="fewer microbatches in a step, smaller outputs at the stage boundaries, or more capacity: "
            "these buffers grow with the microbatches, whatever their order",
        )


def torch_peaks(facts: Facts) -> list[int]:
    """Bytes of every rank under PyTorch (spec/targets.md, IL809)."""
    return TorchUsage(facts).peaks
