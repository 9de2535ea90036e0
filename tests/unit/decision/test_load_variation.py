"""The rule for a load that swings: what is expected at most, and what must be carried for it."""

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from reconciler.decision.load_variation import DEAD_BAND, MARGIN, LoadVariation, load_variation, load_variations, steady
from reconciler.domain.history import LoadHistory
from tests.histories import load_history

NOW_S = 1_800_000_000.0
HOUR_S = 3600.0
RATES = st.floats(min_value=0, max_value=1e6)


def past(*rates_per_s: float, step_s: float = 60.0) -> LoadHistory:
    """Rates whose last one is of now."""
    return load_history(rates_per_s, last_s=NOW_S, step_s=step_s)


def variation(*rates_per_s: float, payback_s: float = HOUR_S) -> LoadVariation:
    found = load_variation(past(*rates_per_s), NOW_S, payback_s)
    assert found is not None
    return found


def stabilized(
    now_per_s: float, of: LoadVariation | None, carried_per_s: float, each_per_s: float, headroom: float = 0.0
) -> float:
    return steady(now_per_s, headroom, of, carried_per_s, each_per_s).amount_per_s


def still(mean_per_s: float = 100.0, deviation_per_s: float = 1.0, peak_per_s: float = 102.0) -> LoadVariation:
    return LoadVariation(
        peak_per_s=peak_per_s,
        peak_age_s=1500.0,
        mean_per_s=mean_per_s,
        deviation_per_s=deviation_per_s,
        payback_s=HOUR_S,
    )


def test_the_peak_is_remembered_with_its_age() -> None:
    found = variation(*[100.0] * 30, 130.0, *[100.0] * 25)
    assert (found.peak_per_s, found.peak_age_s) == (130.0, 1500.0)
    assert found.mean_per_s == pytest.approx((55 * 100 + 130) / 56)


def test_of_equal_peaks_the_latest_counts() -> None:
    assert variation(7.0, 5.0, 7.0, 5.0).peak_age_s == 60.0


def test_what_is_older_than_payback_is_forgotten() -> None:
    assert variation(*[500.0] * 10, *[100.0] * 61).peak_per_s == 100.0
    assert variation(*[500.0] * 10, *[100.0] * 61, payback_s=2 * HOUR_S).peak_per_s == 500.0


@pytest.mark.parametrize("gap", [math.nan, math.inf])
def test_a_gap_is_no_load_of_zero(gap: float) -> None:
    found = variation(*[100.0] * 8, gap, *[100.0] * 20, gap, *[100.0] * 7)
    assert (found.peak_per_s, found.mean_per_s) == (100.0, 100.0)
    assert found.deviation_per_s == pytest.approx(math.sqrt(100 / 300))


def test_nothing_known_is_nothing_to_steady_by() -> None:
    assert load_variation(None, NOW_S, HOUR_S) is None
    assert load_variation(past(math.nan, math.nan), NOW_S, HOUR_S) is None
    assert load_variation(past(), NOW_S, HOUR_S) is None
    assert stabilized(50.0, None, 100.0, 10.0) == 50.0


def test_a_few_rates_tell_a_peak_and_no_deviation() -> None:
    found = variation(90.0, 110.0, 95.0, 100.0)
    assert found.deviation_per_s == 0.0
    assert found.highest(1.0) == 110.0


def test_rates_of_a_part_of_their_window_tell_a_peak_alone() -> None:
    found = variation(*[math.nan] * 30, 20.0, 40.0, 60.0, 80.0, 130.0, *[100.0] * 20)
    assert (found.peak_per_s, found.mean_per_s) == (130.0, 100.0)
    assert found.deviation_per_s == pytest.approx(math.sqrt(100 / 300))


def test_requests_come_at_least_as_unevenly_as_by_chance() -> None:
    assert variation(*[0.5] * 61).deviation_per_s == pytest.approx(math.sqrt(0.5 / 300))


def test_a_load_that_falls_steadily_is_not_noisy() -> None:
    falling = variation(*(2000.0 - 10 * minute for minute in range(61)))
    assert falling.deviation_per_s == pytest.approx(math.sqrt(1700 / 300))
    assert falling.highest(DEAD_BAND) == 2000.0


def test_dips_are_no_noise_and_bursts_are_the_peak() -> None:
    rates = [100.0 + (1 if minute % 2 else -1) for minute in range(60)]
    usual = variation(*rates).deviation_per_s
    assert variation(*[0.0, 20.0, 60.0], *rates[3:]).deviation_per_s == pytest.approx(usual, rel=0.05)
    burst = variation(*rates[:30], 120.0, 140.0, 120.0, *rates[33:])
    assert burst.deviation_per_s == pytest.approx(usual, rel=0.05)
    assert burst.peak_per_s == burst.highest(DEAD_BAND) == 140.0


def test_noise_about_a_line_is_its_standard_deviation() -> None:
    rates = [1000.0 + minute + (30 if minute % 2 else -30) for minute in range(60)]
    assert variation(*rates).deviation_per_s == pytest.approx(30, rel=0.02)


def test_no_replica_goes_while_the_rest_lacks_the_dead_band() -> None:
    wide = 100 + DEAD_BAND * MARGIN
    assert stabilized(95.0, still(), wide + 9, 10.0) == wide
    assert stabilized(95.0, still(), wide + 10, 10.0) == 100 + MARGIN


def test_what_was_asked_for_within_payback_is_kept() -> None:
    spiked = still(peak_per_s=180.0)
    assert stabilized(95.0, spiked, 150.0, 10.0) == 150.0
    assert stabilized(95.0, spiked, 250.0, 10.0) == 180.0


def test_more_is_asked_for_by_the_demand_of_now_alone() -> None:
    assert stabilized(120.0, still(), 100.0, 10.0) == 120.0
    assert stabilized(95.0, still(peak_per_s=180.0), 97.0, 10.0) == 97.0


def test_headroom_is_on_the_past_as_on_the_present() -> None:
    assert stabilized(114.0, still(peak_per_s=150.0), 1000.0, 10.0, headroom=0.2) == pytest.approx(180.0)


def test_who_needs_more_gets_what_its_noise_needs() -> None:
    assert stabilized(101.0, still(), 100.0, 10.0) == pytest.approx(105.0)
    assert stabilized(121.0, still(), 100.0, 10.0, headroom=0.2) == pytest.approx(126.0)
    assert stabilized(107.0, still(), 100.0, 10.0) == 107.0


def test_a_load_that_falls_is_not_its_noise() -> None:
    assert stabilized(94.0, still(), 90.0, 10.0) == 94.0
    assert stabilized(95.5, still(), 90.0, 10.0) == pytest.approx(105.0)


def test_an_open_proposal_has_to_carry_what_was_asked_for() -> None:
    assert steady(95.0, 0.0, still(), 200.0, 10.0).kept_per_s == 102.0
    assert steady(95.0, 0.0, still(), 98.0, 10.0).kept_per_s == 98.0


@given(st.lists(RATES | st.just(math.nan), max_size=70), RATES, RATES, RATES, st.floats(0, 2))
def test_the_amount_lies_between_the_demand_of_now_and_what_is_carried(
    rates: list[float], now_per_s: float, carried_per_s: float, each_per_s: float, headroom: float
) -> None:
    found = steady(now_per_s, headroom, load_variation(past(*rates), NOW_S, HOUR_S), carried_per_s, each_per_s)
    assert now_per_s <= found.kept_per_s <= found.amount_per_s
    if now_per_s <= carried_per_s:
        assert found.amount_per_s <= carried_per_s
    else:
        assert found.kept_per_s == now_per_s


@given(st.lists(RATES, min_size=1, max_size=70), st.data())
def test_a_gap_never_makes_a_peak_larger(rates: list[float], data: Any) -> None:
    index = data.draw(st.integers(0, len(rates) - 1))
    whole = variation(*rates)
    lacking = load_variation(past(*rates[:index], math.nan, *rates[index + 1 :]), NOW_S, HOUR_S)
    assert lacking is None or lacking.peak_per_s <= whole.peak_per_s


@given(st.lists(st.lists(RATES | st.just(math.nan), min_size=40, max_size=40), max_size=12), st.data())
@hypothesis_settings(deadline=None)
def test_many_histories_at_once_are_what_they_are_one_by_one(rates: list[list[float]], data: Any) -> None:
    times_s = past(*[0.0] * 40).times_s
    histories = [replace(past(*each), times_s=times_s) for each in rates]
    paybacks_s = [data.draw(st.sampled_from([600.0, 1800.0, HOUR_S])) for _ in rates]
    together = load_variations(dict(enumerate(zip(histories, paybacks_s, strict=True))), NOW_S)
    alone = [load_variation(each, NOW_S, of_s) for each, of_s in zip(histories, paybacks_s, strict=True)]
    assert [together.get(number) for number in range(len(rates))] == alone


def test_a_few_rates_after_a_gap_tell_no_deviation_whatever_others_tell() -> None:
    rates = [100.0, 104.0] * 8
    whole = past(*rates)
    begun = replace(whole, rates_per_s=past(*[math.nan] * 11, *rates[11:]).rates_per_s)
    together = load_variations({"whole": (whole, 240.0), "begun": (begun, 240.0)}, NOW_S)
    assert together["whole"].deviation_per_s > 1.0
    assert together["begun"].deviation_per_s == 0.0


def test_a_restless_load_is_followed_and_not_waited_out() -> None:
    restless = replace(still(), deviation_per_s=30.0)
    assert restless.highest(1.0) == pytest.approx(120.0)
    assert restless.highest(DEAD_BAND) == pytest.approx(140.0)
