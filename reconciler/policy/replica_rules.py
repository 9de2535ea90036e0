"""Rules on replicas: bounds, steps, deadband, availability, cooldown, freezes and schedules."""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Literal, Self

from pydantic import model_validator

from reconciler.domain.plan import VerdictKind
from reconciler.domain.records import replace
from reconciler.domain.rules import (
    Amount,
    AvailabilityRule,
    BoundsRule,
    CooldownRule,
    DeadbandRule,
    FreezeRule,
    Repairs,
    Rule,
    ScheduleRule,
    StepRule,
)
from reconciler.policy.port import (
    Change,
    KindSection,
    Range,
    RuleKind,
    Spoken,
    Subject,
    Term,
    as_now,
    as_share,
    as_time,
)
from reconciler.policy.values import Count, Duration, Percentage, ReplicasOrShare, WindowSection, told_until

# `availability`: how many replicas stay ready, and how many variants of a model change at once.


class AvailabilitySection(KindSection):
    """How many replicas stay ready, and how many variants of a model change at once."""

    min_ready: Count | None = None
    """replicas that no change goes below; while fewer report, none goes"""
    variants_at_once: ReplicasOrShare | None = None
    """variants of one model that change together, like 1 or 25%; the others follow after the merge"""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.min_ready is None and self.variants_at_once is None:
            raise ValueError("expected minReady or variantsAtOnce")
        return self

    def asks(self) -> AvailabilityRule:
        return AvailabilityRule(ready=self.min_ready, at_once=self.variants_at_once)


def _limit(asks: AvailabilityRule, subject: Subject) -> Range | None:
    if asks.ready is None:
        return None
    now = subject.current.replicas
    is_short = subject.reporting is not None and subject.reporting < asks.ready
    words = f"{subject.reporting} of {now} replicas report" if is_short else f"{asks.ready} replicas stay ready"
    return Range(least=now if is_short else min(asks.ready, now), is_pace=True, words=words)


def _judge(asks: AvailabilityRule, rule: Rule, change: Change) -> Spoken | None:
    if asks.at_once is None or change.turn < asks.at_once.of(change.of_model):
        return None
    words = f"at most {asks.at_once} of the {change.of_model} variants of its model change at once"
    return Spoken(rule=rule, kind=VerdictKind.HOLD, words=words)


AVAILABILITY = RuleKind(
    name="availability",
    asks=AvailabilityRule,
    section=AvailabilitySection,
    limit=_limit,
    judge=_judge,
    terms={"ready": Term(name="minReady", stricter=1), "at_once": Term(name="variantsAtOnce", stricter=-1)},
)


# `bounds`: how many replicas, how many devices, how much of a pool a variant may have.


class BoundsSection(KindSection):
    """How many replicas a variant may have, and how many devices its replicas may take together."""

    min_replicas: Count | None = None
    """the fewest replicas"""
    max_replicas: Count | None = None
    """the most replicas"""
    max_devices: Count | None = None
    """the most devices that its replicas take together"""
    max_pool_share: Percentage | None = None
    """the most that it takes of any pool, like 50%"""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        least, most = self.min_replicas, self.max_replicas
        if not self.model_fields_set:
            raise ValueError("expected minReplicas, maxReplicas, maxDevices or maxPoolShare")
        if least is not None and most is not None and least > most:
            raise ValueError(f"expected minReplicas of at most maxReplicas, got {least} and {most}")
        return self

    def asks(self) -> BoundsRule:
        return BoundsRule(
            least=self.min_replicas, most=self.max_replicas, devices=self.max_devices, pool_share=self.max_pool_share
        )


def _limit_bounds(asks: BoundsRule, subject: Subject) -> Range:
    each = max(subject.devices.values(), default=0)
    limits = [] if asks.most is None else [(asks.most, f"at most {_replicas(asks.most)}")]
    if asks.devices is not None and each:
        limits.append((asks.devices // each, f"at most {asks.devices} devices, {each} for each replica"))
    if asks.pool_share is not None:
        for pool, count in subject.devices.items():
            share = f"at most {asks.pool_share * 100:g} % of pool {pool}"
            limits.append((int(asks.pool_share * subject.pools[pool] + 1e-9) // count, share))
    most, words = min(limits, default=(None, ""))
    least = asks.least or 0
    floor = f"at least {_replicas(least)}" if least else ""
    return Range(least=least, most=most, words=words, floor_words=floor)


def _replicas(number: int) -> str:
    return f"{number} replica" if number == 1 else f"{number} replicas"


BOUNDS = RuleKind(
    name="bounds",
    asks=BoundsRule,
    section=BoundsSection,
    limit=_limit_bounds,
    terms={
        "least": Term(name="minReplicas", stricter=1),
        "most": Term(name="maxReplicas", stricter=-1),
        "devices": Term(name="maxDevices", stricter=-1),
        "pool_share": Term(name="maxPoolShare", stricter=-1, show=as_share),
    },
)


# `cooldown`: how long a variant stays as it is after it was changed.


class CooldownSection(KindSection):
    """How long a variant stays as it is after anybody changed its replicas; at most 30 days."""

    after: Duration
    """a duration like 30m"""

    def asks(self) -> CooldownRule:
        return CooldownRule(after_s=self.after)


def _limit_cooldown(asks: CooldownRule, subject: Subject) -> Range | None:
    last_s = subject.last_change_s
    if last_s is None or subject.now_s >= last_s + asks.after_s:
        return None
    until = datetime.fromtimestamp(last_s + asks.after_s, tz=UTC)
    day = "" if until.date() == datetime.fromtimestamp(subject.now_s, tz=UTC).date() else f"{until:%Y-%m-%d} "
    return as_now(subject, f"its last change is to settle until {day}{until:%H:%M} UTC")


def _since(asks: CooldownRule, now_s: float) -> float:
    return now_s - asks.after_s


COOLDOWN = RuleKind(
    name="cooldown",
    asks=CooldownRule,
    section=CooldownSection,
    limit=_limit_cooldown,
    since=_since,
    terms={"after_s": Term(name="after", stricter=1, show=as_time)},
)


# `deadband`: changes that are too small to be worth a pull request.


class DeadbandSection(KindSection):
    """Changes of so few replicas are not proposed, unless the load exceeds what runs now."""

    within: ReplicasOrShare
    """replicas that are not worth a change, like 1 or 10%"""

    def asks(self) -> DeadbandRule:
        return DeadbandRule(width=self.within)


def _judge_deadband(asks: DeadbandRule, rule: Rule, change: Change) -> Spoken | None:
    width = asks.width
    most = width.replicas if width.replicas is not None else (width.fraction or 0.0) * change.current.replicas
    if change.is_move or change.is_repair or abs(change.added) > most:
        return None
    return Spoken(rule=rule, kind=VerdictKind.HOLD, words=f"not worth a change within {width}")


DEADBAND = RuleKind(
    name="deadband",
    asks=DeadbandRule,
    section=DeadbandSection,
    judge=_judge_deadband,
    terms={"width": Term(name="within", stricter=1)},
)


# `freeze`: times at which nothing changes.


class FreezeSection(WindowSection):
    """When nothing changes."""

    repairs: Literal["ask", "allow", "hold"] = "ask"
    """replicas added as the load exceeds what runs, and the end of a harmful canary: ask, allow or hold (= ask)"""

    def asks(self) -> FreezeRule:
        return FreezeRule(window=self.window(), repairs=Repairs(self.repairs))


def _limit_freeze(asks: FreezeRule, subject: Subject) -> Range | None:
    """Nothing changes; where repairs may, what the load exceeds gets more of what it has, and what does harm goes."""
    until = told_until(asks.window, subject.now_s)
    if until is None:
        return None
    found = as_now(subject, f"frozen {until}")
    if asks.repairs is Repairs.HOLD:
        return found
    return replace(found, most=None if subject.is_short else found.most, least=0 if subject.is_harmful else found.least)


def _judge_freeze(asks: FreezeRule, rule: Rule, change: Change) -> Spoken | None:
    """The optimizer kept to it, but for repairs."""
    until = told_until(asks.window, change.subject.now_s)
    if until is None or asks.repairs is not Repairs.ASK or not change.is_repair:
        return None
    words = f"frozen {until}: a person decides about repairs"
    return Spoken(rule=rule, kind=VerdictKind.NEEDS_APPROVAL, words=words)


FREEZE = RuleKind(
    name="freeze",
    asks=FreezeRule,
    section=FreezeSection,
    limit=_limit_freeze,
    judge=_judge_freeze,
    terms={"window": Term(name="window"), "repairs": Term(name="repairs", stricter=1)},
)


# `schedule`: how many replicas a variant may have at some times.


class ScheduleSection(WindowSection):
    """How many replicas a variant may have at some times."""

    min_replicas: Count | None = None
    """the fewest replicas meanwhile"""
    max_replicas: Count | None = None
    """the most replicas meanwhile"""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        least, most = self.min_replicas, self.max_replicas
        if least is None and most is None:
            raise ValueError("expected minReplicas or maxReplicas")
        if least is not None and most is not None and least > most:
            raise ValueError(f"expected minReplicas of at most maxReplicas, got {least} and {most}")
        return self

    def asks(self) -> ScheduleRule:
        return ScheduleRule(window=self.window(), least=self.min_replicas, most=self.max_replicas)


def _limit_schedule(asks: ScheduleRule, subject: Subject) -> Range | None:
    until = told_until(asks.window, subject.now_s)
    if until is None:
        return None
    cap, floor = f"at most {asks.most} {until}", f"at least {asks.least} {until}"
    return Range(least=asks.least or 0, most=asks.most, words=cap, floor_words=floor)


SCHEDULE = RuleKind(
    name="schedule",
    asks=ScheduleRule,
    section=ScheduleSection,
    limit=_limit_schedule,
    terms={
        "window": Term(name="window"),
        "least": Term(name="minReplicas", stricter=1),
        "most": Term(name="maxReplicas", stricter=-1),
    },
)


# `step`: how many replicas may come or go at once, or within an hour or a day.

_SPANS_S = {"run": None, "hour": 3600.0, "day": 86400.0}


class StepSection(KindSection):
    """How far a variant may go at once: from what Git says now, or from what it said an hour or a day ago."""

    up: ReplicasOrShare | None = None
    """replicas that may come, like 2 or 50%; a share admits at least one"""
    down: ReplicasOrShare | None = None
    """replicas that may go, like 2 or 50%; a share admits at least one"""
    per: Literal["run", "hour", "day"] = "run"
    """run, hour or day (= run)"""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.up is None and self.down is None:
            raise ValueError("expected up or down, or both")
        return self

    def asks(self) -> StepRule:
        return StepRule(up=self.up, down=self.down, per_s=_SPANS_S[self.per])


def _limit_step(asks: StepRule, subject: Subject) -> Range:
    now = subject.current.replicas
    since = now if asks.per_s is None else subject.replicas_at(subject.now_s - asks.per_s)
    within = {None: "at once", 3600.0: "an hour", 86400.0: "a day"}[asks.per_s]
    # What is there already may stay: a person may have gone further.
    least = 0 if asks.down is None else min(since - asks.down.of(since), now)
    most = None if asks.up is None else max(since + asks.up.of(since), now)
    up, down = _words("up", asks.up, within), _words("down", asks.down, within)
    return Range(least=max(least, 0), most=most, is_pace=True, words=up, floor_words=down)


def _since_step(asks: StepRule, now_s: float) -> float | None:
    return None if asks.per_s is None else now_s - asks.per_s


@lru_cache(maxsize=256)
def _words(direction: str, amount: Amount | None, within: str) -> str:
    return "" if amount is None else f"at most {amount} {direction} {within}"


STEP = RuleKind(
    name="step",
    asks=StepRule,
    section=StepSection,
    limit=_limit_step,
    since=_since_step,
    terms={
        "up": Term(name="up", stricter=-1),
        "down": Term(name="down", stricter=-1),
        "per_s": Term(name="per", stricter=1, show=as_time),
    },
)
