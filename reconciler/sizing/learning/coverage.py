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


@dataclass(frozen=True, slots=True, kw_only=True)
class LargestBatch:
    """Requests that ran at once at most; `is_full` when others waited for a place."""

    size: int
    is_full: bool
    note: str


def find_largest_batch(samples: Samples) -> LargestBatch:
    """Return the full batch, or the largest seen; there must be a sample with requests running.

    The full batch is the median of `num_running` in the half of the full windows that had most waiting: at the edges
    of a rush a window is full for a part only, and a high quantile would find the noise.
    """
    running = samples.num_running
    full = (samples.num_waiting >= _WAITING) & (running >= 1)
    if np.count_nonzero(full) >= _FEWEST_FULL:
        size = max(round(_typical(running[full], samples.num_waiting[full])), 1)
        return LargestBatch(size=size, is_full=True, note=f"requests waited while {size} ran: that is the full batch")
    size = max(int(np.nanquantile(running, _LARGEST_QUANTILE)), 1)
    note = f"nothing waited often enough to see a full batch: {size} is the largest batch seen, it may hold more"
    return LargestBatch(size=size, is_full=False, note=note)


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
