"""The inventory of a run: configured pools, else devices that nodes offer and pods hold."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from reconciler.domain.answers import NoAnswer
from reconciler.domain.identity import ResourceKey
from reconciler.domain.inventory import (
    PRODUCT_KEYS,
    PRODUCTS,
    Accelerator,
    Catalog,
    DevicePool,
    Holder,
    Inventory,
    Measured,
)
from reconciler.domain.observed import ClusterNode, DevicesSeen, Holding
from reconciler.domain.records import dataclass, replace
from reconciler.domain.settings import PoolSettings, Settings
from reconciler.domain.snapshot import UnmanagedWorkload, Variant
from reconciler.manifests.wording import name_first
from reconciler.metrics.observed import EVERY_NODE_OFFERS, DeviceNames
from reconciler.metrics.queries import exported_label, exported_resource
from reconciler.metrics.readings import grouped
from reconciler.snapshot.accelerators import accelerators_now, find_or_name, recognise

_INTEL = ("intel.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe", "habana.ai/gaudi")
WHOLE_DEVICES = ("nvidia.com/gpu", "amd.com/gpu", *_INTEL)
"""Resources that count whole devices."""
SLICES = "nvidia_com_mig_.*"
"""The resources, as exported, of a node with several kinds of slices."""
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
MOST_HOLDERS = 3
ALLOW_LABELS = "let kube-state-metrics export it, as in --metric-labels-allowlist=nodes=[nvidia.com/gpu.product]"
_PART = re.compile(r"-MIG-|-SHARED$", re.IGNORECASE)
"""In the name of a product whose devices are slices, or counted several times."""
_WORD_ENDS = re.compile(r"[^0-9a-z]+")
_NO_CATALOG = Catalog()
Planned = Mapping[ResourceKey, Mapping[str, int]]
"""Variant -> device type -> devices that a plan counts as the variant's."""


# ---- pools: configured, else offered by nodes; an uncertain number is unknown, never smaller


def take_inventory(
    settings: Settings,
    catalogs: Mapping[str, Catalog],
    variants: Iterable[Variant],
    seen: Mapping[str, DevicesSeen],
    now_s: float,
    unmanaged: Iterable[UnmanagedWorkload] = (),
) -> Inventory:
    """A pool for every device type that is configured, offered, or that a variant may take, in every cluster.

    The devices of `unmanaged` workloads count as held by others where it is not measured what others hold; such a
    claim may keep variants from growing, but never takes what they run on now.
    """
    variants = list(variants)
    wanted = wanted_devices(variants, catalogs)
    planned = {
        variant.key: _planned(variant, catalogs.get(variant.key.cluster, _NO_CATALOG))
        for variant in variants
        if is_counted_by_pods(variant)
    }
    declared, running = _declared(unmanaged, catalogs), _running(variants, catalogs)
    pools: dict[tuple[str, str], DevicePool] = {}
    for cluster in settings.clusters:
        if cluster.name not in seen:
            continue
        count = DeviceCount.of(catalogs[cluster.name], seen[cluster.name], planned)
        configured = grouped((find_or_name(count.catalog, pool.device).device, pool) for pool in cluster.pools)
        for device in sorted({*wanted.get(cluster.name, ()), *configured, *count.tallies}):
            members, measured = configured.get(device, ()), count.measured(device)
            pool = _pool(cluster.name, device, members, measured, now_s)
            key = cluster.name, device
            spare = max((pool.exists or 0) - pool.reserve - running[key], 0)
            pools[key] = replace(pool, declared=declared[key] if pool.exists is None else min(declared[key], spare))
    return Inventory(pools=pools)


def _declared(unmanaged: Iterable[UnmanagedWorkload], catalogs: Mapping[str, Catalog]) -> Counter[tuple[str, str]]:
    """The devices that unmanaged workloads ask for by Git, by cluster and type; at least what an autoscaler keeps."""
    found: Counter[tuple[str, str]] = Counter()
    for each in unmanaged:
        workload, catalog = each.workload, catalogs.get(each.key.cluster, _NO_CATALOG)
        accelerator, _ = recognise(catalog, workload, "", ())
        replicas = max(workload.replicas or 0, (each.owner.least or 0) if each.owner is not None else 0)
        if accelerator is not None:
            asked = workload.devices.get(accelerator.resource, 0)
            found[each.key.cluster, accelerator.device] += replicas * asked
    return found


def _running(variants: Iterable[Variant], catalogs: Mapping[str, Catalog]) -> Counter[tuple[str, str]]:
    """The devices that variants run on by Git, by cluster and type."""
    found: Counter[tuple[str, str]] = Counter()
    for variant in variants:
        cluster = variant.key.cluster
        for device, count in _planned(variant, catalogs.get(cluster, _NO_CATALOG)).items():
            found[cluster, device] += count
    return found


def _pool(
    cluster: str, device: str, configured: Sequence[PoolSettings], measured: Measured, now_s: float
) -> DevicePool:
    numbers = [pool.devices for pool in configured if pool.devices is not None]
    prices = [pool.cost_per_hour for pool in configured if pool.cost_per_hour is not None]
    return DevicePool(
        cluster=cluster,
        device=device,
        names=tuple(pool.name for pool in configured),
        configured=sum(numbers) if numbers else None,
        reserve=sum(pool.reserve for pool in configured),
        tiers=tuple(dict.fromkeys(pool.tier for pool in configured)),
        cost_per_hour=prices[0] if prices else None,
        places=tuple(pool.place for pool in configured if pool.place is not None),
        measured=measured,
        at_s=now_s,
    )


def wanted_devices(variants: Iterable[Variant], catalogs: Mapping[str, Catalog]) -> dict[str, set[str]]:
    """The device types of present and possible accelerators of variants, by cluster."""
    names = ((variant.key.cluster, name) for variant in variants for name in accelerators_of(variant))
    devices = ((each, find_or_name(catalogs.get(each, _NO_CATALOG), name).device) for each, name in names)
    return {cluster: set(found) for cluster, found in grouped(devices).items()}


def accelerators_of(variant: Variant) -> tuple[str, ...]:
    """The present accelerator of a variant, then the other possible ones."""
    names = (variant.current.accelerator, *(option.accelerator for option in variant.options))
    return tuple(dict.fromkeys(name for name in names if name))


def is_counted_by_pods(variant: Variant) -> bool:
    """Whether pods beyond the count in Git are held by others, if the holders of devices are known.

    This holds for variants that may not change, have an autoscaler, or run on an unknown accelerator.
    """
    return bool(variant.holds) or variant.is_autoscaled or not variant.current.accelerator


def _planned(variant: Variant, catalog: Catalog) -> dict[str, int]:
    """The devices that a plan counts for a variant whose live replicas may differ from Git, by type."""
    name = variant.current.accelerator
    if not name:
        return {}
    return {find_or_name(catalog, name).device: variant.current.replicas * devices_now(variant, catalog)}


def devices_now(variant: Variant, catalog: Catalog) -> int:
    """How many devices of the present accelerator one replica takes."""
    return accelerators_now(variant, catalog) * find_or_name(catalog, variant.current.accelerator).devices


# ---- the type of a node's devices, by its labels, as with a manifest's node selector


def device_names(settings: Settings) -> DeviceNames:
    """The names to query of nodes to recognize every configured accelerator."""
    own = sorted({accelerator.resource for accelerator in settings.accelerators} - set(WHOLE_DEVICES))
    keys = sorted({key for accelerator in settings.accelerators for key in accelerator.node_selector})
    return DeviceNames(
        resources=(*map(exported_resource, (*WHOLE_DEVICES, *own)), SLICES),
        labels=tuple(dict.fromkeys((*PRODUCT_KEYS, INSTANCE_TYPE, *keys))),
    )


def _device_offered(catalog: Catalog, labels: Mapping[str, str], resource: str) -> tuple[str, bool] | None:
    """The type of a node's devices under `resource`, and whether it is a known name; None without a label.

    Labels and resource are as exported. An accelerator or a common product name is known, other labels are not.
    """
    product = next((labels[key] for key in map(exported_label, PRODUCT_KEYS) if key in labels), "")
    common = PRODUCTS.get(product.lower(), "")
    names = (product, common, labels.get(exported_label(INSTANCE_TYPE), ""))
    # the accelerator with most labels in its node selector, all of them the node's; else by the name of the product,
    # unless it also needs labels that the node does not have
    fitting = [each for each in catalog.accelerators.values() if each.node_selector and _fits(each, labels)]
    accelerator = max(fitting, key=lambda each: len(each.node_selector), default=None)
    if accelerator is None:
        named = (each for each in map(catalog.find, names) if each is not None)
        accelerator = next((each for each in named if _fits(each, labels, but=PRODUCT_KEYS)), None)
    device = accelerator.device if accelerator is not None else common or product
    if not device:
        return None
    is_whole = resource in map(exported_resource, WHOLE_DEVICES)
    if is_whole or (accelerator is not None and exported_resource(accelerator.resource) == resource):
        is_part = accelerator is None and _PART.search(product) is not None
        return device, accelerator is not None or bool(common) or is_part
    return f"{device} as {resource}", True


def _fits(accelerator: Accelerator, labels: Mapping[str, str], *, but: Sequence[str] = ()) -> bool:
    selector = accelerator.node_selector.items()
    return all(key in but or labels.get(exported_label(key)) == value for key, value in selector)


# ---- one cluster's devices by type: offered by nodes, held by others, and every doubt about them


@dataclass(slots=True, kw_only=True)
class Tally:
    """The devices of one type, and their holders."""

    devices: int = 0
    allocatable: int = 0
    nodes: int = 0
    silent: int = 0
    closed: int = 0
    broken: int = 0
    is_known: bool = True
    taken: int = 0
    unreadable: int = 0
    pods: dict[str, int] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)

    def words(self) -> str:
        """The number of nodes, and their problems."""
        odd = ((self.silent, "silent for ten minutes"), (self.closed, "cordoned or not ready"))
        notes = [f"{count} of them {what}" for count, what in odd if count]
        return ", ".join([_nodes(self.nodes), *notes]) if self.nodes else "no node offers any"

    def holders(self) -> tuple[Holder, ...]:
        """The namespaces that hold most."""
        largest = sorted(self.held, key=lambda namespace: (-self.held[namespace], namespace))[:MOST_HOLDERS]
        return tuple(Holder(namespace=each, pods=self.pods[each], devices=self.held[each]) for each in largest)


@dataclass(slots=True, kw_only=True)
class DeviceCount:
    """One cluster's nodes by device type, and reasons for uncertain numbers."""

    catalog: Catalog
    seen: DevicesSeen
    planned: dict[ResourceKey, dict[str, int]]
    tallies: dict[str, Tally] = field(default_factory=dict)
    nameless: set[str] = field(default_factory=set)
    exported: set[str] = field(default_factory=set)
    mute: tuple[str, ...] = ()
    strange: frozenset[str] = frozenset()

    @classmethod
    def of(cls, catalog: Catalog, seen: DevicesSeen, planned: Planned) -> "DeviceCount":
        """Read each node and each pod once; devices `planned` for variants are counted down."""
        left = {variant: dict(devices) for variant, devices in planned.items()}
        count = cls(catalog=catalog, seen=seen, planned=left)
        if isinstance(seen.nodes, NoAnswer):
            return count
        known = () if isinstance(seen.holdings, NoAnswer) else seen.holdings
        holdings = grouped(((each.node, each.resource), each) for each in known)
        for node in seen.nodes:
            count.exported.update(node.labels)
            for resource, offered in node.offers.items():
                if resource != EVERY_NODE_OFFERS and offered != 0:
                    count._add(node, resource, offered, holdings.get((node.name, resource), ()))
        count.mute = tuple(node.name for node in seen.nodes if not node.offers)
        count.strange = frozenset(node for node, _ in holdings) - {node.name for node in seen.nodes}
        return count

    def measured(self, device: str) -> Measured:
        """The numbers of a device type."""
        tally = self.tallies.get(device, Tally())
        doubts = "; ".join(self._doubts(device, tally))
        holdings, taken_reason = self.seen.holdings, ""
        if isinstance(holdings, NoAnswer):
            taken_reason = holdings.reason
        elif isinstance(self.seen.nodes, NoAnswer):
            taken_reason = self.seen.nodes.reason
        elif tally.unreadable:
            taken_reason = f"the number of devices of some pods cannot be read: {tally.unreadable}"
        return Measured(
            devices=None if doubts else tally.devices,
            allocatable=None if doubts else tally.allocatable,
            reason=doubts or tally.words(),
            taken=None if taken_reason and not tally.unreadable else tally.taken,
            taken_reason=taken_reason,
            holders=tally.holders(),
        )

    def _add(self, node: ClusterNode, resource: str, offered: int | None, holdings: Sequence[Holding]) -> None:
        typed = None if node.is_changed else _device_offered(self.catalog, node.labels, resource)
        if typed is None:
            self.nameless.add(node.name)
            return
        device, is_known = typed
        tally = self.tallies.setdefault(device, Tally())
        tally.is_known = is_known
        tally.nodes += 1
        tally.silent += node.is_silent
        tally.closed += bool(node.closed)
        if offered is None:
            tally.broken += 1
            return
        tally.allocatable += offered
        owned = [(self._is_ours(each, device), each) for each in holdings]
        if node.closed and not isinstance(self.seen.holdings, NoAnswer):
            # our pods there stay or need the same room elsewhere, and no others come
            tally.devices += min(offered, sum(each.devices or 0 for is_ours, each in owned if is_ours))
            return
        tally.devices += offered
        others = [each for is_ours, each in owned if not is_ours]
        known = [(each.namespace, each.devices) for each in others if each.devices is not None]
        tally.unreadable += len(others) - len(known)
        tally.taken += min(sum(devices for _, devices in known), offered)
        for namespace, devices in known:
            tally.pods[namespace] = tally.pods.get(namespace, 0) + 1
            tally.held[namespace] = tally.held.get(namespace, 0) + devices

    def _is_ours(self, holding: Holding, device: str) -> bool:
        """Whether a plan counts it; for a variant that it does not scale, only as many as in Git."""
        if holding.variant is None or holding.variant not in self.planned:
            return holding.variant is not None
        left = self.planned[holding.variant].get(device, 0)
        self.planned[holding.variant][device] = left - (holding.devices or 0)
        return left > 0

    def _doubts(self, device: str, tally: Tally) -> Iterator[str]:
        """Why there may be more devices of a type than were counted, such as nodes of unknown products."""
        if isinstance(self.seen.nodes, NoAnswer):
            yield self.seen.nodes.reason
            return
        if self.mute:
            yield f"{_nodes(len(self.mute))} of {len(self.seen.nodes)} reported no devices: {_some(self.mute)}"
        if self.strange:
            yield f"pods hold devices on {_nodes(len(self.strange))} without series: {_some(self.strange)}"
        if self.nameless:
            yield f"devices of {_nodes(len(self.nameless))} have no product label: {ALLOW_LABELS}"
        if tally.broken:
            yield f"the number of devices on {_nodes(tally.broken)} cannot be read"
        if not tally.nodes:
            exported = {*self.exported, *map(exported_label, PRODUCT_KEYS)}
            accelerators = (each for each in self.catalog.accelerators.values() if each.device == device)
            keys = sorted({key for accelerator in accelerators for key in accelerator.node_selector})
            hidden = next((key for key in keys if exported_label(key) not in exported), "")
            if hidden:
                yield f"no node is exported with the label {hidden} that identifies it"
        products = [
            product
            for product, other in self.tallies.items()
            if not other.is_known and product != device and (not tally.nodes or _may_be(product, device))
        ]
        if products:
            yield f"nodes offer {_some(products)}, which may be {device}: say so in accelerators[].aliases"


def _may_be(product: str, device: str) -> bool:
    """Whether an unknown product could be the device by its name (`NVIDIA-H100-96GB`, `H100`)."""
    words = _WORD_ENDS.split(product.lower())
    wanted = [word for word in _WORD_ENDS.split(device.lower()) if word]
    return bool(wanted) and all(word in words for word in wanted)


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def _some(names: Iterable[str]) -> str:
    ordered = sorted(names)
    return name_first(ordered[:MOST_HOLDERS], len(ordered))
