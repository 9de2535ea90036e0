"""What one replica can work on at once, beside what its memory holds: observed, remembered or derived (wva.md 4.1)."""

import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean

from reconciler.domain.workloads import LaunchSettings
from reconciler.sizing.saturation.variants import VariantFacts

BUCKETS = ("short", "medium", "long")
BUCKET_LIMITS_TOKENS = (100.0, 500.0)
"""The mean output from which a workload is no longer short, and no longer medium."""
REMEMBERED = 10
"""The rolling mean's window."""
PLATEAU = 1.1
"""Readings of one plateau differ by less: only what is exceeded by more was no bound."""


class Origin(StrEnum):
    """Where a replica's capacity comes from; the first that applies."""

    STORED = "P0-store"
    OBSERVED = "P1-obs"
    HISTORY = "P2-hist"
    DERIVED = "P3-k2"
    MEMORY = "P4-k1"
    NO_DATA = "no-data"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class WorkloadKey:
    """What an observed compute bound of a model holds for: a device type, its count, and outputs of like length."""

    accelerator: str
    devices: int
    bucket: str


BoundHistory = Mapping[WorkloadKey, tuple[float, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeBound:
    """A compute bound in tokens with its origin."""

    tokens: float
    origin: Origin


def workload_of(variant: VariantFacts, output_tokens: float | None) -> WorkloadKey:
    """Return the key under which observed bounds of a variant are remembered."""
    bucket = BUCKETS[bisect_right(BUCKET_LIMITS_TOKENS, output_tokens or 0.0)]
    return WorkloadKey(accelerator=variant.accelerator, devices=variant.devices, bucket=bucket)


def remembered_bound(history: BoundHistory, key: WorkloadKey) -> float:
    """Return the mean of what is remembered, 0 when nothing sensible is."""
    values = [value for value in history.get(key, ()) if math.isfinite(value) and value >= 0]
    return fmean(values[-REMEMBERED:]) if values else 0.0


def forget_exceeded(history: BoundHistory, key: WorkloadKey, in_use_tokens: float) -> BoundHistory:
    """Return the history without the bounds of a key that a replica has exceeded by far: they were none.

    A queue fills while a replica warms up, long before the replica does; upstream never forgets what it saw then.
    """
    remembered = history.get(key, ())
    kept = tuple(value for value in remembered if not value * PLATEAU < in_use_tokens)
    return history if len(kept) == len(remembered) else {**history, key: kept}


def derived_bound(launch: LaunchSettings, *, input_tokens: float, output_tokens: float) -> int:
    """Return the tokens of as many requests as are decoded together in a steady state; 0 when it does not apply.

    N = min(B * O / (I + O), S) requests, each holding I + O/2 tokens on average.
    """
    if output_tokens <= 0 or input_tokens < 0:
        return 0
    together = min(launch.batched_tokens * output_tokens / (input_tokens + output_tokens), launch.max_num_seqs)
    return max(int(together * (input_tokens + output_tokens / 2)), 0)
