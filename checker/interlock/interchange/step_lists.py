"""What importers of step lists share: from operations with their places, rank by rank, to a program."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import fields

import numpy as np

from interlock.interchange.importer import StepOptions
from interlock.interchange.json_reader import Value
from interlock.interchange.placement import (
    MAX_INDEX,
    MAX_RANKS,
    count_microbatches,
    count_stages,
    place_stages,
)
from interlock.program.build import OrderBuilder
from interlock.program.ir import Layer, Order, Program, Stage
from interlock.program.kinds import COMPUTE, Kind
from interlock.text.finding import error


def check_rank_lists(lists: Sequence[Value], of: Value) -> Sequence[Value]:
    """The lists of the ranks, of which there is one at least and not too many."""
    if not lists:
        raise error("IL106", "the file lists no rank", of.span, help="write a list of steps for each rank")
    if len(lists) > MAX_RANKS:
        raise error(
            "IL104",
            f"the file has {len(lists)} lists, and a schedule at most {MAX_RANKS} ranks",
            lists[MAX_RANKS].span,
            "a rank too many",
            "a list is a rank, not a step: transpose the table if steps are its lists",
        )
    return lists


def flatten_steps(steps: list[Value], what: str) -> Iterator[Value]:
    """The strings of a list whose items are strings or lists of strings (the commands of one step)."""
    for item in steps:
        if isinstance(item.data, list):
            yield from (one for one in item.data if one.expect(str, what, "a step is a string") is not None)
        elif item.expect(str, what, "a step is a string") is not None:
            yield item


def parse_index(digits: str, of: Value) -> int:
    if len(digits) > 9 or int(digits) > MAX_INDEX:
        raise error(
            "IL104",
            f"the index {digits[:20]} is above {MAX_INDEX:,}",
            of.span,
            help="number stages and microbatches from 0, without gaps",
        )
    return int(digits)


def build_order(builder: OrderBuilder) -> Order:
    """The order, which holds work. Raises IL106."""
    order = builder.build()
    if not np.isin(order.kind, [int(k) for k in COMPUTE]).any():
        raise error(
            "IL106",
            "the file holds no forward and no backward",
            help="write out the schedule's steps before it runs, not after",
        )
    return order


def assemble_program(order: Order, options: StepOptions, **changes) -> Program:
    """A program of stages of one trainable layer each, placed as declared or where they run.

    Raises IL104, IL204.
    """
    ranks = len(order.start) - 1
    staged = _staged(order)
    stages = count_stages(staged)
    placement = place_stages(staged, stages, ranks, options.placement)
    return Program(
        ranks,
        count_microbatches(order, options.microbatches),
        tuple(Layer(f"stage{s}") for s in range(stages)),
        tuple(Stage("stages", s, s + 1, rank=r) for s, r in enumerate(placement)),
        order,
        **changes,
    )


def _staged(order: Order) -> Order:
    """The operations that have a stage."""
    keep = order.stage >= 0
    start = np.concatenate(([0], np.cumsum(keep)))[order.start]
    return Order(start, *(getattr(order, f.name)[keep] for f in fields(Order)[1:]))


def contains_any(order: Order, kinds: Collection[Kind]) -> bool:
    return bool(np.isin(order.kind, [int(k) for k in kinds]).any())
