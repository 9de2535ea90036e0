"""What the repository declares, resource by resource, before anything is joined."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from reconciler.domain.declared.conditions import Condition
from reconciler.domain.declared.inference import Inference
from reconciler.domain.declared.kthena import KthenaResources
from reconciler.domain.declared.launch import LaunchSettings
from reconciler.domain.declared.llmaz import FlavorChoice, Llmaz
from reconciler.domain.declared.moves import EntryPlace, FieldPath, PodPlace
from reconciler.domain.declared.saturation_settings import SaturationEntry, ZeroEntry
from reconciler.domain.findings import Finding
from reconciler.domain.identity import Place, ResourceKey
from reconciler.domain.profiles import PerformanceProfile
from reconciler.domain.service_classes import ServiceClass


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentRef:
    """One object inside a file: the document's position, and the field path to it inside a `List`."""

    path: str
    document: int
    prefix: tuple[str | int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaField:
    """Where a number of replicas is written: a field of an object, and its place for people.

    A ceiling is only ever raised. `written` is what stands there, None when nothing does; `value` is what then counts,
    None for no limit. With `embedding`, the field of the document that holds a text, `field` leads on inside the text,
    in its document number `inner_document`. `entry` is the object's name in a kustomization that is to get an entry
    under `replicas`.
    """

    document: DocumentRef
    field: tuple[str | int, ...]
    place: Place
    is_ceiling: bool = False
    written: int | None = None
    value: int | None = None
    embedding: tuple[str | int, ...] | None = None
    inner_document: int = 0
    entry: str = ""

    def takes(self, replicas: int) -> bool:
        """Whether that number is written here; a ceiling takes only what would pass it."""
        return not self.is_ceiling or (self.value is not None and replicas > self.value)


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
class Annotation:
    """One of our annotations, checked; `value` is already of the setting's type."""

    value: str | int | float | bool
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantResource:
    """A VariantAutoscaling as written, or what else declares a variant (see `Form`).

    `target_kind`/`target_name` are of the scale target (the Deployment of the same name in the profile and name
    forms); `target` names it where it is in another namespace, or a part of an object. `tracked_by` is the policy
    whose metric targets ask for its replicas. `variant_cost` is relative and None when not written. `served_names` are
    those under which its requests may be counted, as far as the resource says. `share` is the fraction of its model's
    requests that are routed to it, None where nothing fixes that. `unsupported` says in words why this resource cannot
    be decided yet although it is valid.
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
    unsupported: str = ""
    flavors: FlavorChoice | None = None
    is_shared: bool = False
    """Whether its manifest is built into several objects: nothing may be written there."""
    labels_at: EntryPlace | None = None
    """Where its labels are written, when not in its own manifest alone."""

    @property
    def scale_target(self) -> ResourceKey:
        """The object, or the part of one, whose replicas are set."""
        near = self.key
        own = ResourceKey(cluster=near.cluster, namespace=near.namespace, kind=self.target_kind, name=self.target_name)
        return self.target or own


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A scale target as written: a Deployment, a StatefulSet, or a LeaderWorkerSet, whose replicas are groups of pods.

    `replicas` None is not written. `node_selector` and `affinity` (key -> allowed values, required terms only)
    are the pod template's; of a group what its templates agree on. `devices` counts each vendor resource one replica
    asks for, over its pods and their containers; `device_resources` are those of the only container that asks, of the
    only pod. `pods` are the templates with devices, else the first; `moves` tells of the mappings below them (and of
    the labels, or the flavors) that are not written in its own manifest alone.
    `engine` is `vllm`, `sglang`, `tgi`, `trtllm`, `triton` or empty when it is none of these; `launch` says how it is
    started, None when that is not read of this engine. `templated` names a field whose place holds `${}` or `{{ }}`
    text. `replica_fields` are where its replicas are written when that is not its own `spec.replicas`: all get the
    number, and `considered` is the chain of places it was chosen from, in words. `unwritable` says in words why no
    number may be written, `immovable` why no other accelerator. `becomes` is the object that a controller makes of it,
    after which its pods are named.
    """

    key: ResourceKey
    document: DocumentRef
    place: Place
    replicas: int | None
    replicas_place: Place | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    devices: Mapping[str, int] = field(default_factory=dict)
    device_resources: FieldPath | None = None
    pods: tuple[PodPlace, ...] = ()
    moves: Mapping[FieldPath, EntryPlace] = field(default_factory=dict)
    served_names: tuple[str, ...] = ()
    engine: str = ""
    launch: LaunchSettings | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    template_labels: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Annotation] = field(default_factory=dict)
    places: Mapping[str, Place] = field(default_factory=dict)
    templated: str = ""
    replica_fields: tuple[ReplicaField, ...] = ()
    considered: tuple[str, ...] = ()
    unwritable: str = ""
    immovable: str = ""
    becomes: ResourceKey | None = None
    bounds_of: str = ""
    """The autoscaler whose lower bound `replicas` is; empty where they are a count of their own."""

    @property
    def written_at(self) -> tuple[ReplicaField, ...]:
        """Every field that says how many replicas run."""
        own = ReplicaField(document=self.document, field=("spec", "replicas"), place=self.replicas_place or self.place)
        return self.replica_fields or (own,)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaOwner:
    """Something else that sets a workload's replicas: an HPA, a ScaledObject, a kustomization.

    `namespace` empty: in any namespace of its cluster (a kustomization does not say). `fields` are the bounds of an
    autoscaler, the smaller first, and `least` its smaller one.
    """

    cluster: str
    namespace: str
    owner: str
    target_kind: str
    target_name: str
    place: Place
    least: int | None = None
    fields: tuple[ReplicaField, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedClass:
    """A service class as one ConfigMap key lists it for one model."""

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
    excluded_namespaces: frozenset[tuple[str, str]] = frozenset()
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
