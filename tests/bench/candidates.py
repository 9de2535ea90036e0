"""How long sizing takes from domain objects to domain objects: 10,000 servers on four accelerators each.

`measure` asserts nothing. Making the objects that go in is not counted: a run has them from reading the repository.
"""

import gc
import time
import tracemalloc
from collections.abc import Sequence

from reconciler.decision.engines.queueing_capacities import Capacities, SizingRow
from reconciler.domain.identity import ResourceKey
from reconciler.domain.observed import ArrivalSource, Load
from reconciler.domain.profiles import PerformanceProfile, ServiceClass, SloTarget

SERVERS, ACCELERATORS = 10_000, ("H100", "A100", "L40S", "L4")
REPEATS = 3


def measure() -> list[dict[str, str | int | float]]:
    """One row a law: seconds from 40,000 rows to 40,000 capacities and expected latencies, and traced memory."""
    return [_measure(law, _rows(law)) for law in ("decode_only", "prefill_decode")]


def _measure(law: str, rows: Sequence[SizingRow]) -> dict[str, str | int | float]:
    _size(rows)  # the first call pays for imports
    durations_s = sorted(_seconds(rows) for _ in range(REPEATS))
    tracemalloc.start()
    try:
        _size(rows)
        peak_mib = tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()
    return {
        "name": f"{law}, domain objects in and out",
        "candidates": len(rows),
        "duration_s": durations_s[REPEATS // 2],
        "candidates_per_s": len(rows) / durations_s[REPEATS // 2],
        "peak_memory_mib": peak_mib,
    }


def _seconds(rows: Sequence[SizingRow]) -> float:
    # a plan is made with the collector paused: see `paused_collector`
    gc.collect()
    gc.disable()
    try:
        started = time.process_time()
        _size(rows)
        return time.process_time() - started
    finally:
        gc.enable()


def _size(rows: Sequence[SizingRow]) -> None:
    capacities = Capacities(rows)
    capacities.expect((key, 0.8 * capacity.rate_per_s) for key, capacity in capacities.of.items())


def _rows(law: str) -> list[SizingRow]:
    return [_row(law, server, place) for server in range(SERVERS) for place in range(len(ACCELERATORS))]


def _row(law: str, server: int, place: int) -> SizingRow:
    number = server * len(ACCELERATORS) + place
    alpha_s = 0.005 + 0.04 * _spread(number, 2)
    beta_s = alpha_s * (0.005 + 0.05 * _spread(number, 3))
    batch = 8 + int(249 * _spread(number, 5))
    has_prefill = law == "prefill_decode"
    key = ResourceKey(cluster="bench", namespace=f"n{server % 50}", kind="VariantAutoscaling", name=f"v{server}")
    return SizingRow(
        key=key.on(ACCELERATORS[place]),
        profile=PerformanceProfile(
            accelerator=ACCELERATORS[place],
            alpha_s=alpha_s,
            beta_s=beta_s,
            gamma_s=8 * alpha_s if has_prefill else None,
            delta_s=beta_s / 32 if has_prefill else None,
            max_batch_size=batch,
        ),
        load=Load(
            arrival_rate_per_s=1.0,
            output_tokens=64 + 960 * _spread(number, 7),
            input_tokens=32 + 2000 * _spread(number, 11),
            window_s=300.0,
            arrivals_from=ArrivalSource.ENDPOINT_PICKER,
        ),
        service_class=ServiceClass(
            name="bench",
            ttft=SloTarget(limit_s=alpha_s * 60 + _spread(number, 13), percentile=95.0),
            itl=SloTarget(limit_s=alpha_s + beta_s * batch * (0.2 + _spread(number, 17))),
        ),
    )


def _spread(number: int, base: int) -> float:
    """Distinct numbers that fill [0, 1) evenly: multiples of an irrational (Weyl's sequence)."""
    return float((number + 1) * base**0.5 % 1.0)
