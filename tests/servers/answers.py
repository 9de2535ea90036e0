"""Prometheus' answers for a few replicas whose numbers a test chooses, without a Prometheus."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reconciler.domain.answers import Answer, AnswerStatus, HeldBody, Query
from reconciler.domain.settings import ClusterSettings
from reconciler.metrics.quantities import PAST, RETENTION_S, USUAL, Name
from reconciler.pipeline.session import Ask
from tests.servers.speeds import FIRST_TOKEN_S, LLAMA_H100, OUTPUT_TOKENS, Speed


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One pod as its engine reports it, to which `per_s` requests come a second: what it cannot serve waits."""

    namespace: str
    pod: str
    model: str
    per_s: float
    speed: Speed = LLAMA_H100

    @property
    def labels(self) -> dict[str, str]:
        """As they stand on its series."""
        return {"namespace": self.namespace, "pod": self.pod, "model_name": self.model}

    @property
    def served_per_s(self) -> float:
        """What it finishes."""
        return self.speed.served_per_s(self.per_s)

    @property
    def readings(self) -> dict[str, float]:
        """What follows from its speed, beside what all replicas report alike."""
        return {
            Name.RUNNING: self.speed.running(self.per_s),
            Name.ITL: self.speed.itl_s(self.per_s),
            Name.QUEUE_GROWTH: self.per_s - self.served_per_s,
            Name.WAIT: self.speed.wait_s(self.per_s),
            Name.TTFT: self.speed.wait_s(self.per_s) + FIRST_TOKEN_S,
        }


PER_REPLICA: Mapping[str, float] = {
    Name.RUNNING: 8.0,
    Name.WAITING: 0.0,
    Name.ITL: 0.015,
    Name.WAIT: 0.05,
    Name.TTFT: 0.2,
    Name.OUTPUT_TOKENS: OUTPUT_TOKENS,
    Name.INPUT_TOKENS: 512.0,
    Name.QUEUE_GROWTH: 0.0,
    Name.KV_CACHE_USAGE: 0.5,
    Name.NUM_WAITING: 0.0,
    Name.KV_TOKENS: 64_000.0,
    Name.STORED_KV_TOKENS: 64_000.0,
    Name.PREFIX_HIT_RATE: 0.25,
}


UNASKED = frozenset({*PAST, *USUAL, Name.PAST_CONFIGURED})
"""As in recordings of before anybody asked for the past: then the load of now decides alone."""

Rows = Sequence[tuple[dict[str, str], float]]


def answering(*replicas: Replica, rows: Mapping[str, Rows] | None = None) -> Ask:
    """An `ask` that knows of these replicas and no others; `rows` are what else it answers, by quantity."""

    def ask(cluster: ClusterSettings, queries: Sequence[Query]) -> tuple[Answer, ...]:
        del cluster
        return tuple(
            Answer(query=each, status=AnswerStatus.OK, body=_body(each, (rows or {}).get(each.quantity), replicas))
            for each in queries
            if each.quantity not in UNASKED
        )

    return ask


def failing(reason: str) -> Ask:
    """An `ask` that gets nothing."""

    def ask(cluster: ClusterSettings, queries: Sequence[Query]) -> tuple[Answer, ...]:
        del cluster
        return tuple(Answer(query=each, status=AnswerStatus.FAILED, body=HeldBody(), reason=reason) for each in queries)

    return ask


def _body(query: Query, rows: Rows | None, replicas: Sequence[Replica]) -> HeldBody:
    rows = _rows(query, replicas) if rows is None else rows
    if query.step_s is None:
        kind, found = "vector", [{"metric": labels, "value": [query.end_s, repr(value)]} for labels, value in rows]
    else:
        moments = [query.start_s + index * query.step_s for index in range(_points(query, query.step_s))]
        kind = "matrix"
        found = [{"metric": labels, "values": [[at_s, repr(value)] for at_s in moments]} for labels, value in rows]
    answer = {"status": "success", "data": {"resultType": kind, "result": found}}
    return HeldBody(content=json.dumps(answer).encode())


def _points(query: Query, step_s: float) -> int:
    return math.floor((query.end_s - query.start_s) / step_s) + 1


def _rows(query: Query, replicas: Sequence[Replica]) -> list[tuple[dict[str, str], float]]:
    if query.quantity == Name.COMPLETIONS:
        return [(each.labels, each.served_per_s) for each in replicas]
    if query.quantity == Name.REQUESTS_IN_RETENTION:
        return [(each.labels, each.per_s * RETENTION_S) for each in replicas]
    if query.quantity == Name.LAST_SEEN:
        return [(each.labels, query.end_s) for each in replicas]
    if query.quantity in PER_REPLICA:
        return [(each.labels, each.readings.get(query.quantity, PER_REPLICA[query.quantity])) for each in replicas]
    return []
