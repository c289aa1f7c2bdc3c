"""The still picture: golden/small.svg is one; look at it in a browser."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from command import ROOT
from interlock.report.timeline import svg
from report_timeline.scenes import REGIONS, SPLIT, STUCK, drawn, pipeline

SVG = "{http://www.w3.org/2000/svg}"


def texts(picture: str) -> list[str]:
    return ["".join(e.itertext()) for e in ET.fromstring(picture).iter(f"{SVG}text")]


def test_golden(golden):
    golden("small.svg", svg.render(drawn(pipeline()), width=640))


def test_the_picture_of_the_readme(golden):
    """examples/vlm.svg is `interlock show examples/vlm.sched -o examples/vlm.svg`."""
    picture = svg.render(drawn((ROOT / "examples" / "vlm.sched").read_text(encoding="utf-8")))
    golden(ROOT / "examples" / "vlm.svg", picture)


def test_golden_of_a_deadlock(golden):
    golden("stuck.svg", svg.render(drawn(STUCK, "blocking"), width=900))


@pytest.mark.parametrize(
    "text, model",
    [
        (REGIONS, None),
        (SPLIT.replace("SKELETON", "zb_v"), "pair"),
        (SPLIT.replace("SKELETON", "dualpipev"), None),
        (STUCK, "blocking"),
        (pipeline(capacity="4GiB"), None),
    ],
)
def test_it_is_xml_that_needs_nothing_else(text, model):
    picture = svg.render(drawn(text, model))
    root = ET.fromstring(picture)
    assert root.get("role") == "img" and root.find(f"{SVG}title").text and root.find(f"{SVG}desc").text
    assert not re.search(r"<script|<image|href|@import|url\((?!#)", picture)
    assert "nan" not in picture.lower() and "inf" not in re.sub("[a-z]*inf[a-z]*", "", picture)


def test_text_is_text():
    found = texts(svg.render(drawn(pipeline())))
    assert {"rank 0", "rank 1", "0F0", "1B3", "critical path", "forward", "backward"} <= set(found)
    assert any(t.startswith("peak ") and "of 16 GiB" in t for t in found)


def test_a_deadlock_has_its_circle():
    found = texts(svg.render(drawn(STUCK, "blocking")))
    assert {"0SEND_F1", "1RECV_F1", "1SEND_B0", "0RECV_B0", "1", "2", "here nothing moves any more"} <= set(
        found
    )
    assert "critical path" not in found


def test_of_many_ranks_the_middle_is_left_out():
    picture = svg.render(drawn(pipeline(ranks=40, microbatches=2, layers=40)))
    assert (
        "9 more ranks" in texts(picture) and "rank 39" in texts(picture) and "rank 20" not in texts(picture)
    )


def test_many_operations_make_no_large_file():
    assert len(svg.render(drawn(pipeline(microbatches=3000)))) < 500_000


def test_names_are_escaped():
    picture = svg.render(replace(drawn(pipeline()), name="<b>&\x00", summary='"</svg>'))
    assert ET.fromstring(picture).find(f"{SVG}title").text.startswith("<b>&\ufffd:")
