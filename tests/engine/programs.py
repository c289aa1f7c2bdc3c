"""Programs that the tests of the engines are asked about."""

from interlock.program.build import OrderBuilder
from interlock.program.footprint import with_trainable
from interlock.program.ir import Kind, Layer, Program, Stage
from interlock.program.transfers import restrict


def pipeline(ranks: int, mbs: int, *, gpipe=False, encoder=False, text_only=(), depth=1) -> Program:
    """1F1B or GPipe, one stage of `depth` layers a rank.

    `encoder`: a Replicated stage before them, round robin, which encodes first.
    """
    order = OrderBuilder()
    seen = [m for m in range(mbs) if m not in text_only]
    for r in range(ranks):
        stage = r + encoder
        mine = [m for m in seen if m % ranks == r] if encoder else []
        for m in mine:
            order.op(Kind.F, 0, m)
        warm = mbs if gpipe else min(ranks - 1 - r, mbs)
        for i in range(mbs + warm):
            if i < mbs:
                order.op(Kind.F, stage, i)
            if i >= warm:
                order.op(Kind.B, stage, i - warm)
        for m in mine:
            order.op(Kind.B, 0, m)
        order.end_rank()
    layers = tuple(
        Layer(f"l{i}", modality="vision" if encoder and i < depth else None)
        for i in range((ranks + encoder) * depth)
    )
    stages = [
        Stage("backbone", (r + encoder) * depth, (r + encoder + 1) * depth, rank=r) for r in range(ranks)
    ]
    if encoder:
        stages.insert(0, Stage("encoder", 0, depth, owner=tuple(m % ranks for m in range(mbs))))
    return Program(
        ranks,
        mbs,
        layers,
        tuple(stages),
        order.build(),
        modalities={"vision": frozenset(seen)} if text_only else {},
        inserted=True,
        reductions_inserted=True,
    )


def frozen_to(program: Program, frozen) -> Program:
    return restrict(
        program,
        with_trainable(
            program.layers, [l.trainable and i not in frozen for i, l in enumerate(program.layers)]
        ),
    )
