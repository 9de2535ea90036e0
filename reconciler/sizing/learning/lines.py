"""A straight line through noisy points of which some are nonsense: every law learned here is one.

Why not a general optimizer: with one slope and one base, neither negative, a weighted step is a closed form, so a fit
is a few passes over the samples and exact where they are. Three enemies, three means:

nonsense: one point in ten may be anything. The start is the median of slopes between medians of bins (Theil-Sen);
    then points are weighed by their distance in relative terms, and far ones weigh nothing (Tukey's bisquare).
noise that grows with the value: distances are relative, and so is the weight of a point, 1 / fitted^2.
noise in x: it flattens the slope, because it adds to the spread of x. How noisy x is cannot be told from the points,
    so a share of what is seen in y is taken for granted in x and its spread reduced by that (errors in variables,
    corrected moments). Between "x is exact" and "x is as noisy as y" the share of one half is wrong by the least.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from reconciler.sizing.arrays import Floats

_Step: TypeAlias = tuple[float, float]

_BINS, _FEWEST_IN_BIN = 32, 5
_MOST_ROUNDS, _SETTLED = 40, 1e-11
# The standard deviation of a normal distribution by its median distance; the bisquare's reach at 95 % efficiency.
_DEVIATION_OF_MEDIAN, _REACH = 1.4826, 4.685
# Distances that no clock can tell are not suspicious.
_LEAST_SCALE = 1e-3
# Squared: noise of x in terms of that of y; the most noise that x is held to have; the spread that always remains.
_NOISE_SHARE, _MOST_NOISE, _LEAST_SPREAD = 0.5, 0.1**2, 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedLine:
    """y = base + slope * x, neither negative.

    `error` is the median of |y / fitted - 1|, over all points. `scale` is the standard deviation of that among the
    points believed, whose weights add up to `weight`, with their middle and spread in x.
    """

    base: float
    slope: float
    error: float
    scale: float
    weight: float
    middle: float
    spread: float

    def uncertainty_at(self, x: float) -> float:
        """Return the standard error of the fitted value at x, as a share of it; infinite when nothing says."""
        fitted = self.base + self.slope * x
        if not (fitted > 0 and self.weight > 0 and self.spread > 0):
            return float("inf")
        return float(self.scale / fitted * np.sqrt(1 / self.weight + (x - self.middle) ** 2 / self.spread))


def fit_line(x: Floats, y: Floats) -> FittedLine:
    """Return the robust line through the points, shape (points,), all above 0; x must not be one value.

    The order of the points must be theirs alone (`measured`).
    """
    base, slope = _start(x, y)
    for _ in range(_MOST_ROUNDS):
        before = base, slope
        base, slope = _improve(x, y, base, slope)
        if np.allclose((base, slope), before, rtol=_SETTLED, atol=0.0):
            break
    return _describe(x, y, base, slope)


def _start(x: Floats, y: Floats) -> _Step:
    """Return a rough line that a quarter of nonsense does not move."""
    bins = min(_BINS, x.size // _FEWEST_IN_BIN)
    even = np.rint(np.linspace(0, x.size - 1, bins * (x.size // bins))).astype(np.intp)
    order = np.lexsort((y, x))[even]
    middles, heights = (np.median(each[order].reshape(bins, -1), axis=1) for each in (x, y))
    left, right = np.triu_indices(bins, 1)
    runs, rises = middles[right] - middles[left], heights[right] - heights[left]
    apart = runs > 0
    slope = max(float(np.median(rises[apart] / runs[apart])), 0.0) if apart.any() else 0.0
    base = float(np.median(heights - slope * middles))
    return (base, slope) if base > 0 else (0.0, float(np.median(heights / middles)))


def _improve(x: Floats, y: Floats, base: float, slope: float) -> _Step:
    weights, scale = _weigh(x, y, base, slope)
    steepness = slope * x / (base + slope * x)
    noise = _NOISE_SHARE * scale**2 / (1 + _NOISE_SHARE * np.mean(steepness**2))
    return _solve(x, y, weights / weights.sum(), min(float(noise), _MOST_NOISE))


def _weigh(x: Floats, y: Floats, base: float, slope: float) -> tuple[Floats, float]:
    """Return the weight of every point, and the standard deviation of relative distances."""
    fitted = base + slope * x
    distance = np.abs(y / fitted - 1)
    scale = _DEVIATION_OF_MEDIAN * float(np.median(distance))
    reach = _REACH * max(scale, _LEAST_SCALE)
    return np.square(np.clip(1 - np.square(distance / reach), 0.0, None)) / np.square(fitted), scale


def _solve(x: Floats, y: Floats, weights: Floats, noise: float) -> _Step:
    """Return the line of least squares, `noise` being the variance of x relative to x^2; the weights add up to 1."""
    middle, height, square = weights @ x, weights @ y, weights @ x**2
    true_square = square / (1 + noise)
    spread = weights @ (x - middle) ** 2
    slope = weights @ ((x - middle) * (y - height)) / max(spread - (square - true_square), _LEAST_SPREAD * spread)
    if not slope > 0:
        return float(height), 0.0
    base = height - slope * middle
    return (float(base), float(slope)) if base > 0 else (0.0, float(weights @ (x * y) / true_square))


def _describe(x: Floats, y: Floats, base: float, slope: float) -> FittedLine:
    weights, scale = _weigh(x, y, base, slope)
    weight = float(weights.sum())
    middle = float(weights @ x) / weight
    return FittedLine(
        base=base,
        slope=slope,
        error=float(np.median(np.abs(y / (base + slope * x) - 1))),
        scale=scale,
        weight=weight,
        middle=middle,
        spread=float(weights @ (x - middle) ** 2),
    )
