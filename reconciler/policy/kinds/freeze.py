"""`freeze`: times at which nothing changes."""

from datetime import datetime
from zoneinfo import ZoneInfo

from reconciler.domain.rules import FreezeRule
from reconciler.policy.port import RuleKind
from reconciler.policy.reading.windows import WindowSection
from reconciler.policy.subjects import Range, Subject, as_now
from reconciler.policy.windows import open_until


class FreezeSection(WindowSection):
    """When nothing changes."""

    def asks(self) -> FreezeRule:
        return FreezeRule(window=self.window())


def _limit(asks: FreezeRule, subject: Subject) -> Range | None:
    until_s = open_until(asks.window, subject.now_s)
    if until_s is None:
        return None
    until = datetime.fromtimestamp(until_s, tz=ZoneInfo(asks.window.time_zone))
    return as_now(subject, f"frozen until {until:%Y-%m-%d %H:%M} ({asks.window.time_zone})")


FREEZE = RuleKind(name="freeze", asks=FreezeRule, section=FreezeSection, limit=_limit)
