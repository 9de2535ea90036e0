"""`approval`: changes that a person must merge."""

from collections.abc import Iterator
from datetime import UTC, date, datetime

from reconciler.domain.plan import VerdictKind
from reconciler.domain.rules import ApprovalRule, Direction, Rule
from reconciler.policy.port import KindSection, RuleKind
from reconciler.policy.reading.values import Accounts, Duration, Money, Percentage, ReplicasOrShare
from reconciler.policy.subjects import Change, Spoken

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
    """What a group adds, of which this is a part that costs more; without a price nobody knows."""
    if asks.cost_per_hour is None and asks.cost_fraction is None:
        return
    if not change.costs_more:
        return
    before, added = change.group_cost_before, change.group_cost_added
    if before is None or added is None:
        yield "nobody knows what its group costs"
        return
    if asks.cost_per_hour is not None and added > asks.cost_per_hour:
        yield f"its group gets dearer by more than {asks.cost_per_hour:g} an hour"
    if asks.cost_fraction is not None and added > asks.cost_fraction * before:
        yield f"its group gets more than {asks.cost_fraction * 100:g} % dearer"


def _is_young(change: Change, within_s: float) -> bool:
    """From the end of the day on which it was learned: nobody wrote the hour down."""
    if not change.learned_on:
        return False
    learned = datetime.combine(date.fromisoformat(change.learned_on), datetime.min.time(), tzinfo=UTC)
    return change.subject.now_s < learned.timestamp() + DAY_S + within_s


APPROVAL = RuleKind(name="approval", asks=ApprovalRule, section=ApprovalSection, judge=_judge)
