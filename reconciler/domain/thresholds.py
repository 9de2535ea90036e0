"""Saturation thresholds as one source states them."""

from dataclasses import dataclass

from reconciler.domain.provenance import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdLayer:
    """What one source says of the thresholds; None leaves a threshold to the layers below. See `Thresholds`."""

    source: Source
    kv_cache_usage: float | None = None
    num_waiting: float | None = None
    kv_spare: float | None = None
    waiting_spare: float | None = None
    scale_up: float | None = None
    scale_down: float | None = None
    priority: float | None = None
