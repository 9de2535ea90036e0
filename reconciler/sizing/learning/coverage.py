"""What history vouches for: the largest batch, and the lengths of requests that a learned profile is valid for."""

from dataclasses import dataclass

import numpy as np

from reconciler.domain.profiles import Learning
from reconciler.sizing.arrays import Floats
from reconciler.sizing.learning.samples import Samples

# A window with a request waiting throughout, on average; enough of them to believe a replica was full.
_WAITING, _FEWEST_FULL = 1.0, 30
# Of the batches seen, so that one reading of a hundred may be nonsense.
_LARGEST_QUANTILE = 0.99
# Requests that wait with so much of the limit running wait for a place, with so full a KV cache for memory.
_NEAR_LIMIT, _FULL_CACHE = 0.9, 0.9
# Emptier, a KV cache says too little of what a request takes.
_LEAST_CACHE = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class LargestBatch:
    """Requests that run at once at most, and that were `seen` to; `is_full` when others waited for a place."""

    size: int
    seen: int
    is_full: bool
    note: str


def find_largest_batch(samples: Samples, limit: int | None = None) -> LargestBatch:
    """Return the full batch, or the engine's own `limit`, or the largest seen; some sample must have requests running.

    Requests also wait for room in an iteration for their prompts, and for memory. So a batch far below the limit is
    full only where its KV caches were.

    The full batch is the median of `num_running` in the half of the full windows that had most waiting: at the edges
    of a rush a window is full for a part only, and a high quantile would find the noise.
    """
    running = samples.num_running
    full = (samples.num_waiting >= _WAITING) & (running >= 1)
    seen = max(int(np.nanquantile(running, _LARGEST_QUANTILE)), 1)
    if np.count_nonzero(full) >= _FEWEST_FULL:
        size = max(round(_typical(running[full], samples.num_waiting[full])), 1)
        cached = samples.kv_cache_usage[full]
        is_out_of_memory = bool(np.nanmedian(cached) >= _FULL_CACHE) if np.isfinite(cached).any() else False
        if limit is None or size >= _NEAR_LIMIT * limit or is_out_of_memory:
            note = f"requests waited while {size} ran: that is the full batch"
            return LargestBatch(size=size, seen=size, is_full=True, note=note)
    if limit is not None:
        size = max(min(limit, _fits_in_memory(samples, limit)), seen)
        why = "the engine allows" if size == limit else "its KV cache has room for"
        return LargestBatch(size=size, seen=seen, is_full=False, note=f"{why} {size} at once, {seen} were seen")
    note = f"nothing waited often enough to see a full batch: {seen} is the largest batch seen, it may hold more"
    return LargestBatch(size=seen, seen=seen, is_full=False, note=note)


def _fits_in_memory(samples: Samples, limit: int) -> int:
    """Return how many requests like those seen fill the KV cache, `limit` where nothing tells."""
    told = (samples.kv_cache_usage >= _LEAST_CACHE) & (samples.num_running >= 1)
    if np.count_nonzero(told) < _FEWEST_FULL:
        return limit
    return max(int(np.median(samples.num_running[told] / samples.kv_cache_usage[told])), 1)


def _typical(running: Floats, waiting: Floats) -> float:
    return float(np.median(running[waiting >= np.median(waiting)]))


NEVER_SEEN = (0.0, 0.0)
# One percent at either end may be nonsense.
_ENDS = (0.01, 0.99)
_MARGIN = 0.25


def range_of(values: Floats) -> tuple[float, float]:
    """Return the smallest and largest of the values without a percent at either end; `NEVER_SEEN` when all are NaN."""
    known = values[np.isfinite(values)]
    if not known.size:
        return NEVER_SEEN
    low, high = np.quantile(known, _ENDS)
    return float(low), float(high)


def why_outside(learning: Learning, *, input_tokens: float | None, output_tokens: float | None) -> str:
    """Return why nothing was learned about requests of such mean lengths, empty when they are inside.

    Inside is what was seen and a quarter less or more. A length that is None, or 0 as without load, asks for nothing.
    """
    return "; ".join(
        why
        for why in (
            _why_outside("input tokens", learning.input_tokens, input_tokens),
            _why_outside("output tokens", learning.output_tokens, output_tokens),
        )
        if why
    )


def _why_outside(name: str, seen: tuple[float, float], tokens: float | None) -> str:
    if tokens is None or tokens == 0:
        return ""
    if seen == NEVER_SEEN:
        return f"{name} were not measured when the profile was learned, a request now has {tokens:.4g}"
    low, high = seen
    if low * (1 - _MARGIN) <= tokens <= high * (1 + _MARGIN):  # false for NaN, which is outside of everything
        return ""
    return f"{tokens:.4g} {name} are outside of the {low:.4g} to {high:.4g} that the profile was learned from"
