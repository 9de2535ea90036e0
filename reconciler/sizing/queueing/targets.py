"""What a service class asks of one replica: limits of means and of percentiles, and which of them binds."""

import math
from dataclasses import dataclass
from enum import IntEnum

from reconciler.sizing.arrays import Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """Limits of latencies, and a floor of output tokens per second; shape (candidates,).

    An absent limit is infinite, an absent floor is 0. `wait_s` is a limit of the mean wait; `mean_limit_s` turns a
    percentile into one as upstream does. `itl_s` and `ttft_s` are limits of the mean where their percentile (0-100,
    exclusive) is NaN or None, else of that percentile, by the exact distribution (see `percentiles`).
    """

    itl_s: Floats
    wait_s: Floats
    tokens_per_s: Floats
    ttft_s: Floats | None = None
    itl_percentile: Floats | float | None = None
    ttft_percentile: Floats | float | None = None


def tail_factor(percentile: float | None) -> float:
    """Return the percentile of a wait as a multiple of its mean; without a percentile 1, the mean itself.

    Waits are taken to have an exponential tail, so the p-th percentile is the mean times -ln(1 - p/100).
    Raises `ValueError` unless 0 < percentile < 100.
    """
    if percentile is None:
        return 1.0
    if not 0 < percentile < 100:
        raise ValueError(f"percentile must be between 0 and 100, got {percentile}")
    return -math.log1p(-percentile / 100)


def mean_limit_s(target_s: float, percentile: float | None) -> float:
    """Return the mean that keeps `percentile` percent of waits below `target_s`; without a percentile, `target_s`.

    Raises `ValueError` unless 0 < percentile < 100.
    """
    return target_s / tail_factor(percentile)


class Binding(IntEnum):
    """What stops the rate from being larger, or what no rate at all can attain."""

    CAPACITY = 0
    ITL = 1
    WAIT = 2
    THROUGHPUT = 3
    TTFT = 4
