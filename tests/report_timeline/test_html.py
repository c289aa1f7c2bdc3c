"""The page as text. What it does in a browser is in test_page.py."""

import base64
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from interlock.cli.compare import table
from interlock.report.timeline import html
from interlock.report.timeline.palette import REGIONS as COLORS
from interlock.report.timeline.palette import fills, ink
from report_timeline.scenes import REGIONS, SPLIT, STUCK, drawn, pipeline

VOID = {"meta", "input", "br"}


class Elements(HTMLParser):
    """Checks that elements nest, and keeps what is looked at."""

    def __init__(self, text):
        super().__init__()
        self.open, self.found, self.data = [], [], None
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, text):
        if self.open and self.open[-1] == ("script", {"type": "application/json", "id": "data"}):
            self.data = json.loads(text)


def column(c) -> np.ndarray:
    return (
        np.full(c["n"], c["v"]) if "v" in c else np.frombuffer(base64.b64decode(c["b"]), dtype="<" + c["t"])
    )


@pytest.mark.parametrize(
    "text, model",
    [
        (pipeline(), None),
        (REGIONS, "pair"),
        (SPLIT.replace("SKELETON", "dualpipev"), None),
        (STUCK, "blocking"),
    ],
)
def test_the_data_are_the_timeline(text, model):
    scene = drawn(text, model)
    (found,) = Elements(html.render(scene)).data["scenes"]
    o = scene.program.order
    for name, values in (
        ("kind", o.kind),
        ("stage", o.stage),
        ("mb", o.mb),
        ("start", scene.start),
        ("end", scene.end),
        ("lane", scene.lane),
    ):
        assert (column(found["columns"][name]) == values).all()
    assert (column(found["first"]) == o.start).all() and column(found["path"]).tolist() == list(
        scene.timeline.critical
    )
    for track, own in zip(found["tracks"], scene.tracks):
        assert (column(track["time"]) == own.time).all() and (column(track["value"]) == own.value).all()


def test_columns_keep_large_times():
    big = np.array([-1, 2**52, 2**40 + 1])
    assert (column(html._column(big)) == big).all()
    assert (
        html._column(np.array([7, 7])) == {"v": 7, "n": 2} and html._column(np.array([0, 200]))["t"] == "i2"
    )


def test_it_needs_nothing_else():
    page = html.render(drawn(pipeline()))
    parsed = Elements(page)
    assert [t for t, a in parsed.found if "src" in a or "href" in a] == []
    assert not re.search(r"https?://|@import|url\(|fetch\(|XMLHttpRequest|import\(", page)
    assert (
        "meta",
        {"name": "viewport", "content": "width=device-width, initial-scale=1, viewport-fit=cover"},
    ) in parsed.found
    canvas = next(a for t, a in parsed.found if t == "canvas")
    assert canvas["tabindex"] == "0" and canvas["aria-label"].startswith("Timeline of small: 2 ranks")
    assert "<title>small: 2 ranks, 4 microbatches, transfers at once - Interlock</title>" in page


def test_names_cannot_end_the_script():
    evil = "</script><script>alert(1)</script><!--\u2028${x}$title"
    page = html.render(replace(drawn(pipeline()), name=evil, summary=evil, notes=(evil,)))
    parsed = Elements(page)
    assert parsed.data["scenes"][0]["name"] == evil
    assert sum(t == "script" for t, _ in parsed.found) == 2 and "<!--" not in page


def test_source_lines_stand_with_their_operations():
    scene = drawn(STUCK, "blocking")
    (found,) = Elements(html.render(scene)).data["scenes"]
    place = column(found["columns"]["place"])
    for row in range(len(place)):
        line, col, width = found["spans"][place[row]]
        assert found["texts"][line][2][col : col + width] == scene.program.show(row)


def test_the_figures_of_each_rank_are_in_a_table():
    page = html.render(drawn(pipeline(capacity="4GiB")))
    assert "over its capacity of 4 GiB" in page and '<span class="badge invalid">invalid</span>' in page
    assert "Why it stops" in html.render(drawn(STUCK, "blocking"))


def test_a_comparison_has_one_table_and_all_scenes():
    scenes = [drawn(pipeline()), drawn(pipeline("gpipe", skeleton="gpipe"))]
    parsed = Elements(html.compare(scenes, table(scenes)))
    assert [s["name"] for s in parsed.data["scenes"]] == ["small", "gpipe"]


def test_colours_can_be_read_and_told_apart():
    def luminance(color):
        linear = [
            c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4
            for c in (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
        ]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    def contrast(a, b):
        high, low = sorted((luminance(a), luminance(b)), reverse=True)
        return (high + 0.05) / (low + 0.05)

    for region in range(len(COLORS)):
        f = fills(region)
        assert all(contrast(f[k], ink(f[k])) >= 4.5 for k in "FIB")
        assert contrast(f["F"], f["B"]) > 1.7  # forward and backward differ in lightness, not in hue alone
