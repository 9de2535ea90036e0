"""Conversions at the borders."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.domain import units

VALUES = st.floats(min_value=0, max_value=1e12)


def test_one_of_each() -> None:
    assert units.seconds_from_ms(250) == 0.25
    assert units.ms_from_seconds(0.25) == 250
    assert units.per_minute_from_per_second(1.5) == 90
    assert units.cost_per_hour_from_cents(40) == 0.4


@given(VALUES)
def test_there_and_back_is_the_same(value: float) -> None:
    assert units.seconds_from_ms(units.ms_from_seconds(value)) == pytest.approx(value, rel=1e-12)
