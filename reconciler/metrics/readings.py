"""One cluster's numbers of now by pod, instance and model, and the variant that each series belongs to."""

import math
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from reconciler.domain.answers import Absence, Answer, NoAnswer, Sample
from reconciler.domain.identity import ResourceKey
from reconciler.domain.observed import ResourceQuota, kv_cache_tokens
from reconciler.domain.snapshot import Variant
from reconciler.metrics.answers import decode, is_usable, warnings_of
from reconciler.metrics.engines import ENGINES, offered
from reconciler.metrics.engines.serving_engine import BlockLabels
from reconciler.metrics.quantities import (
    ALTERNATIVE,
    BOUND,
    ESSENTIAL,
    PICKER_MODEL,
    PICKER_TARGET_MODEL,
    POD_LABEL_OF_VARIANT,
    VARIANT_LABEL,
    WORKLOAD_LABELS,
    Name,
)
from reconciler.metrics.queries import LabelNames
from reconciler.resources.kinds import ROLE
from reconciler.resources.registry import KINDS

# --- was reconciler/metrics/reading/readings.py:
# One cluster's numbers by pod, by instance and by model, and what the labels of a series say.

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


# --- was reconciler/metrics/reading/folding.py:
# Reads a cluster's answers about the present into its readings, one answer in memory at a time.


def read(answers: Sequence[Answer], names: LabelNames) -> MetricReadings:
    """Every answer about the present of one cluster; those to one quantity that was split are put together."""
    readings = MetricReadings()
    for answer in answers:
        is_instant = answer.query.step_s is None
        name = Name(answer.query.quantity) if is_instant and answer.query.quantity in FOLDS else None
        if name is not None:
            _read_one(answer, name, names, readings)
    gather_by_model(readings)
    return readings


def picked_model(labels: Mapping[str, str], names: LabelNames) -> Served:
    """The model whose requests an endpoint picker counted: the target, else the one asked for."""
    return Served(labels.get(names.namespace, ""), labels.get(PICKER_TARGET_MODEL) or labels.get(PICKER_MODEL, ""))


def written_model(labels: Mapping[str, str], names: LabelNames) -> Served:
    """The same of a query that a person wrote: it may carry our label names instead of the server's."""
    plain = LabelNames()
    return Served(
        labels.get(names.namespace) or labels.get(plain.namespace, ""),
        labels.get(names.model) or labels.get(plain.model) or labels.get("model", ""),
    )


def _read_one(answer: Answer, name: Name, names: LabelNames, readings: MetricReadings) -> None:
    samples = decode(answer)
    failed = samples if isinstance(samples, NoAnswer) else FOLDS[name](samples, name, names, readings)
    if failed:
        readings.failed.setdefault(name, failed)
    readings.answered.add(name)
    readings.warnings.update(dict.fromkeys(warnings_of(answer)))


def _fold_pods(samples: Sequence[Sample], name: Name, names: LabelNames, readings: MetricReadings) -> NoAnswer | None:
    values = readings.per_pod.setdefault(name, {})
    for sample in samples:
        series = series_of(sample.labels, names)
        if series in values:
            return _twice(name, f"pod {series.pod}")
        values[series] = sample.value
        if ALTERNATIVE in sample.labels:
            readings.alternatives[ObjectName(series.namespace, series.pod)] = sample.labels[ALTERNATIVE]
    return None


def _fold_instances(samples: Sequence[Sample], name: Name, names: LabelNames, readings: MetricReadings) -> None:
    values = readings.per_instance.setdefault(name, {})
    for sample in samples:
        instance = Instance(*series_of(sample.labels, names)[:2], rank_of(sample.labels))
        held = values.get(instance, math.nan)
        # of two that one pod reports the larger counts: a replica is as full as its fullest part
        values[instance] = sample.value if math.isnan(held) else max(held, sample.value)


def _fold_capacities(samples: Sequence[Sample], name: Name, names: LabelNames, readings: MetricReadings) -> None:
    capacities = readings.capacities.setdefault(name, {})
    for sample in samples:
        ranks = capacities.setdefault(series_of(sample.labels, names), {})
        rank = rank_of(sample.labels)
        # an engine that was started again says another number: the smaller one is there in any case
        ranks[rank] = min(capacity_of(sample.labels, sample.value), ranks.get(rank, UNSAID), key=_size)


def _size(capacity: KvCapacity) -> tuple[float, bool]:
    return capacity.tokens or math.inf, capacity.total is None


def _fold_ready(samples: Sequence[Sample], name: Name, names: LabelNames, readings: MetricReadings) -> None:
    del name
    for sample in samples:
        for kind, label in WORKLOAD_LABELS.items():
            if sample.labels.get(label):
                readings.ready[sample.labels.get(names.namespace, ""), kind, sample.labels[label]] = sample.value


def _fold_picker(samples: Sequence[Sample], name: Name, names: LabelNames, readings: MetricReadings) -> None:
    _add_up(readings.per_model.setdefault(name, {}), samples, lambda labels: picked_model(labels, names))


def _fold_buckets(samples: Sequence[Sample], name: Name, names: LabelNames, readings: MetricReadings) -> None:
    del name
    for sample in samples:
        served = Served(sample.labels.get(names.namespace, ""), sample.labels.get(names.model, ""))
        buckets = readings.buckets.setdefault(served, {})
        bound = _bound_of(sample.labels.get(BOUND, ""))
        buckets[bound] = total((buckets.get(bound, 0.0), sample.value))


def _fold_configured(samples: Sequence[Sample], name: Name, names: LabelNames, readings: MetricReadings) -> None:
    _add_up(readings.per_model.setdefault(name, {}), samples, lambda labels: written_model(labels, names))


def _add_up(
    values: dict[Served, float], samples: Sequence[Sample], served_of: Callable[[Mapping[str, str]], Served]
) -> None:
    for sample in samples:
        served = served_of(sample.labels)
        values[served] = total((values.get(served, 0.0), sample.value))


def _fold_pod_labels(samples: Sequence[Sample], name: Name, names: LabelNames, readings: MetricReadings) -> None:
    _fold_owners(samples, readings.owners.setdefault(name, {}), names, names.pod, POD_LABEL_OF_VARIANT)


def _fold_pod_owner(samples: Sequence[Sample], name: Name, names: LabelNames, readings: MetricReadings) -> None:
    _fold_owners(samples, readings.owners.setdefault(name, {}), names, names.pod, "owner_name")


def _fold_replicaset_owner(samples: Sequence[Sample], name: Name, names: LabelNames, readings: MetricReadings) -> None:
    _fold_owners(samples, readings.owners.setdefault(name, {}), names, "replicaset", "owner_name")


def _fold_owners(
    samples: Sequence[Sample], owners: dict[ObjectName, str], names: LabelNames, owned: str, owner: str
) -> None:
    for sample in samples:
        named = ObjectName(sample.labels.get(names.namespace, ""), sample.labels.get(owned, ""))
        found = sample.labels.get(owner, "")
        # two owners of one pod contradict each other: neither is believed
        owners[named] = found if owners.get(named, found) == found else ""


def _fold_unschedulable(samples: Sequence[Sample], name: Name, names: LabelNames, readings: MetricReadings) -> None:
    del name
    readings.unschedulable |= {ObjectName(*series_of(sample.labels, names)[:2]) for sample in samples}


def _fold_quotas(samples: Sequence[Sample], name: Name, names: LabelNames, readings: MetricReadings) -> None:
    del name
    for sample in samples:
        resource = sample.labels.get("resource", "").removeprefix("requests.")
        quota = ResourceQuota(name=sample.labels.get("resourcequota", ""), resource=resource, left=sample.value)
        readings.quotas.setdefault(sample.labels.get(names.namespace, ""), []).append(quota)


def _fold_clusters(samples: Sequence[Sample], name: Name, names: LabelNames, readings: MetricReadings) -> None:
    del name
    for sample in samples:
        readings.clusters.setdefault(sample.labels.get(names.namespace, ""), set()).add(
            sample.labels.get("cluster", "")
        )


def _fold_devices(samples: Sequence[Sample], name: Name, names: LabelNames, readings: MetricReadings) -> None:
    del names
    readings.devices[name] = samples


def _twice(name: Name, whose: str) -> NoAnswer:
    return NoAnswer(absence=Absence.FAILED, reason=f"the answer to {name} has two values for {whose}")


def _bound_of(told: str) -> float:
    """The upper bound of a bucket, NaN of what is none."""
    try:
        return float(told)
    except ValueError:
        return math.nan


Fold = Callable[[Sequence[Sample], Name, LabelNames, MetricReadings], NoAnswer | None]

FOLDS: Mapping[str, Fold] = {
    Name.RUNNING: _fold_pods,
    Name.MOST_RUNNING: _fold_pods,
    Name.WAITING: _fold_pods,
    Name.LAST_SEEN: _fold_pods,
    Name.COMPLETIONS: _fold_pods,
    Name.ITL: _fold_pods,
    Name.WAIT: _fold_pods,
    Name.TTFT: _fold_pods,
    Name.OUTPUT_TOKENS: _fold_pods,
    Name.INPUT_TOKENS: _fold_pods,
    Name.INPUT_BUCKETS: _fold_buckets,
    Name.QUEUE_GROWTH: _fold_pods,
    Name.ARRIVALS_ENDPOINT_PICKER: _fold_picker,
    Name.ARRIVALS_CONFIGURED: _fold_configured,
    Name.POD_LABELS: _fold_pod_labels,
    Name.POD_OWNER: _fold_pod_owner,
    Name.REPLICASET_OWNER: _fold_replicaset_owner,
    Name.KV_CACHE_USAGE: _fold_instances,
    Name.NUM_WAITING: _fold_instances,
    Name.PREFIX_HIT_RATE: _fold_instances,
    Name.KV_TOKENS: _fold_capacities,
    Name.STORED_KV_TOKENS: _fold_capacities,
    Name.FLOW_CONTROL_QUEUE_SIZE: _fold_picker,
    Name.FLOW_CONTROL_QUEUE_BYTES: _fold_picker,
    Name.REQUESTS_IN_RETENTION: _fold_pods,
    Name.READY_REPLICAS: _fold_ready,
    Name.CHANGES: _fold_pods,
    Name.UNSCHEDULABLE: _fold_unschedulable,
    Name.QUOTAS: _fold_quotas,
    Name.CLUSTER_LABEL: _fold_clusters,
    Name.NODES: _fold_devices,
    Name.DEVICE_REQUESTS: _fold_devices,
}


# --- was reconciler/metrics/reading/attribution.py:
# Attributes series to variants, by the first of five rules that finds one. 1. the label `llm_d_ai_variant` on the
# series; 2. the same label on the pod; 3. the Deployment that owns the pod's ReplicaSet; 4. the pod's name, by the
# pattern of the scale target's kind; 5. the served model, when one variant has it.

LONGEST_NAME = 253

ANY_ROLE = "[0-9a-z]([-0-9a-z]*[0-9a-z])?"

_POD_NAMES = {
    name: re.compile(f"(.+?){kind.pod_names.replace(ROLE, ANY_ROLE)}") for name, kind in KINDS.items() if kind.pod_names
}

AttributionKey = TypeVar("AttributionKey", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """Indexes of one cluster's variants; a name that two variants claim is in none of them."""

    by_name: Mapping[ObjectName, ResourceKey]
    by_target: Mapping[Target, ResourceKey]
    by_model: Mapping[Served, ResourceKey]
    readings: MetricReadings

    def variant_of(self, series: ReplicaSeries) -> ResourceKey | None:
        """The variant whose replica reports `series`, None when no rule leads to one."""
        return (
            self.by_name.get(ObjectName(series.namespace, series.variant))
            or self._by_pod_label(series)
            or self._by_owner(series)
            or self._by_pod_name(series)
            or self.by_model.get(Served(series.namespace, series.model))
        )

    def is_elsewhere(self, series: ReplicaSeries) -> bool:
        """Whether the pod behind `series` is known to be of a Deployment that no variant scales."""
        deployment = self._deployment_of(series)
        return bool(deployment) and (series.namespace, "Deployment", deployment) not in self.by_target

    def _by_pod_label(self, series: ReplicaSeries) -> ResourceKey | None:
        name = self.readings.owner_of(Name.POD_LABELS, ObjectName(series.namespace, series.pod))
        return self.by_name.get(ObjectName(series.namespace, name))

    def _by_owner(self, series: ReplicaSeries) -> ResourceKey | None:
        return self.by_target.get((series.namespace, "Deployment", self._deployment_of(series)))

    def _deployment_of(self, series: ReplicaSeries) -> str:
        replicaset = self.readings.owner_of(Name.POD_OWNER, ObjectName(series.namespace, series.pod))
        return self.readings.owner_of(Name.REPLICASET_OWNER, ObjectName(series.namespace, replicaset))

    def _by_pod_name(self, series: ReplicaSeries) -> ResourceKey | None:
        if len(series.pod) > LONGEST_NAME:
            return None
        matches = [(kind, pattern.fullmatch(series.pod)) for kind, pattern in _POD_NAMES.items()]
        targets = [(series.namespace, kind, match[1]) for kind, match in matches if match]
        known = [target for target in targets if target in self.by_target]
        return self.by_target[max(known, key=lambda target: len(target[2]))] if known else None


def attribution_of(variants: Sequence[Variant], readings: MetricReadings) -> Attribution:
    """The indexes of `variants`, all of one cluster."""
    return Attribution(
        by_name=_unambiguous(
            (ObjectName(variant.key.namespace, variant.key.name), variant.key) for variant in variants
        ),
        by_target=_unambiguous((target_of(variant), variant.key) for variant in variants),
        by_model=_unambiguous((served, variant.key) for variant in variants for served in served_by(variant)),
        readings=readings,
    )


def target_of(variant: Variant) -> Target:
    """The object that pods are named after; without a scale target in Git, the Deployment named like the resource."""
    if variant.workload is None:
        return variant.key.namespace, "Deployment", variant.key.name
    key = variant.workload.becomes or variant.workload.key
    return key.namespace, key.kind, key.name


def served_by(variant: Variant) -> tuple[Served, ...]:
    """The names under which metrics may know the variant's model."""
    names = variant.served_names or (variant.model.model_id,)
    return tuple(Served(variant.model.namespace, name) for name in dict.fromkeys(names))


def name_models(readings: MetricReadings, attribution: Attribution, first_names: Mapping[ResourceKey, Served]) -> None:
    """Count each series without a model for the first served name of the variant whose pod it is."""
    unnamed = {series for values in readings.per_pod.values() for series in values if not series.model}
    names: dict[ReplicaSeries, ReplicaSeries] = {}
    for series in unnamed:
        variant = attribution.variant_of(series)
        if variant is not None:
            names[series] = series._replace(model=first_names[variant].model)
    if not names:
        return
    for name, values in readings.per_pod.items():
        known = {series: value for series, value in values.items() if series not in names}
        # a pod that names its model beside a series that does not has said it already
        readings.per_pod[name] = {names.get(series, series): value for series, value in values.items()} | known
    readings.renamed.update(names.values())
    gather_by_model(readings)


def _unambiguous(pairs: Iterable[tuple[AttributionKey, ResourceKey]]) -> dict[AttributionKey, ResourceKey]:
    found: dict[AttributionKey, ResourceKey] = {}
    contested: set[AttributionKey] = set()
    for key, variant in pairs:
        if found.setdefault(key, variant) != variant:
            contested.add(key)
    return {key: variant for key, variant in found.items() if key not in contested}
