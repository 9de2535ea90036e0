"""How fast models are sized by saturation; `measure` is called by the benchmark runner and asserts nothing.

A thousand models of four variants with three replicas each, every one with its own load, and an hour of their history.
"""

import math
import time
import tracemalloc
from collections.abc import Callable, Sequence

from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.observed import ReplicaMetrics, Trace
from reconciler.sizing.saturation import size_saturation
from reconciler.sizing.saturation_memory import replay_bounds
from reconciler.sizing.saturation_readings import BoundHistory, VariantFacts, layer_thresholds
from reconciler.upstream.wva import UpstreamReadings, reproduce_percent, reproduce_tokens
from tests.histories import arrays

MODELS = 1_000
VARIANTS = 4
REPLICAS = 3
TICKS = 240
TICK_S = 15.0
KV_TOKENS = 16_000.0
REPEATS = 3
ACCELERATORS = ("A100", "H100", "L40S", "MI300X")

Row = dict[str, str | int | float]


def measure() -> list[Row]:
    """Return one row for each engine and one for the replay of an hour, the first with its peak memory."""
    models = tuple(_model(index) for index in range(MODELS))
    histories = tuple((readings, _history(readings)) for readings in models)
    acts: dict[str, Callable[[], object]] = {
        "saturation": lambda: [size_saturation(readings) for readings in models],
        "wva-v1": lambda: reproduce_percent(models),
        "wva-v2": lambda: reproduce_tokens(models),
        "an hour replayed": lambda: [_replay(readings, traces) for readings, traces in histories],
    }
    rows = [_measure_one(name, act) for name, act in acts.items()]
    return [{**rows[0], "peak_memory_mib": _peak_memory_mib(acts["saturation"])}, *rows[1:]]


def _measure_one(name: str, act: Callable[[], object]) -> Row:
    durations_s = []
    for _ in range(REPEATS):
        started = time.process_time()
        act()
        durations_s.append(time.process_time() - started)
    return {
        "name": name,
        "models": MODELS,
        "variants": MODELS * VARIANTS,
        "duration_s": sorted(durations_s)[REPEATS // 2],
    }


def _peak_memory_mib(act: Callable[[], object]) -> float:
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


def _replay(readings: UpstreamReadings, traces: Sequence[Trace]) -> BoundHistory:
    kv_tokens = {trace.pod: KV_TOKENS for trace in traces}
    return replay_bounds(traces, kv_tokens, readings.variants, layer_thresholds().thresholds, corrects_history=True)


def _model(index: int) -> UpstreamReadings:
    keys = [
        ResourceKey(cluster="prod", namespace="chat", kind="VariantAutoscaling", name=f"model-{index}-{number}")
        for number in range(VARIANTS)
    ]
    return UpstreamReadings(
        model=ModelKey(cluster="prod", namespace="chat", model_id=f"model-{index}"),
        variants=tuple(
            VariantFacts(key=key, accelerator=accelerator, cost=5.0 + number, current_replicas=REPLICAS)
            for number, (key, accelerator) in enumerate(zip(keys, ACCELERATORS, strict=True))
        ),
        replicas=tuple(
            ReplicaMetrics(
                pod=f"{key.name}-{pod}",
                variant=key,
                kv_cache_usage=_usage(index + 7 * number + pod),
                num_waiting=float((index + number + pod) % 7),
                input_tokens=100.0 + index % 900,
                output_tokens=50.0 + index % 600,
                num_blocks=KV_TOKENS / 16,
                block_tokens=16.0,
            )
            for number, key in enumerate(keys)
            for pod in range(REPLICAS)
        ),
    )


def _history(readings: UpstreamReadings) -> tuple[Trace, ...]:
    ticks = range(TICKS)
    return tuple(
        Trace(
            pod=replica.pod,
            variant=replica.variant,
            start_s=0.0,
            step_s=TICK_S,
            series=arrays(
                {
                    "kv_cache_usage": tuple(_usage(number + tick) for tick in ticks),
                    "num_waiting": tuple(float((number + tick) % 7) for tick in ticks),
                    "input_tokens": (100.0,) * TICKS,
                    "output_tokens": (200.0,) * TICKS,
                }
            ),
        )
        for number, replica in enumerate(readings.replicas)
    )


def _usage(index: int) -> float:
    """Distinct numbers that fill [0, 1) evenly."""
    return index * math.sqrt(2) % 1.0


if __name__ == "__main__":
    for row in measure():
        print(row)
