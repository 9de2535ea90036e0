"""Variants, answers and settings in a line each."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from reconciler.domain.answers import Answer, AnswerStatus, HeldBody, Query
from reconciler.domain.identity import ResourceKey
from reconciler.domain.metric_targets import (
    Backend,
    Generation,
    MetricSource,
    MetricTarget,
    Policy,
    TrackedBackend,
    TrackedTarget,
)
from reconciler.domain.settings import ClusterSettings, PrometheusSettings, Settings
from reconciler.metrics.observed import read_observed
from reconciler.metrics.quantities import QUANTITIES
from tests.servers.variants import make_variant

__all__ = ["NOW_S", "SETTINGS", "Fleet", "look", "make_answer", "make_target", "make_variant"]
NOW_S = 1_790_000_000.0
SETTINGS = Settings(
    clusters=(ClusterSettings(name="prod", prometheus=PrometheusSettings(url="http://prometheus:9090")),)
)


def make_answer(
    quantity: str,
    rows: Sequence[tuple[Mapping[str, str], float | str]] = (),
    *,
    cluster: str = "prod",
    body: bytes | None = None,
    failed: str = "",
    **extra: Any,
) -> Answer:
    query = Query(cluster=cluster, quantity=quantity, text="up", start_s=NOW_S, end_s=NOW_S)
    if failed:
        return Answer(query=query, status=AnswerStatus.FAILED, body=HeldBody(), reason=failed)
    if body is None:
        result = [{"metric": labels, "value": [NOW_S, str(value)]} for labels, value in rows]
        body = json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}, **extra}).encode()
    return Answer(query=query, status=AnswerStatus.OK, body=HeldBody(content=body))


class Fleet:
    """What a cluster's Prometheus would answer; each `pod` adds its series, `answers` gives all of them."""

    def __init__(self, cluster: str = "prod", namespace: str = "llm") -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.rows: dict[str, list[tuple[Mapping[str, str], float | str]]] = {
            quantity.name: [] for quantity in QUANTITIES
        }
        self.lengths: dict[str, dict[str, float | str]] = {}
        self.failed: dict[str, str] = {}
        self.missing: set[str] = set()

    def add(self, quantity: str, value: float | str, **labels: str) -> "Fleet":
        """One series."""
        self.rows.setdefault(quantity, []).append(({"namespace": self.namespace, **labels}, value))
        return self

    def pod(
        self,
        pod: str,
        *,
        model: str = "llama",
        completions: float | str | None = 1.0,
        running: float | str | None = 4.0,
        waiting: float | str = 0.0,
        age_s: float | None = 10.0,
        **latencies: float | str,
    ) -> "Fleet":
        """A replica: None leaves a series out."""
        labels = {"pod": pod, **({"model_name": model} if model else {})}
        values = {"completions": completions, "running": running, "waiting": None if running is None else waiting}
        lengths = self.lengths.get(model, {})
        if "queue_growth" in lengths:
            self.lengths[model] = {**lengths, "queue_growth": 0.0}  # the first pod has all of it
        for quantity, value in {**values, **lengths, **latencies}.items():
            if value is not None:
                self.add(quantity, value, **labels)
        if age_s is not None:
            self.add("last_seen", NOW_S - age_s, **labels)
        return self

    def model(
        self,
        model: str = "llama",
        *,
        output: float | str = 180.0,
        input_: float | str = 512.0,
        growth: float | str = 0.0,
    ) -> "Fleet":
        """What the pods that come after report of its requests; the first of them has all growth."""
        self.lengths[model] = {"output_tokens": output, "input_tokens": input_, "queue_growth": growth}
        return self

    def of_older_recording(
        self, model: str, *, output: float | str, input_: float | str, growth: float | str = 0.0
    ) -> "Fleet":
        """What was asked by model before it was asked by pod."""
        for quantity, value in (("output_tokens", output), ("input_tokens", input_), ("queue_growth", growth)):
            self.add(quantity, value, model_name=model)
        return self

    @property
    def answers(self) -> list[Answer]:
        """All answers, the failed ones among them."""
        return [
            make_answer(name, rows, cluster=self.cluster, failed=self.failed.get(name, ""))
            for name, rows in self.rows.items()
            if name not in self.missing
        ]


def look(fleet: Fleet, *variants: Any, settings: Settings = SETTINGS) -> Any:
    """Read a fleet as the cluster of some variants."""
    return read_observed(variants, fleet.answers, NOW_S, settings)


def make_target(
    name: str = "chat",
    *,
    kind: str = "Deployment",
    namespace: str = "llm",
    cluster: str = "prod",
    sources: Mapping[str, MetricSource] | None = None,
    metrics: Sequence[str] = ("vllm:num_requests_waiting",),
    replicas: int | None = 2,
    grace_s: float | None = None,
    pods_per_replica: int = 1,
    labels: Mapping[str, str] | None = None,
    **policy: Any,
) -> TrackedTarget:
    """A workload that a policy scales by some metrics."""
    key = ResourceKey(cluster=cluster, namespace=namespace, kind=kind, name=name)
    return TrackedTarget(
        key=replace(key, kind="AutoscalingPolicy"),
        policy=Policy(metrics=tuple(MetricTarget(name=each, per_replica=10.0) for each in metrics), **policy),
        backends=(
            TrackedBackend(
                backend=Backend(name=name, min_replicas=0, max_replicas=9, scale_to_zero_grace_s=grace_s),
                scale_target=key,
                pod_labels=labels or {},
                sources=sources or {},
                replicas=replicas,
                pods_per_replica=pods_per_replica,
            ),
        ),
        generation=Generation.G4,
    )
