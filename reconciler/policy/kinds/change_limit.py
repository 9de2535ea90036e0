"""`changeLimit`: how many variants change at once."""

from typing import Literal

from reconciler.domain.plan import VerdictKind
from reconciler.domain.rules import ChangeLimitRule, Rule
from reconciler.policy.port import KindSection, RuleKind
from reconciler.policy.reading.values import Count
from reconciler.policy.subjects import Change, Spoken


class ChangeLimitSection(KindSection):
    """How many variants in scope change at once, the most urgent first; the others follow after the merge."""

    changes: Count
    """the most variants that change"""
    per: Literal["run", "group"] = "run"
    """run, or group: of which each pull request is a part (= run)"""

    def asks(self) -> ChangeLimitRule:
        return ChangeLimitRule(changes=self.changes, by_group=self.per == "group")


def _judge(asks: ChangeLimitRule, rule: Rule, change: Change) -> Spoken | None:
    if change.ranks.get(rule.name, 0) < asks.changes:
        return None
    return Spoken(rule=rule, kind=VerdictKind.HOLD, words=str(asks))


CHANGE_LIMIT = RuleKind(name="changeLimit", asks=ChangeLimitRule, section=ChangeLimitSection, judge=_judge)
