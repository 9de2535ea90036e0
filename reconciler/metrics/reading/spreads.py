"""How far the lengths of prompts differ, by the buckets of a histogram."""

import math
from collections.abc import Mapping
from itertools import pairwise

from reconciler.metrics.reading.decoding import is_usable

USUAL_SPREAD = 1.0
"""What is expected before any request was seen; conversations and code of public traces have 0.9, long ones 1.7."""
WORTH = 1000.0
"""Requests that the expectation weighs: of heavy tails fewer say little, and a spread that flickers moves replicas."""
LARGEST_SPREAD = 20.0
Buckets = Mapping[float, float]
"""Observations a second of at most so many tokens, by that bound; the last bound is infinite."""


def spread_of(buckets: Buckets, window_s: float) -> float | None:
    """The variance of what fell into the buckets over its squared mean; None where nothing did or they contradict.

    Inside a bucket lengths are taken to lie evenly, and those beyond the last bound on it: a longer one is never told.
    Of a bucket of width h, in logarithms, that is h^2 / 6 too much of their variance: half of it by the grouping
    (Sheppard), half by the evenness.
    """
    bounds = sorted(bound for bound, rate in buckets.items() if bound >= 0 and is_usable(rate))
    whole = buckets.get(math.inf, math.nan)
    if not bounds or bounds[-1] != math.inf or not 0 < whole < math.inf:
        return None
    first = second = widths = 0.0
    for low, high in pairwise((0.0, *bounds)):
        part = buckets[high] - buckets.get(low, 0.0)
        if part < 0:
            return None
        top = high if math.isfinite(high) else low
        first += part * (low + top) / 2
        second += part * (low * low + low * top + top * top) / 3
        widths += part * math.log(top / low) ** 2 if low > 0 else 0.0
    if not (0 < first * first < math.inf and second * whole < math.inf):
        return None
    seen = min(max(second * whole / (first * first) * math.exp(-widths / whole / 6) - 1, 0.0), LARGEST_SPREAD)
    return (seen * whole * window_s + USUAL_SPREAD * WORTH) / (whole * window_s + WORTH)
