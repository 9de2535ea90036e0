"""How long a long history of many models takes from the bytes of the answers to arrays that can be asked.

Fourteen days at one hour and a day at five minutes, of what replicas finished and what queues grew by: arrivals.
`measure` makes the answers, as many points in each as a run asks for, and reads them in a process of their own.
"""

import gc
import json
import math
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from reconciler.domain.answers import Answer, AnswerStatus, Query
from reconciler.domain.history import grid_of
from reconciler.domain.identity import ModelKey
from reconciler.domain.settings import ClusterSettings, PrometheusSettings
from reconciler.metrics.history import PastReadings, read_past
from reconciler.metrics.loads import Model
from reconciler.metrics.quantities import Name
from reconciler.metrics.queries import LabelNames, history_queries
from reconciler.metrics.readings import MetricReadings, Served, attribution_of
from tests.bench.fleet import NOW_S
from tests.bench.processes import run_python

MODELS = 10_000
MODELS_PER_NAMESPACE = 50
SPANS = ((14 * 86_400.0, 3600.0), (86_400.0, 300.0))
"""How far back, and in which steps."""
ARRIVALS = (Name.PAST_COMPLETIONS, Name.PAST_QUEUE_GROWTH)
SHAPES = 50
"""Series that differ; models have them in turn."""
CLUSTER = ClusterSettings(name="prod", prometheus=PrometheusSettings(url="http://p"))
YARDSTICK = "yardstick: numpy reads the numbers alone"
"""A machine's speed of the moment: what the C library alone needs for the same values as one text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileBody:
    """A body in a file."""

    path: Path

    def read(self) -> bytes:
        """The bytes."""
        return self.path.read_bytes()


def served_by(number: int) -> Served:
    """The name of a model, by its number."""
    return Served(f"team-{number // MODELS_PER_NAMESPACE}", f"org/model-{number}")


def queries(models: int, span_s: float, step_s: float) -> tuple[Query, ...]:
    """What is asked of so many models."""
    namespaces: dict[str, int] = {}
    for number in range(models):
        namespace = served_by(number).namespace
        namespaces[namespace] = namespaces.get(namespace, 0) + 1
    return history_queries(CLUSTER, namespaces, NOW_S - span_s, NOW_S, step_s, ARRIVALS)


def body_of(query: Query, models: int) -> bytes:
    """Rates that go up and down with the day, as Prometheus writes them."""
    assert query.step_s is not None
    times_s = grid_of(query.start_s, query.end_s, query.step_s).times_s
    shapes = [",".join(_points(times_s.tolist(), number, query)) for number in range(SHAPES)]
    labels = [dict(zip(("namespace", "model_name"), served_by(number), strict=True)) for number in range(models)]
    entries = (
        f'{{"metric":{name},"values":[{shapes[number % SHAPES]}]}}'
        for number, name in enumerate(map(json.dumps, labels))
    )
    return b'{"status":"success","data":{"resultType":"matrix","result":[%b]}}' % ",".join(entries).encode()


def _points(times_s: Sequence[float], number: int, query: Query) -> Iterator[str]:
    scale = 0.01 if query.quantity == Name.PAST_QUEUE_GROWTH else 1.0
    for at_s in times_s:
        rate = scale * (2 + number % 7 + math.sin(2 * math.pi * at_s / 86_400 + number))
        yield f'[{at_s:.0f},"{rate!r}"]'


def read(answers: Sequence[Answer], models: Sequence[Model]) -> PastReadings:
    """The answers as arrays, and what arrived for each model."""
    readings = read_past(answers, LabelNames(), attribution_of((), MetricReadings()), {}, set(ARRIVALS))
    finished, _ = readings.summed(Name.PAST_COMPLETIONS, models)
    growth, _ = readings.summed(Name.PAST_QUEUE_GROWTH, models, is_net=True)
    arrivals = finished + np.maximum(growth, 0.0)
    assert np.isfinite(arrivals).all()
    return readings


def models_of(count: int) -> list[Model]:
    """Models that are served by a name each."""
    return [
        Model(
            key=ModelKey(cluster=CLUSTER.name, namespace=served.namespace, model_id=served.model),
            members=(),
            served=(served,),
            obstacle=None,
        )
        for served in map(served_by, range(count))
    ]


def measure(models: int = MODELS) -> dict[str, str | int | float]:
    """Points, seconds of the processor and peak memory of a process that reads them all."""
    with tempfile.TemporaryDirectory() as directory:
        points = 0
        for number, (span_s, step_s) in enumerate(SPANS):
            for part, query in enumerate(queries(models, span_s, step_s)):
                body = body_of(query, models)
                points += body.count(b"],[") + models
                (Path(directory) / f"{number}-{part}").write_bytes(body)
        spent = run_python("tests.bench.history", directory, str(models))
    times_s = json.loads(spent.output)
    return {
        "models": models,
        "points": points,
        "duration_s": times_s["read"],
        "yardsticks": times_s["read"] / times_s[YARDSTICK],
        "peak_mib": spent.peak_mib,
    }


def time_reading(directory: Path, models: int) -> dict[str, float]:
    """Seconds of the processor: to read the answers in a directory, and of the yardstick."""
    every = [
        [
            Answer(query=query, status=AnswerStatus.OK, body=FileBody(path=directory / f"{number}-{part}"))
            for part, query in enumerate(queries(models, span_s, step_s))
        ]
        for number, (span_s, step_s) in enumerate(SPANS)
    ]
    known = models_of(models)
    gc.disable()  # as in a run
    started_s = time.process_time()
    held = [read(answers, known) for answers in every]
    read_s = time.process_time() - started_s
    values = np.concatenate([history.values[:SHAPES].ravel() for each in held for history in each.rates.values()])
    text = ",".join(map(repr, values.tolist())).encode()
    started_s = time.process_time()
    for _ in range(models // SHAPES):
        np.fromstring(text, sep=",", count=len(values))
    return {"read": read_s, YARDSTICK: time.process_time() - started_s}


if __name__ == "__main__":
    print(json.dumps(time_reading(Path(sys.argv[1]), int(sys.argv[2]))))
