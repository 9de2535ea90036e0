"""The largest arrival rate that one replica carries inside its targets.

Mean service time and mean wait both grow with the arrival rate, so the largest rate is the root of
ln max(service / limit, wait / limit) over ln rate: one safeguarded Newton search for all candidates together.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from reconciler.sizing.queueing.analysis import QueueBalance, balance
from reconciler.sizing.queueing.curves import Bools, Floats, Integers, ServiceCurves
from reconciler.sizing.queueing.targets import Targets

# The searched range: from this share of a lone request's rate to this share short of the full batch's.
_EDGE = 0.001
# What a throughput floor leaves of the largest rate.
_STABLE_SHARE = 0.9
# Rounding of alpha, beta and a target to float64 must not decide what is attainable.
_ROUNDING = 1e-12
# Newton's error after a step is about its square (times a curvature of some 1e3), so this ends near 1e-12.
_LAST_STEP = 3e-8
_NARROWEST = 1e-12
# Newton needs 4 evaluations, 8 in bad cases; from here on every other step halves the bracket, which ends it.
_PATIENCE = 12
_MOST_EVALUATIONS = 120
_TINY = 1e-300


class Binding(IntEnum):
    """What stops the rate from being larger, or what no rate at all can attain."""

    CAPACITY = 0
    ITL = 1
    WAIT = 2
    THROUGHPUT = 3


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
    service_limit_s = curves.service_limit_s(targets.itl_s)
    too_slow = service_limit_s < curves.service_s(1.0) * (1 - _ROUNDING)
    # Decided by the curve, not by a search: on a flat one (beta 0 or a batch of 1) only float noise would answer.
    always_fast = service_limit_s >= curves.service_s(curves.max_batch) * (1 - _ROUNDING)
    service_limit_s = np.where(always_fast, np.inf, service_limit_s)

    rate_per_s = np.where(too_slow, 0.0, highest)
    binding = np.where(floored, Binding.THROUGHPUT, Binding.CAPACITY).astype(np.int8)
    binding[too_slow] = Binding.ITL
    index = np.flatnonzero(~too_slow & (np.isfinite(service_limit_s) | np.isfinite(targets.wait_s)))
    if index.size:
        search = _Search(
            curves.take(index), service_limit_s[index], targets.wait_s[index], lowest[index], highest[index]
        )
        with np.errstate(under="ignore"):
            search.run()
        rate_per_s[index] = search.rate_per_s
        binding[index] = np.where(search.binding == Binding.CAPACITY, binding[index], search.binding)
    return RateLimits(rate_per_s=rate_per_s, feasible=rate_per_s > 0, binding=binding)


class _Search:
    """A bracketed Newton search in ln rate; candidates leave as they finish, so slow ones cost the others nothing."""

    def __init__(
        self, curves: ServiceCurves, service_limit_s: Floats, wait_limit_s: Floats, lowest: Floats, highest: Floats
    ) -> None:
        self._curves = curves
        self._service_limit_s = service_limit_s
        self._wait_limit_s = np.maximum(wait_limit_s, _TINY)
        self._lowest, self._highest = np.log(lowest), np.log(highest)
        self._low, self._high = self._lowest.copy(), self._highest.copy()
        self.rate_per_s = np.zeros_like(lowest)
        self.binding = np.zeros(lowest.shape, dtype=np.int8)

    def run(self) -> None:
        """Fill `rate_per_s` (0: unattainable) and `binding` (CAPACITY: no target binds)."""
        index, point = np.arange(self.rate_per_s.size), self._start()
        for evaluation in range(_MOST_EVALUATIONS):
            excess, step, binding = self._evaluate(index, point)
            index, point = self._advance(index, point, excess, step, binding, halve=_is_late(evaluation))
            if not index.size:
                return
        # Noise kept the last ones from converging: the lower end of their bracket is known to be inside.
        self.rate_per_s[index] = np.exp(self._low[index])

    def _start(self) -> Floats:
        """Start where the batch that just meets the service target would be served without a queue."""
        batch = (self._service_limit_s - self._curves.base_s) / np.maximum(self._curves.per_request_s, _TINY)
        batch = np.clip(batch, 1e-3, self._curves.max_batch)
        return np.clip(np.log(self._curves.service_rate_per_s(batch)), self._lowest, self._highest)

    def _evaluate(self, index: Integers, point: Floats) -> tuple[Floats, Floats, NDArray[np.int8]]:
        """Return ln(worst mean / its limit), the smaller of both Newton steps, and which mean is the worst."""
        curves = self._curves.take(index)
        chain = balance(curves, np.exp(point))
        service_slope, wait_slope = _slopes(curves, chain)
        service = np.log(chain.service_s / self._service_limit_s[index] + _TINY)
        wait = np.log(np.maximum(chain.wait_s, _TINY) / self._wait_limit_s[index] + _TINY)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            step = np.fmin(-service / service_slope, -wait / wait_slope)
        binding = np.where(service >= wait, Binding.ITL, Binding.WAIT).astype(np.int8)
        return np.maximum(service, wait), step, binding

    def _advance(
        self, index: Integers, point: Floats, excess: Floats, step: Floats, binding: NDArray[np.int8], *, halve: bool
    ) -> tuple[Integers, Floats]:
        """Narrow the brackets, retire finished candidates, return the others with their next point."""
        outside = excess > 0
        self._high[index] = np.where(outside, point, self._high[index])
        self._low[index] = np.where(outside, self._low[index], point)
        low, high = self._low[index], self._high[index]

        unattainable = outside & (point <= self._lowest[index])
        unbounded = ~outside & (point >= self._highest[index])
        narrow = high - low <= _NARROWEST
        close = np.abs(step) <= _LAST_STEP
        finished = unattainable | unbounded | narrow | close
        root = np.where(close, np.clip(point + step, low, high), np.where(unbounded, high, low))
        retired = index[finished]
        self.rate_per_s[retired] = np.where(unattainable, 0.0, np.exp(root))[finished]
        self.binding[retired] = np.where(unbounded, Binding.CAPACITY, binding)[finished]

        onward = ~finished
        rest = index[onward]
        return rest, self._next_point(rest, (point + step)[onward], low[onward], high[onward], halve=halve)

    def _next_point(self, index: Integers, wanted: Floats, low: Floats, high: Floats, *, halve: bool) -> Floats:
        """Return Newton's point if inside the bracket, an end not yet evaluated if beyond it, else the middle."""
        middle = 0.5 * (low + high)
        if halve:
            return middle
        inside = (wanted > low) & (wanted < high)
        point = np.where(inside, wanted, middle)
        point = np.where((wanted >= high) & (high >= self._highest[index]), high, point)
        return np.where((wanted <= low) & (low <= self._lowest[index]), low, point)


def _is_late(evaluation: int) -> bool:
    return evaluation >= _PATIENCE and evaluation % 2 == 0


def _slopes(curves: ServiceCurves, chain: QueueBalance) -> tuple[Floats, Floats]:
    """Return d ln service / d ln rate and d ln wait / d ln rate, below the full rate (where the tail's scale is 1).

    Weights of state n grow as rate^n, so every sum's slope is the same sum with one more power of n. The head's
    second moment comes from its mean, by the recurrence that gives the closed form of the mean.
    """
    top, full, mean = curves.max_batch, chain.head.full, chain.head.mean
    places = curves.occupancy_limit - top
    ratio, room, queued = chain.ratio, chain.tail.room, chain.tail.queued
    fall = top - mean
    x = chain.rate_per_s * curves.per_request_s
    mean_slope = (mean - (chain.rate_per_s * curves.base_s + x * (1 + top)) * full * fall) / (1 - x)
    open_slope = full * (fall * (room - 1) + queued - places * chain.tail.top) / chain.open
    in_service_slope = mean_slope + top * full * (fall * ratio * room + queued)
    queued_slope = (2 * queued - ratio * room - places**2 * ratio * chain.tail.top) / (1 - ratio)
    return (
        in_service_slope / chain.in_service - 1 - open_slope,
        fall + queued_slope / np.maximum(queued, _TINY) - 1 - open_slope,
    )
