"""Numbers and units: exact, rounded up, refused with the unit that was meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.text.quantities import LARGEST, UNITS, NumberError, read_amount, read_int
from language.support import codes, diagnostics, schedule


@pytest.mark.parametrize(
    "text, expected",
    [
        ("1.6ms", (1_600_000, "time")),
        ("0.4ms", (400_000, "time")),
        ("20us", (20_000, "time")),
        ("2s", (2 * 10**9, "time")),
        ("7ns", (7, "time")),
        ("0.3ns", (1, "time")),
        ("1.0000001us", (1001, "time")),
        ("96MiB", (96 * 2**20, "bytes")),
        ("0.4GiB", (429_496_730, "bytes")),
        ("5GB", (5 * 10**9, "bytes")),
        ("0.1B", (1, "bytes")),
        ("1_000B", (1000, "bytes")),
        ("200GB/s", (200 * 10**9, "bytes/s")),
        ("3.2TFLOP", (3_200 * 10**9, "flop")),
        ("20PFLOP/s", (20 * 10**15, "flop/s")),
    ],
)
def test_amounts(text, expected):
    amount = read_amount(text)
    assert (amount.value, amount.dimension, amount.scale) == (*expected, 1)


@pytest.mark.parametrize(
    "text, value, scale, dimension",
    [("15%", 3, 20, "percent"), ("12.5%", 1, 8, "percent"), ("1.5", 3, 2, "number"), ("8", 8, 1, "number")],
)
def test_shares_and_plain_numbers_stay_exact(text, value, scale, dimension):
    amount = read_amount(text)
    assert (amount.value, amount.scale, amount.dimension) == (value, scale, dimension)


@pytest.mark.parametrize(
    "text, code, help",
    [
        ("3parsecs", "IL102", "units: ns"),
        ("3MS", "IL102", "`ms`"),
        ("3gib", "IL102", "`GiB`"),
        ("3µs", "IL102", "`us`"),
        ("3G", "IL102", "`GiB`"),
        ("2q", "IL102", "2 * q"),
        ("9007199254740993", "IL104", "2^53"),
        ("99999999999s", "IL104", "2^53"),
        ("1" * 100_000, "IL104", "2^53"),
        ("1." + "3" * 19, "IL104", "round"),
    ],
)
def test_amounts_refused(text, code, help):
    with pytest.raises(NumberError) as e:
        read_amount(text)
    assert e.value.code == code and help in e.value.help and len(e.value.message) < 120


@pytest.mark.parametrize(
    "text, code", [("4ms", "IL102"), ("1.5", "IL102"), ("9007199254740993", "IL104"), ("9" * 5000, "IL104")]
)
def test_whole_numbers_refused(text, code):
    with pytest.raises(NumberError) as e:
        read_int(text)
    assert e.value.code == code


def test_whole_numbers():
    assert (
        read_int("0") == 0
        and read_int("1_000") == 1000
        and read_int("0007") == 7
        and read_int(str(LARGEST)) == LARGEST
    )


@given(st.integers(0, 10**6), st.integers(0, 999_999), st.sampled_from(sorted(UNITS)))
def test_an_amount_is_the_least_integer_not_below(whole, micro, unit):
    dimension, factor = UNITS[unit]
    try:
        amount = read_amount(f"{whole}.{micro:06}{unit}")
    except NumberError as e:
        assert e.code == "IL104"
        return
    exact = (whole * 10**6 + micro) * factor
    if dimension in ("percent", "number"):
        assert amount.value * 10**6 * (100 if dimension == "percent" else 1) == exact * amount.scale
    else:
        assert (amount.value - 1) * 10**6 < exact <= amount.value * 10**6


@pytest.mark.parametrize(
    "statement, message",
    [
        ("memory { capacity 3ms }", "expected a size such as `96MiB` after `capacity`, not `3ms`"),
        (
            "memory { optimizer 8GiB per weight byte }",
            "expected a number without a unit after `optimizer`, not `8GiB`",
        ),
        ("link { latency 3 }", "expected a duration such as `1.6ms` after `latency`, not `3`"),
        ("link { bandwidth 3GiB }", "expected a rate such as `200GB/s` after `bandwidth`, not `3GiB`"),
        (
            "device { peak_flops 3TFLOP }",
            "expected a rate such as `989TFLOP/s` after `peak_flops`, not `3TFLOP`",
        ),
        (
            "model { layer a { flops 3ms } }",
            "expected an amount of work such as `3.2TFLOP` after `flops`, not `3ms`",
        ),
        ("communicator c = ranks 3..1", "`3..1` is empty"),
        ("model { layer a { forward 1ms } } assume a.forward in [9ms, 2ms]", "this interval is empty"),
        ("images [1ms]", "`1ms`: a whole number has no unit"),
        ("model { layers a[0] { } }", "`layers 0`: expected at least 1"),
    ],
)
def test_the_unit_must_fit_its_place(statement, message):
    text = f"schedule s {{ ranks 1 microbatches 1 {statement} }}"
    (found,), _ = diagnostics(text)
    assert (found.code, found.message) == ("IL102", message)


def test_zero_needs_no_unit():
    assert (
        schedule("model { layer a { forward 0  activation 0 } }")
        .model.items[0]
        .get("activation")
        .value.dimension
        == "bytes"
    )


def test_a_skeleton_has_no_units():
    assert codes("skeleton s(P) sharded { rank r { F(3ms) } }") == ["IL102"]
    assert codes("skeleton s(P) sharded { rank r { F(1.5) } }") == ["IL102"]
