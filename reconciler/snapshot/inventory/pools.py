"""The inventory of a run: configured pools, else what nodes offer; what is not sure is unknown and never smaller."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from reconciler.domain.identity import Place
from reconciler.domain.inventory import Catalog, DevicePool, Inventory, Measured
from reconciler.domain.measured.observed import DevicesSeen
from reconciler.domain.settings import ClusterSettings, PoolSettings, Settings
from reconciler.domain.snapshot import Variant
from reconciler.snapshot.catalogs import find_or_name
from reconciler.snapshot.inventory.device_counts import DeviceCount, Planned
from reconciler.snapshot.variants.options import devices_of

NO_CATALOG = Catalog()


def take_inventory(
    settings: Settings,
    catalogs: Mapping[str, Catalog],
    variants: Iterable[Variant],
    seen: Mapping[str, DevicesSeen],
    now_s: float,
) -> Inventory:
    """A pool for every device type that is configured, offered, or that a variant may take, in every cluster."""
    variants = list(variants)
    wanted = wanted_devices(variants, catalogs)
    planned = _planned(variants, catalogs)
    pools = (
        pool
        for cluster in settings.clusters
        if cluster.name in seen
        for pool in _pools(
            cluster,
            DeviceCount.of(catalogs[cluster.name], seen[cluster.name], planned),
            wanted.get(cluster.name, ()),
            now_s,
        )
    )
    return Inventory(pools={(pool.cluster, pool.device): pool for pool in pools})


def wanted_devices(variants: Iterable[Variant], catalogs: Mapping[str, Catalog]) -> dict[str, set[str]]:
    """The device types that variants run on or may run on, by cluster."""
    wanted: dict[str, set[str]] = {}
    for variant in variants:
        cluster = variant.key.cluster
        for name in accelerators_of(variant):
            device = find_or_name(catalogs.get(cluster, NO_CATALOG), name).device
            wanted.setdefault(cluster, set()).add(device)
    return wanted


def accelerators_of(variant: Variant) -> tuple[str, ...]:
    """What a variant runs on, then what else it may run on."""
    names = (variant.current.accelerator, *(option.accelerator for option in variant.options))
    return tuple(dict.fromkeys(name for name in names if name))


def _planned(variants: Iterable[Variant], catalogs: Mapping[str, Catalog]) -> Planned:
    """What a plan counts of variants whose live replicas may be others than those in Git, by device type."""
    return {
        variant.key: _counted(variant, catalogs.get(variant.key.cluster, NO_CATALOG))
        for variant in variants
        if is_counted_by_pods(variant)
    }


def is_counted_by_pods(variant: Variant) -> bool:
    """Whether pods beyond what Git says count as held by others, where anybody knows who holds devices.

    That is of variants that stay as they are, that an autoscaler moves, or that run on an unknown accelerator.
    """
    return bool(variant.holds) or variant.is_autoscaled or not variant.current.accelerator


def _counted(variant: Variant, catalog: Catalog) -> dict[str, int]:
    name = variant.current.accelerator
    if not name:
        return {}
    return {find_or_name(catalog, name).device: variant.current.replicas * devices_now(variant, catalog)}


def devices_now(variant: Variant, catalog: Catalog) -> int:
    """How many devices one replica takes of the accelerator that the variant runs on."""
    option = next((each for each in variant.options if each.accelerator == variant.current.accelerator), None)
    if option is not None:
        return option.devices_per_replica
    accelerator = find_or_name(catalog, variant.current.accelerator)
    return devices_of(accelerator, variant.workload) * accelerator.devices


def _pools(cluster: ClusterSettings, count: DeviceCount, wanted: Iterable[str], now_s: float) -> Iterator[DevicePool]:
    configured: dict[str, list[PoolSettings]] = {}
    for pool in cluster.pools:
        configured.setdefault(find_or_name(count.catalog, pool.device).device, []).append(pool)
    for device in sorted({*wanted, *configured, *count.tallies}):
        yield _pool(cluster.name, device, configured.get(device, ()), count.measured(device), now_s)


def _pool(
    cluster: str, device: str, configured: Sequence[PoolSettings], measured: Measured, now_s: float
) -> DevicePool:
    numbers = [pool.devices for pool in configured if pool.devices is not None]
    prices = [pool.cost_per_hour for pool in configured if pool.cost_per_hour is not None]
    places: list[Place] = [pool.place for pool in configured if pool.place is not None]
    return DevicePool(
        cluster=cluster,
        device=device,
        names=tuple(pool.name for pool in configured),
        configured=sum(numbers) if numbers else None,
        reserve=sum(pool.reserve for pool in configured),
        tiers=tuple(dict.fromkeys(pool.tier for pool in configured)),
        cost_per_hour=prices[0] if prices else None,
        places=tuple(places),
        measured=measured,
        at_s=now_s,
    )
