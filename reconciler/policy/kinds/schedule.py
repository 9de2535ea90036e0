"""`schedule`: how many replicas a variant may have at some times."""

from typing import Self

from pydantic import model_validator

from reconciler.domain.rules import ScheduleRule
from reconciler.policy.port import RuleKind
from reconciler.policy.reading.values import Count
from reconciler.policy.reading.windows import WindowSection
from reconciler.policy.subjects import Range, Subject
from reconciler.policy.windows import told_until


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


def _limit(asks: ScheduleRule, subject: Subject) -> Range | None:
    until = told_until(asks.window, subject.now_s)
    if until is None:
        return None
    cap, floor = f"at most {asks.most} {until}", f"at least {asks.least} {until}"
    return Range(least=asks.least or 0, most=asks.most, words=cap, floor_words=floor)


SCHEDULE = RuleKind(name="schedule", asks=ScheduleRule, section=ScheduleSection, limit=_limit)
