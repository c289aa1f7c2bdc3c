"""Every static rule, in the order in which they are asked. Cycles (IL307, IL402) are not static: waits.py."""

from __future__ import annotations

from interlock.kernel import exchange, operations, reductions
from interlock.kernel.matching import Matched
from interlock.kernel.memory import check_capacity
from interlock.kernel.operations import Faults

RULES_OF_PLACED = (
    operations.check_stage_numbers,
    operations.check_microbatches,
    operations.check_ranks,
    operations.check_forwards,
    operations.check_losses,
    operations.check_repeats,
    operations.check_backward_halves,
    operations.check_backwards,
    operations.check_exclusions,
    operations.check_dependencies,
    reductions.check_names,
    reductions.check_stage_reductions,
    reductions.check_tie_reductions,
    reductions.check_replicated_reductions,
    reductions.check_reduction_order,
    reductions.check_tie_order,
    reductions.check_steps,
    operations.check_producers,
    operations.check_waits,
    reductions.check_zeros,
)
RULES_OF_MATCHED = (
    check_capacity,
    exchange.check_channels,
    exchange.check_carriers,
    exchange.check_collectives,
    exchange.check_creation,
    exchange.check_members,
    exchange.check_buffers,
)


def find_faults(matched: Matched, model: str, *, timed: bool = False) -> Faults:
    """Every error of a static rule under the model.

    `timed`: IL301 is left out, since times that go forward along data and program order rule it out.
    """
    for of_placed in RULES_OF_PLACED:
        if not (timed and of_placed is operations.check_dependencies):
            yield from of_placed(matched.placed)
    for of_matched in RULES_OF_MATCHED:
        yield from of_matched(matched)
    if model == "pair":
        yield from exchange.check_grouping(matched)
