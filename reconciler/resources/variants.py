"""What declares a variant, with all that concerns it, and what is listed for variants: classes, costs, namespaces."""

from collections.abc import Mapping
from dataclasses import field

from reconciler.domain.holds import Hold
from reconciler.domain.identity import Place, ResourceKey
from reconciler.domain.profiles import PerformanceProfile, ServiceClass
from reconciler.domain.records import dataclass
from reconciler.domain.snapshot import Condition, Form, StatusShape
from reconciler.domain.workloads import Annotation
from reconciler.domain.written import DeliveryPlace, DocumentRef, EntryPlace
from reconciler.resources.validation import NonEmpty, Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Flavor:
    """Accelerators that a replica may run on; `devices` counts them by resource."""

    name: str
    devices: Mapping[str, int] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, str] = field(default_factory=dict)
    place: Place

    @property
    def instance_type(self) -> str:
        """The machine it is on, as `INSTANCE-TYPE` says it in either case; empty when it does not."""
        return next((value for key, value in self.params.items() if key.lower() == "instance-type"), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedFlavor:
    """A flavor that a replica may run on, the preferred one at rank 0; `flavor` is None when the model lacks it."""

    name: str
    rank: int
    flavor: Flavor | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorChoice:
    """The flavors that `pods` pods of a replica may run on, and the field that says in which order.

    `offered` are all of the model, also those that the claim does not name. `is_placed` says whether the pods run where
    a flavor's node selector wants them: None when nothing in Git tells the scheduler.
    """

    ranked: tuple[RankedFlavor, ...]
    field: tuple[str, ...]
    pods: int
    is_placed: bool | None
    offered: tuple[Flavor, ...] = ()


class SloClassRef(Shape):
    """`sloClassRef`: a ConfigMap and a key in it, in the resource's namespace."""

    name: NonEmpty
    key: NonEmpty


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
    """How its status can reach the cluster; None unless statuses are delivered."""

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
class UpstreamNamespace:
    """A Namespace labelled `wva.llmd.ai/config-enabled`: its own ConfigMaps hold instead of the global ones."""

    cluster: str
    name: str
    place: Place
