"""What the readers of orders share: how many stages and microbatches an order has, and where the
stages lie.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from interlock.program.ir import Order
from interlock.program.kinds import COMPUTE, WITH_MICROBATCH, Kind
from interlock.text.finding import error
from interlock.text.source import Span

MAX_RANKS = 4096
MAX_INDEX = 10_000_000
MAX_STAGES = 100_000
_COMPUTE = [int(k) for k in COMPUTE]

Placement = Literal["loop", "vee"] | tuple[int, ...] | None  # the rank of every stage; None: as in the file


def count_stages(order: Order) -> int:
    largest = int(order.stage.max())
    row = int(np.argmax(order.stage))
    span = Span(int(order.at[row]), int(order.width[row]))
    mentioned = np.bincount(order.stage, minlength=largest + 1) > 0
    if not mentioned.all():
        gap = int(np.argmin(mentioned))
        rest = np.flatnonzero(mentioned[gap:])
        missing = f"stage {gap}" if rest[0] == 1 else f"stages {gap} to {gap + int(rest[0]) - 1}"
        raise error(
            "IL204",
            f"no rank mentions {missing}, and the file goes up to stage {largest}",
            span,
            f"stage {largest}",
            f"correct the stage here, or add {missing}: stages are numbered from 0 without gaps",
        )
    if largest >= MAX_STAGES:
        raise error(
            "IL104",
            f"the file has {largest + 1:,} stages, and a schedule at most {MAX_STAGES:,}",
            span,
            "the last stage",
            "check a schedule of fewer stages",
        )
    return largest + 1


def place_stages(order: Order, stages: int, ranks: int, placement: Placement) -> list[int]:
    """The rank of every stage: as declared, else the one with most of its compute operations (ties: the
    lowest).

    Raises IL204.
    """
    match placement:
        case "loop":
            return [s % ranks for s in range(stages)]
        case "vee":
            return [s % ranks if s // ranks % 2 == 0 else ranks - 1 - s % ranks for s in range(stages)]
        case tuple(declared):
            _check_declared(declared, stages, ranks)
            return list(declared)
    return _busiest_ranks(order, ranks)


def _check_declared(declared: tuple[int, ...], stages: int, ranks: int) -> None:
    if len(declared) != stages:
        raise error(
            "IL204",
            f"the declared placement has {len(declared)} stages, and the file has {stages}",
            help="declare one rank for each stage of the file",
        )
    for stage, rank in enumerate(declared):
        if not 0 <= rank < ranks:
            raise error(
                "IL204",
                f"the declared placement puts stage {stage} on rank {rank}, and the file has ranks 0 to "
                f"{ranks - 1}",
                help="declare ranks of the file: a line is a rank",
            )


def _busiest_ranks(order: Order, ranks: int) -> list[int]:
    rank = np.repeat(np.arange(ranks), np.diff(order.start))
    pair, where, mentions = np.unique(
        order.stage.astype(np.int64) * ranks + rank, return_inverse=True, return_counts=True
    )
    compute = np.bincount(where, weights=np.isin(order.kind, _COMPUTE), minlength=len(pair)).astype(np.int64)
    best = np.lexsort((pair % ranks, -mentions, -compute, pair // ranks))
    stage = pair[best] // ranks
    return (pair[best][np.append(True, stage[1:] != stage[:-1])] % ranks).tolist()


def count_microbatches(order: Order, declared: int | None) -> int:
    """The most microbatches one stage runs forward: a wrong index among them is then out of range, not one
    more microbatch.
    """
    if declared is not None:
        if not 1 <= declared <= MAX_INDEX:
            raise error("IL104", f"{declared} microbatches are declared", help=f"declare 1 to {MAX_INDEX:,}")
        return declared
    for rows in (order.kind == Kind.F, np.isin(order.kind, [int(k) for k in WITH_MICROBATCH])):
        if rows.any():
            places = order.stage[rows].astype(np.int64) << 32 | order.mb[rows]
            pairs = np.sort(places)  # much faster than np.unique
            return int(np.bincount(pairs[np.append(True, pairs[1:] != pairs[:-1])] >> 32).max())
    return 1
