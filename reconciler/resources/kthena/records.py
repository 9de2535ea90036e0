"""Kthena's resources as written, whatever their generation: policies, bindings, models and what these scale."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from reconciler.domain.identity import Place, ResourceKey
from reconciler.domain.metric_targets import (
    EVERY_POD,
    Generation,
    LabelSelector,
    MetricSource,
    MetricTarget,
    Policy,
    RatioRange,
)
from reconciler.domain.places import Annotation
from reconciler.domain.workloads import NodeTerm, Workload
from reconciler.resources.objects import Declared

DEFAULT_COST_EXPANSION_PERCENT = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySpec:
    """What a policy asks for, with every default; `metrics` of `policy` may be empty where roles have their own."""

    policy: Policy
    place: Place
    down_place: Place
    up_place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetReference:
    """The workload that is scaled; `kind` is filled in, `namespace` empty means that of the resource itself."""

    kind: str
    name: str
    namespace: str = ""
    api_version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricEndpoint:
    """Where pods export all metrics of a policy, before each metric had a source of its own; None is not written."""

    uri: str | None = None
    port: int | None = None
    selector: LabelSelector = EVERY_POD


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledTarget:
    """A workload, or with `role` one role of it, that is scaled between two bounds.

    `match_labels` are on each of its pods besides those of its generation. `sources` are by metric; what is not there
    is exported at `endpoint` under the metric's own name. `cost` of a replica is relative to others of the group.
    """

    reference: TargetReference
    min_replicas: int
    max_replicas: int
    place: Place
    cost: int = 0
    role: str = ""
    match_labels: Mapping[str, str] = field(default_factory=dict)
    endpoint: MetricEndpoint = MetricEndpoint()
    sources: Mapping[str, MetricSource] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTarget:
    """Workloads that serve one load together; the rate is how batches of one kind grow, 200 doubling each."""

    params: tuple[ScaledTarget, ...]
    cost_expansion_percent: int = DEFAULT_COST_EXPANSION_PERCENT


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleTarget:
    """A role that is scaled on its own metrics, or with none on those of the policy. Equal bounds above 0 fix it."""

    name: str
    min_replicas: int
    max_replicas: int
    place: Place
    metrics: tuple[MetricTarget, ...] = ()
    sources: Mapping[str, MetricSource] = field(default_factory=dict)

    @property
    def is_fixed(self) -> bool:
        """Whether it needs no metrics."""
        return self.min_replicas == self.max_replicas > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioConstraint:
    """Which ratios of one role's replicas to another's are wanted."""

    numerator: str
    denominator: str
    ratio: RatioRange
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class DisaggregatedTarget:
    """One or two roles of one workload, sorted by name."""

    reference: TargetReference
    roles: tuple[RoleTarget, ...]
    place: Place
    ratio: RatioConstraint | None = None


TargetSpec: TypeAlias = ScaledTarget | GroupTarget | DisaggregatedTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyResource(Declared):
    """An AutoscalingPolicy; `target` is None where bindings name the targets (before v1.0)."""

    spec: PolicySpec
    target: TargetSpec | None = None
    settings: Mapping[str, Annotation] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingResource(Declared):
    """An AutoscalingPolicyBinding: which policy of its namespace scales which targets."""

    generation: Generation
    label_prefix: str
    policy: str
    target: ScaledTarget | GroupTarget
    settings: Mapping[str, Annotation] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """Pods of one type that a replica of a backend has: `replicas` times `pods`, None when not written.

    `config` are flags of the engine by name, without dashes.
    """

    type: str
    place: Place
    replicas: int | None = None
    pods: int | None = None
    devices: Mapping[str, int] = field(default_factory=dict)
    affinity: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    terms: tuple[NodeTerm, ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, str] = field(default_factory=dict)

    @property
    def num_pods(self) -> int:
        """How many pods of it one replica of its backend has."""
        return (1 if self.replicas is None else self.replicas) * (self.pods or 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelBackend:
    """One way in which a model is served.

    `workload` is what one of its replicas is made of, and how many are in Git: `minReplicas` (with `maxReplicas`, where
    nothing scales it), or `replicas` since v1.0, where both bounds are that number. `serving` is the name of the
    ModelInfer or ModelServing made from it. A policy is its own or, by name, another resource.
    """

    name: str
    type: str
    serving: str
    workload: Workload
    min_replicas: int
    max_replicas: int
    place: Place
    cost: int = 0
    route_weight: int = 100
    scale_to_zero_grace_s: float | None = None
    workers: tuple[Worker, ...] = ()
    lora_adapters: tuple[str, ...] = ()
    """The names under which it serves adapters besides its model."""
    policy: PolicySpec | None = None
    policy_ref: str = ""
    policy_ref_place: Place | None = None

    @property
    def has_policy(self) -> bool:
        """Whether it is scaled by a policy of its own."""
        return self.policy is not None or bool(self.policy_ref)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelResource(Declared):
    """A Model or ModelBooster: backends that serve `model_id`, scaled together, one by one, or not at all."""

    generation: Generation
    label_prefix: str
    model_id: str
    backends: tuple[ModelBackend, ...]
    matched_name: str | None = None
    """The exact name that requests for it bear, where its match says one."""
    policy: PolicySpec | None = None
    policy_ref: str = ""
    cost_expansion_percent: int = DEFAULT_COST_EXPANSION_PERCENT
    settings: Mapping[str, Annotation] = field(default_factory=dict)

    @property
    def has_policy(self) -> bool:
        """Whether all its backends are scaled as one."""
        return self.policy is not None or bool(self.policy_ref)

    @property
    def served_names(self) -> tuple[str, ...]:
        """Under which names requests ask for it: its own, the one it is matched by, and those of its adapters."""
        matched = () if self.matched_name is None else (self.matched_name,)
        loras = (name for backend in self.backends for name in backend.lora_adapters)
        named = (name for backend in self.backends for name in backend.workload.served_names)
        return tuple(dict.fromkeys((self.model_id, *matched, *named, *loras)))

    def share_of(self, backend: ModelBackend) -> float | None:
        """The fraction of its requests that its route sends to one of its backends; None where there is but one.

        Weights that are all 0 route nothing, which nobody can mean: then all backends count alike.
        """
        if len(self.backends) < 2:
            return None
        total = sum(each.route_weight for each in self.backends)
        return backend.route_weight / total if total else 1 / len(self.backends)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingRole:
    """A role of a serving group: one replica of `workload` is an entry pod with its workers.

    Each group has `workload.replicas` of it.
    """

    name: str
    workload: Workload
    worker_replicas: int = 0

    @property
    def replicas(self) -> int:
        """How many replicas of the role each group has; 1 where none are written."""
        return 1 if self.workload.replicas is None else self.workload.replicas


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingResource:
    """A ModelServing or ModelInfer: `workload.replicas` groups, each with all `roles`."""

    workload: Workload
    roles: tuple[ServingRole, ...]
    label_prefix: str

    @property
    def key(self) -> ResourceKey:
        """What names it in its cluster."""
        return self.workload.key

    @property
    def place(self) -> Place:
        """Its first line."""
        return self.workload.place

    def role(self, name: str) -> ServingRole | None:
        """The role of that name."""
        return next((role for role in self.roles if role.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class KthenaResources:
    """All that a commit declares of Kthena, in every cluster."""

    policies: tuple[PolicyResource, ...] = ()
    bindings: tuple[BindingResource, ...] = ()
    models: tuple[ModelResource, ...] = ()
    servings: tuple[ServingResource, ...] = ()

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """Whatever has replicas of its own: groups, their roles, backends."""
        groups = [serving.workload for serving in self.servings]
        roles = [role.workload for serving in self.servings for role in serving.roles]
        return (*groups, *roles, *(backend.workload for model in self.models for backend in model.backends))
