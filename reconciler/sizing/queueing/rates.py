"""The largest arrival rate that one replica carries inside its targets.

Mean service time, mean wait and every latency grow with the arrival rate. So the largest rate is the
root of ln max(mean / limit) over ln rate: one safeguarded Newton search for all candidates together.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reconciler.sizing.arrays import Bools, Floats
from reconciler.sizing.queueing.analysis import analyze
from reconciler.sizing.queueing.curves import ROUNDING, ServiceCurves
from reconciler.sizing.queueing.limits import LatencyLimits
from reconciler.sizing.queueing.prompts import PromptQueue
from reconciler.sizing.queueing.search import Search
from reconciler.sizing.queueing.share_limits import share_limits
from reconciler.sizing.queueing.targets import Binding, Targets

# The searched range: from this share of a lone request's rate to this share short of the full batch's.
_EDGE = 0.001
# What a throughput floor leaves of the largest rate.
_STABLE_SHARE = 0.9
# What a limit of 0 counts as, so that it has a logarithm.
_LEAST_LIMIT_S = 1e-300


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimits:
    """Largest arrival rate of one replica per candidate, arrays of shape (candidates,).

    `rate_per_s` is 0 where no rate is inside the targets (`feasible` is false; `binding` names the target that even a
    lone request misses). `binding` holds values of `Binding`.
    """

    rate_per_s: Floats
    feasible: Bools
    binding: NDArray[np.int8]


def rate_range(curves: ServiceCurves) -> tuple[Floats, Floats]:
    """Return the smallest and largest rate considered: 0.001 of a lone request's, 0.999 of the full batch's."""
    return (
        curves.service_rate_per_s(1.0) * _EDGE,
        curves.service_rate_per_s(curves.max_batch) * (1 - _EDGE),
    )


def largest_rate(curves: ServiceCurves, targets: Targets) -> RateLimits:
    """Return the largest rate inside all targets, to about 1e-11 relative, and which of them binds.

    A target that is met at the largest considered rate does not bind; one that is missed at the smallest is
    unattainable. A floor of tokens per second only caps the rate, at 0.9 of the largest. For the rate of a single
    target make the others absent.
    """
    lowest, highest = rate_range(curves)
    floored = targets.tokens_per_s > 0
    highest = np.where(floored, _STABLE_SHARE * highest, highest)
    limits, too_slow = _limits(curves, targets)

    rate_per_s = np.where(too_slow, 0.0, highest)
    binding = np.where(floored, Binding.THROUGHPUT, Binding.CAPACITY).astype(np.int8)
    binding[too_slow] = Binding.ITL
    index = np.flatnonzero(~too_slow & limits.present)
    if index.size:
        search = Search(curves.take(index), limits.take(index), lowest[index], highest[index])
        with np.errstate(under="ignore"):
            search.run()
        rate_per_s[index] = search.rate_per_s
        binding[index] = np.where(search.binding == Binding.CAPACITY, binding[index], search.binding)
    if curves.prompts is not None:
        _limit_by_prompts(curves.prompts, targets, rate_per_s, binding)
    return RateLimits(rate_per_s=rate_per_s, feasible=rate_per_s > 0, binding=binding)


def _limit_by_prompts(prompts: PromptQueue, targets: Targets, rate_per_s: Floats, binding: NDArray[np.int8]) -> None:
    """Lower the rates to those at which prompts come in time."""
    absent = np.full_like(targets.itl_s, np.inf)
    by_mean = np.isnan(_outside(targets.itl_percentile, absent))
    limits = prompts.largest_rate(
        np.where(by_mean, targets.itl_s, np.inf),
        absent if targets.ttft_s is None else targets.ttft_s,
        _outside(targets.ttft_percentile, absent),
    )
    lower = limits.rate_per_s < rate_per_s
    rate_per_s[lower] = limits.rate_per_s[lower]
    binding[lower] = limits.binding[lower]


def largest_throughput(curves: ServiceCurves, limits: RateLimits) -> Floats:
    """Return what a replica completes per second at its largest rate, 0 where there is none.

    Less than the rate by those who find the system full. The published sizes of `prefill_decode`
    divide the demand by this, those of `decode_only` by the rate itself.
    """
    return analyze(curves, limits.rate_per_s).throughput_per_s


def _limits(curves: ServiceCurves, targets: Targets) -> tuple[LatencyLimits, Bools]:
    """Return what to search for, and which candidates are too slow for their inter-token latency in any case."""
    absent = np.full_like(targets.itl_s, np.inf)
    ttft_s = absent if targets.ttft_s is None else targets.ttft_s
    itl_outside = _outside(targets.itl_percentile, absent)
    ttft_outside = _outside(targets.ttft_percentile, absent)
    # Where prompts queue, their law knows the gaps between tokens: the chain holds a request's own prompt among them.
    is_limited = np.isnan(itl_outside) & (curves.prompts is None)
    mean_itl_s = np.where(is_limited, targets.itl_s, np.inf)
    mean_ttft_s = np.where(np.isnan(ttft_outside), ttft_s, np.inf)
    shares = share_limits(curves, targets.itl_s, itl_outside, ttft_s, ttft_outside)
    service_s = curves.reading.service_limit_s(mean_itl_s)
    # Decided by the curve, not by a search: on a flat one (beta 0 or a batch of 1) only float noise would answer.
    too_slow = service_s < curves.service_s(1.0) * (1 - ROUNDING)
    always_fast = service_s >= curves.service_s(curves.max_batch) * (1 - ROUNDING)
    limits = LatencyLimits(
        service_s=np.where(always_fast, np.inf, service_s),
        wait_s=np.maximum(targets.wait_s, _LEAST_LIMIT_S),
        ttft_s=np.maximum(mean_ttft_s * (1 + ROUNDING), _LEAST_LIMIT_S),
        shares=shares,
    )
    return limits, too_slow | (~np.isnan(shares.itl_outside) & (shares.itl_batch < 1))


def _outside(percentile: Floats | float | None, like: Floats) -> Floats:
    """Return the share that may be outside, NaN where the mean is limited; ValueError outside of 0..100."""
    wanted = np.broadcast_to(np.nan if percentile is None else percentile, like.shape)
    if np.any((wanted <= 0) | (wanted >= 100)):
        raise ValueError(f"percentiles must be between 0 and 100, got {wanted[(wanted <= 0) | (wanted >= 100)][0]}")
    return 1 - np.asarray(wanted, dtype=np.float64) / 100
