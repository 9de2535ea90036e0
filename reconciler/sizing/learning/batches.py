"""The largest batch that history vouches for: the full one where requests waited, else the largest seen."""

from dataclasses import dataclass

import numpy as np

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
