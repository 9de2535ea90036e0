"""One cluster's numbers by pod, by instance and by model, and what the labels of a series say."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from reconciler.domain.measured.answers import Absence, NoAnswer, Sample
from reconciler.domain.measured.observed import ResourceQuota
from reconciler.domain.measured.replicas import kv_cache_tokens
from reconciler.metrics.engines import ENGINES, offered
from reconciler.metrics.engines.serving_engine import BlockLabels
from reconciler.metrics.quantities.loads import ESSENTIAL
from reconciler.metrics.quantities.quantity import VARIANT_LABEL, Name
from reconciler.metrics.queries.expressions import LabelNames
from reconciler.metrics.reading.decoding import is_usable

ADDED_UP = (Name.COMPLETIONS, Name.RUNNING, Name.WAITING, Name.QUEUE_GROWTH, Name.REQUESTS_IN_RETENTION)
"""Asked by pod and needed by model as well."""
LENGTHS = (Name.OUTPUT_TOKENS, Name.INPUT_TOKENS)
RANKS = tuple(dict.fromkeys(engine.rank for engine in ENGINES.values() if engine.rank))
"""Labels that tell the data-parallel ranks of a pod apart."""
IN_LABELS = tuple(each for each in offered(lambda engine: engine.kv_tokens) if isinstance(each, BlockLabels))
"""Where engines say how many blocks a KV cache has and how many tokens one takes: in values of labels."""
WHOLE = re.compile("[0-9]{1,15}")
Key = TypeVar("Key")
Item = TypeVar("Item")


class ReplicaSeries(NamedTuple):
    """What one replica reports of one served model; `variant` is the label of that meaning, mostly empty."""

    namespace: str
    pod: str
    model: str
    variant: str


class Served(NamedTuple):
    """A model as metrics name it, in a namespace."""

    namespace: str
    model: str


class ObjectName(NamedTuple):
    """A pod or ReplicaSet."""

    namespace: str
    name: str


class Instance(NamedTuple):
    """A data-parallel rank of a pod, which is an instance of the engine; mostly there is one, without a rank."""

    namespace: str
    pod: str
    rank: str


class KvCapacity(NamedTuple):
    """What the KV cache of an instance holds, in tokens or in blocks; None where it does not say."""

    num_blocks: float | None = None
    block_tokens: float | None = None
    total: float | None = None

    @property
    def tokens(self) -> float | None:
        """Tokens, however it was said; None when it was not, or is none."""
        return kv_cache_tokens(self.total, self.num_blocks, self.block_tokens)


UNSAID = KvCapacity()

Target = tuple[str, str, str]
"""Namespace, kind and name of a scale target."""

NOTHING: Mapping[ReplicaSeries, float] = {}


@dataclass(slots=True, kw_only=True)
class MetricReadings:
    """One cluster's numbers by quantity; what could not be read is in `failed`, what was not asked is nowhere."""

    per_pod: dict[Name, dict[ReplicaSeries, float]] = field(default_factory=dict)
    per_model: dict[Name, dict[Served, float]] = field(default_factory=dict)
    per_instance: dict[Name, dict[Instance, float]] = field(default_factory=dict)
    capacities: dict[Name, dict[ReplicaSeries, dict[str, KvCapacity]]] = field(default_factory=dict)
    ready: dict[Target, float] = field(default_factory=dict)
    owners: dict[Name, dict[ObjectName, str]] = field(default_factory=dict)
    unschedulable: set[ObjectName] = field(default_factory=set)
    quotas: dict[str, list[ResourceQuota]] = field(default_factory=dict)
    clusters: dict[str, set[str]] = field(default_factory=dict)
    devices: dict[Name, Sequence[Sample]] = field(default_factory=dict)
    buckets: dict[Served, dict[float, float]] = field(default_factory=dict)
    reporting: dict[Name, dict[Served, list[ReplicaSeries]]] = field(default_factory=dict)
    alternatives: dict[ObjectName, str] = field(default_factory=dict)
    renamed: set[ReplicaSeries] = field(default_factory=set)
    failed: dict[Name, NoAnswer] = field(default_factory=dict)
    answered: set[Name] = field(default_factory=set)
    warnings: dict[str, None] = field(default_factory=dict)

    def of_pods(self, name: Name) -> Mapping[ReplicaSeries, float]:
        """A quantity's values by pod, empty without an answer."""
        return self.per_pod.get(name, NOTHING)

    def of_model(self, name: Name, served: Served) -> float | None:
        """A quantity of one served model, None when there is no series."""
        return self.per_model.get(name, {}).get(served)

    def members(self, name: Name, served: Served) -> Sequence[ReplicaSeries]:
        """The series of a quantity that report one served model."""
        return self.reporting.get(name, {}).get(served, ())

    def owner_of(self, name: Name, named: ObjectName) -> str:
        """The owner that `name` (pod_labels, pod_owner, replicaset_owner) tells of a pod or ReplicaSet, or nothing."""
        return self.owners.get(name, {}).get(named, "")

    @property
    def obstacle(self) -> NoAnswer | None:
        """Why nothing about this cluster can be trusted, None when every essential quantity was answered."""
        for name in sorted(ESSENTIAL):
            if name in self.failed:
                return self.failed[name]
            if name not in self.answered:
                return NoAnswer(absence=Absence.FAILED, reason=f"Prometheus was not asked for {name}")
        return None


def gather_by_model(readings: MetricReadings) -> None:
    """Which series report a model, and what they make together."""
    for name in (*ADDED_UP, *LENGTHS):
        gathered: dict[Served, list[ReplicaSeries]] = {}
        values = readings.of_pods(name)
        for series in values:
            gathered.setdefault(Served(series.namespace, series.model), []).append(series)
        readings.reporting[name] = gathered
        if name in ADDED_UP:
            add_up = _net if name is Name.QUEUE_GROWTH else total
            readings.per_model[name] = {
                served: add_up([values[one] for one in members]) for served, members in gathered.items()
            }


def series_of(labels: Mapping[str, str], names: LabelNames) -> ReplicaSeries:
    """The replica and model that `labels` name; nothing stands for a label that is not there."""
    label = labels.get
    return ReplicaSeries(
        label(names.namespace, ""), label(names.pod, ""), label(names.model, ""), label(VARIANT_LABEL, "")
    )


def rank_of(labels: Mapping[str, str]) -> str:
    """The data-parallel rank that `labels` name, mostly none."""
    return next((labels[label] for label in RANKS if labels.get(label)), "")


def capacity_of(labels: Mapping[str, str], value: float) -> KvCapacity:
    """What a series says of a KV cache: in values of its labels, which may read "None", or in its own value."""
    for told in IN_LABELS:
        if told.num_blocks in labels or told.block_tokens in labels:
            num_blocks, block_tokens = labels.get(told.num_blocks, ""), labels.get(told.block_tokens, "")
            return KvCapacity(num_blocks=_count(num_blocks), block_tokens=_count(block_tokens))
    return KvCapacity(total=value if is_usable(value) else None)


def total(values: Sequence[float]) -> float:
    """The sum, NaN as soon as one of the values cannot be reckoned with."""
    return math.fsum(values) if all(map(is_usable, values)) else math.nan


def _net(values: Sequence[float]) -> float:
    return math.fsum(values) if all(is_usable(abs(value)) for value in values) else math.nan


def _count(text: str) -> float | None:
    return float(text) if WHOLE.fullmatch(text) else None


def grouped(pairs: Iterable[tuple[Key, Item]]) -> dict[Key, list[Item]]:
    """Items by their keys, both in the order they came."""
    groups: dict[Key, list[Item]] = {}
    for key, item in pairs:
        groups.setdefault(key, []).append(item)
    return groups
