"""What a service class asks of one replica, as limits of means."""

import math
from dataclasses import dataclass

from reconciler.sizing.queueing.curves import Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """Limits of mean inter-token latency and mean wait, and a floor of output tokens per second; shape (candidates,).

    An absent limit is infinite, an absent floor is 0. See `mean_limit_s` for targets that are percentiles.
    """

    itl_s: Floats
    wait_s: Floats
    tokens_per_s: Floats


def mean_limit_s(target_s: float, percentile: float | None) -> float:
    """Return the mean that keeps `percentile` percent of waits below `target_s`; without a percentile, `target_s`.

    Waits are taken to have an exponential tail, so the p-th percentile is the mean times -ln(1 - p/100).
    Raises `ValueError` unless 0 < percentile < 100.
    """
    if percentile is None:
        return target_s
    if not 0 < percentile < 100:
        raise ValueError(f"percentile must be between 0 and 100, got {percentile}")
    return target_s / -math.log1p(-percentile / 100)
