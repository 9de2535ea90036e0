"""What the repository declares, resource by resource, before anything is joined."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from reconciler.domain.declared.inference import Inference
from reconciler.domain.declared.kthena import KthenaResources
from reconciler.domain.declared.llmaz import FlavorChoice, Llmaz
from reconciler.domain.declared.places import Annotation, Condition, DeliveryPlace, DocumentRef, EntryPlace
from reconciler.domain.declared.saturation_settings import SaturationEntry, ZeroEntry
from reconciler.domain.declared.workloads import ReplicaOwner, Workload
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import Finding, Place, ResourceKey
from reconciler.domain.profiles import PerformanceProfile
from reconciler.domain.service_classes import ServiceClass


class Form(StrEnum):
    """The three shapes of a VariantAutoscaling, told apart by their fields; and what else declares a variant.

    ANNOTATED is a HorizontalPodAutoscaler or ScaledObject with upstream's annotations, TRACKED a workload that a policy
    with metric targets scales, BACKEND one of Kthena's backends without a policy, FLAVORS what serves an OpenModel.
    """

    PROFILE = "profile"
    TARGET = "target"
    NAME = "name"
    ANNOTATED = "annotated"
    TRACKED = "tracked"
    BACKEND = "backend"
    FLAVORS = "flavors"


class StatusShape(StrEnum):
    """Which status a VariantAutoscaling's own version has.

    FULL: currentAlloc with waitAverage, desiredOptimizedAlloc, actuation. TTFT: the same with ttftAverage and
    conditions. TARGET: desiredOptimizedAlloc, actuation, conditions. NONE: a status that is not ours to write.
    """

    FULL = "full"
    TTFT = "ttft"
    TARGET = "target"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class SloClassRef:
    """`sloClassRef`: a ConfigMap and a key in it, in the resource's namespace."""

    name: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantResource:
    """A VariantAutoscaling as written, or what else declares a variant (see `Form`).

    `target_kind`/`target_name` are of the scale target (the Deployment of the same name in the profile and name
    forms); `target` names it where it is in another namespace, or a part of an object. `tracked_by` is the policy
    whose metric targets ask for its replicas. `variant_cost` is relative and None when not written. `served_names` are
    those under which its requests may be counted, as far as the resource says. `share` is the fraction of its model's
    requests that are routed to it, None where nothing fixes that. `unsupported` says why this resource cannot be
    decided yet although it is valid.
    """

    key: ResourceKey
    document: DocumentRef
    place: Place
    form: Form
    status_shape: StatusShape
    model_id: str
    target_kind: str
    target_name: str
    target: ResourceKey | None = None
    tracked_by: ResourceKey | None = None
    slo_class_ref: SloClassRef | None = None
    profiles: tuple[PerformanceProfile, ...] = ()
    variant_cost: float | None = None
    served_names: tuple[str, ...] = ()
    share: float | None = None
    min_replicas: int | None = None
    max_replicas: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Annotation] = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()
    places: Mapping[str, Place] = field(default_factory=dict)
    """Field path (`spec.minReplicas`) -> place, of the fields that explain cites."""
    unsupported: Hold | None = None
    flavors: FlavorChoice | None = None
    is_shared: bool = False
    """Whether its manifest is built into several objects: nothing may be written there."""
    labels_at: EntryPlace | None = None
    """Where its labels are written, when not in its own manifest alone."""
    delivery: DeliveryPlace | None = None
    """How its status can reach the cluster; None where nobody asks for that."""

    @property
    def scale_target(self) -> ResourceKey:
        """The object, or the part of one, whose replicas are set."""
        near = self.key
        own = ResourceKey(cluster=near.cluster, namespace=near.namespace, kind=self.target_kind, name=self.target_name)
        return self.target or own


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedClass:
    """A service class as one ConfigMap key lists it for one model; `model_id` is empty where it lists none."""

    namespace: str
    config_map: str
    key: str
    model_id: str
    service_class: ServiceClass


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedCost:
    """An entry of `accelerator-unit-costs`: cost of one accelerator, and the node label value that means it."""

    accelerator: str
    cost_per_hour: float
    device_label: str
    place: Place
    namespace: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnoredNamespace:
    """A Namespace annotated `reconciler.io/ignore: "true"`."""

    cluster: str
    name: str
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenResource:
    """A resource that cannot be used, and why: shown as held, its scale target counted as it stands."""

    key: ResourceKey
    place: Place
    reason: str

    @property
    def hold(self) -> Hold:
        """Why nothing can be decided about it."""
        return Hold(kind=HoldKind.RESOURCE_UNREADABLE, words=self.reason, place=self.place)


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """All that one commit declares, in every cluster, with what must be fixed."""

    variants: tuple[VariantResource, ...] = ()
    workloads: tuple[Workload, ...] = ()
    owners: tuple[ReplicaOwner, ...] = ()
    classes: Mapping[str, tuple[ListedClass, ...]] = field(default_factory=dict)
    """By cluster."""
    costs: Mapping[str, tuple[ListedCost, ...]] = field(default_factory=dict)
    """By cluster."""
    saturation: Mapping[str, tuple[SaturationEntry, ...]] = field(default_factory=dict)
    """By cluster."""
    zero: Mapping[str, tuple[ZeroEntry, ...]] = field(default_factory=dict)
    """By cluster."""
    opted_in_namespaces: frozenset[tuple[str, str]] = frozenset()
    """Cluster and name of each Namespace whose own ConfigMaps hold for it instead of the global ones."""
    """Cluster and name of each Namespace that upstream leaves alone; it means nothing to us."""
    ignored_namespaces: tuple[IgnoredNamespace, ...] = ()
    llmaz: Llmaz = field(default_factory=Llmaz)
    inference: Inference = field(default_factory=Inference)
    kthena: KthenaResources = field(default_factory=KthenaResources)
    broken: tuple[BrokenResource, ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[Finding, ...] = ()
    """What is worth telling whoever looks at the files, and no matter for a plan."""
    shared_paths: frozenset[str] = frozenset()
    """Files that two clusters reach: read, never edited."""
    files: int = 0
