"""The engines `wva-v1` and `wva-v2`: what llm-d's workload variant autoscaler decides, its flaws included."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields

from reconciler.decision.devices import pool_of
from reconciler.decision.engines.saturation import NO_RULES, SaturationEngine
from reconciler.domain.history import NOTHING
from reconciler.domain.inventory import DevicePool
from reconciler.domain.observed import Load, ReplicaMetrics, Trace
from reconciler.domain.settings import LimiterSettings, SaturationRules
from reconciler.domain.snapshot import Snapshot
from reconciler.domain.variant_settings import Engine
from reconciler.metrics.quantities import Name
from reconciler.sizing.saturation import ModelReadings, SaturationAnswer
from reconciler.sizing.saturation_readings import VariantFacts
from reconciler.upstream.wva import UpstreamReadings, reproduce_percent, reproduce_tokens
from reconciler.upstream.wva_limits import DeviceBudget, Quota
from reconciler.upstream.wva_throughput import ThroughputReadings, ThroughputSample

INVENTORY, QUOTA = "gpu-inventory", "quota"
_UNLIMITED = -1


def quotas_for(
    snapshot: Snapshot, models: Sequence[ModelReadings], rules: Sequence[SaturationRules]
) -> tuple[Quota, ...]:
    """What the first analyzer's limiters grant from; none without a limiter, or when what there is is not known."""
    limiters = _limiters(rules)
    quotas = tuple(_quota(models, limiter) for limiter in limiters if limiter.kind == QUOTA)
    offered = _offered(snapshot, models) if limiters and not quotas else None
    if offered is None:
        return quotas
    variants = [variant for readings in models for variant in readings.variants]
    types = _types(snapshot, variants)
    return (Quota(cluster=offered, used=_used(variants, types, is_cluster=True), types=types, kind=INVENTORY),)


def budget_for(
    snapshot: Snapshot, models: Sequence[ModelReadings], rules: Sequence[SaturationRules]
) -> DeviceBudget | None:
    """What the second analyzer's optimizer fills; None without a limiter, or when what there is is not known."""
    limiters = _limiters(rules)
    quotas = [limiter for limiter in limiters if limiter.kind == QUOTA]
    if quotas:
        return _budget(models, quotas)
    offered = _offered(snapshot, models) if limiters else None
    if offered is None:
        return None
    variants = [variant for readings in models for variant in readings.variants]
    types = _types(snapshot, variants)
    return DeviceBudget(_left(offered, variants, types), types=types)


def _limiters(rules: Iterable[SaturationRules]) -> tuple[LimiterSettings, ...]:
    """The limiters, if they are on: all quotas where any is written, which go without an inventory, else that."""
    limited = [each for each in rules if each.is_limited]
    # models of one ConfigMap have the same limiters: each of these counts once
    written = [limiter for each in limited for limiter in each.limiters if limiter.kind == QUOTA]
    quotas = [limiter for index, limiter in enumerate(written) if limiter not in written[:index]]
    return tuple(quotas) or ((LimiterSettings(name="", kind=INVENTORY),) if limited else ())


def _offered(snapshot: Snapshot, models: Iterable[ModelReadings]) -> dict[str, int] | None:
    """What nodes offer of each type that a variant runs on; None when it is known of none.

    As upstream counts: whatever the state of a node, and whoever else holds devices. What is not known is unlimited.
    """
    keys = {
        (variant.key.cluster, variant.accelerator)
        for readings in models
        for variant in readings.variants
        if variant.accelerator
    }
    pools = [pool for cluster, name in sorted(keys) if (pool := _pool(snapshot, cluster, name)) is not None]
    numbers = {pool.device: pool.measured.allocatable for pool in pools}
    if all(number is None for number in numbers.values()):
        return None
    return {device: _UNLIMITED if number is None else number for device, number in numbers.items()}


def _types(snapshot: Snapshot, variants: Iterable[VariantFacts]) -> dict[str, str]:
    """Accelerator -> device type: upstream knows nothing of accelerators of several devices."""
    found = {each.accelerator: _pool(snapshot, each.key.cluster, each.accelerator) for each in variants}
    return {name: pool.device for name, pool in found.items() if pool is not None}


def _pool(snapshot: Snapshot, cluster: str, accelerator: str) -> DevicePool | None:
    return pool_of(snapshot.inventory, snapshot.catalogs, cluster, accelerator)


def _quota(models: Sequence[ModelReadings], limiter: LimiterSettings) -> Quota:
    is_cluster = limiter.scope != "namespace"
    variants = (variant for readings in models for variant in readings.variants)
    return Quota(
        cluster=limiter.quotas,
        namespaces=None if is_cluster else limiter.namespace_quotas,
        excluded=limiter.excluded,
        used=_used(variants, {}, is_cluster=is_cluster),
    )


def _used(
    variants: Iterable[VariantFacts], types: Mapping[str, str], *, is_cluster: bool
) -> dict[tuple[str, str], int]:
    """Devices that the variants take now, by scope and type."""
    used: dict[tuple[str, str], int] = {}
    for variant in variants:
        place = "" if is_cluster else variant.key.namespace, types.get(variant.accelerator, variant.accelerator)
        used[place] = used.get(place, 0) + variant.current_replicas * variant.devices
    return used


def _budget(models: Sequence[ModelReadings], quotas: Sequence[LimiterSettings]) -> DeviceBudget:
    """What quotas leave after what runs: of each type the least that any of those leaves that list it."""
    variants = [variant for readings in models for variant in readings.variants]
    cluster = [_left(each.quotas, variants) for each in quotas if each.scope != "namespace"]
    namespaces: dict[str, list[Mapping[str, int]]] = {}
    for limiter in (each for each in quotas if each.scope == "namespace"):
        default = limiter.namespace_quotas.get("default", {})
        for name in sorted({variant.key.namespace for variant in variants} - limiter.excluded):
            own = [each for each in variants if each.key.namespace == name]
            namespaces.setdefault(name, []).append(_left(limiter.namespace_quotas.get(name, default), own))
    return DeviceBudget(
        _tightest(cluster) if cluster else None, {name: _tightest(found) for name, found in namespaces.items()}
    )


def _tightest(budgets: Iterable[Mapping[str, int]]) -> dict[str, int]:
    tightest: dict[str, int] = {}
    for kind, devices in (item for budget in budgets for item in budget.items()):
        known = tightest.get(kind, _UNLIMITED)
        tightest[kind] = devices if known < 0 else known if devices < 0 else min(known, devices)
    return tightest


def _left(
    quotas: Mapping[str, int], variants: Iterable[VariantFacts], types: Mapping[str, str] | None = None
) -> dict[str, int]:
    left = dict(quotas)
    for (_, kind), devices in _used(variants, types or {}, is_cluster=True).items():
        if left.get(kind, _UNLIMITED) >= 0:
            left[kind] = max(left[kind] - devices, 0)
    return left


THROUGHPUT = "throughput"


def wants_throughput(rules: SaturationRules) -> bool:
    """Whether upstream's throughput analyzer has a vote."""
    return any(each.name == THROUGHPUT and each.is_enabled for each in rules.analyzers)


def read_upstream(snapshot: Snapshot, readings: ModelReadings) -> UpstreamReadings:
    """The readings with the analyzers of the model's ConfigMap, and samples where `throughput` has a vote."""
    rules = snapshot.saturation.get(readings.model, SaturationRules())
    return UpstreamReadings(
        **{each.name: getattr(readings, each.name) for each in fields(readings)},
        analyzers=rules.analyzers,
        throughput=_throughput(snapshot, readings) if wants_throughput(rules) else None,
    )


def _throughput(snapshot: Snapshot, readings: ModelReadings) -> ThroughputReadings:
    """The last hour as upstream's analyzer would have sampled it; arrivals count only if something counts them."""
    load = snapshot.observed.loads.get(readings.model)
    is_counted_upstream = isinstance(load, Load) and not load.is_by_replicas
    now = {replica.pod: replica for replica in readings.replicas}
    traces = [trace for variant in readings.variants for trace in snapshot.observed.traces.get(variant.key, ())]
    usage = {trace.pod: trace for trace in traces if Name.KV_CACHE_USAGE in trace.series}
    return ThroughputReadings(
        now_s=snapshot.now_s,
        samples=tuple(
            sample
            for trace in traces
            if Name.ITL in trace.series
            for sample in _samples(trace, usage.get(trace.pod), now.get(trace.pod))
        ),
        arrival_rate_per_s=load.arrival_rate_per_s if isinstance(load, Load) and is_counted_upstream else None,
        reason="" if is_counted_upstream else "no endpoint picker counts the arrivals",
    )


def _samples(trace: Trace, usage: Trace | None, replica: ReplicaMetrics | None) -> Iterator[ThroughputSample]:
    for index, itl_s in enumerate(trace.series[Name.ITL].tolist()):
        at_s = trace.start_s + index * trace.step_s
        output, completed = _at(trace, Name.OUTPUT_TOKENS, at_s), _at(trace, Name.COMPLETIONS, at_s)
        yield ThroughputSample(
            pod=trace.pod,
            variant=trace.variant,
            at_s=at_s,
            kv_cache_usage=None if usage is None else _at(usage, Name.KV_CACHE_USAGE, at_s),
            itl_s=itl_s,
            tokens_per_s=None if output is None or completed is None else output * completed,
            input_tokens=_at(trace, Name.INPUT_TOKENS, at_s),
            output_tokens=output,
            prefix_hit_rate=None if replica is None else replica.prefix_hit_rate,
            kv_tokens=None if replica is None else replica.kv_tokens,
        )


def _at(trace: Trace, name: Name, at_s: float) -> float | None:
    """The value of the grid's last point up to then; None where it is not known."""
    index = math.floor((at_s - trace.start_s) / trace.step_s + 1e-6)
    known = trace.series.get(name, NOTHING)
    return float(known[index]) if 0 <= index < len(known) and not math.isnan(known[index]) else None


def _size_v1(snapshot: Snapshot, models: Sequence[ModelReadings]) -> Sequence[SaturationAnswer]:
    rules = [snapshot.saturation.get(readings.model, NO_RULES) for readings in models]
    return reproduce_percent(models, *quotas_for(snapshot, models, rules))


def _size_v2(snapshot: Snapshot, models: Sequence[ModelReadings]) -> Sequence[SaturationAnswer]:
    rules = [snapshot.saturation.get(readings.model, NO_RULES) for readings in models]
    budget = budget_for(snapshot, models, rules)
    return reproduce_tokens(
        [read_upstream(snapshot, each) for each in models], budget, rescales=any(each.rescales for each in rules)
    )


WVA_V1 = SaturationEngine(name=Engine.WVA_V1, size_cluster=_size_v1)
WVA_V2 = SaturationEngine(name=Engine.WVA_V2, size_cluster=_size_v2, wants_traces=wants_throughput)
