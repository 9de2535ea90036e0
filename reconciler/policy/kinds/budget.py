"""`budget`: what variants may cost together in an hour, a day or a month."""

from typing import Annotated, Literal

from pydantic import Field

from reconciler.domain.plan import VerdictKind
from reconciler.domain.rules import BudgetRule, Period, Rule
from reconciler.policy.port import KindSection, RuleKind
from reconciler.policy.reading.values import Money
from reconciler.policy.spending import period_of
from reconciler.policy.subjects import Change, Spoken


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


def _judge(asks: BudgetRule, rule: Rule, change: Change) -> Spoken | None:
    """The optimizer kept to it, but for repairs: these a person decides about."""
    del asks  # the amount was heard where all that share it were counted
    share = change.budgets.get(rule.name)
    if share is None or not share.is_exceeded or not change.costs_more:
        return None
    if not change.is_repair:
        return Spoken(rule=rule, kind=VerdictKind.HOLD, words=share.words)
    words = f"{share.words}: beyond it only a person repairs a target"
    return Spoken(rule=rule, kind=VerdictKind.NEEDS_APPROVAL, words=words)


def _since(asks: BudgetRule, now_s: float) -> float | None:
    return None if asks.per is Period.HOUR else period_of(asks.per, now_s)[0]


BUDGET = RuleKind(name="budget", asks=BudgetRule, section=BudgetSection, judge=_judge, since=_since)
