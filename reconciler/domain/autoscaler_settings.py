"""What an autoscaler is set to, as numbers: metrics with targets, scaling rules, bounds.

A `Value` is one number, or an array where a simulation tries many settings at once.
"""

import math
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from reconciler.domain.metric_targets import Behavior as PolicyBehavior
from reconciler.domain.records import dataclass
from reconciler.domain.scalers import Signal

if TYPE_CHECKING:
    from reconciler.domain.history import Floats

    Value: TypeAlias = float | Floats
else:  # commands that read no metrics start without numpy
    Value = float

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

    `activation` is KEDA's threshold for leaving zero, in the same unit.
    """

    kind: MetricKind
    signal: Signal
    target: Value
    activation: Value = 0.0


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
