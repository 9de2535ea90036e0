"""Snapshot: the typed, immutable input of decide, and its variants: resources joined with everything about them."""

from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import StrEnum

from reconciler.domain.answers import NoAnswer
from reconciler.domain.canaries import CanaryOrder, Copy, Measured
from reconciler.domain.holds import BrokenResource, Hold, HoldKind
from reconciler.domain.identity import Finding, ModelKey, Place, ResourceKey, Sourced, SourceKind
from reconciler.domain.inventory import Allocation, Catalog, Inventory
from reconciler.domain.metric_targets import TrackedHistory, TrackedTarget
from reconciler.domain.observed import Observed
from reconciler.domain.profiles import PerformanceProfile, ServiceClass
from reconciler.domain.proposals import Proposal
from reconciler.domain.recording import PaidPrices, WrittenCounts
from reconciler.domain.records import dataclass
from reconciler.domain.scalers import ScalerHistory, TunedScaler
from reconciler.domain.settings import SaturationRules, Settings, ZeroRules
from reconciler.domain.shards import Share
from reconciler.domain.variant_settings import VariantSettings
from reconciler.domain.workloads import ReplicaOwner, Workload
from reconciler.domain.written import DeliveryPlace, DocumentRef, EntryPlace


class Form(StrEnum):
    """The three shapes of a VariantAutoscaling, distinguished by their fields; and what else declares a variant.

    ANNOTATED is a HorizontalPodAutoscaler or ScaledObject with upstream's annotations, TRACKED a workload that a policy
    with metric targets scales, BACKEND one of Kthena's backends without a policy, FLAVORS what serves an OpenModel,
    ADOPTED a serving workload that the team wants managed as it is.
    """

    PROFILE = "profile"
    TARGET = "target"
    NAME = "name"
    ANNOTATED = "annotated"
    TRACKED = "tracked"
    BACKEND = "backend"
    FLAVORS = "flavors"
    ADOPTED = "adopted"


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
class Condition:
    """A Kubernetes condition as written in Git."""

    type: str
    status: str
    reason: str
    message: str
    last_transition_time: str
    observed_generation: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A profile that may be chosen for a variant, with what one replica of it costs and takes.

    `flavors` are the values that llmaz needs for it. `unwritable` says why Git could not be edited to it.
    """

    profile: PerformanceProfile
    accelerator: str
    accelerators_per_replica: int
    devices_per_replica: int
    resource: str
    cost_per_hour: float | None
    cost_place: Place | None
    flavors: tuple[str, ...] = ()
    unwritable: Hold | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """The replicas serving one model on one accelerator in one configuration, ready to be decided.

    `holds` say why it must stay as it is, the most telling first: who owns its replicas, what is missing or unreadable.
    `service_class` None means that no class is asked for, unless a hold says that the one asked for is missing.
    """

    key: ResourceKey
    model: ModelKey
    form: Form
    status_shape: StatusShape
    document: DocumentRef
    place: Place
    workload: Workload | None
    current: Allocation
    accelerator_source: str
    settings: VariantSettings
    service_class: Sourced[ServiceClass] | None
    options: tuple[Option, ...]
    served_names: tuple[str, ...]
    relative_cost: float | None
    current_cost_per_hour: float | None
    share: float | None = None
    """Which fraction of its model's requests is routed to it, where routes fix that: its demand is its own then."""
    conditions: tuple[Condition, ...] = ()
    is_shared: bool = False
    """Whether its manifest is built into several objects: no status may be written there."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Those of the resource, as they are built."""
    labels_at: EntryPlace | None = None
    """Where its labels are written, when not in its own manifest alone."""
    delivery: DeliveryPlace | None = None
    """How its status can reach the cluster; None where that is not configured."""
    priority: Sourced[int] | None = None
    """How important its pools' objectives make it: above 0 before others, below 0 after them; None without a target."""
    is_pooled: bool = False
    """Whether an InferencePool selects its pods: requests then go where there is room, however variants differ."""
    flavors_field: tuple[str, ...] = ()
    """Where llmaz reads the order of flavors in; empty where there are none."""
    is_autoscaled: bool = False
    """Whether its numbers in Git are the bounds of an autoscaler, which moves the replicas between them."""
    tuned: TunedScaler | None = None
    """The autoscaler whose settings are proposed too, where that is wanted."""
    tracked_by: ResourceKey | None = None
    """The policy (or binding) whose metric targets ask for its replicas."""
    holds: tuple[Hold, ...] = ()
    copied: Copy | None = None
    """Of a canary that is not in Git yet."""

    @property
    def hold(self) -> Hold | None:
        """The most telling of its holds; None where it may change."""
        return self.holds[0] if self.holds else None

    @property
    def current_option(self) -> Option | None:
        """What is known of the accelerator that it is on; None without a profile for that."""
        return next((each for each in self.options if each.accelerator == self.current.accelerator), None)

    @property
    def is_counted(self) -> bool:
        """Whether Git says how many replicas run; zero and unknown are different."""
        return self.workload is not None and self.workload.replicas is not None

    def cost_of(self, allocation: Allocation) -> float | None:
        """The cost of an allocation per hour; None without a price, or where Git does not say how many replicas run."""
        if not self.is_counted:
            return None
        if not allocation.replicas:
            return 0.0
        price = self.current_cost_per_hour
        if allocation.accelerator != self.current.accelerator:
            prices = (each.cost_per_hour for each in self.options if each.accelerator == allocation.accelerator)
            price = next(prices, None)
        return None if price is None else price * allocation.replicas

    def is_held_by(self, kind: HoldKind) -> bool:
        """Whether a hold of this kind is among its holds."""
        return any(hold.kind is kind for hold in self.holds)


def priority_of(variant: Variant) -> int:
    """What its pools' objectives say; where none does its service class."""
    if variant.priority is not None and variant.priority.source.kind is not SourceKind.BUILT_IN:
        return variant.priority.value
    return 0 if variant.service_class is None else variant.service_class.value.priority


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmanagedWorkload:
    """A workload that serves a model and of which nothing says that it is to be managed; and who sets its replicas.

    `obstacle` says why it could not be managed: its name is declared in several places.
    """

    workload: Workload
    owner: ReplicaOwner | None = None
    obstacle: str = ""

    @property
    def key(self) -> ResourceKey:
        """What names it."""
        return self.workload.key


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything known at `now_s` (Unix seconds), each absence with its reason.

    `committed_s` is when `commit` was made, None where it was not recorded.
    """

    now_s: float
    repository: str
    branch: str
    commit: str
    fingerprint: str
    settings: Settings
    variants: tuple[Variant, ...]
    broken: tuple[BrokenResource, ...] = ()
    observed: Observed = field(default_factory=Observed)
    saturation: Mapping[ModelKey, SaturationRules] = field(default_factory=dict)
    """What upstream's ConfigMaps say of a model's saturation, where they say anything."""
    zero: Mapping[ModelKey, ZeroRules] = field(default_factory=dict)
    """What upstream's ConfigMap says of scaling a model to zero, where it says anything."""
    scaled: Mapping[ResourceKey, ScalerHistory | NoAnswer] = field(default_factory=dict)
    """What autoscalers that are tuned did, those that this run asked about, by the variants that they scale."""
    tracked: tuple[TrackedTarget, ...] = ()
    """What policies with metric targets scale."""
    histories: Mapping[ResourceKey, TrackedHistory] = field(default_factory=dict)
    """What was seen of each tracked target, by its key."""
    committed_s: float | None = None
    catalogs: Mapping[str, Catalog] = field(default_factory=dict)
    inventory: Inventory = field(default_factory=Inventory)
    """How many devices there are of each type in each cluster, and who holds them."""
    proposals: tuple[Proposal, ...] = ()
    tried: Mapping[ResourceKey, Measured] = field(default_factory=dict)
    """What canaries have measured, where anything is believed of their accelerators."""
    canaries: Mapping[ResourceKey, CanaryOrder] = field(default_factory=dict)
    """The canaries that are started or taken back now."""
    measured: "Snapshot | None" = None
    """Whose merges say how long changes take, where it is not this one: a replay decides as its recording measured."""
    written: Mapping[ResourceKey, WrittenCounts] = field(default_factory=dict)
    """What Git said of variants before, where a rule asks for it and it is known."""
    paid: Mapping[ResourceKey, PaidPrices] = field(default_factory=dict)
    """What replicas of variants cost before, where a rule asks for it."""
    moved: frozenset[ResourceKey] | None = None
    """As in `Recording`."""
    unmanaged: tuple[UnmanagedWorkload, ...] = ()
    """By key."""
    findings: tuple[Finding, ...] = ()
    share: Share | None = None
    """What one of several shards decides: `variants` and `broken` are its own, `proposals` all. None: no other."""

    @property
    def own_proposals(self) -> tuple[Proposal, ...]:
        """The pull requests that no other shard looks after."""
        share = self.share
        return self.proposals if share is None else tuple(each for each in self.proposals if share.owns(each))

    @property
    def tuned(self) -> dict[ResourceKey, TunedScaler]:
        """The autoscalers that are tuned, by the variants that they scale."""
        return tuned_of(self.variants)


def tuned_of(variants: Iterable[Variant]) -> dict[ResourceKey, TunedScaler]:
    """The autoscalers of variants that are tuned, by variant."""
    return {each.key: each.tuned for each in variants if each.tuned is not None}
