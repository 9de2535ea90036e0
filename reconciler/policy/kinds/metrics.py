"""`metrics`: how much must be seen of a variant before it changes."""

from reconciler.domain.rules import MetricsRule
from reconciler.policy.port import KindSection, RuleKind
from reconciler.policy.reading.values import Percentage
from reconciler.policy.subjects import Range, Subject, as_now


class MetricsSection(KindSection):
    """How much must be seen of a variant before it changes; what is missing or stale holds it without any rule."""

    min_reporting: Percentage
    """the share of its replicas that report, like 80%"""

    def asks(self) -> MetricsRule:
        return MetricsRule(reporting=self.min_reporting)


def _limit(asks: MetricsRule, subject: Subject) -> Range | None:
    now, reporting = subject.current.replicas, subject.reporting
    if reporting is None or reporting >= asks.reporting * now - 1e-9:
        return None
    return as_now(subject, f"{reporting} of {now} replicas report, {asks.reporting * 100:g} % are to")


METRICS = RuleKind(name="metrics", asks=MetricsRule, section=MetricsSection, limit=_limit)
