"""Snapshot: the typed, immutable input of decide."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.domain.accelerators import Catalog
from reconciler.domain.answers import NoAnswer
from reconciler.domain.declared.declarations import BrokenResource
from reconciler.domain.declared.saturation_settings import SaturationRules, ZeroRules
from reconciler.domain.declared.tracking import TrackedHistory, TrackedTarget
from reconciler.domain.findings import Finding
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.inventory import Inventory
from reconciler.domain.loads import Load, Observation, PastArrivals
from reconciler.domain.proposals import Proposal
from reconciler.domain.replicas import LiveReplicas, ReplicaMetrics, Trace, UpstreamQueue
from reconciler.domain.settings import Settings
from reconciler.domain.variants import Variant


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaViews:
    """What replicas say one by one, where an engine looks at them: empty for models that are sized by a queue.

    `ready` counts the replicas that Kubernetes calls ready; `requests` those of the time that decides about zero;
    `stored_kv_tokens` is what a replica of a variant held when it was last seen, `traces` the last hour.
    """

    replicas: Mapping[ResourceKey, tuple[ReplicaMetrics, ...]] = field(default_factory=dict)
    queues: Mapping[ModelKey, UpstreamQueue] = field(default_factory=dict)
    ready: Mapping[ResourceKey, int] = field(default_factory=dict)
    requests: Mapping[ModelKey, float | NoAnswer] = field(default_factory=dict)
    stored_kv_tokens: Mapping[ResourceKey, float] = field(default_factory=dict)
    traces: Mapping[ResourceKey, tuple[Trace, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything known at `now_s` (Unix seconds), each absence with its reason.

    `committed_s` is when `commit` was made, None where nobody recorded it.
    """

    now_s: float
    repository: str
    branch: str
    commit: str
    fingerprint: str
    settings: Settings
    variants: tuple[Variant, ...]
    broken: tuple[BrokenResource, ...] = ()
    loads: Mapping[ModelKey, Load | NoAnswer] = field(default_factory=dict)
    observations: Mapping[ResourceKey, Observation] = field(default_factory=dict)
    past: Mapping[ModelKey, PastArrivals] = field(default_factory=dict)
    """How the loads of models came to be, where it was asked for and somebody knows."""
    views: ReplicaViews = field(default_factory=ReplicaViews)
    saturation: Mapping[ModelKey, SaturationRules] = field(default_factory=dict)
    """What upstream's ConfigMaps say of a model's saturation, where they say anything."""
    zero: Mapping[ModelKey, ZeroRules] = field(default_factory=dict)
    """What upstream's ConfigMap says of scaling a model to zero, where it says anything."""
    tracked: tuple[TrackedTarget, ...] = ()
    """What policies with metric targets scale."""
    histories: Mapping[ResourceKey, TrackedHistory] = field(default_factory=dict)
    """What was seen of each tracked target, by its key."""
    live: Mapping[ResourceKey, LiveReplicas | NoAnswer] = field(default_factory=dict)
    """What the scale targets of variants ask for in their cluster; what was not asked is not there."""
    committed_s: float | None = None
    queries: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Cluster -> quantity -> the PromQL that was asked."""
    catalogs: Mapping[str, Catalog] = field(default_factory=dict)
    inventory: Inventory = field(default_factory=Inventory)
    """How many devices there are of each type in each cluster, and who holds them."""
    proposals: tuple[Proposal, ...] = ()
    findings: tuple[Finding, ...] = ()
    failures: tuple[str, ...] = ()
    """What failed outside, in words, one per cluster: the next run may succeed."""
    warnings: tuple[str, ...] = ()
    """What Prometheus itself warned of, in its words."""
