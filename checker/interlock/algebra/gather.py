"""Late gathers of a leading Replicated region: hand-overs that arrive one by one, written out
(spec/algebra.md, "Late gathers").
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from interlock.algebra.cut import Region
from interlock.algebra.setting import comm_number
from interlock.language import ast
from interlock.program.facts import Facts, mask
from interlock.program.ir import Communicator, Order, Program
from interlock.program.kinds import INSERTED, Kind
from interlock.program.linearise import Times, compute_times
from interlock.program.transfers import LateBoundary, insert
from interlock.text.finding import error
from interlock.text.phrases import suggest
from interlock.text.source import Span

_WORDS = {"gather": ("prefix", "late"), "post": ("late", "early")}  # the default first


def late_gathers(
    regions: list[Region], leads: bool, comms: list[Communicator], ranks: int
) -> LateBoundary | None:
    """What the region whose gathers are `late` says of them; None without such a region. `leads`: a
    Replicated region, then one Sharded run.

    A direction that no argument puts on a communicator gets one of its own, appended to `comms`. Raises IL107
    and IL210.
    """
    asked = None
    for number, region in enumerate(regions):
        if not region.replicated:
            continue
        word = {name: _word(region.arguments.get(name), name) for name in _WORDS}
        if word["gather"] != "late":
            for name in ("post", "gather_on", "scatter_on"):
                if name in region.arguments:
                    raise error(
                        "IL210",
                        f"`{name}` says something of late gathers, and those of `{region.name}` are not late",
                        region.arguments[name].span,
                        help="write `gather: late`, or leave it out",
                    )
        elif number or not leads:
            raise error(
                "IL210",
                f"gathers of `{region.name}` cannot come late",
                region.arguments["gather"].span,
                help="late gathers lead from a Replicated region, the first of the cut, to one Sharded "
                "skeleton; leave `gather` out",
            )
        else:
            asked = region, word["post"]
    if asked is None:
        return None
    region, post = asked
    on = {d: _named(region.arguments.get(f"{d}_on"), comms) for d in ("gather", "scatter")}
    for direction, comm in on.items():
        if comm is None:
            comms.append(Communicator(_free(direction, region, comms), tuple(range(ranks))))
            on[direction] = len(comms) - 1
    return LateBoundary(0, on["gather"], on["scatter"], post == "early")


def _word(argument: ast.Argument | None, name: str) -> str:
    known = _WORDS[name]
    if argument is None:
        return known[0]
    text = argument.value.text if isinstance(argument.value, ast.Word) else ""
    if text not in known:
        raise error(
            "IL210",
            f"`{name}` is `{known[0]}` or `{known[1]}`",
            argument.value.span,
            help=suggest(text, known) or "correct it, or leave it out",
        )
    return text


def _named(argument: ast.Argument | None, comms: list[Communicator]) -> int | None:
    if argument is None:
        return None
    if not isinstance(argument.value, ast.Word):
        raise error("IL210", f"`{argument.name}` wants the name of a communicator", argument.value.span)
    return comm_number(argument.value.text, argument.value.span, comms)


def _free(name: str, region: Region, comms: list[Communicator]) -> str:
    while any(c.name == name for c in comms):
        name = f"{region.name}_{name}"
    return name


def write(program: Program, late: LateBoundary, place: Span | None = None) -> Program:
    """The fully trained program with all its transfers written: those of the Sharded run along its own
    linearisation, the seam's late.

    Written transfers that the algebra adds get `place` in the sources. A program whose order is cyclic stays
    as it is: its cycle is the answer.
    """
    times = _around(program)
    if not times.complete:
        return program
    written = insert(program, times, late=late)
    if place is None:
        return written
    o = written.order
    added = (o.at < 0) & mask(INSERTED)[o.kind]
    return written.with_order(
        replace(
            o,
            at=np.where(added, place.at, o.at),
            width=np.where(added, place.width, o.width).astype(o.width.dtype),
        )
    )


def _around(program: Program) -> Times:
    """Times of a linearisation: the forwards of stage 0 each rank begins with, the Sharded run, the backwards
    of stage 0 each rank ends with.

    Those come in the order of the input gradients they are given, over all ranks.
    """
    o = program.order
    own = o.stage == 0
    first, last = own & (o.kind == Kind.F), own & (o.kind != Kind.F)
    for a, b in zip(o.start[:-1], o.start[1:]):
        np.logical_and.accumulate(first[a:b], out=first[a:b])
        last[a:b] = np.logical_and.accumulate(last[a:b][::-1])[::-1]
    rest = ~(first | last)
    kept = np.concatenate([[0], np.cumsum(rest)])
    columns = {
        c: getattr(o, c)[rest]
        for c in ("kind", "stage", "mb", "peer", "name", "comm", "launch", "at", "width")
    }
    facts = Facts(program.with_order(Order(kept[o.start].astype(np.int64), **columns)))
    times = compute_times(facts)
    stuck = tuple(int(np.flatnonzero(rest)[i]) if i >= 0 else -1 for i in times.stuck)
    time = np.arange(len(o)) - np.repeat(o.start[:-1], np.diff(o.start))
    time[rest] = times.time + (int(time[first].max()) + 1 if first.any() else 0)
    time[last] = (int(time[rest].max()) + 1 if rest.any() else 0) + _turns(facts, times)[o.mb[last]]
    return Times(time, stuck)


def _turns(facts: Facts, times: Times) -> np.ndarray:
    """The place of each microbatch in the order in which the first stage after stage 0 gives its input
    gradients.
    """
    stage = facts.footprint.next[facts.footprint.of, 0]
    row = facts.first_X[np.maximum(stage, 0) * facts.M + np.arange(facts.M)]
    given = np.where(row >= 0, times.time[np.maximum(row, 0)], -1)
    turn = np.empty(facts.M, dtype=np.int64)
    turn[np.lexsort((np.arange(facts.M), given))] = np.arange(facts.M)
    return turn
