"""`cooldown`: how long a variant stays as it is after it was changed."""

from datetime import UTC, datetime

from reconciler.domain.rules import CooldownRule
from reconciler.policy.port import KindSection, RuleKind
from reconciler.policy.reading.values import Duration
from reconciler.policy.subjects import Range, Subject, as_now


class CooldownSection(KindSection):
    """How long a variant stays as it is after anybody changed its replicas; at most 30 days."""

    after: Duration
    """a duration like 30m"""

    def asks(self) -> CooldownRule:
        return CooldownRule(after_s=self.after)


def _limit(asks: CooldownRule, subject: Subject) -> Range | None:
    last_s = subject.last_change_s
    if last_s is None or subject.now_s >= last_s + asks.after_s:
        return None
    until = datetime.fromtimestamp(last_s + asks.after_s, tz=UTC)
    day = "" if until.date() == datetime.fromtimestamp(subject.now_s, tz=UTC).date() else f"{until:%Y-%m-%d} "
    return as_now(subject, f"its last change is to settle until {day}{until:%H:%M} UTC")


def _since(asks: CooldownRule, now_s: float) -> float:
    return now_s - asks.after_s


COOLDOWN = RuleKind(name="cooldown", asks=CooldownRule, section=CooldownSection, limit=_limit, since=_since)
