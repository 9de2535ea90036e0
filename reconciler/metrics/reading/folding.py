"""Reads a cluster's answers about the present into its readings, one answer in memory at a time."""

import math
from collections.abc import Callable, Mapping, Sequence

from reconciler.domain.measured.answers import Absence, Answer, NoAnswer, Sample
from reconciler.domain.measured.observed import ResourceQuota
from reconciler.metrics.quantities.kubernetes import WORKLOAD_LABELS
from reconciler.metrics.quantities.quantity import (
    ALTERNATIVE,
    BOUND,
    PICKER_MODEL,
    PICKER_TARGET_MODEL,
    POD_LABEL_OF_VARIANT,
    Name,
)
from reconciler.metrics.queries.expressions import LabelNames
from reconciler.metrics.reading.decoding import decode, warnings_of
from reconciler.metrics.reading.readings import (
    UNSAID,
    Instance,
    KvCapacity,
    MetricReadings,
    ObjectName,
    Served,
    capacity_of,
    gather_by_model,
    rank_of,
    series_of,
    total,
)


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
