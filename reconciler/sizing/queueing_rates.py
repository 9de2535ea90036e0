"""The largest arrival rate that one replica carries inside its targets.

Formulas and defaults: rules/queueing.md#capacity.
"""

import numpy as np
from numpy.typing import NDArray

from reconciler.domain.records import dataclass
from reconciler.sizing.arrays import Bools, CandidateRows, Floats, Integers
from reconciler.sizing.queueing_chain import (
    QueueBalance,
    Share,
    analyze,
    balance,
    mean_slope,
    share_finding,
    share_waiting,
)
from reconciler.sizing.queueing_laws import ROUNDING, Binding, PromptQueue, ServiceCurves, Targets

_TINY = 1e-300
_LEAST_SHARE = 1e-10
_LEAST_MEAN = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareLimits(CandidateRows):
    """What at most a share of the requests may meet, arrays of shape (candidates,).

    Tokens: at most `itl_outside` may come from a batch of more than `itl_batch`. First tokens: at most `ttft_outside`
    may wait longer than `ttft_wait_s` or, where that is negative, join a batch of more than `ttft_batch`. NaN shares
    are absent limits; a batch of 0 is one that cannot be kept.
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
    from reconciler.sizing.special import ndtri

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


# How far a chain is from its limits, and how far a Newton step in ln rate would take it. Every limit is a function of
# ln rate that is negative inside the limit and positive outside.

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


# The largest arrival rate that one replica carries inside its targets. Mean service time, mean wait and every latency
# grow with the arrival rate. So the largest rate is the root of ln max(mean / limit) over ln rate: one Newton search,
# kept in a bracket, for all candidates together.

# Newton's error after a step is about its square (times a curvature of some 1e3), so this ends near 1e-12.
_LAST_STEP = 3e-8
_NARROWEST = 1e-12
# Newton needs 4 evaluations, 8 in bad cases; from here on every other step halves the bracket, which ends it.
_PATIENCE = 12
_MOST_EVALUATIONS = 120
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
            index, point = self._advance(index, point, excess, halve=evaluation >= _PATIENCE and evaluation % 2 == 0)
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
