import io

import pytest

from interlock.report.progress import Progress
from interlock.report.style import can_encode_boxes, display_width, safe, use_color


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    "env, stream, colour",
    [
        ({}, Terminal(), True),
        ({}, io.StringIO(), False),
        ({"TERM": "dumb"}, Terminal(), False),
        ({"NO_COLOR": "1"}, Terminal(), False),
        ({"NO_COLOR": "", "FORCE_COLOR": ""}, Terminal(), True),
        ({"FORCE_COLOR": "1"}, io.StringIO(), True),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, io.StringIO(), True),
        ({"FORCE_COLOR": "0"}, Terminal(), False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, Terminal(), False),
    ],
)
def test_colour(monkeypatch, env, stream, colour):
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert use_color(stream) is colour


def test_safe_texts():
    assert safe("a\tb\x1b\u202e\x85") == "a    b\\x1b\\u202e\\x85"
    assert display_width("层é") == 3 and display_width("e\u0301") == 1
    assert not can_encode_boxes(io.StringIO()) and can_encode_boxes(io.TextIOWrapper(io.BytesIO(), "utf-8"))


def drawn(stream, seconds, label="checking"):
    now = iter(seconds)
    with Progress(3, label, stream, clock=lambda: next(now)) as p:
        for _ in range(3):
            p.step("a.sched")
    return stream.getvalue()


def test_progress_appears_after_a_second_and_goes():
    told = drawn(Terminal(), [0, 0.5, 1.5, 1.5, 1.55])
    assert (
        told.startswith("\rchecking 2/3 a.sched")
        and told.count("checking") == 1
        and told.endswith("\r" + " " * 20 + "\r")
    )


def test_progress_is_silent_elsewhere(monkeypatch):
    assert drawn(io.StringIO(), [0, 5, 6, 7, 8, 9]) == ""
    assert drawn(Terminal(), [0, 0.1, 0.2, 0.3]) == ""
    monkeypatch.setenv("TERM", "dumb")
    assert drawn(Terminal(), [0, 5, 6, 7, 8, 9]) == ""


def test_progress_goes_after_an_interrupt():
    stream, now = Terminal(), iter([0, 2, 2])
    with pytest.raises(KeyboardInterrupt), Progress(3, "checking", stream, clock=lambda: next(now)) as p:
        p.step()
        raise KeyboardInterrupt
    assert stream.getvalue().endswith("\r")
