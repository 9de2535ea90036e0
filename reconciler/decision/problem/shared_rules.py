"""Rules that variants share: budgets and limits on changes, with who shares them."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from reconciler.decision.costs import cost_of
from reconciler.decision.problem.needs import Allocations
from reconciler.domain.identity import ResourceKey
from reconciler.domain.rules import BudgetRule, ChangeLimitRule, Period, Rule
from reconciler.domain.variant_settings import GROUP
from reconciler.policy.scopes import covers
from reconciler.policy.spending import left_an_hour
from reconciler.policy.subjects import BudgetShare, Subject


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedLimit:
    """The variants that share what a rule asks, `bucket` in words; `limit` is money an hour, or changes."""

    rule: Rule
    bucket: str
    members: frozenset[ResourceKey]
    limit: float
    unknown: str = ""
    """Why nobody knows what is left of a budget; nothing may be added to it then."""

    @property
    def name(self) -> str:
        """What the plan calls it."""
        return f"{self.rule.name} ({self.bucket})" if self.bucket else self.rule.name

    def share(self, subjects: Mapping[ResourceKey, Subject], allocations: Allocations) -> BudgetShare:
        """What a plan makes of it; without a price nobody knows, and that counts as too much."""
        costs = [cost_of(subjects[key].variant, allocations[key]) for key in self.members]
        spent = math.inf if None in costs else math.fsum(cost or 0.0 for cost in costs)
        asks = self.rule.asks
        article = "an" if isinstance(asks, BudgetRule) and asks.per is Period.HOUR else "a"
        whole = f"{asks.amount:g} {article} {asks.per}" if isinstance(asks, BudgetRule) else ""
        of = f" of {self.bucket}" if self.bucket else ""
        budget = f"the budget{of} of {whole}"
        words = f"what is left of {budget} is not known: {self.unknown}" if self.unknown else f"{budget} is used up"
        return BudgetShare(limit=self.limit, spent=spent, words=words)


def shared_rules(rules: Iterable[Rule], subjects: Mapping[ResourceKey, Subject]) -> tuple[SharedLimit, ...]:
    """Every budget and limit on changes with the variants that share it."""
    return tuple(each for rule in rules for each in _shared(rule, subjects))


def _shared(rule: Rule, subjects: Mapping[ResourceKey, Subject]) -> Iterator[SharedLimit]:
    asks = rule.asks
    if not isinstance(asks, BudgetRule | ChangeLimitRule):
        return
    bucket_of = _by(asks.each) if isinstance(asks, BudgetRule) else _by("group" if asks.by_group else "")
    buckets: defaultdict[str, dict[ResourceKey, Subject]] = defaultdict(dict)
    for key, subject in subjects.items():
        if covers(rule.scope, subject):
            buckets[bucket_of(subject)][key] = subject
    for bucket, members in sorted(buckets.items()):
        limit, unknown = (asks.changes, "") if isinstance(asks, ChangeLimitRule) else _limit(asks, members)
        yield SharedLimit(rule=rule, bucket=bucket, members=frozenset(members), limit=limit, unknown=unknown)


def _by(each: str) -> Callable[[Subject], str]:
    def bucket_of(subject: Subject) -> str:
        variant = subject.variant
        texts = {
            "": "",
            "cluster": variant.key.cluster,
            "namespace": f"{variant.key.cluster}/{variant.key.namespace}",
            "model": str(variant.model.whole),
            "group": variant.settings[GROUP].value,
        }
        text = texts.get(each)
        return variant.labels.get(each.removeprefix("label:"), "none") if text is None else text

    return bucket_of


def _limit(asks: BudgetRule, members: Mapping[ResourceKey, Subject]) -> tuple[float, str]:
    """Money an hour: what is left, but never less than what runs now; only that, and why, where nobody knows."""
    current = math.fsum(cost_of(each.variant, each.current) or 0.0 for each in members.values())
    now_s = next(iter(members.values())).now_s
    left = left_an_hour(asks, members.values(), now_s)
    return (current, left) if isinstance(left, str) else (max(left, current), "")
