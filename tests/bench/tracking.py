"""How fast a metric-target policy is replayed; `measure` is called by the benchmark runner and asserts nothing.

An hour at 15 s for a thousand targets, every one with its own load, and with windows of several lengths.
"""

import math
import time
import tracemalloc

import numpy as np

from reconciler.domain.tracking import (
    DEFAULT_BEHAVIOR,
    Backend,
    Behavior,
    MetricTarget,
    Panic,
    Policy,
    Rate,
)
from reconciler.sizing.tracking import (
    KTHENA_V0,
    KTHENA_V1,
    TRACKING,
    History,
    PodSeries,
    Rule,
    Target,
    track,
)

TARGETS = 1_000
TICKS = 240
TICK_S = 15.0
REPEATS = 5
# Of the published examples: the slow one of the user guide, and the quick one with metrics from Prometheus.
GUIDE = Behavior(
    down=Rate(instances=1, percent=100, period_s=60.0, stabilization_s=300.0),
    up=Rate(instances=1, percent=100, period_s=30.0, stabilization_s=60.0),
    panic=Panic(percent=1000, period_s=30.0, threshold_percent=150, hold_s=300.0),
)
QUICK = Behavior(
    down=Rate(instances=1, percent=100, period_s=15.0, stabilization_s=30.0),
    up=Rate(instances=2, percent=100, period_s=15.0, stabilization_s=0.0),
    panic=Panic(percent=200, period_s=5.0, threshold_percent=200, hold_s=30.0),
)


def measure() -> list[dict[str, str | int | float]]:
    """Return one row for each rule, the first with its peak memory."""
    targets = tuple(_target(index) for index in range(TARGETS))
    rows = [_measure_one(targets, rule) for rule in (TRACKING, KTHENA_V1, KTHENA_V0)]
    return [{**rows[0], "peak_memory_mib": _peak_memory_mib(targets)}, *rows[1:]]


def _measure_one(targets: tuple[Target, ...], rule: Rule) -> dict[str, str | int | float]:
    ticks_s = np.arange(0.0, TICKS * TICK_S, TICK_S)
    durations_s = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        track(targets, ticks_s, rule)
        durations_s.append(time.perf_counter() - started)
    return {"name": rule.name, "targets": TARGETS, "ticks": TICKS, "duration_s": sorted(durations_s)[REPEATS // 2]}


def _peak_memory_mib(targets: tuple[Target, ...]) -> float:
    tracemalloc.start()
    try:
        track(targets, np.arange(0.0, TICKS * TICK_S, TICK_S), TRACKING)
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


def _target(index: int) -> Target:
    hour = np.linspace(0.0, 2 * math.pi, TICKS)
    load = 60 * (1.5 + np.sin(hour * (1 + index % 7) + index)) + 10 * (index * math.sqrt(2) % 1.0)
    ones = np.ones((TICKS, 1))
    return Target(
        name=f"target-{index}",
        policy=Policy(
            metrics=(MetricTarget(name="num_requests_waiting", per_replica=10.0),),
            behavior=(DEFAULT_BEHAVIOR, GUIDE, QUICK)[index % 3],
        ),
        backends=(Backend(name="server", min_replicas=1, max_replicas=20 + index % 10),),
        history=History(
            replicas=ones * (1 + index % 20),
            unready=0 * ones,
            pods={"num_requests_waiting": PodSeries(total=load.reshape(-1, 1), reporting=5 * ones, missing=0 * ones)},
        ),
    )


if __name__ == "__main__":
    for row in measure():
        print(row)
