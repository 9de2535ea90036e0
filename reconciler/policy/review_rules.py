"""Rules on review: approval, automatic merging, labels and reviewers, evidence from metrics."""

import math
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from typing import Self

from pydantic import model_validator

from reconciler.domain.plan import VerdictKind
from reconciler.domain.rules import ApprovalRule, AutoMergeRule, Direction, LabelsRule, MetricsRule, ReviewersRule, Rule
from reconciler.manifests.wording import join_words
from reconciler.policy.port import (
    Change,
    Effect,
    Forecast,
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
from reconciler.policy.values import (
    Accounts,
    Count,
    Duration,
    Money,
    Percentage,
    PositiveCount,
    PullRequestLabels,
    ReplicasOrShare,
)

# `approval`: changes that a person must merge.

DAY_S = 86400.0


class ApprovalSection(KindSection):
    """Which changes a person must merge: any one of the conditions is enough; {} is every change in scope."""

    up_more_than: ReplicasOrShare | None = None
    """replicas that come, like 2 or 100%"""
    down_more_than: ReplicasOrShare | None = None
    """replicas that go, like 2 or 50%"""
    cost_more_than: Money | None = None
    """what the changes of its group add an hour, in the currency of the configuration"""
    cost_up_more_than: Percentage | None = None
    """what the changes of its group add to its cost, like 20%"""
    accelerator_change: bool = False
    """true or false; true is for every move to another accelerator (= false)"""
    to_zero: bool = False
    """true or false; true is for the last replica that goes (= false)"""
    first_change: bool = False
    """true or false; true is for what we have not changed in the last 30 days (= false)"""
    learned_within: Duration | None = None
    """a duration like 7d: the profile was learned not longer ago"""
    reviewers: Accounts | None = None
    """a list of accounts, or team:NAME, who are asked (= none)"""

    def asks(self) -> ApprovalRule:
        return ApprovalRule(
            up=self.up_more_than,
            down=self.down_more_than,
            cost_per_hour=self.cost_more_than,
            cost_fraction=self.cost_up_more_than,
            accelerator_change=self.accelerator_change,
            to_zero=self.to_zero,
            first_change=self.first_change,
            learned_within_s=self.learned_within,
            reviewers=tuple(self.reviewers or ()),
        )


def _judge(asks: ApprovalRule, rule: Rule, change: Change) -> Spoken | None:
    reasons = tuple(_reasons(asks, change))
    if not reasons and asks.is_conditional:
        return None
    words = ", ".join(reasons) or "a person merges it"
    return Spoken(rule=rule, kind=VerdictKind.NEEDS_APPROVAL, words=words, reviewers=asks.reviewers)


def _reasons(asks: ApprovalRule, change: Change) -> Iterator[str]:
    current = change.current
    for amount, moved, words in ((asks.up, change.added, "up"), (asks.down, -change.added, "down")):
        if amount is not None and moved > 0 and moved > amount.of(current.replicas):
            yield f"more than {amount} {words}"
    yield from _costs(asks, change)
    if asks.accelerator_change and change.is_move:
        yield "another accelerator"
    if asks.to_zero and Direction.TO_ZERO in change.directions:
        yield "no replica is left"
    if asks.first_change and Direction.FIRST in change.directions:
        yield "its first change by us within 30 days"
    if asks.learned_within_s is not None and _is_young(change, asks.learned_within_s):
        yield f"its profile was learned on {change.learned_on}, less than {asks.learned_within_s / DAY_S:g} days ago"


def _costs(asks: ApprovalRule, change: Change) -> Iterator[str]:
    """What a group adds, of which this is a part that costs more; not known without a price."""
    if asks.cost_per_hour is None and asks.cost_fraction is None:
        return
    if not change.costs_more:
        return
    before, added = change.group_cost_before, change.group_cost_added
    if before is None or added is None:
        yield "it is not known what its group costs"
        return
    if asks.cost_per_hour is not None and added > asks.cost_per_hour:
        yield f"its group gets dearer by more than {asks.cost_per_hour:g} an hour"
    if asks.cost_fraction is not None and added > asks.cost_fraction * before:
        yield f"its group gets more than {asks.cost_fraction * 100:g} % dearer"


def _is_young(change: Change, within_s: float) -> bool:
    """From the end of the day on which it was learned: its hour is not known."""
    if not change.learned_on:
        return False
    learned = datetime.combine(date.fromisoformat(change.learned_on), datetime.min.time(), tzinfo=UTC)
    return change.subject.now_s < learned.timestamp() + DAY_S + within_s


APPROVAL = RuleKind(
    name="approval",
    asks=ApprovalRule,
    section=ApprovalSection,
    judge=_judge,
    terms={
        "up": Term(name="upMoreThan", stricter=-1),
        "down": Term(name="downMoreThan", stricter=-1),
        "cost_per_hour": Term(name="costMoreThan", stricter=-1, show="{:g}".format),
        "cost_fraction": Term(name="costUpMoreThan", stricter=-1, show=as_share),
        "accelerator_change": Term(name="acceleratorChange", stricter=1),
        "to_zero": Term(name="toZero", stricter=1),
        "first_change": Term(name="firstChange", stricter=1),
        "learned_within_s": Term(name="learnedWithin", stricter=1, show=as_time),
        "reviewers": Term(name="reviewers"),
    },
)


# `autoMerge`: changes that need no person to merge them, as far as no rule objects.


class AutoMergeSection(KindSection):
    """Which changes merge by themselves; {} is every change in scope that no rule leaves to a person."""

    merges_per_hour: PositiveCount | None = None
    """the most pull requests of ours that are merged in an hour (= pullRequests.limits.mergesPerHour)"""

    def asks(self) -> AutoMergeRule:
        return AutoMergeRule(per_hour=self.merges_per_hour)


def _judge_auto_merge(asks: AutoMergeRule, rule: Rule, change: Change) -> Spoken | None:
    del change
    words = "merges by itself" if asks.per_hour is None else f"merges by itself, at most {asks.per_hour} an hour"
    per_hour = math.inf if asks.per_hour is None else asks.per_hour
    return Spoken(rule=rule, kind=VerdictKind.ALLOW, words=words, merges_per_hour=per_hour)


AUTO_MERGE = RuleKind(
    name="autoMerge",
    asks=AutoMergeRule,
    section=AutoMergeSection,
    judge=_judge_auto_merge,
    terms={"per_hour": Term(name="mergesPerHour", stricter=-1)},
    effect=Effect.PERMITS,
)


# `metrics`: how much must be seen of a variant before it changes.

MINUTE_S, MS = 60.0, 1000.0


class MetricsSection(KindSection):
    """How much must be seen of a variant before it changes; what is missing or stale holds it without any rule."""

    min_reporting: Percentage | None = None
    """the share of its replicas that report, like 80%"""
    max_age: Duration | None = None
    """a duration like 1m: its newest sample is not older"""
    min_samples: Count | None = None
    """requests that its load was measured by"""
    min_coverage: Percentage | None = None
    """the share of the last payback in which its load is known, like 90%"""
    max_disagreement: Percentage | None = None
    """how far its latencies are at most from the forecast of its last merge, like 30%"""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("expected minReporting, maxAge, minSamples, minCoverage or maxDisagreement")
        return self

    def asks(self) -> MetricsRule:
        return MetricsRule(
            reporting=self.min_reporting,
            age_s=self.max_age,
            requests=self.min_samples,
            coverage=self.min_coverage,
            disagreement=self.max_disagreement,
        )


def _limit(asks: MetricsRule, subject: Subject) -> Range | None:
    for lack in LACKS:
        words = next(lack(asks, subject), "")
        if words:
            return as_now(subject, words)
    return None


def _reporting(asks: MetricsRule, subject: Subject) -> Iterator[str]:
    now, reporting = subject.current.replicas, subject.reporting
    if asks.reporting is not None and reporting is not None and reporting < asks.reporting * now - 1e-9:
        yield f"{reporting} of {now} replicas report, {asks.reporting * 100:g} % are to"


def _age(asks: MetricsRule, subject: Subject) -> Iterator[str]:
    age_s = subject.evidence.age_s
    if asks.age_s is not None and age_s is not None and age_s > asks.age_s:
        yield f"its last sample is {age_s:.0f} s old, {asks.age_s:.0f} s are allowed"


def _samples(asks: MetricsRule, subject: Subject) -> Iterator[str]:
    requests, minutes = subject.evidence.requests, subject.evidence.window_s / MINUTE_S
    if asks.requests is not None and requests is not None and requests < asks.requests:
        yield f"its load is that of {requests:.0f} requests in {minutes:g} minutes, {asks.requests} are to be seen"


def _coverage(asks: MetricsRule, subject: Subject) -> Iterator[str]:
    known, minutes = subject.evidence.known, subject.evidence.past_s / MINUTE_S
    if asks.coverage is not None and known is not None and known < asks.coverage - 1e-9:
        told = f"of the last {minutes:g} minutes {known * 100:.0f} % are known"
        yield f"{told}, {asks.coverage * 100:g} % are to be"


def _disagreement(asks: MetricsRule, subject: Subject) -> Iterator[str]:
    if asks.disagreement is not None:
        most = asks.disagreement
        wrong = (each for each in subject.evidence.forecasts if _off(each) > max(most, each.noise))
        for each in wrong:
            mean = f"its mean {each.name.upper() if each.name != 'wait' else 'wait'}"
            forecast = f"{each.measured_s * MS:.3g} ms, #{each.number} forecast {each.forecast_s * MS:.3g} ms"
            yield f"{mean} is {forecast}: {_off(each) * 100:.0f} % apart, {most * 100:g} % are allowed"


def _off(forecast: Forecast) -> float:
    return abs(forecast.measured_s / forecast.forecast_s - 1)


LACKS: tuple[Callable[[MetricsRule, Subject], Iterator[str]], ...] = (
    _reporting,
    _age,
    _samples,
    _coverage,
    _disagreement,
)


METRICS = RuleKind(
    name="metrics",
    asks=MetricsRule,
    section=MetricsSection,
    limit=_limit,
    terms={
        "reporting": Term(name="minReporting", stricter=1, show=as_share),
        "age_s": Term(name="maxAge", stricter=-1, show=as_time),
        "requests": Term(name="minSamples", stricter=1),
        "coverage": Term(name="minCoverage", stricter=1, show=as_share),
        "disagreement": Term(name="maxDisagreement", stricter=-1, show=as_share),
    },
)


# `labels` and `reviewers`: what a pull request carries that holds a change, and who is asked about it.


class LabelsSection(KindSection):
    """Labels of the pull requests that hold a change in scope."""

    add: PullRequestLabels
    """a list of labels"""

    def asks(self) -> LabelsRule:
        return LabelsRule(labels=tuple(self.add))


class ReviewersSection(KindSection):
    """Who is asked to review the pull requests that hold a change in scope."""

    request: Accounts
    """a list of accounts, or team:NAME"""

    def asks(self) -> ReviewersRule:
        return ReviewersRule(reviewers=tuple(self.request))


def _label(asks: LabelsRule, rule: Rule, change: Change) -> Spoken:
    del change
    words = f"labelled {join_words(asks.labels, 'and')}"
    return Spoken(rule=rule, kind=VerdictKind.ALLOW, words=words, labels=asks.labels)


def _ask(asks: ReviewersRule, rule: Rule, change: Change) -> Spoken:
    del change
    words = f"{join_words(asks.reviewers, 'and')} to review"
    return Spoken(rule=rule, kind=VerdictKind.ALLOW, words=words, reviewers=asks.reviewers)


LABELS = RuleKind(
    name="labels",
    asks=LabelsRule,
    section=LabelsSection,
    judge=_label,
    terms={"labels": Term(name="add")},
    effect=Effect.MARKS,
)
REVIEWERS = RuleKind(
    name="reviewers",
    asks=ReviewersRule,
    section=ReviewersSection,
    judge=_ask,
    terms={"reviewers": Term(name="request")},
    effect=Effect.MARKS,
)
