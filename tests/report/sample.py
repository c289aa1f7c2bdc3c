"""Programs with places, from the `rank r: ...` lines of a text. Enough of the language for the tests of
witness and report.
"""

from __future__ import annotations

import re

from interlock.program.build import OrderBuilder
from interlock.program.ir import Communicator, Kind, Layer, Memory, Program, Size, Stage
from interlock.text.source import Sources

LINE = re.compile(r"^\s*rank (\d+):(.*)$", re.MULTILINE)
TOKEN = re.compile(
    r"(?P<open>\{|overlap\()|(?P<close>[})])|(?P<stage>\d+)(?P<kind>[A-Z]+(?:_[FB])?)(?P<mb>\d+)?(?:@(?P<comm>\w+))?"
    r"|(?P<word>[a-zA-Z]+)(?:\((?P<args>[^)]*)\))?(?:@(?P<on>\w+))?"
)


def sample(
    text: str,
    *,
    place=None,
    comms=(),
    memory=None,
    layer=None,
    microbatches=None,
    path="vlm.sched",
    sources=None,
    **options,
):
    """(Program, Sources). `place`: the rank of each stage, by default its number; `layer`: fields of each
    layer; `comms`: (name, ranks).
    """
    sources = sources or Sources()
    source = sources.add(path, text)
    builder, names, mbs = OrderBuilder(), [], [0]
    lines = sorted(LINE.finditer(text), key=lambda m: int(m[1]))
    numbers = ["default", *(name for name, _ in comms)]
    for line in lines:
        launch = -1
        for token in TOKEN.finditer(text, line.start(2), line.end(2)):
            if token["open"]:
                launch = builder.new_launch()
                continue
            if token["close"]:
                launch = -1
                continue
            fields = dict(launch=launch, at=source.base + token.start(), width=token.end() - token.start())
            if token["kind"]:
                mb = int(token["mb"]) if token["mb"] else -1
                mbs.append(mb)
                builder.op(
                    Kind[token["kind"]],
                    int(token["stage"]),
                    mb,
                    comm=numbers.index(token["comm"] or "default"),
                    **fields,
                )
                continue
            args = [a.strip() for a in (token["args"] or "").split(",") if a.strip()]
            kind = Kind[token["word"].upper()]
            peer = int(args.pop(0)) if kind in (Kind.SEND, Kind.RECV) else -1
            comm = numbers.index(args.pop(0) if kind in (Kind.COLL, Kind.INIT) else token["on"] or "default")
            if args and args[0] not in names:
                names.append(args[0])
            builder.op(kind, peer=peer, name=names.index(args[0]) if args else -1, comm=comm, **fields)
        builder.end_rank()
    ranks = len(lines)
    place = list(range(ranks)) if place is None else place
    layers = tuple(Layer(f"l{s}", **(layer or {})) for s in range(len(place)))
    stages = tuple(Stage("llm", s, s + 1, rank=r) for s, r in enumerate(place))
    communicators = (
        Communicator("default", tuple(range(ranks))),
        *(Communicator(n, tuple(r)) for n, r in comms),
    )
    defaults = {"reductions_inserted": True}
    return Program(
        ranks,
        microbatches or max(mbs) + 1,
        layers,
        stages,
        builder.build(),
        communicators=communicators,
        names=tuple(names),
        memory=memory,
        **defaults | options,
    ), sources


def schedule(name: str, *ranks: str, head: str = "") -> str:
    """The text of a schedule with written orders."""
    return (
        f"schedule {name} {{\n{head}  order transfers written {{\n"
        + "".join(f"    rank {r}: {ops}\n" for r, ops in enumerate(ranks))
        + "  }\n}\n"
    )


GB = 1 << 30
TWO_RANKS = schedule(
    "vlm",
    "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0F2 0SEND_F2 0RECV_B1 0B1 0RECV_B2 0B2",
    "1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1 1RECV_F2 1F2 1B2 1SEND_B2",
)
LAUNCHES = schedule(
    "launches",
    "0F0 0SEND_F0 0F1 { 0SEND_F1 0RECV_B0 } 0B0 0RECV_B1 0B1",
    "1RECV_F0 1F0 { 1SEND_F0 1RECV_B0 } 1B0 { 1SEND_B0 1RECV_F1 } 1F1 1SEND_F1 1RECV_B1 1B1 1SEND_B1",
    "2RECV_F0 2F0 2RECV_F1 2F1 2B0 2SEND_B0 2B1 2SEND_B1",
)
RING = schedule("ring", "send(1, a) recv(2, c)", "send(2, b) recv(0, a)", "send(0, c) recv(1, b)")
CROSSED = schedule(
    "crossed",
    "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1",
    "1RECV_F1 1F1 1RECV_F0 1F0 1B0 1SEND_B0 1B1 1SEND_B1",
)
GPIPE = schedule(
    "gpipe",
    "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1",
    "1RECV_F0 1F0 1RECV_F1 1F1 1B0 1SEND_B0 1B1 1SEND_B1",
)
COMPUTE = (
    "schedule compute {\n  order transfers inserted {\n    rank 0: 0F0 0B0 0F1 0B1\n    rank 1: 1F1 "
    "1F0 1B0 1B1\n  }\n}\n"
)
# the way there and the way back of a V share the queue of ranks 0 and 1
VEE = schedule(
    "vee",
    "0F0 0SEND_F0 0F1 0SEND_F1 3RECV_F0 3F0 3RECV_F1 3F1 3B0 3SEND_B0 3B1 3SEND_B1 0RECV_B0 0B0 0RECV_B1 0B1",
    "1RECV_F0 1F0 2F0 2SEND_F0 1RECV_F1 1F1 2F1 2SEND_F1 2RECV_B0 2B0 1B0 1SEND_B0 2RECV_B1 2B1 1B1 1SEND_B1",
)
TIGHT = dict(
    memory=Memory((20 * GB, None)), layer=dict(weights=4 * GB, activation=Size(9 * GB), output=Size(GB))
)
