"""From the plain form (spec/program.md), which may be any JSON at all, to a well-formed program.

It takes time and memory linear in the JSON's own size.
"""

from __future__ import annotations

from itertools import groupby, pairwise
from math import inf

from interlock.kernel.fields import Fields, require
from interlock.kernel.program import KINDS, REPLICATED, WORDS, Kind, Layer, Memory, Order, Program, Stage, Tie

MAX_COUNT = 10**7  # ranks, microbatches
MAX_WORK = 5 * 10**7  # microbatches * stages, sizes of microbatches * layers
MAX_LAUNCH = 10**18
MAX_CONSTANT_ROWS = 10**5  # rows of a program whose columns are all written as one integer

Launches = tuple[set[int], dict[int, int], list[int]]  # the last three fields of an Order


def read(plain: object) -> Program:
    """The program that a plain program is. Raises Malformed."""
    fields = Fields(plain, "the program")
    require(fields.get("format") == "interlock.program/1", "the program's format is not interlock.program/1")
    ranks, microbatches = (fields.integer(key, 1, MAX_COUNT + 1) for key in ("ranks", "microbatches"))
    for key in ("transfers", "reductions"):
        require(fields.get(key) in ("written", "inserted"), f"the {key} are neither written nor inserted")
    layers = [_read_layer(layer) for layer in fields.records("layers", "a layer")]
    stages = _read_stages(fields, len(layers), ranks, microbatches)
    modalities = Fields(fields.get("modalities"), "modalities")
    require(modalities.is_object, "the program's modalities is not an object")
    communicators = _read_communicators(fields, ranks)
    number = {name: n for n, name in reversed(list(enumerate(fields.texts("names"))))}
    program = Program(
        ranks,
        microbatches,
        fields.flag("fragment"),
        fields.flag("placeholders"),
        fields.get("transfers") == "inserted",
        fields.get("reductions") == "inserted",
        fields.integers("images", 0, length=microbatches),
        layers,
        stages,
        {x: frozenset(modalities.integers(x, 0, microbatches)) for x in modalities.values},
        communicators,
        _read_ties(fields, number, len(stages), len(communicators)),
        _read_memory(fields, ranks),
        _read_order(fields, number, stages, len(communicators)),
    )
    _check_rows(program)
    return program


def _read_layer(layer: Fields) -> Layer:
    return Layer(
        layer.flag("trainable"),
        None if layer.get("modality") is None else layer.text("modality"),
        "recompute" in layer.values and layer.flag("recompute"),
        layer.integer("weights", 0),
        *(layer.pair(size) for size in ("activation", "until_weight", "output", "workspace")),
    )


def _read_stages(fields: Fields, layers: int, ranks: int, microbatches: int) -> list[Stage]:
    stages: list[Stage] = []
    end = 0
    for stage in fields.records("stages", "a stage"):
        first, past = stage.pair("layers")
        require(end == first < past <= layers, "the stages do not tile the layers")
        end = past
        sharded = "rank" in stage.values
        require(sharded != ("owner" in stage.values), "a stage has not exactly one of rank and owner")
        rank = stage.integer("rank", 0, ranks) if sharded else REPLICATED
        owner = [] if sharded else stage.integers("owner", 0, ranks, microbatches)
        stages.append(Stage(range(first, past), rank, owner))
    require(end == layers, "the stages do not tile the layers")
    require(microbatches * len(stages) <= MAX_WORK, "microbatches times stages is too large")
    return stages


def _read_communicators(fields: Fields, ranks: int) -> list[frozenset[int]]:
    listed = [x.integers("ranks", 0, ranks) for x in fields.records("communicators", "a communicator")]
    members = [frozenset(of_one) for of_one in listed]
    require(sum(map(len, members)) == sum(map(len, listed)), "a communicator lists a rank twice")
    require(members and len(members[0]) == ranks, "communicator 0 does not have all ranks")
    return members


def _read_ties(fields: Fields, number: dict[str, int], stages: int, communicators: int) -> list[Tie]:
    ties = {
        tie.text("name"): (
            frozenset(tie.integers("stages", 0, stages)),
            tie.integer("comm", 0, communicators),
        )
        for tie in fields.records("ties", "a tie")
    }
    require(len(ties) == len(fields.records("ties", "a tie")), "two ties have one name")
    return [Tie(number.get(name, -1), *tie) for name, tie in ties.items()]


def _read_memory(fields: Fields, ranks: int) -> Memory | None:
    if fields.get("memory") is None:
        return None
    given = Fields(fields.get("memory"), "memory")
    memory = Memory(given.limits("capacity", ranks), given.pair("gradient"), given.pair("optimizer"))
    require(memory.gradient[1] > 0 and memory.optimizer[1] > 0, "a denominator is 0")
    return memory


def _read_order(fields: Fields, number: dict[str, int], stages: list[Stage], communicators: int) -> Order:
    given, words, names = (
        Fields(fields.get("order"), "the order"),
        fields.texts("kinds"),
        fields.texts("names"),
    )
    ranks = fields.integer("ranks", 1)
    start = given.integers("start", 0, length=ranks + 1)
    require(start[0] == 0 and all(a <= b for a, b in pairwise(start)), "start does not ascend from 0")
    require(set(words) <= {*WORDS} - {"REDUCE_REPLICATED"}, "kinds holds an unknown kind")
    bounds: dict[str, tuple[float, float]] = {
        "kind": (0, len(words)),
        "stage": (-inf, inf),
        "mb": (-inf, inf),
        "peer": (-1, ranks),
        "name": (-1, len(names)),
        "comm": (0, communicators),
        "launch": (-1, MAX_LAUNCH),
    }
    count = start[-1]
    lengths = {len(x) for x in map(given.get, bounds) if type(x) is list}
    promised = lengths == {count} if lengths else count <= MAX_CONSTANT_ROWS
    require(promised, "start promises rows that a column does not list")
    columns = Fields(
        {key: [x] * count if type(x := given.get(key)) is int else x for key in bounds}, "the order"
    )
    kind, stage, mb, peer, name, comm, launch = (columns.integers(key, *bounds[key]) for key in bounds)
    if max(name, default=-1) >= 0:
        name = [number[names[x]] if x >= 0 else -1 for x in name]
    meaning = [WORDS.index(word) for word in words]
    kind = [meaning[x] for x in kind]
    rank = [r for r in range(ranks) for _ in range(start[r], start[r + 1])]
    rows: list[list[int]] = [[] for _ in KINDS]
    for i, k in enumerate(kind):
        if k == Kind.REDUCE and 0 <= stage[i] < len(stages) and stages[stage[i]].rank == REPLICATED:
            kind[i] = k = Kind.REDUCE_REPLICATED
        rows[k].append(i)
    launches = _read_launches(kind, launch, rank)
    return Order(start, kind, stage, mb, peer, name, comm, launch, rank, rows, *launches)


def _read_launches(kind: list[int], launch: list[int], rank: list[int]) -> Launches:
    """Consecutive rows of a rank: transfers, or an F and one of B, I, W; numbers ascend with the rows."""
    second_halves: set[int] = set()
    grouped: dict[int, int] = {}
    grouped_rows: list[int] = []
    latest = -1
    rows = [i for i, number in enumerate(launch) if number >= 0] if max(launch, default=-1) >= 0 else []
    for number, members in groupby(rows, launch.__getitem__):
        first, *others = members
        require(number > latest, "launch numbers do not ascend with the rows")
        latest = number
        together = rank[first] == rank[first + len(others)] and launch[first + len(others)] == number
        require(together, "a launch is not consecutive rows of one rank")
        kinds = {kind[i] for i in (first, *others)}
        if kinds <= Kind.TRANSFERS:
            grouped[number] = len(kind) + 2 * len(grouped)
            grouped_rows.append(first)
        else:
            overlap = len(others) == 1 and kinds <= Kind.HALVES and Kind.F in kinds and len(kinds) == 2
            require(overlap, "a launch is neither transfers nor an overlap of an F with one of B, I, W")
            second_halves.update(others)
    return second_halves, grouped, grouped_rows


def _check_rows(program: Program) -> None:
    """A row has the fields its kind needs, and what is inserted is not listed."""
    order, not_inserted = program.order, Kind.TRANSFERS | {Kind.WAIT_F, Kind.WAIT_B, Kind.WAIT, Kind.FREE}
    needed = (
        ("stage", order.stage, Kind.WITH_STAGE),
        ("mb", order.mb, Kind.WITH_MICROBATCH),
        ("peer", order.peer, {Kind.SEND, Kind.RECV}),
        ("name", order.name, Kind.WITH_NAME),
    )
    for field, column, kinds in needed:
        for kind in kinds:
            require(all(column[i] != -1 for i in order.rows[kind]), f"a {WORDS[kind]} has no {field}")
    for kind in (not_inserted if program.inserted else set()) | (
        Kind.REDUCES if program.reductions_inserted else set()
    ):
        require(not order.rows[kind], f"a {WORDS[kind]} is listed, and is inserted already")
    everyone = all(order.comm[i] == 0 for i in order.rows[Kind.REDUCE_REPLICATED])
    require(everyone, "a REDUCE of a Replicated stage is not on communicator 0, which has all ranks")
