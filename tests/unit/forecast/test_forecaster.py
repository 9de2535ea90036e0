"""Forecasts of made loads: how often they hold on days that they never saw, and what they may look at."""

from typing import Any

import numpy as np
import pytest

from reconciler.domain.records import replace
from reconciler.domain.units import last_midnight_s
from reconciler.forecast.forecaster import MOST_OF_PEAK, MOST_ROWS, Forecaster, fit, sampled_rows
from reconciler.forecast.quantiles import LinearQuantiles
from reconciler.forecast.series import DAY_S, LOOKS_BACK_S, Floats, Rates, Window, largest_within, states_at
from tests.bench.loads import START_S, smooth

STEP_S, DAY = 600.0, 144
WINDOW = Window(from_s=780.0, until_s=2340.0)


def rates_of(per_s: Any) -> Rates:
    return Rates(start_s=START_S + STEP_S, step_s=STEP_S, per_s=per_s)


@pytest.fixture(scope="module")
def smooth100() -> Rates:
    return rates_of(smooth().coarse(STEP_S).per_s)


def coverage(rates: Rates, day: int, level: float = 0.9) -> float:
    """The share of a day's loads that were below their quantile, learned from the days before."""
    learned = fit(rates, WINDOW, (level,), START_S + day * DAY_S)
    assert learned is not None
    return covered(learned, rates, day)


def covered(learned: Forecaster, rates: Rates, day: int) -> float:
    """The same of what was learned."""
    moments = np.arange(day * DAY - 1, (day + 1) * DAY - 5, 3)
    series, at = np.repeat(np.arange(len(rates.per_s)), len(moments)), np.tile(moments, len(rates.per_s))
    states = states_at(rates, series, at, WINDOW, knows_weeks=learned.knows_weeks)
    return float((largest_within(rates, series, at, WINDOW) <= learned.quantiles(states)[:, 0]).mean())


def test_nine_of_ten_loads_of_unseen_days_are_below_their_quantile(smooth100: Rates) -> None:
    found = {day: coverage(smooth100, day) for day in range(8, 14)}
    saturday = 12  # a weekend is below what the days before it were like
    assert all(abs(each - 0.9) <= (0.02 if day == saturday else 0.015) for day, each in found.items()), found


def test_what_is_not_known_of_one_series_changes_nothing_of_the_others(smooth100: Rates) -> None:
    series, moments = np.repeat(np.arange(100), 3), np.tile([144, 1000, 1900], 100)
    whole = states_at(smooth100, series, moments, WINDOW)
    per_s = smooth100.per_s.copy()
    per_s[7, 500:1500] = np.nan
    found = states_at(replace(smooth100, per_s=per_s), series, moments, WINDOW)
    others = series != 7
    for name in ("values", "now_per_s", "floor_per_s", "most_per_s", "raised", "known"):
        assert (getattr(found, name)[others] == getattr(whole, name)[others]).all(), name
    assert found.known[series == 7].tolist() == [True, False, True]


def test_a_forecast_is_the_same_whatever_lies_before_the_time_it_looks_at(smooth100: Rates) -> None:
    now_s = START_S + 12 * DAY_S
    learned = fit(smooth100, WINDOW, (0.5, 0.9), now_s)
    assert learned is not None
    until_now = replace(smooth100, per_s=smooth100.per_s[:, : smooth100.moments_until(now_s)])
    lately = until_now.since(now_s - LOOKS_BACK_S)
    assert lately.per_s.shape[1] == 8 * DAY + 1
    found, whole = (learned.forecast(each, np.arange(100), now_s) for each in (lately, until_now))
    # sums over another time are rounded otherwise: by 1e-13, which is to move no load into another cell
    np.testing.assert_allclose(found.per_s, whole.per_s, rtol=1e-6)


def test_a_large_fleet_is_forecast_from_some_of_its_series(smooth100: Rates) -> None:
    """Of 1,200 models with 4,000 rows every sixth is learned from."""
    large = replace(smooth100, per_s=np.tile(smooth100.per_s, (12, 1)))
    until_s = START_S + 12 * DAY_S
    learned = fit(large, WINDOW, (0.9,), until_s, 4000)
    some = fit(replace(large, per_s=large.per_s[::6]), WINDOW, (0.9,), until_s, 4000)
    assert learned is not None
    assert some is not None
    assert 3900 < learned.rows <= 4000
    assert covered(learned, smooth100, 12) == covered(some, smooth100, 12) == pytest.approx(0.9, abs=0.025)


def test_the_monday_after_the_first_weekend_is_not_expected_to_fall_back_to_sunday(smooth100: Rates) -> None:
    learned = fit(smooth100, WINDOW, (0.9,), START_S + 7 * DAY_S)
    assert learned is not None
    assert not learned.weekdays[int(START_S // DAY_S) % 7]
    assert learned.weekdays.sum() == 6
    assert coverage(smooth100, 7) >= 0.87


def test_states_of_few_moments_are_those_of_many(smooth100: Rates) -> None:
    per_s = smooth100.per_s[:3].copy()
    per_s[0, 700:760] = per_s[1, ::7] = np.nan
    every = np.arange(0, 14 * DAY)
    many = states_at(rates_of(per_s), np.repeat(np.arange(3), len(every)), np.tile(every, 3), WINDOW)
    few = np.array([0, 3, DAY, 8 * DAY + 1, 14 * DAY - 1])
    found = states_at(rates_of(per_s), np.repeat(np.arange(3), len(few)), np.tile(few, 3), WINDOW)
    rows = (np.arange(3)[:, None] * len(every) + few).ravel()
    for name in ("values", "most_per_s", "raised", "known"):
        assert np.array_equal(getattr(found, name), getattr(many, name)[rows], equal_nan=True), name


@pytest.mark.parametrize("changed", [np.nan, 0.0, 1e6])
def test_no_later_rate_is_looked_at(smooth100: Rates, changed: float) -> None:
    now_s = START_S + 10 * DAY_S + 9 * 3600.0
    later = smooth100.per_s.copy()
    later[:, smooth100.moments_until(now_s) :] = changed
    for each in (rates_of(later), rates_of(smooth100.per_s[:, : smooth100.moments_until(now_s)])):
        learned, other = (fit(given, WINDOW, (0.5, 0.9), last_midnight_s(now_s)) for given in (smooth100, each))
        assert learned is not None
        assert other is not None
        series = np.arange(100)
        assert np.array_equal(
            learned.forecast(smooth100, series, now_s).per_s, other.forecast(each, series, now_s).per_s
        )


def test_rows_end_with_the_window_of_the_last_one_and_are_the_same_in_every_run(smooth100: Rates) -> None:
    until_s = START_S + 12 * DAY_S
    series, moments = sampled_rows(smooth100, WINDOW, until_s)
    assert len(series) <= MOST_ROWS
    assert moments.min() >= DAY
    assert smooth100.start_s + (moments.max() + WINDOW.offsets(STEP_S)[1]) * STEP_S <= until_s
    again = sampled_rows(smooth100, WINDOW, until_s)
    assert np.array_equal(series, again[0])
    assert np.array_equal(moments, again[1])


def test_a_forecast_never_goes_far_beyond_what_was_seen_in_a_week(smooth100: Rates) -> None:
    learned = fit(smooth100, WINDOW, (0.5, 0.9, 0.999), START_S + 12 * DAY_S)
    assert learned is not None
    now_s = START_S + 12 * DAY_S + 10 * 3600.0
    found = learned.forecast(smooth100, np.arange(100), now_s)
    count = smooth100.moments_until(now_s)
    peaks = smooth100.per_s[:, count - 7 * DAY : count].max(axis=1)
    assert (found.per_s[:, -1] <= MOST_OF_PEAK * peaks + 1e-9).all()
    assert (np.diff(found.per_s, axis=1) >= 0).all()


def test_a_series_without_its_last_hours_is_not_forecast_and_gaps_elsewhere_are_no_zeros(smooth100: Rates) -> None:
    now_s = START_S + 12 * DAY_S + 10 * 3600.0
    per_s = smooth100.per_s.copy()
    count = smooth100.moments_until(now_s)
    per_s[0, count - 3 : count] = np.nan
    per_s[1, count - 500 : count - 400] = np.nan
    per_s[2, : count - DAY // 3] = np.nan
    rates = rates_of(per_s)
    learned = fit(rates, WINDOW, (0.9,), last_midnight_s(now_s))
    assert learned is not None
    found = learned.forecast(rates, np.arange(4), now_s)
    assert found.known.tolist() == [False, True, False, True]
    whole = learned.forecast(smooth100, np.arange(4), now_s)
    assert found.per_s[1, 0] == pytest.approx(whole.per_s[1, 0], rel=0.1)


def test_a_load_of_zeros_is_forecast_as_zero() -> None:
    per_s = smooth(20).coarse(STEP_S).per_s
    per_s[7] = 0.0
    rates = rates_of(per_s)
    learned = fit(rates, WINDOW, (0.9,), START_S + 13 * DAY_S)
    assert learned is not None
    assert learned.forecast(rates, np.arange(20), START_S + 13 * DAY_S).per_s[7, 0] == 0.0


def test_too_few_moments_teach_nothing() -> None:
    assert fit(rates_of(np.ones((2, 3 * DAY))), WINDOW, (0.9,), START_S + 3 * DAY_S) is None
    assert fit(rates_of(np.ones((100, 4))), WINDOW, (0.9,), START_S + DAY_S) is None


def test_linear_quantiles_are_those_of_a_known_law() -> None:
    at: Floats = np.asarray((np.arange(40_000) * 0.6180339887498949) % 1.0, dtype=np.float64)
    noise: Floats = np.asarray((np.arange(40_000) * 0.7548776662466927) % 1.0, dtype=np.float64)
    targets: Floats = 2.0 * at + (1.0 + at) * noise  # the quantile at `level` is 2 x + (1 + x) level
    found = LinearQuantiles.fit(at[:, np.newaxis], targets, np.array([0.5, 0.9]))
    wanted = np.array([[2 * x + (1 + x) * level for level in (0.5, 0.9)] for x in (0.1, 0.5, 0.9)])
    assert found.predict(np.array([[0.1], [0.5], [0.9]])) == pytest.approx(wanted, abs=0.02)
