"""What a resource says: metric targets, bounds and how fast a count may move."""

from dataclasses import dataclass
from enum import StrEnum


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
    """How a recommendation becomes a count."""

    down: Rate
    up: Rate
    panic: Panic


# What upstream's webhook fills in where a policy says nothing about behavior: panic is off.
DEFAULT_BEHAVIOR = Behavior(
    down=Rate(instances=0, percent=100, period_s=60.0, stabilization_s=300.0),
    up=Rate(instances=4, percent=100, period_s=60.0, stabilization_s=0.0),
    panic=Panic(percent=0, period_s=0.0, threshold_percent=200, hold_s=0.0),
)


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


# How often upstream's controller runs, unless its flag says otherwise.
SYNC_PERIOD_S = 15.0


def sync_period_s(configured_s: float) -> float:
    """Return the tick of the loop: what is configured, or upstream's where that is nothing."""
    return configured_s if configured_s > 0 else SYNC_PERIOD_S


def warm_up_s(behavior: Behavior) -> float:
    """Return how much history a replay needs to forget its start: twice the longest window and the panic hold."""
    longest = longest_window_s(behavior)
    return 2 * (longest + behavior.panic.hold_s)


def longest_window_s(behavior: Behavior) -> float:
    """Return the length of the longest of the five windows."""
    down, up = behavior.down, behavior.up
    return max(down.period_s, down.stabilization_s, up.period_s, up.stabilization_s, behavior.panic.period_s)
