"""Owner maps of a Replicated region: which rank runs each microbatch."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from interlock.algebra.cut import Region
from interlock.language import ast
from interlock.text.finding import InputError, error
from interlock.text.phrases import suggest

WORDS = ("round_robin", "greedy", "balanced", "any")
MEANT = "write `round_robin`, `greedy`, `balanced`, `any` or a list of ranks"
SEARCH_LIMIT = 20_000  # tries of the exact search before it gives up


def owner_map(
    region: Region,
    ranks: int,
    microbatches: int,
    encode: Sequence[int],
    slot: Sequence[int],
    stretched: bool,
    deferred: bool = False,
) -> tuple[int, ...]:
    """owner[m]. `encode[m]` is the region's forward time in microbatch m (0: not on its path), `slot[r]` the
    warmup slot of rank r.

    `stretched`: the number of microbatches is not the one written, and a list is repeated. `deferred`:
    `balanced` is resolved once the order
    is known (derive.py), round robin until then. Raises IL209, IL210.
    """
    argument = region.arguments.get("owner")
    match argument.value if argument else None:
        case (
            None | ast.Word(text="round_robin" | "any")
        ):  # any: this map stands for all of them (check/owner_maps.py)
            return tuple(m % ranks for m in range(microbatches))
        case ast.Word(text="greedy"):
            return greedy(encode, slot)
        case ast.Word(text="balanced") if deferred:
            return tuple(m % ranks for m in range(microbatches))
        case ast.Word(text="balanced"):
            found = balanced(encode, slot)
            if found is None:
                raise gave_up(argument, SEARCH_LIMIT)
            return found
        case ast.ListValue(items=items):
            return _listed(items, region, argument, ranks, microbatches, stretched)
        case ast.Word(text=text):
            raise error(
                "IL209",
                f"no owner map is called `{text}`",
                argument.value.span,
                help=suggest(text, WORDS) or MEANT,
            )
    raise error("IL209", "this is no owner map", argument.value.span, help=MEANT)


def gave_up(argument: ast.Argument, tries: int) -> InputError:
    return error(
        "IL210",
        f"the exact search for `owner: balanced` gave up after {tries:,} tries",
        argument.span,
        help="use `owner: greedy`, or write the list",
    )


def _listed(
    items, region: Region, argument: ast.Argument, ranks: int, microbatches: int, stretched: bool
) -> tuple[int, ...]:
    for m, item in enumerate(items):
        if not isinstance(item, ast.Int):
            raise error("IL209", "an owner map lists ranks", item.span)
        if not item.value < ranks:
            raise error(
                "IL209",
                f"the owner of microbatch {m} is rank {item.value}, and the ranks are 0..{ranks - 1}",
                item.span,
            )
    owner = [item.value for item in items]
    if stretched and owner:
        owner = [owner[m % len(owner)] for m in range(microbatches)]
    if len(owner) != microbatches:
        raise error(
            "IL209",
            f"the owner map of `{region.name}` has {len(owner)} entries for {microbatches} microbatches",
            argument.span,
            help="give the rank of each microbatch, in order",
        )
    return tuple(owner)


def greedy(encode: Sequence[int], slot: Sequence[int]) -> tuple[int, ...]:
    """Heavier encodes first (then lower microbatch), each to the rank with the most slot left (then the
    higher rank).
    """
    ranks = len(slot)
    owner = [m % ranks for m in range(len(encode))]
    heap = [(-left, -r) for r, left in enumerate(slot)]
    heapq.heapify(heap)
    for m in sorted((m for m in range(len(encode)) if encode[m] > 0), key=lambda m: (-encode[m], m)):
        left, r = heap[0]
        owner[m] = -r
        heapq.heapreplace(heap, (left + encode[m], r))
    return tuple(owner)


def balanced(encode: Sequence[int], slot: Sequence[int]) -> tuple[int, ...] | None:
    """The smallest largest spill max(0, E_r - slot[r]), exactly; None if the search gives up. Starts from
    `greedy`.
    """
    best = greedy(encode, slot)

    def load(owner):
        return max(
            0, *(sum(e for m, e in enumerate(encode) if owner[m] == r) - w for r, w in enumerate(slot))
        )

    jobs = sorted((m for m in range(len(encode)) if encode[m] > 0), key=lambda m: (-encode[m], m))
    if not jobs:
        return best
    total = sum(encode)
    low, high = max(0, encode[jobs[0]] - max(slot), -(-(total - sum(slot)) // len(slot))), load(best)
    tries = [SEARCH_LIMIT]
    while low < high:
        middle = (low + high) // 2
        found = _fit(jobs, encode, [w + middle for w in slot], tries)
        if tries[0] <= 0:
            return None
        if found is None:
            low = middle + 1
        else:
            owner = list(best)
            for m, r in zip(jobs, found):
                owner[m] = r
            best = tuple(owner)
            high = load(best)
    return best


def _fit(jobs: list[int], encode: Sequence[int], room: list[int], tries: list[int]) -> list[int] | None:
    """A rank for each job within the room of every rank, by depth-first search; ranks with equal room are
    tried once.
    """
    chosen: list[int] = []
    options: list[list[int]] = []
    slack = sum(room) - sum(encode[m] for m in jobs)
    if slack < 0:
        return None

    def ranks_for(m: int) -> list[int]:
        seen, out = set(), []
        for r in sorted(range(len(room)), key=lambda r: (-room[r], -r)):
            if room[r] >= encode[m] and room[r] not in seen:
                seen.add(room[r])
                out.append(r)
        return out[::-1]

    options.append(ranks_for(jobs[0]))
    while options:
        tries[0] -= 1
        if tries[0] <= 0:
            return None
        if not options[-1]:
            options.pop()
            if chosen:
                r = chosen.pop()
                room[r] += encode[jobs[len(chosen)]]
            continue
        r = options[-1].pop()
        room[r] -= encode[jobs[len(chosen)]]
        chosen.append(r)
        if len(chosen) == len(jobs):
            return chosen
        options.append(ranks_for(jobs[len(chosen)]))
    return None
