"""Where things are: what every renderer relies on."""

import numpy as np
import pytest

from interlock.report.timeline import html, svg, terminal
from interlock.report.timeline.axis import show_time, ticks
from interlock.report.timeline.blocked import MOST_GHOSTS
from interlock.report.timeline.lanes import COMPUTE, MOST_LINES
from interlock.timing.figures import compute_figures
from report_timeline.scenes import REGIONS, SPLIT, STUCK, drawn, pipeline

SCHEDULES = [
    pipeline(),
    pipeline(ranks=4, microbatches=8),
    pipeline(ranks=4, microbatches=8, skeleton="interleaved(chunks: 2)", layers=16),
    REGIONS,
    SPLIT.replace("SKELETON", "zb_v"),
    SPLIT.replace("SKELETON", "dualpipev"),
]


@pytest.mark.parametrize("model", [None, "pair", "buffered"])
@pytest.mark.parametrize("text", SCHEDULES)
def test_boxes_of_one_line_do_not_overlap(text, model):
    scene = drawn(text, model)
    for rank in range(scene.ranks):
        a, b = scene.program.order.start[rank : rank + 2]
        lanes = scene.lane[a:b]
        for lane in set(lanes[lanes >= 0].tolist()):
            rows = a + np.flatnonzero((lanes == lane) & (scene.half[a:b] != 2))
            rows = rows[np.lexsort((scene.end[rows], scene.start[rows]))]
            assert (scene.start[rows][1:] >= scene.end[rows][:-1]).all()
        assert scene.comm_lines[rank] <= MOST_LINES


@pytest.mark.parametrize("text", SCHEDULES)
def test_bubbles_are_those_of_the_figures(text):
    scene = drawn(text, "pair")
    of = compute_figures(scene.timeline)
    assert scene.bubble_rate == pytest.approx(float(of.bubble), abs=1e-12)
    for rank, own in enumerate(of.ranks):
        mine = scene.bubbles.rank == rank
        length = (scene.bubbles.end - scene.bubbles.start)[mine]
        assert [int(length[scene.bubbles.phase[mine] == phase].sum()) for phase in range(3)] == [
            own.warmup,
            own.residual,
            own.cooldown,
        ]


@pytest.mark.parametrize("text", SCHEDULES)
def test_the_top_of_a_memory_track_is_the_peak(text):
    scene = drawn(text)
    assert len(scene.tracks) == scene.ranks
    for track, peak in zip(scene.tracks, scene.usage.peaks):
        assert track.value.max() == track.peak == peak
        assert (np.diff(track.time) > 0).all() and track.time[0] == 0


def test_memory_falls_when_an_operation_ends():
    scene = drawn(pipeline(ranks=1, microbatches=1))
    (track,) = scene.tracks
    assert track.value[-1] == scene.usage.static[0] and track.time[-1] == scene.makespan


def test_without_sizes_microbatches_in_flight_are_counted():
    scene = drawn(
        "schedule bare {\n  ranks 2\n  microbatches 3\n  order transfers inserted {\n    rank 0: 0F0 0F1 "
        "0B0 0F2 0B1 0B2\n    rank 1: 1F0 1B0 1F1 1B1 1F2 1B2\n  }\n}\n"
    )
    assert not scene.in_bytes and [t.peak for t in scene.tracks] == [2, 1]
    assert scene.unit and "no durations" in scene.notes[0] and scene.time(scene.makespan) == "12 units"


def test_regions_and_chunks():
    scene = drawn(REGIONS)
    assert scene.regions == ["backbone", "encoder"]
    scene = drawn(pipeline(skeleton="interleaved(chunks: 2)"))
    assert scene.stage_chunk == [0, 0, 1, 1]


def test_a_deadlock_keeps_what_ran_and_lists_what_never_does():
    scene = drawn(STUCK, "blocking")
    show = scene.program.show
    assert scene.walk and scene.verdict == "invalid"
    ran = {show(r) for r in np.flatnonzero(scene.start >= 0)}
    assert {"0F0", "1F0", "1B0"} <= ran and "0B0" not in ran
    assert [(g.rank, show(g.row)) for g in scene.ghosts if g.blocked] == [
        (0, "0SEND_F1"),
        (0, "0RECV_B0"),
        (1, "1SEND_B0"),
        (1, "1RECV_F1"),
    ]
    assert [(show(a), show(b)) for a, b in scene.arrows] == [
        ("0SEND_F1", "1RECV_F1"),
        ("1SEND_B0", "0RECV_B0"),
    ]
    assert max(g.slot for g in scene.ghosts) <= MOST_GHOSTS + 2
    assert dict(scene.figures)["stops at"] == "4 units"


def test_where_nothing_runs_at_all_there_is_a_picture_still():
    text = STUCK.replace(
        "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1",
        "0RECV_B0 0F0 0SEND_F0 0B0 0F1 0SEND_F1 0RECV_B1 0B1",
    )
    scene = drawn(text, "blocking")
    assert (scene.start < 0).all() and scene.makespan == 0 and {g.rank for g in scene.ghosts} == {0, 1}
    assert all("0RECV_B0" in text for text in (terminal.render(scene), svg.render(scene), html.render(scene)))


def test_what_was_drawn_runs_in_the_order_of_its_rank():
    scene = drawn(pipeline(ranks=4, microbatches=8), "pair")
    for rank in range(4):
        rows = np.arange(*scene.program.order.start[rank : rank + 2])
        rows = rows[scene.lane[rows] == COMPUTE]
        assert (np.diff(scene.start[rows]) >= 0).all()


def test_times_in_words():
    assert [show_time(t) for t in (0, 999, 1500, 2_000_000, 1_349_000_000, 77_000 * 10**9)] == [
        "0 ns",
        "999 ns",
        "1.5 us",
        "2 ms",
        "1.349 s",
        "77,000 s",
    ]
    assert show_time(1500, 1000) == "1.5 units" and show_time(1000, 1000) == "1 unit"
    assert ticks(10, 5) == [0, 2, 4, 6, 8, 10] and ticks(0, 5) == [0]
