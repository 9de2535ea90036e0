"""One cluster's current values by pod, instance and model, and the variant that each series belongs to.

`read` decodes the answers, one in memory at a time, into `MetricReadings`. `Attribution` finds the variant of a series
by the first rule that applies: 1. the label `llm_d_ai_variant` of the series; 2. the same label of its pod; 3. the
Deployment that owns the pod's ReplicaSet; 4. the pod's name, by the pattern of the scale target's kind; 5. the served
model, if only one variant serves it.
"""

import math
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import NamedTuple, TypeVar

from reconciler.domain.answers import Absence, Answer, NoAnswer, Sample
from reconciler.domain.identity import ResourceKey
from reconciler.domain.observed import ResourceQuota, kv_cache_tokens
from reconciler.domain.records import dataclass
from reconciler.domain.snapshot import Variant
from reconciler.metrics.answers import decode_with_warnings, is_usable
from reconciler.metrics.engines import ENGINES, offered
from reconciler.metrics.engines.serving_engine import BlockLabels
from reconciler.metrics.quantities import (
    ALTERNATIVE,
    BOUND,
    CLUSTER,
    ESSENTIAL,
    PICKER_MODEL,
    PICKER_TARGET_MODEL,
    POD_LABEL_OF_VARIANT,
    VARIANT_LABEL,
    WORKLOAD_LABELS,
    Name,
)
from reconciler.metrics.queries import LabelNames
from reconciler.metrics.routers import MODEL as ROUTED_MODEL
from reconciler.resources.kinds import ROLE
from reconciler.resources.registry import KINDS

_ADDED_UP = (Name.COMPLETIONS, Name.RUNNING, Name.WAITING, Name.QUEUE_GROWTH, Name.REQUESTS_IN_RETENTION)
"""Queried by pod and needed by model as well."""
_RANKS = tuple(dict.fromkeys(engine.rank for engine in ENGINES.values() if engine.rank))
_BLOCK_LABELS = tuple(each for each in offered(lambda engine: engine.kv_tokens) if isinstance(each, BlockLabels))
_WHOLE = re.compile("[0-9]{1,15}")
Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")


class ReplicaSeries(NamedTuple):
    """What one replica reports of one served model; `variant` is the label with that meaning, mostly empty."""

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
    """An instance of the engine: a data-parallel rank of a pod; mostly a pod has one, without a rank."""

    namespace: str
    pod: str
    rank: str


class KvCapacity(NamedTuple):
    """The size of an instance's KV cache, in tokens or in blocks; None where it is not reported."""

    num_blocks: float | None = None
    block_tokens: float | None = None
    total: float | None = None

    @property
    def tokens(self) -> float | None:
        """The size in tokens, None when it was not reported."""
        return kv_cache_tokens(self.total, self.num_blocks, self.block_tokens)


UNKNOWN_CAPACITY = KvCapacity()
Target = tuple[str, str, str]
"""Namespace, kind and name of a scale target."""


@dataclass(slots=True, kw_only=True)
class MetricReadings:
    """One cluster's values by quantity; `failed` are the answers that could not be read, `answered` all of them.

    `series` are the keys of `per_pod`, each kept once: a dozen quantities report the same replicas.
    """

    series: dict[tuple[str, str, str, str], ReplicaSeries] = field(default_factory=dict)
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
        return self.per_pod.get(name, {})

    def of_model(self, name: Name, served: Served) -> float | None:
        """A quantity of one served model, None when there is no series."""
        return self.per_model.get(name, {}).get(served)

    def members(self, name: Name, served: Served) -> Sequence[ReplicaSeries]:
        """The series of a quantity that report one served model."""
        return self.reporting.get(name, {}).get(served, ())

    def owner_of(self, name: Name, named: ObjectName) -> str:
        """The owner of a pod or ReplicaSet by `name` (pod_labels, pod_owner, replicaset_owner), empty if unknown."""
        return self.owners.get(name, {}).get(named, "")

    def absence_of(self, name: Name) -> NoAnswer | None:
        """Why there is no answer about a quantity, None when there is one."""
        if name in self.failed:
            return self.failed[name]
        if name not in self.answered:
            return NoAnswer(Absence.FAILED, f"Prometheus was not queried for {name}")
        return None

    @property
    def obstacle(self) -> NoAnswer | None:
        """Why nothing about this cluster can be trusted, None when every essential quantity was answered."""
        return next(filter(None, map(self.absence_of, sorted(ESSENTIAL))), None)


def read(answers: Sequence[Answer], names: LabelNames) -> MetricReadings:
    """Every answer about the present of one cluster; answers to parts of one quantity are combined."""
    readings = MetricReadings()
    for answer in answers:
        is_devices = answer.query.quantity in (Name.NODES, Name.DEVICE_REQUESTS)
        if answer.query.step_s is not None or not (is_devices or answer.query.quantity in _FOLDS):
            continue
        name = Name(answer.query.quantity)
        samples, warnings = decode_with_warnings(answer)
        if isinstance(samples, NoAnswer):
            readings.failed.setdefault(name, samples)
        elif is_devices:
            readings.devices[name] = samples
        else:
            failed = _FOLDS[name](names, readings, name, samples)
            if failed:
                readings.failed.setdefault(name, failed)
        readings.answered.add(name)
        readings.warnings.update(dict.fromkeys(warnings))
    _gather_by_model(readings)
    return readings


def _gather_by_model(readings: MetricReadings) -> None:
    for name in (*_ADDED_UP, Name.OUTPUT_TOKENS, Name.INPUT_TOKENS):
        values = readings.of_pods(name)
        gathered = grouped((Served(series.namespace, series.model), series) for series in values)
        readings.reporting[name] = gathered
        if name in _ADDED_UP:
            is_net = name is Name.QUEUE_GROWTH
            readings.per_model[name] = {
                served: total([values[one] for one in members], is_net=is_net) for served, members in gathered.items()
            }


# ---- what the labels of a series say


def series_of(labels: Mapping[str, str], names: LabelNames) -> ReplicaSeries:
    """The replica and model that `labels` name; a missing label counts as empty."""
    label = labels.get
    return ReplicaSeries(
        label(names.namespace, ""), label(names.pod, ""), label(names.model, ""), label(VARIANT_LABEL, "")
    )


def reported_model(labels: Mapping[str, str], names: LabelNames) -> Served:
    """The model that a replica reports."""
    return Served(labels.get(names.namespace, ""), labels.get(names.model, ""))


def picked_model(labels: Mapping[str, str], names: LabelNames) -> Served:
    """The model whose requests a router counted: as recorded of old, the target model, else the requested one."""
    model = labels.get(ROUTED_MODEL) or labels.get(PICKER_TARGET_MODEL) or labels.get(PICKER_MODEL, "")
    return Served(labels.get(names.namespace, ""), model)


def configured_model(labels: Mapping[str, str], names: LabelNames) -> Served:
    """The same for a configured query, which may use our label names instead of the server's."""
    plain = LabelNames()
    return Served(
        labels.get(names.namespace) or labels.get(plain.namespace, ""),
        labels.get(names.model) or labels.get(plain.model) or labels.get("model", ""),
    )


def rank_of(labels: Mapping[str, str]) -> str:
    """The data-parallel rank that `labels` name, mostly none."""
    return next((labels[label] for label in _RANKS if labels.get(label)), "")


def capacity_of(labels: Mapping[str, str], value: float) -> KvCapacity:
    """The KV cache of an instance: from values of its labels, which may read "None", or from its own value."""
    for each in _BLOCK_LABELS:
        if each.num_blocks in labels or each.block_tokens in labels:
            texts = (labels.get(label, "") for label in (each.num_blocks, each.block_tokens))
            num_blocks, block_tokens = (float(text) if _WHOLE.fullmatch(text) else None for text in texts)
            return KvCapacity(num_blocks=num_blocks, block_tokens=block_tokens)
    return KvCapacity(total=value if is_usable(value) else None)


def bound_of(text: str) -> float:
    """The upper bound of a bucket, NaN for text that is no number."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def total(values: Sequence[float], *, is_net: bool = False) -> float:
    """The sum, NaN if any of the values is unusable; with `is_net` values may be negative."""
    return math.fsum(values) if all(is_usable(abs(each) if is_net else each) for each in values) else math.nan


def grouped(pairs: Iterable[tuple[Key, Item]]) -> dict[Key, list[Item]]:
    """Items by their keys, both in the order they came."""
    groups: dict[Key, list[Item]] = {}
    for key, item in pairs:
        groups.setdefault(key, []).append(item)
    return groups


# ---- how the samples of each quantity enter the readings

_Labels = Mapping[str, str]
_Fold = Callable[[LabelNames, MetricReadings, Name, Sequence[Sample]], NoAnswer | None]
_FoldOne = Callable[[LabelNames, MetricReadings, Name, _Labels, float], None]


def _each(fold: _FoldOne) -> _Fold:
    """The fold of an answer whose samples enter one by one, which is slow: most have few."""

    def fold_all(names: LabelNames, readings: MetricReadings, name: Name, samples: Sequence[Sample]) -> None:
        for sample in samples:
            fold(names, readings, name, sample.labels, sample.value)

    return fold_all


def _fold_pods(names: LabelNames, readings: MetricReadings, name: Name, samples: Sequence[Sample]) -> NoAnswer | None:
    known = readings.series
    for sample in samples:
        label = sample.labels.get
        replica = label(names.namespace, ""), label(names.pod, ""), label(names.model, ""), label(VARIANT_LABEL, "")
        if replica not in known:
            known[replica] = ReplicaSeries(*replica)
        series, values = known[replica], readings.per_pod.setdefault(name, {})
        if series in values:
            return NoAnswer(Absence.FAILED, f"the answer to {name} has two values for pod {series.pod}")
        values[series] = sample.value
        if ALTERNATIVE in sample.labels:
            readings.alternatives[ObjectName(series.namespace, series.pod)] = sample.labels[ALTERNATIVE]
    return None


def _fold_instances(names: LabelNames, readings: MetricReadings, name: Name, labels: _Labels, value: float) -> None:
    values = readings.per_instance.setdefault(name, {})
    instance = Instance(*series_of(labels, names)[:2], rank_of(labels))
    held = values.get(instance, math.nan)
    # of two that one pod reports the larger counts: a replica is as full as its fullest part
    values[instance] = value if math.isnan(held) else max(held, value)


def _fold_capacities(names: LabelNames, readings: MetricReadings, name: Name, labels: _Labels, value: float) -> None:
    def size(capacity: KvCapacity) -> tuple[float, bool]:
        return capacity.tokens or math.inf, capacity.total is None

    ranks = readings.capacities.setdefault(name, {}).setdefault(series_of(labels, names), {})
    rank = rank_of(labels)
    # an engine that restarted reports another number: the smaller one is there in any case
    ranks[rank] = min(capacity_of(labels, value), ranks.get(rank, UNKNOWN_CAPACITY), key=size)


def _fold_models(
    served_of: Callable[[_Labels, LabelNames], Served],
    names: LabelNames,
    readings: MetricReadings,
    name: Name,
    labels: _Labels,
    value: float,
) -> None:
    values, served = readings.per_model.setdefault(name, {}), served_of(labels, names)
    values[served] = total((values.get(served, 0.0), value))


def _fold_buckets(names: LabelNames, readings: MetricReadings, _: Name, samples: Sequence[Sample]) -> None:
    known: dict[tuple[str, str], dict[float, float]] = {}
    for sample in samples:
        labels, value = sample.labels, sample.value
        model = labels.get(names.namespace, ""), labels.get(names.model, "")
        if model not in known:
            known[model] = readings.buckets.setdefault(Served(*model), {})
        buckets, bound = known[model], bound_of(labels.get(BOUND, ""))
        is_first = bound not in buckets and is_usable(value)  # nearly always: nothing is to be added up then
        buckets[bound] = value if is_first else total((buckets.get(bound, 0.0), value))


def _fold_owners(
    owned: str, owner: str, names: LabelNames, readings: MetricReadings, name: Name, labels: _Labels, _: float
) -> None:
    owners = readings.owners.setdefault(name, {})
    named = ObjectName(labels.get(names.namespace, ""), labels.get(names.spell(owned), ""))
    found = labels.get(owner, "")
    # two owners of one pod contradict each other: neither is used
    owners[named] = found if owners.get(named, found) == found else ""


def _fold_ready(names: LabelNames, readings: MetricReadings, _: Name, labels: _Labels, value: float) -> None:
    for kind, label in WORKLOAD_LABELS.items():
        if labels.get(label):
            readings.ready[labels.get(names.namespace, ""), kind, labels[label]] = value


def _fold_unschedulable(names: LabelNames, readings: MetricReadings, _: Name, labels: _Labels, __: float) -> None:
    readings.unschedulable.add(ObjectName(*series_of(labels, names)[:2]))


def _fold_quotas(names: LabelNames, readings: MetricReadings, _: Name, labels: _Labels, value: float) -> None:
    resource = labels.get("resource", "").removeprefix("requests.")
    quota = ResourceQuota(name=labels.get("resourcequota", ""), resource=resource, left=value)
    readings.quotas.setdefault(labels.get(names.namespace, ""), []).append(quota)


def _fold_clusters(names: LabelNames, readings: MetricReadings, _: Name, labels: _Labels, __: float) -> None:
    readings.clusters.setdefault(labels.get(names.namespace, ""), set()).add(labels.get(CLUSTER, ""))


_FOLDS: Mapping[str, _Fold] = {
    **dict.fromkeys(
        (
            *(Name.RUNNING, Name.MOST_RUNNING, Name.WAITING, Name.LAST_SEEN, Name.COMPLETIONS, Name.CHANGES),
            *(Name.ITL, Name.WAIT, Name.TTFT, Name.OUTPUT_TOKENS, Name.INPUT_TOKENS, Name.QUEUE_GROWTH),
            Name.REQUESTS_IN_RETENTION,
        ),
        _fold_pods,
    ),
    **dict.fromkeys((Name.KV_CACHE_USAGE, Name.NUM_WAITING, Name.PREFIX_HIT_RATE), _each(_fold_instances)),
    **dict.fromkeys((Name.KV_TOKENS, Name.STORED_KV_TOKENS), _each(_fold_capacities)),
    **dict.fromkeys(
        (Name.ARRIVALS_ENDPOINT_PICKER, Name.FLOW_CONTROL_QUEUE_SIZE, Name.FLOW_CONTROL_QUEUE_BYTES),
        _each(partial(_fold_models, picked_model)),
    ),
    Name.ARRIVALS_CONFIGURED: _each(partial(_fold_models, configured_model)),
    Name.INPUT_BUCKETS: _fold_buckets,
    Name.POD_LABELS: _each(partial(_fold_owners, "pod", POD_LABEL_OF_VARIANT)),
    Name.POD_OWNER: _each(partial(_fold_owners, "pod", "owner_name")),
    Name.REPLICASET_OWNER: _each(partial(_fold_owners, "replicaset", "owner_name")),
    Name.READY_REPLICAS: _each(_fold_ready),
    Name.UNSCHEDULABLE: _each(_fold_unschedulable),
    Name.QUOTAS: _each(_fold_quotas),
    Name.CLUSTER_LABEL: _each(_fold_clusters),
}

# ---- attribution

LONGEST_NAME = 253
ANY_ROLE = "[0-9a-z]([-0-9a-z]*[0-9a-z])?"
_POD_NAMES = {
    name: re.compile(f"(.+?){kind.pod_names.replace(ROLE, ANY_ROLE)}") for name, kind in KINDS.items() if kind.pod_names
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """Indexes of one cluster's variants; names that two variants claim are left out."""

    by_name: Mapping[ObjectName, ResourceKey]
    by_target: Mapping[Target, ResourceKey]
    by_model: Mapping[Served, ResourceKey]
    readings: MetricReadings

    def variant_of(self, series: ReplicaSeries) -> ResourceKey | None:
        """The variant whose replica reports `series`, None when no rule leads to one."""
        namespace = series.namespace
        label = self.readings.owner_of(Name.POD_LABELS, ObjectName(namespace, series.pod))
        return (
            self.by_name.get(ObjectName(namespace, series.variant))
            or self.by_name.get(ObjectName(namespace, label))
            or self.by_target.get((namespace, "Deployment", self._deployment_of(series)))
            or self._by_pod_name(series)
            or self.by_model.get(Served(namespace, series.model))
        )

    def is_elsewhere(self, series: ReplicaSeries) -> bool:
        """Whether the pod behind `series` belongs to a Deployment that no variant scales."""
        deployment = self._deployment_of(series)
        return bool(deployment) and (series.namespace, "Deployment", deployment) not in self.by_target

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
    by_name = ((ObjectName(variant.key.namespace, variant.key.name), variant.key) for variant in variants)
    return Attribution(
        by_name=_unambiguous(by_name),
        by_target=_unambiguous((target_of(variant), variant.key) for variant in variants),
        by_model=_unambiguous((served, variant.key) for variant in variants for served in served_by(variant)),
        readings=readings,
    )


def _unambiguous(pairs: Iterable[tuple[Key, ResourceKey]]) -> dict[Key, ResourceKey]:
    return {key: variants[0] for key, variants in grouped(pairs).items() if len(set(variants)) == 1}


def target_of(variant: Variant) -> Target:
    """The object that pods are named after; without a scale target in Git, the Deployment named like the resource."""
    if variant.workload is None:
        return variant.key.namespace, "Deployment", variant.key.name
    key = variant.workload.becomes or variant.workload.key
    return key.namespace, key.kind, key.name


def served_by(variant: Variant) -> tuple[Served, ...]:
    """The names under which metrics may report the variant's model."""
    names = variant.served_names or (variant.model.model_id,)
    if len(names) == 1:  # of nearly every variant
        return (Served(variant.model.namespace, names[0]),)
    return tuple(Served(variant.model.namespace, name) for name in dict.fromkeys(names))


def name_models(readings: MetricReadings, attribution: Attribution, first_names: Mapping[ResourceKey, Served]) -> None:
    """Give each series without a model the first served name of the variant that its pod belongs to."""
    unnamed = {series for values in readings.per_pod.values() for series in values if not series.model}
    owned = ((series, attribution.variant_of(series)) for series in unnamed)
    names = {series: series._replace(model=first_names[variant].model) for series, variant in owned if variant}
    if not names:
        return
    for name, values in readings.per_pod.items():
        # where a pod also has a series that names its model, that series counts
        known = {series: value for series, value in values.items() if series not in names}
        readings.per_pod[name] = {names.get(series, series): value for series, value in values.items()} | known
    readings.renamed.update(names.values())
    _gather_by_model(readings)
