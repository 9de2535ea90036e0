"""What limits upstream's modes: a quota of its ConfigMap, else the devices that nodes offer (wva.md 5.4, 5.5)."""

from collections.abc import Iterable, Mapping, Sequence

from reconciler.decision.problem.devices import pool_of
from reconciler.domain.inventory import DevicePool
from reconciler.domain.saturation_rules import LimiterSettings, SaturationRules
from reconciler.domain.snapshot import Snapshot
from reconciler.sizing.saturation.answer import ModelReadings
from reconciler.sizing.saturation.variants import VariantFacts
from reconciler.sizing.wva.budgets import DeviceBudget
from reconciler.sizing.wva.quotas import Quota

INVENTORY, QUOTA = "gpu-inventory", "quota"
_UNLIMITED = -1


def quotas_for(
    snapshot: Snapshot, models: Sequence[ModelReadings], rules: Sequence[SaturationRules]
) -> tuple[Quota, ...]:
    """What the first analyzer's limiters grant from; none without a limiter, or when nobody knows what there is."""
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
    """What the second analyzer's optimizer fills; None without a limiter, or when nobody knows what there is."""
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
    """What nodes offer of each type that a variant runs on; None when nobody knows it of any.

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
    """What quotas leave beside what runs: of each type the least that any of those leaves that list it."""
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
