"""How fast queueing sizes candidates; `measure` is called by the benchmark runner and asserts nothing.

Every candidate has its own alpha, beta, length and targets, so nothing can be shared between them.
"""

import math
import time
import tracemalloc

import numpy as np

from reconciler.sizing.queueing import Demand, Floats, Profiles, Sizes, Targets, Terms, size

BATCHES = (8, 16, 32, 64, 128, 256, 512)
CANDIDATES_PER_BATCH = 4_000
FLEET = 40_000
REPEATS = 5

Row = dict[str, str | int | float]


def measure() -> list[Row]:
    """Return one row for each batch, then one for 40,000 candidates of batches 8..256 with its peak memory."""
    rows = [_measure_one(f"batch {batch}", np.full(CANDIDATES_PER_BATCH, float(batch))) for batch in BATCHES]
    fleet = 8.0 + np.floor(249 * _spread(FLEET, 0))
    return [*rows, {**_measure_one("fleet, batches 8 to 256", fleet), "peak_memory_mib": _peak_memory_mib(fleet)}]


def _measure_one(name: str, batch: Floats) -> Row:
    _size_all(batch)  # the first call pays for imports
    durations_s = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        _size_all(batch)
        durations_s.append(time.perf_counter() - started)
    duration_s = sorted(durations_s)[REPEATS // 2]
    return {
        "name": name,
        "candidates": batch.size,
        "duration_s": duration_s,
        "candidates_per_s": batch.size / duration_s,
    }


def _peak_memory_mib(batch: Floats) -> float:
    tracemalloc.start()
    try:
        _size_all(batch)
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


def _size_all(batch: Floats) -> Sizes:
    count = batch.size
    alpha_s = 0.005 + 0.04 * _spread(count, 1)
    beta_s = alpha_s * (0.005 + 0.05 * _spread(count, 2))
    return size(
        Profiles(alpha_s=alpha_s, beta_s=beta_s, max_batch_size=batch, at_tokens=np.ones(count)),
        Demand(arrival_rate_per_s=1 + 99 * _spread(count, 3), output_tokens=64 + np.floor(960 * _spread(count, 4))),
        Targets(
            itl_s=alpha_s + beta_s * batch * (0.2 + _spread(count, 5)),
            wait_s=0.01 + _spread(count, 6),
            tokens_per_s=np.zeros(count),
        ),
        Terms(
            max_batch_override=batch,
            min_replicas=np.ones(count, dtype=np.int64),
            accelerators_per_replica=np.ones(count, dtype=np.int64),
            cost_per_hour=np.ones(count),
        ),
    )


def _spread(count: int, axis: int) -> Floats:
    """Return distinct numbers that fill [0, 1) evenly: multiples of an irrational, one per axis (Weyl's sequence)."""
    root = math.sqrt((2, 3, 5, 7, 11, 13, 17)[axis])
    return np.arange(1, count + 1, dtype=np.float64) * root % 1.0


if __name__ == "__main__":
    for row in measure():
        print(row)
