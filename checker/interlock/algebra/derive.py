"""derive: regions to stages, and the order of every rank. Made for the fully trained model; freezing only
deletes from it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from interlock.algebra.assemble import assemble
from interlock.algebra.cut import Region
from interlock.algebra.listing import list_schedule
from interlock.algebra.machine import machine_of
from interlock.algebra.model import Chain
from interlock.algebra.owner import gave_up, owner_map
from interlock.algebra.partition import partition
from interlock.algebra.setting import Setting
from interlock.algebra.skeleton import FIELDS, Budget
from interlock.algebra.weave import Run
from interlock.language import ast
from interlock.program.footprint import Footprint, footprint
from interlock.program.ir import Communicator, Program, Size, Stage
from interlock.program.kinds import Kind
from interlock.text.finding import Finding, Mark, Severity, error
from interlock.text.phrases import join_words
from interlock.timing.bubbles import place_in_bubbles
from interlock.timing.durations import NoTimes, compute_durations
from interlock.timing.exposure import encode_times, latest_deadlines
from interlock.timing.layer_times import LayerTimes
from interlock.timing.longest_path import Cyclic
from interlock.timing.owner_search import SEARCH_LIMIT, find_least_exposed
from interlock.timing.simulate import makespan

_EMPTY = np.empty((len(FIELDS), 0), dtype=np.int64)


@dataclass(frozen=True)
class Derived:
    """The fully trained program, and what to warn of. `partitions[region]` and `owners[region]` are the lists
    used.
    """

    program: Program
    warnings: tuple[Finding, ...]
    partitions: dict[str, list[int]]
    owners: dict[str, tuple[int, ...]]


def derive(
    runs: list[Run], chain: Chain, setting: Setting, comms: tuple[Communicator, ...], budget: Budget
) -> Derived:
    """Raises IL104, IL205, IL209, IL210, IL212, IL213."""
    _by_deadline(runs)
    stages, partitions, owners = _stages(runs, chain, setting)
    trained = tuple(replace(l, trainable=True) for l in chain.layers)
    program = Program(
        setting.ranks,
        setting.microbatches,
        trained,
        stages,
        assemble([_EMPTY] * setting.ranks),
        setting.images,
        setting.modalities,
        inserted=True,
        reductions_inserted=True,
        communicators=comms,
    )
    fp = footprint(program)
    _visits(fp, runs, setting)
    warnings = _unhidden(runs)
    if len(runs) == 1 or (len(runs) == 2 and runs[0].replicated):
        if any(run.written for run in runs):
            program = replace(program, inserted=False, reductions_inserted=False)
            if len(runs) > 1 or runs[0].replicated:
                skeleton = next(run.instance.skeleton for run in runs if run.written)
                raise error(
                    "IL210",
                    f"skeleton `{skeleton.name}` writes its own transfers and cannot stand beside a "
                    "Replicated region",
                    runs[-1].regions[0].span,
                    help="leave its transfers to be inserted, or write the whole order",
                )
        numbered = {c.name: i for i, c in enumerate(comms)}
        columns = _by_skeletons(runs, stages, setting, fp, budget, numbered)
        if _least_exposed(runs):
            owner = _exposed_least(
                replace(program, order=assemble(columns)), runs[0].regions[0], chain, setting
            )
            stages = (replace(stages[0], owner=owner), *stages[1:])
            owners[stages[0].region] = owner
            program = replace(program, stages=stages)
            columns = _by_skeletons(runs, stages, setting, fp, budget, numbered)
        if _word(runs[0].regions[0], "place") == "deadline":
            program, columns = _spread(program, columns, runs, chain, setting, fp, budget, numbered)
            owners[stages[0].region] = program.stages[0].owner
    else:
        columns = _by_list(runs, stages, setting, fp, budget)
        warnings.append(_ignored(runs))
    return Derived(replace(program, order=assemble(columns)), tuple(warnings), partitions, owners)


def _stages(runs: list[Run], chain: Chain, setting: Setting):
    """The stages of all runs, numbered along the chain; partitions and owner maps resolved."""
    totals = _weights(chain, setting)
    counts = {
        region.name: partition(region, chain, region.chunks * setting.ranks, totals)
        for run in runs
        if not run.replicated
        for region in run.regions
    }
    stages: list[Stage] = []
    for run in runs:
        if run.replicated:
            stages.append(Stage(run.regions[0].name, run.regions[0].first, run.regions[0].last, owner=()))
            continue
        rank = run.instance.rank_of()[:, 0]
        s = 0
        for region in run.regions:
            at = region.first
            for count in counts[region.name]:
                stages.append(Stage(region.name, at, at + count, rank=int(rank[s])))
                at, s = at + count, s + 1
    slots = _slots(stages, chain, setting)
    owners = {}
    regions = {region.name: region for run in runs for region in run.regions}
    for i, stage in enumerate(stages):
        if stage.replicated:
            region = regions[stage.region]
            owner = owner_map(
                region,
                setting.ranks,
                setting.microbatches,
                _encodes(region, chain, setting),
                slots,
                setting.stretched,
                deferred=_least_exposed(runs),
            )
            stages[i] = replace(stage, owner=owner)
            owners[stage.region] = owner
    return tuple(stages), counts, owners


def _least_exposed(runs: list[Run]) -> bool:
    """Whether `owner: balanced` asks for the least exposure: a Replicated region in front of one
    Sharded run.
    """
    return len(runs) == 2 and runs[0].replicated and _word(runs[0].regions[0], "owner") == "balanced"


def _word(region: Region, name: str) -> str:
    argument = region.arguments.get(name)
    return argument.value.text if argument is not None and isinstance(argument.value, ast.Word) else ""


def _by_deadline(runs: list[Run]) -> None:
    for region in (
        region
        for run in runs
        if run.replicated
        for region in run.regions
        if _word(region, "place") == "deadline"
    ):
        if len(runs) == 2 and runs[0].replicated and _word(region, "gather") != "late":
            continue
        raise error(
            "IL210",
            f"the forwards of `{region.name}` cannot be placed by `deadline`",
            region.arguments["place"].span,
            help="it takes a Replicated region in front of one Sharded skeleton, with its hand-overs "
            "inserted: leave out `gather`",
        )


def _spread(
    program: Program,
    columns: list[np.ndarray],
    runs: list[Run],
    chain: Chain,
    setting: Setting,
    fp: Footprint,
    budget: Budget,
    numbered: dict[str, int],
):
    """The program and columns with the encodes in bubbles; as a prefix where no placement tried
    ends earlier.
    """
    program = replace(program, order=assemble(columns))
    times = _times(program, chain, setting)
    try:
        best = makespan(program, times), program, columns
        for spread in place_in_bubbles(program, times, _least_exposed(runs)):
            stages = (replace(program.stages[0], owner=spread.owner), *program.stages[1:])
            moved = (
                columns
                if spread.owner == program.stages[0].owner
                else _by_skeletons(runs, stages, setting, fp, budget, numbered)
            )
            moved = [
                _moved(part, spread.before, int(a), bodies)
                for part, a, bodies in zip(moved, program.order.start, _bodies(columns))
            ]
            tried = replace(program, stages=stages, order=assemble(moved))
            try:
                found = makespan(tried, times.on(tried))
            except Cyclic:
                continue
            if found < best[0]:
                best = found, tried, moved
    except Cyclic:
        return program, columns  # its cycle is the answer
    return best[1:]


def _bodies(columns: list[np.ndarray]) -> list[int]:
    """The number of encodes each rank begins with."""
    return [int(np.argmin(np.append((part[0] == Kind.F) & (part[1] == 0), False))) for part in columns]


def _moved(part: np.ndarray, before: dict[int, int], start: int, encodes_then: int) -> np.ndarray:
    """The columns of a rank with each encode just before its row: `before` counts rows of the program, in
    which this rank had `encodes_then` encodes.
    """
    count = _bodies([part])[0]
    body = np.arange(part.shape[1] - count)
    places = np.array([before[int(m)] - start - encodes_then for m in part[2, :count]], dtype=np.int64)
    turn = np.lexsort((np.r_[np.zeros(count), np.ones(len(body))], np.r_[places, body]))
    return part[:, turn]


def _times(program: Program, chain: Chain, setting: Setting):
    """The durations of the fully trained program; one unit a layer, per image if it has a modality, where a
    time that is asked for is missing.
    """
    try:
        return compute_durations(program, chain.times, machine_of(setting))
    except NoTimes:
        unit = [Size(1, 0) if l.modality is None else Size(0, 1) for l in chain.layers]
        return compute_durations(program, [LayerTimes(u, None, u, u) for u in unit], machine_of(setting))


def _exposed_least(program: Program, region: Region, chain: Chain, setting: Setting) -> tuple[int, ...]:
    """The owner map that exposes least of the encoder, for the fully trained model. Raises IL210 if the
    search gives up.
    """
    times = _times(program, chain, setting)
    try:
        found = find_least_exposed(encode_times(program, times), latest_deadlines(program, times))
    except Cyclic:
        return program.stages[0].owner  # its cycle is the answer
    if found is None:
        raise gave_up(region.arguments["owner"], SEARCH_LIMIT)
    return found


def _weights(chain: Chain, setting: Setting) -> list[int] | None:
    """The time of each layer over all microbatches, forward and backward; None if no layer has times. Raises
    IL210 if only some have.
    """
    work = [t.total() for t in chain.times]
    if all(w is None for w in work):
        return None
    again = [t.forward if layer.recompute else Size() for t, layer in zip(chain.times, chain.layers)]
    return [
        0 if w is None else setting.amount(w, layer.modality) + setting.amount(f, layer.modality)
        for w, f, layer in zip(work, again, chain.layers)
    ]


def _forward(chain: Chain) -> list[Size]:
    """The forward time of each layer; one unit for all where any has none."""
    times = [t.forward for t in chain.times]
    return (
        [Size(1, 0) if l.modality is None else Size(0, 1) for l in chain.layers] if None in times else times
    )


def _slots(stages: list[Stage], chain: Chain, setting: Setting) -> list[int]:
    """The warmup slot of each rank: the forwards of one microbatch of one image before its first Sharded
    stage.
    """
    forward = _forward(chain)
    slots = [0] * setting.ranks
    at, seen = 0, set()
    for stage in stages:
        if stage.replicated:
            continue
        if stage.rank not in seen:
            seen.add(stage.rank)
            slots[stage.rank] = at
        at += sum(f.fixed + f.per_image for f in forward[stage.first : stage.last])
    return slots


def _encodes(region: Region, chain: Chain, setting: Setting) -> list[int]:
    """The region's forward time in each microbatch; 0 where it is not on the path."""
    forward = _forward(chain)
    out = [0] * setting.microbatches
    by_modality: dict[str | None, Size] = {}
    for l in range(region.first, region.last):
        modality, size = chain.layers[l].modality, by_modality.get(chain.layers[l].modality, Size())
        by_modality[modality] = Size(size.fixed + forward[l].fixed, size.per_image + forward[l].per_image)
    for modality, size in by_modality.items():
        for m in setting.modalities.get(modality, range(setting.microbatches)):
            out[m] += size.fixed + size.per_image * setting.images[m]
    return out


def _visits(fp: Footprint, runs: list[Run], setting: Setting) -> None:
    empty = ~fp.on_path.any(axis=1)
    if empty.any():
        m = int(np.flatnonzero(empty[fp.of])[0])
        raise error(
            "IL205",
            f"microbatch {m} visits no stage: no layer of the model is present in it",
            runs[0].regions[0].span,
            help="give the model a layer without modality, or list the microbatch for a modality",
        )


def _by_skeletons(
    runs: list[Run], stages, setting: Setting, fp: Footprint, budget: Budget, comms: dict[str, int]
) -> list[np.ndarray]:
    """Prefix, body and suffix of a leading Replicated region around one Sharded run (either may be
    missing).
    """
    sharded = next((run for run in runs if not run.replicated), None)
    base = int(runs[0].replicated)
    bodies = [_EMPTY] * setting.ranks
    if sharded is not None:
        interpreter = sharded.instance.interpreter(budget, comms)
        for r in range(setting.ranks):
            bodies[r] = _on_path(_placed(interpreter.run(r)[0], base + sharded.instance.stage[r]), fp)
    if not runs[0].replicated:
        return bodies
    before, after = (
        _owned(stages[0].owner, bodies, kinds, setting, fp) for kinds in ((Kind.F,), (Kind.I, Kind.B))
    )
    interpreter = runs[0].instance.interpreter(budget, comms)
    interpreter.first_launch(1 << 40)
    out = []
    for r, body in enumerate(bodies):
        prefix, suffix = (
            _placed(part, np.zeros(1, dtype=np.int64)) for part in interpreter.run(r, before, after)
        )
        out.append(np.concatenate([_on_path(prefix, fp), body, _on_path(suffix, fp)], axis=1))
    return out


def _placed(columns: np.ndarray, stage: np.ndarray) -> np.ndarray:
    """The chunk column turned into stages; -1 stays."""
    chunk = columns[FIELDS.index("chunk")]
    columns[FIELDS.index("chunk")] = np.where(chunk >= 0, stage[np.maximum(chunk, 0)], -1)
    return columns


def _on_path(columns: np.ndarray, fp: Footprint) -> np.ndarray:
    """Without the operations of stages that a microbatch does not visit."""
    if fp.on_path.all():
        return columns
    stage, mb = columns[1], columns[2]
    keep = (mb < 0) | fp.on_path[fp.of[np.maximum(mb, 0)], np.maximum(stage, 0)]
    return columns[:, keep]


def _owned(owner, bodies: list[np.ndarray], kinds, setting: Setting, fp: Footprint) -> list[list[int]]:
    """The microbatches of each rank in the order in which the first stage after the region runs these kinds
    of operation.
    """
    after = fp.next[fp.of, 0]
    turn = np.full(setting.microbatches, np.iinfo(np.int64).max)
    for body in bodies:
        rows = np.flatnonzero(np.isin(body[0], [int(k) for k in kinds]))
        rows = rows[body[1][rows] == after[body[2][rows]]][::-1]
        turn[body[2][rows]] = rows
    owned: list[list[int]] = [[] for _ in range(setting.ranks)]
    for m in np.lexsort((np.arange(setting.microbatches), turn)).tolist():
        owned[owner[m]].append(m)
    return owned


def _by_list(runs: list[Run], stages, setting: Setting, fp: Footprint, budget: Budget) -> list[np.ndarray]:
    spans = {region.name: region.span for run in runs for region in run.regions}
    at = np.array([spans[s.region].at for s in stages], dtype=np.int64)
    width = np.array([spans[s.region].width for s in stages], dtype=np.int64)
    rows = list_schedule(setting.ranks, setting.microbatches, stages, fp, budget, runs[0].regions[0].span)
    return [
        np.stack([kind, stage, mb, np.zeros_like(kind), np.full_like(kind, -1), at[stage], width[stage]])
        for kind, stage, mb in rows
    ]


def _unhidden(runs: list[Run]) -> list[Finding]:
    return [
        Finding.of_input(
            "IL211",
            f"no warmup bubble hides region `{run.regions[0].name}`: its input comes from the regions "
            "before it",
            (Mark(run.regions[0].span, "Replicated, and not first"),),
            "put it first in the cut, or use a Sharded skeleton",
            Severity.WARNING,
            "R-CUT-5",
        )
        for run in runs[1:]
        if run.replicated
    ]


def _ignored(runs: list[Run]) -> Finding:
    names = dict.fromkeys(region.skeleton.name.text for run in runs for region in run.regions)
    first = runs[0].regions[0].span
    return Finding.of_input(
        "IL211",
        f"this order is list-scheduled: the orders of {join_words(map('`{}`'.format, names))} are ignored",
        (Mark(first.to(runs[-1].regions[-1].span)),),
        "one Sharded skeleton, alone or after one Replicated region, keeps its order; regions with the same "
        "skeleton are woven",
        Severity.WARNING,
        "R-CUT-5",
    )
