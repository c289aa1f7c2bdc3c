"""What a Replicated encoder adds to a step, and the owner map that adds least (spec/cost.md, "Transpose")."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from interlock.program.facts import Facts
from interlock.program.ir import Kind, Program
from interlock.rules.communication import Transfers
from interlock.timing import longest_path as compute
from interlock.timing.durations import Durations
from interlock.timing.simulate import compute_rows, reduces, simulate

SEARCH_LIMIT = 200_000  # tries of the exact search before it gives up


@dataclass(frozen=True)
class Exposure:
    """ns. without: the makespan T0 if stage 0 took no time; exposed = makespan - without.

    slot[r], load[r]: the paper's w_r and E_r; spill[r] = max(0, E_r - w_r), its estimate being the largest. forward, backward: exposed by the
    encoder's forwards alone, and by its backwards alone.
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


def exposure(program: Program, durations: Durations, model: str = "pair") -> Exposure:
    """Of stage 0, which is Replicated: longest paths with and without the time that it and its hand-overs take. Raises Cyclic."""
    facts = Facts(program)
    run = _runner(facts, durations, model)
    whole, none = run(durations)[1], run(without(facts, durations))
    encodes = (facts.stage == 0) & (facts.kind == Kind.F)
    load = [
        int(durations.row[a:b][encodes[a:b]].sum())
        for a, b in zip(program.order.start[:-1], program.order.start[1:])
    ]
    parts = [run(without(facts, durations, **{part: True}))[1] - none[1] for part in ("forward", "backward")]
    return Exposure(none[1], whole, tuple(_slots(facts, *none)), tuple(load), *parts)


def _runner(facts: Facts, durations: Durations, model: str) -> Callable[[Durations], tuple[np.ndarray, int]]:
    """(start of every row, makespan) for durations of one program."""
    if facts.program.inserted and not reduces(facts.program, durations):
        found = compute.needs(facts)

        def run(d: Durations):
            end = compute.ends(found, d.row, compute.lags(facts, found, d))
            return end - d.row, int(end.max())
    else:

        def run(d: Durations):
            timeline = simulate(facts.program, d, model, critical=False)
            own = compute_rows(facts.program, timeline.program)
            return timeline.start[own], timeline.makespan

    return run


def without(
    facts: Facts, durations: Durations, *, forward: bool = False, backward: bool = False
) -> Durations:
    """Durations in which stage 0 and its hand-overs take no time; `forward`, `backward`: that part still does."""
    row = durations.row.copy()
    ahead = (Kind.F, Kind.SEND_F, Kind.RECV_F)
    mine = (facts.stage == 0) & (facts.kind < Kind.LOSS)
    if not facts.program.inserted:
        t = Transfers(facts)
        touches = np.zeros(facts.n, dtype=bool)
        touches[t.rows] = (facts.stage[t.rows] == 0) | (t.other[t.rows] == 0)
        mine |= touches
    kept = np.isin(facts.kind, [int(k) for k in ahead])
    row[mine & ~((kept & forward) | (~kept & backward))] = 0
    return _Muted(
        **{
            f: getattr(durations, f)
            for f in ("program", "beside", "machine", "payload", "kind_of", "fixed", "again")
        },
        row=row,
        keeps=(forward, backward),
    )


@dataclass(frozen=True)
class _Muted(Durations):
    """Durations whose stage 0 hands over in no time, but in the directions of `keeps` (forward, backward)."""

    keeps: tuple[bool, bool] = (False, False)

    def lag(self, stage, mb, src, dst):
        out = super().lag(stage, mb, src, dst)
        owner = np.asarray(self.program.stages[0].owner, dtype=np.int64)
        # the output of stage 0 travels from its owner, the gradient of it to its owner
        ahead = (stage == 0) & (src == owner[mb])
        back = (stage == 0) & ~ahead
        out[(ahead & (not self.keeps[0])) | (back & (not self.keeps[1]))] = 0
        return out

    def on(self, written: Program) -> Durations:
        return without(Facts(written), self.again(written), forward=self.keeps[0], backward=self.keeps[1])


def _slots(facts: Facts, start: np.ndarray, makespan: int) -> list[int]:
    """w_r: when each rank starts its first forward of a later stage; the makespan if it has none."""
    out = []
    for a, b in zip(facts.program.order.start[:-1], facts.program.order.start[1:]):
        rows = np.flatnonzero((facts.kind[a:b] == Kind.F) & (facts.stage[a:b] > 0))
        out.append(int(start[a + rows[0]]) if len(rows) else makespan)
    return out


# ---- the closed formula -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Deadlines:
    """Of a program with inserted transfers, the encoder taking no time (T0 = `makespan`): latest starts that do not delay its end.

    feeds[m]: of F(first stage after the encoder, m), which runs on rank to[m]; begins[r]: of the first operation of rank r after its encodes.
    order: the microbatches that visit the encoder, as the first stage takes them. gather[m, r]: ns from owner r.
    """

    makespan: int
    feeds: np.ndarray
    begins: np.ndarray
    order: tuple[int, ...]
    gather: np.ndarray


def deadlines(program: Program, durations: Durations) -> Deadlines:
    """Asks for inserted transfers, and for encodes before everything else on their rank."""
    facts = Facts(program)
    alone, end, late = _alone(facts, durations)
    return _deadlines(facts, durations, alone, end, int(end.max()), late)


def _alone(facts: Facts, durations: Durations) -> tuple[Durations, np.ndarray, np.ndarray]:
    """The run without the encoder: (durations, end of each row, latest start of each that does not delay the makespan)."""
    found = compute.needs(facts)
    alone = without(facts, durations)
    lag = compute.lags(facts, found, alone)
    end = compute.ends(found, alone.row, lag)
    return alone, end, int(end.max()) - compute.tails(found, alone.row, lag)


def earliest(program: Program, durations: Durations) -> Deadlines:
    """The same with earliest starts in place of latest ones."""
    facts = Facts(program)
    found = compute.needs(facts)
    alone = without(facts, durations)
    end = compute.ends(found, alone.row, compute.lags(facts, found, alone))
    return _deadlines(facts, durations, alone, end, int(end.max()), end - alone.row)


def _deadlines(
    facts: Facts, durations: Durations, alone: Durations, end: np.ndarray, T: int, start: np.ndarray
) -> Deadlines:
    program = facts.program
    M, P = program.microbatches, program.ranks
    fp = facts.footprint
    visits = np.flatnonzero(fp.on_path[fp.of, 0])
    after = fp.next[fp.of[visits], 0]
    rows = facts.first_F[after * M + visits]
    feeds = np.full(M, T, dtype=np.int64)
    feeds[visits] = start[rows]
    begins = np.full(P, T, dtype=np.int64)
    encodes = (facts.stage == 0) & (facts.kind == Kind.F)
    for r, (a, b) in enumerate(zip(program.order.start[:-1], program.order.start[1:])):
        rest = a + np.flatnonzero(~encodes[a:b])
        if len(rest):
            begins[r] = start[rest[0]]
    gather = np.zeros((M, P), dtype=np.int64)
    for r in range(P):
        sent = np.flatnonzero(facts.rank[rows] != r)
        m = visits[sent]
        gather[m, r] = Durations.lag(
            durations, np.zeros(len(m), dtype=np.int64), m, np.full(len(m), r), facts.rank[rows[sent]]
        )
    turn = np.lexsort((rows, end[rows] - alone.row[rows]))
    return Deadlines(T, feeds, begins, tuple(visits[turn].tolist()), gather)


def exposed_by(owner: Sequence[int], encode: Sequence[int], d: Deadlines) -> int:
    """max(0, max_m [C_m + g_m - LS(F(first, m))], max_r [E_r - LS(first operation of r)]): T - T0 of a frozen encoder.

    Exact where transfers are edges that take their time (hypotheses (a) to (d) of the specification); tested against the longest path.
    """
    load, worst = [0] * len(d.begins), 0
    for m in d.order:
        r = owner[m]
        load[r] += encode[m]
        worst = max(worst, load[r] + int(d.gather[m, r]) - int(d.feeds[m]))
    return max([worst, *(e - int(b) for e, b in zip(load, d.begins))])


# ---- the owner map with the least exposure ------------------------------------------------------------------


def least_exposed(encode: Sequence[int], d: Deadlines) -> tuple[int, ...] | None:
    """An owner map that minimises `exposed_by`, exactly; None if the search gives up. Microbatches that do not visit the encoder: m mod P."""
    P = len(d.begins)
    owner = [m % P for m in range(len(encode))]
    best = min(
        (_greedy(encode, d, choice) for choice in ("early", "tight", "loose")),
        key=lambda o: exposed_by(o, encode, d),
        default=tuple(owner),
    )
    low, high = _bound(encode, d), exposed_by(best, encode, d)
    tries = [SEARCH_LIMIT]
    while low < high:
        middle = (low + high) // 2
        found = _fit(encode, d, middle, tries)
        if tries[0] <= 0:
            return None
        if found is None:
            low = middle + 1
        else:
            best, high = found, exposed_by(found, encode, d)
    return best


def _bound(encode: Sequence[int], d: Deadlines) -> int:
    """No map exposes less: a single encode, and the work due by each deadline against the time that all ranks have until then."""
    low = max((encode[m] + int(d.gather[m].min()) - int(d.feeds[m]) for m in d.order), default=0)
    work, due = 0, 0
    for m in d.order:
        work, due = work + encode[m], max(due, int(d.feeds[m] - d.gather[m].min()))
        low = max(low, -(-(work - int(np.minimum(d.begins, due).sum())) // len(d.begins)))
    return max(low, -(-(work - int(d.begins.sum())) // len(d.begins)), 0)


def _greedy(encode: Sequence[int], d: Deadlines, choice: str) -> tuple[int, ...]:
    """Each encode in turn to the rank that is done first (`early`), or of those in time to that with least or most room left."""
    P, load = len(d.begins), [0] * len(d.begins)
    owner = [m % P for m in range(len(encode))]
    for m in d.order:
        late = lambda r: max(
            load[r] + encode[m] + int(d.gather[m, r]) - int(d.feeds[m]),
            load[r] + encode[m] - int(d.begins[r]),
            0,
        )
        room = lambda r: int(d.begins[r]) - load[r]
        key = {
            "early": lambda r: (late(r), load[r], r),
            "tight": lambda r: (late(r), room(r), r),
            "loose": lambda r: (late(r), -room(r), r),
        }[choice]
        owner[m] = r = min(range(P), key=key)
        load[r] += encode[m]
    return tuple(owner)


def _fit(encode: Sequence[int], d: Deadlines, limit: int, tries: list[int]) -> tuple[int, ...] | None:
    """A map that exposes at most `limit`, by depth-first search over the encodes in order; loads known to fail are not tried again."""
    P, jobs = len(d.begins), d.order
    begins, feeds, gather = d.begins.tolist(), d.feeds.tolist(), d.gather.tolist()
    if (
        jobs
        and len({(encode[m], *gather[m]) for m in jobs}) == 1
        and all(feeds[a] <= feeds[b] for a, b in zip(jobs, jobs[1:]))
    ):
        return _fit_equal(encode, d, limit)
    alike = {
        r: min(q for q in range(P) if begins[q] == begins[r] and (d.gather[:, q] == d.gather[:, r]).all())
        for r in range(P)
    }
    load, chosen, failed = [0] * P, [], set()
    left = [0]
    for m in reversed(jobs):
        left.append(left[-1] + encode[m])
    left = left[::-1]
    spare = sum(begins) + P * limit

    def options(k: int) -> list[int]:
        m, seen, out = jobs[k], set(), []
        if sum(load) + left[k] > spare:
            return out
        for r in sorted(range(P), key=lambda r: load[r] - begins[r], reverse=True):
            after = load[r] + encode[m]
            if (
                (alike[r], load[r]) not in seen
                and after <= begins[r] + limit
                and after + gather[m][r] <= feeds[m] + limit
            ):
                seen.add((alike[r], load[r]))
                out.append(r)
        return out[::-1]

    state = lambda: (len(chosen), tuple(sorted(zip(alike.values(), load))))
    if not jobs:
        return tuple(m % P for m in range(len(encode)))
    stack = [options(0)]
    while stack:
        tries[0] -= 1
        if tries[0] <= 0:
            return None
        if not stack[-1]:
            stack.pop()
            failed.add(state())
            if chosen:
                r = chosen.pop()
                load[r] -= encode[jobs[len(chosen)]]
            continue
        r = stack[-1].pop()
        load[r] += encode[jobs[len(chosen)]]
        chosen.append(r)
        if len(chosen) == len(jobs):
            owner = [m % P for m in range(len(encode))]
            for m, r in zip(jobs, chosen):
                owner[m] = r
            return tuple(owner)
        stack.append([] if state() in failed else options(len(chosen)))
    return None


def _fit_equal(encode: Sequence[int], d: Deadlines, limit: int) -> tuple[int, ...] | None:
    """The same for encodes of one length, due in the order in which they come: the ends that ranks can offer, the earliest to the first."""
    jobs, owner = d.order, [m % len(d.begins) for m in range(len(encode))]
    takes, gather = encode[jobs[0]], d.gather[jobs[0]].tolist()
    ends = sorted(
        (k * takes + gather[r], r)
        for r, begins in enumerate(d.begins.tolist())
        for k in range(1, len(jobs) + 1)
        if k * takes <= begins + limit
    )
    if len(ends) < len(jobs) or any(end > int(d.feeds[m]) + limit for (end, _), m in zip(ends, jobs)):
        return None
    for (_, r), m in zip(ends, jobs):
        owner[m] = r
    return tuple(owner)


# ---- encodes in any bubble before their deadline ------------------------------------------------------------


@dataclass(frozen=True)
class Spread:
    """owner[m], and before[m]: the row of the owner's rank (in the program asked about) that encode m comes just before; the rank's end for none."""

    owner: tuple[int, ...]
    before: dict[int, int]


def spreads(program: Program, durations: Durations, owners: bool) -> Iterator[Spread]:
    """Placements of the encodes of a program that has them as a prefix, each within some exposure; the smallest first. `owners`: choose the owner map too.

    Each encode in turn, as the first stage takes them, goes where it ends first without making a row of its rank later than its latest start plus that exposure. The
    starts of the other rows are those of the run without the encoder, so what comes of it has to be simulated. No placement is claimed to be the best.
    """
    facts = Facts(program)
    alone, end, late = _alone(facts, durations)
    early = end - alone.row
    encode, due = encodes(program, durations), deadlines(program, durations)
    heads = (facts.overlap_head == np.arange(facts.n)) & ~((facts.stage == 0) & (facts.kind != Kind.LOSS))
    lanes = []
    for a, b in zip(program.order.start[:-1], program.order.start[1:]):
        rows = a + np.flatnonzero(heads[a:b])
        lanes.append(
            (rows.tolist(), early[rows].tolist(), late[rows].tolist(), alone.row[rows].tolist(), int(b))
        )
    low, high, tried = 0, exposed_by(program.stages[0].owner, encode, due), []
    while low <= high:
        middle = (low + high) // 2
        spread = _spread(program, encode, due, lanes, middle, owners)
        if spread is None:
            low = middle + 1
        else:
            tried.append((middle, spread))
            high = middle - 1
    yield from (s for _, s in sorted(tried, key=lambda x: x[0]))


def _spread(program: Program, encode, due: Deadlines, lanes, limit: int, owners: bool) -> Spread | None:
    P = program.ranks
    at, clock = [0] * P, [0] * P  # the next row of each rank, and when it is free
    owner, before = list(program.stages[0].owner), {}

    def slot(m: int, r: int) -> tuple[int, int, int]:
        """(end of the encode, the next row after it, the time before it) on rank r."""
        rows, early, late, takes, _ = lanes[r]
        i, now = at[r], clock[r]
        while i < len(rows) and now + encode[m] > late[i] + limit:
            now = max(now, early[i]) + takes[i]
            i += 1
        return now + encode[m], i, now

    for m in due.order:
        gather, deadline = due.gather[m], int(due.feeds[m]) + limit
        done, r, i = min(
            (done + int(gather[r]), r, i)
            for r in (range(P) if owners else (owner[m],))
            for done, i, _ in (slot(m, r),)
        )
        if done > deadline:
            return None
        owner[m], at[r], clock[r] = r, i, done - int(gather[r])
        rows, *_, last = lanes[r]
        before[m] = rows[i] if i < len(rows) else last
    return Spread(tuple(owner), before)


def encodes(program: Program, durations: Durations) -> list[int]:
    """The forward time of stage 0 in each microbatch; 0 where it is not visited."""
    facts = Facts(program)
    out = [0] * program.microbatches
    for i in np.flatnonzero((facts.stage == 0) & (facts.kind == Kind.F)).tolist():
        out[int(facts.mb[i])] = int(durations.row[i])
    return out
