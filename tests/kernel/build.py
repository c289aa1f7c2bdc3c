"""Plain programs from strings, and times for them.

    plain("0F0 0SEND_F0 | {1RECV_F0 1F0}", stages=2)       ranks are separated by |, { } is one launch

Operations: 0F0, 0SEND_F0@1 (communicator 1), 0REDUCE, send(1,a), recv(0,a), wait(a), free(a),
data(x), tie(x), coll(x), init@1,
ZERO, STEP, 0UNSHARD, 0RESHARD.
"""

from __future__ import annotations

import re

from interlock.kernel import Judge
from interlock.kernel.program import WORDS
from interlock.kernel.waits import WaitGraph

CALLS = {
    "send": "SEND",
    "recv": "RECV",
    "wait": "WAIT",
    "free": "FREE",
    "data": "REDUCE_DATA",
    "tie": "REDUCE_TIE",
    "coll": "COLL",
    "init": "INIT",
}
COLUMNS = ("kind", "stage", "mb", "peer", "name", "comm", "launch")


def plain(
    order: str,
    *,
    stages=None,
    mbs: int | None = None,
    trainable=None,
    layers=None,
    inserted=False,
    fragment=False,
    comms=(),
    ties=(),
    memory=None,
    images=None,
    modalities=None,
    placeholders=False,
    reductions="inserted",
) -> dict:
    """`stages`: number of stages of one layer, stage s on rank s mod P, or a rank or an owner list for each;
    `layers`: changes to the layers, by number; `trainable`: a string of 0 and 1."""
    ranks = order.split("|")
    P = len(ranks)
    stages = [s % P for s in range(stages)] if isinstance(stages, int) else [0] if stages is None else stages
    rows, start, names, launch, next_launch = [], [0], [], -1, 0
    for rank in ranks:
        for token in re.findall(r"[{}]|[^\s{}]+", rank):
            if token == "{":
                launch, next_launch = next_launch, next_launch + 1
            elif token == "}":
                launch = -1
            else:
                rows.append(_row(token, names) | {"launch": launch})
        start.append(len(rows))
    mbs = mbs or max([r["mb"] for r in rows], default=0) + 1
    zero = {"weights": 0, "activation": [0, 0], "until_weight": [0, 0], "output": [0, 0], "workspace": [0, 0]}
    trainable = trainable or "1" * len(stages)
    return {
        "format": "interlock.program/1",
        "ranks": P,
        "microbatches": max(mbs, 1),
        "layers": [
            {"name": f"l{s}", "trainable": trainable[s] == "1", "modality": None}
            | zero
            | (layers or {}).get(s, {})
            for s in range(len(stages))
        ],
        "stages": [
            {"region": "all", "layers": [s, s + 1]}
            | ({"owner": where} if isinstance(where, list) else {"rank": where})
            for s, where in enumerate(stages)
        ],
        "images": images or [1] * max(mbs, 1),
        "modalities": modalities or {},
        "transfers": "inserted" if inserted else "written",
        "reductions": reductions,
        "fragment": fragment,
        "placeholders": placeholders,
        "communicators": [{"name": f"c{n}", "ranks": c} for n, c in enumerate([list(range(P)), *comms])],
        "ties": [{"name": n, "stages": s, "comm": c} for n, s, c in ties],
        "memory": memory,
        "names": names,
        "kinds": WORDS[:-1],
        "order": {"start": start} | {c: [r[c] for r in rows] for c in COLUMNS},
    }


def _row(token: str, names: list[str]) -> dict:
    text, _, comm = token.partition("@")
    row = dict.fromkeys(COLUMNS, -1) | {"comm": int(comm or 0)}
    if call := re.fullmatch(r"([a-z]+)(?:\((?:(\d+),)?(\w+)\))?", text):
        word, peer, name = call.groups()
        if name is not None and name not in names:
            names.append(name)
        return row | {
            "kind": WORDS.index(CALLS[word]),
            "peer": int(peer or -1),
            "name": -1 if name is None else names.index(name),
        }
    stage, kind, mb = re.fullmatch(r"(-?\d+)?([A-Z_]+)(-?\d+)?", text).groups()
    return row | {"kind": WORDS.index(kind), "stage": int(stage or -1), "mb": int(mb or -1)}


def graph_of(program: dict, model: str) -> WaitGraph:
    return WaitGraph(Judge(program).matched, model)


def waits_of(graph: WaitGraph) -> list[tuple[int, str, int]]:
    """(event, name, event) of every wait."""
    return [(a, name, b) for name, waits in graph.list_relations() for a, b in waits]


def claim(program: dict, model: str = "pair") -> dict | None:
    """A `valid` claim with longest-path times, or None if the wait graph has a cycle."""
    graph = graph_of(program, model)
    rows, grouped = len(graph.order.kind), graph.order.grouped
    leader = list(range(rows + 2 * len(grouped)))
    for a, b in graph.find_shared_events():
        leader[b] = leader[a]
    after, count = {}, [0] * len(leader)
    for a, _, b in waits_of(graph):
        after.setdefault(leader[a], []).append(leader[b])
        count[leader[b]] += 1
    times = [0] * len(leader)
    free = [e for e in range(len(leader)) if not count[e] and leader[e] == e]
    done = 0
    while free:
        a = free.pop()
        done += 1
        for b in after.get(a, ()):
            times[b] = max(times[b], times[a] + 1)
            count[b] -= 1
            if not count[b]:
                free.append(b)
    if done < sum(1 for e, first in enumerate(leader) if e == first):
        return None
    times = [times[first] for first in leader]
    return {
        "claim": "valid",
        "model": model,
        "times": times[:rows],
        "launches": {str(launch): times[start : start + 2] for launch, start in grouped.items()},
    }


def one_f_one_b(P: int, M: int, split: bool = False) -> dict:
    """1F1B with P ranks and P stages, transfers inserted, columns as plain() gives them."""
    ranks = []
    for r in range(P):
        warm = min(P - r - 1, M)
        back = [f"{r}I{m} {r}W{m}" if split else f"{r}B{m}" for m in range(M)]
        steady = [f"{r}F{m} {back[m - warm]}" for m in range(warm, M)]
        ranks.append(" ".join([f"{r}F{m}" for m in range(warm)] + steady + back[M - warm :]))
    return plain(" | ".join(ranks), stages=P, mbs=M, inserted=True)
