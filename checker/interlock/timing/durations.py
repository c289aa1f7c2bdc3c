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
_TOO_LONG = "a step of this schedule takes longer than 36 years"
_F, _B, _I, _W = (int(kind) for kind in (Kind.F, Kind.B, Kind.I, Kind.W))
_KINDS = 4  # of operations whose time is that of layers: F, B, I, W
_IS_NAMED, _ON_THE_LEFT = mask(WITH_PEER), mask(TO_NEXT)
_IS_REDUCTION = mask({Kind.REDUCE, Kind.REDUCE_TIE, Kind.COLL})


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
    """Every stage's gradients are summed over `ranks` replicas of the pipeline by a ring.

    overlap: beside compute, else in the rank's order.
    """

    ranks: int
    link: Link = Link()
    overlap: bool = True

    def time(self, size: int) -> int:
        """ns of a ring all-reduce of `size` bytes."""
        return 2 * (self.ranks - 1) * self.link.time(-(-size // self.ranks)) if self.ranks > 1 else 0


@dataclass(frozen=True)
class Machine:
    """What durations depend on besides the model.

    links       of every pair of ranks; `pairs[(a, b)]`, a < b, of one
    overhead    ns of every compute operation, an overlap counting as one
    speeds      of each rank, 1 where (); a duration is divided by it and rounded up
    overlap     ns of OVERLAP(F, B): one number, or by (stage of F, stage of B), of all others by None; not
                given: the longer of the two
    data        reductions over replicas of the pipeline; None: none
    gradient    bytes that a reduction sums for each weight byte; None: those a rank keeps, as the program
                says
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

    @property
    def all_links(self) -> tuple[Link, ...]:
        return (self.links, *self.pairs.values())

    def between(self, a: int, b: int) -> Link:
        return self.pairs.get((min(a, b), max(a, b)), self.links)

    def slowest_reduction(self, ranks: Sequence[int], size: int) -> int:
        """ns of a reduction of `size` bytes over these ranks, on the slowest link between them."""
        if len(ranks) < 2:
            return 0
        members = set(ranks)
        links = [link for (a, b), link in self.pairs.items() if a in members and b in members]
        return max(link.time(size) for link in (self.links, *links))


PLAIN_MACHINE = Machine()


@dataclass(frozen=True)
class Durations:
    """row[i]: ns of row i of `program` (the two halves of an overlap each have that of the pair; sends and
    receives that of their transfer).

    `beside[i]`: row i is a reduction that runs beside the rank's order. `payload[k, s]`: bytes of the output
    of stage s in microbatches of kind k, `kind_of[m]`. `again`: durations of another program by the same
    rule. `fixed`: ns of every transfer, whatever its bytes; None: by `machine`. `facts`: those of `program`,
    computed once for all that ask.
    """

    program: Program
    row: np.ndarray
    beside: np.ndarray
    machine: Machine
    payload: np.ndarray
    kind_of: np.ndarray
    again: Callable[[Program], Durations]
    fixed: int | None = None
    facts: Facts | None = field(default=None, repr=False, compare=False)

    @cached_property
    def every_lag(self) -> int | None:
        """ns of every transfer between stages, if they all take the same."""
        if self.fixed is not None:
            return self.fixed
        if all(link == Link() for link in self.machine.all_links):
            return 0
        times = self._by_link(self.machine.links)
        return int(times.flat[0]) if not self.machine.pairs and (times == times.flat[0]).all() else None

    def lag(self, stage: np.ndarray, mb: np.ndarray, src: np.ndarray, dst: np.ndarray) -> np.ndarray:
        """ns of the transfers of the output (or its gradient) of each stage in each microbatch, from rank src
        to rank dst."""
        if self.every_lag is not None:
            return np.full(len(stage), self.every_lag, dtype=np.int64)
        kind = self.kind_of[mb]
        lag: np.ndarray = self._by_link(self.machine.links)[kind, stage]
        for (a, b), link in self.machine.pairs.items():
            rows = np.flatnonzero(((src == a) & (dst == b)) | ((src == b) & (dst == a)))
            if len(rows):
                lag[rows] = self._by_link(link)[kind[rows], stage[rows]]
        return lag

    def _by_link(self, link: Link) -> np.ndarray:
        times = [[link.time(int(size)) for size in sizes] for sizes in self.payload]
        return np.array(times, dtype=np.int64).reshape(self.payload.shape)

    def on(self, written: Program) -> Durations:
        """The durations of the same operations in a program with its transfers written
        (program/transfers.py)."""
        return self.again(written)


def compute_durations(
    program: Program, times: Sequence[LayerTimes], machine: Machine = PLAIN_MACHINE
) -> Durations:
    """Durations of every row from the times of each layer.

    Raises NoTimes where an operation that is listed has none.
    """
    if len(times) != len(program.layers) or not any(t.forward for t in times):
        raise NoTimes(
            "the schedule gives no times: write `forward` and `backward_input`, `backward_weight` (or "
            "`backward`) "
            "in its layers, or `flops` with a `device`"
        )
    facts = Facts(program)
    mb_kinds, kind_of = _microbatch_kinds(program, facts)
    ns, missing = _tables(program, facts, times, mb_kinds, machine)
    stages = _StageDurations(ns, missing, kind_of, _payloads(program, facts, mb_kinds))

    def again(written: Program) -> Durations:
        return compute_durations(written, times, machine)

    return _row_durations(facts, stages, machine, again)


def durations_by_kind(
    program: Program,
    times: Mapping[Kind, int | Sequence[int]],
    transfer: int = 0,
    machine: Machine = PLAIN_MACHINE,
) -> Durations:
    """Durations given for each kind of operation, one number or one a stage; every transfer takes
    `transfer`.
    """
    S = len(program.stages)
    ns = np.zeros((_KINDS, 1, S), dtype=np.int64)
    for kind, value in times.items():
        ns[int(kind), 0, :] = value
    one_kind = np.zeros(program.microbatches, dtype=np.int64)
    stages = _StageDurations(ns, None, one_kind, np.zeros((1, S), dtype=object))

    def again(written: Program) -> Durations:
        return durations_by_kind(written, times, transfer, machine)

    return _row_durations(Facts(program), stages, machine, again, transfer)


# ---- of a stage ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _StageDurations:
    """ns[kind, k, s] of F, B, I, W of stage s in microbatches of kind k, `kind_of[m]`; payload[k, s]: bytes
    of its output.

    missing[kind, k, s]: a layer whose time is asked for there and not given, -1: none; None: none at all.
    """

    ns: np.ndarray
    missing: np.ndarray | None
    kind_of: np.ndarray
    payload: np.ndarray


_MicrobatchKind = tuple[int, int]  # (class of the footprint, images) of microbatches that take the same


def _microbatch_kinds(program: Program, facts: Facts) -> tuple[list[_MicrobatchKind], np.ndarray]:
    """Those that occur, and the number of each microbatch's."""
    if not facts.M:
        return [(0, 1)], np.empty(0, dtype=np.int64)
    images, which = np.unique(np.array(program.images), return_inverse=True)
    codes, kind_of = np.unique(facts.footprint.of * len(images) + which, return_inverse=True)
    return [(int(c) // len(images), int(images[c % len(images)])) for c in codes], kind_of


def layer_durations(
    layers: Sequence[Layer],
    present: np.ndarray,
    times: Sequence[LayerTimes],
    images: int,
    forward_is_backward: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """[4, L] ns of F, B, I, W of every layer in a microbatch, by the footprint, and [4, L] where the time is
    not given.

    Layer l pays I iff a present trainable layer lies before l, W iff it is present and trainable; a
    recomputed layer with either pays F once more in I or B.
    """
    trained = present & np.array([layer.trainable for layer in layers], dtype=bool)
    crosses = np.zeros(len(layers), dtype=bool)
    crosses[1:] = np.cumsum(trained)[:-1] > 0
    ns = np.zeros((_KINDS, len(layers)), dtype=object)
    missing = np.zeros((_KINDS, len(layers)), dtype=bool)
    for l in np.flatnonzero(present).tolist():
        given = _Given.of(times[l], images, forward_is_backward)
        for kind, value in given.durations(bool(crosses[l]), bool(trained[l]), layers[l].recompute):
            if value is None:
                missing[kind, l] = True
            else:
                ns[kind, l] = value
    return ns, missing


@dataclass(frozen=True)
class _Given:
    """What a layer says of its times in a microbatch, in ns; None: not given."""

    forward: int | None
    backward: int | None
    backward_input: int | None
    backward_weight: int | None

    @classmethod
    def of(cls, times: LayerTimes, images: int, forward_is_backward: bool) -> _Given:
        forward = _at(times.forward, images)
        if forward_is_backward:
            return cls(forward, forward, forward, 0)
        return cls(
            forward,
            _at(times.backward, images),
            _at(times.backward_input, images),
            _at(times.backward_weight, images),
        )

    def durations(self, crosses: bool, learns: bool, recompute: bool) -> list[tuple[int, int | None]]:
        """(kind, ns or None) of F, B, I and W. crosses: the layer pays I; learns: it pays W."""
        again = self.forward if recompute and (crosses or learns) else 0
        return [
            (_F, self.forward),
            (_B, _sum(self._whole_backward(crosses, learns), again)),
            (_I, _sum(self.backward_input if crosses else 0, again)),
            (_W, self.backward_weight if learns else 0),
        ]

    def _whole_backward(self, crosses: bool, learns: bool) -> int | None:
        if crosses and learns and self.backward is not None:
            return self.backward
        halves = _sum(self.backward_input if crosses else 0, self.backward_weight if learns else 0)
        return halves if halves is not None or not learns else self.backward


def _at(size: Size | None, images: int) -> int | None:
    return None if size is None else size.fixed + size.per_image * images


def _sum(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def _tables(
    program: Program,
    facts: Facts,
    times: Sequence[LayerTimes],
    mb_kinds: Sequence[_MicrobatchKind],
    machine: Machine,
) -> tuple[np.ndarray, np.ndarray]:
    """[4, kinds of microbatches, stages] ns of F, B, I, W, and the layer whose time is missing there, -1:
    none."""
    first = np.array([s.first for s in program.stages], dtype=np.int64)
    last = np.array([s.last for s in program.stages], dtype=np.int64)
    shape = (_KINDS, len(mb_kinds), len(program.stages))
    ns, missing = np.zeros(shape, dtype=object), np.full(shape, -1, dtype=np.int64)
    for k, (c, images) in enumerate(mb_kinds):
        present = facts.footprint.present[c]
        of_layer, lacks = layer_durations(program.layers, present, times, images, machine.forward_is_backward)
        for kind in range(_KINDS):
            total = np.concatenate([[0], np.cumsum(of_layer[kind])])
            ns[kind, k] = total[last] - total[first]
            for l in np.flatnonzero(lacks[kind]).tolist():
                missing[kind, k, (first <= l) & (l < last)] = l
    return ns, missing


def _payloads(program: Program, facts: Facts, mb_kinds: Sequence[_MicrobatchKind]) -> np.ndarray:
    """[kinds of microbatches, stages] bytes of the output of the last present layer of each stage (object:
    exact)."""
    payload = np.zeros((len(mb_kinds), max(len(program.stages), 1)), dtype=object)
    for k, (c, images) in enumerate(mb_kinds):
        for s, stage in enumerate(program.stages):
            here = np.flatnonzero(facts.footprint.present[c, stage.first : stage.last])
            if len(here):
                size = program.layers[stage.first + int(here[-1])].output
                payload[k, s] = size.fixed + size.per_image * images
    return payload


# ---- of a row -----------------------------------------------------------------------------------------


def _row_durations(
    facts: Facts,
    stages: _StageDurations,
    machine: Machine,
    again: Callable[[Program], Durations],
    fixed: int | None = None,
) -> Durations:
    program = facts.program
    if machine.speeds and len(machine.speeds) != program.ranks:
        raise ValueError(f"{len(machine.speeds)} speeds for {program.ranks} ranks")
    row = np.zeros(facts.n, dtype=np.int64)
    beside = np.zeros(facts.n, dtype=bool)
    _fill_operations(facts, row, stages, machine, fixed)
    _fill_overlaps(facts, row, machine)
    if machine.overhead:
        row[np.flatnonzero(IS_COMPUTE[facts.kind] & (facts.kind != Kind.LOSS))] += machine.overhead
    _divide_by_speeds(program, row, machine)
    found = Durations(program, row, beside, machine, stages.payload, stages.kind_of, again, fixed, facts)
    if not program.inserted:
        _fill_transfers(facts, row, found)
    _fill_reductions(facts, row, beside, machine)
    return found


def _fill_operations(
    facts: Facts, row: np.ndarray, stages: _StageDurations, machine: Machine, fixed: int | None
) -> None:
    """F, B, I and W, from the tables. Raises NoTimes where one of them is missing."""
    of_table = (facts.kind <= _W) & facts.placed
    if not of_table.any():
        return
    at = slice(None) if of_table.all() else np.flatnonzero(of_table)
    _, kinds, S = stages.ns.shape
    index = facts.kind[at].astype(np.int64) * (kinds * S) + facts.stage[at]  # into the table, which is small
    if kinds > 1:
        index += stages.kind_of[facts.mb[at]] * S
    if stages.missing is not None and (stages.missing >= 0).any():
        missing = stages.missing.reshape(-1).take(index)
        if (missing >= 0).any():
            i = int(np.flatnonzero(missing >= 0)[0])
            raise NoTimes(_describe_missing(facts.program, int(missing[i]), Kind(int(facts.kind[at][i]))))
    _check_length(facts, stages, machine, fixed)
    row[at] = stages.ns.astype(np.int64).reshape(-1).take(index)


def _check_length(facts: Facts, stages: _StageDurations, machine: Machine, fixed: int | None) -> None:
    """Raises NoTimes where sums of durations may not fit in 64 bits."""
    overlaps = machine.overlap.values() if isinstance(machine.overlap, Mapping) else (machine.overlap or 0,)
    longest = max(*(int(ns) for ns in stages.ns.reshape(-1)), *overlaps)
    travel = 0
    if fixed is None:
        largest = int(stages.payload.max())
        travel = max(link.time(largest) for link in machine.all_links)
    slowest = max([Fraction(1), *(1 / Fraction(speed) for speed in machine.speeds)])
    if (longest + machine.overhead + travel) * facts.n * slowest > LONGEST:
        raise NoTimes(_TOO_LONG)


def _fill_overlaps(facts: Facts, row: np.ndarray, machine: Machine) -> None:
    halves = facts.second_halves
    if not len(halves):
        return
    both = np.maximum(row[halves - 1], row[halves])
    if isinstance(machine.overlap, Mapping):
        given = machine.overlap
        both = np.array(
            [
                given.get(_stages_of_overlap(facts, i), given.get(None, longer))
                for i, longer in zip(halves.tolist(), both.tolist())
            ],
            dtype=np.int64,
        )
    elif machine.overlap is not None:
        both[:] = machine.overlap
    row[halves], row[halves - 1] = both, both


def _stages_of_overlap(facts: Facts, second: int) -> tuple[int, int]:
    """(stage of F, stage of B, I or W) of the overlap whose second half is this row."""
    first, last = int(facts.stage[second - 1]), int(facts.stage[second])
    return (first, last) if facts.kind[second - 1] == Kind.F else (last, first)


def _divide_by_speeds(program: Program, row: np.ndarray, machine: Machine) -> None:
    for r, value in enumerate(machine.speeds):
        speed = Fraction(value)
        a, b = program.order.start[r : r + 2]
        part = row[a:b]
        if int(part.max(initial=0)) * speed.denominator >= 1 << 62:
            part = part.astype(object)
        row[a:b] = -(-part * speed.denominator // speed.numerator)


def _fill_transfers(facts: Facts, row: np.ndarray, found: Durations) -> None:
    transfers = Transfers(facts)
    rows = transfers.rows
    named = _IS_NAMED[facts.kind[rows]]
    on_the_left = _ON_THE_LEFT[facts.kind[rows]]
    stage = np.where(named, 0, np.where(on_the_left, facts.stage[rows], transfers.other[rows]))
    mb = np.where(named, 0, facts.mb[rows])
    between_stages = np.flatnonzero(~named)
    row[rows[between_stages]] = found.lag(
        stage[between_stages],
        mb[between_stages],
        transfers.source[between_stages],
        transfers.destination[between_stages],
    )
    for i in np.flatnonzero(named).tolist():  # bytes of a named transfer are not known: its latency
        link = found.machine.between(int(transfers.source[i]), int(transfers.destination[i]))
        row[rows[i]] = link.latency if found.fixed is None else found.fixed


def _fill_reductions(facts: Facts, row: np.ndarray, beside: np.ndarray, machine: Machine) -> None:
    """REDUCE of a Sharded stage: over the replicas of the pipeline.

    Of a Replicated one: over its ranks, then likewise. Others: latency alone.
    """
    program = facts.program
    for i in np.flatnonzero(_IS_REDUCTION[facts.kind]).tolist():
        of_stage = facts.kind[i] == Kind.REDUCE
        size = _gradient_bytes(program, int(facts.stage[i]), machine) if of_stage and facts.stage_ok[i] else 0
        total = 0
        if facts.is_collective[i]:
            total = machine.slowest_reduction(program.communicators[int(facts.comm[i])].ranks, size)
        if machine.data is not None and of_stage:
            total += machine.data.time(size)
            beside[i] = machine.data.overlap and not facts.is_collective[i]
        if total > LONGEST // facts.n:
            raise NoTimes(_TOO_LONG)
        row[i] = total


def _gradient_bytes(program: Program, stage: int, machine: Machine) -> int:
    """What a reduction sums of the trained layers of a stage."""
    per_weight_byte = machine.gradient
    if per_weight_byte is None:
        per_weight_byte = Fraction(*program.memory.gradient) if program.memory is not None else Fraction(1)
    layers = program.layers[program.stages[stage].first : program.stages[stage].last]
    return sum(math.ceil(layer.weights * per_weight_byte) for layer in layers if layer.trainable)


def _describe_missing(program: Program, layer: int, kind: Kind) -> str:
    name = program.layers[layer].name
    match kind:
        case Kind.F:
            return f"layer `{name}` has no `forward` time"
        case Kind.B:
            return f"layer `{name}` has no `backward` time (or `backward_input` and `backward_weight`)"
        case Kind.I:
            alone = "`backward_input` time, and an operation computes its input gradient alone"
        case _:
            alone = "`backward_weight` time, and an operation computes its weight gradient alone"
    return f"layer `{name}` has no {alone}"
