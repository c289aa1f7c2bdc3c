"""The trace: what ui.perfetto.dev asks of a Chrome JSON trace."""

import json
from collections import defaultdict

import pytest

from interlock.report.timeline import perfetto
from report_timeline.scenes import REGIONS, SPLIT, STUCK, drawn, pipeline

CASES = [
    (pipeline(), None),
    (pipeline(ranks=4, microbatches=8), "pair"),
    (REGIONS, None),
    (REGIONS, "buffered"),
    (SPLIT.replace("SKELETON", "dualpipev"), None),
    (STUCK, "blocking"),
]


def events(text, model):
    return json.loads(
        perfetto.render(drawn(text, model)), parse_constant=lambda c: pytest.fail(f"{c} is no JSON")
    )["traceEvents"]


@pytest.mark.parametrize("text, model", CASES)
def test_slices_of_a_thread_nest(text, model):
    threads = defaultdict(list)
    for e in events(text, model):
        if e["ph"] == "X":
            threads[e["pid"], e["tid"]].append((round(e["ts"] * 1000), round((e["ts"] + e["dur"]) * 1000)))
    assert threads
    for slices in threads.values():
        open_ = []
        for start, end in sorted(slices, key=lambda x: (x[0], -x[1])):
            while open_ and open_[-1] <= start:
                open_.pop()
            assert not open_ or end <= open_[-1]
            open_.append(end)


@pytest.mark.parametrize("text, model", CASES)
def test_an_arrow_goes_from_each_send_to_its_receive(text, model):
    found = events(text, model)
    slices = {(e["pid"], e["tid"], e["ts"]): e["name"] for e in found if e["ph"] == "X" and e["tid"]}
    starts, ends = ({e["id"]: e for e in found if e["ph"] == ph} for ph in "sf")
    assert starts.keys() == ends.keys() and len(starts) == sum(e["ph"] == "s" for e in found)
    assert all(e["bp"] == "e" for e in [*starts.values(), *ends.values()])
    for number, a in starts.items():
        b = ends[number]
        assert a["pid"] != b["pid"] and a["ts"] <= b["ts"]
        assert (a["pid"], a["tid"], a["ts"]) in slices and (b["pid"], b["tid"], b["ts"]) in slices


def test_ranks_are_processes_and_compute_has_a_thread_of_its_own():
    found = events(*CASES[1])
    names = {
        (e["pid"], e.get("tid")): e["args"]["name"]
        for e in found
        if e["ph"] == "M" and e["name"].endswith("_name")
    }
    assert {names[r, None] for r in range(4)} == {f"rank {r}" for r in range(4)}
    assert names[0, 0] == "compute" and {names[0, 1], names[0, 2]} == {"receives", "sends"}
    order = {
        (e["pid"], e.get("tid")): e["args"]["sort_index"]
        for e in found
        if e["ph"] == "M" and e["name"].endswith("sort_index")
    }
    assert [order[r, None] for r in range(4)] == [0, 1, 2, 3] and order[2, 0] < order[2, 1]
    compute = {e["args"]["kind"] for e in found if e["ph"] == "X" and e["tid"] == 0}
    assert compute <= {"F", "B", "I", "W", "LOSS", "STEP"}


def test_times_keep_their_nanoseconds():
    scene = drawn(pipeline(), "pair")
    rows = {(int(scene.facts.rank[r]), scene.program.show(r)): r for r in range(len(scene.program.order))}
    for e in json.loads(perfetto.render(scene))["traceEvents"]:
        if e["ph"] == "X":
            row = rows[e["pid"], e["name"]]
            assert (
                round(e["ts"] * 1000) == scene.start[row]
                and round(e["dur"] * 1000) == scene.end[row] - scene.start[row]
            )


def test_memory_is_a_counter_of_each_rank():
    scene = drawn(pipeline())
    found = [e for e in json.loads(perfetto.render(scene))["traceEvents"] if e["ph"] == "C"]
    assert {e["name"] for e in found} == {"memory (capacity 16 GiB)"}
    assert [max(e["args"]["bytes"] for e in found if e["pid"] == r) for r in range(2)] == [
        t.peak for t in scene.tracks
    ]
    assert {e["name"] for e in events(*CASES[5]) if e["ph"] == "C"} == {"in flight"}
