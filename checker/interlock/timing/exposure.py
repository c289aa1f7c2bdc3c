"""What a Replicated encoder adds to a step (spec/cost.md, "Transpose"): the longest path with and without it,
and a closed formula."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from interlock.program.facts import Facts, mask
from interlock.program.ir import Program
from interlock.program.kinds import Kind
from interlock.rules.communication import Transfers
from interlock.timing.durations import Durations
from interlock.timing.inputs import find_inputs, travel_times
from interlock.timing.longest_path import compute_ends, compute_tails
from interlock.timing.simulate import has_timed_reductions, rows_within, simulate

_IS_FORWARD = mask({Kind.F, Kind.SEND_F, Kind.RECV_F})


@dataclass(frozen=True)
class Exposure:
    """ns. without: the makespan T0 if stage 0 took no time; exposed = makespan - without.

    slot[r], load[r]: the paper's w_r and E_r; spill[r] = max(0, E_r - w_r), its estimate being the largest.
    forward, backward: exposed by the encoder's forwards alone, and by its backwards alone.
    """

    without: int
    makespan: int
    slot: tuple[int, ...]
    load: tuple[int, ...]
    forward: int
    backward: int

    @property
    def exposed(self) -> int:
        return self.makespan - self.without

    @property
    def spill(self) -> tuple[int, ...]:
        return tuple(max(0, e - w) for e, w in zip(self.load, self.slot))

    @property
    def estimate(self) -> int:
        return max(self.spill, default=0)


def has_encoder(program: Program) -> bool:
    """Whether the chain begins with a Replicated stage and goes on."""
    return len(program.stages) > 1 and program.stages[0].replicated


def compute_exposure(program: Program, durations: Durations, model: str = "pair") -> Exposure:
    """Of stage 0, which is Replicated: longest paths with and without the time that it and its hand-overs
    take. Raises Cyclic."""
    facts = Facts(program)
    run = _runner(facts, durations, model)
    _, makespan = run(durations)
    starts, without = run(without_encoder(facts, durations))
    _, with_forward = run(without_encoder(facts, durations, forward=True))
    _, with_backward = run(without_encoder(facts, durations, backward=True))
    encoding = np.where(_is_encode(facts), durations.row, 0)
    load = [int(encoding[rows].sum()) for rows in _ranks(program)]
    slots = tuple(_slots(facts, starts, without))
    return Exposure(without, makespan, slots, tuple(load), with_forward - without, with_backward - without)


def encode_times(program: Program, durations: Durations) -> list[int]:
    """The forward time of stage 0 in each microbatch; 0 where it is not visited."""
    facts = Facts(program)
    times = [0] * program.microbatches
    for i in np.flatnonzero(_is_encode(facts)).tolist():
        times[int(facts.mb[i])] = int(durations.row[i])
    return times


def _is_encode(facts: Facts) -> np.ndarray:
    return (facts.stage == 0) & (facts.kind == Kind.F)


def _ranks(program: Program) -> list[slice]:
    """The rows of each rank."""
    start = program.order.start.tolist()
    return [slice(a, b) for a, b in zip(start, start[1:])]


def _runner(facts: Facts, durations: Durations, model: str) -> Callable[[Durations], tuple[np.ndarray, int]]:
    """(start of every row, makespan) for durations of one program."""
    if not facts.program.inserted or has_timed_reductions(facts.program, durations):

        def run_simulation(given: Durations) -> tuple[np.ndarray, int]:
            timeline = simulate(facts.program, given, model, critical=False)
            own = rows_within(facts.program, timeline.program)
            return timeline.start[own], timeline.makespan

        return run_simulation
    inputs = find_inputs(facts)

    def run_path(given: Durations) -> tuple[np.ndarray, int]:
        end = compute_ends(inputs, given.row, travel_times(facts, inputs, given))
        return end - given.row, int(end.max())

    return run_path


def _slots(facts: Facts, start: np.ndarray, makespan: int) -> list[int]:
    """w_r: when each rank starts its first forward of a later stage; the makespan if it has none."""
    slots = []
    for rows in _ranks(facts.program):
        later = np.flatnonzero((facts.kind[rows] == Kind.F) & (facts.stage[rows] > 0))
        slots.append(int(start[rows][later[0]]) if len(later) else makespan)
    return slots


# ---- the program without its encoder ------------------------------------------------------------------


def without_encoder(
    facts: Facts, durations: Durations, *, forward: bool = False, backward: bool = False
) -> Durations:
    """Durations in which stage 0 and its hand-overs take no time; `forward`, `backward`: that part still
    does."""
    row = durations.row.copy()
    encoder = (facts.stage == 0) & (facts.kind < Kind.LOSS)
    if not facts.program.inserted:
        transfers = Transfers(facts)
        touches = np.zeros(facts.n, dtype=bool)
        touches[transfers.rows] = (facts.stage[transfers.rows] == 0) | (transfers.other[transfers.rows] == 0)
        encoder |= touches
    is_forward = _IS_FORWARD[facts.kind]
    row[encoder & ~np.where(is_forward, forward, backward)] = 0
    return _WithoutEncoder(
        durations.program,
        row,
        durations.beside,
        durations.machine,
        durations.payload,
        durations.kind_of,
        durations.again,
        durations.fixed,
        keeps_forward=forward,
        keeps_backward=backward,
    )


@dataclass(frozen=True)
class _WithoutEncoder(Durations):
    """Durations whose stage 0 hands over in no time, but in the directions that are kept."""

    keeps_forward: bool = False
    keeps_backward: bool = False

    def lag(self, stage: np.ndarray, mb: np.ndarray, src: np.ndarray, dst: np.ndarray) -> np.ndarray:
        lag = super().lag(stage, mb, src, dst)
        owner = np.asarray(self.program.stages[0].owner, dtype=np.int64)
        of_encoder = stage == 0
        to_backbone = (
            src == owner[mb]
        )  # the output of stage 0 travels from its owner, the gradient of it to its owner
        lag[of_encoder & ~np.where(to_backbone, self.keeps_forward, self.keeps_backward)] = 0
        return lag

    def on(self, written: Program) -> Durations:
        return without_encoder(
            Facts(written), self.again(written), forward=self.keeps_forward, backward=self.keeps_backward
        )


@dataclass(frozen=True)
class RunWithoutEncoder:
    """Of a program with inserted transfers. early, late: the earliest start of each row, and the latest that
    does not delay the makespan."""

    facts: Facts
    durations: Durations
    makespan: int
    early: np.ndarray
    late: np.ndarray


def run_without_encoder(program: Program, durations: Durations) -> RunWithoutEncoder:
    """Asks for inserted transfers. Raises Cyclic."""
    facts = Facts(program)
    inputs = find_inputs(facts)
    alone = without_encoder(facts, durations)
    lag = travel_times(facts, inputs, alone)
    end = compute_ends(inputs, alone.row, lag)
    makespan = int(end.max())
    late = makespan - compute_tails(inputs, alone.row, lag)
    return RunWithoutEncoder(facts, alone, makespan, end - alone.row, late)


# ---- the closed formula -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Deadlines:
    """Of a program with inserted transfers, the encoder taking no time (T0 = `makespan`): latest starts that
    do not delay its end.

    feeds[m]: of F(first stage after the encoder, m); begins[r]: of the first operation of rank r after its
    encodes. order: the microbatches that visit the encoder, as the first stage takes them. gather[m, r]: ns
    from owner r.
    """

    makespan: int
    feeds: np.ndarray
    begins: np.ndarray
    order: tuple[int, ...]
    gather: np.ndarray


def latest_deadlines(program: Program, durations: Durations) -> Deadlines:
    """Asks for inserted transfers, and for encodes before everything else on their rank."""
    run = run_without_encoder(program, durations)
    return _deadlines(run, durations, run.late)


def earliest_deadlines(program: Program, durations: Durations) -> Deadlines:
    """The same with earliest starts in place of latest ones."""
    run = run_without_encoder(program, durations)
    return _deadlines(run, durations, run.early)


def _deadlines(run: RunWithoutEncoder, durations: Durations, start: np.ndarray) -> Deadlines:
    facts = run.facts
    M, P = facts.program.microbatches, facts.program.ranks
    footprint = facts.footprint
    visits = np.flatnonzero(footprint.on_path[footprint.of, 0])
    first_stage = footprint.next[footprint.of[visits], 0]
    rows = facts.first_F[first_stage * M + visits]
    feeds = np.full(M, run.makespan, dtype=np.int64)
    feeds[visits] = start[rows]
    begins = np.full(P, run.makespan, dtype=np.int64)
    is_encode = _is_encode(facts)
    for r, own in enumerate(_ranks(facts.program)):
        rest = np.flatnonzero(~is_encode[own])
        if len(rest):
            begins[r] = start[own][rest[0]]
    gather = np.zeros((M, P), dtype=np.int64)
    for r in range(P):
        sent = np.flatnonzero(facts.rank[rows] != r)
        m = visits[sent]
        stage = np.zeros(len(m), dtype=np.int64)
        gather[m, r] = durations.lag(stage, m, np.full(len(m), r), facts.rank[rows[sent]])
    turn = np.lexsort((rows, run.early[rows]))
    return Deadlines(run.makespan, feeds, begins, tuple(visits[turn].tolist()), gather)


def exposure_of_owners(owner: Sequence[int], encode: Sequence[int], due: Deadlines) -> int:
    """max(0, max_m [C_m + g_m - LS(F(first, m))], max_r [E_r - LS(first operation of r)]): T - T0 of a frozen
    encoder.

    Exact where transfers are edges that take their time (the hypotheses of the specification); tested against
    the longest path.
    """
    load, worst = [0] * len(due.begins), 0
    for m in due.order:
        r = owner[m]
        load[r] += encode[m]
        worst = max(worst, load[r] + int(due.gather[m, r]) - int(due.feeds[m]))
    return max([worst, *(e - int(b) for e, b in zip(load, due.begins))])
