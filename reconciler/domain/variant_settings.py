"""Variant settings, one definition each: schema, annotations, layers, `explain` and documentation are made from them.

A new setting is one `SettingDefinition` in `SETTING_DEFINITIONS`, and the place where its value is used.
"""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any, Generic, TypeVar, cast

from reconciler.domain.identity import Source, Sourced, SourceKind
from reconciler.domain.records import dataclass
from reconciler.domain.settings import SettingScalar

Value = TypeVar("Value", bound=SettingScalar | None)

AUTO = "auto"
"""The value of `sizing.engine` that leaves the choice to what is known of a model."""
KEEP, CHOOSE, IN_ORDER = "keep", "choose", "in-order"
HOLD, BOUNDS, TUNE = "hold", "bounds", "tune"


class Engine(StrEnum):
    """How a model's need is computed; the reproduction modes give upstream's own answers."""

    QUEUEING = "queueing"
    SATURATION = "saturation"
    TRACKING = "tracking"
    WVA_V1 = "wva-v1"
    WVA_V2 = "wva-v2"
    KTHENA_V0 = "kthena-v0"
    KTHENA_V1 = "kthena-v1"
    CANARY = "canary"
    """Of canaries alone: nobody chooses it."""


GRANTED_TOGETHER = frozenset(each for each in Engine if each.startswith("wva-"))
"""Engines with limiters, which grant devices to all models of theirs out of one inventory."""


class ValueKind(StrEnum):
    """What a value is, in the words of the documentation; files and annotations have a parser for each."""

    NAME = "name"
    TEXT = "text"
    PATH = "path"
    WORD = "one of some words"
    FLAG = "true, false"
    COUNT = "whole number"
    POSITIVE_COUNT = "whole number above zero"
    PERCENTAGE = "percentage"
    DELAY = "duration, at most `1d`"


_TYPES: Mapping[ValueKind, type[SettingScalar]] = {
    ValueKind.FLAG: bool,
    ValueKind.COUNT: int,
    ValueKind.POSITIVE_COUNT: int,
    ValueKind.PERCENTAGE: float,
    ValueKind.DELAY: float,
}
"""How values of a kind are held, where that is not text: percentages as fractions, durations in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingDefinition(Generic[Value]):
    """One variant setting: its key in a file (`sizing.headroom`), what it may be, and its default.

    `words` describe the value, behind "expected" and in an editor; "=" in them is the default. `choices` are the words
    that mean something of a WORD or NAME. `annotation` is its name behind `reconciler.io/`, empty without one.
    `default_words` document a default that the value does not say. It is not `is_explained` where
    `explain` tells of it elsewhere. One that `is_of_workloads` stands on serving workloads and in `workloads` only.
    """

    name: str
    kind: ValueKind
    default: Value
    words: str
    choices: tuple[str, ...] = ()
    annotation: str = ""
    default_words: str = ""
    is_explained: bool = True
    is_of_workloads: bool = False

    @property
    def path(self) -> tuple[str, ...]:
        """The keys that lead to it in a section of variant settings."""
        return tuple(self.name.split("."))

    def convert(self, value: SettingScalar) -> Value:
        """A value of some layer in the type of this setting."""
        return cast(Value, _TYPES.get(self.kind, str)(value))


SERVICE_CLASS = SettingDefinition(
    name="serviceClass",
    kind=ValueKind.NAME,
    default="",
    words="the name of a service class (= none)",
    annotation="service-class",
    default_words="what ConfigMaps say, else none: saturation",
    is_explained=False,
)
ACCELERATOR = SettingDefinition(
    name="accelerator",
    kind=ValueKind.NAME,
    default=CHOOSE,
    words="choose, in-order, keep, or the name of the only accelerator that is allowed (= choose)",
    choices=(CHOOSE, IN_ORDER, KEEP),
    annotation="accelerator",
)
MIN_REPLICAS = SettingDefinition(
    name="minReplicas",
    kind=ValueKind.COUNT,
    default=1,
    words="a whole number of replicas (= 1)",
    annotation="min-replicas",
)
MAX_REPLICAS: SettingDefinition[int | None] = SettingDefinition(
    name="maxReplicas",
    kind=ValueKind.POSITIVE_COUNT,
    default=None,
    words="a whole number of replicas (= no limit)",
    annotation="max-replicas",
    default_words="no limit",
)
ENGINE = SettingDefinition(
    name="sizing.engine",
    kind=ValueKind.WORD,
    default=AUTO,
    words="auto, queueing, saturation, tracking, or upstream's own: wva-v1, wva-v2, kthena-v0, kthena-v1 (= auto)",
    choices=(AUTO, *(each for each in Engine if each != "canary")),
)
HEADROOM = SettingDefinition(
    name="sizing.headroom",
    kind=ValueKind.PERCENTAGE,
    default=0.2,
    words="a percentage like 20%, added to the load (= 20%)",
)
MERGE_DELAY_S: SettingDefinition[float | None] = SettingDefinition(
    name="actuationDelay.merge",
    kind=ValueKind.DELAY,
    default=None,
    words="a duration like 10m, from a proposal to its merge (= as measured, else 15m, or 2m with autoMerge: true)",
    default_words="as measured, else `15m`, or `2m` with `autoMerge: true`",
    is_explained=False,
)
SYNC_DELAY_S = SettingDefinition(
    name="actuationDelay.sync",
    kind=ValueKind.DELAY,
    default=180.0,
    words="a duration like 3m, from a merge until the cluster has the number (= 3m)",
)
START_DELAY_S = SettingDefinition(
    name="actuationDelay.start",
    kind=ValueKind.DELAY,
    default=300.0,
    words="a duration like 5m, from there until a new replica serves (= 5m): paid for, and worth nothing",
)
PAYBACK_S = SettingDefinition(
    name="payback",
    kind=ValueKind.DELAY,
    default=3600.0,
    words="a duration like 1h, in which a cheaper plan must earn back what it starts (= 1h)",
)
GROUP = SettingDefinition(
    name="group",
    kind=ValueKind.TEXT,
    default="",
    words="the name of the group whose pull request holds the change (= by pullRequests.groupBy)",
    annotation="group",
    default_words="by `pullRequests.groupBy`",
)
IGNORE = SettingDefinition(
    name="ignore",
    kind=ValueKind.FLAG,
    default=False,
    words="true or false; true is read and shown, never changed (= false)",
    annotation="ignore",
    is_explained=False,
)
WHEN_AUTOSCALED = SettingDefinition(
    name="whenAutoscaled",
    kind=ValueKind.WORD,
    default=HOLD,
    words="hold, bounds or tune: what is proposed where an HPA or ScaledObject owns the replicas (= hold)",
    choices=(HOLD, BOUNDS, TUNE),
    is_explained=False,
)
MODEL = SettingDefinition(
    name="model",
    kind=ValueKind.NAME,
    default="",
    words="the id of the model that a serving workload is sized as a variant of (= what its arguments name)",
    annotation="model",
    default_words="what its arguments name",
    is_explained=False,
    is_of_workloads=True,
)
MANAGED = SettingDefinition(
    name="managed",
    kind=ValueKind.FLAG,
    default=False,
    words="true or false: whether a serving workload is sized without a resource of an autoscaler (= false)",
    annotation="managed",
    is_explained=False,
    is_of_workloads=True,
)
CANARY = SettingDefinition(
    name="canary",
    kind=ValueKind.NAME,
    default="",
    words="the accelerator that a serving workload tries with one replica beside others of its model (= none)",
    annotation="canary",
    default_words="none",
    is_explained=False,
    is_of_workloads=True,
)
MEASURED = SettingDefinition(
    name="measured",
    kind=ValueKind.TEXT,
    default="",
    words="what the accelerator that it tried does, which reconciler wrote when it moved replicas (= measured anew)",
    annotation="measured",
    default_words="measured anew in each run",
    is_explained=False,
    is_of_workloads=True,
)
HELM_REPLICAS = SettingDefinition(
    name="helmValues.replicas",
    kind=ValueKind.PATH,
    default="",
    words="where the number of replicas stands",
    default_words="none",
    is_explained=False,
)
HELM_MIN_REPLICAS = SettingDefinition(
    name="helmValues.minReplicas",
    kind=ValueKind.PATH,
    default="",
    words="where the lower bound of the autoscaler stands that the chart makes",
    default_words="none",
    is_explained=False,
)
HELM_MAX_REPLICAS = SettingDefinition(
    name="helmValues.maxReplicas",
    kind=ValueKind.PATH,
    default="",
    words="where its upper bound stands",
    default_words="none",
    is_explained=False,
)

SETTING_DEFINITIONS: tuple[SettingDefinition[Any], ...] = (
    SERVICE_CLASS,
    ACCELERATOR,
    MIN_REPLICAS,
    MAX_REPLICAS,
    ENGINE,
    HEADROOM,
    MERGE_DELAY_S,
    SYNC_DELAY_S,
    START_DELAY_S,
    PAYBACK_S,
    GROUP,
    IGNORE,
    MODEL,
    MANAGED,
    CANARY,
    MEASURED,
    WHEN_AUTOSCALED,
    HELM_REPLICAS,
    HELM_MIN_REPLICAS,
    HELM_MAX_REPLICAS,
)
"""In the order in which `explain` shows them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantSettings:
    """The effective settings of one variant, each with its source and what it displaced.

    `values` are by a setting's name; what is not there has its default.
    """

    values: Mapping[str, Sourced[Any]] = field(default_factory=dict)

    def __getitem__(self, setting: SettingDefinition[Value]) -> Sourced[Value]:
        """The effective value of a setting."""
        name = setting.name
        if name not in self.values:
            return Sourced(value=setting.default, source=Source(kind=SourceKind.BUILT_IN))
        return self.values[name]
