"""How fast metric targets are read and replayed; `measure` is called by the benchmark runner and asserts nothing.

An hour at 15 s for a thousand targets of three pods each, every one with its own load, and with windows of several
lengths: one of half an hour makes it an hour for all.
"""

import math
import re
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TypeVar

from reconciler.decision.engines.tracking import KTHENA_V0, KTHENA_V1, TRACKING, track_targets
from reconciler.domain.answers import Answer, AnswerStatus, HeldBody, Query
from reconciler.domain.identity import ResourceKey
from reconciler.domain.metric_targets import (
    DEFAULT_BEHAVIOR,
    Backend,
    Behavior,
    Generation,
    MetricTarget,
    Panic,
    Policy,
    Rate,
    TrackedBackend,
    TrackedHistory,
    TrackedTarget,
)
from reconciler.domain.settings import ClusterSettings, PrometheusSettings, Settings
from reconciler.metrics.tracked_histories import read_tracked
from reconciler.metrics.tracked_queries import tracking_queries

TARGETS = 1_000
PODS = 3
NAMESPACES = 40
REPEATS = 3
NOW_S = 1_790_000_000.0
METRIC = "vllm:num_requests_waiting"
CLUSTER = ClusterSettings(name="prod", prometheus=PrometheusSettings(url="http://prometheus:9090"))
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
HALF_AN_HOUR = replace(DEFAULT_BEHAVIOR, down=replace(DEFAULT_BEHAVIOR.down, stabilization_s=1_800.0))
Row = dict[str, str | int | float]
Made = TypeVar("Made")


def measure() -> list[Row]:
    """Return a row for reading the answers and for each engine, the first with its peak memory."""
    targets = [_target(index) for index in range(TARGETS)]
    answers = [_answer(query) for query in tracking_queries(CLUSTER, targets, NOW_S)]

    def read() -> dict[ResourceKey, TrackedHistory]:
        return read_tracked(targets, answers, NOW_S, Settings(clusters=(CLUSTER,)))

    histories, duration_s = _timed(read)
    ticks = len(histories[targets[0].key].backends[0].replicas)
    rows: list[Row] = [{"name": "read", "targets": TARGETS, "ticks": ticks, "duration_s": duration_s}]
    for engine in (TRACKING, KTHENA_V1, KTHENA_V0):
        _, duration_s = _timed(partial(track_targets, targets, histories, NOW_S, engine.rule_of))
        rows.append({"name": str(engine.name), "targets": TARGETS, "ticks": ticks, "duration_s": duration_s})
    return [{**rows[0], "peak_memory_mib": _peak_memory_mib(read)}, *rows[1:]]


def _timed(act: Callable[[], Made]) -> tuple[Made, float]:
    """What came of it, and the median of its durations."""
    durations_s = []
    for _ in range(REPEATS):
        started = time.process_time()
        made = act()
        durations_s.append(time.process_time() - started)
    return made, sorted(durations_s)[REPEATS // 2]


def _peak_memory_mib(act: Callable[[], object]) -> float:
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


def _target(index: int) -> TrackedTarget:
    key = ResourceKey(cluster="prod", namespace=f"team-{index % NAMESPACES}", kind="ModelServing", name=f"m-{index}")
    return TrackedTarget(
        key=replace(key, kind="AutoscalingPolicy"),
        policy=Policy(
            metrics=(MetricTarget(name=METRIC, per_replica=10.0),),
            behavior=(DEFAULT_BEHAVIOR, GUIDE, QUICK, HALF_AN_HOUR)[index % 4],
        ),
        backends=(
            TrackedBackend(
                backend=Backend(name="server", min_replicas=1, max_replicas=20 + index % 10),
                scale_target=key,
                pod_labels={"modelserving.volcano.sh/name": key.name},
                replicas=PODS,
            ),
        ),
        generation=Generation.G3,
    )


def _answer(query: Query) -> Answer:
    """An answer as Prometheus writes it: a line for each series, its numbers as text."""
    series = b",".join(_series(query))
    kind = b"vector" if query.step_s is None else b"matrix"
    body = b'{"status":"success","data":{"resultType":"%b","result":[%b]}}' % (kind, series)
    return Answer(query=query, status=AnswerStatus.OK, body=HeldBody(content=body))


def _series(query: Query) -> Iterator[bytes]:
    loads = {"tracked_ready": lambda _phase, _at_s: 1.0, f"tracked_metric {METRIC}": _load}
    asked = set(re.findall(r"team-[0-9]+", query.text))
    for index, pod in ((index, pod) for index in range(TARGETS) for pod in range(PODS)):
        namespace = f"team-{index % NAMESPACES}"
        if namespace not in asked:
            continue
        labels = f'"namespace":"{namespace}","pod":"m-{index}-{pod}-server-0-0"'
        if query.quantity == "tracked_pod_labels":
            labels += f',"label_modelserving_volcano_sh_name":"m-{index}"'
            yield f'{{"metric":{{{labels}}},"value":[{query.end_s:.0f},"1"]}}'.encode()
        elif query.quantity in loads:
            values = ",".join(_points(query, loads[query.quantity], index + pod / PODS))
            yield f'{{"metric":{{{labels}}},"values":[{values}]}}'.encode()


def _points(query: Query, load: Callable[[float, float], float], phase: float) -> Iterator[str]:
    step_s = query.step_s or 1.0
    for tick in range(round((query.end_s - query.start_s) / step_s) + 1):
        at_s = query.start_s + tick * step_s
        yield f'[{at_s:.0f},"{load(phase, at_s):.6g}"]'


def _load(phase: float, at_s: float) -> float:
    return 20 * (1.5 + math.sin((at_s % 86_400.0) / 600.0 * (1 + phase % 7) + phase)) + 3 * (phase * math.sqrt(2) % 1.0)


if __name__ == "__main__":
    for row in measure():
        print(row)
