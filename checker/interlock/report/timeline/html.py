"""A run as one page that needs nothing else: the data in columns, a script that draws them on a canvas."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from string import Template

import numpy as np

from interlock.program.ir import Kind
from interlock.report.timeline.layout import Scene
from interlock.report.timeline.palette import REGIONS, fills, ink
from interlock.rules.memory import show_bytes
from interlock.witness.story import name

MOST_CHARACTERS = 4_000_000  # of source lines that go into a page
_PAGE = Path(__file__).with_name("page")
_SCRIPTS = (
    "data",
    "colours",
    "view",
    "draw",
    "arrows",
    "pointer",
    "search",
    "input",
)  # one scope, in this order


def render(scene: Scene) -> str:
    """The page of one run."""
    badge = f'<span class="badge {escape(scene.verdict)}">{escape(scene.verdict)}</span>'
    return _page(
        [scene], scene.headline, badge, scene.summary, _figures(scene), "", _cycle(scene), _ranks(scene)
    )


def compare(scenes: Sequence[Scene], table: Sequence[Sequence[str]]) -> str:
    """The page of several runs over one axis of time, with their table."""
    names = ", ".join(s.name for s in scenes)
    return _page(
        scenes,
        f"{len(scenes)} schedules compared",
        "",
        names,
        "",
        _table(table),
        "",
        "".join(f"<h3>{escape(s.name)}</h3>{_ranks(s)}" for s in scenes),
    )


def _page(
    scenes: Sequence[Scene],
    heading: str,
    badge: str,
    summary: str,
    figures: str,
    table: str,
    cycle: str,
    ranks: str,
) -> str:
    notes = list(dict.fromkeys(n for s in scenes for n in s.notes))
    return Template(_read("page.html")).substitute(
        title=escape(f"{heading} - Interlock"),
        heading=escape(heading),
        badge=badge,
        summary=escape(summary),
        figures=figures,
        table=table,
        cycle=cycle,
        ranks=ranks,
        notes=f'<p class="notes">{"<br>".join(map(escape, notes))}</p>' if notes else "",
        css=_read("page.css"),
        js="".join(_read(f"{name}.js") for name in _SCRIPTS),
        label=escape(
            f"Timeline of {heading}. {summary}. " + ", ".join(f"{k} {v}" for k, v in scenes[0].figures)
        ),
        data=_json(data(scenes)),
    )


def _read(file: str) -> str:
    return (_PAGE / file).read_text(encoding="utf-8")


def data(scenes: Sequence[Scene]) -> dict:
    """What the script draws."""
    whole = any(s.has_whole_backward for s in scenes)
    palette = [
        {**fills(i, whole), **{f"ink{k}": ink(fills(i, whole)[k]) for k in "FIB"}}
        for i in range(len(REGIONS))
    ]
    return {
        "format": "interlock.picture/1",
        "kinds": [k.name for k in Kind],
        "palette": palette,
        "scenes": [_scene(s) for s in scenes],
    }


def _json(value: dict) -> str:
    """JSON that may stand in a script element: no character ends it."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode("utf-8", "replace").decode("utf-8")


def _scene(scene: Scene) -> dict:
    p, o = scene.program, scene.program.order
    payloads, payload = np.unique(scene.payload.astype(np.float64), return_inverse=True)
    payload = np.where(scene.payload.astype(np.float64) < 0, -1, payload)
    place, spans, texts = _places(scene)
    columns = {
        "kind": o.kind,
        "stage": o.stage,
        "mb": o.mb,
        "peer": o.peer,
        "name_": o.name,
        "comm": o.comm,
        "start": scene.start,
        "end": scene.end,
        "lane": scene.lane,
        "half": scene.half,
        "payload": payload,
        "place": place,
    }
    b, (sends, receives) = scene.bubbles, scene.pairs
    return {
        "name": scene.name,
        "verdict": scene.verdict,
        "ranks": scene.ranks,
        "makespan": scene.makespan,
        "makespanText": ("stops at " if scene.walk else "") + scene.time(scene.makespan),
        "unit": scene.unit,
        "regions": scene.regions,
        "stages": [
            [r, c, _layers(p, s)] for s, (r, c) in enumerate(zip(scene.stage_region, scene.stage_chunk))
        ],
        "names": list(p.names),
        "comms": [c.name for c in p.communicators],
        "columns": {k: _column(v) for k, v in columns.items()},
        "first": _column(o.start),
        "payloads": payloads.tolist(),
        "path": _column(np.array(scene.timeline.critical, dtype=np.int64)),
        "marks": list(scene.marks),
        "sends": _column(sends),
        "receives": _column(receives),
        "lines": scene.comm_lines,
        "inBytes": scene.in_bytes,
        "most": scene.memory_top,
        "tracks": [
            {"time": _column(t.time), "value": _column(t.value), "peak": t.peak, "limit": t.limit}
            for t in scene.tracks
        ],
        "bubbles": {
            "rank": _column(b.rank),
            "start": _column(b.start),
            "end": _column(b.end),
            "phase": _column(b.phase),
        },
        "ghosts": [[g.rank, g.slot, g.row, int(g.blocked), g.skipped] for g in scene.ghosts],
        "arrows": [list(map(int, a)) for a in scene.arrows],
        "spans": spans,
        "texts": texts,
    }


def _column(values: np.ndarray) -> dict:
    """A column as base64 of the smallest little-endian type that holds it, or as its one value."""
    values = np.asarray(values)
    if (
        len(values)
        and (values == values[0]).all()
        and float(values[0]).is_integer()
        and abs(values[0]) < 1 << 31
    ):
        return {"v": int(values[0]), "n": len(values)}
    low, high = (values.min(), values.max()) if len(values) else (0, 0)
    if values.dtype.kind == "f":
        kind = "<f8"
    else:
        kind = next(
            (
                k
                for k, most in (("i1", 1 << 7), ("<i2", 1 << 15), ("<i4", 1 << 31))
                if -most <= low and high < most
            ),
            "<f8",
        )
    return {"t": kind[-2:], "b": base64.b64encode(values.astype(kind).tobytes()).decode("ascii")}


def _layers(program, stage: int) -> str:
    s = program.stages[stage]
    names = list(dict.fromkeys(layer.name for layer in program.layers[s.first : s.last]))
    if s.last - s.first > 1:
        return (
            f"{names[0]} to {names[-1]}, {s.last - s.first} layers"
            if len(names) > 1
            else f"{s.last - s.first} layers {names[0]}"
        )
    return names[0] if names else ""


def _places(scene: Scene) -> tuple[np.ndarray, list, list]:
    """Where each operation is written: a number of `spans` (line, column, width), whose line is a number of
    `texts` (file, number, text).
    """
    o = scene.program.order
    place = np.full(len(o), -1, dtype=np.int64)
    if scene.sources is None or not len(o):
        return place, [], []
    pairs, index = np.unique(np.stack([o.at, o.width]), axis=1, return_inverse=True)
    spans, texts, lines, number = [], [], {}, np.full(pairs.shape[1], -1)
    left = MOST_CHARACTERS
    for i, (at, width) in enumerate(pairs.T.tolist()):
        source = scene.sources.of(at) if at >= 0 else None
        if source is None:
            continue
        line, column = source.line_column(at)
        key = (source.name, line)
        if key not in lines:
            text = source.line(line)
            if len(text) > left:
                continue
            left -= len(text)
            lines[key] = len(texts)
            texts.append([source.name, line, text])
        number[i] = len(spans)
        spans.append([lines[key], column - 1, width])
    return number[index.reshape(-1)], spans, texts


# ---- the parts that are plain HTML -----------------------------------------------------------------


def _figures(scene: Scene) -> str:
    return (
        '<dl class="figures">'
        + "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in scene.figures)
        + "</dl>"
    )


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    return (
        f'<div class="wide"><table class="data"><thead>{_table_row(head, "th")}</thead><tbody>'
        + "".join(_table_row(row, "td") for row in body)
        + "</tbody></table></div>"
    )


def _table_row(cells: Sequence[str], tag: str) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"


def _ranks(scene: Scene) -> str:
    """Busy and idle time, and peak, of each rank: the picture for those who cannot see it."""
    rows = [["rank", "compute", "idle", "bubble", "peak memory" if scene.in_bytes else "in flight", ""]]
    b = scene.bubbles
    for r in range(scene.ranks):
        used = int((scene.busy[r][:, 1] - scene.busy[r][:, 0]).sum())
        mine = b.rank == r
        bubble = int((b.end[mine] - b.start[mine]).sum())
        track = scene.tracks[r] if scene.tracks else None
        peak = "" if track is None else show_bytes(track.peak) if scene.in_bytes else str(track.peak)
        over = track is not None and track.limit is not None and track.peak > track.limit
        rows.append(
            [
                str(r),
                scene.time(used),
                scene.time(scene.makespan - used),
                f"{bubble / scene.makespan:.1%}" if scene.makespan else "",
                peak,
                f"over its capacity of {show_bytes(track.limit)}" if over else "",
            ]
        )
    return _table(rows)


def _cycle(scene: Scene) -> str:
    if not scene.circle:
        return ""
    items = []
    for leg, after in zip(scene.circle, scene.circle[1:] + scene.circle[:1]):
        what, needs, late = (name(scene.program, ("op", row)) for row in (leg.stop, after.owed, after.stop))
        why = f", which comes after {late}" if after.stop != after.owed else ""
        items.append(
            f'<li><button type="button" data-row="{leg.stop}">rank {leg.rank}: {escape(what)} waits for '
            f"{escape(needs)} of rank {after.rank}{escape(why)}</button></li>"
        )
    return (
        '<section class="cycle" aria-label="The circle of waits"><h2>Why it '
        f"stops</h2><ol>{''.join(items)}</ol></section>"
    )
