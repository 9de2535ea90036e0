"""Autoscalers as Git declares them and as numbers: what they scale by, where each target is written, how they follow.

A `Value` is one number, or an array where a simulation tries many settings at once.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from reconciler.domain.holds import Hold
from reconciler.domain.identity import Place, ResourceKey
from reconciler.domain.metric_targets import Behavior as PolicyBehavior
from reconciler.domain.metric_targets import Policy
from reconciler.domain.records import dataclass
from reconciler.domain.units import seconds_from_duration
from reconciler.domain.written import DocumentRef, FieldPath, WrittenField

if TYPE_CHECKING:
    from reconciler.domain.history import Floats

    Value: TypeAlias = float | Floats
else:  # commands that read no metrics start without numpy
    Value = float


class MetricSource(StrEnum):
    """Where an autoscaler takes a metric from; QUERY is PromQL of its own, RESOURCE what containers use."""

    PODS = "Pods"
    OBJECT = "Object"
    EXTERNAL = "External"
    QUERY = "query"
    RESOURCE = "Resource"
    OTHER = "other"


class Signal(StrEnum):
    """What a metric counts, as far as its query tells."""

    ARRIVALS = "arrival rate"
    RUNNING = "running requests"
    WAITING = "waiting requests"
    IN_FLIGHT = "running and waiting requests"
    KV_CACHE = "KV cache usage"
    OTHER = "other"

    @property
    def saturates(self) -> bool:
        """Whether it stops growing with the load once replicas are full."""
        return self in (Signal.RUNNING, Signal.KV_CACHE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalerMetric:
    """One metric of an autoscaler; `target` is what a replica gets of it where `is_per_replica`, else of all together.

    `selector` has the labels that its series are chosen by; `object_kind` and `object_name` are those of the object
    that it describes. `text` is the target as it is written at `written`, None where it cannot be edited there;
    `is_whole`: what is not a whole number is rounded up.
    """

    source: MetricSource
    name: str = ""
    query: str = ""
    selector: Mapping[str, str] = field(default_factory=dict)
    object_kind: str = ""
    object_name: str = ""
    target: float | None = None
    is_per_replica: bool = True
    text: str = ""
    written: WrittenField | None = None
    is_whole: bool = False

    @property
    def label(self) -> str:
        """Its name, or its query."""
        return self.name or self.query or str(self.source)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaler:
    """An autoscaler: `key` is the object that declares it, `hpa_name` the HorizontalPodAutoscaler that acts for it.

    `behavior` is the mapping at `behavior_path` of its manifest, None where nothing is written; with `annotations` it
    is what these say. `policy` is what it does as a whole where it is an AutoscalingPolicy of Kthena, whose replicas
    are the groups of pods. `bounds_only` says why nothing but its bounds is ever proposed, `unwritable` why its
    settings cannot be written.
    """

    key: ResourceKey
    document: DocumentRef
    place: Place
    hpa_name: str
    metrics: tuple[ScalerMetric, ...]
    least: int
    most: int | None
    behavior: Mapping[str, object] | None = None
    behavior_path: FieldPath = ("spec", "behavior")
    annotations: "BehaviorAnnotations | None" = None
    policy: Policy | None = None
    bounds_only: str = ""
    unwritable: Hold | None = None

    @property
    def metric_name(self) -> str:
        """The name of the metric whose target is moved; empty where it has none, as a query."""
        return self.metrics[0].name if self.metrics else ""

    @property
    def setting(self) -> "ScalerSetting":
        """What is written of it, with its bounds as they count."""
        target = self.metrics[0].text if self.metrics else ""
        return ScalerSetting(target=target, behavior=self.behavior, least=self.least, most=self.most)


@dataclass(frozen=True, slots=True, kw_only=True)
class BehaviorAnnotations:
    """The annotations by which a controller writes the way down of its HPA: a window, and a factor a minute.

    At a factor of 2 replicas halve; of what it makes in percent the controller keeps the whole number.
    """

    window: str
    factor: str

    def texts(self, changes: Iterable["SettingChange"], behavior: Mapping[str, object]) -> Iterator[tuple[str, str]]:
        """The annotations that changes of a behavior need, with their new texts; ValueError where they have no word."""
        down = behavior.get("scaleDown")
        for change in changes:
            rules = down if isinstance(down, Mapping) else {}
            if change.field == "behavior.scaleDown.stabilizationWindowSeconds":
                yield self.window, f"{change.after}s"
            elif change.field == "behavior.scaleDown.policies":
                (policy,) = rules["policies"]
                yield self.factor, f"{1 / (1 - (policy['value'] + HALF_PERCENT) / 100):.3f}"
            elif change.field not in (TARGET, MINIMUM, MAXIMUM):
                raise ValueError(f"{change.field} has no annotation")


HALF_PERCENT = 0.5
TARGET, MINIMUM, MAXIMUM = "target", "minimum", "maximum"
"""What the target and the bounds of an autoscaler are called, however its kind names their fields."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalerSetting:
    """What a reviewed change moves of an autoscaler: the target of its metric as written, its behavior, its bounds.

    As text it is JSON with sorted keys: equal settings are equal texts. `most` None is no limit; `least` None: nothing
    is said of its bounds.
    """

    target: str
    behavior: Mapping[str, object] | None = None
    least: int | None = None
    most: int | None = None

    def __str__(self) -> str:
        bounds = {} if self.least is None else {"least": self.least, "most": self.most}
        content = {"behavior": self.behavior, "target": self.target, **bounds}
        return json.dumps(content, sort_keys=True, separators=(",", ":"), default=str)

    @classmethod
    def parse(cls, text: str) -> "ScalerSetting | None":
        """The setting that a text is; None where it is none of ours."""
        try:
            content: object = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(content, dict) or content.keys() - {"least", "most"} != {"behavior", "target"}:
            return None
        target, behavior = content["target"], content["behavior"]
        bounds = content.get("least"), content.get("most")
        if not isinstance(target, str) or not isinstance(behavior, dict | None):
            return None
        if not all(each is None or type(each) is int for each in bounds):
            return None
        return cls(target=target, behavior=behavior, least=bounds[0], most=bounds[1])

    @property
    def highest(self) -> float:
        """The upper bound, infinite without one."""
        return math.inf if self.most is None else self.most

    def fields(self) -> dict[str, str]:
        """Every value by the field that it stands in, such as `behavior.scaleDown.stabilizationWindowSeconds`."""
        bounds = {MINIMUM: self.least, MAXIMUM: self.most}
        told = {name: str(each) for name, each in bounds.items() if each is not None}
        return {TARGET: self.target, **told, **dict(_leaves(self.behavior or {}, "behavior"))}

    def changes(self, after: "ScalerSetting", metric: str = "") -> tuple["SettingChange", ...]:
        """What another setting has otherwise; a field that it only adds was at its default, and may stay there.

        `metric` names the one whose target this is; may be empty.
        """
        before, then = self.fields(), after.fields()
        changes = (
            SettingChange(
                field=name,
                before=before.get(name, ""),
                after=then.get(name, ""),
                displaced=before.get(name) or self.default_of(name),
                becomes=then.get(name) or after.default_of(name),
                metric=metric if name == TARGET else "",
            )
            for name in sorted({*before, *then})
        )
        return tuple(each for each in changes if not each.is_same)

    def default_of(self, name: str) -> str:
        """What holds where a field is not written, in words; empty where that is not known."""
        is_there = isinstance((self.behavior or {}).get("scaleDown"), Mapping)
        return (SCHEMA_DEFAULTS.get(name, "") if is_there else "") or DEFAULTS.get(name, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingChange:
    """One field of an autoscaler's setting; before or after it may be written nowhere (empty).

    `displaced` and `becomes` are what holds: what is written, else the default with whose it is, else empty. `metric`
    names the one whose target it is, where that has a name.
    """

    field: str
    before: str
    after: str
    displaced: str
    becomes: str
    metric: str = ""

    @property
    def name(self) -> str:
        """The field, and the metric whose target it is: `target of vllm_num_requests_running`."""
        return f"{self.field} of {self.metric}" if self.metric else self.field

    @property
    def is_same(self) -> bool:
        """Whether the same holds before and after: a default, or a duration in other words."""
        was, then = (each.partition(" (")[0] for each in (self.displaced, self.becomes))
        if was == then or self.field.rpartition(".")[2] not in DURATIONS:
            return was == then
        before_s, after_s = seconds_from_duration(was), seconds_from_duration(then)
        return before_s is not None and before_s == after_s


DURATIONS = ("period", "stabilizationWindow")
"""The fields of a behavior of Kthena that are durations as Go writes them."""
DEFAULTS: Mapping[str, str] = {
    "behavior.scaleDown.stabilizationWindowSeconds": "300 (the controller's default)",
    "behavior.scaleDown.policies": "Percent 100 in 15 s (the default)",
    "behavior.scaleDown.selectPolicy": "Max (the default)",
    "behavior.scaleDown.tolerance": "0.1 (the controller's default)",
    "behavior.scaleUp.stabilizationWindowSeconds": "0 (the default)",
    "behavior.scaleUp.policies": "Percent 100 in 15 s, Pods 4 in 15 s (the default)",
    "behavior.scaleUp.selectPolicy": "Max (the default)",
    "behavior.scaleUp.tolerance": "0.1 (the controller's default)",
    "behavior.scaleDown.stabilizationWindow": "5m (the default)",
    "behavior.scaleDown.instances": "0 (the default)",
    "behavior.scaleDown.percent": "100 (the default)",
    "behavior.scaleDown.period": "60s (the default)",
}
"""What holds where nothing is written (autoscaling/v2, Kthena's webhook)."""
SCHEMA_DEFAULTS: Mapping[str, str] = {
    "behavior.scaleDown.instances": "1 (the default)",
    "behavior.scaleDown.period": "15s (the default)",
}
"""What Kthena's schema fills in, otherwise than its webhook, where `scaleDown` is there and leaves a field out."""


def _leaves(value: object, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key in value:
            yield from _leaves(value[key], f"{path}.{key}")
    elif isinstance(value, list):
        yield path, ", ".join(_policy(each) for each in value)
    elif value is not None:
        yield path, str(value)


def _policy(value: object) -> str:
    if isinstance(value, Mapping) and {"type", "value", "periodSeconds"} <= value.keys():
        return f"{value['type']} {value['value']} in {value['periodSeconds']} s"
    return str(value)


# ---- the same as numbers

SYNC_S, TOLERANCE = 15.0, 0.1
"""The defaults of the controller of HPAs."""
STABILIZATION_S = 300.0
"""The controller's flag: the scale-down window of an autoscaler that sets none."""


class Controller(StrEnum):
    """Which program acts."""

    HPA = "HorizontalPodAutoscaler"
    SCALED_OBJECT = "ScaledObject"
    POLICY = "AutoscalingPolicy"


class MetricKind(StrEnum):
    """What a metric measures and how its target is written."""

    UTILIZATION = "resource_util_pct"
    RESOURCE = "resource_avg"
    PODS = "pods"
    OBJECT_VALUE = "object_value"
    OBJECT_AVERAGE = "object_avg"
    EXTERNAL_VALUE = "external_value"
    EXTERNAL_AVERAGE = "external_avg"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSetting:
    """One metric: `target` is in its own unit, of one replica unless the kind is a value of all.

    `activation` is KEDA's threshold for leaving zero, in the same unit. `is_whole`: the target is a whole number.
    """

    kind: MetricKind
    signal: Signal
    target: Value
    activation: Value = 0.0
    is_whole: bool = False


class Select(StrEnum):
    """Which of several rate policies counts: the one of the most change, of the least, or none may change anything."""

    MAX = "Max"
    MIN = "Min"
    DISABLED = "Disabled"


@dataclass(frozen=True, slots=True, kw_only=True)
class RatePolicy:
    """So many pods, or percent of those at the beginning of `period_s`, may come or go within it."""

    value: Value
    period_s: float
    is_percent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingRules:
    """One direction of `behavior`."""

    window_s: Value
    policies: tuple[RatePolicy, ...]
    select: Select = Select.MAX


UP = ScalingRules(
    window_s=0.0,
    policies=(
        RatePolicy(value=4.0, period_s=15.0, is_percent=False),
        RatePolicy(value=100.0, period_s=15.0, is_percent=True),
    ),
)
DOWN = ScalingRules(window_s=STABILIZATION_S, policies=(RatePolicy(value=100.0, period_s=15.0, is_percent=True),))
"""What the API server fills in where a `behavior` leaves a direction out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Behavior:
    """How fast and how long after its reason a change comes."""

    up: ScalingRules = UP
    down: ScalingRules = DOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalerSetting:
    """An autoscaler as it is declared, defaults filled in.

    `behavior` None is none written (HPA, ScaledObject); an AutoscalingPolicy has a `PolicyBehavior`, and one metric.
    Tolerances are fractions. `least` 0 and `idle` are of ScaledObjects, as `cooldown_s` is.
    """

    controller: Controller
    metrics: tuple[MetricSetting, ...]
    least: Value = 1.0
    most: Value = math.inf
    behavior: Behavior | PolicyBehavior | None = None
    tolerance_up: Value = TOLERANCE
    tolerance_down: Value = TOLERANCE
    sync_s: float = SYNC_S
    cooldown_s: float = 300.0
    idle: int | None = None

    @property
    def window_s(self) -> Value:
        """For how long a higher recommendation holds back a lower one."""
        match self.behavior:
            case None:
                return STABILIZATION_S
            case PolicyBehavior(down=down):
                return down.stabilization_s
            case Behavior(down=rules):
                return rules.window_s


# ---- what it goes by, and what came of it


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterRule:
    """One of prometheus-adapter's `rules` or `externalRules`, by which a metric of its API becomes PromQL.

    `labels` maps the resources of its `overrides` to the labels that name them, `template` is that of all others.
    """

    cluster: str
    is_external: bool
    series: str
    place: Place
    matches: str = ""
    name_as: str = ""
    query: str = "sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)"
    labels: Mapping[str, str] = field(default_factory=dict)
    template: str = ""
    is_namespaced: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedMetric:
    """A metric as one query, whose only series is the total over all replicas; `source` says where it is from."""

    promql: str
    signal: Signal
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedScaler:
    """An autoscaler that is tuned by reviewed change: with its metric as a query, or why only its bounds are moved.

    `hold` says why neither: what it goes by is not known. Without both its bounds are moved, and `Scaler.bounds_only`
    says why no more.
    """

    scaler: Scaler
    metric: ResolvedMetric | None = None
    hold: Hold | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScalerHistory:
    """What an autoscaler did: from `start_s` (Unix seconds) every `step_s`, arrays of shape (moments,).

    `total` is its metric over all replicas, `desired` the replicas that it asked for and `current` those that it found;
    NaN is not known.
    """

    start_s: float
    step_s: float
    total: "Floats"
    desired: "Floats"
    current: "Floats"


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningEvidence:
    """What a setting would have done on an autoscaler's own history, beside the one that is written.

    `cost_change` is a fraction (-0.18 is a saving of 18 %), attainment a fraction of all requests, starts are replicas
    that started in a day; each before and after. The same of the `left_out` days that the setting was not fitted on.
    Starts and these days are empty in what a pull request's marker keeps. All are sums over `members` autoscalers that
    get one setting. `steps` apply one change after the other, and `tried` are other settings, in words; `limit` says
    why more replicas at most would be needed than are allowed, and `shortage` that all may take more devices than nodes
    offer now; both are empty where that is not so. `day` has what replicas
    were on one day, with the written setting and with this one, hour by hour. `saves_per_hour` is None without a price.
    """

    days: float
    cost_change: float
    attainment: tuple[float, float]
    starts_per_day: tuple[float, ...] = ()
    left_out: int = 0
    left_out_cost_change: float = 0.0
    left_out_attainment: tuple[float, ...] = ()
    saves_per_hour: float | None = None
    members: int = 1
    steps: tuple[str, ...] = ()
    tried: tuple[str, ...] = ()
    limit: str = ""
    shortage: str = ""
    day: tuple[tuple[float, ...], tuple[float, ...]] = ((), ())
    is_repair: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningScore:
    """What the setting that pull request `number` merged came to in whole `days` since, beside the one before it.

    Both are simulated on what arrived then: the cost is a fraction of that before, attainment is before and after.
    `broken` says why it is taken back, empty where it does what it promised.
    """

    number: int
    days: int
    cost_change: float
    attainment: tuple[float, float]
    broken: str = ""
