"""Colours that the colour-blind tell apart (Okabe and Ito), a light and a dark one of one hue for each
region.
"""

from __future__ import annotations

REGIONS = (
    ("#56b4e9", "#0072b2"),
    ("#e69f00", "#c04f00"),
    ("#6fcfae", "#007a58"),
    ("#e3a9c8", "#a8497d"),
    ("#f0e442", "#8a7f00"),
    ("#b8bec9", "#5b6472"),
)
HUES_256 = ((74, 25), (214, 166), (79, 29), (182, 132), (227, 100), (250, 241))  # the same for terminals
STOP = "#d1242f"
OTHER_TRANSFER = "#7b8494"  # neither forward nor backward


def mix(a: str, b: str, part: float) -> str:
    """`part` of b in a."""
    return "#" + "".join(f"{round(x + (y - x) * part):02x}" for x, y in zip(_rgb(a), _rgb(b)))


def ink(fill: str) -> str:
    """Black or white, whichever is easier to read on a fill."""
    light = _luminance(fill)
    return "#ffffff" if 1.05 / (light + 0.05) > (light + 0.05) / 0.05 else "#000000"


def fills(region: int, whole: bool = True) -> dict[str, str]:
    """F light, B dark, I between (or dark where no backward is `whole`); W the tint that dark lines are
    drawn on (`line`).
    """
    light, dark = REGIONS[region % len(REGIONS)]
    return {
        "F": light,
        "I": mix(light, dark, 0.65) if whole else dark,
        "B": dark,
        "W": mix(light, "#ffffff", 0.6),
        "line": dark,
    }


def _rgb(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def _luminance(color: str) -> float:
    linear = [
        c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in (x / 255 for x in _rgb(color))
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
