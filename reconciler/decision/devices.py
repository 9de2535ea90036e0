"""What the inventory means for a plan: pools for the solver and what replicas take of them."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

from reconciler.decision.variant_states import VariantState
from reconciler.domain.identity import Figure, ResourceKey, Source, SourceKind
from reconciler.domain.inventory import Allocation, Catalog, DevicePool, Inventory
from reconciler.domain.records import dataclass, replace
from reconciler.domain.requirements import Pool
from reconciler.domain.snapshot import Snapshot, Variant
from reconciler.manifests.wording import MOST_NAMED, name_first
from reconciler.metrics.quantities import Name
from reconciler.snapshot.accelerators import find_or_name
from reconciler.snapshot.inventory import accelerators_of, devices_now, is_counted_by_pods, wanted_devices

UNLIMITED = "accelerators unlimited, so scarcity was not considered"


@dataclass(frozen=True, slots=True)
class Devices:
    """The pools that limit a plan, and what replicas draw from them."""

    pools: tuple[Pool, ...]
    _inventory: Inventory
    _catalogs: Mapping[str, Catalog]

    @property
    def blind(self) -> frozenset[str]:
        """The pools whose holders of devices are not known."""
        return frozenset(pool.name for pool in self._inventory.pools.values() if pool.measured.taken is None)

    @classmethod
    def of(cls, snapshot: Snapshot) -> "Devices":
        """Those of a snapshot's inventory."""
        return cls(pools_of(snapshot.inventory), snapshot.inventory, snapshot.catalogs)

    def drawn(self, variant: Variant, accelerator: str, devices: int) -> dict[str, int]:
        """What a replica of the variant draws that takes so many `devices` of an accelerator, by pool."""
        return devices_drawn(self._inventory, self._catalogs, variant.key.cluster, accelerator, devices)

    def taken(self, variant: Variant) -> dict[str, int]:
        """What a replica of the variant takes where it runs now, by pool."""
        catalog = self._catalogs.get(variant.key.cluster)
        if catalog is None or not variant.current.accelerator:
            return {}
        return self.drawn(variant, variant.current.accelerator, devices_now(variant, catalog))


def pools_of(inventory: Inventory) -> tuple[Pool, ...]:
    """The pools that limit anything, sorted by name; what is not known limits nothing."""
    limited = {pool.name: pool.devices for pool in inventory.pools.values() if pool.devices is not None}
    return tuple(Pool(name=name, devices=devices) for name, devices in sorted(limited.items()))


def devices_drawn(
    inventory: Inventory, catalogs: Mapping[str, Catalog], cluster: str, accelerator: str, devices: int
) -> dict[str, int]:
    """What a replica that takes so many `devices` of an accelerator draws from which pool; empty where none limits."""
    pool = pool_of(inventory, catalogs, cluster, accelerator)
    return {} if pool is None or pool.devices is None else {pool.name: devices}


def pool_of(inventory: Inventory, catalogs: Mapping[str, Catalog], cluster: str, accelerator: str) -> DevicePool | None:
    """The pool that an accelerator's devices are of; None for one that is not known."""
    if not accelerator or cluster not in catalogs:
        return None
    return inventory.find(cluster, find_or_name(catalogs[cluster], accelerator).device)


def scarcity_assumed(snapshot: Snapshot) -> Iterator[str]:
    """What the plan takes for granted of the device types that its variants may take."""
    wanted = wanted_devices(snapshot.variants, snapshot.catalogs)
    pools = [
        pool
        for (cluster, device), pool in sorted(snapshot.inventory.pools.items())
        if device in wanted.get(cluster, ())
    ]
    unlimited = [pool.name for pool in pools if pool.devices is None]
    if len(unlimited) == len(pools):
        yield UNLIMITED
        return
    if unlimited:
        yield f"{name_first(unlimited[:MOST_NAMED], len(unlimited))} unlimited, as it is not known how many there are"
    blind = [pool for pool in pools if pool.devices is not None and pool.measured.taken is None]
    declared = {pool.cluster for pool in blind if pool.declared}
    for clusters, words in (
        ({pool.cluster for pool in blind} - declared, "nothing is held by others"),
        (declared, "only the serving workloads in Git that are not managed hold devices"),
    ):
        if clusters:
            yield f"{words} in {', '.join(sorted(clusters))}, where it is not known"


def pool_figures(snapshot: Snapshot, variant: Variant) -> Iterator[Figure]:
    """The pools of everything that a variant may run on."""
    cluster, catalogs = variant.key.cluster, snapshot.catalogs
    found = (pool_of(snapshot.inventory, catalogs, cluster, name) for name in accelerators_of(variant))
    for pool in dict.fromkeys(pool for pool in found if pool is not None):
        yield from _figures(pool)


def _figures(pool: DevicePool) -> Iterator[Figure]:
    measured, configured = pool.measured, pool.configured is not None
    source = Source(kind=SourceKind.DEFAULT, place=pool.places[0]) if pool.places else None
    told = str(measured.devices) if measured.devices is not None else "unknown"
    yield Figure(
        subject=pool.name,
        name="devices",
        value=pool.exists,
        unit="devices",
        source=source if configured else None,
        reason=f"measured: {told}, {measured.reason}" if configured else measured.reason,
        queries=(str(Name.NODES),),
    )
    if pool.reserve:
        yield Figure(subject=pool.name, name="reserve", value=pool.reserve, unit="devices", source=source)
    if measured.taken != 0:
        named = [f"{each.namespace} {each.devices} in {_pods(each.pods)}" for each in pool.measured.holders]
        surplus = (pool.measured.taken or 0) - pool.taken
        words: Iterable[str] = (
            pool.measured.taken_reason,
            ", ".join(named),
            f"{surplus} of them beyond what is configured" if surplus else "",
        )
        yield Figure(
            subject=pool.name,
            name="held by others",
            value=measured.taken,
            unit="devices",
            reason="; ".join(filter(None, words)),
            queries=(str(Name.DEVICE_REQUESTS),),
        )
    limit = "unlimited" if pool.devices is None else pool.devices
    yield Figure(subject=pool.name, name="ours to plan", value=limit, unit="" if pool.devices is None else "devices")


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"


Drawn = Mapping[ResourceKey, Mapping[str, int]]
"""What a replica of each variant takes of each pool where it runs now."""


def surplus_devices(states: Iterable[VariantState], drawn: Drawn, blind: Collection[str]) -> Drawn:
    """By held variant what its replicas beyond Git take of each pool; where that is not counted by pods already.

    `blind` are the pools whose holders of devices are not known.
    """
    found: dict[ResourceKey, dict[str, int]] = {}
    for state in states:
        count, key = state.surplus_replicas, state.variant.key
        is_told = is_counted_by_pods(state.variant)
        taken = {name: each * count for name, each in drawn[key].items() if count and (name in blind or not is_told)}
        if taken:
            found[key] = taken
    return found


def pools_beside(
    pools: Iterable[Pool], surplus: Drawn, current: Mapping[ResourceKey, Allocation], drawn: Drawn
) -> tuple[Pool, ...]:
    """The pools without what runs beyond Git.

    No variant is shrunk for it: what Git says that runs stays possible, for replicas just replaced count twice.
    """
    planned, gone = Counter[str](), Counter[str]()
    for key, allocation in current.items():
        planned.update({name: each * allocation.replicas for name, each in drawn[key].items()})
    for taken in surplus.values():
        gone.update(taken)
    return tuple(
        replace(pool, devices=max(pool.devices - gone[pool.name], min(pool.devices, planned[pool.name])))
        for pool in pools
    )


def surplus_words(taken: Mapping[str, int]) -> str:
    """What a held variant takes beyond Git, as a note."""
    pools = " and ".join(f"{count} of {name}" for name, count in sorted(taken.items()))
    return f"more of its replicas run than Git says: the {pools} that they take are not free for others"
