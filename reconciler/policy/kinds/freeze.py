"""`freeze`: times at which nothing changes."""

from reconciler.domain.rules import FreezeRule
from reconciler.policy.port import RuleKind
from reconciler.policy.reading.windows import WindowSection
from reconciler.policy.subjects import Range, Subject, as_now
from reconciler.policy.windows import told_until


class FreezeSection(WindowSection):
    """When nothing changes."""

    def asks(self) -> FreezeRule:
        return FreezeRule(window=self.window())


def _limit(asks: FreezeRule, subject: Subject) -> Range | None:
    until = told_until(asks.window, subject.now_s)
    return None if until is None else as_now(subject, f"frozen {until}")


FREEZE = RuleKind(name="freeze", asks=FreezeRule, section=FreezeSection, limit=_limit)
