"""A run as a Chrome JSON trace for Perfetto: a process for each rank, threads for compute and transfers,
counters for memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from interlock.program.ir import Kind
from interlock.report.timeline.lanes import COMM, COMPUTE
from interlock.report.timeline.layout import Scene
from interlock.rules.memory import show_bytes

LANES = ("receives", "sends")


def render(scene: Scene) -> str:
    """JSON, one event a line.

    Times are in microseconds, with the nanoseconds behind the point (of a run in units, a unit is a
    microsecond).
    """
    events = ",\n".join(json.dumps(e, separators=(",", ":"), ensure_ascii=True) for e in _events(scene))
    said = {
        "schedule": scene.name,
        "model": scene.timeline.model,
        "verdict": scene.summary,
        **{k: v for k, v in scene.figures},
        **({"notes": list(scene.notes)} if scene.notes else {}),
    }
    return f'{{"displayTimeUnit":"ns","otherData":{json.dumps(said)},"traceEvents":[\n{events}\n]}}\n'


def _events(scene: Scene) -> Iterator[dict]:
    yield from _names(scene)
    yield from _slices(scene)
    yield from _flows(scene)
    yield from _counters(scene)


def _names(scene: Scene) -> Iterator[dict]:
    for r in range(scene.ranks):
        yield _meta("process_name", r, {"name": f"rank {r}"})
        yield _meta("process_sort_index", r, {"sort_index": r})
        lanes = sorted(
            {int(x) for x in scene.lane[slice(*scene.program.order.start[r : r + 2])] if x >= 0} | {COMPUTE}
        )
        for lane in lanes:
            yield _meta(
                "thread_name",
                r,
                {
                    "name": "compute"
                    if lane == COMPUTE
                    else LANES[lane - COMM]
                    if lane - COMM < 2
                    else f"transfers {lane}"
                },
                lane,
            )
            yield _meta("thread_sort_index", r, {"sort_index": lane}, lane)


def _meta(name: str, pid: int, args: dict, tid: int | None = None) -> dict:
    return {"ph": "M", "name": name, "pid": pid, **({"tid": tid} if tid is not None else {}), "args": args}


def _slices(scene: Scene) -> Iterator[dict]:
    p, o = scene.program, scene.program.order
    critical = set(scene.timeline.critical)
    for row in range(len(o)):
        lane = int(scene.lane[row])
        if lane < 0:
            continue
        kind, stage, mb = Kind(int(o.kind[row])), int(o.stage[row]), int(o.mb[row])
        region = p.stages[stage].region if 0 <= stage < len(p.stages) else None
        args = {
            k: v
            for k, v in (("kind", kind.name), ("stage", stage), ("microbatch", mb), ("region", region))
            if v is not None and v != -1
        }
        if row in critical:
            args["critical"] = True
        if scene.payload[row] >= 0:
            args["bytes"] = int(scene.payload[row])
        start, end = int(scene.start[row]), int(scene.end[row])
        yield {
            "ph": "X",
            "name": p.show(row),
            "cat": ("compute" if lane == COMPUTE else "transfer") + (f",{region}" if region else ""),
            "pid": int(scene.facts.rank[row]),
            "tid": lane,
            "ts": _us(start),
            "dur": _us(end - start),
            "args": args,
        }


def _flows(scene: Scene) -> Iterator[dict]:
    """An arrow from each send to its receive; `bp: e` binds it to the slice it lies in."""
    sends, receives = scene.pairs
    for number, (a, b) in enumerate(zip(sends.tolist(), receives.tolist()), 1):
        if scene.lane[a] < 0 or scene.lane[b] < 0:
            continue
        name = scene.program.show(a)
        common = {"name": name, "cat": "flow", "id": number}
        yield {
            "ph": "s",
            **common,
            "bp": "e",
            "pid": int(scene.facts.rank[a]),
            "tid": int(scene.lane[a]),
            "ts": _us(int(scene.start[a])),
        }
        yield {
            "ph": "f",
            **common,
            "bp": "e",
            "pid": int(scene.facts.rank[b]),
            "tid": int(scene.lane[b]),
            "ts": _us(max(int(scene.start[b]), int(scene.start[a]))),
        }


def _counters(scene: Scene) -> Iterator[dict]:
    name, key = ("memory", "bytes") if scene.in_bytes else ("in flight", "microbatches")
    for r, track in enumerate(scene.tracks):
        capacity = "" if track.limit is None else f" (capacity {show_bytes(track.limit)})"
        before = None
        for t, v in zip(track.time.tolist(), track.value.tolist()):
            if v != before:
                yield {
                    "ph": "C",
                    "name": name + capacity,
                    "pid": r,
                    "tid": 0,
                    "ts": _us(t),
                    "args": {key: int(v)},
                }
                before = v


def _us(ns: int) -> float | int:
    return ns // 1000 if ns % 1000 == 0 else ns / 1000
