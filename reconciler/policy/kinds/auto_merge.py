"""`autoMerge`: changes that need no person to merge them, as far as no rule objects."""

import math

from reconciler.domain.plan import VerdictKind
from reconciler.domain.rules import AutoMergeRule, Rule
from reconciler.policy.port import KindSection, RuleKind
from reconciler.policy.reading.values import PositiveCount
from reconciler.policy.subjects import Change, Spoken


class AutoMergeSection(KindSection):
    """Which changes merge by themselves; {} is every change in scope that no rule leaves to a person."""

    merges_per_hour: PositiveCount | None = None
    """the most pull requests of ours that are merged in an hour (= pullRequests.limits.mergesPerHour)"""

    def asks(self) -> AutoMergeRule:
        return AutoMergeRule(per_hour=self.merges_per_hour)


def _judge(asks: AutoMergeRule, rule: Rule, change: Change) -> Spoken | None:
    del change
    words = "merges by itself" if asks.per_hour is None else f"merges by itself, at most {asks.per_hour} an hour"
    per_hour = math.inf if asks.per_hour is None else asks.per_hour
    return Spoken(rule=rule, kind=VerdictKind.ALLOW, words=words, merges_per_hour=per_hour)


AUTO_MERGE = RuleKind(name="autoMerge", asks=AutoMergeRule, section=AutoMergeSection, judge=_judge)
