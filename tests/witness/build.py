"""Small programs in plain form (spec/program.md) from strings: "0F0 0SEND_F0 {0SEND_F1 3RECV_F0} overlap(0F1
3B0)".
"""

from __future__ import annotations

import re

KINDS = (
    "F",
    "B",
    "I",
    "W",
    "LOSS",
    "SEND_F",
    "RECV_F",
    "SEND_B",
    "RECV_B",
    "WAIT_F",
    "WAIT_B",
    "SEND",
    "RECV",
    "WAIT",
    "FREE",
    "REDUCE",
    "REDUCE_DATA",
    "REDUCE_TIE",
    "COLL",
    "INIT",
    "ZERO",
    "STEP",
    "UNSHARD",
    "RESHARD",
)
TOKEN = re.compile(
    r"\s*(?:(?P<open>\{|overlap\()|(?P<close>[})])"
    r"|(?P<stage>-?\d+)(?P<kind>[A-Z]+(?:_[FB])?)(?P<mb>-?\d+)?|(?P<word>[A-Za-z]+)(?:\((?P<args>[^)]*)\))?)(?:@(?P<comm>\w+))?"
)


def layer(
    trainable=True, modality=None, weights=0, activation=0, until_weight=0, output=0, workspace=0
) -> dict:
    """Sizes in bytes: a number, or a pair (fixed, per image)."""

    def size(v):
        return list(v) if isinstance(v, (list, tuple)) else [v, 0]

    return {
        "name": "layer",
        "trainable": trainable,
        "modality": modality,
        "weights": weights,
        "activation": size(activation),
        "until_weight": size(until_weight),
        "output": size(output),
        "workspace": size(workspace),
    }


def build(
    *orders: str,
    place=None,
    layers=None,
    mbs: int | None = None,
    comms: dict | None = None,
    ties=(),
    modalities=None,
    images=None,
    memory=None,
    inserted=False,
    reductions=False,
    fragment=False,
    placeholders=False,
) -> dict:
    """One string a rank.

    place: each stage's rank, or its list of owners; by default stage i on rank i. layers: for each stage one
    layer or a
    list of them. comms: name -> ranks, beside the default one. ties: (name, stages, communicator).
    Named operations: send(peer, x) recv(peer, x) wait(x) free(x) coll(comm, x) init(comm) data(x) tie(x)@comm
    STEP ZERO.
    """
    place = list(range(len(orders))) if place is None else place
    layers = layers or [layer() for _ in place]
    chain, stages = [], []
    for where, own in zip(place, layers):
        own = own if isinstance(own, list) else [own]
        stages.append(
            {"region": "r", "layers": [len(chain), len(chain) + len(own)]}
            | ({"owner": where} if isinstance(where, list) else {"rank": where})
        )
        chain += own
    communicators = ["default", *(comms or {})]
    start, names, rows, launches = [0], [], [], 0
    for text in orders:
        launch = -1
        at = 0
        while text[at:].strip():
            token = TOKEN.match(text, at)
            if not token:
                raise ValueError(f"cannot read {text[at:]!r}")
            at = token.end()
            if token["open"]:
                launch, launches = launches, launches + 1
            elif token["close"]:
                launch = -1
            else:
                rows.append(_row(token, communicators, names) + [launch])
        start.append(len(rows))
    if mbs is None:
        mbs = max((row[2] for row in rows), default=0) + 1
    columns = list(zip(*rows)) or [()] * 7
    return {
        "format": "interlock.program/1",
        "ranks": len(orders),
        "microbatches": mbs,
        "layers": chain,
        "stages": stages,
        "images": images or [1] * mbs,
        "modalities": modalities or {},
        "transfers": "inserted" if inserted else "written",
        "reductions": "written" if reductions else "inserted",
        "fragment": fragment,
        "placeholders": placeholders,
        "communicators": [{"name": "default", "ranks": list(range(len(orders)))}]
        + [{"name": name, "ranks": ranks} for name, ranks in (comms or {}).items()],
        "ties": [{"name": n, "stages": s, "comm": communicators.index(c)} for n, s, c in ties],
        "memory": memory,
        "names": names,
        "kinds": list(KINDS),
        "order": {"start": start}
        | {k: list(v) for k, v in zip(("kind", "stage", "mb", "peer", "name", "comm", "launch"), columns)},
    }


def _row(token: re.Match, communicators: list[str], names: list[str]) -> list[int]:
    comm = communicators.index(token["comm"]) if token["comm"] else 0
    if token["kind"]:
        mb = -1 if token["mb"] is None else int(token["mb"])
        return [KINDS.index(token["kind"]), int(token["stage"]), mb, -1, -1, comm]
    kind = {"data": "REDUCE_DATA", "tie": "REDUCE_TIE"}.get(token["word"], token["word"].upper())
    args = [a.strip() for a in token["args"].split(",")] if token["args"] else []
    peer = int(args.pop(0)) if kind in ("SEND", "RECV") else -1
    if kind in ("COLL", "INIT"):
        comm = communicators.index(args.pop(0))
    name = -1
    if args:
        if args[0] not in names:
            names.append(args[0])
        name = names.index(args[0])
    return [KINDS.index(kind), -1, -1, peer, name, comm]


def one_f_one_b(ranks: int, mbs: int, *, grouped: bool = True, waits: bool = True) -> list[str]:
    """1F1B with its transfers, one stage a rank; grouped: the two directions of a boundary in one launch, as
    Megatron does.
    """
    orders = []
    for r in range(ranks):
        first, last = r == 0, r == ranks - 1
        warm = min(ranks - 1 - r, mbs)
        text: list[str] = []

        def pair(*ops):
            return (
                [op for op in ops if op]
                if not grouped
                else ["{" + " ".join(filter(None, ops)) + "}"]
                if any(ops)
                else []
            )

        def receive_f(m):
            return "" if first or m >= mbs else f"{r}RECV_F{m}"

        def send_f(m):
            return "" if last else f"{r}SEND_F{m}"

        def receive_b(m):
            return "" if last else f"{r}RECV_B{m}"

        def send_b(m):
            return "" if first else f"{r}SEND_B{m}"

        for m in range(warm):
            text += [receive_f(m), f"{r}F{m}", send_f(m)]
        text.append(receive_f(warm))
        for m in range(warm, mbs):
            b = m - warm
            text += [f"{r}F{m}", *pair(send_f(m), receive_b(b)), f"{r}B{b}"]
            text += pair(send_b(b), receive_f(m + 1)) if m + 1 < mbs else [send_b(b)]
            text += [f"{r}WAIT_F{b}" if waits and not last else ""]
        for b in range(mbs - warm, mbs):
            text += [receive_b(b), f"{r}B{b}", send_b(b), f"{r}WAIT_F{b}" if waits else ""]
        text += [f"{r}WAIT_B{m}" for m in range(mbs) if waits and not first]
        orders.append(" ".join(filter(None, text)))
    return orders
