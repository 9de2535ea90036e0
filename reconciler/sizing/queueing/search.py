"""A Newton search for the largest rate inside the limits, kept in a bracket, for all candidates together."""

import numpy as np

from reconciler.sizing.arrays import Floats, Integers
from reconciler.sizing.queueing.analysis import balance
from reconciler.sizing.queueing.curves import ServiceCurves
from reconciler.sizing.queueing.limits import Excess, LatencyLimits, batch_within, measure_excess
from reconciler.sizing.queueing.share_limits import rate_near
from reconciler.sizing.queueing.targets import Binding

# Newton's error after a step is about its square (times a curvature of some 1e3), so this ends near 1e-12.
_LAST_STEP = 3e-8
_NARROWEST = 1e-12
# Newton needs 4 evaluations, 8 in bad cases; from here on every other step halves the bracket, which ends it.
_PATIENCE = 12
_MOST_EVALUATIONS = 120
_TINY = 1e-300


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
