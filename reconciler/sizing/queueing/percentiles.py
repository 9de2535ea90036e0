"""Percentiles of what a request meets: who finds how many others, how long it waits, how its latencies spread.

Requests arrive at random (Poisson), so one that is let in finds the chain as it is on average over the states that let
somebody in. Finding fewer than the full batch N it is served at once; finding N + j it waits until j + 1 requests have
left, one every service_s(N) / N seconds on average: an Erlang distribution, first come, first served. Summed over the
queue that is a difference of two Poisson sums, so a percentile costs no more than a mean.

A token comes from a batch of n with the share of arrivals that find n - 1: in the balance of the chain the requests
that leave a state are those that entered it. So the same shares give the spread of the inter-token latency.
"""

from dataclasses import dataclass

import numpy as np

from reconciler.sizing.arrays import Bools, Floats, Integers
from reconciler.sizing.queueing.analysis import QueueBalance, balance
from reconciler.sizing.queueing.curves import ServiceCurves
from reconciler.sizing.queueing.head import head_below

# Where the ratio of the queue is nearer to 1, sums of it cancel; nothing that is searched comes so near.
_LEAST_DISTANCE = 1e-9
# A Poisson sum whose limit is so many standard deviations above its mean is 1 to float64.
_SURE_DEVIATIONS = 9.0
_MOST_STEPS = 60
_TINY = 1e-300


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A share of the requests that are let in, and how fast it grows with ln rate; arrays of shape (candidates,)."""

    value: Floats
    slope: Floats


def share_finding(curves: ServiceCurves, chain: QueueBalance, count: Floats, open_slope: Floats) -> Share:
    """Return how many find `count` requests or more in the system (whole numbers, 1 to the full batch).

    `open_slope` is d ln / d ln rate of the weight of all states that let somebody in, beside that of states 0..N.
    """
    head = head_below(curves, chain.rate_per_s, chain.head, count)
    fewer = head.share / chain.open
    return Share(value=1 - fewer, slope=-(head.total - head.share * (chain.head.mean + open_slope)) / chain.open)


def share_waiting(curves: ServiceCurves, chain: QueueBalance, wait_s: Floats, open_slope: Floats) -> Share:
    """Return how many wait longer than `wait_s` (0 or more), at rates below that of the full batch."""
    top, full = curves.max_batch, chain.head.full
    places, ratio = curves.occupancy_limit - top, np.minimum(chain.ratio, 1 - _LEAST_DISTANCE)
    departures = wait_s * curves.service_rate_per_s(top)
    distance = 1 - ratio
    with np.errstate(under="ignore"):
        thinned = np.exp(-departures * distance)
        last = ratio**places
        early, later = _poisson_below(places, departures * ratio), _poisson_below(places, departures)
        queue = (thinned * early - last * later) / distance
        before = _poisson_below(np.maximum(places - 1, 0.0), departures * ratio)
        growth = (departures * thinned * before * ratio - places * last * later + ratio * queue) / distance
        value = full * np.maximum(queue, 0.0) / chain.open
    return Share(value=value, slope=full * growth / chain.open + value * (top - chain.head.mean - open_slope))


def wait_quantile_s(curves: ServiceCurves, chain: QueueBalance, outside: Floats) -> Floats:
    """Return the wait that a share of `outside` exceeds; 0 where fewer wait at all."""
    from scipy.special import gammainccinv

    rate_full = curves.service_rate_per_s(curves.max_batch)
    distance = np.maximum(1 - chain.ratio, _LEAST_DISTANCE)
    none = np.zeros_like(rate_full)
    waiting = share_waiting(curves, chain, none, none).value
    some = waiting > outside
    # The tail of an endless queue, and the wait of whoever takes the last place: the true tail lies below both, and
    # Newton then comes from one side. Far above the second one nothing of the tail is left to come back by.
    places = curves.occupancy_limit - curves.max_batch
    longing = np.maximum(waiting, _TINY) / outside
    endless = np.log(longing) / (distance * rate_full)
    last = gammainccinv(np.maximum(places, 1.0), 1 / np.maximum(longing, 1.0)) / rate_full
    wait_s = np.where(some, np.minimum(endless, last), 0.0)
    for _ in range(_MOST_STEPS):
        value = share_waiting(curves, chain, wait_s, none).value
        departures = wait_s * rate_full
        early = _poisson_below(places, departures * np.minimum(chain.ratio, 1 - _LEAST_DISTANCE))
        with np.errstate(under="ignore"):
            fall = rate_full * chain.head.full / chain.open * np.exp(-departures * distance) * early
        step = np.log(np.maximum(value, _TINY) / outside) * value / np.maximum(fall, _TINY)
        wait_s = np.where(some, np.maximum(wait_s + step, 0.0), 0.0)
        if (np.abs(step[some]) <= 1e-12 * wait_s[some] + _TINY).all():
            break
    return wait_s


def batch_quantile(curves: ServiceCurves, chain: QueueBalance, outside: Floats) -> Floats:
    """Return the smallest batch that at most a share of `outside` exceeds when they join it; the full batch at most."""
    low, high = np.zeros_like(curves.max_batch), curves.max_batch.copy()
    none = np.zeros_like(low)
    while (high - low > 1).any():
        middle = np.maximum(np.floor((low + high) / 2), 1.0)
        inside = share_finding(curves, chain, middle, none).value <= outside
        high, low = np.where(inside, np.minimum(high, middle), high), np.where(inside, low, np.maximum(low, middle))
        low = np.where(high <= 1, 0.0, low)
    return high


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedPercentiles:
    """Percentiles of the latencies at a rate, arrays of shape (candidates,); NaN where none was asked for."""

    itl_s: Floats
    ttft_s: Floats


def expect_percentiles(
    curves: ServiceCurves, arrival_rate_per_s: Floats, itl_percentile: Floats, ttft_percentile: Floats
) -> ExpectedPercentiles:
    """Return the latencies that so many percent (0-100, NaN for none) of tokens and of requests stay below.

    From the full batch's rate on the time to first token is infinite: the queue of a chain ends, a real one grows.
    """
    top = curves.max_batch
    rate_full = curves.service_rate_per_s(top)
    rate_per_s = np.clip(arrival_rate_per_s, _TINY, rate_full * (1 - _LEAST_DISTANCE))
    chain = balance(curves, rate_per_s)
    itl_outside, ttft_outside = 1 - itl_percentile / 100, 1 - ttft_percentile / 100
    joined = curves.latencies_at(batch_quantile(curves, chain, ttft_outside)).first_token_s
    wait_s = wait_quantile_s(curves, chain, ttft_outside)
    ttft_s = np.where(wait_s > 0, wait_s + curves.latencies_at(top).first_token_s, joined)
    if curves.prompts is not None:
        # Places and prompts rarely queue at once: the longer of both waits is what is seen.
        ttft_s = np.fmax(ttft_s, curves.prompts.at(rate_per_s).ttft_quantile_s(ttft_outside))
    ttft_s = np.where(arrival_rate_per_s >= rate_full, np.inf, ttft_s)
    return ExpectedPercentiles(
        itl_s=np.where(
            np.isnan(itl_percentile), np.nan, curves.latencies_at(batch_quantile(curves, chain, itl_outside)).itl_s
        ),
        ttft_s=np.where(np.isnan(ttft_percentile), np.nan, ttft_s),
    )


def _poisson_below(limit: Floats, mean: Floats) -> Floats:
    """Return the probability of fewer than `limit` events where `mean` are expected."""
    from scipy.special import gammaincc

    unsure: Bools = mean + _SURE_DEVIATIONS * np.sqrt(mean) + _SURE_DEVIATIONS**2 >= limit
    below = np.ones_like(mean)
    index: Integers = np.flatnonzero(unsure)
    if index.size:
        some = limit[index]
        below[index] = np.where(some > 0, gammaincc(np.maximum(some, 1.0), mean[index]), 0.0)
    return below
