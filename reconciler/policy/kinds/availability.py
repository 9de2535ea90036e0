"""`availability`: how many replicas stay ready, and how many variants of a model change at once."""

from typing import Self

from pydantic import model_validator

from reconciler.domain.plan import VerdictKind
from reconciler.domain.rules import AvailabilityRule, Rule
from reconciler.policy.port import KindSection, RuleKind
from reconciler.policy.reading.values import Count, ReplicasOrShare
from reconciler.policy.subjects import Change, Range, Spoken, Subject


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
    name="availability", asks=AvailabilityRule, section=AvailabilitySection, limit=_limit, judge=_judge
)
