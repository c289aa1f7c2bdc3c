"""Numbers with units to exact integers of the base unit: nanoseconds, bytes, flop
(spec/language.md, IL102).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

LARGEST = 2**53  # every integer of a file; what JSON readers keep exact
LARGEST_FLOP = 2**63  # operations and operations a second: 10 PFLOP/s is above 2**53

_BINARY = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_DECIMAL = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SIZES = {"B": 1} | _BINARY | _DECIMAL
_FLOP = {"FLOP": 1, "KFLOP": 10**3, "MFLOP": 10**6, "GFLOP": 10**9, "TFLOP": 10**12, "PFLOP": 10**15}

UNITS: dict[str, tuple[str, int]] = (
    {u: ("time", n) for u, n in {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}.items()}
    | {u: ("bytes", n) for u, n in _SIZES.items()}
    | {u + "/s": ("bytes/s", n) for u, n in _SIZES.items()}
    | {u: ("flop", n) for u, n in _FLOP.items()}
    | {u + "/s": ("flop/s", n) for u, n in _FLOP.items()}
    | {"%": ("percent", 1), "": ("number", 1)}
)

PHRASE = {
    "time": "a duration such as `1.6ms`",
    "bytes": "a size such as `96MiB`",
    "bytes/s": "a rate such as `200GB/s`",
    "flop": "an amount of work such as `3.2TFLOP`",
    "flop/s": "a rate such as `989TFLOP/s`",
    "percent": "a share such as `15%`",
    "number": "a number without a unit",
    "int": "a whole number",
}
WRITTEN_UNITS = {
    "time": "ns us ms s",
    "bytes": "B KiB MiB GiB TiB KB MB GB TB",
    "bytes/s": "a size and `/s`: MB/s GB/s TB/s GiB/s",
    "flop": "FLOP KFLOP MFLOP GFLOP TFLOP PFLOP",
    "flop/s": "GFLOP/s TFLOP/s PFLOP/s",
    "percent": "%",
}

DIMENSION = {
    "forward": "time",
    "backward": "time",
    "backward_input": "time",
    "backward_weight": "time",
    "activation": "bytes",
    "until_weight": "bytes",
    "output": "bytes",
    "weights": "bytes",
    "workspace": "bytes",
    "hbm_bytes": "bytes",
    "flops": "flop",
    "parameters": "number",
    "vocabulary": "number",
    "tokens": "number",
    "capacity": "bytes",
    **{f"{part} per weight byte": "number" for part in ("gradient", "master", "optimizer")},
    **{f"{part} per parameter": "bytes" for part in ("weights", "gradient", "master", "optimizer")},
    "logits per vocabulary entry": "bytes",
    "overhead": "time",
    "overlap": "time",
    "speed": "number",
    "latency": "time",
    "bandwidth": "bytes/s",
    "peak_flops": "flop/s",
    "hbm_bandwidth": "bytes/s",
}

_NUMBER = re.compile(r"([0-9][0-9_]*)(?:\.([0-9]+))?(.*)", re.DOTALL)


@dataclass
class NumberError(Exception):
    """code IL102 or IL104; the wording is complete but for its place."""

    code: str
    message: str
    help: str


@dataclass(frozen=True)
class Amount:
    value: int
    dimension: str
    scale: int = 1


def _split(text: str) -> tuple[str, str | None, str]:
    """The whole number, the decimals if there are any, and the unit."""
    match = _NUMBER.fullmatch(text)
    assert match is not None, text  # the lexer lets nothing else through
    return match[1], match[2], match[3]


def read_int(text: str, limit: int = LARGEST) -> int:
    """A whole number without a unit. Raises NumberError."""
    whole, fraction, unit = _split(text)
    if unit:
        raise NumberError(
            "IL102",
            f"`{_shown(text)}`: a whole number has no unit",
            f"write `{_shown(whole)}`{_not_times(unit)}",
        )
    if fraction is not None:
        raise NumberError(
            "IL102",
            f"`{_shown(text)}` is no whole number",
            "ranks, microbatches, stages and indices are whole",
        )
    return _bounded(_digits(whole), text, limit)


def read_amount(text: str) -> Amount:
    """A number with its unit: rounded up to the base unit, except `percent` and `number`, which stay
    fractions.
    """
    whole, fraction, unit = _split(text)
    if unit not in UNITS:
        raise NumberError("IL102", f"unknown unit `{_shown(unit)}` in `{_shown(text)}`", _unit_help(unit))
    dimension, factor = UNITS[unit]
    if fraction is not None and len(fraction) > 18:
        raise NumberError(
            "IL104",
            f"`{_shown(text)}` has more than 18 decimals",
            "round it: times are kept in whole nanoseconds",
        )
    value = Fraction(_digits(whole))
    if fraction:
        value += Fraction(int(fraction), 10 ** len(fraction))
    value *= factor
    if dimension == "percent":
        value /= 100
    limit = LARGEST_FLOP if dimension in ("flop", "flop/s") else LARGEST
    _bounded(-(-value.numerator // value.denominator), text, limit)
    if dimension in ("percent", "number"):
        return Amount(value.numerator, dimension, value.denominator)
    return Amount(-(-value.numerator // value.denominator), dimension)


def _digits(text: str) -> int:
    digits = text.replace("_", "").lstrip("0")
    if len(digits) > 20:
        return LARGEST_FLOP + 1  # beyond every limit; int() of a million digits takes minutes
    return int(digits or "0")


def _bounded(value: int, text: str, limit: int) -> int:
    if value > limit:
        bound = {LARGEST: "2^53", LARGEST_FLOP: "2^63"}.get(limit, str(limit))
        raise NumberError(
            "IL104", f"`{_shown(text)}` is too large", f"the largest value here is {bound}, in the base unit"
        )
    return value


def _unit_help(unit: str) -> str:
    folded = {u.lower(): u for u in UNITS}
    near = folded.get(unit.lower()) or {
        "sec": "s",
        "usec": "us",
        "µs": "us",
        "μs": "us",
        "msec": "ms",
        "gb/sec": "GB/s",
        "flops": "FLOP",
        "tflops": "TFLOP",
        "g": "GiB",
        "m": "MiB",
        "k": "KiB",
    }.get(unit.lower())
    units = (
        "units: ns us ms s; B KiB MiB GiB TiB, KB MB GB TB, and these `/s`; FLOP to PFLOP, and these `/s`; %"
    )
    return f"did you mean `{near}`? {units}" if near else units + _not_times(unit)


def _not_times(unit: str) -> str:
    return (
        f"; a product is written with `*`: `2 * {unit}`"
        if unit.isidentifier() and len(unit) <= 4 and unit not in UNITS
        else ""
    )


def _shown(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."
