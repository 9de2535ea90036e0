"""Prometheus' answers for a few replicas whose numbers a test chooses, without a Prometheus."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from reconciler.domain.answers import Answer, AnswerStatus, HeldBody, Query
from reconciler.domain.settings import ClusterSettings
from reconciler.metrics.quantities import Name
from reconciler.pipeline.doors import Ask


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One pod as its engine reports it; `per_s` are finished requests a second."""

    namespace: str
    pod: str
    model: str
    per_s: float

    @property
    def labels(self) -> dict[str, str]:
        """As they stand on its series."""
        return {"namespace": self.namespace, "pod": self.pod, "model_name": self.model}


PER_REPLICA = {Name.RUNNING: 8.0, Name.WAITING: 0.0, Name.ITL: 0.015, Name.WAIT: 0.05, Name.TTFT: 0.2}
PER_MODEL = {Name.OUTPUT_TOKENS: 180.0, Name.INPUT_TOKENS: 512.0, Name.QUEUE_GROWTH: 0.0}


def answering(*replicas: Replica) -> Ask:
    """An `ask` that knows of these replicas and no others."""

    def ask(cluster: ClusterSettings, queries: Sequence[Query]) -> tuple[Answer, ...]:
        del cluster
        return tuple(Answer(query=each, status=AnswerStatus.OK, body=_body(each, replicas)) for each in queries)

    return ask


def failing(reason: str) -> Ask:
    """An `ask` that gets nothing."""

    def ask(cluster: ClusterSettings, queries: Sequence[Query]) -> tuple[Answer, ...]:
        del cluster
        return tuple(Answer(query=each, status=AnswerStatus.FAILED, body=HeldBody(), reason=reason) for each in queries)

    return ask


def _body(query: Query, replicas: Sequence[Replica]) -> HeldBody:
    rows = _rows(query, replicas)
    result = [{"metric": labels, "value": [query.end_s, repr(value)]} for labels, value in rows]
    answer = {"status": "success", "data": {"resultType": "vector", "result": result}}
    return HeldBody(content=json.dumps(answer).encode())


def _rows(query: Query, replicas: Sequence[Replica]) -> list[tuple[dict[str, str], float]]:
    name = Name(query.quantity)
    if name is Name.COMPLETIONS:
        return [(each.labels, each.per_s) for each in replicas]
    if name is Name.LAST_SEEN:
        return [(each.labels, query.end_s) for each in replicas]
    if name in PER_REPLICA:
        return [(each.labels, PER_REPLICA[name]) for each in replicas]
    if name in PER_MODEL:
        models = sorted({(each.namespace, each.model) for each in replicas})
        return [({"namespace": place, "model_name": model}, PER_MODEL[name]) for place, model in models]
    return []
