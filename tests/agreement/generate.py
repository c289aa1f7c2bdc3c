"""Random programs for the judges to agree on: schedules, transfers moved about and grouped, traces, mutants of all of them."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from interlock.program.build import OrderBuilder
from interlock.program.facts import Facts
from interlock.program.footprint import footprint
from interlock.program.ir import Communicator, Kind, Layer, Memory, Program, Size, Stage, Tie
from interlock.program.linearise import compute_times
from interlock.program.plain import plain_form
from interlock.program.transfers import insert, restrict
from interlock.rules.usage import Usage

K = Kind
Op = dict  # kind, stage, mb, peer, name, comm, launch


def op(kind: Kind, stage=-1, mb=-1, peer=-1, name=-1, comm=0, launch=None) -> Op:
    return {
        "kind": kind,
        "stage": stage,
        "mb": mb,
        "peer": peer,
        "name": name,
        "comm": comm,
        "launch": launch,
    }


def lists_of(program: Program) -> list[list[Op]]:
    """The operations of each rank; `launch` is an object shared by the members of a launch."""
    o, launches = program.order, {}
    out = []
    for r in range(program.ranks):
        out.append(
            [
                op(
                    K(int(o.kind[i])),
                    int(o.stage[i]),
                    int(o.mb[i]),
                    int(o.peer[i]),
                    int(o.name[i]),
                    int(o.comm[i]),
                    launches.setdefault(int(o.launch[i]), object()) if o.launch[i] >= 0 else None,
                )
                for i in range(o.start[r], o.start[r + 1])
            ]
        )
    return out


def build(lists: list[list[Op]]):
    """Lists back to columns; a launch that lost its unity is cut into its consecutive runs."""
    b = OrderBuilder()
    for ops in lists:
        number, previous = -1, None
        for x in ops:
            if x["launch"] is None:
                number = -1
            elif x["launch"] is not previous:
                number = b.new_launch()
            previous = x["launch"]
            b.op(
                x["kind"],
                x["stage"],
                x["mb"],
                peer=x["peer"],
                name=x["name"],
                comm=x["comm"],
                launch=number if x["launch"] is not None else -1,
            )
        b.end_rank()
    return b.build()


def with_lists(program: Program, lists, **changes) -> Program:
    return program.with_order(build(_unfused(lists)), **changes)


def _unfused(lists):
    """Drops the launch of overlaps that are no longer two adjacent halves, and of anything that may not be grouped."""
    transfers = {K.SEND, K.RECV, K.SEND_F, K.RECV_F, K.SEND_B, K.RECV_B}
    out = []
    for ops in lists:
        ops = [dict(x) for x in ops]
        i = 0
        while i < len(ops):
            j = i
            while j < len(ops) and ops[i]["launch"] is not None and ops[j]["launch"] is ops[i]["launch"]:
                j += 1
            run = ops[i : max(j, i + 1)]
            kinds = [x["kind"] for x in run]
            overlap = len(run) == 2 and K.F in kinds and any(k in (K.B, K.I, K.W) for k in kinds)
            if not overlap and not all(k in transfers for k in kinds):
                for x in run:
                    x["launch"] = None
            i = max(j, i + 1)
        out.append(ops)
    return out


def schedule(rng: Random) -> Program:
    """A random valid schedule: fully trained, transfers inserted."""
    P, M = rng.choice((1, 2, 2, 2, 3, 3, 4)), rng.randint(1, 4)
    replicated = rng.random() < 0.25
    sharded = rng.randint(1, min(2 * P, 5))
    stages, layers = [], []
    modalities = {}
    if rng.random() < 0.25:
        modalities["vision"] = frozenset(m for m in range(M) if rng.random() < 0.6)
    for s in range(sharded + replicated):
        first = len(layers)
        for _ in range(rng.choice((1, 1, 1, 2))):
            vision = "vision" in modalities and s == 0 and sharded + replicated > 1
            layers.append(Layer(f"l{len(layers)}", modality="vision" if vision else None))
        if replicated and s == 0:
            stages.append(
                Stage("encoder", first, len(layers), owner=tuple(rng.randrange(P) for _ in range(M)))
            )
        else:
            stages.append(Stage("backbone", first, len(layers), rank=rng.randrange(P)))
    program = Program(
        P,
        M,
        tuple(layers),
        tuple(stages),
        build([[] for _ in range(P)]),
        modalities=modalities,
        inserted=True,
        reductions_inserted=True,
    )
    while True:
        ordered = program.with_order(build(_random_order(program, rng)))
        if _acyclic(ordered):
            return ordered


def _acyclic(program: Program) -> bool:
    facts = Facts(program)
    fused_badly = (facts.overlap_head[facts.data.src] == facts.overlap_head[facts.data.dst]).any()
    return not fused_badly and compute_times(facts).complete


def _random_order(program: Program, rng: Random) -> list[list[Op]]:
    """Some linearisation of all the work, operation by operation."""
    fp, M = footprint(program), program.microbatches
    split = {s: rng.random() < 0.4 for s in range(len(program.stages))}
    losses = rng.random() < 0.1
    todo: dict[tuple, list[tuple]] = {}
    for m in range(M):
        c = fp.of[m]
        for s in range(len(program.stages)):
            if not fp.on_path[c, s]:
                continue
            prev, nxt = int(fp.prev[c, s]), int(fp.next[c, s])
            todo[K.F, s, m] = [(K.F, prev, m)] if prev >= 0 else []
            x = K.I if split[s] else K.B
            after = [(K.F, s, m)]
            if nxt >= 0:
                after.append((K.I if split[nxt] else K.B, nxt, m))
            elif losses:
                todo[K.LOSS, s, m] = [(K.F, s, m)]
                after.append((K.LOSS, s, m))
            todo[x, s, m] = after
            if split[s]:
                todo[K.W, s, m] = [(K.I, s, m)]
    lists: list[list[Op]] = [[] for _ in range(program.ranks)]
    done: set = set()
    keen = rng.random()
    while todo:
        ready = [k for k, needs in todo.items() if all(n in done for n in needs)]
        backward = [k for k in ready if k[0] != K.F]
        pick = rng.choice(backward if backward and rng.random() < keen else ready)
        kind, s, m = pick
        stage = program.stages[s]
        r = stage.owner[m] if stage.replicated else stage.rank
        lists[r].append(op(kind, s, m))
        done.add(pick)
        del todo[pick]
    if rng.random() < 0.3:
        _fuse(lists, rng)
    return lists


def _fuse(lists, rng):
    for ops in lists:
        for a, b in zip(ops, ops[1:]):
            kinds = {a["kind"], b["kind"]}
            if (
                a["launch"] is None
                and K.F in kinds
                and kinds & {K.B, K.I}
                and a["mb"] != b["mb"]
                and rng.random() < 0.3
            ):
                a["launch"] = b["launch"] = object()


TRANSFERS = {K.SEND_F, K.RECV_F, K.SEND_B, K.RECV_B, K.SEND, K.RECV}


def stir(program: Program, rng: Random) -> Program:
    """Moves transfers about, drops waits, groups neighbours, gives some a communicator: often valid, often under some models only."""
    lists = lists_of(program)
    if rng.random() < 0.7:
        lists = [
            [x for x in ops if x["kind"] not in (K.WAIT_F, K.WAIT_B) or rng.random() < 0.2] for ops in lists
        ]
    if rng.random() < 0.5:
        lists = [[x for x in ops if x["kind"] != K.STEP] for ops in lists]
    for _ in range(rng.randint(0, 6)):
        ops = rng.choice(lists)
        at = [i for i, x in enumerate(ops) if x["kind"] in TRANSFERS]
        if not at:
            continue
        i = rng.choice(at)
        x = ops[i]
        early = x["kind"] in (K.RECV_F, K.RECV_B)
        j = i
        for _ in range(rng.randint(1, 4)):
            n = j + (-1 if early else 1)
            if not 0 <= n < len(ops) or _tied(x, ops[n]):
                break
            j = n
        ops.insert(j, ops.pop(i))
    communicators = program.communicators
    if rng.random() < 0.15:
        communicators += (Communicator("seam", tuple(range(program.ranks))),)
        stage = rng.randrange(len(program.stages))
        forward = {K.SEND_F: 0, K.RECV_F: -1}
        for ops in lists:
            for x in ops:
                if x["kind"] in forward and x["stage"] + forward[x["kind"]] == stage:
                    x["comm"] = 1
    if rng.random() < 0.5:
        _group(lists, rng)
    ties = ()
    names = program.names
    sharded = [i for i, stage in enumerate(program.stages) if not stage.replicated]
    if len(sharded) > 1 and rng.random() < 0.2:
        stages = tuple(sorted(rng.sample(sharded, 2)))
        ranks = tuple(sorted({program.stages[i].rank for i in stages}))
        communicators += (Communicator("emb", ranks),)
        names, ties = ("emb",), (Tie("emb", stages, len(communicators) - 1),)
        for r in ranks if len(ranks) > 1 or rng.random() < 0.2 else ():
            at = [i for i, x in enumerate(lists[r]) if x["kind"] == K.REDUCE and x["stage"] in stages]
            place = min(at, default=len(lists[r])) if rng.random() < 0.7 else len(lists[r])
            lists[r].insert(place, op(K.REDUCE_TIE, name=0, comm=len(communicators) - 1))
    return _weigh(with_lists(program, lists, communicators=communicators, ties=ties, names=names), rng)


def _weigh(program: Program, rng: Random) -> Program:
    """Sometimes sizes, and a capacity near the peak."""
    if rng.random() < 0.6:
        return program
    again = rng.random() < 0.4
    size = lambda top: Size(rng.randint(0, top), rng.choice((0, 0, rng.randint(0, 3))))
    layers = tuple(
        replace(
            l,
            weights=rng.randint(0, 5),
            activation=size(9),
            until_weight=size(3),
            output=size(4),
            workspace=size(2),
            recompute=again and rng.random() < 0.6,
        )
        for l in program.layers
    )
    images = tuple(rng.randint(0, 3) for _ in range(program.microbatches))
    program = replace(
        program,
        layers=layers,
        images=images,
        memory=Memory((None,) * program.ranks, (1, 1), (rng.randint(0, 3), 2)),
    )
    peaks = Usage(Facts(program)).peaks
    capacity = tuple(None if rng.random() < 0.3 else max(p + rng.choice((-1, 0, 0, 1, 5)), 0) for p in peaks)
    return replace(program, memory=replace(program.memory, capacity=capacity))


def _tied(x: Op, y: Op) -> bool:
    """Whether x may not pass y: its producer, its consumer, its wait."""
    if (x["stage"], x["mb"]) != (y["stage"], y["mb"]):
        return False
    return y["kind"] in {
        K.SEND_F: (K.F, K.WAIT_F),
        K.RECV_F: (K.F,),
        K.SEND_B: (K.B, K.I, K.WAIT_B),
        K.RECV_B: (K.B, K.I),
    }.get(x["kind"], ())


def _group(lists, rng):
    for ops in lists:
        i = 0
        while i < len(ops):
            j = i
            while j < len(ops) and ops[j]["kind"] in TRANSFERS and ops[j]["launch"] is None and j - i < 4:
                j += 1
            if j - i >= 1 and rng.random() < 0.6:
                launch = object()
                for x in ops[i:j]:
                    x["launch"] = launch
            i = max(j, i + 1)


def mutate(program: Program, rng: Random) -> Program:
    """The program with one change."""
    return mutation(program, rng)[0]


def mutation(program: Program, rng: Random) -> tuple[Program, str]:
    """One change that is one, and its sort: drop, twice, swap, move, retarget (mb, stage, rank), group, comm, kind, or trainable bit."""
    for _ in range(20):
        mutant, what = _mutate(program, rng)
        if plain_form(mutant) != plain_form(program):
            return mutant, what
    return program, "none"


def _mutate(program: Program, rng: Random) -> tuple[Program, str]:
    if program.layers and rng.random() < 0.08:
        layer = rng.randrange(len(program.layers))
        layers = tuple(replace(l, trainable=l.trainable ^ (i == layer)) for i, l in enumerate(program.layers))
        return replace(program, layers=layers, placeholders=rng.random() < 0.3), "bit"
    lists = lists_of(program)
    full = [r for r, ops in enumerate(lists) if ops]
    if not full:
        return program, "none"
    r = rng.choice(full)
    ops = lists[r]
    i = rng.randrange(len(ops))
    what = rng.choice(
        ("drop", "twice", "swap", "swap", "move", "mb", "stage", "rank", "group", "kind", "comm")
    )
    if what == "drop":
        ops.pop(i)
    elif what == "twice":
        ops.insert(rng.randrange(len(ops) + 1), dict(ops[i], launch=None))
    elif what == "swap" and len(ops) > 1:
        j = rng.randrange(len(ops) - 1)
        ops[j], ops[j + 1] = ops[j + 1], ops[j]
    elif what == "move":
        ops.insert(rng.randrange(len(ops)), dict(ops.pop(i), launch=None))
    elif what == "mb" and ops[i]["mb"] >= 0:
        ops[i]["mb"] = rng.randrange(program.microbatches + (rng.random() < 0.1))
    elif what == "stage" and ops[i]["stage"] >= 0:
        ops[i]["stage"] = rng.randrange(len(program.stages) + (rng.random() < 0.1))
    elif what == "rank":
        lists[rng.randrange(len(lists))].append(dict(ops.pop(i), launch=None))
    elif what == "group" and not program.inserted:
        _group([ops], rng)
    elif what == "kind":
        other = {K.B: K.I, K.I: K.B, K.SEND_F: K.SEND_B, K.RECV_F: K.RECV_B, K.W: K.B, K.F: K.B}
        ops[i]["kind"] = other.get(ops[i]["kind"], ops[i]["kind"])
    elif what == "comm" and len(program.communicators) > 1 and ops[i]["kind"] in TRANSFERS:
        ops[i]["comm"] = rng.randrange(len(program.communicators))
    return with_lists(program, lists), what


def freeze(program: Program, rng: Random) -> Program:
    from interlock.program.footprint import with_trainable

    return restrict(program, with_trainable(program.layers, [rng.random() < 0.6 for _ in program.layers]))


def trace(rng: Random) -> Program:
    """Named transfers, collectives, communicator creation and buffers on two to four ranks."""
    P = rng.choice((2, 2, 3, 4))
    names = tuple("abcdefgh")
    communicators = [Communicator("default", tuple(range(P)))]
    for k in range(rng.choice((0, 1, 2))):
        communicators.append(Communicator(f"c{k}", tuple(sorted(rng.sample(range(P), rng.randint(2, P))))))
    lists: list[list[Op]] = [[] for _ in range(P)]
    for _ in range(rng.randint(1, 6)):  # events in one global order: valid until stirred
        c = rng.randrange(len(communicators))
        members = communicators[c].ranks
        x = rng.random()
        if x < 0.7:
            a, b = rng.sample(members, 2)
            name = rng.randrange(len(names))
            lists[a].append(op(K.SEND, peer=b, name=name, comm=c))
            lists[b].append(op(K.RECV, peer=a, name=name, comm=c))
            if rng.random() < 0.4:
                who = rng.choice((a, b))
                lists[who].append(op(K.WAIT, name=name))
                if rng.random() < 0.5:
                    lists[who].append(op(K.FREE, name=name))
        elif x < 0.85:
            name = rng.randrange(len(names))
            kind = rng.choice((K.COLL, K.COLL, K.REDUCE_TIE))
            for r in members:
                lists[r].append(op(kind, name=name, comm=c))
        elif c:
            for r in members:
                lists[r].append(op(K.INIT, comm=c))
        else:
            lists[rng.randrange(P)].append(op(rng.choice((K.ZERO, K.STEP, K.REDUCE_DATA)), name=-1))
            last = lists[[i for i in range(P) if lists[i]][-1]][-1]
            for ops in lists:
                for y in ops:
                    if y["kind"] == K.REDUCE_DATA and y["name"] < 0:
                        y["name"] = rng.randrange(len(names))
    for _ in range(rng.choice((0, 0, 1, 2))):
        ops = rng.choice(lists)
        if len(ops) > 1:
            j = rng.randrange(len(ops) - 1)
            ops[j], ops[j + 1] = ops[j + 1], ops[j]
    if rng.random() < 0.5:
        _group(lists, rng)
    base = Program(
        P,
        1,
        (),
        (),
        build([[] for _ in range(P)]),
        fragment=True,
        communicators=tuple(communicators),
        names=names,
    )
    return with_lists(base, lists)


def edge_example(rng: Random) -> Program:
    """Programs in which `buffered` and `edge` differ, with the payloads of the ring shuffled and padded."""
    P = rng.choice((2, 2, 3))
    names = tuple("abcdefghijkl")
    lists: list[list[Op]] = [[] for _ in range(P)]
    for r in range(P):
        up, down = (r + 1) % P, (r - 1) % P
        first, second = op(K.SEND, peer=up, name=r), op(K.SEND, peer=up, name=P + r)
        got, later = op(K.RECV, peer=down, name=down), op(K.RECV, peer=down, name=P + down)
        launch = object()
        group = [dict(second, launch=launch), dict(got, launch=launch)]
        rng.shuffle(group)
        lists[r] = [first, *group, later]
    base = Program(P, 1, (), (), build([[] for _ in range(P)]), fragment=True, names=names)
    program = with_lists(base, lists)
    return mutate(program, rng) if rng.random() < 0.4 else program


def random_program(rng: Random) -> tuple[Program, str]:
    """A program and what it is: schedule, written, stirred, trace or edge, with `+mutant` for half of them."""
    x = rng.random()
    if x < 0.2:
        program, what = schedule(rng), "schedule"
        if rng.random() < 0.5:
            program = freeze(program, rng)
    elif x < 0.7:
        base = schedule(rng)
        program, what = insert(base), "written"
        if rng.random() < 0.4:
            program = freeze(program, rng)
        if rng.random() < 0.8:
            program, what = stir(program, rng), "stirred"
    elif x < 0.92:
        program, what = trace(rng), "trace"
    else:
        program, what = edge_example(rng), "edge"
    if rng.random() < 0.56:
        for _ in range(rng.choice((1, 1, 2))):
            program = mutate(program, rng)
        what += "+mutant"
    return program, what
