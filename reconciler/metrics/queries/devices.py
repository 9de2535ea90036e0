"""What is asked about devices: what nodes offer and what pods hold, in two queries a cluster whatever its size.

All of it is of kube-state-metrics. Series that a scrape renamed (`exported_node`) are left alone: under the names of
its target they would all be one node.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from reconciler.domain.measured.answers import Query
from reconciler.domain.settings import ClusterSettings
from reconciler.metrics.quantities.quantity import Name, Quantity
from reconciler.metrics.queries.expressions import exported_label, label_names, matchers, render

SETTLED_S = 600.0
"""So long a node must be silent, cordoned or not ready before it counts as such: plugins and scrapes restart."""
FACT = "fact"
OFFERS, LABELS, CORDONED, NOT_READY, SEEN = "offers", "labels", "cordoned", "not ready", "seen"
"""What a series of the answer about nodes tells, in its label `fact`."""
EVERY_NODE_OFFERS = "cpu"
"""Asked beside devices: a node that offers none of them still reports this."""
SCRAPED_NODE = 'exported_node=""'
EXPORTED_NAMESPACE = "exported_namespace"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceNames:
    """What to look for: resources of containers (regular expressions as they are exported), and labels of nodes."""

    resources: tuple[str, ...]
    labels: tuple[str, ...]


def device_queries(cluster: ClusterSettings, names: DeviceNames, now_s: float) -> tuple[Query, ...]:
    """The two queries, at `now_s` (Unix seconds); empty without a Prometheus. ConfigurationError for wrong labels."""
    settings = cluster.prometheus
    if settings is None:
        return ()
    spelled = label_names(settings)
    where = ",".join(filter(None, (matchers(settings), SCRAPED_NODE)))
    held = where if spelled.namespace == EXPORTED_NAMESPACE else f'{where},{EXPORTED_NAMESPACE}=""'
    texts = (
        (Name.NODES, render(_nodes(names), spelled, where)),
        (Name.DEVICE_REQUESTS, render(_requests(names), spelled, held)),
    )
    return tuple(
        Query(cluster=cluster.name, quantity=name, text=text, start_s=now_s, end_s=now_s) for name, text in texts
    )


def _nodes(names: DeviceNames) -> Quantity:
    """Five facts of each node. What a node said within the hour counts until it says something else."""
    offered = f'kube_node_status_allocatable{{resource=~"{_any((*names.resources, EVERY_NODE_OFFERS))}",$where}}'
    labels = ", ".join(("node", *dict.fromkeys(map(exported_label, names.labels))))
    ready = 'kube_node_status_condition{condition="Ready",status="true",$where}'
    return Quantity(
        name=Name.NODES,
        unit="devices",
        reason="what nodes offer, what they are, and whether they all say it",
        by=("node",),
        candidates=(
            _fact(OFFERS, f"max by (node, resource) (max_over_time({offered}[$window]))", _last(offered, "resource")),
            _fact(
                LABELS,
                f"group by ({labels}) (last_over_time(kube_node_labels{{$where}}[$window]))",
                f"group by ({labels}) (last_over_time(kube_node_labels{{$where}}[1h]))",
            ),
            _fact(CORDONED, "min by (node) (min_over_time(kube_node_spec_unschedulable{$where}[$window])) == 1"),
            _fact(NOT_READY, f"max by (node) (max_over_time({ready}[$window])) == 0"),
            _fact(SEEN, "max by (node) (max_over_time(timestamp(kube_node_info{$where})[1h:1m]))"),
        ),
        window_s=SETTLED_S,
    )


def _requests(names: DeviceNames) -> Quantity:
    """What each pod on a node holds; two exporters that tell the same must not count twice."""
    asked = f'kube_pod_container_resource_requests{{resource=~"{_any(names.resources)}",node!="",$where}}'
    over = 'kube_pod_status_phase{phase=~"Failed|Succeeded",$where} == 1'
    held = f"sum by ($place, node, resource) (max by ($place, container, node, resource) ({asked}))"
    return Quantity(
        name=Name.DEVICE_REQUESTS,
        unit="devices",
        reason="what pods hold, ours and those of others",
        by=("namespace", "pod", "node", "resource"),
        candidates=(f"{held} unless on ($place) ({over})",),
    )


def _fact(fact: str, *alternatives: str) -> str:
    return f'label_replace({" or on (node) ".join(alternatives)}, "{FACT}", "{fact}", "", "")'


def _last(selector: str, label: str) -> str:
    return f"max by (node, {label}) (last_over_time({selector}[1h]))"


def _any(resources: Sequence[str]) -> str:
    return "|".join(dict.fromkeys(resources))
