"""How fast queueing sizes candidates; `measure` is called by the benchmark runner and asserts nothing.

Every candidate has its own parameters, lengths and targets, so nothing can be shared between them.
"""

import math
import time
import tracemalloc
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from reconciler.sizing.arrays import Floats
from reconciler.sizing.queueing_chain import analyze
from reconciler.sizing.queueing_laws import ServiceCurves, Targets, prefill_decode, serial_prefill
from reconciler.sizing.queueing_rates import largest_rate, largest_throughput
from tests.tools.decode_only_sizes import Demand, Profiles, Terms, replicas_for, size

BATCHES = (8, 16, 32, 64, 128, 256, 512)
CANDIDATES_PER_BATCH = 4_000
FLEET = 40_000
REPEATS = 3

Row = dict[str, str | int | float]


def measure(batches: Sequence[int] = BATCHES) -> list[Row]:
    """Return for each law one row for each batch, then one for 40,000 candidates of batches 8..256 with peak memory."""
    fleet = 8.0 + np.floor(249 * _spread(FLEET, 0))
    rows: list[Row] = []
    for law, size_all in _LAWS.items():
        for each in batches:
            batch = np.full(CANDIDATES_PER_BATCH, float(each))
            rows.append(_measure_one(f"{law}, batch {each}", size_all, batch))
        row = _measure_one(f"{law}, fleet, batches 8 to 256", size_all, fleet)
        rows.append({**row, "peak_memory_mib": _peak_memory_mib(size_all, fleet)})
    return rows


def _measure_one(name: str, size_all: Callable[[Floats], None], batch: Floats) -> Row:
    size_all(batch)  # the first call pays for imports
    durations_s = []
    for _ in range(REPEATS):
        started = time.process_time()
        size_all(batch)
        durations_s.append(time.process_time() - started)
    duration_s = sorted(durations_s)[REPEATS // 2]
    return {
        "name": name,
        "candidates": batch.size,
        "duration_s": duration_s,
        "candidates_per_s": batch.size / duration_s,
    }


def _peak_memory_mib(size_all: Callable[[Floats], None], batch: Floats) -> float:
    tracemalloc.start()
    try:
        size_all(batch)
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


def _decode_only(batch: Floats) -> None:
    count = batch.size
    alpha_s = _alpha_s(count)
    beta_s = _beta_s(count)
    size(
        Profiles(alpha_s=alpha_s, beta_s=beta_s, max_batch_size=batch, at_tokens=np.ones(count)),
        Demand(arrival_rate_per_s=1 + 99 * _spread(count, 3), output_tokens=_output_tokens(count)),
        Targets(itl_s=_itl_s(batch), wait_s=0.01 + _spread(count, 6), tokens_per_s=np.zeros(count)),
        Terms(
            max_batch_override=batch,
            min_replicas=np.ones(count, dtype=np.int64),
            accelerators_per_replica=np.ones(count, dtype=np.int64),
            cost_per_hour=np.ones(count),
        ),
    )


def _prefill_decode(batch: Floats) -> None:
    count = batch.size
    curves = prefill_decode(
        alpha_s=_alpha_s(count),
        beta_s=_beta_s(count),
        gamma_s=8 * _alpha_s(count),
        delta_s=_beta_s(count) / 32,
        input_tokens=32 + np.floor(2016 * _spread(count, 7)),
        output_tokens=_output_tokens(count),
        max_batch=batch,
    )
    _size(curves, _itl_s(batch))


def _serial_prefill(batch: Floats) -> None:
    count = batch.size
    curves = serial_prefill(
        alpha_s=_alpha_s(count),
        beta_s=_beta_s(count),
        prompt_s=_beta_s(count) / 16,
        input_tokens=32 + np.floor(2016 * _spread(count, 7)),
        output_tokens=_output_tokens(count),
        max_batch=batch,
    )
    _size(curves, _itl_s(batch))


def _size(curves: ServiceCurves, itl_s: Floats) -> None:
    count = curves.max_batch.size
    lone_s = analyze(curves, np.zeros(count)).ttft_s
    targets = Targets(
        itl_s=itl_s,
        wait_s=np.full(count, np.inf),
        tokens_per_s=np.zeros(count),
        ttft_s=lone_s * (1.2 + 3 * _spread(count, 6)),
        ttft_percentile=95.0,
    )
    limits = largest_rate(curves, targets)
    demand_per_s = 1 + 99 * _spread(count, 3)
    capacity_per_s = np.where(limits.feasible, largest_throughput(curves, limits), np.inf)
    analyze(curves, demand_per_s / replicas_for(demand_per_s, capacity_per_s, np.ones(count, dtype=np.int64)))


def _alpha_s(count: int) -> Floats:
    return 0.005 + 0.04 * _spread(count, 1)


def _beta_s(count: int) -> Floats:
    return _alpha_s(count) * (0.005 + 0.05 * _spread(count, 2))


def _itl_s(batch: Floats) -> Floats:
    return _alpha_s(batch.size) + _beta_s(batch.size) * batch * (0.2 + _spread(batch.size, 5))


def _output_tokens(count: int) -> Floats:
    return 64 + np.floor(960 * _spread(count, 4))


def _spread(count: int, axis: int) -> Floats:
    """Return distinct numbers that fill [0, 1) evenly: multiples of an irrational, one per axis (Weyl's sequence)."""
    root = math.sqrt((2, 3, 5, 7, 11, 13, 17, 19)[axis])
    return np.arange(1, count + 1, dtype=np.float64) * root % 1.0


_LAWS: Mapping[str, Callable[[Floats], None]] = {
    "decode_only": _decode_only,
    "prefill_decode": _prefill_decode,
    "serial_prefill": _serial_prefill,
}


if __name__ == "__main__":
    for row in measure():
        print(row)
