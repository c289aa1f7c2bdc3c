"""Order, completeness, microbatches, reductions: spec/dependency.md."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from interlock.program.facts import HAS_MICROBATCH, Facts
from interlock.program.ir import Kind
from interlock.program.transfers import tie_ranks
from interlock.rules.alike import MANY, alike, more
from interlock.text.finding import Finding, Mark, Severity

_NAMES = {
    Kind.F: "forward",
    Kind.B: "backward",
    Kind.I: "input gradient",
    Kind.W: "weight gradient",
    Kind.LOSS: "loss",
}


def check(facts: Facts) -> Iterator[Finding]:
    for rule in (
        ranges,
        placement,
        twice,
        mixed,
        local_order,
        missing_forwards,
        producers,
        reductions,
        reduction_order,
        steps,
        cleared,
    ):
        yield from rule(facts)


def ranges(facts: Facts) -> Iterator[Finding]:
    """IL314 (stage in range) and IL306, R-MB (microbatch in range and the stage on its path)."""
    p = facts.program
    for row in np.flatnonzero(~facts.stage_ok)[:MANY]:
        yield Finding(
            "IL314",
            "R-ONCE",
            f"{p.show(row)} names stage {facts.stage[row]}, but the stages are 0 to {facts.S - 1}",
            (Mark(row, "no such stage"),),
            "use a stage of the schedule, or declare this one",
        )
    rows = np.flatnonzero(facts.stage_ok & ~facts.mb_ok)
    for row, count in alike(
        rows, facts.rank[rows], facts.mb[rows], np.where(_in_range(facts, rows), facts.stage[rows], -1)
    ):
        m, others = int(facts.mb[row]), more(count, f"on rank {facts.rank[row]}")
        if 0 <= m < facts.M:
            yield Finding(
                "IL306",
                "R-MB",
                f"{p.show(row)}: microbatch {m} does not visit stage {facts.stage[row]}, "
                f"since it lacks the stage's modality{others}",
                (Mark(row, "not on the path of this microbatch"),),
                "drop the operation, or say that the microbatch has the modality",
            )
        else:
            yield Finding(
                "IL306",
                "R-MB",
                f"{p.show(row)} uses microbatch {m} where 0 to {facts.M - 1} are asked{others}",
                (Mark(row, "no such microbatch"),),
                f"every rank runs the same microbatches, 0 to {facts.M - 1}",
            )


def _in_range(facts: Facts, rows: np.ndarray) -> np.ndarray:
    return (facts.mb[rows] >= 0) & (facts.mb[rows] < facts.M)


def placement(facts: Facts) -> Iterator[Finding]:
    """IL304: an operation is on the rank of its stage."""
    p = facts.program
    waits = (facts.kind == Kind.WAIT_F) | (facts.kind == Kind.WAIT_B)  # IL312 speaks of them
    rows = np.flatnonzero(facts.stage_ok & facts.mb_ok & ~facts.rank_ok & ~waits)
    for row, count in alike(rows, facts.rank[rows], facts.stage[rows]):
        stage = int(facts.stage[row])
        where = int(facts.rank_at(facts.stage[row : row + 1], np.maximum(facts.mb[row : row + 1], 0))[0])
        marks = [Mark(row, f"listed on rank {facts.rank[row]}")]
        home = np.flatnonzero((facts.stage == stage) & facts.rank_ok & HAS_MICROBATCH[facts.kind])
        if len(home):
            marks.append(Mark(int(home[0]), f"stage {stage} runs on rank {where}"))
        owner = f" for microbatch {facts.mb[row]}" if p.stages[stage].replicated else ""
        yield Finding(
            "IL304",
            "R-ONCE",
            f"{p.show(row)} is on rank {facts.rank[row]}, but stage {stage} lies on rank {where}{owner}"
            + (": one stage on two ranks" if len(home) else "")
            + more(count, f"of stage {stage}"),
            tuple(marks),
            f"move it to rank {where}, or change the placement",
        )


def twice(facts: Facts) -> Iterator[Finding]:
    """IL303: nothing is listed twice."""
    rows = np.flatnonzero((facts.kind <= Kind.LOSS) & facts.stage_ok & facts.mb_ok)
    key = (facts.kind[rows].astype(np.int64) * facts.S + facts.stage[rows]) * max(facts.M, 1) + facts.mb[rows]
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    again = np.flatnonzero(first[inverse] != np.arange(len(rows)))
    for i, count in alike(again, facts.kind[rows[again]], facts.stage[rows[again]]):
        row, before = int(rows[i]), int(rows[first[inverse[i]]])
        kind = Kind(int(facts.kind[row]))
        yield Finding(
            "IL303",
            "R-ONCE",
            f"the {_NAMES[kind]} of microbatch {facts.mb[row]} on stage {facts.stage[row]} is listed twice"
            + more(count, "of the stage"),
            (Mark(row, "a second time"), Mark(before, "first here")),
            "delete one of the two",
        )


def mixed(facts: Facts) -> Iterator[Finding]:
    """IL305: a backward is B, or I and W, never a mix; W asks for I."""
    p = facts.program
    b, i, w = (facts.listed[k] for k in (Kind.B, Kind.I, Kind.W))
    for key in np.flatnonzero((b >= 0) & ((i >= 0) | (w >= 0)))[:MANY]:
        s, m = divmod(int(key), facts.M)
        other = int(i[key] if i[key] >= 0 else w[key])
        yield Finding(
            "IL305",
            "R-ONCE",
            f"the backward of microbatch {m} on stage {s} is listed twice: as a whole, and as halves"
            if i[key] >= 0
            else f"{s}W{m} is listed, but the backward of microbatch {m} on stage {s} was not split",
            (Mark(other, "a half of the backward"), Mark(int(b[key]), "the whole backward")),
            f"write {s}B{m} alone, or {s}I{m} and {s}W{m}",
        )
    if not p.fragment:
        for key in np.flatnonzero((w >= 0) & (i < 0) & (b < 0))[:MANY]:
            s, m = divmod(int(key), facts.M)
            yield Finding(
                "IL305",
                "R-ONCE",
                f"{s}W{m} has no {s}I{m}: the input half of the backward is missing",
                (Mark(int(w[key]), "the weight half alone"),),
                f"add {s}I{m} before it, or write {s}B{m}",
            )


def local_order(facts: Facts) -> Iterator[Finding]:
    """IL301: on one rank an operation is listed after what it needs, and not fused with it."""
    p, edges = facts.program, facts.data
    src, dst = edges.src, edges.dst
    same = facts.rank[src] == facts.rank[dst]
    wrong = same & ((src > dst) | (facts.overlap_head[src] == facts.overlap_head[dst]))
    for e in np.flatnonzero(wrong)[:MANY]:
        a, b = int(src[e]), int(dst[e])
        ka, kb = Kind(int(facts.kind[a])), Kind(int(facts.kind[b]))
        fused = facts.overlap_head[a] == facts.overlap_head[b]
        what = "in one overlap with" if fused else "before"
        whose = "its " if facts.stage[a] == facts.stage[b] else ""
        yield Finding(
            "IL301",
            f"R-DEP-{edges.rule[e]}",
            f"{p.show(b)} runs {what} {p.show(a)}, which it needs: {_NAMES[kb]} {what} {whose}{_NAMES[ka]}",
            (Mark(b, f"needs {p.show(a)}"), Mark(a, "listed with it" if fused else "listed only here")),
            "take the two apart" if fused else f"list {p.show(a)} before {p.show(b)}",
            walk=() if fused else (((("op", a), "data", ("op", b))), ((("op", b), "order", ("op", a)))),
        )


def missing_forwards(facts: Facts) -> Iterator[Finding]:
    """IL302: every forward is there, and every loss if one is."""
    p, M = facts.program, facts.M
    if p.fragment or not facts.S or not M:
        return
    on_path = facts.footprint.on_path[facts.footprint.of].T.reshape(-1)  # index stage * M + mb
    losses = facts.listed[Kind.LOSS]
    yield from _missing(facts, np.flatnonzero(on_path & (facts.listed[Kind.F] < 0)), "F", "forward")
    if (losses >= 0).any():
        last = on_path & (facts.footprint.next[facts.footprint.of].T.reshape(-1) < 0)
        yield from _missing(facts, np.flatnonzero(last & (losses < 0)), "LOSS", "loss")
        for key in np.flatnonzero((losses >= 0) & ~last)[:MANY]:
            row = int(losses[key])
            yield Finding(
                "IL302",
                "R-ONCE",
                f"{p.show(row)}: the loss belongs to the last stage of the microbatch's path",
                (Mark(row, "not the last stage"),),
                "put it on the last stage",
            )


def _missing(facts: Facts, keys: np.ndarray, letter: str, word: str) -> Iterator[Finding]:
    for key, count in alike(keys, keys // facts.M):
        s, m = divmod(key, facts.M)
        rank = int(facts.rank_at(np.array([s]), np.array([m]))[0])
        others = np.flatnonzero(
            (facts.stage == s) & (facts.rank == rank) & facts.placed & HAS_MICROBATCH[facts.kind]
        )
        marks = (Mark(int(others[0]), f"stage {s} runs here, on rank {rank}"),) if len(others) else ()
        yield Finding(
            "IL302",
            "R-ONCE",
            f"{s}{letter}{m} is missing: stage {s} never runs the {word} of microbatch "
            f"{m}{more(count, 'of the stage')}",
            marks,
            f"add {s}{letter}{m} to rank {rank}",
            rank=rank,
        )


def producers(facts: Facts) -> Iterator[Finding]:  # noqa: C901
    """IL312, R-DEP-7: a send follows its producer, a receive precedes its consumer, a wait follows its
    transfer.
    """
    p, kind, M = facts.program, facts.kind, facts.M

    def same_rank(a, b):
        return (a >= 0) & (b >= 0) & (facts.rank[a] == facts.rank[b])

    def rows(*kinds):
        return np.flatnonzero(np.isin(kind, [int(k) for k in kinds]) & facts.placed)

    def say(row, other, what, fix):
        return Finding(
            "IL312", "R-DEP-7", what, (Mark(int(row), "listed here"), Mark(int(other), "listed here")), fix
        )

    for send, table, word in (
        (Kind.SEND_F, facts.first_F, "computes"),
        (Kind.SEND_B, facts.first_X, "computes"),
    ):
        at = rows(send)
        producer = table[facts.stage[at] * M + facts.mb[at]]
        for row, other in zip(*_pick(at, producer, same_rank(at, producer) & (producer > at))):
            yield say(
                row,
                other,
                f"{p.show(row)} comes before {p.show(other)}, which {word} what it sends",
                f"send after {p.show(other)}",
            )
    for recv, tables in ((Kind.RECV_F, (facts.first_F,)), (Kind.RECV_B, (facts.first_X, facts.first_W))):
        at = rows(recv)
        for table in tables:
            consumer = table[facts.stage[at] * M + facts.mb[at]]
            for row, other in zip(*_pick(at, consumer, same_rank(at, consumer) & (consumer < at))):
                yield say(
                    row,
                    other,
                    f"{p.show(other)} runs before {p.show(row)}, which brings its input",
                    f"receive before {p.show(other)}",
                )
    for wait, send in ((Kind.WAIT_F, Kind.SEND_F), (Kind.WAIT_B, Kind.SEND_B)):
        waits = np.flatnonzero(kind == wait)
        if len(waits):
            earliest: dict[tuple[int, int, int], int] = {}

            def name(row):
                return (int(facts.rank[row]), int(facts.stage[row]), int(facts.mb[row]))

            for row in np.flatnonzero(kind == send).tolist():
                earliest.setdefault(name(row), row)
            for row in [r for r in waits.tolist() if earliest.get(name(r), facts.n) > r][:MANY]:
                yield Finding(
                    "IL312",
                    "R-DEP-7",
                    f"{p.show(row)} waits for a send that is not listed before it",
                    (Mark(row, "nothing to wait for"),),
                    "put the wait after its send",
                )
    named = np.flatnonzero(np.isin(kind, [int(Kind.SEND), int(Kind.RECV)]))
    for row in np.flatnonzero(kind == Kind.WAIT):
        mine = facts.on_rank(named, facts.rank[row])
        if not ((facts.name[mine] == facts.name[row]) & (mine < row)).any():
            yield Finding(
                "IL312",
                "R-DEP-7",
                f"{p.show(row)}: no transfer of that name is listed before it on rank {facts.rank[row]}",
                (Mark(int(row), "nothing to wait for"),),
                "put the wait after its transfer",
            )


def _pick(a: np.ndarray, b: np.ndarray, mask: np.ndarray):
    hit = np.flatnonzero(mask)[:MANY]
    return a[hit], b[hit]


def reductions(facts: Facts) -> Iterator[Finding]:
    """IL308, IL605: every reduction is there, once, and every member of its group enters it."""
    p, fp = facts.program, facts.footprint
    placed = np.flatnonzero((facts.kind == Kind.REDUCE) & facts.placed)
    asked = not p.fragment and not p.reductions_inserted
    for s, stage in enumerate(p.stages):
        rows = placed[facts.stage[placed] == s]
        ranks = range(p.ranks) if stage.replicated else (stage.rank,)
        if not fp.reduce[s] and not p.fragment:
            for row in rows[:MANY]:
                yield Finding(
                    "IL603" if p.placeholders else "IL308",
                    "R-FOOT-2" if p.placeholders else "R-DEP-5",
                    f"{p.show(row)}: stage {s} owns nothing trainable, there is nothing to reduce",
                    (Mark(int(row), "nothing to reduce"),),
                    "leave it out",
                    Severity.WARNING if p.placeholders else Severity.ERROR,
                )
            continue
        for r in ranks if asked else ():
            mine = rows[facts.rank[rows] == r]
            if len(mine) == 0 and stage.replicated:
                yield Finding(
                    "IL605",
                    "R-RANK",
                    f"rank {r} does not enter the reduction of stage {s}, whose weights lie on every rank",
                    (Mark(int(rows[0]), "other ranks wait here"),) if len(rows) else (),
                    f"add {s}REDUCE to rank {r}: a rank that owns no microbatch adds zero",
                    rank=r,
                )
            elif len(mine) == 0:
                yield Finding(
                    "IL308",
                    "R-DEP-5",
                    f"there is no reduction of the gradients of stage {s} on rank {r}",
                    (),
                    f"add {s}REDUCE after the last backward of stage {s}",
                    rank=r,
                )
            for row in mine[1:]:
                code, rule = ("IL605", "R-RANK") if stage.replicated else ("IL308", "R-DEP-5")
                yield Finding(
                    code,
                    rule,
                    f"{p.show(row)} is listed twice on rank {r}",
                    (Mark(int(row), "a second time"), Mark(int(mine[0]), "first here")),
                    "reduce once a step",
                )
    yield from _named_once(facts)
    if asked:
        yield from _ties(facts)


def _named_once(facts: Facts) -> Iterator[Finding]:
    rows = np.flatnonzero(np.isin(facts.kind, [int(Kind.REDUCE_DATA), int(Kind.REDUCE_TIE)]))
    seen: dict[tuple, int] = {}
    for row in rows.tolist():
        first = seen.setdefault((int(facts.kind[row]), int(facts.name[row]), int(facts.rank[row])), row)
        if first != row:
            yield Finding(
                "IL308",
                "R-DEP-5",
                f"{facts.program.show(row)} is listed twice on rank {facts.rank[row]}",
                (Mark(row, "a second time"), Mark(first, "first here")),
                "reduce once a step",
            )


def _ties(facts: Facts) -> Iterator[Finding]:
    p = facts.program
    for tie in p.ties:
        ranks = tie_ranks(p, tie)
        if len(ranks) < 2 or not any(facts.footprint.reduce[s] for s in tie.stages):
            continue
        name = p.names.index(tie.name) if tie.name in p.names else -1
        rows = np.flatnonzero(
            (facts.kind == Kind.REDUCE_TIE) & (facts.name == name) & (facts.comm == tie.comm)
        )
        for r in ranks:
            if not (facts.rank[rows] == r).any():
                yield Finding(
                    "IL308",
                    "R-DEP-5",
                    f"rank {r} has no reduction of the tied parameters {tie.name}",
                    (),
                    f"add reduce(tie: {tie.name})@{p.communicators[tie.comm].name} on ranks "
                    f"{', '.join(map(str, ranks))}",
                    rank=r,
                )


def reduction_order(facts: Facts) -> Iterator[Finding]:
    """IL309: a reduction after every W it sums. IL310: a tie before the data-parallel reduction."""
    p = facts.program
    weight = np.flatnonzero(((facts.kind == Kind.W) | (facts.kind == Kind.B)) & facts.placed)
    tied = {t.name: t for t in p.ties}
    for row in np.flatnonzero(
        np.isin(facts.kind, [int(Kind.REDUCE), int(Kind.REDUCE_TIE)]) & facts.stage_ok
    ).tolist():
        if facts.kind[row] == Kind.REDUCE:
            stages = (int(facts.stage[row]),)
        else:
            tie = tied.get(p.names[facts.name[row]])
            stages = tie.stages if tie else ()
        mine = facts.on_rank(weight, facts.rank[row])
        late = mine[(mine > row) & np.isin(facts.stage[mine], stages)]
        if len(late):
            w = int(late[0])
            yield Finding(
                "IL309",
                "R-DEP-5",
                f"{p.show(w)} comes after {p.show(row)}, the reduction of its parameters: its gradient is "
                "lost",
                (Mark(row, "reduced here"), Mark(w, "computed only here")),
                f"move {p.show(row)} after the last backward of the stage",
            )
        if facts.kind[row] == Kind.REDUCE_TIE:
            mine = np.arange(p.order.start[facts.rank[row]], row)
            data = mine[
                ((facts.kind[mine] == Kind.REDUCE_DATA) & (facts.name[mine] == facts.name[row]))
                | (
                    (facts.kind[mine] == Kind.REDUCE)
                    & facts.placed[mine]
                    & np.isin(facts.stage[mine], stages)
                )
            ]
            for early in data[:1].tolist():
                yield Finding(
                    "IL310",
                    "R-DEP-5",
                    f"{p.show(early)} comes before {p.show(row)}: partial sums of the data-parallel "
                    "reduction would be added across the pipeline, shards of different meaning",
                    (Mark(early, "already reduced here"), Mark(row, "the tie comes after it")),
                    "reduce the tie first",
                )


def steps(facts: Facts) -> Iterator[Finding]:
    """IL311: the step comes last, once, on every rank or on none."""
    p = facts.program
    rows = np.flatnonzero(facts.kind == Kind.STEP)
    if not len(rows):
        return
    sums = np.flatnonzero(
        np.isin(
            facts.kind,
            [int(k) for k in (Kind.W, Kind.B, Kind.I, Kind.REDUCE, Kind.REDUCE_DATA, Kind.REDUCE_TIE)],
        )
    )
    for r in range(p.ranks):
        mine = facts.on_rank(rows, r)
        if len(mine) == 0 and not p.fragment:
            yield Finding(
                "IL311",
                "R-DEP-5",
                f"rank {r} has no STEP, other ranks have",
                (Mark(int(rows[0]), "a step here"),),
                f"add STEP at the end of rank {r}",
                rank=r,
            )
        for row in mine[1:].tolist():
            yield Finding(
                "IL311",
                "R-DEP-5",
                f"rank {r} has a second STEP",
                (Mark(row, "a second time"), Mark(int(mine[0]), "first here")),
                "one step a schedule",
            )
        if len(mine):
            late = facts.on_rank(sums, r)
            for row in late[late > mine[0]][:1].tolist():
                yield Finding(
                    "IL311",
                    "R-DEP-5",
                    f"{p.show(row)} comes after the STEP of rank {r}",
                    (Mark(row, "too late for this step"), Mark(int(mine[0]), "the step")),
                    "put the STEP last",
                )


def cleared(facts: Facts) -> Iterator[Finding]:
    """IL313: gradients are not cleared between backward and step."""
    p = facts.program
    sums = np.flatnonzero(np.isin(facts.kind, [int(k) for k in (Kind.W, Kind.B, Kind.REDUCE)]))
    step = np.flatnonzero(facts.kind == Kind.STEP)
    for row in np.flatnonzero(facts.kind == Kind.ZERO).tolist():
        r = facts.rank[row]
        before = facts.on_rank(sums, r)
        before = before[before < row]
        mine = facts.on_rank(step, r)
        if len(mine):
            before = before[before > (mine[mine < row].max() if (mine < row).any() else -1)]
        if len(before):
            yield Finding(
                "IL313",
                "R-DEP-5",
                f"rank {r} sets its gradients to zero after {p.show(int(before[-1]))} and before the step",
                (Mark(row, "gradients lost here"), Mark(int(before[-1]), "computed here")),
                "clear gradients before the first backward",
            )
