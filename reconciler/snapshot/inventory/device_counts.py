"""Counts one cluster's devices by type: what nodes offer, what others hold, and every doubt about it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from reconciler.domain.identity import ResourceKey
from reconciler.domain.inventory import Catalog, Holder, Measured
from reconciler.domain.measured.answers import NoAnswer
from reconciler.domain.measured.observed import ClusterNode, DevicesSeen, Holding
from reconciler.manifests.wording import name_first
from reconciler.metrics.queries.devices import EVERY_NODE_OFFERS
from reconciler.snapshot.inventory.nodes import device_offered, may_be, unexported_keys

MOST_HOLDERS = 3
ALLOW_LABELS = "let kube-state-metrics export it, as in --metric-labels-allowlist=nodes=[nvidia.com/gpu.product]"
Planned = Mapping[ResourceKey, Mapping[str, int]]
"""Variant -> device type -> how many devices a plan counts as the variant's."""


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
        """Of how many nodes, and what is odd about them."""
        odd = ((self.silent, "told nothing for ten minutes"), (self.closed, "cordoned or not ready"))
        notes = [f"{count} of them {what}" for count, what in odd if count]
        return ", ".join([_nodes(self.nodes), *notes]) if self.nodes else "no node offers any"

    def holders(self) -> tuple[Holder, ...]:
        """The namespaces that hold most."""
        largest = sorted(self.held, key=lambda namespace: (-self.held[namespace], namespace))[:MOST_HOLDERS]
        return tuple(Holder(namespace=each, pods=self.pods[each], devices=self.held[each]) for each in largest)


_NOTHING = Tally()


@dataclass(slots=True, kw_only=True)
class DeviceCount:
    """One cluster's nodes by device type, and whatever makes a type's number less than sure."""

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
        """Each node and each pod is looked at once; what is `planned` of variants is counted down."""
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
        """What is known of a device type: of one that no node offers, that there is none."""
        tally = self.tallies.get(device, _NOTHING)
        doubts = "; ".join(self._doubts(device, tally))
        holdings, taken_reason = self.seen.holdings, ""
        if isinstance(holdings, NoAnswer):
            taken_reason = holdings.reason
        elif isinstance(self.seen.nodes, NoAnswer):
            taken_reason = self.seen.nodes.reason
        elif tally.unreadable:
            taken_reason = f"pods ask for a number of devices that is none: {tally.unreadable}"
        return Measured(
            devices=None if doubts else tally.devices,
            allocatable=None if doubts else tally.allocatable,
            reason=doubts or tally.words(),
            taken=None if taken_reason and not tally.unreadable else tally.taken,
            taken_reason=taken_reason,
            holders=tally.holders(),
        )

    def _add(self, node: ClusterNode, resource: str, offered: int | None, holdings: Sequence[Holding]) -> None:
        typed = None if node.is_changed else device_offered(self.catalog, node.labels, resource)
        if typed is None:
            self.nameless.add(node.name)
            return
        tally = self.tallies.setdefault(typed.device, Tally())
        tally.is_known = typed.is_known
        tally.nodes += 1
        tally.silent += node.is_silent
        tally.closed += bool(node.closed)
        if offered is None:
            tally.broken += 1
            return
        tally.allocatable += offered
        told = [(self._is_ours(each, typed.device), each) for each in holdings]
        if node.closed and not isinstance(self.seen.holdings, NoAnswer):
            # who leaves it must find room elsewhere, who stays keeps it; nobody else comes
            tally.devices += min(offered, sum(each.devices or 0 for is_ours, each in told if is_ours))
            return
        tally.devices += offered
        self._take(tally, offered, [each for is_ours, each in told if not is_ours])

    def _is_ours(self, holding: Holding, device: str) -> bool:
        """Whether a plan counts it: of a variant whose live replicas it does not decide, only as many as are in Git."""
        if holding.variant is None or holding.variant not in self.planned:
            return holding.variant is not None
        left = self.planned[holding.variant].get(device, 0)
        self.planned[holding.variant][device] = left - (holding.devices or 0)
        return left > 0

    def _take(self, tally: Tally, offered: int, others: Sequence[Holding]) -> None:
        known = [(each.namespace, each.devices) for each in others if each.devices is not None]
        tally.unreadable += len(others) - len(known)
        tally.taken += min(sum(devices for _, devices in known), offered)
        for namespace, devices in known:
            tally.pods[namespace] = tally.pods.get(namespace, 0) + 1
            tally.held[namespace] = tally.held.get(namespace, 0) + devices

    def _doubts(self, device: str, tally: Tally) -> Iterator[str]:
        """Why there may be more of a type than was counted; a node of an unknown product may be any that has none."""
        if isinstance(self.seen.nodes, NoAnswer):
            yield self.seen.nodes.reason
            return
        if self.mute:
            yield f"{_nodes(len(self.mute))} of {len(self.seen.nodes)} told nothing of devices: {_some(self.mute)}"
        if self.strange:
            yield f"pods hold devices on {_nodes(len(self.strange))} that nothing tells of: {_some(self.strange)}"
        if self.nameless:
            yield f"devices of {_nodes(len(self.nameless))} have no product label: {ALLOW_LABELS}"
        if tally.broken:
            yield f"the number of devices on {_nodes(tally.broken)} is none"
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
