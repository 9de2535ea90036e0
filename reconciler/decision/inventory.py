"""The inventory of a run: configured pools, else what nodes offer; what is not sure is unknown and never smaller."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from reconciler.decision.catalogs import find_or_name
from reconciler.decision.nodes import device_offered, may_be, unexported_keys
from reconciler.domain.accelerators import Catalog
from reconciler.domain.answers import NoAnswer
from reconciler.domain.identity import Place
from reconciler.domain.inventory import DevicePool, Holder, Inventory, Measured
from reconciler.domain.settings import ClusterSettings, PoolSettings, Settings
from reconciler.domain.variants import Variant
from reconciler.metrics import DevicesSeen, Holding, Node
from reconciler.metrics.device_queries import EVERY_NODE_OFFERS
from reconciler.resources.wording import name_first

MOST_HOLDERS = 3
NO_CATALOG = Catalog()
ALLOW_LABELS = "let kube-state-metrics export it, as in --metric-labels-allowlist=nodes=[nvidia.com/gpu.product]"


def take_inventory(
    settings: Settings,
    catalogs: Mapping[str, Catalog],
    variants: Iterable[Variant],
    seen: Mapping[str, DevicesSeen],
    now_s: float,
) -> Inventory:
    """A pool for every device type that is configured, offered, or that a variant may take, in every cluster."""
    wanted = wanted_devices(variants, catalogs)
    pools = (
        pool
        for cluster in settings.clusters
        if cluster.name in seen
        for pool in _pools(cluster, catalogs[cluster.name], wanted.get(cluster.name, ()), seen[cluster.name], now_s)
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


def _pools(
    cluster: ClusterSettings, catalog: Catalog, wanted: Iterable[str], seen: DevicesSeen, now_s: float
) -> Iterator[DevicePool]:
    count = _Count.of(catalog, seen)
    configured: dict[str, list[PoolSettings]] = {}
    for pool in cluster.pools:
        configured.setdefault(find_or_name(catalog, pool.device).device, []).append(pool)
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


@dataclass(slots=True, kw_only=True)
class _Tally:
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
        """Of how many nodes, and what is odd about them."""
        odd = ((self.silent, "told nothing for ten minutes"), (self.closed, "cordoned or not ready"))
        notes = [f"{count} of them {what}" for count, what in odd if count]
        return ", ".join([_nodes(self.nodes), *notes]) if self.nodes else "no node offers any"

    def holders(self) -> tuple[Holder, ...]:
        """The namespaces that hold most."""
        largest = sorted(self.held, key=lambda namespace: (-self.held[namespace], namespace))[:MOST_HOLDERS]
        return tuple(Holder(namespace=each, pods=self.pods[each], devices=self.held[each]) for each in largest)


_NOTHING = _Tally()


@dataclass(slots=True, kw_only=True)
class _Count:
    """One cluster's nodes by device type, and whatever makes a type's number less than sure."""

    catalog: Catalog
    seen: DevicesSeen
    tallies: dict[str, _Tally] = field(default_factory=dict)
    nameless: set[str] = field(default_factory=set)
    exported: set[str] = field(default_factory=set)
    mute: tuple[str, ...] = ()
    strange: frozenset[str] = frozenset()

    @classmethod
    def of(cls, catalog: Catalog, seen: DevicesSeen) -> "_Count":
        """Each node and each pod is looked at once."""
        count = cls(catalog=catalog, seen=seen)
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
        """What is known of a device type: of one that no node offers, that there is none."""
        tally = self.tallies.get(device, _NOTHING)
        doubts = "; ".join(self._doubts(device, tally))
        holdings, taken_reason = self.seen.holdings, ""
        if isinstance(holdings, NoAnswer):
            taken_reason = holdings.reason
        elif isinstance(self.seen.nodes, NoAnswer):
            taken_reason = self.seen.nodes.reason
        elif tally.unreadable:
            taken_reason = f"{tally.unreadable} pods ask for a number of devices that is none"
        return Measured(
            devices=None if doubts else tally.devices,
            allocatable=None if doubts else tally.allocatable,
            reason=doubts or tally.words(),
            taken=None if taken_reason and not tally.unreadable else tally.taken,
            taken_reason=taken_reason,
            holders=tally.holders(),
        )

    def _add(self, node: Node, resource: str, offered: int | None, holdings: Sequence[Holding]) -> None:
        typed = None if node.is_changed else device_offered(self.catalog, node.labels, resource)
        if typed is None:
            self.nameless.add(node.name)
            return
        tally = self.tallies.setdefault(typed.device, _Tally())
        tally.is_known = typed.is_known
        tally.nodes += 1
        tally.silent += node.is_silent
        tally.closed += bool(node.closed)
        if offered is None:
            tally.broken += 1
            return
        tally.allocatable += offered
        if node.closed and not isinstance(self.seen.holdings, NoAnswer):
            # who leaves it must find room elsewhere, who stays keeps it; nobody else comes
            tally.devices += min(offered, sum(each.devices or 0 for each in holdings if each.is_ours))
            return
        tally.devices += offered
        self._take(tally, offered, [each for each in holdings if not each.is_ours])

    def _take(self, tally: _Tally, offered: int, others: Sequence[Holding]) -> None:
        known = [(each.namespace, each.devices) for each in others if each.devices is not None]
        tally.unreadable += len(others) - len(known)
        tally.taken += min(sum(devices for _, devices in known), offered)
        for namespace, devices in known:
            tally.pods[namespace] = tally.pods.get(namespace, 0) + 1
            tally.held[namespace] = tally.held.get(namespace, 0) + devices

    def _doubts(self, device: str, tally: _Tally) -> Iterator[str]:
        """Why there may be more of a type than was counted; a node of an unknown product may be any that has none."""
        if isinstance(self.seen.nodes, NoAnswer):
            yield self.seen.nodes.reason
            return
        if self.mute:
            yield f"{_nodes(len(self.mute))} of {len(self.seen.nodes)} do not say what they offer: {_some(self.mute)}"
        if self.strange:
            yield f"pods hold devices on {_nodes(len(self.strange))} that say nothing: {_some(self.strange)}"
        if self.nameless:
            yield f"{_nodes(len(self.nameless))} with devices have no label of their product: {ALLOW_LABELS}"
        if tally.broken:
            yield f"{_nodes(tally.broken)} offer a number of devices that is none"
        if not tally.nodes:
            hidden = unexported_keys(self.catalog, device, self.exported)
            if hidden:
                yield f"no node is said to have the label {hidden[0]} that it is told by"
        products = [
            product
            for product, other in self.tallies.items()
            if not other.is_known and product != device and (not tally.nodes or may_be(product, device))
        ]
        if products:
            yield f"nodes offer {_some(products)}, which may be {device}: say so in accelerators[].aliases"


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def _some(names: Iterable[str]) -> str:
    ordered = sorted(names)
    return name_first(ordered[:MOST_HOLDERS], len(ordered))
