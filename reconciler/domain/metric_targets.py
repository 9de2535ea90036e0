"""Metric targets: what a policy wants every replica to see, of which workloads, where to read it, and what was read."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import TypeAlias

from reconciler.domain.identity import ResourceKey
from reconciler.domain.records import dataclass

SYNC_PERIOD_S = 15.0
"""How often upstream's controller runs, unless its flag says otherwise."""
LONGEST_WINDOW_S = 1_800.0
"""The longest window, hold or grace period that upstream's webhook allows."""

DEFAULT_PORT = 8100
DEFAULT_URI = "/metrics"
"""Where upstream scrapes pods unless a policy says otherwise."""

Series: TypeAlias = tuple[float, ...]
"""One number for each tick, NaN where unknown."""


class Select(StrEnum):
    """Which of a rate's two limits counts: the looser (`Or`), the tighter (`And`), or neither (any other spelling)."""

    OR = "Or"
    AND = "And"
    NEITHER = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """How far a count may move within `period_s`, and for how long earlier recommendations hold it back.

    `percent` is a whole number, 100 for all: upstream truncates in integers, where a fraction would round otherwise.
    A length of 0 s switches that window off.
    """

    instances: int
    percent: int
    period_s: float
    stabilization_s: float
    select: Select = Select.OR


@dataclass(frozen=True, slots=True, kw_only=True)
class Panic:
    """When growth turns urgent: recommended at least `threshold_percent` of current; it lasts `hold_s` (0: never).

    `threshold_percent` None skips the test.
    """

    percent: int
    period_s: float
    threshold_percent: int | None
    hold_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Behavior:
    """How a recommended count is limited before it is set: the rates of growth, of panic and of shrinking."""

    down: Rate
    up: Rate
    panic: Panic

    @property
    def longest_window_s(self) -> float:
        """The length of the longest of the five windows."""
        down, up = self.down, self.up
        return max(down.period_s, down.stabilization_s, up.period_s, up.stabilization_s, self.panic.period_s)

    @property
    def warm_up_s(self) -> float:
        """How much history a replay needs to forget its start: twice the longest window and the panic hold."""
        return 2 * (self.longest_window_s + self.panic.hold_s)


DEFAULT_BEHAVIOR = Behavior(
    down=Rate(instances=0, percent=100, period_s=60.0, stabilization_s=300.0),
    up=Rate(instances=4, percent=100, period_s=60.0, stabilization_s=0.0),
    panic=Panic(percent=0, period_s=0.0, threshold_percent=200, hold_s=0.0),
)
"""What upstream's webhook fills in where a policy says nothing about behavior: panic is off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricTarget:
    """The amount of a metric that one replica should see, in the metric's own unit."""

    name: str
    per_replica: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Metric targets with the band around them in which nothing moves (whole percent, upstream's default 10)."""

    metrics: tuple[MetricTarget, ...]
    tolerance_percent: int = 10
    behavior: Behavior = DEFAULT_BEHAVIOR

    @property
    def tolerance(self) -> float:
        """The band as a fraction, as upstream computes it: at 10 % a ratio of 0.9 holds and 1.1 moves."""
        return self.tolerance_percent * 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """One workload whose replicas are set. `cost` of one replica ranks the backends of a group.

    `scale_to_zero_grace_s` None reaches zero as soon as windows and rates allow.
    """

    name: str
    min_replicas: int
    max_replicas: int
    cost: int = 0
    scale_to_zero_grace_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioRange:
    """Which ratios of numerator to denominator are wanted, both ends included."""

    minimum: float
    maximum: float


class Generation(StrEnum):
    """Which form of upstream's resource a policy is written in: its controllers decide differently."""

    G1 = "G1"
    G2 = "G2"
    G3 = "G3"
    G4 = "G4"


class LabelOperator(StrEnum):
    """What a requirement asks of one label."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelRequirement:
    """One element of `matchExpressions`; `values` are for In and NotIn."""

    key: str
    operator: LabelOperator
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether what has these labels meets it."""
        if self.operator is LabelOperator.IN:
            return labels.get(self.key) in self.values
        if self.operator is LabelOperator.NOT_IN:
            return labels.get(self.key) not in self.values
        return (self.key in labels) == (self.operator is LabelOperator.EXISTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSelector:
    """Which pods are selected: those that meet all requirements, or every pod without any."""

    match_labels: Mapping[str, str] = field(default_factory=dict)
    match_expressions: tuple[LabelRequirement, ...] = ()

    @property
    def requirements(self) -> tuple[LabelRequirement, ...]:
        """Labels and expressions alike."""
        labels = sorted(self.match_labels.items())
        equal = (LabelRequirement(key=key, operator=LabelOperator.IN, values=(value,)) for key, value in labels)
        return (*equal, *self.match_expressions)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether it picks what has these labels; as in Kubernetes, NotIn holds for what has no such label."""
        return all(each.holds(labels) for each in self.requirements)


EVERY_POD = LabelSelector()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodMetric:
    """A metric that pods export under `name`, of those pods of the workload that `selector` picks.

    `port` and `uri` are where upstream scrapes it: a pod may export one name at several. None is not written: the
    usual one where there are several.
    """

    name: str
    selector: LabelSelector = EVERY_POD
    port: int | None = None
    uri: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusMetric:
    """A total over the workload that the policy's own PromQL answers; `server_url` is where upstream would ask."""

    query: str
    server_url: str


MetricSource: TypeAlias = PodMetric | PrometheusMetric


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedBackend:
    """A workload that a policy scales, and how its pods and metrics are found.

    `scale_target` is what the answer is about; its `part` is the role, when one role is scaled. `pod_labels` are on
    every pod that counts. `sources` are by metric of the policy; one that is not there is read from pods under its own
    name. `replicas` are those in Git, None when not written. Where no series has the replicas, pods are counted, of
    which each replica has `pods_per_replica`. With `counts_at_minimum` its count is written where its minimum stands:
    a person's number there is a bound, ours is none.
    """

    backend: Backend
    scale_target: ResourceKey
    pod_labels: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, MetricSource] = field(default_factory=dict)
    replicas: int | None = None
    pods_per_replica: int = 1
    counts_at_minimum: bool = False

    def source_of(self, metric: str) -> MetricSource:
        """Where a metric of the policy is read."""
        return self.sources.get(metric) or PodMetric(name=metric)


@dataclass(frozen=True, slots=True, kw_only=True)
class RolePairing:
    """Two targets, by key, that are roles of one model and move together; `ratio` None sets no limits to how."""

    numerator: ResourceKey
    denominator: ResourceKey
    ratio: RatioRange | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedTarget:
    """What one policy scales as one: a workload, a group of workloads that serve one load, or a role.

    `key` is the policy's or binding's, with the role as its `part`; both roles of a `pairing` carry it. All backends
    together have at least `least_replicas`, for upstream refuses fewer.
    """

    key: ResourceKey
    policy: Policy
    backends: tuple[TrackedBackend, ...]
    generation: Generation
    cost_expansion_percent: int = 200
    pairing: RolePairing | None = None
    least_replicas: int = 0

    @property
    def grace_s(self) -> float:
        """How long nothing may have arrived before the last replica goes: the longest wish of any backend."""
        return max((each.backend.scale_to_zero_grace_s or 0.0 for each in self.backends), default=0.0)

    @property
    def history_s(self) -> float:
        """How much history decides: the warm-up and the grace period, as far as any policy can be valid."""
        return _up_to(4 * LONGEST_WINDOW_S, self.policy.behavior.warm_up_s) + _up_to(LONGEST_WINDOW_S, self.grace_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTotals:
    """A metric over the ready pods of a backend, tick by tick.

    `total` is the sum over those `reporting` (NaN without any); `missing` ready pods did not report.
    """

    total: Series
    reporting: Series
    missing: Series


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendHistory:
    """What was seen of a backend: replicas set at the time, pods `unready`, and its metrics by name.

    `pods` are the values as exported; `rates` are, of those that only ever grow, the increase a second. `external`
    are totals from queries of the policy itself.
    """

    replicas: Series
    unready: Series
    pods: Mapping[str, PodTotals] = field(default_factory=dict)
    rates: Mapping[str, PodTotals] = field(default_factory=dict)
    external: Mapping[str, Series] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedHistory:
    """What was seen of a target: element i of every series was true at `start_s + i * step_s`.

    `activity` is what finished in a second and what is under way, together: only whether it is zero means something;
    None where no engine of these pods exports it. `label_sets` says of a metric how many label sets a pod has at most,
    where it has several. `queries` are the quantities asked, by metric. `reasons` say what is missing and why,
    `notes` what else a reader should know.
    """

    start_s: float
    step_s: float
    backends: tuple[BackendHistory, ...]
    activity: Series | None = None
    label_sets: Mapping[str, int] = field(default_factory=dict)
    queries: Mapping[str, str] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def _up_to(most_s: float, length_s: float) -> float:
    return min(length_s, most_s) if length_s >= 0 else 0.0  # NaN is not
