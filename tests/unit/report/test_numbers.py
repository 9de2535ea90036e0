import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.report import formatting as numbers


@pytest.mark.parametrize(
    ("per_s", "text"),
    [(46.2, "46.2"), (53.0, "53.0"), (0.35, "0.35"), (0.0042, "0.004"), (0.0, "0"), (1204.4, "1204"), (999.97, "1000")],
)
def test_a_rate_shows_the_digits_that_matter_at_its_size(per_s: float, text: str) -> None:
    assert numbers.rate(per_s) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 ms"),
        (0.0069, "6.9 ms"),
        (0.31, "310 ms"),
        (0.9996, "1 s"),
        (1.0, "1 s"),
        (1.9, "1.9 s"),
        (59.97, "1m"),
        (250.0, "4m10s"),
        (300.0, "5m"),
        (3600.0, "1h"),
        (7 * 86400.0, "7d"),
    ],
)
def test_a_duration_is_written_in_the_unit_that_fits_it(seconds: float, text: str) -> None:
    assert numbers.duration(seconds) == text


def test_two_durations_share_a_unit_or_bring_their_own() -> None:
    assert str(numbers.durations(0.063, 0.038)) == "63 → 38 ms"
    assert str(numbers.durations(1.9, 0.31)) == "1.9 s → 310 ms"
    assert str(numbers.durations(math.inf, 0.31)) == "over capacity → 310 ms"
    assert str(numbers.durations(None, 0.31)) == "? → 310 ms"


def test_a_number_that_reads_the_same_after_is_said_once() -> None:
    assert str(numbers.durations(0.3101, 0.3099)) == "310 ms"


def test_money_has_a_sign_a_symbol_and_two_decimals() -> None:
    assert numbers.money_change(19.5, "USD") == "+$19.50"
    assert numbers.money_change(-3.1, "EUR") == "−€3.10"
    assert numbers.money_change(3.1, "GBP") == "+£3.10"
    assert numbers.money_change(3.1, "CHF") == "+3.10 CHF"
    assert numbers.money_change(3.1, "") == "+3.10 cost units"
    assert numbers.money_change(None, "USD") == "?"


def test_a_difference_that_rounds_to_nothing_has_no_sign() -> None:
    assert numbers.cost_change(1.0, 0.999) == "0.00"
    assert numbers.money_change(-0.001, "USD") == "$0.00"


def test_an_unknown_price_makes_an_unknown_difference() -> None:
    assert numbers.cost_change(None, 3.0) == "?"


def test_percentages_keep_two_decimals_at_most() -> None:
    assert numbers.percentage(0.2) == "20 %"
    assert numbers.percentage(0.0004) == "0.04 %"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (46.254, "46.25"), (999.94, "999.9"), (999.96, "1,000"), (1_234_567.0, "1,235,000")],
)
def test_large_costs_have_no_exponent(value: float, text: str) -> None:
    assert numbers.four_digits(value) == text


@given(st.floats())
def test_no_number_is_ever_printed_as_nan_infinity_or_negative_zero(value: float) -> None:
    texts = (
        numbers.rate(value),
        numbers.duration(value),
        numbers.percentage(value),
        numbers.cost(value),
        numbers.cost_change(0.0, value),
        numbers.money_change(value, "USD"),
    )
    for text in texts:
        assert "nan" not in text
        assert "inf" not in text
        assert text.strip("−+$ %ms0.") or not text.startswith(("−", "+"))
