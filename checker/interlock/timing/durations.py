"""How long operations and transfers take, in whole nanoseconds (spec/cost.md, "Durations")."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from interlock.program.facts import IS_COMPUTE, Facts, mask
from interlock.program.ir import Layer, Program, Size
from interlock.program.kinds import TO_NEXT, WITH_PEER, Kind
from interlock.rules.communication import Transfers
from interlock.timing.layer_times import LayerTimes

LONGEST = 1 << 60  # of a whole step: sums stay exact in 64 bits


class NoTimes(Exception):
    """Durations that a schedule does not give. The text says which, and what would."""


@dataclass(frozen=True)
class Link:
    """latency in ns; bandwidth in bytes a second, None: infinite."""

    latency: int = 0
    bandwidth: int | None = None

    def time(self, size: int) -> int:
        """latency + size / bandwidth, rounded up to a nanosecond."""
        return self.latency + (-(-size * 10**9 // self.bandwidth) if self.bandwidth else 0)


@dataclass(frozen=True)
class DataParallel:
    """Every stage's gradients are summed over `ranks` replicas of the pipeline by a ring. `overlap`: beside compute, else in the rank's order."""

    ranks: int
    link: Link = Link()
    overlap: bool = True

    def time(self, size: int) -> int:
        return 2 * (self.ranks - 1) * self.link.time(-(-size // self.ranks)) if self.ranks > 1 else 0


@dataclass(frozen=True)
class Machine:
    """What durations depend on besides the model.

    links       of every pair of ranks; `pairs[(a, b)]`, a < b, of one
    overhead    ns of every compute operation, an overlap counting as one
    speeds      of each rank, 1 where (); a duration is divided by it and rounded up
    overlap     ns of OVERLAP(F, B): one number, or by (stage of F, stage of B), of all others by None; not given: the longer of the two
    data        reductions over replicas of the pipeline; None: none
    gradient    bytes that a reduction sums for each weight byte; None: those a rank keeps, as the program says
    forward_is_backward   a B or I takes what the forward takes, W nothing (as the Mpipe paper writes)
    """

    links: Link = Link()
    pairs: Mapping[tuple[int, int], Link] = field(default_factory=dict)
    overhead: int = 0
    speeds: tuple[Fraction | int, ...] = ()
    overlap: int | Mapping[tuple[int, int] | None, int] | None = None
    data: DataParallel | None = None
    gradient: Fraction | None = None
    forward_is_backward: bool = False

    def between(self, a: int, b: int) -> Link:
        return self.pairs.get((min(a, b), max(a, b)), self.links)


@dataclass(frozen=True)
class Durations:
    """row[i]: ns of row i of `program` (the two halves of an overlap each have that of the pair; sends and receives that of their transfer).

    `beside[i]`: row i is a reduction that runs beside the rank's order. `payload[k, s]`: bytes of the output of stage s in microbatches of
    kind k, `kind_of[m]`. `fixed`: ns of every transfer, whatever its bytes; None: by `machine`. `again`: durations of another program by the same rule.
    `facts`: those of `program`, computed once for all that ask.
    """

    program: Program
    row: np.ndarray
    beside: np.ndarray
    machine: Machine
    payload: np.ndarray
    kind_of: np.ndarray
    fixed: int | None = None
    again: Callable[[Program], Durations] | None = None
    facts: Facts | None = field(default=None, repr=False, compare=False)

    @cached_property
    def every_lag(self) -> int | None:
        """ns of every transfer between stages, if they all take the same."""
        if self.fixed is not None:
            return self.fixed
        if all(l == Link() for l in (self.machine.links, *self.machine.pairs.values())):
            return 0
        times = self._by_link(self.machine.links)
        return int(times.flat[0]) if not self.machine.pairs and (times == times.flat[0]).all() else None

    def lag(self, stage: np.ndarray, mb: np.ndarray, src: np.ndarray, dst: np.ndarray) -> np.ndarray:
        """ns of the transfers of the output (or its gradient) of each stage in each microbatch, from rank src to rank dst."""
        if self.every_lag is not None:
            return np.full(len(stage), self.every_lag, dtype=np.int64)
        kind = self.kind_of[mb]
        out = self._by_link(self.machine.links)[kind, stage]
        for (a, b), link in self.machine.pairs.items():
            rows = np.flatnonzero(((src == a) & (dst == b)) | ((src == b) & (dst == a)))
            if len(rows):
                out[rows] = self._by_link(link)[kind[rows], stage[rows]]
        return out

    def _by_link(self, link: Link) -> np.ndarray:
        return np.array([[link.time(int(x)) for x in line] for line in self.payload], dtype=np.int64).reshape(
            self.payload.shape
        )

    def on(self, written: Program) -> Durations:
        """The durations of the same operations in a program with its transfers written (program/transfers.py)."""
        return self.again(written)


def durations(program: Program, times: Sequence[LayerTimes], machine: Machine = Machine()) -> Durations:
    """Durations of every row from the times of each layer. Raises NoTimes where an operation that is listed has none."""
    if len(times) != len(program.layers) or not any(t.forward for t in times):
        raise NoTimes(
            "the schedule gives no times: write `forward` and `backward_input`, `backward_weight` (or `backward`) in its layers, "
            "or `flops` with a `device`"
        )
    facts = Facts(program)
    kinds, kind_of = _kinds(program, facts)
    tables, lacking = _tables(program, facts, times, kinds, machine)
    return _rows(
        program,
        facts,
        tables,
        lacking,
        kind_of,
        _payloads(program, facts, kinds),
        machine,
        None,
        lambda written: durations(written, times, machine),
    )


def by_kind(
    program: Program,
    times: Mapping[Kind, int | Sequence[int]],
    transfer: int = 0,
    machine: Machine = Machine(),
) -> Durations:
    """Durations given for each kind of operation, one number or one a stage; every transfer takes `transfer`."""
    facts = Facts(program)
    S = len(program.stages)
    tables = np.zeros((4, 1, S), dtype=np.int64)
    for kind, value in times.items():
        tables[int(kind), 0, :] = value
    return _rows(
        program,
        facts,
        tables,
        None,
        np.zeros(program.microbatches, dtype=np.int64),
        np.zeros((1, S), dtype=object),
        machine,
        transfer,
        lambda written: by_kind(written, times, transfer, machine),
    )


# ---- of a stage ----------------------------------------------------------------------------------------


def _kinds(program: Program, facts: Facts) -> tuple[list[tuple[int, int]], np.ndarray]:
    """The (class, images) that occur, and the number of each microbatch's."""
    if not facts.M:
        return [(0, 1)], np.empty(0, dtype=np.int64)
    images, which = np.unique(np.array(program.images), return_inverse=True)
    codes, kind_of = np.unique(facts.footprint.of * len(images) + which, return_inverse=True)
    return [(int(c) // len(images), int(images[c % len(images)])) for c in codes], kind_of


def layer_costs(
    layers: Sequence[Layer],
    present: np.ndarray,
    times: Sequence[LayerTimes],
    images: int,
    forward_is_backward: bool = False,
):
    """[4, L] ns of F, B, I, W of every layer in a microbatch, by the footprint, and [4, L] where the time is not given.

    Layer l pays I iff a present trainable layer lies before l, W iff it is present and trainable; a recomputed layer with either pays F once more in I or B.
    """
    trained = present & np.array([l.trainable for l in layers], dtype=bool)
    before = np.zeros(len(layers), dtype=bool)
    before[1:] = np.cumsum(trained)[:-1] > 0
    out, lacks = np.zeros((4, len(layers)), dtype=object), np.zeros((4, len(layers)), dtype=bool)
    at = lambda size: None if size is None else size.fixed + size.per_image * images
    F, B, I, W = int(Kind.F), int(Kind.B), int(Kind.I), int(Kind.W)
    for l in np.flatnonzero(present).tolist():
        t = times[l]
        crosses, learns = present[l] and before[l], bool(trained[l])
        f, b, i, w = at(t.forward), at(t.backward), at(t.backward_input), at(t.backward_weight)
        if forward_is_backward:
            b, i, w = f, f, 0
        whole = b if crosses and learns and b is not None else None
        if whole is None:
            parts = [x for x, asked in ((i, crosses), (w, learns)) if asked]
            whole = sum(parts) if None not in parts else b if learns else None
        again = f if layers[l].recompute and (crosses or learns) else 0
        for kind, value in ((F, f), (B, whole), (I, i if crosses else 0), (W, w if learns else 0)):
            if value is None or (kind in (B, I) and again is None):
                lacks[kind, l] = True
            else:
                out[kind, l] = value + (again if kind in (B, I) else 0)
    return out, lacks


def _tables(program: Program, facts: Facts, times: Sequence[LayerTimes], kinds, machine: Machine):
    """[4, kinds, stages] ns of F, B, I, W, and the layer whose time is missing there, -1: none."""
    S = len(program.stages)
    first = np.array([s.first for s in program.stages], dtype=np.int64)
    last = np.array([s.last for s in program.stages], dtype=np.int64)
    tables, lacking = (
        np.zeros((4, len(kinds), S), dtype=object),
        np.full((4, len(kinds), S), -1, dtype=np.int64),
    )
    for k, (c, images) in enumerate(kinds):
        costs, lacks = layer_costs(
            program.layers, facts.footprint.present[c], times, images, machine.forward_is_backward
        )
        for kind in range(4):
            total = np.concatenate([[0], np.cumsum(costs[kind])])
            tables[kind, k] = total[last] - total[first]
            for l in np.flatnonzero(lacks[kind]).tolist():
                lacking[kind, k, (first <= l) & (l < last)] = l
    return tables, lacking


def _payloads(program: Program, facts: Facts, kinds) -> np.ndarray:
    """[kinds, stages] bytes of the output of the last present layer of each stage (object: exact)."""
    out = np.zeros((len(kinds), max(len(program.stages), 1)), dtype=object)
    for k, (c, images) in enumerate(kinds):
        for s, stage in enumerate(program.stages):
            here = np.flatnonzero(facts.footprint.present[c, stage.first : stage.last])
            if len(here):
                size: Size = program.layers[stage.first + int(here[-1])].output
                out[k, s] = size.fixed + size.per_image * images
    return out


# ---- of a row -----------------------------------------------------------------------------------------


def _rows(
    program: Program,
    facts: Facts,
    tables,
    lacking,
    kind_of,
    payload,
    machine: Machine,
    fixed: int | None,
    again,
) -> Durations:
    if machine.speeds and len(machine.speeds) != program.ranks:
        raise ValueError(f"{len(machine.speeds)} speeds for {program.ranks} ranks")
    n = facts.n
    row = np.zeros(n, dtype=np.int64)
    beside = np.zeros(n, dtype=bool)
    of_table = (facts.kind <= int(Kind.W)) & facts.placed
    at = slice(None) if of_table.all() else np.flatnonzero(of_table)
    if of_table.any():
        _, kinds, stages = tables.shape
        index = (
            facts.kind[at].astype(np.int64) * (kinds * stages) + facts.stage[at]
        )  # into the table, which is small
        if kinds > 1:
            index += kind_of[facts.mb[at]] * stages
        if lacking is not None and (lacking >= 0).any():
            missing = lacking.reshape(-1).take(index)
            if (missing >= 0).any():
                i = int(np.flatnonzero(missing >= 0)[0])
                raise NoTimes(_lack(program, int(missing[i]), Kind(int(facts.kind[at][i]))))
        largest = max(
            *(int(x) for x in tables.reshape(-1)),
            *(machine.overlap.values() if isinstance(machine.overlap, Mapping) else (machine.overlap or 0,)),
        )
        travels = (
            0
            if fixed is not None
            else max(
                (l.time(int(payload.max())) for l in (machine.links, *machine.pairs.values())), default=0
            )
        )
        if (largest + machine.overhead + travels) * n * _slowest(machine) > LONGEST:
            raise NoTimes("a step of this schedule takes longer than 36 years")
        row[at] = tables.astype(np.int64).reshape(-1).take(index)
    _overlaps(program, facts, row, machine)
    if machine.overhead:
        work = np.flatnonzero(IS_COMPUTE[facts.kind] & (facts.kind != Kind.LOSS))
        row[work] += machine.overhead
    for r, speed in enumerate(machine.speeds):
        speed = Fraction(speed)
        a, b = program.order.start[r : r + 2]
        part = (
            row[a:b].astype(object)
            if int(row[a:b].max(initial=0)) * speed.denominator >= 1 << 62
            else row[a:b]
        )
        row[a:b] = -(-part * speed.denominator // speed.numerator)
    found = Durations(program, row, beside, machine, payload, kind_of, fixed, again, facts)
    if not program.inserted:
        _transfers(facts, row, found)
    _reductions(program, facts, row, beside, machine)
    return found


def _slowest(machine: Machine) -> Fraction:
    return max([Fraction(1), *(1 / Fraction(s) for s in machine.speeds)])


def _overlaps(program: Program, facts: Facts, row: np.ndarray, machine: Machine) -> None:
    halves = facts.second_halves
    if not len(halves):
        return
    both = np.maximum(row[halves - 1], row[halves])
    if isinstance(machine.overlap, Mapping):
        stages = lambda i: (
            (int(facts.stage[i - 1]), int(facts.stage[i]))
            if facts.kind[i - 1] == Kind.F
            else (int(facts.stage[i]), int(facts.stage[i - 1]))
        )
        both = np.array(
            [
                machine.overlap.get(stages(i), machine.overlap.get(None, b))
                for i, b in zip(halves.tolist(), both.tolist())
            ],
            dtype=np.int64,
        )
    elif machine.overlap is not None:
        both[:] = machine.overlap
    row[halves], row[halves - 1] = both, both


def _transfers(facts: Facts, row: np.ndarray, found: Durations) -> None:
    t = Transfers(facts)
    rows = t.rows
    named = mask(WITH_PEER)[facts.kind[rows]]
    other = t.other[rows]
    produces = mask(TO_NEXT)[facts.kind[rows]]  # the output that crosses is that of the stage on the left
    stage = np.where(named, 0, np.where(produces, facts.stage[rows], other))
    mb = np.where(named, 0, facts.mb[rows])
    pipeline = np.flatnonzero(~named)
    row[rows[pipeline]] = found.lag(
        stage[pipeline], mb[pipeline], t.source[pipeline], t.destination[pipeline]
    )
    for i in np.flatnonzero(named).tolist():  # bytes of a named transfer are not known: its latency
        row[rows[i]] = (
            found.fixed
            if found.fixed is not None
            else found.machine.between(int(t.source[i]), int(t.destination[i])).latency
        )


def _reductions(
    program: Program, facts: Facts, row: np.ndarray, beside: np.ndarray, machine: Machine
) -> None:
    """REDUCE of a Sharded stage: over the replicas of the pipeline. Of a Replicated one: over its ranks, then likewise. Others: latency alone."""
    gradient = machine.gradient
    if gradient is None:
        gradient = Fraction(*program.memory.gradient) if program.memory is not None else Fraction(1)
    size = lambda stage: sum(
        math.ceil(l.weights * gradient) for l in program.layers[stage.first : stage.last] if l.trainable
    )
    rows = np.flatnonzero(facts.kind >= int(Kind.REDUCE))
    for i in rows[
        np.isin(facts.kind[rows], (int(Kind.REDUCE), int(Kind.REDUCE_TIE), int(Kind.COLL)))
    ].tolist():
        kind, total = Kind(int(facts.kind[i])), 0
        n = size(program.stages[int(facts.stage[i])]) if kind == Kind.REDUCE and facts.stage_ok[i] else 0
        if facts.is_collective[i]:
            total = _slowest_link(machine, program.communicators[int(facts.comm[i])].ranks, n)
        if machine.data is not None and kind == Kind.REDUCE:
            total += machine.data.time(n)
            beside[i] = machine.data.overlap and not facts.is_collective[i]
        if total > LONGEST // facts.n:
            raise NoTimes("a step of this schedule takes longer than 36 years")
        row[i] = total


def _slowest_link(machine: Machine, ranks: Sequence[int], size: int) -> int:
    if len(ranks) < 2:
        return 0
    members = set(ranks)
    links = [machine.links, *(l for (a, b), l in machine.pairs.items() if a in members and b in members)]
    return max(l.time(size) for l in links)


def _lack(program: Program, layer: int, kind: Kind) -> str:
    name = program.layers[layer].name
    match kind:
        case Kind.F:
            return f"layer `{name}` has no `forward` time"
        case Kind.B:
            return f"layer `{name}` has no `backward` time (or `backward_input` and `backward_weight`)"
        case Kind.I:
            return f"layer `{name}` has no `backward_input` time, and an operation computes its input gradient alone"
    return (
        f"layer `{name}` has no `backward_weight` time, and an operation computes its weight gradient alone"
    )
