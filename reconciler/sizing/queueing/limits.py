"""How far a chain is from its limits, and how far a Newton step in ln rate would take it.

Every limit is a function of ln rate that is negative inside the limit and positive outside.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reconciler.sizing.arrays import Bools, CandidateRows, Floats
from reconciler.sizing.queueing.analysis import QueueBalance
from reconciler.sizing.queueing.curves import ServiceCurves
from reconciler.sizing.queueing.head import mean_slope
from reconciler.sizing.queueing.share_limits import ShareLimits, measure_shares
from reconciler.sizing.queueing.targets import Binding

_TINY = 1e-300
# Share of a TTFT limit from which on what is left for the wait changes slowly enough for Newton to trust a short step.
_LEAST_LEFT = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyLimits(CandidateRows):
    """Limits of mean service time, mean wait and mean time to first token, shape (candidates,); infinite where absent.

    A limit of the mean inter-token latency is one of the service time. `shares` are the limits of percentiles.
    """

    service_s: Floats
    wait_s: Floats
    ttft_s: Floats
    shares: ShareLimits

    @property
    def present(self) -> Bools:
        """Whether a candidate has any limit."""
        smallest = np.minimum(np.minimum(self.service_s, self.wait_s), self.ttft_s)
        return np.isfinite(smallest) | self.shares.present


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
        if np.isfinite(limits.ttft_s).any():
            excess = _measure_first_token(curves, chain, limits, slopes, excess)
        if limits.shares.present.any():
            shares = measure_shares(curves, chain, limits.shares, slopes.open)
            return Excess(
                value=np.maximum(excess.value, shares.value),
                step=np.fmin(excess.step, shares.step),
                binding=np.where(shares.value > excess.value, shares.binding, excess.binding).astype(np.int8),
            )
    return excess


def batch_within(curves: ServiceCurves, limits: LatencyLimits) -> Floats:
    """Return about the largest batch whose first token, as the law reads it, is inside its limit; NaN for any.

    Straight between a lone request and the full batch, which is good enough to start a search from.
    """
    lone_s = curves.latencies_at(1.0).first_token_s
    full_s = curves.latencies_at(curves.max_batch).first_token_s
    with np.errstate(divide="ignore", invalid="ignore"):
        return 1 + (curves.max_batch - 1) * (limits.ttft_s - lone_s) / (full_s - lone_s)


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


def _measure_first_token(
    curves: ServiceCurves, chain: QueueBalance, limits: LatencyLimits, slopes: _Slopes, excess: Excess
) -> Excess:
    """Add the limit of the time to first token, of which the law reads all but the wait off the chain."""
    wait_s, service_s = chain.wait_s, chain.service_s
    now_s = curves.reading.read(service_s).first_token_s
    growth_s = curves.reading.first_token_growth_s(service_s, service_s * slopes.service)
    ttft_s, slope = wait_s + now_s, wait_s * slopes.wait + growth_s
    value = np.log(np.maximum(ttft_s, 0.0) / limits.ttft_s + _TINY)
    # What does not grow has no root ahead: the step goes to the end of the range.
    step = np.where(slope > 0, -value * ttft_s / slope, np.where(value > 0, -np.inf, np.inf))
    by_wait = _step_by_wait(wait_s, slopes.wait, now_s, growth_s, limits.ttft_s)
    step = np.where(np.abs(by_wait) < np.abs(step), by_wait, step)
    return Excess(
        value=np.maximum(excess.value, value),
        step=np.fmin(excess.step, step),
        binding=np.where(value > excess.value, Binding.TTFT, excess.binding).astype(np.int8),
    )


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
