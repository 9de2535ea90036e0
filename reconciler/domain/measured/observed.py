"""What Prometheus says of models, variants, replicas and devices, or why it says nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.measured.answers import NoAnswer
from reconciler.domain.measured.loads import Load, Observation, PastArrivals, UsualLoad
from reconciler.domain.measured.replicas import LiveReplicas, ReplicaMetrics, Trace, UpstreamQueue


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNode:
    """A node of the last hour: what it offers by resource, as that is exported; None is a number that is none.

    `labels` are those that were asked for, as they are exported; `is_changed`: it told two values of one within ten
    minutes. `closed` says why nothing new goes there. `is_silent`: it has told nothing for ten minutes.
    """

    name: str
    offers: Mapping[str, int | None] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    is_changed: bool = False
    closed: str = ""
    is_silent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What a pod on a node asks for of a resource; None is a number that is none. Without a variant it is others'."""

    namespace: str
    node: str
    resource: str
    devices: int | None
    variant: ResourceKey | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceQuota:
    """A ResourceQuota on the devices that pods of a namespace ask for, and how many of them it leaves."""

    name: str
    resource: str
    left: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicesSeen:
    """All nodes of a cluster and all that pods hold there, or why that is not known."""

    nodes: tuple[ClusterNode, ...] | NoAnswer
    holdings: tuple[Holding, ...] | NoAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What the answers of a run say of every model, variant and replica; what was not asked or told has no key."""

    loads: Mapping[ModelKey, Load | NoAnswer] = field(default_factory=dict)
    observations: Mapping[ResourceKey, Observation] = field(default_factory=dict)
    """Each variant's latencies and requests as its replicas report them."""
    past: Mapping[ModelKey, PastArrivals | NoAnswer] = field(default_factory=dict)
    """What arrived before, as the source of the model's load counted it."""
    usual: Mapping[ModelKey, UsualLoad] = field(default_factory=dict)
    """What a whole day was like."""
    incomplete: Mapping[str, str] = field(default_factory=dict)
    """By cluster, why its answers may lack a part of what there is."""
    lost: Mapping[str, NoAnswer] = field(default_factory=dict)
    """By cluster, why the histories of replicas that were asked for are not whole."""
    replicas: Mapping[ResourceKey, tuple[ReplicaMetrics, ...]] = field(default_factory=dict)
    """How full each replica is that reports now."""
    queues: Mapping[ModelKey, UpstreamQueue] = field(default_factory=dict)
    """What waits before an endpoint picker."""
    ready: Mapping[ResourceKey, int] = field(default_factory=dict)
    """Replicas that Kubernetes calls ready."""
    unschedulable: Mapping[ResourceKey, int] = field(default_factory=dict)
    """Pods of a variant that find no node."""
    quotas: Mapping[tuple[str, str], tuple[ResourceQuota, ...]] = field(default_factory=dict)
    """By cluster and namespace, what quotas leave of devices."""
    requests: Mapping[ModelKey, float | NoAnswer] = field(default_factory=dict)
    """Requests finished within the retention period, which decides about zero replicas."""
    stored_kv_tokens: Mapping[ResourceKey, float] = field(default_factory=dict)
    """Tokens that a replica of the variant held within the last day."""
    traces: Mapping[ResourceKey, tuple[Trace, ...]] = field(default_factory=dict)
    """Histories of the last hour, one of each replica and grid; a variant that nobody asked about has no key."""
    live: Mapping[ResourceKey, LiveReplicas | NoAnswer] = field(default_factory=dict)
    """Replicas that scale targets ask for in their cluster."""
    devices: Mapping[str, DevicesSeen] = field(default_factory=dict)
    """By cluster, what nodes offer and pods hold."""
    queries: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Cluster -> quantity -> the PromQL that was asked, the first of several."""
    failures: tuple[str, ...] = ()
    """One sentence for each cluster where something failed outside: the next run may succeed."""
    refusals: tuple[str, ...] = ()
    """One sentence for each cluster that cannot be asked until somebody changes an address or a credential."""
    warnings: tuple[str, ...] = ()
    """What Prometheus itself warned of, in its words."""
