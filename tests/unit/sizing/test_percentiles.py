"""Percentiles against the chain summed state by state: who waits how long, and which batches tokens come from."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy.stats import erlang

from reconciler.sizing.arrays import Floats
from reconciler.sizing.queueing_chain import expect_percentiles
from reconciler.sizing.queueing_laws import Binding, ServiceCurves, Targets, decode_only, prefill_decode
from reconciler.sizing.queueing_rates import RateLimits, largest_rate

percentiles = st.sampled_from([50.0, 90.0, 95.0, 99.0, 99.9])
alphas_s = st.floats(0.002, 0.1)
slopes = st.one_of(st.just(0.0), st.floats(1e-6, 1.0))
batches = st.one_of(st.integers(1, 40), st.sampled_from([25, 64, 200]))
prefills_s = st.one_of(st.just(0.0), st.floats(1e-9, 1.0))
queued = st.integers(1, 12)


def candidate(alpha_s: float, slope: float, prefill_s: float, max_batch: int, queued_batches: int) -> ServiceCurves:
    """One candidate: requests of 500 and 150 tokens whose full batch takes `prefill_s` and as much more to prefill."""
    if prefill_s == 0:
        return decode_only(
            alpha_s=alpha_s,
            beta_s=alpha_s * slope,
            output_tokens=150,
            max_batch=max_batch,
            occupancy_limit=max_batch * (1 + queued_batches),
        )
    return prefill_decode(
        alpha_s=alpha_s,
        beta_s=alpha_s * slope,
        gamma_s=prefill_s,
        delta_s=prefill_s / 500 / max_batch,
        input_tokens=500,
        output_tokens=150,
        max_batch=max_batch,
        occupancy_limit=max_batch * (1 + queued_batches),
    )


def bound_to(curves: ServiceCurves, percentile: float, *, itl_s: float = np.inf, ttft_s: float = np.inf) -> RateLimits:
    return largest_rate(
        curves,
        Targets(
            itl_s=np.full(1, itl_s),
            wait_s=np.full(1, np.inf),
            tokens_per_s=np.zeros(1),
            ttft_s=np.full(1, ttft_s),
            itl_percentile=percentile,
            ttft_percentile=percentile,
        ),
    )


def at_batch(curves: ServiceCurves, name: str) -> Floats:
    """A latency at batches 1..N, as the law reads it."""
    top = int(curves.max_batch[0])
    return np.array([float(getattr(curves.latencies_at(float(n)), name)[0]) for n in range(1, top + 1)])


def states(curves: ServiceCurves, rate_per_s: float) -> tuple[Floats, Floats]:
    """The probability of each state 0..K, and the departures a second of batches 1..N."""
    top, limit = int(curves.max_batch[0]), int(curves.occupancy_limit[0])
    departures = np.array([float(curves.service_rate_per_s(float(n))[0]) for n in range(1, top + 1)])
    steps = departures[np.minimum(np.arange(1, limit + 1), top) - 1]
    logs = np.concatenate([[0.0], np.cumsum(math.log(rate_per_s) - np.log(steps))])
    weights = np.exp(logs - logs.max())
    return weights / weights.sum(), departures


def share_inside_ttft(curves: ServiceCurves, rate_per_s: float, ttft_s: float) -> float:
    probability, departures = states(curves, rate_per_s)
    found, top = probability[:-1] / probability[:-1].sum(), departures.size
    first_s = at_batch(curves, "first_token_s")
    served = float(found[:top][first_s <= ttft_s * (1 + 1e-11)].sum())
    spare_s = ttft_s - first_s[-1]
    places = np.arange(found.size - top)
    waited = erlang.cdf(spare_s, places + 1, scale=1 / departures[-1]) if spare_s > 0 else np.zeros(places.size)
    return served + float((found[top:] * waited).sum())


def share_inside_itl(curves: ServiceCurves, rate_per_s: float, itl_s: float) -> float:
    """Of all tokens: a batch of n makes n tokens every service_s(n) / tokens of a request."""
    probability, departures = states(curves, rate_per_s)
    batch = np.minimum(np.arange(1, probability.size), departures.size)
    tokens = probability[1:] * departures[batch - 1]
    inside = at_batch(curves, "itl_s")[batch - 1] <= itl_s * (1 + 1e-11)
    return float(tokens[inside].sum() / tokens.sum())


@settings(deadline=None, max_examples=150)
@given(alphas_s, slopes, prefills_s, batches, queued, percentiles, st.floats(0.05, 3.0))
def test_the_largest_rate_keeps_a_ttft_for_just_so_many(
    alpha_s: float,
    slope: float,
    prefill_s: float,
    max_batch: int,
    queued_batches: int,
    percentile: float,
    spare: float,
) -> None:
    curves = candidate(alpha_s, slope, prefill_s, max_batch, queued_batches)
    ttft_s = spare * (2 * prefill_s or float(curves.service_s(curves.max_batch)[0]) / max_batch)
    limits = bound_to(curves, percentile, ttft_s=ttft_s)
    if not limits.feasible[0]:
        assert share_inside_ttft(curves, float(curves.service_rate_per_s(1.0)[0]) * 0.001, ttft_s) < percentile / 100
        return
    inside = share_inside_ttft(curves, float(limits.rate_per_s[0]), ttft_s)
    if limits.binding[0] == Binding.CAPACITY:
        assert inside >= percentile / 100 - 1e-9
    else:
        assert inside == pytest.approx(percentile / 100, abs=1e-8)


@settings(deadline=None, max_examples=100)
@given(alphas_s, st.floats(1e-6, 1.0), prefills_s, batches, queued, percentiles, st.floats(0.0, 1.2))
def test_the_largest_rate_keeps_a_token_latency_for_just_so_many(
    alpha_s: float,
    slope: float,
    prefill_s: float,
    max_batch: int,
    queued_batches: int,
    percentile: float,
    share: float,
) -> None:
    curves = candidate(alpha_s, slope, prefill_s, max_batch, queued_batches)
    itl_s = alpha_s * (1 + slope * (1 + (max_batch - 1) * share))
    limits = bound_to(curves, percentile, itl_s=itl_s)
    assert limits.feasible[0]
    inside = share_inside_itl(curves, float(limits.rate_per_s[0]), itl_s)
    if limits.binding[0] == Binding.CAPACITY:
        assert inside >= percentile / 100 - 1e-9
    else:
        assert inside == pytest.approx(percentile / 100, abs=1e-8)


@settings(deadline=None, max_examples=100)
@example(0.0625, 0.0, 0.0, 1, 1, 99.9, 0.9921875)  # two places, and a queue without end would be 115 times as long
@given(alphas_s, slopes, prefills_s, batches, queued, percentiles, st.floats(0.05, 0.998))
def test_what_is_expected_at_a_percentile_is_met_by_just_so_many(
    alpha_s: float,
    slope: float,
    prefill_s: float,
    max_batch: int,
    queued_batches: int,
    percentile: float,
    load: float,
) -> None:
    curves = candidate(alpha_s, slope, prefill_s, max_batch, queued_batches)
    rate_per_s = load * curves.service_rate_per_s(curves.max_batch)
    expected = expect_percentiles(curves, rate_per_s, np.full(1, percentile), np.full(1, percentile))
    ttft_s, itl_s, rate = float(expected.ttft_s[0]), float(expected.itl_s[0]), float(rate_per_s[0])

    assert share_inside_ttft(curves, rate, ttft_s * (1 + 1e-9)) >= percentile / 100 - 1e-8
    assert ttft_s == 0 or share_inside_ttft(curves, rate, ttft_s * (1 - 1e-6)) <= percentile / 100 + 1e-8
    assert share_inside_itl(curves, rate, itl_s) >= percentile / 100 - 1e-8


def test_a_percentile_of_the_mean_wait_is_no_substitute() -> None:
    """Where a third of the requests wait, ln 20 mean waits keep 88 % of them, not 95 %."""
    curves = decode_only(alpha_s=0.02, beta_s=0.0, output_tokens=100, max_batch=16)
    limits = bound_to(curves, 95, ttft_s=0.5)
    by_mean = largest_rate(
        curves,
        Targets(itl_s=np.full(1, np.inf), wait_s=np.full(1, 0.5 / math.log(20)), tokens_per_s=np.zeros(1)),
    )
    assert share_inside_ttft(curves, float(limits.rate_per_s[0]), 0.5) == pytest.approx(0.95, abs=1e-9)
    assert share_inside_ttft(curves, float(by_mean.rate_per_s[0]), 0.5) < 0.93


@pytest.mark.parametrize("percentile", [0.0, 100.0, -5.0, 120.0])
def test_a_percentile_that_is_none_is_refused(percentile: float) -> None:
    curves = decode_only(alpha_s=0.02, beta_s=0.0, output_tokens=100, max_batch=16)
    with pytest.raises(ValueError, match="percentiles must be between 0 and 100"):
        bound_to(curves, percentile, ttft_s=1.0)


@settings(deadline=None)
@given(alphas_s, slopes, prefills_s, batches, st.floats(1.0, 20.0))
def test_a_stricter_percentile_never_allows_more(
    alpha_s: float, slope: float, prefill_s: float, max_batch: int, ttft_s: float
) -> None:
    curves = candidate(alpha_s, slope, prefill_s, max_batch, 10)
    rates = [bound_to(curves, each, ttft_s=ttft_s).rate_per_s[0] for each in (50.0, 90.0, 95.0, 99.0)]
    assume(rates[0] > 0)
    assert all(later <= earlier * (1 + 1e-9) for earlier, later in itertools.pairwise(rates))
