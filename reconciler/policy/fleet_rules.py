"""Rules on accelerators and on the whole fleet: allowed types, spot shares, budgets, limits on change."""

import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from reconciler.domain.identity import path_matches
from reconciler.domain.plan import VerdictKind
from reconciler.domain.rules import AcceleratorsRule, BudgetRule, ChangeLimitRule, Period, Rule, SpotRule
from reconciler.policy.port import (
    HOUR_S,
    Change,
    Counted,
    KindSection,
    Range,
    RuleKind,
    SharedLimit,
    Spoken,
    SpotCount,
    Subject,
    Subjects,
    Term,
    as_share,
    buckets_of,
    period_of,
    spending_of,
)
from reconciler.policy.values import Count, Glob, Money, Percentage

# `accelerators`: on which accelerators replicas may be added.


class AcceleratorsSection(KindSection):
    """On which accelerators replicas may be added; those that run there already may stay."""

    allowed: list[Glob] = Field(default_factory=list)
    """a list of globs (= all)"""
    denied: list[Glob] = Field(default_factory=list)
    """a list of globs (= none)"""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.allowed and not self.denied:
            raise ValueError("expected allowed or denied")
        return self

    def asks(self) -> AcceleratorsRule:
        return AcceleratorsRule(allowed=tuple(self.allowed), denied=tuple(self.denied))


def _refuses(asks: AcceleratorsRule, accelerator: str, subject: Subject) -> str:
    del subject
    return _why_not(asks, accelerator)


def _why_not(asks: AcceleratorsRule, accelerator: str) -> str:
    if any(path_matches(pattern, accelerator) for pattern in asks.denied):
        return f"{accelerator} is denied"
    is_allowed = not asks.allowed or any(path_matches(pattern, accelerator) for pattern in asks.allowed)
    return "" if is_allowed else f"{accelerator or 'an unknown accelerator'} is not among the allowed"


def _judge(asks: AcceleratorsRule, rule: Rule, change: Change) -> Spoken | None:
    words = _why_not(asks, change.desired.accelerator) if change.added > 0 or change.is_move else ""
    return Spoken(rule=rule, kind=VerdictKind.REFUSE, words=words) if words else None


ACCELERATORS = RuleKind(
    name="accelerators",
    asks=AcceleratorsRule,
    section=AcceleratorsSection,
    judge=_judge,
    refuses=_refuses,
    terms={"allowed": Term(name="allowed", stricter=-1), "denied": Term(name="denied", stricter=1)},
)


# `budget`: what variants may cost together in an hour, a day or a month.


class BudgetSection(KindSection):
    """What the variants in scope may cost together; what they cost already may stay."""

    amount: Money
    """money in the currency of the configuration"""
    per: Literal["hour", "day", "month"]
    """hour, day or month, by UTC"""
    each: Annotated[str, Field(pattern=r"^(cluster|namespace|model|label:[A-Za-z0-9][^\s:]*)$")] | None = None
    """cluster, namespace, model or label:KEY: each has the amount for itself (= all in scope together)"""

    def asks(self) -> BudgetRule:
        return BudgetRule(amount=self.amount, per=Period(self.per), each=self.each or "")


def _share_budget(asks: BudgetRule, rule: Rule, subjects: Subjects) -> Iterator[SharedLimit]:
    """What is left for each bucket, but never less than what runs now; only that where what is left is not known."""
    for bucket, members in buckets_of(rule, subjects, asks.each):
        current = math.fsum(each.variant.cost_of(each.current) or 0.0 for each in members.values())
        left = _left_an_hour(asks, tuple(members.values()))
        article, of = "an" if asks.per is Period.HOUR else "a", f" of {bucket}" if bucket else ""
        budget = f"the budget{of} of {asks.amount:g} {article} {asks.per}"
        if isinstance(left, str):
            limit, words = current, f"what is left of {budget} is not known: {left}"
        else:
            limit, words = max(left, current), f"{budget} is used up{_prices_known_since(asks, members.values())}"
        yield SharedLimit(
            rule=rule,
            counts=Counted.COST,
            bucket=bucket,
            members=frozenset(members),
            limit=limit,
            words=words,
        )


def _left_an_hour(asks: BudgetRule, members: Sequence[Subject]) -> float | str:
    """What the members may cost an hour from now on; words where it is not known what they cost until now."""
    if asks.per is Period.HOUR:
        return asks.amount
    now_s = members[0].now_s
    began_s, ends_s = period_of(asks.per, now_s)
    spent = 0.0
    for member in members:
        spending = spending_of(member, began_s)
        if spending.lacks:
            return spending.lacks
        spent += spending.amount
    return max(asks.amount - spent, 0.0) / ((ends_s - now_s) / HOUR_S)


def _prices_known_since(asks: BudgetRule, members: Iterable[Subject]) -> str:
    """From when on the prices of the period are known, in words; empty where all are."""
    subjects = [each for each in members if each.paid is not None and each.paid.prices]
    if asks.per is Period.HOUR or not subjects:
        return ""
    began_s, _ = period_of(asks.per, subjects[0].now_s)
    since_s = max(each.paid.prices[0][0] for each in subjects if each.paid is not None)
    if since_s <= began_s:
        return ""
    since = datetime.fromtimestamp(since_s, tz=UTC)
    return f" (prices before {since:%Y-%m-%d %H:%M} are not known: the oldest known ones count)"


def _judge_budget(asks: BudgetRule, rule: Rule, change: Change) -> Spoken | None:
    """The optimizer kept to it, but for repairs: a person decides about these."""
    del asks  # the plan's share of the limit says it
    share = change.shares.get(rule.name)
    if share is None or not share.is_exceeded or not change.costs_more:
        return None
    if not change.is_repair:
        return Spoken(rule=rule, kind=VerdictKind.HOLD, words=share.words)
    words = f"{share.words}: beyond it only a person repairs a target"
    return Spoken(rule=rule, kind=VerdictKind.NEEDS_APPROVAL, words=words)


def _since(asks: BudgetRule, now_s: float) -> float | None:
    return None if asks.per is Period.HOUR else period_of(asks.per, now_s)[0]


BUDGET = RuleKind(
    name="budget",
    asks=BudgetRule,
    section=BudgetSection,
    judge=_judge_budget,
    since=_since,
    shares=_share_budget,
    terms={
        "amount": Term(name="amount", stricter=-1, show="{:g}".format),
        "per": Term(name="per"),
        "each": Term(name="each"),
    },
)


# `changeLimit`: how many variants change at once.


class ChangeLimitSection(KindSection):
    """How many variants in scope change at once, the most urgent first; the others follow after the merge."""

    changes: Count
    """the most variants that change"""
    per: Literal["run", "group"] = "run"
    """run, or group: of which each pull request is a part (= run)"""

    def asks(self) -> ChangeLimitRule:
        return ChangeLimitRule(changes=self.changes, by_group=self.per == "group")


def _share_changes(asks: ChangeLimitRule, rule: Rule, subjects: Subjects) -> Iterator[SharedLimit]:
    for bucket, members in buckets_of(rule, subjects, "group" if asks.by_group else ""):
        yield SharedLimit(
            rule=rule,
            counts=Counted.CHANGES,
            bucket=bucket,
            members=frozenset(members),
            limit=asks.changes,
            words=str(asks),
        )


def _judge_change_limit(asks: ChangeLimitRule, rule: Rule, change: Change) -> Spoken | None:
    del asks
    share = change.shares.get(rule.name)
    if share is None or not share.is_exceeded:
        return None
    return Spoken(rule=rule, kind=VerdictKind.HOLD, words=share.words)


CHANGE_LIMIT = RuleKind(
    name="changeLimit",
    asks=ChangeLimitRule,
    section=ChangeLimitSection,
    judge=_judge_change_limit,
    shares=_share_changes,
    terms={"changes": Term(name="changes", stricter=-1), "by_group": Term(name="per group")},
)


# `spot`: how much of a model, or of all models together, may run on accelerators that can be taken away.

NOISE = 1e-9


class SpotSection(KindSection):
    """How much of the replicas may run on spot accelerators; what runs there already may stay."""

    max_share: Percentage
    """the largest share of the replicas, like 50%"""
    of: Literal["model", "fleet"] = "model"
    """model, or fleet: all models together (= model)"""

    def asks(self) -> SpotRule:
        return SpotRule(share=self.max_share, of_fleet=self.of == "fleet")


def _limit(asks: SpotRule, subject: Subject) -> Range | None:
    """As many on spot, or as few others, as the others admit that run now; what runs now may stay."""
    now, beyond = subject.current.replicas, _beside(asks, subject).beyond(asks.share)
    if subject.current.accelerator in subject.spot:
        if asks.share >= 1:
            return None
        most = math.floor(-beyond / (1 - asks.share) + NOISE)
        return Range(most=max(most, now), is_pace=True, words=_words(asks))
    if beyond <= NOISE or not asks.share:
        return None
    least = math.ceil(beyond / asks.share - NOISE)
    return Range(least=min(least, now), is_pace=True, words=_words(asks))


def _judge_spot(asks: SpotRule, rule: Rule, change: Change) -> Spoken | None:
    """Whatever of the plan is merged: what would go beyond stays as it is, the less urgent first."""
    subject = change.subject
    own = subject.spot_of(change.desired) - subject.spot_of(change.current)
    whole = change.spot_in_fleet if asks.of_fleet else change.spot_in_model
    if own.beyond(asks.share) <= NOISE or whole.worst_beyond(asks.share) <= NOISE:
        return None
    return Spoken(rule=rule, kind=VerdictKind.HOLD, words=_words(asks))


def _refuses_spot(asks: SpotRule, accelerator: str, subject: Subject) -> str:
    """A move there of as many replicas as there are now."""
    current = subject.current
    if accelerator not in subject.spot or current.accelerator in subject.spot:
        return ""
    moved = SpotCount(spot=max(current.replicas, 1), total=max(current.replicas, 1))
    return _words(asks) if (_beside(asks, subject) + moved).beyond(asks.share) > NOISE else ""


def _beside(asks: SpotRule, subject: Subject) -> SpotCount:
    return subject.beside_in_fleet if asks.of_fleet else subject.beside_in_model


def _words(asks: SpotRule) -> str:
    whole = "all replicas" if asks.of_fleet else "the replicas of its model"
    return f"at most {asks.share * 100:g} % of {whole} on spot accelerators"


SPOT = RuleKind(
    name="spot",
    asks=SpotRule,
    section=SpotSection,
    limit=_limit,
    judge=_judge_spot,
    refuses=_refuses_spot,
    terms={"share": Term(name="maxShare", stricter=-1, show=as_share), "of_fleet": Term(name="of fleet")},
)
