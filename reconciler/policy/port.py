"""The port of a kind of rule, and what rules judge: a variant, a change of it, a verdict."""

from calendar import monthrange
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from itertools import pairwise
from typing import Any, Generic, TypeVar

from reconciler.domain.identity import ResourceKey, path_matches
from reconciler.domain.inventory import Allocation
from reconciler.domain.observed import LiveReplicas
from reconciler.domain.plan import VerdictKind
from reconciler.domain.recording import PaidPrices, WrittenCounts
from reconciler.domain.records import dataclass, replace
from reconciler.domain.rules import Asks, Direction, Period, Rule, Scope
from reconciler.domain.snapshot import Variant
from reconciler.domain.variant_settings import GROUP
from reconciler.resources.validation import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """A change of ours that was merged: when (Unix seconds), and how many replicas it found."""

    at_s: float
    replicas_before: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The mean of a latency that a merged change was to bring, and what is measured at a load that it covers.

    Times in seconds. `name` is itl, ttft or wait, `noise` the fraction by which the measured mean may be off by chance.
    """

    number: int
    name: str
    forecast_s: float
    measured_s: float
    noise: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is behind the metrics of a variant; None is not known, or not asked for.

    `requests` arrived for its model in the `window_s` that its load was measured in. `known` is the share of the last
    `past_s` of which arrivals are known.
    """

    age_s: float | None = None
    requests: float | None = None
    window_s: float = 0.0
    known: float | None = None
    past_s: float = 0.0
    forecasts: tuple[Forecast, ...] = ()


NO_EVIDENCE = Evidence()


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotCount:
    """Replicas that run on spot accelerators, and all replicas."""

    spot: int = 0
    total: int = 0

    def __add__(self, other: "SpotCount") -> "SpotCount":
        return SpotCount(spot=self.spot + other.spot, total=self.total + other.total)

    def __sub__(self, other: "SpotCount") -> "SpotCount":
        return SpotCount(spot=self.spot - other.spot, total=self.total - other.total)

    def beyond(self, share: float) -> float:
        """How many spot replicas there are above a share of all; below 0 there is room."""
        return self.spot - share * self.total


NO_SPOT = SpotCount()


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotChange:
    """Spot replicas of a model, or of all: `now`, and what the plan does to them.

    `by_part` has what is merged together, the most urgent first: the changes of one model in one group, of which
    `part` is the one that is asked about. Any of these may be merged alone.
    """

    now: SpotCount = NO_SPOT
    by_part: Mapping[tuple[str, str], SpotCount] = field(default_factory=dict)
    part: tuple[str, str] = ("", "")

    def worst_beyond(self, share: float) -> float:
        """How many there are above a share after merges that lead to most, of those no less urgent than this part."""
        found = self.now.beyond(share)
        for part, each in self.by_part.items():
            found += max(each.beyond(share), 0.0)
            if part == self.part:
                break
        return found


NO_SPOT_CHANGE = SpotChange()


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A variant that may change, at `now_s`: `merges` are of the last 30 days, the newest last.

    `pools` says of each pool that its replicas take devices of how many may be planned, `devices` how many a replica
    takes of it.
    """

    now_s: float
    variant: Variant
    priority: int = 0
    reporting: int | None = None
    """Replicas that report, where those are fewer than Git says."""
    evidence: Evidence = NO_EVIDENCE
    merges: tuple[Merge, ...] = ()
    written: WrittenCounts | None = None
    """What Git said of it before, whoever wrote that; None where no rule asks, or it is not known."""
    paid: PaidPrices | None = None
    """What a replica of it cost before; None where no rule asks: what it costs now."""
    live: LiveReplicas | None = None
    """How many replicas its cluster asked for lately."""
    pools: Mapping[str, int] = field(default_factory=dict)
    devices: Mapping[str, int] = field(default_factory=dict)
    spot: frozenset[str] = frozenset()
    """Accelerators of its cluster that are spot."""
    beside_in_model: SpotCount = NO_SPOT
    beside_in_fleet: SpotCount = NO_SPOT
    """What the other variants of its model have now, and all other variants."""
    is_short: bool = False
    """Whether its model's load exceeds what runs now, so that what it gets more is a repair."""
    is_harmful: bool = False
    """Whether it is a canary that misses a target which the others keep, so that its end is a repair."""

    @property
    def current(self) -> Allocation:
        """What it has now."""
        return self.variant.current

    def spot_of(self, allocation: Allocation) -> SpotCount:
        """What an allocation of it counts for."""
        is_spot = allocation.accelerator in self.spot
        return SpotCount(spot=allocation.replicas if is_spot else 0, total=allocation.replicas)

    @property
    def class_name(self) -> str:
        """The name of its service class; empty without one."""
        return "" if self.variant.service_class is None else self.variant.service_class.value.name

    @property
    def last_change_s(self) -> float | None:
        """When it was changed last, by us or by anybody as far as Git tells (Unix seconds)."""
        written = () if self.written is None else self.written.changes[-1:]
        return max((*(at_s for at_s, _ in written), *(merge.at_s for merge in self.merges[-1:])), default=None)

    def replicas_at(self, at_s: float) -> int:
        """How many Git gave it then; where that is not known, what our first merge after it found.

        A variant that was not there yet had as many as it began with.
        """
        changes = () if self.written is None else self.written.changes
        found = (*changes, *((merge.at_s, merge.replicas_before) for merge in self.merges))
        later = sorted(each for each in found if each[0] > at_s)
        return later[0][1] if later else self.current.replicas


Subjects = Mapping[ResourceKey, Subject]


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetChange:
    """What a plan does to all variants; costs are per hour, None without a price."""

    variants: int = 0
    changes: int = 0
    cost_before: float | None = None
    cost_added: float | None = None


NO_FLEET = FleetChange()


class Counted(Enum):
    """What a limit that variants share counts: their cost per hour, or how many of them change."""

    COST = auto()
    CHANGES = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedLimit:
    """A limit that several variants share: of which rule, what it counts, and what is said of a change beyond it.

    `bucket` names the members where one rule makes several limits, empty otherwise.
    """

    rule: Rule
    counts: Counted
    members: frozenset[ResourceKey]
    limit: float
    words: str
    bucket: str = ""

    @property
    def name(self) -> str:
        """Its name in the plan."""
        return f"{self.rule.name} ({self.bucket})" if self.bucket else self.rule.name

    def share(self, amount: float) -> "Share":
        """What a plan makes of it."""
        return Share(limit=self.limit, amount=amount, words=self.words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A shared limit of a variant, and what the plan makes of it; `amount` of changes is how many more urgent ones."""

    limit: float
    amount: float
    words: str

    @property
    def is_exceeded(self) -> bool:
        """Whether the plan takes more."""
        return self.amount > self.limit * (1 + 1e-9) + 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a plan does to a subject; costs are per hour, None without a price.

    `group_cost_before` is of all variants of its group, `group_cost_added` what the changes of the group add that cost
    more: each of its pull requests may be merged without the others. `learned_on` is the day on which the profile was
    learned that it rests on (empty: given). `is_repair`: its model's load exceeds what runs now. It is the change
    number `turn` (from 0) of its model, of whose `of_model` variants some may change. `shares` of shared limits are by
    the name of their rule; a change counts with all that are more urgent. `needed` and `carried_before` and
    `carried_after` are of its model, in the unit of its engine; `load_per_s` are requests that arrive for it.
    """

    subject: Subject
    desired: Allocation
    cost_before: float | None = None
    cost_after: float | None = None
    group_cost_before: float | None = None
    group_cost_added: float | None = None
    learned_on: str = ""
    is_repair: bool = False
    shares: Mapping[str, Share] = field(default_factory=dict)
    load_per_s: float | None = None
    needed: float | None = None
    carried_before: float | None = None
    carried_after: float | None = None
    fleet: FleetChange = NO_FLEET
    turn: int = 0
    of_model: int = 1
    spot_in_model: SpotChange = NO_SPOT_CHANGE
    spot_in_fleet: SpotChange = NO_SPOT_CHANGE

    @property
    def current(self) -> Allocation:
        """What its variant has now."""
        return self.subject.current

    @property
    def added(self) -> int:
        """Replicas that come; below 0 those that go."""
        return self.desired.replicas - self.current.replicas

    @property
    def directions(self) -> frozenset[Direction]:
        """Everything that it does."""
        does = {
            Direction.UP: self.added > 0,
            Direction.DOWN: self.added < 0,
            Direction.MOVE: self.is_move,
            Direction.TO_ZERO: self.desired.replicas == 0 < self.current.replicas,
            Direction.FIRST: not self.subject.merges,
        }
        return frozenset(each for each, is_done in does.items() if is_done)

    @property
    def costs_more(self) -> bool:
        """Whether it adds to the cost, as far as anybody knows."""
        if self.cost_before is None or self.cost_after is None:
            return self.added > 0 or self.is_move
        return self.cost_after > self.cost_before

    @property
    def is_move(self) -> bool:
        """Whether it takes another accelerator."""
        return self.desired.accelerator != self.current.accelerator and self.desired.replicas > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """What one rule says of a change: how strictly, and why in words."""

    rule: Rule
    kind: VerdictKind
    words: str
    replicas: int | None = None
    """Where it ends a change; None where it says nothing of numbers, or the optimizer has heard it."""
    labels: tuple[str, ...] = ()
    reviewers: tuple[str, ...] = ()
    merges_per_hour: float | None = None
    """Of a rule that lets the change merge by itself, the most merges in an hour; None of any other rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The replicas that a rule leaves a variant.

    `is_pace`: it says how fast, not how far; where both cannot be, it goes as far as the pace admits.
    `stays`: on no other accelerator. `is_firm`: it counts on another one too. `holds`: it lets nothing change for now,
    which is a hold and no clamp. `words` say why, for whoever it stops.
    """

    least: int = 0
    most: int | None = None
    is_pace: bool = False
    stays: bool = False
    is_firm: bool = False
    holds: bool = False
    words: str = ""
    floor_words: str = ""
    """Why no fewer, where that is another reason than why no more."""


def as_now(subject: Subject, words: str) -> Range:
    """What a rule leaves that lets nothing change."""
    now = subject.current.replicas
    return Range(least=now, most=now, is_pace=True, stays=True, is_firm=True, holds=True, words=words)


def covers(scope: Scope, subject: Subject) -> bool:
    """Whether a variant is in scope, whatever is done to it."""
    # Asked of every rule and variant: what is not given is not looked at.
    variant = subject.variant
    return (
        (not scope.cluster or path_matches(scope.cluster, variant.key.cluster))
        and (not scope.namespace or path_matches(scope.namespace, variant.key.namespace))
        and (not scope.model or path_matches(scope.model, variant.model.model_id))
        and (not scope.name or path_matches(scope.name, variant.key.name))
        and (not scope.path or path_matches(scope.path, variant.place.path))
        and (not scope.accelerator or path_matches(scope.accelerator, variant.current.accelerator))
        and (not scope.service_class or path_matches(scope.service_class, subject.class_name))
        and (scope.priority_least is None or subject.priority >= scope.priority_least)
        and (scope.priority_most is None or subject.priority <= scope.priority_most)
        and (not scope.labels or all(subject.variant.labels.get(key) == value for key, value in scope.labels.items()))
    )


def fits(scope: Scope, change: Change) -> bool:
    """Whether a change of a variant in scope goes in a direction that is in scope."""
    return not scope.directions or any(each in change.directions for each in scope.directions)


def towards(scope: Scope, found: Range, subject: Subject) -> Range | None:
    """What is left of a range where only some directions are in scope; None for nothing.

    A first change is every change of who had none; a move is no matter of numbers.
    """
    directions = scope.directions
    if not directions or (Direction.FIRST in directions and not subject.merges):
        return found
    # What a rule says of going down makes nothing go up, and the other way round.
    now = subject.current.replicas
    least = min(found.least, now) if Direction.DOWN in directions else 0
    if Direction.TO_ZERO in directions:
        least = max(least, min(found.least, now, 1))
    most = max(found.most, now) if Direction.UP in directions and found.most is not None else None
    stays = found.stays and Direction.MOVE in directions
    if not least and most is None and not stays:
        return None
    return replace(found, least=least, most=most, stays=stays)


HOUR_S = 3600.0


def period_of(per: Period, now_s: float) -> tuple[float, float]:
    """When the day or month of a moment begins and ends, by UTC."""
    day = datetime.fromtimestamp(now_s, tz=UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    first = day.replace(day=1) if per is Period.MONTH else day
    days = monthrange(day.year, day.month)[1] if per is Period.MONTH else 1
    return first.timestamp(), (first + timedelta(days=days)).timestamp()


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """What a variant cost since a time; `lacks` says why that is not known."""

    amount: float = 0.0
    lacks: str = ""


def spending_of(subject: Subject, began_s: float) -> Spending:
    """What ran of a variant, by the cluster or else by Git, at the price of each moment."""
    written, live, paid, now_s = subject.written, subject.live, subject.paid, subject.now_s
    name = subject.variant.key.label
    moments = {began_s, now_s}
    if written is not None:
        moments.update(at_s for at_s, _ in written.counts)
    if live is not None:
        moments.update(live.start_s + index * live.step_s for index in range(len(live.counts) + 1))
    if paid is not None:
        moments.update(at_s for at_s, _ in paid.prices)
    ordered = sorted(at_s for at_s in moments if began_s <= at_s <= now_s)
    amount = 0.0
    for start_s, end_s in pairwise(ordered):
        count = None if live is None else live.at(start_s)
        if count is None and written is not None:
            count = written.at(start_s)
        if count is None:
            began = datetime.fromtimestamp(began_s, tz=UTC)
            return Spending(
                lacks=f"neither Git's history nor Prometheus says what ran of {name} since {began:%Y-%m-%d}"
            )
        price = subject.variant.current_cost_per_hour if paid is None else paid.at(start_s)
        if count and price is None:
            return Spending(lacks=f"it is not known what {name} costs")
        amount += count * (price or 0.0) * (end_s - start_s) / HOUR_S
    return Spending(amount=amount)


Own = TypeVar("Own")


class KindSection(Shape):
    """What stands below the name of a kind in a policy file."""

    def asks(self) -> Asks:
        """The same as a rule asks it."""
        raise NotImplementedError


def leaves_all(asks: object, subject: Subject) -> Range | None:
    """What a kind says of numbers that asks for none."""
    del asks, subject
    return None


def says_nothing(asks: object, rule: Rule, change: Change) -> Spoken | None:
    """What a kind says of changes that the optimizer has heard already."""
    del asks, rule, change
    return None


def needs_no_past(asks: object, now_s: float) -> float | None:
    """What a kind says of the past that looks at now alone."""
    del asks, now_s
    return None


def buckets_of(rule: Rule, subjects: Subjects, each: str) -> Iterator[tuple[str, Subjects]]:
    """The variants that a rule covers, by cluster, namespace, model, group or `label:KEY`; together without any."""
    found: defaultdict[str, dict[ResourceKey, Subject]] = defaultdict(dict)
    for key, subject in subjects.items():
        if covers(rule.scope, subject):
            variant = subject.variant
            texts = {
                "": "",
                "cluster": key.cluster,
                "namespace": f"{key.cluster}/{key.namespace}",
                "model": str(variant.model.whole),
                "group": variant.settings[GROUP].value,
            }
            text = texts.get(each)
            bucket = variant.labels.get(each.removeprefix("label:"), "none") if text is None else text
            found[bucket][key] = subject
    yield from sorted(found.items(), key=lambda each: each[0])


def shares_nothing(asks: object, rule: Rule, subjects: Subjects) -> Iterable[SharedLimit]:
    """A kind of rule that judges each variant for itself."""
    del asks, rule, subjects
    return ()


def takes_any(asks: object, accelerator: str, subject: Subject) -> str:
    """What a kind says of accelerators that minds none."""
    del asks, accelerator, subject
    return ""


class Effect(Enum):
    """What a rule that is in force does: it guards against changes, permits them, or marks their pull requests."""

    GUARDS = auto()
    PERMITS = auto()
    MARKS = auto()


def as_share(value: Any) -> str:
    """`50 %` of 0.5."""
    return f"{value * 100:g} %"


def as_time(value: Any) -> str:
    """`90m` of 5400 seconds, in the largest unit that fits."""
    units = ((86400, "d"), (3600, "h"), (60, "m"))
    return next((f"{value / size:g}{unit}" for size, unit in units if value % size == 0), f"{value:g}s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A field of what a rule asks: its name in a file, and whether more of it (1) or less (-1) is stricter.

    0: it cannot be said. `show` prints a value as people write it.
    """

    name: str
    stricter: int = 0
    show: Callable[[Any], str] = str


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleKind(Generic[Own]):
    """A kind of rule by the key that names it in a file, and the type that holds what it asks.

    `limit` says before the optimizer how many replicas it leaves a variant, None for any number. `judge` says what it
    thinks of a change, None for nothing: of all changes of a finished plan that are in the rule's scope. `refuses` says
    before the optimizer why nothing may be added on an accelerator, empty where it may. `since` says how far back it
    wants to know what Git said (Unix seconds), None for not at all. `shares` are the limits that variants share: the
    optimizer keeps to them, and `judge` finds what the plan makes of them in the change. `terms` say of every field of
    `asks` how strict it is, `effect` what the rule does at all.
    """

    name: str
    asks: type[Own]
    section: type[KindSection]
    limit: Callable[[Own, Subject], Range | None] = leaves_all
    judge: Callable[[Own, Rule, Change], Spoken | None] = says_nothing
    refuses: Callable[[Own, str, Subject], str] = takes_any
    since: Callable[[Own, float], float | None] = needs_no_past
    shares: Callable[[Own, Rule, Subjects], Iterable[SharedLimit]] = shares_nothing
    terms: Mapping[str, Term] = field(default_factory=dict)
    effect: Effect = Effect.GUARDS
