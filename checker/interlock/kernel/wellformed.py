"""From the plain form (spec/program.md), which may be any JSON at all, to the kernel's view of a program.

`read` returns a `View` or raises `Malformed` with one sentence. It takes time and memory linear in the JSON's own size.
"""

from __future__ import annotations

KINDS = ("F", "B", "I", "W", "LOSS", "SEND_F", "RECV_F", "SEND_B", "RECV_B", "WAIT_F", "WAIT_B", "SEND", "RECV", "WAIT", "FREE",
         "REDUCE", "REDUCE_DATA", "REDUCE_TIE", "COLL", "INIT", "ZERO", "STEP", "UNSHARD", "RESHARD", "REDUCE of a Replicated stage")
(F, B, I, W, LOSS, SEND_F, RECV_F, SEND_B, RECV_B, WAIT_F, WAIT_B, SEND, RECV, WAIT, FREE,
 REDUCE, REDUCE_DATA, REDUCE_TIE, COLL, INIT, ZERO, STEP, UNSHARD, RESHARD, REDUCE_ALL) = range(25)

COMPUTE = frozenset({F, B, I, W, LOSS})
COMPUTE_LIKE = COMPUTE | {WAIT_F, WAIT_B, WAIT, ZERO, STEP, REDUCE_DATA, REDUCE}
PIPELINE = frozenset({SEND_F, RECV_F, SEND_B, RECV_B})
TRANSFER = PIPELINE | {SEND, RECV}
COLLECTIVE = frozenset({COLL, INIT, REDUCE_TIE, REDUCE_ALL})
NO_EVENT = frozenset({UNSHARD, RESHARD, FREE})
WITH_MICROBATCH = COMPUTE | PIPELINE | {WAIT_F, WAIT_B}
WITH_STAGE = WITH_MICROBATCH | {REDUCE, REDUCE_ALL, UNSHARD, RESHARD}
WITH_NAME = frozenset({SEND, RECV, WAIT, FREE, REDUCE_DATA, REDUCE_TIE, COLL})
NOT_INSERTED = TRANSFER | {WAIT_F, WAIT_B, WAIT, FREE}

MOST = 10 ** 7             # ranks, microbatches
MOST_WORK = 5 * 10 ** 7    # microbatches * stages, sizes of microbatches * layers
MOST_PATHS = 2 * 10 ** 6   # classes of microbatches * layers
MOST_NUMBER = 10 ** 18     # launches
MOST_CONSTANT = 10 ** 5    # rows of a program whose columns are all written as one integer


class Malformed(Exception):
    """The program or a claim is not what spec/certificates.md asks for; the message is one sentence."""


class View:
    """A well-formed program in flat lists; a row is an index into kind, stage, mb, peer, name, comm, launch, rank.

    ranks P, microbatches M, stages S; span[s] range of layers; home[s] rank (-1: Replicated), owner[s] list or None;
    trainable[l], modality[l] (None: none), sizes[l] = (weights, activation, until_weight, output, workspace), recompute[l];
    listed[x] set of microbatches of a modality; members[comm] set; rows[kind] ascending; overlaps: first rows;
    groups[launch] = g, the number of a grouped launch in order, group_rows[g] its first row.
    A REDUCE of a Replicated stage has the kind REDUCE_ALL; equal names have equal numbers.
    """

    def rank_of(self, s: int, m: int) -> int:
        """rank(s, m)."""
        home = self.home[s]
        return home if home >= 0 else self.owner[s][m]


def require(condition: bool, sentence: str) -> None:
    if not condition:
        raise Malformed(sentence)


def integer(x, low: int, high: int | None, what: str) -> int:
    require(type(x) is int and low <= x and (high is None or x < high), f"{what} is not an integer in range")
    return x


def integers(x, low: int | None, high: int | None, what: str, length: int | None = None) -> list[int]:
    """x, a list of integers in low .. high-1 (None: unbounded)."""
    require(type(x) is list, f"{what} is not a list")
    require(length is None or len(x) == length, f"{what} does not have {length} entries")
    if x:
        require(set(map(type, x)) == {int}, f"{what} holds something that is not an integer")
        require((low is None or min(x) >= low) and (high is None or max(x) < high), f"{what} holds an integer out of range")
    return x


def texts(x, what: str) -> list[str]:
    require(type(x) is list and all(type(t) is str for t in x), f"{what} is not a list of strings")
    return x


def field(x, key: str, of: str):
    require(type(x) is dict and key in x, f"{of} has no field {key!r}")
    return x[key]


def records(x, what: str) -> list[dict]:
    require(type(x) is list and all(type(e) is dict for e in x), f"{what} is not a list of objects")
    return x


def read(plain) -> View:
    """The view of a plain program. Raises Malformed."""
    v = View()
    get = lambda key: field(plain, key, "the program")
    require(get("format") == "interlock.program/1", "the program's format is not interlock.program/1")
    v.P = integer(get("ranks"), 1, MOST + 1, "ranks")
    v.M = integer(get("microbatches"), 1, MOST + 1, "microbatches")
    for key in ("fragment", "placeholders"):
        require(type(get(key)) is bool, f"{key} is not true or false")
    for key in ("transfers", "reductions"):
        require(get(key) in ("written", "inserted"), f"{key} is neither written nor inserted")
    v.fragment, v.placeholders = plain["fragment"], plain["placeholders"]
    v.inserted, v.reductions_inserted = plain["transfers"] == "inserted", plain["reductions"] == "inserted"
    v.images = integers(get("images"), 0, None, "images", v.M)
    _layers(v, get("layers"), get("modalities"))
    _stages(v, get("stages"))
    require(v.M * v.S <= MOST_WORK, "microbatches times stages is too large")
    v.members = []
    for c in records(get("communicators"), "communicators"):
        ranks = integers(field(c, "ranks", "a communicator"), 0, v.P, "a communicator's ranks")
        v.members.append(frozenset(ranks))
        require(len(v.members[-1]) == len(ranks), "a communicator lists a rank twice")
    require(v.members and len(v.members[0]) == v.P, "communicator 0 does not have all ranks")
    names = texts(get("names"), "names")
    number = {}
    same_name = [number.setdefault(name, n) for n, name in enumerate(names)]
    v.ties = []                                                       # (number of the name or -1, stages, comm)
    for t in records(get("ties"), "ties"):
        require(type(field(t, "name", "a tie")) is str, "a tie's name is not a string")
        stages = frozenset(integers(field(t, "stages", "a tie"), 0, v.S, "a tie's stages"))
        v.ties.append((number.get(t["name"], -1), stages, integer(field(t, "comm", "a tie"), 0, len(v.members), "a tie's comm")))
    require(len({t["name"] for t in plain["ties"]}) == len(v.ties), "two ties have one name")
    _memory(v, get("memory"))
    _order(v, get("order"), texts(get("kinds"), "kinds"), same_name)
    return v


def _layers(v: View, layers, modalities) -> None:
    v.trainable, v.modality, v.sizes, v.recompute = [], [], [], []
    for l in records(layers, "layers"):
        trainable, modality = field(l, "trainable", "a layer"), field(l, "modality", "a layer")
        require(type(trainable) is bool, "a layer's trainable is not true or false")
        require(modality is None or type(modality) is str, "a layer's modality is neither null nor a string")
        v.trainable.append(trainable)
        v.modality.append(modality)
        v.recompute.append(l.get("recompute", False))
        require(type(v.recompute[-1]) is bool, "a layer's recompute is not true or false")
        v.sizes.append((integer(field(l, "weights", "a layer"), 0, None, "a layer's weights"),
                        *(tuple(integers(field(l, key, "a layer"), 0, None, f"a layer's {key}", 2))
                          for key in ("activation", "until_weight", "output", "workspace"))))
    require(type(modalities) is dict, "modalities is not an object")
    v.listed = {x: frozenset(integers(ms, 0, v.M, "the microbatches of a modality")) for x, ms in modalities.items()}


def _stages(v: View, stages) -> None:
    v.span, v.home, v.owner = [], [], []
    end = 0
    for s in records(stages, "stages"):
        a, b = integers(field(s, "layers", "a stage"), 0, None, "a stage's layers", 2)
        require(a == end and a < b <= len(v.trainable), "the stages do not tile the layers")
        require(("rank" in s) != ("owner" in s), "a stage has not exactly one of rank and owner")
        v.span.append(range(a, b))
        v.home.append(integer(s["rank"], 0, v.P, "a stage's rank") if "rank" in s else -1)
        v.owner.append(integers(s["owner"], 0, v.P, "a stage's owner", v.M) if "owner" in s else None)
        end = b
    require(end == len(v.trainable), "the stages do not tile the layers")
    v.S = len(v.home)


def _memory(v: View, memory) -> None:
    v.capacity = v.gradient = v.optimizer = None
    if memory is None:
        return
    capacity = field(memory, "capacity", "memory")
    require(type(capacity) is list and len(capacity) == v.P, "capacity does not have one entry a rank")
    integers([c for c in capacity if c is not None], 0, None, "capacity")
    v.capacity = capacity
    v.gradient, v.optimizer = (integers(field(memory, key, "memory"), 0, None, key, 2) for key in ("gradient", "optimizer"))
    require(v.gradient[1] > 0 and v.optimizer[1] > 0, "a denominator is 0")


def _order(v: View, order, kinds: list[str], same_name: list[int]) -> None:
    v.start = start = integers(field(order, "start", "order"), 0, None, "start", v.P + 1)
    require(start[0] == 0 and all(a <= b for a, b in zip(start, start[1:])), "start does not ascend from 0")
    v.N = n = start[-1]
    bounds = {"kind": (0, len(kinds)), "stage": (None, None), "mb": (None, None), "peer": (-1, v.P), "name": (-1, len(same_name)),
              "comm": (0, len(v.members)), "launch": (-1, MOST_NUMBER)}
    columns = {key: field(order, key, "order") for key in bounds}
    require(n <= MOST_CONSTANT or any(type(c) is list for c in columns.values()), "start promises rows that no column lists")
    for key, (low, high) in bounds.items():
        column = columns[key]
        if type(column) is int:
            column = [column] * n
        setattr(v, key, integers(column, low, high, f"column {key}", n))
    require(all(k in KINDS[:REDUCE_ALL] for k in kinds), "kinds holds an unknown kind")
    meaning = [KINDS.index(k) for k in kinds]
    v.kind = [meaning[k] for k in v.kind]
    v.name = [same_name[x] if x >= 0 else -1 for x in v.name] if max(v.name, default=-1) >= 0 else v.name
    v.rank = [r for r in range(v.P) for _ in range(start[r], start[r + 1])]
    v.rows = [[] for _ in KINDS]                                      # the rows of each kind
    for i, k in enumerate(v.kind):
        v.rows[k].append(i)
    for i in v.rows[REDUCE]:
        if 0 <= v.stage[i] < v.S and v.home[v.stage[i]] < 0:
            v.kind[i] = REDUCE_ALL
    v.rows[REDUCE_ALL] = [i for i in v.rows[REDUCE] if v.kind[i] == REDUCE_ALL]
    v.rows[REDUCE] = [i for i in v.rows[REDUCE] if v.kind[i] == REDUCE]
    require(all(v.comm[i] == 0 for i in v.rows[REDUCE_ALL]), "a REDUCE of a Replicated stage is not on communicator 0, which has all ranks")
    for column, having, what in ((v.stage, WITH_STAGE, "stage"), (v.mb, WITH_MICROBATCH, "mb"),
                                 (v.peer, {SEND, RECV}, "peer"), (v.name, WITH_NAME, "name")):
        for k in having:
            require(all(column[i] != -1 for i in v.rows[k]), f"a {KINDS[k]} has no {what}")
    for k in NOT_INSERTED:
        require(not (v.inserted and v.rows[k]), f"transfers are inserted, and a {KINDS[k]} is listed")
    require(not (v.reductions_inserted and (v.rows[REDUCE] or v.rows[REDUCE_ALL])), "reductions are inserted, and a REDUCE is listed")
    _launches(v)


def _launches(v: View) -> None:
    """A launch: consecutive rows of one rank, transfers only, or an F and one of B, I, W; numbers ascend with the rows."""
    v.groups, v.group_rows, v.overlaps, latest = {}, [], [], -1
    if max(v.launch, default=-1) < 0:
        return
    for i, l in enumerate(v.launch):
        if l < 0:
            continue
        require(l >= latest, "launch numbers do not ascend with the rows")
        if l == latest:
            require(v.launch[i - 1] == l and v.rank[i - 1] == v.rank[i], "a launch is not consecutive rows of one rank")
            if l in v.groups:
                require(v.kind[i] in TRANSFER, "a grouped launch holds something that is not a transfer")
            else:
                halves = {v.kind[i - 1], v.kind[i]}
                require(v.overlaps[-1] == i - 1 and F in halves and len(halves & {B, I, W}) == 1, "an overlap is not an F with one of B, I, W")
        elif v.kind[i] in TRANSFER:
            v.groups[l] = len(v.groups)
            v.group_rows.append(i)
        else:
            require(v.kind[i] in (F, B, I, W) and i + 1 < v.N and v.launch[i + 1] == l, "a launch is neither transfers nor an overlap")
            v.overlaps.append(i)
        latest = l
