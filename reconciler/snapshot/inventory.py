"""The inventory of a run: configured pools, else what nodes offer and pods hold."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

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
from reconciler.domain.settings import PoolSettings, Settings
from reconciler.domain.snapshot import Variant
from reconciler.manifests.wording import name_first
from reconciler.metrics.observed import EVERY_NODE_OFFERS, DeviceNames
from reconciler.metrics.queries import exported_label, exported_resource
from reconciler.snapshot.accelerators import accelerators_now, find_or_name

WHOLE_DEVICES = (
    "nvidia.com/gpu",
    "amd.com/gpu",
    "intel.com/gpu",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
    "habana.ai/gaudi",
)
"""Resources that count whole devices."""
SLICES = "nvidia_com_mig_.*"
"""The resources, spelled as exported, of a node that cuts its devices in several ways."""
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
MOST_HOLDERS = 3
ALLOW_LABELS = "let kube-state-metrics export it, as in --metric-labels-allowlist=nodes=[nvidia.com/gpu.product]"
_PART = re.compile(r"-MIG-|-SHARED$", re.IGNORECASE)
"""In a product's name: its devices are slices, or one device is counted several times."""
_WORD_ENDS = re.compile(r"[^0-9a-z]+")
_NO_CATALOG = Catalog()
Planned = Mapping[ResourceKey, Mapping[str, int]]
"""Variant -> device type -> how many devices a plan counts as the variant's."""


# ---- pools: what is configured, else what nodes offer; what is not certain is unknown and never smaller


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
    planned = {
        variant.key: _planned(variant, catalogs.get(variant.key.cluster, _NO_CATALOG))
        for variant in variants
        if is_counted_by_pods(variant)
    }
    pools: dict[tuple[str, str], DevicePool] = {}
    for cluster in settings.clusters:
        if cluster.name not in seen:
            continue
        count = DeviceCount.of(catalogs[cluster.name], seen[cluster.name], planned)
        configured: dict[str, list[PoolSettings]] = {}
        for pool in cluster.pools:
            configured.setdefault(find_or_name(count.catalog, pool.device).device, []).append(pool)
        for device in sorted({*wanted.get(cluster.name, ()), *configured, *count.tallies}):
            members, measured = configured.get(device, ()), count.measured(device)
            pools[cluster.name, device] = _pool(cluster.name, device, members, measured, now_s)
    return Inventory(pools=pools)


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
    """The device types that variants run on or may run on, by cluster."""
    wanted: dict[str, set[str]] = {}
    for variant in variants:
        cluster = variant.key.cluster
        for name in accelerators_of(variant):
            device = find_or_name(catalogs.get(cluster, _NO_CATALOG), name).device
            wanted.setdefault(cluster, set()).add(device)
    return wanted


def accelerators_of(variant: Variant) -> tuple[str, ...]:
    """What a variant runs on, then what else it may run on."""
    names = (variant.current.accelerator, *(option.accelerator for option in variant.options))
    return tuple(dict.fromkeys(name for name in names if name))


def is_counted_by_pods(variant: Variant) -> bool:
    """Whether pods beyond what Git says count as held by others, where the holders of devices are known.

    That is so for variants that stay as they are, that an autoscaler moves, or that run on an unknown accelerator.
    """
    return bool(variant.holds) or variant.is_autoscaled or not variant.current.accelerator


def _planned(variant: Variant, catalog: Catalog) -> dict[str, int]:
    """What a plan counts for a variant whose live replicas may differ from those in Git, by device type."""
    name = variant.current.accelerator
    if not name:
        return {}
    return {find_or_name(catalog, name).device: variant.current.replicas * devices_now(variant, catalog)}


def devices_now(variant: Variant, catalog: Catalog) -> int:
    """How many devices one replica takes of the accelerator that the variant runs on."""
    return accelerators_now(variant, catalog) * find_or_name(catalog, variant.current.accelerator).devices


# ---- the type of a node's devices: its labels are recognised as a manifest's node selector is


def device_names(settings: Settings) -> DeviceNames:
    """What to ask of nodes so that every configured accelerator can be recognised."""
    own = sorted({accelerator.resource for accelerator in settings.accelerators} - set(WHOLE_DEVICES))
    keys = sorted({key for accelerator in settings.accelerators for key in accelerator.node_selector})
    return DeviceNames(
        resources=(*map(exported_resource, (*WHOLE_DEVICES, *own)), SLICES),
        labels=tuple(dict.fromkeys((*PRODUCT_KEYS, INSTANCE_TYPE, *keys))),
    )


def _device_offered(catalog: Catalog, labels: Mapping[str, str], resource: str) -> tuple[str, bool] | None:
    """The type of what a node offers under `resource`, and whether that is a known name; None without a label for it.

    Labels and resource are spelled as exported. An accelerator or a common product name is known, other labels are not.
    """
    product = next((labels[key] for key in map(exported_label, PRODUCT_KEYS) if key in labels), "")
    common = PRODUCTS.get(product.lower(), "")
    names = (product, common, labels.get(exported_label(INSTANCE_TYPE), ""))
    accelerator = _by_selector(catalog, labels) or _by_name(catalog, names, labels)
    device = accelerator.device if accelerator is not None else common or product
    if not device:
        return None
    is_whole = resource in map(exported_resource, WHOLE_DEVICES)
    if is_whole or (accelerator is not None and exported_resource(accelerator.resource) == resource):
        is_part = accelerator is None and _PART.search(product) is not None
        return device, accelerator is not None or bool(common) or is_part
    return f"{device} as {resource}", True


def _by_selector(catalog: Catalog, labels: Mapping[str, str]) -> Accelerator | None:
    """The accelerator whose node selector the node fits; the one with most labels, then the first."""
    fitting = [
        accelerator
        for accelerator in catalog.accelerators.values()
        if accelerator.node_selector
        and all(labels.get(exported_label(key)) == value for key, value in accelerator.node_selector.items())
    ]
    return max(fitting, key=lambda accelerator: len(accelerator.node_selector), default=None)


def _by_name(catalog: Catalog, names: Iterable[str], labels: Mapping[str, str]) -> Accelerator | None:
    """The accelerator that a node's product names, unless it also needs labels that this node does not have."""
    for accelerator in map(catalog.find, names):
        if accelerator is not None and all(
            key in PRODUCT_KEYS or labels.get(exported_label(key)) == value
            for key, value in accelerator.node_selector.items()
        ):
            return accelerator
    return None


# ---- one cluster's devices by type: what nodes offer, what others hold, and every doubt about it


@dataclass(slots=True, kw_only=True)
class Tally:
    """What the nodes of one type offer, and who holds it."""

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
        """The number of nodes, and what is wrong with some of them."""
        odd = ((self.silent, "silent for ten minutes"), (self.closed, "cordoned or not ready"))
        notes = [f"{count} of them {what}" for count, what in odd if count]
        return ", ".join([_nodes(self.nodes), *notes]) if self.nodes else "no node offers any"

    def holders(self) -> tuple[Holder, ...]:
        """The namespaces that hold most."""
        largest = sorted(self.held, key=lambda namespace: (-self.held[namespace], namespace))[:MOST_HOLDERS]
        return tuple(Holder(namespace=each, pods=self.pods[each], devices=self.held[each]) for each in largest)


@dataclass(slots=True, kw_only=True)
class DeviceCount:
    """One cluster's nodes by device type, and what makes a number uncertain."""

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
        """Each node and each pod is read once; what is `planned` for variants is counted down."""
        left = {variant: dict(devices) for variant, devices in planned.items()}
        count = cls(catalog=catalog, seen=seen, planned=left)
        if isinstance(seen.nodes, NoAnswer):
            return count
        holdings: dict[tuple[str, str], list[Holding]] = {}
        for each in () if isinstance(seen.holdings, NoAnswer) else seen.holdings:
            holdings.setdefault((each.node, each.resource), []).append(each)
        for node in seen.nodes:
            count.exported.update(node.labels)
            for resource, offered in node.offers.items():
                if resource != EVERY_NODE_OFFERS and offered != 0:
                    count._add(node, resource, offered, holdings.get((node.name, resource), ()))
        count.mute = tuple(node.name for node in seen.nodes if not node.offers)
        count.strange = frozenset(node for node, _ in holdings) - {node.name for node in seen.nodes}
        return count

    def measured(self, device: str) -> Measured:
        """What is known of a device type; a type that no node offers has none."""
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
            # our pods there stay or need the same room elsewhere; no others come
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
        """Whether a plan counts it: for a variant whose live replicas it does not decide, only as many as in Git."""
        if holding.variant is None or holding.variant not in self.planned:
            return holding.variant is not None
        left = self.planned[holding.variant].get(device, 0)
        self.planned[holding.variant][device] = left - (holding.devices or 0)
        return left > 0

    def _doubts(self, device: str, tally: Tally) -> Iterator[str]:
        """Why there may be more of a type than was counted; a node of an unknown product may be any that has none."""
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
