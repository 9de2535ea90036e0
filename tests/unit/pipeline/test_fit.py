"""How much of the past is asked for at once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.pipeline.fit import ALL_POINTS, MINUTE_S, MOST_POINTS, step_for

HOUR_S, DAY_S = 3600.0, 86400.0


@pytest.mark.parametrize(
    ("since_s", "replicas", "step_s"),
    [(HOUR_S, 1, 60), (DAY_S, 10, 60), (7 * DAY_S, 10, 360), (30 * DAY_S, 10, 1320), (7 * DAY_S, 10_000, 4080)],
)
def test_a_sample_is_as_wide_as_the_past_and_the_fleet_demand(since_s: float, replicas: int, step_s: float) -> None:
    assert step_for(since_s, replicas) == step_s


@given(st.floats(HOUR_S, 400 * DAY_S), st.integers(0, 100_000))
def test_answers_stay_within_their_bounds(since_s: float, replicas: int) -> None:
    step_s = step_for(since_s, replicas)
    assert step_s % MINUTE_S == 0
    assert since_s / step_s <= MOST_POINTS
    assert since_s / step_s * replicas <= ALL_POINTS * (1 + 1e-9)
