"""The largest arrival rate that one replica carries inside its targets.

Mean service time, mean wait and every latency grow with the arrival rate. So the largest rate is the root of
ln max(mean / limit) over ln rate: one Newton search, kept in a bracket, for all candidates together.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reconciler.sizing.arrays import Bools, Floats, Integers
from reconciler.sizing.queueing.analysis import analyze, balance
from reconciler.sizing.queueing.curves import ROUNDING, ServiceCurves
from reconciler.sizing.queueing.limits import Excess, LatencyLimits, batch_within, measure_excess
from reconciler.sizing.queueing.prompts import PromptQueue
from reconciler.sizing.queueing.share_limits import rate_near, share_limits
from reconciler.sizing.queueing.targets import Binding, Targets

# Newton's error after a step is about its square (times a curvature of some 1e3), so this ends near 1e-12.
_LAST_STEP = 3e-8
_NARROWEST = 1e-12
# Newton needs 4 evaluations, 8 in bad cases; from here on every other step halves the bracket, which ends it.
_PATIENCE = 12
_MOST_EVALUATIONS = 120
_TINY = 1e-300
# The searched range: from this share of a lone request's rate to this share short of the full batch's.
_EDGE = 0.001
# What a throughput floor leaves of the largest rate.
_STABLE_SHARE = 0.9
# What a limit of 0 counts as, so that it has a logarithm.
_LEAST_LIMIT_S = 1e-300


class Search:
    """A bracketed Newton search in ln rate; candidates leave as they finish, so slow ones cost the others nothing."""

    def __init__(self, curves: ServiceCurves, limits: LatencyLimits, lowest: Floats, highest: Floats) -> None:
        self._curves = curves
        self._limits = limits
        self._lowest, self._highest = np.log(lowest), np.log(highest)
        self._low, self._high = self._lowest.copy(), self._highest.copy()
        self.rate_per_s = np.zeros_like(lowest)
        self.binding = np.zeros(lowest.shape, dtype=np.int8)

    def run(self) -> None:
        """Fill `rate_per_s` (0: unattainable) and `binding` (CAPACITY: no target binds)."""
        index, point = np.arange(self.rate_per_s.size), self._start()
        for evaluation in range(_MOST_EVALUATIONS):
            curves = self._curves.take(index)
            excess = measure_excess(curves, balance(curves, np.exp(point)), self._limits.take(index))
            index, point = self._advance(index, point, excess, halve=_is_late(evaluation))
            if not index.size:
                return
        # Noise kept the last ones from converging: the lower end of their bracket is known to be inside.
        self.rate_per_s[index] = np.exp(self._low[index])

    def _start(self) -> Floats:
        """Start at the batch that just meets the limits, served without a queue."""
        curves, limits = self._curves, self._limits
        batch = (limits.service_s - curves.base_s) / np.maximum(curves.per_request_s, _TINY)
        batch = np.clip(np.fmin(batch, batch_within(curves, limits)), 1e-3, curves.max_batch)
        rate_per_s = np.fmin(curves.service_rate_per_s(batch), rate_near(curves, limits.shares))
        return np.clip(np.log(rate_per_s), self._lowest, self._highest)

    def _advance(self, index: Integers, point: Floats, excess: Excess, *, halve: bool) -> tuple[Integers, Floats]:
        """Narrow the brackets, retire finished candidates, return the others with their next point."""
        step, outside = excess.step, excess.value > 0
        self._high[index] = np.where(outside, point, self._high[index])
        self._low[index] = np.where(outside, self._low[index], point)
        low, high = self._low[index], self._high[index]

        unattainable = outside & (point <= self._lowest[index])
        unbounded = ~outside & (point >= self._highest[index])
        # The lower end is known to be inside, but for the lowest rate of all, which must be looked at first.
        narrow = (high - low <= _NARROWEST) & ((low > self._lowest[index]) | (point <= low))
        close = np.abs(step) <= _LAST_STEP
        finished = unattainable | unbounded | narrow | close
        root = np.where(close, np.clip(point + step, low, high), np.where(unbounded, high, low))
        retired = index[finished]
        self.rate_per_s[retired] = np.where(unattainable, 0.0, np.exp(root))[finished]
        self.binding[retired] = np.where(unbounded, Binding.CAPACITY, excess.binding)[finished]

        onward = ~finished
        rest = index[onward]
        return rest, self._next_point(rest, (point + step)[onward], low[onward], high[onward], halve=halve)

    def _next_point(self, index: Integers, wanted: Floats, low: Floats, high: Floats, *, halve: bool) -> Floats:
        """Return Newton's point if inside the bracket, an end not yet evaluated if beyond it, else the middle."""
        middle = np.where(high - low <= _NARROWEST, low, 0.5 * (low + high))
        if halve:
            return middle
        inside = (wanted > low) & (wanted < high)
        point = np.where(inside, wanted, middle)
        point = np.where((wanted >= high) & (high >= self._highest[index]), high, point)
        return np.where((wanted <= low) & (low <= self._lowest[index]), low, point)


def _is_late(evaluation: int) -> bool:
    return evaluation >= _PATIENCE and evaluation % 2 == 0


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
