"""Bytes in the memory of each rank, walking its rows: taken, held, given back (spec/memory.md)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from interlock.witness.executor.world import COMPUTE, Op, World


def peaks(world: World) -> list[int]:
    """The peak of every rank in bytes. Of an inserted program none: its transfers have to be put in first."""
    return [] if world.inserted else [_peak(world, rank) for rank in range(world.ranks)]


def _peak(w: World, rank: int) -> int:
    static = _static(w, rank)
    steps = w.steps[rank]
    step_of = {op.row: i for i, step in enumerate(steps) for op in step}
    given_back: dict[int, int] = defaultdict(int)  # step -> bytes that end with it
    held, peak = 0, 0
    for i, step in enumerate(steps):
        halves = step[0].kind in COMPUTE
        for moment in [step] if halves else [[op] for op in step]:  # halves of an overlap are live together
            held += sum(_workspace(w, op) for op in moment)
            for op in moment:
                for size, until in _taken(w, op):
                    held += size
                    end = step_of.get(until, -1)
                    if end >= i:
                        given_back[end] += size
            peak = max(peak, held)
            held -= sum(_workspace(w, op) for op in moment)
        held -= given_back[i]
    return static + peak


def _static(w: World, rank: int) -> int:
    memory = w.memory or {"gradient": [1, 1], "optimizer": [0, 1]}
    total = 0
    for s in (s for s in range(len(w.stages)) if rank in w.ranks_of(s)):
        for layer in (w.layers[number] for number in range(*w.stages[s]["layers"])):
            total += layer["weights"]
            if layer["trainable"]:
                total += sum(
                    -(-layer["weights"] * over // under)
                    for over, under in (memory["gradient"], memory["optimizer"])
                )
    return total


def _size(w: World, number: int, what: str, m: int) -> int:
    fixed, per_image = w.layers[number][what]
    return fixed + per_image * w.images[m]


def _workspace(w: World, op: Op) -> int:
    if op.kind not in COMPUTE or not w.in_place(op) or op.stage not in w.work[op.mb]:
        return 0
    return max(_size(w, number, "workspace", op.mb) for number in w.work[op.mb][op.stage].layers)


def _output(w: World, s: int, m: int) -> int:
    return _size(w, w.work[m][s].layers[-1], "output", m)


def _checkpointed(w: World, number: int) -> bool:
    return w.layers[number].get("recompute", False)


def _late(w: World, number: int, m: int) -> int:
    """What of a layer's activation is held until W."""
    return (
        min(_size(w, number, x, m) for x in ("until_weight", "activation"))
        if w.layers[number]["trainable"]
        else 0
    )


def _saved_inputs(w: World, s: int, m: int) -> Iterator[int | None]:
    """A stage's checkpoints: for each stretch of recomputed layers whose last one is on the tape, the layer
    that feeds it (None: not of this stage).
    """
    work, feeds, inside = w.work[m][s], None, False
    for i, number in enumerate(work.layers):
        if _checkpointed(w, number):
            feeds = feeds if inside else work.layers[i - 1] if i else None
            inside = True
            last = i + 1 == len(work.layers) or not _checkpointed(w, work.layers[i + 1])
            if last and number in work.kept:
                yield feeds
        else:
            inside = False


def _input_used(w: World, s: int, m: int) -> int | None:
    """The row with which stage s is done with the payload it was given: its F, or its X if that starts from
    it again.
    """
    if None not in list(_saved_inputs(w, s, m)):
        return w.row("F", s, m)
    x = w.x(s, m)
    return x if x is not None else w.row("W", s, m)


def _taken(w: World, op: Op) -> Iterator[tuple[int, int | None]]:  # noqa: C901, PLR0912
    """What an operation brings into memory: bytes, and the row with which they go (None: none on
    this rank).
    """
    s, m = op.stage, op.mb
    if w.first.get((op.kind, s, m)) != op.row or s not in w.work[m]:
        return
    x, weight = w.x(s, m), w.row("W", s, m)
    before, after = w.neighbour(s, m, -1), w.neighbour(s, m, 1)
    work = w.work[m][s]
    if op.row == (x if x is not None else weight) and w.row("F", s, m) is not None:  # the forward again
        whole = w.row("B", s, m)
        for number in work.kept if work.back else ():
            if _checkpointed(w, number):
                late = _late(w, number, m)
                yield late, weight if weight is not None else whole if whole is not None else op.row
                yield _size(w, number, "activation", m) - late, op.row
    match op.kind:
        case "F":
            until_x = x if x is not None else weight
            whole = w.row("B", s, m)
            until_w = weight if weight is not None else whole if whole is not None else until_x
            for number in work.kept if work.back else ():
                if not _checkpointed(w, number):
                    late = _late(w, number, m)
                    yield late, until_w
                    yield _size(w, number, "activation", m) - late, until_x
            for saved in _saved_inputs(w, s, m):
                if saved is not None:
                    yield _size(w, saved, "output", m), until_x
            if after is not None:
                here = w.rank(after, m) == op.rank
                yield _output(w, s, m), _input_used(w, after, m) if here else w.row("WAIT_F", s, m)
        case "RECV_F":
            yield _output(w, before, m), _input_used(w, s, m)
        case "RECV_B" if w.crossing(after, m):
            yield _output(w, s, m), x if x is not None else weight
        case "B" | "I" | "W" if op.row == (x if x is not None else weight) and work.cross:
            here = w.rank(before, m) == op.rank
            x_before = w.x(before, m)
            until = x_before if x_before is not None else w.row("W", before, m)
            yield _output(w, before, m), until if here else w.row("WAIT_B", s, m)
