"""Rules: what guard rails ask of changes, as data. A recording holds them, so a replay judges as the run did."""

from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import StrEnum
from typing import Literal

from reconciler.domain.identity import Place
from reconciler.domain.records import dataclass


class Direction(StrEnum):
    """What a change does to its variant: one change may do several of them."""

    UP = "up"
    DOWN = "down"
    MOVE = "move"
    TO_ZERO = "toZero"
    FIRST = "first"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Which changes a rule is for: everything that is given must fit; nothing given fits all.

    Texts are globs. `directions` are alternatives. `priority_least` and `priority_most` bound the variant's priority.
    """

    cluster: str = ""
    namespace: str = ""
    model: str = ""
    name: str = ""
    path: str = ""
    accelerator: str = ""
    service_class: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    priority_least: int | None = None
    priority_most: int | None = None
    directions: tuple[Direction, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """A number of replicas, or a fraction of those that there are."""

    replicas: int | None = None
    fraction: float | None = None

    def of(self, current: int) -> int:
        """How many replicas it comes to; a fraction admits at least one."""
        return self.replicas if self.replicas is not None else max(1, int((self.fraction or 0.0) * current + 1e-9))

    def __str__(self) -> str:
        return f"{self.replicas}" if self.replicas is not None else f"{(self.fraction or 0.0) * 100:g} %"


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundsRule:
    """How many replicas a variant may have, and how many devices its replicas may take together."""

    kind: Literal["bounds"] = "bounds"
    least: int | None = None
    most: int | None = None
    devices: int | None = None
    pool_share: float | None = None
    """The most that it may take of any pool, as a fraction of what may be planned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRule:
    """How many replicas may come or go at once, or within `per_s` where that is given."""

    kind: Literal["step"] = "step"
    up: Amount | None = None
    down: Amount | None = None
    per_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRule:
    """Which changes a person must merge: any one of the conditions is enough; none given is every change.

    `cost_per_hour` and `cost_fraction` are what those changes of a group add that cost more.
    `learned_within_s`: the profile that the change rests on was learned not longer ago.
    """

    kind: Literal["approval"] = "approval"
    up: Amount | None = None
    down: Amount | None = None
    cost_per_hour: float | None = None
    cost_fraction: float | None = None
    accelerator_change: bool = False
    to_zero: bool = False
    first_change: bool = False
    learned_within_s: float | None = None
    reviewers: tuple[str, ...] = ()

    @property
    def is_conditional(self) -> bool:
        """Whether any condition is given."""
        given = (self.up, self.down, self.cost_per_hour, self.cost_fraction, self.learned_within_s)
        is_any = self.accelerator_change or self.to_zero or self.first_change
        return is_any or any(each is not None for each in given)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """When a rule counts: `lasts_s` from each time that `cron` names in `time_zone`, or once between two moments."""

    cron: str = ""
    lasts_s: float = 0.0
    time_zone: str = "UTC"
    from_s: float = 0.0
    until_s: float = 0.0


class Repairs(StrEnum):
    """What becomes of repairs of a target while a rule lets nothing else change."""

    ASK = "ask"
    """they are proposed, and a person merges them"""
    ALLOW = "allow"
    HOLD = "hold"


@dataclass(frozen=True, slots=True, kw_only=True)
class FreezeRule:
    """When nothing changes, and what becomes of repairs meanwhile."""

    kind: Literal["freeze"] = "freeze"
    window: Window
    repairs: Repairs = Repairs.ASK


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRule:
    """How many replicas a variant may have at some times."""

    kind: Literal["schedule"] = "schedule"
    window: Window
    least: int | None = None
    most: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CooldownRule:
    """How long a variant stays as it is after a change of ours was merged."""

    kind: Literal["cooldown"] = "cooldown"
    after_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadbandRule:
    """Changes that are too small to be worth a pull request; a variant that lacks capacity still gets it."""

    kind: Literal["deadband"] = "deadband"
    width: Amount


class Period(StrEnum):
    """What a budget is for, by UTC."""

    HOUR = "hour"
    DAY = "day"
    MONTH = "month"


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetRule:
    """What the variants in scope may cost together, or those of `each` namespace, cluster, model or `label:KEY`."""

    kind: Literal["budget"] = "budget"
    amount: float
    per: Period
    each: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeLimitRule:
    """How many variants change at once, in a run or of a group."""

    kind: Literal["changeLimit"] = "changeLimit"
    changes: int
    by_group: bool = False

    def __str__(self) -> str:
        return (
            f"at most {self.changes} changes {'of its group' if self.by_group else 'of a run'}, others are more urgent"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceleratorsRule:
    """On which accelerators replicas may be added: globs; those of `allowed` where there are any, never `denied`."""

    kind: Literal["accelerators"] = "accelerators"
    allowed: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotRule:
    """How much of the replicas of a model, or of all models together, may run on spot accelerators, as a fraction."""

    kind: Literal["spot"] = "spot"
    share: float
    of_fleet: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AvailabilityRule:
    """How many replicas stay ready, and how many variants of a model change at once."""

    kind: Literal["availability"] = "availability"
    ready: int | None = None
    at_once: Amount | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsRule:
    """How much must be seen of a variant before it changes, None for any.

    The share of its replicas that report, the age of its newest sample, how many requests its load was measured by, the
    share of the past in which it was, and how far its latencies may be from their forecast, as a fraction of that.
    """

    kind: Literal["metrics"] = "metrics"
    reporting: float | None = None
    age_s: float | None = None
    requests: int | None = None
    coverage: float | None = None
    disagreement: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoMergeRule:
    """Which changes merge by themselves where no rule objects, and at most how many pull requests of ours an hour."""

    kind: Literal["autoMerge"] = "autoMerge"
    per_hour: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelsRule:
    """Labels of the pull requests that hold a change."""

    kind: Literal["labels"] = "labels"
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewersRule:
    """Who is asked to review the pull requests that hold a change: accounts, or team:NAME."""

    kind: Literal["reviewers"] = "reviewers"
    reviewers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpressionRule:
    """What an expression in CEL says of a change: denied, held, cut to `to` replicas, left to a person, labelled."""

    kind: Literal["deny", "hold", "clamp", "requireApproval", "label"]
    when: str
    reason: str = ""
    to: str = ""
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenRule:
    """A rule that could not be read: nothing in its scope is proposed until it is mended."""

    kind: Literal["broken"] = "broken"
    words: str


Asks = (
    BoundsRule
    | StepRule
    | DeadbandRule
    | CooldownRule
    | FreezeRule
    | ScheduleRule
    | BudgetRule
    | ChangeLimitRule
    | AcceleratorsRule
    | SpotRule
    | AvailabilityRule
    | MetricsRule
    | ApprovalRule
    | AutoMergeRule
    | LabelsRule
    | ReviewersRule
    | ExpressionRule
    | BrokenRule
)
"""What a rule of each kind asks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One guard rail: its name, where it is written, which changes it is for, and what it asks of them."""

    name: str
    place: Place
    asks: Asks
    scope: Scope = field(default_factory=Scope)

    def __str__(self) -> str:
        return f"{self.name} ({self.place})"


def labels_given(rules: Iterable[Rule]) -> tuple[str, ...]:
    """Every label that some of the rules may give to a pull request, each once."""
    giving = (each.asks for each in rules if isinstance(each.asks, (LabelsRule, ExpressionRule)))
    return tuple(dict.fromkeys(label for asks in giving for label in asks.labels))
