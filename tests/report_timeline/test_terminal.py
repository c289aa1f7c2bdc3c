"""The picture in a terminal. golden/*.txt are the pictures as they stand; look at them, and update them with
--update-golden.
"""

import re

import pytest

from interlock.cli.compare import table
from interlock.report.style import display_width
from interlock.report.timeline import terminal
from report_timeline.scenes import REGIONS, SPLIT, STUCK, drawn, pipeline

CASES = {
    "small": (pipeline(), None),
    "regions": (REGIONS, None),
    "split": (SPLIT.replace("SKELETON", "zb_v"), "pair"),
    "overlaps": (SPLIT.replace("SKELETON", "dualpipev"), None),
    "stuck": (STUCK, "blocking"),
    "full": (pipeline("full", capacity="4GiB"), None),
}


@pytest.mark.parametrize("name", CASES)
def test_golden(golden, name):
    golden(f"{name}.txt", terminal.render(drawn(*CASES[name]), width=100))


def test_golden_in_ascii(golden):
    text = terminal.render(drawn(*CASES["regions"]), width=70, box=False)
    assert text.isascii()
    golden("regions_70.txt", text)


def test_golden_of_a_comparison(golden):
    scenes = [
        drawn(pipeline(), units=True),
        drawn(pipeline("gpipe", skeleton="gpipe"), units=True),
        drawn(STUCK, "blocking"),
    ]
    golden("compare.txt", terminal.compare(scenes, table(scenes), width=100))


@pytest.mark.parametrize("width", [40, 63, 80, 200])
@pytest.mark.parametrize("name", CASES)
def test_lines_fit_the_width(name, width):
    box = width != 63
    lines = terminal.render(drawn(*CASES[name]), width=width, box=box).splitlines()
    drawn_lines = [l for l in lines[3:] if l.startswith(("rank ", "      "))]
    assert drawn_lines and max(map(display_width, drawn_lines[:6])) <= width


def test_colour_is_no_more_than_colour():
    scene = drawn(pipeline(ranks=4))
    colored = terminal.render(scene, color=True)
    assert "\x1b[" in colored and "\x1b[" not in terminal.render(scene)
    assert len(re.sub("\x1b\\[[0-9;]*m", "", colored).splitlines()) == len(
        terminal.render(scene).splitlines()
    )
    assert "\x1b[48;5;25;38;5;231;1;4m" in colored  # a backward on the critical path: bold and underlined too


def test_kinds_are_told_apart_without_colour():
    text = terminal.render(drawn(SPLIT.replace("SKELETON", "zb_v")), width=160)
    assert all(
        f"{fill * 2} {word}" in text
        for fill, word in (("░", "forward"), ("▒", "backward, input half"), ("╱", "backward, weight half"))
    )


def test_ranks_beyond_the_height_are_left_out():
    text = terminal.render(drawn(pipeline(ranks=16, microbatches=16, layers=16)), height=24)
    assert "⋮ 12 more ranks" in text and "rank 0 " in text and "rank 15" in text and "rank 8" not in text
    assert len(text.splitlines()) <= 30


def test_names_cannot_steer_the_terminal():
    from dataclasses import replace

    assert "\x1b" not in terminal.render(replace(drawn(pipeline()), name="a\x1b[2Jb", summary="\x1b]0;x\x07"))
