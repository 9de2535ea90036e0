"""How far a chain is from its limits, and how far a Newton step in ln rate would take it.

Every limit is a function of ln rate that is negative inside the limit and positive outside.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reconciler.sizing.arrays import Bools, Floats, Integers
from reconciler.sizing.queueing.analysis import QueueBalance
from reconciler.sizing.queueing.curves import ServiceCurves
from reconciler.sizing.queueing.head import mean_slope
from reconciler.sizing.queueing.readings import Means
from reconciler.sizing.queueing.share_limits import ShareLimits, measure_shares
from reconciler.sizing.queueing.targets import Binding

_TINY = 1e-300
# Share of a TTFT limit from which on what is left for the wait changes slowly enough for Newton to trust a short step.
_LEAST_LEFT = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyLimits:
    """Limits of mean service time, mean wait, inter-token latency and time to first token, shape (candidates,).

    Infinite where absent. `itl_s` is absent where `service_s` says the same. `shares` are the limits of percentiles.
    """

    service_s: Floats
    wait_s: Floats
    itl_s: Floats
    ttft_s: Floats
    shares: ShareLimits

    @property
    def present(self) -> Bools:
        """Whether a candidate has any limit."""
        smallest = np.minimum(np.minimum(self.service_s, self.wait_s), np.minimum(self.itl_s, self.ttft_s))
        return np.isfinite(smallest) | self.shares.present

    def take(self, index: Integers | Bools) -> "LatencyLimits":
        """Return the limits of the candidates that `index` selects."""
        return LatencyLimits(
            service_s=self.service_s[index],
            wait_s=self.wait_s[index],
            itl_s=self.itl_s[index],
            ttft_s=self.ttft_s[index],
            shares=self.shares.take(index),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """The worst limit of each candidate: its function's value, and the shortest way to any limit's root."""

    value: Floats
    step: Floats
    binding: NDArray[np.int8]


def measure_excess(curves: ServiceCurves, chain: QueueBalance, limits: LatencyLimits) -> Excess:
    """Return how far the chain is outside its limits; the rate must be below the full batch's."""
    slopes = _Slopes(curves, chain)
    service = np.log(chain.service_s / limits.service_s + _TINY)
    wait = np.log(np.maximum(chain.wait_s, _TINY) / limits.wait_s + _TINY)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        excess = Excess(
            value=np.maximum(service, wait),
            step=np.fmin(-service / slopes.service, -wait / slopes.wait),
            binding=np.where(service >= wait, Binding.ITL, Binding.WAIT).astype(np.int8),
        )
        if np.isfinite(limits.itl_s).any() or np.isfinite(limits.ttft_s).any():
            excess = _measure_latencies(curves, chain, limits, slopes, excess)
        if limits.shares.present.any():
            shares = measure_shares(curves, chain, limits.shares, slopes.open)
            return Excess(
                value=np.maximum(excess.value, shares.value),
                step=np.fmin(excess.step, shares.step),
                binding=np.where(shares.value > excess.value, shares.binding, excess.binding).astype(np.int8),
            )
    return excess


def batch_within(curves: ServiceCurves, limits: LatencyLimits) -> Floats:
    """Return about the largest batch whose latencies, as the law reads them, are inside the limits; NaN for any.

    Straight between a lone request and the full batch, which is good enough to start a search from.
    """
    one = np.ones_like(curves.max_batch)
    lone = curves.reading.read(Means(service_s=curves.service_s(1.0), in_service=one))
    full = curves.reading.read(Means(service_s=curves.service_s(curves.max_batch), in_service=curves.max_batch))
    with np.errstate(divide="ignore", invalid="ignore"):
        by_itl = (limits.itl_s - lone.itl_s) / (full.itl_s - lone.itl_s)
        by_ttft = (limits.ttft_s - lone.first_token_s) / (full.first_token_s - lone.first_token_s)
        return 1 + (curves.max_batch - 1) * np.fmin(by_itl, by_ttft)


class _Slopes:
    """Derivatives by ln rate, below the full rate (where the tail's scale is 1): of logarithms of the means.

    Weights of state n grow as rate^n, so every sum's slope is the same sum with one more power of n.
    """

    def __init__(self, curves: ServiceCurves, chain: QueueBalance) -> None:
        top, full, mean = curves.max_batch, chain.head.full, chain.head.mean
        places = curves.occupancy_limit - top
        ratio, room, queued = chain.ratio, chain.tail.room, chain.tail.queued
        fall = top - mean
        open_slope = full * (fall * (room - 1) + queued - places * chain.tail.top) / chain.open
        in_service_slope = mean_slope(curves, chain.rate_per_s, chain.head) + top * full * (
            fall * ratio * room + queued
        )
        queued_slope = (2 * queued - ratio * room - places**2 * ratio * chain.tail.top) / (1 - ratio)
        self.open = open_slope
        self.service = in_service_slope / chain.in_service - 1 - open_slope
        self.wait = fall + queued_slope / np.maximum(queued, _TINY) - 1 - open_slope
        self._admitted = open_slope * chain.open / chain.total
        self._turned_away = full * chain.tail.top * (fall + places) / chain.total
        self._in_service = in_service_slope / chain.in_service

    @property
    def in_service(self) -> Floats:
        """Of the mean number in service."""
        return self._in_service - self._admitted - self._turned_away


def _measure_latencies(
    curves: ServiceCurves, chain: QueueBalance, limits: LatencyLimits, slopes: _Slopes, excess: Excess
) -> Excess:
    """Add the limits of what the law reads off the chain."""
    means = Means(service_s=chain.service_s, in_service=chain.in_service / chain.total)
    growth = Means(service_s=means.service_s * slopes.service, in_service=means.in_service * slopes.in_service)
    now, more = curves.reading.read(means), curves.reading.grow(means, growth)
    itl, itl_step = _relative(now.itl_s, more.itl_s, limits.itl_s)
    wait_s = chain.wait_s
    ttft, ttft_step = _relative(wait_s + now.first_token_s, wait_s * slopes.wait + more.first_token_s, limits.ttft_s)
    by_wait = _step_by_wait(wait_s, slopes.wait, now.first_token_s, more.first_token_s, limits.ttft_s)
    ttft_step = _shorter(ttft_step, by_wait)
    binding = np.where(itl > excess.value, Binding.ITL, excess.binding)
    return Excess(
        value=np.maximum(np.maximum(excess.value, itl), ttft),
        step=np.fmin(np.fmin(excess.step, itl_step), ttft_step),
        binding=np.where(ttft > np.maximum(excess.value, itl), Binding.TTFT, binding).astype(np.int8),
    )


def _relative(value: Floats, slope: Floats, limit: Floats) -> tuple[Floats, Floats]:
    """Return ln(value / limit) and its Newton step.

    A latency that falls with the load, as chunks may make it, has no root ahead: the step goes to the end of the
    range, beyond which nothing changes for the better.
    """
    excess = np.log(np.maximum(value, 0.0) / limit + _TINY)
    end = np.where(excess > 0, -np.inf, np.inf)
    return excess, np.where(slope > 0, -excess * value / slope, end)


def _step_by_wait(
    wait_s: Floats, wait_slope: Floats, first_token_s: Floats, growth_s: Floats, ttft_s: Floats
) -> Floats:
    """Return the Newton step of ln(wait / what the first token leaves of the limit); NaN where that is little.

    The same root as that of ln(ttft / limit), which is flat until the queue sets in and then steep.
    """
    left_s = ttft_s - first_token_s
    left_s = np.where(left_s > _LEAST_LEFT * ttft_s, left_s, np.nan)
    slope = wait_slope + growth_s / left_s
    return np.where(slope > 0, -np.log(np.maximum(wait_s, _TINY) / left_s + _TINY) / slope, np.nan)


def _shorter(step: Floats, other: Floats) -> Floats:
    return np.where(np.abs(other) < np.abs(step), other, step)
