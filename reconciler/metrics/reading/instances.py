"""KV cache, queue and lengths of each replica: of a pod, or of each data-parallel rank of one."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reconciler.domain.identity import ResourceKey
from reconciler.domain.measured.replicas import ReplicaMetrics
from reconciler.domain.snapshot import Variant
from reconciler.metrics.quantities.quantity import Name
from reconciler.metrics.reading.attribution import Attribution, target_of
from reconciler.metrics.reading.decoding import is_usable, printable
from reconciler.metrics.reading.readings import UNSAID, Instance, KvCapacity, MetricReadings, ObjectName, ReplicaSeries
from reconciler.metrics.reading.sightings import Sightings

Reasoned = tuple[float | None, str]
"""A value, or None and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instances:
    """One cluster's instances: the data-parallel ranks of each pod, and how much each holds."""

    ranks: Mapping[ObjectName, tuple[str, ...]]
    capacities: Mapping[ObjectName, Mapping[str, KvCapacity]]


def instances_in(readings: MetricReadings) -> Instances:
    """All instances that report KV cache usage or queue length."""
    ranks: dict[ObjectName, set[str]] = {}
    for name in (Name.KV_CACHE_USAGE, Name.NUM_WAITING):
        for one in readings.per_instance.get(name, {}):
            ranks.setdefault(ObjectName(one.namespace, one.pod), set()).add(one.rank)
    capacities: dict[ObjectName, dict[str, KvCapacity]] = {}
    for series, said in sorted(readings.capacities.get(Name.KV_TOKENS, {}).items()):
        capacities.setdefault(ObjectName(series.namespace, series.pod), {}).update(said)
    return Instances(
        # an engine tells its ranks apart or does not: a series without a rank is of no further one
        ranks={pod: tuple(sorted(filter(None, found))) or ("",) for pod, found in ranks.items()},
        capacities=capacities,
    )


def replicas_of(
    variants: Sequence[Variant], instances: Instances, readings: MetricReadings, sightings: Sightings
) -> dict[ResourceKey, tuple[ReplicaMetrics, ...]]:
    """The fresh replicas of each variant, sorted; empty when nobody asked how full they are."""
    if Name.KV_CACHE_USAGE not in readings.answered:
        return {}
    return {variant.key: _replicas(variant.key, instances, readings, sightings) for variant in variants}


def stored_capacities(readings: MetricReadings, attribution: Attribution) -> dict[ResourceKey, float]:
    """Tokens that an instance of each variant held within the last day; the fewest, when several were told."""
    stored: dict[ResourceKey, float] = {}
    for series, ranks in readings.capacities.get(Name.STORED_KV_TOKENS, {}).items():
        variant = attribution.variant_of(series)
        told = [capacity.tokens for capacity in ranks.values() if capacity.tokens is not None]
        if variant is not None and told:
            stored[variant] = min(stored.get(variant, told[0]), *told)
    return stored


def ready_replicas(
    variants: Sequence[Variant], readings: MetricReadings, attribution: Attribution
) -> dict[ResourceKey, int]:
    """Replicas that Kubernetes calls ready, of variants whose scale target is their own and is a kind it counts."""
    ready: dict[ResourceKey, int] = {}
    for variant in variants:
        count = readings.ready.get(target_of(variant))
        if count is not None and is_usable(count) and attribution.by_target.get(target_of(variant)) == variant.key:
            ready[variant.key] = int(count)
    return ready


def unschedulable_pods(readings: MetricReadings, attribution: Attribution) -> dict[ResourceKey, int]:
    """How many pods of each variant find no node."""
    pods: dict[ResourceKey, int] = {}
    for pod in sorted(readings.unschedulable):
        variant = attribution.variant_of(ReplicaSeries(pod.namespace, pod.name, "", ""))
        if variant is not None:
            pods[variant] = pods.get(variant, 0) + 1
    return pods


def _replicas(
    variant: ResourceKey, instances: Instances, readings: MetricReadings, sightings: Sightings
) -> tuple[ReplicaMetrics, ...]:
    fresh = {
        ObjectName(series.namespace, series.pod): series
        for series in sorted(sightings.series_of.get(variant, ()))
        if series in sightings.reporting
    }
    return tuple(
        _replica(variant, series, rank, instances, readings)
        for pod, series in fresh.items()
        for rank in instances.ranks.get(pod, ("",))
    )


def _replica(
    variant: ResourceKey, series: ReplicaSeries, rank: str, instances: Instances, readings: MetricReadings
) -> ReplicaMetrics:
    pod = ObjectName(series.namespace, series.pod)
    instance = Instance(series.namespace, series.pod, rank)
    ranks, capacities = instances.ranks.get(pod, ("",)), instances.capacities.get(pod, {})
    said = {
        "kv_cache_usage": _of_instance(Name.KV_CACHE_USAGE, instance, readings),
        "num_waiting": _of_instance(Name.NUM_WAITING, instance, readings),
        "prefix_hit_rate": _of_instance(Name.PREFIX_HIT_RATE, instance, readings),
        "input_tokens": _of_pod(Name.INPUT_TOKENS, series, readings),
        "output_tokens": _of_pod(Name.OUTPUT_TOKENS, series, readings),
    }
    running = readings.of_pods(Name.RUNNING).get(series, math.nan)
    capacity = capacities.get(rank) or capacities.get("") or UNSAID
    reasons = {field: reason for field, (_, reason) in said.items() if reason}
    if capacity.tokens is None:
        reasons["total_kv_tokens"] = _why_no_capacity(instance, capacities, readings)
    return ReplicaMetrics(
        pod=series.pod,
        variant=variant,
        instance=rank if len(ranks) > 1 else "",
        kv_cache_usage=said["kv_cache_usage"][0],
        num_waiting=said["num_waiting"][0],
        num_running=running if is_usable(running) else None,
        input_tokens=said["input_tokens"][0],
        output_tokens=said["output_tokens"][0],
        num_blocks=capacity.num_blocks,
        block_tokens=capacity.block_tokens,
        total_kv_tokens=capacity.total,
        prefix_hit_rate=said["prefix_hit_rate"][0],
        reasons=reasons,
    )


def _of_instance(name: Name, instance: Instance, readings: MetricReadings) -> Reasoned:
    values = readings.per_instance.get(name, {})
    value = values.get(instance)
    if value is None:
        value = values.get(instance._replace(rank=""))
    return _reasoned(name, instance.pod, value, readings)


def _of_pod(name: Name, series: ReplicaSeries, readings: MetricReadings) -> Reasoned:
    return _reasoned(name, series.pod, readings.of_pods(name).get(series), readings)


def _reasoned(name: Name, pod: str, value: float | None, readings: MetricReadings) -> Reasoned:
    if value is not None and is_usable(value):
        return value, ""
    if value is None:
        return None, _why_silent(name, pod, readings)
    if math.isnan(value):
        return None, f"pod {printable(pod)} reports NaN as {name}: it was idle"
    return None, f"pod {printable(pod)} reports {value} as {name}"


def _why_silent(name: Name, pod: str, readings: MetricReadings) -> str:
    if name in readings.failed:
        return readings.failed[name].reason
    if name not in readings.answered:
        return f"Prometheus was not asked for {name}"
    return f"no series tells {name} of pod {printable(pod)}"


def _why_no_capacity(instance: Instance, capacities: Mapping[str, KvCapacity], readings: MetricReadings) -> str:
    if instance.rank in capacities or "" in capacities:
        return f"pod {printable(instance.pod)} reports no number of blocks and tokens for its KV cache"
    return _why_silent(Name.KV_TOKENS, instance.pod, readings)
