"""Every static rule, in the order in which they are asked. Cycles (IL307, IL402) are not static: waits.py."""

from __future__ import annotations

from . import exchange, operations, reductions
from .matching import Matched
from .memory import overflows
from .operations import Faults

RULES_OF_PLACED = (
    operations.stage_numbers,
    operations.microbatch_numbers,
    operations.ranks,
    operations.forwards_listed,
    operations.losses_listed,
    operations.once,
    operations.one_backward,
    operations.backwards_listed,
    operations.nothing_excluded,
    operations.dependencies_first,
    reductions.named_once,
    reductions.stages_reduced,
    reductions.ties_reduced,
    reductions.replicated_stages_reduced,
    reductions.reductions_after_work,
    reductions.ties_before_data,
    reductions.step_last,
    operations.producers_and_consumers,
    operations.waits_after_sends,
    reductions.gradients_kept,
)
RULES_OF_MATCHED = (
    overflows,
    exchange.channels_agree,
    exchange.carried_once,
    exchange.collectives_agree,
    exchange.creation_in_one_order,
    exchange.members_alone,
    exchange.buffers_waited_for,
)


def find_faults(matched: Matched, model: str, *, timed: bool = False) -> Faults:
    """Every error of a static rule under the model.

    `timed`: IL301 is left out, since times that go forward along data and program order rule it out.
    """
    for of_placed in RULES_OF_PLACED:
        if not (timed and of_placed is operations.dependencies_first):
            yield from of_placed(matched.placed)
    for of_matched in RULES_OF_MATCHED:
        yield from of_matched(matched)
    if model == "pair":
        yield from exchange.grouped_alike(matched)
