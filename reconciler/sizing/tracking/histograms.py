"""Percentiles of what a cumulative histogram observed since an older look at it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from reconciler.sizing.tracking.arrays import milliseconds
from reconciler.sizing.tracking.windows import reference_entry

PERCENTILE = 95
FRESH_S = 60.0
EXPIRY_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """A look at a histogram: (upper bound, observations up to it), the last bound infinite.

    `started_s` is when its process began; None is unknown.
    """

    count: int
    buckets: tuple[tuple[float, int], ...]
    started_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A number in the metric's own unit, or the reason why there is none."""

    value: float | None
    reason: str = ""


def quantile_since(now: Histogram, past: Histogram | None, percentile: int = PERCENTILE) -> Measured:
    """Return the percentile of the observations between two looks; without `past`, of all observations.

    Interpolated inside a bucket from its lower bound, the first from 0; the infinite bucket ends at twice the last
    finite bound. Nothing observed is 0.
    """
    if past is not None and past.started_s != now.started_s:
        past = None  # another process: its counts say nothing about this one
    fault = _fault(now, past, percentile)
    if fault:
        return Measured(value=None, reason=fault)
    earlier = [count for _, count in past.buckets] if past is not None else [0] * len(now.buckets)
    difference = now.count - (past.count if past is not None else 0)
    if difference < 0:
        return Measured(value=None, reason=f"the count fell by {-difference}: the counter was reset")
    cumulative = [count - before for (_, count), before in zip(now.buckets, earlier, strict=True)]
    if any(later < sooner for sooner, later in pairwise([0, *cumulative])):
        return Measured(value=None, reason="a bucket fell between two looks: the counter was reset")
    rank = math.ceil(difference * percentile / 100)
    if rank == 0:
        return Measured(value=0.0)
    if rank > cumulative[-1]:
        return Measured(value=None, reason=f"the buckets hold {cumulative[-1]} of {difference} observations")
    return Measured(value=_interpolated(now, cumulative, rank))


def _interpolated(now: Histogram, cumulative: Sequence[int], rank: int) -> float:
    low, below = 0.0, 0
    value = 0.0
    for (bound, _), upto in zip(now.buckets, cumulative, strict=True):
        high = 2 * low if math.isinf(bound) else bound
        if upto > below and upto >= rank:
            value = high - (upto - rank) * (high - low) / (upto - below)
            break
        low, below = high, upto
    return value


def _fault(now: Histogram, past: Histogram | None, percentile: int) -> str:
    if not 0 < percentile <= 100:
        return f"percentile must be above 0 and at most 100, got {percentile}"
    bounds = [bound for bound, _ in now.buckets]
    if not bounds:
        return "the histogram has no buckets"
    if any(math.isnan(bound) for bound in bounds):
        return "a bucket's bound is not a number"
    if any(later <= sooner for sooner, later in pairwise(bounds)):
        return "bucket bounds repeat or are out of order"
    if past is not None and [bound for bound, _ in past.buckets] != bounds:
        return f"the buckets changed: {len(bounds)} now, {len(past.buckets)} before, or other bounds"
    return ""


def recent_quantile(looks: Sequence[tuple[float, Histogram]], now_s: float) -> Measured:
    """Return the 95th percentile of the last looks at one pod: (seconds, histogram) in order of time, `now_s` last.

    Counts from the youngest look that is older than a minute and younger than five; without one, from the pod's start.
    """
    finite = [look for look in looks if math.isfinite(look[0]) and look[0] <= now_s]
    if not finite:
        return Measured(value=None, reason="the histogram was never read")
    if any(later[0] <= sooner[0] for sooner, later in pairwise(finite)):
        return Measured(value=None, reason="two looks at the histogram have the same time or are out of order")
    clocked = [(int(milliseconds(time_s)), look) for time_s, look in finite]
    reference = reference_entry(
        clocked[:-1],
        now_ms=int(milliseconds(now_s)),
        fresh_ms=int(milliseconds(FRESH_S)),
        expiry_ms=int(milliseconds(EXPIRY_S)),
    )
    return quantile_since(clocked[-1][1], reference[1] if reference else None)
