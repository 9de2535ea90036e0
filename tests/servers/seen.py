"""What a metrics server saw of a few pods, told in a line each: numbers, or how they changed, without a Prometheus."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from reconciler.domain.answers import Answer, AnswerStatus, HeldBody, Query
from reconciler.metrics.quantities import Name
from reconciler.metrics.queries import exported_label
from reconciler.metrics.tracked_queries import ACTIVITY, TrackedQuantity
from tests.servers.answers import PER_REPLICA

Steps = float | Mapping[float, float]
"""A number, or what it became so many seconds before now: `{-1800: 20, -60: 90}`."""
Row = tuple[dict[str, str], Steps]
_ACTIVE: Mapping[str, Name] = {asked: name for name, asked in ACTIVITY.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """One pod: finished requests a second under `model`, its labels, metrics by name, and other readings."""

    name: str
    namespace: str = "llm"
    model: str = ""
    per_s: float = 0.0
    ready: Steps = 1.0
    labels: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, Steps] = field(default_factory=dict)
    readings: Mapping[str, float] = field(default_factory=dict)

    @property
    def named(self) -> dict[str, str]:
        """What every series of it carries."""
        return {"namespace": self.namespace, "pod": self.name}


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The pods, the requests that a picker counted a second by model, and what queries of one's own return."""

    pods: tuple[Pod, ...] = ()
    picked: Mapping[str, float] = field(default_factory=dict)
    queries: Mapping[str, Steps] = field(default_factory=dict)

    def answers_to(self, queries: Sequence[Query]) -> tuple[Answer, ...]:
        """An answer to every query, in their order."""
        return tuple(Answer(query=each, status=AnswerStatus.OK, body=_body(each, self.rows(each))) for each in queries)

    def rows(self, query: Query) -> Iterator[Row]:
        """The series that answer a query."""
        asked, _, metric = query.quantity.partition(" ")
        if asked == TrackedQuantity.EXTERNAL:
            if query.text in self.queries:
                yield {}, self.queries[query.text]
        elif asked == Name.ARRIVALS_ENDPOINT_PICKER:
            for model, per_s in self.picked.items():
                yield {"namespace": "llm", "model_name": model}, per_s
        elif asked == TrackedQuantity.COUNTED:
            yield {}, float(len(self.pods))
        else:
            for pod in self.pods:
                yield from _rows_of(pod, asked, metric, query.end_s)


def _rows_of(pod: Pod, asked: str, metric: str, now_s: float) -> Iterator[Row]:
    if asked == TrackedQuantity.READY:
        yield pod.named, pod.ready
    elif asked == TrackedQuantity.POD_LABELS and pod.labels:
        yield {**pod.named, **{exported_label(key): value for key, value in pod.labels.items()}}, 1.0
    elif asked == TrackedQuantity.METRIC and metric in pod.metrics:
        yield pod.named, pod.metrics[metric]
    elif asked in _ACTIVE and pod.model:
        yield pod.named, _reading(pod, _ACTIVE[asked], now_s)
    elif asked in (*PER_REPLICA, Name.COMPLETIONS, Name.LAST_SEEN) and pod.model:
        yield {**pod.named, "model_name": pod.model}, _reading(pod, asked, now_s)


def _reading(pod: Pod, name: str, now_s: float) -> float:
    usual = {Name.COMPLETIONS: pod.per_s, Name.LAST_SEEN: now_s, **PER_REPLICA}
    return float(pod.readings.get(name, usual[Name(name)]))


def _body(query: Query, rows: Iterator[Row]) -> HeldBody:
    found = []
    for labels, steps in rows:
        if query.step_s is None:
            found.append({"metric": labels, "value": [query.end_s, repr(_at(steps, 0.0))]})
        else:
            ticks = math.floor((query.end_s - query.start_s) / query.step_s) + 1
            moments = [query.start_s + index * query.step_s for index in range(ticks)]
            values = [[at_s, repr(_at(steps, at_s - query.end_s))] for at_s in moments]
            found.append({"metric": labels, "values": [each for each in values if each[1] != "nan"]})
    kind = "vector" if query.step_s is None else "matrix"
    content = {"status": "success", "data": {"resultType": kind, "result": found}}
    return HeldBody(content=json.dumps(content).encode())


def _at(steps: Steps, offset_s: float) -> float:
    """The last step up to then; NaN before the first."""
    if isinstance(steps, Mapping):
        return next((float(value) for at_s, value in sorted(steps.items(), reverse=True) if at_s <= offset_s), math.nan)
    return float(steps)
