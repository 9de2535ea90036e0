"""`cooldown`: how long a variant stays as it is after a change of ours was merged."""

from datetime import UTC, datetime

from reconciler.domain.rules import CooldownRule
from reconciler.policy.port import KindSection, RuleKind
from reconciler.policy.reading.values import Duration
from reconciler.policy.subjects import Range, Subject, as_now


class CooldownSection(KindSection):
    """How long a variant stays as it is after a change of ours was merged; at most 30 days."""

    after: Duration
    """a duration like 30m"""

    def asks(self) -> CooldownRule:
        return CooldownRule(after_s=self.after)


def _limit(asks: CooldownRule, subject: Subject) -> Range | None:
    if not subject.merges:
        return None
    until_s = subject.merges[-1].at_s + asks.after_s
    if subject.now_s >= until_s:
        return None
    return as_now(subject, f"its last merge is to settle until {datetime.fromtimestamp(until_s, tz=UTC):%H:%M} UTC")


COOLDOWN = RuleKind(name="cooldown", asks=CooldownRule, section=CooldownSection, limit=_limit)
