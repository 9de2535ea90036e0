"""Limits that a share of the requests may miss: percentiles of the time to first token and of the token latency."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reconciler.sizing.arrays import Bools, CandidateRows, Floats, Integers
from reconciler.sizing.queueing.analysis import QueueBalance
from reconciler.sizing.queueing.curves import ROUNDING, ServiceCurves
from reconciler.sizing.queueing.percentiles import Share, share_finding, share_waiting
from reconciler.sizing.queueing.targets import Binding

_TINY = 1e-300
_LEAST_SHARE = 1e-10
_LEAST_MEAN = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareLimits(CandidateRows):
    """What at most a share of the requests may meet, arrays of shape (candidates,).

    Tokens: at most `itl_outside` may come from a batch of more than `itl_batch`. First tokens: at most `ttft_outside`
    may wait longer than `ttft_wait_s` or, where that is negative, join a batch of more than `ttft_batch`. NaN shares
    are absent limits; a batch of 0 is one that nobody can keep.
    """

    itl_outside: Floats
    itl_batch: Floats
    ttft_outside: Floats
    ttft_wait_s: Floats
    ttft_batch: Floats

    @property
    def present(self) -> Bools:
        """Whether a candidate has any such limit."""
        return ~(np.isnan(self.itl_outside) & np.isnan(self.ttft_outside))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareExcess:
    """Of each candidate the worst share, as ln(share / limit), the Newton step to its root, and whose it is."""

    value: Floats
    step: Floats
    binding: NDArray[np.int8]


def share_limits(
    curves: ServiceCurves, itl_s: Floats, itl_outside: Floats, ttft_s: Floats, ttft_outside: Floats
) -> ShareLimits:
    """Return what limits of latencies mean for a chain; a limit that the full batch keeps is absent.

    Latencies of a batch are those that the law reads off it; between a lone request and the full batch they are
    straight. Who waits runs its first token in the full batch.
    """
    top = curves.max_batch
    lone, full = curves.latencies_at(1.0), curves.latencies_at(top)
    itl_batch = _batch_within(lone.itl_s, full.itl_s, itl_s, top)
    return ShareLimits(
        itl_outside=np.where(itl_batch >= top, np.nan, itl_outside),
        itl_batch=itl_batch,
        ttft_outside=np.where(np.isinf(ttft_s), np.nan, ttft_outside),
        ttft_wait_s=ttft_s * (1 + ROUNDING) - full.first_token_s,
        ttft_batch=_batch_within(lone.first_token_s, full.first_token_s, ttft_s, top),
    )


def rate_near(curves: ServiceCurves, limits: ShareLimits) -> Floats:
    """Return about the rate at which a share is at its limit, infinite where there is none, to start a search from.

    As if the number in the system were normal with its mean as variance, and as if everybody waited.
    """
    rate_full = curves.service_rate_per_s(curves.max_batch)
    first = np.where(limits.ttft_wait_s >= 0, curves.max_batch, limits.ttft_batch)
    by_ttft = _rate_finding(curves, first, limits.ttft_outside)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        by_wait = rate_full + np.log(limits.ttft_outside) / limits.ttft_wait_s
    by_ttft = np.where(limits.ttft_wait_s > 0, np.fmax(by_wait, by_ttft), by_ttft)
    rate_per_s = np.fmin(by_ttft, _rate_finding(curves, limits.itl_batch, limits.itl_outside))
    return np.where(np.isnan(rate_per_s), np.inf, rate_per_s)


def _rate_finding(curves: ServiceCurves, count: Floats, outside: Floats) -> Floats:
    from scipy.special import ndtri

    deviations = -ndtri(outside)
    mean = ((np.sqrt(deviations**2 + 4 * count) - deviations) / 2) ** 2
    return curves.service_rate_per_s(np.maximum(mean, _LEAST_MEAN))


def measure_shares(curves: ServiceCurves, chain: QueueBalance, limits: ShareLimits, open_slope: Floats) -> ShareExcess:
    """Return how far shares are outside their limits; -inf where a candidate has none."""
    excess = ShareExcess(
        value=np.full_like(open_slope, -np.inf),
        step=np.full_like(open_slope, np.inf),
        binding=np.full(open_slope.shape, Binding.TTFT, dtype=np.int8),
    )
    waits = limits.ttft_wait_s >= 0
    for chosen, batch, outside, binding in (
        (~np.isnan(limits.ttft_outside) & waits, None, limits.ttft_outside, Binding.TTFT),
        (~np.isnan(limits.ttft_outside) & ~waits, limits.ttft_batch, limits.ttft_outside, Binding.TTFT),
        (~np.isnan(limits.itl_outside), limits.itl_batch, limits.itl_outside, Binding.ITL),
    ):
        index = np.flatnonzero(chosen)
        if not index.size:
            continue
        some, part, slope = curves.take(index), chain.take(index), open_slope[index]
        if batch is None:
            share, attainable = share_waiting(some, part, limits.ttft_wait_s[index], slope), np.ones_like(slope, bool)
        else:
            share, attainable = share_finding(some, part, np.maximum(batch[index], 1.0), slope), batch[index] >= 1
        _add(excess, index, share, outside[index], attainable, binding)
    return excess


def _add(
    excess: ShareExcess, index: Integers, share: Share, outside: Floats, attainable: Bools, binding: Binding
) -> None:
    """Write the indexed candidates' values where they are worse than what is there."""
    value = np.log(np.maximum(share.value, _TINY) / outside)
    with np.errstate(divide="ignore", invalid="ignore"):
        # A tiny share is what rounding left of a difference: it says that the root is far above, not where.
        tells = (share.value > _LEAST_SHARE) & (share.slope > 0)
        step = np.where(tells, -value * share.value / share.slope, np.where(value > 0, -np.inf, np.inf))
    value, step = np.where(attainable, value, np.inf), np.where(attainable, step, -np.inf)
    excess.binding[index] = np.where(value > excess.value[index], binding, excess.binding[index])
    excess.value[index] = np.maximum(value, excess.value[index])
    excess.step[index] = np.fmin(step, excess.step[index])


def _batch_within(lone_s: Floats, full_s: Floats, limit_s: Floats, top: Floats) -> Floats:
    """Return the largest whole batch, from 0 to the full one, whose latency is inside the limit."""
    allowed_s = limit_s * (1 + ROUNDING)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        batch = np.floor(1 + (top - 1) * (allowed_s - lone_s) / (full_s - lone_s))
    flat = np.where(allowed_s >= lone_s, top, 0.0)
    return np.where(full_s > lone_s, np.clip(batch, 0.0, top), flat)
