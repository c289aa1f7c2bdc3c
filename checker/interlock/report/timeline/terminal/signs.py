"""The characters and colours that stand for things."""

from __future__ import annotations

from dataclasses import dataclass

from interlock.program.kinds import Kind
from interlock.report.timeline.palette import HUES_256

LETTERS = {Kind.F: "F", Kind.B: "B", Kind.I: "I", Kind.W: "W", Kind.LOSS: "L"}
STEP_LETTER = "S"
WORDS = {"F": "forward", "B": "backward", "I": "backward, input half", "W": "backward, weight half"}
TOO_MUCH = "38;5;166"
REVERSE = "7"
ESCAPE = "\x1b["


@dataclass(frozen=True)
class Signs:
    """Of a terminal that has more than ASCII, or of one that has not."""

    fill: dict[str, str]  # of each kind, where there are no colours
    idle: str
    levels: str  # of memory: nothing, then eight of them
    rule: str
    forward_line: str  # while a transfer lasts
    other_line: str
    send_up: str
    send_down: str
    receive_up: str
    receive_down: str
    collective: str
    tick: str
    edge: str | None  # at the left of a coloured box
    more_ranks: str
    transfers: str  # in the legend


UNICODE = Signs(
    fill={"F": "░", "I": "▒", "B": "▓", "W": "╱", "L": "•"},
    idle="·",
    levels=" ▁▂▃▄▅▆▇█",
    rule="─",
    forward_line="─",
    other_line="╌",
    send_up="▲",
    send_down="▼",
    receive_up="▿",
    receive_down="▵",
    collective="Σ",
    tick="╵",
    edge="▏",
    more_ranks="⋮",
    transfers="▼▲ sends to a higher, lower rank, ▿▵ receives",
)
ASCII = Signs(
    fill={"F": "-", "I": "+", "B": "=", "W": "/", "L": "*"},
    idle=".",
    levels=" .:-=+*#%",
    rule="-",
    forward_line="-",
    other_line="~",
    send_up="^",
    send_down="v",
    receive_up="r",
    receive_down="r",
    collective="S",
    tick="|",
    edge=None,
    more_ranks=":",
    transfers="v^ sends to a higher, lower rank, r receives",
)


def style(region: int, letter: str) -> str:
    """Select Graphic Rendition of a box."""
    light, dark = HUES_256[region % len(HUES_256)]
    styles = {
        "F": f"48;5;{light};38;5;16",
        "B": f"48;5;{dark};38;5;231",
        "I": f"48;5;{dark};38;5;231",
        "W": f"48;5;254;38;5;{dark}",
    }
    return styles.get(letter, REVERSE)


def paint(text: str, rendition: str) -> str:
    return f"{ESCAPE}{rendition}m{text}{ESCAPE}0m"
