"""Inter-token latency as a line over KV cache usage, fitted in two tiers (wva.md 6)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean

# Where a replica counts as full.
FULL_USAGE = 0.85
_LEAST_SAMPLES = 10
_LEAST_SPREAD = 0.30
_LEAST_SLOPE = 1e-12
# A step of a replica that does next to nothing, where no line was fitted yet.
_UNFITTED_BASE_S = 0.006

Point = tuple[float, float]
"""KV cache usage (0-1) and inter-token latency in seconds."""


class Tier(StrEnum):
    """Where a line comes from."""

    FITTED = "T1-ols"
    PINNED = "T2-pinned"
    ASSUMED = "T2-default"


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyLine:
    """A step takes `base_s + slope_s * usage` seconds."""

    slope_s: float
    base_s: float
    tier: Tier

    def at(self, usage: float) -> float:
        """Inter-token latency in seconds."""
        return self.base_s + self.slope_s * usage

    @property
    def is_valid(self) -> bool:
        """Whether steps take longer in a fuller replica, and some time in a full one."""
        return _LEAST_SLOPE < self.slope_s < math.inf and 0 < self.at(FULL_USAGE) < math.inf


def fit_line(window: Sequence[Point], current: Sequence[Point], fitted_base_s: float | None) -> LatencyLine | None:
    """Return the line through the window if it is long and wide enough, else one through `current` with its base given.

    The base is that of the last line fitted, 6 ms before there was one. None: no line, or none that is valid.
    """
    lines = (_fitted(window), _pinned(current, fitted_base_s))
    return next((line for line in lines if line is not None and line.is_valid), None)


def _fitted(window: Sequence[Point]) -> LatencyLine | None:
    usages = [usage for usage, _ in window]
    # The spread of .50 and .80 is not .30 in float64.
    if len(window) < _LEAST_SAMPLES or max(usages) - min(usages) < _LEAST_SPREAD * (1 - 1e-9):
        return None
    mean_usage, mean_s = fmean(usages), fmean(latency_s for _, latency_s in window)
    spread = math.fsum((usage - mean_usage) ** 2 for usage in usages)
    slope_s = math.fsum((usage - mean_usage) * (latency_s - mean_s) for usage, latency_s in window) / spread
    return LatencyLine(slope_s=slope_s, base_s=mean_s - slope_s * mean_usage, tier=Tier.FITTED)


def _pinned(current: Sequence[Point], fitted_base_s: float | None) -> LatencyLine | None:
    busy = [(usage, latency_s) for usage, latency_s in current if usage > 0 and latency_s > 0]
    squares = math.fsum(usage * usage for usage, _ in busy)
    if squares <= 0:
        return None
    base_s = _UNFITTED_BASE_S if fitted_base_s is None else fitted_base_s
    slope_s = math.fsum((latency_s - base_s) * usage for usage, latency_s in busy) / squares
    return LatencyLine(slope_s=slope_s, base_s=base_s, tier=Tier.ASSUMED if fitted_base_s is None else Tier.PINNED)
