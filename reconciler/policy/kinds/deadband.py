"""`deadband`: changes that are too small to be worth a pull request."""

from reconciler.domain.plan import VerdictKind
from reconciler.domain.rules import DeadbandRule, Rule
from reconciler.policy.port import KindSection, RuleKind
from reconciler.policy.reading.values import ReplicasOrShare
from reconciler.policy.subjects import Change, Spoken


class DeadbandSection(KindSection):
    """Changes of so few replicas are not proposed, unless the load exceeds what runs now."""

    within: ReplicasOrShare
    """replicas that are not worth a change, like 1 or 10%"""

    def asks(self) -> DeadbandRule:
        return DeadbandRule(width=self.within)


def _judge(asks: DeadbandRule, rule: Rule, change: Change) -> Spoken | None:
    width = asks.width
    most = width.replicas if width.replicas is not None else (width.fraction or 0.0) * change.current.replicas
    if change.is_move or change.is_repair or abs(change.added) > most:
        return None
    return Spoken(rule=rule, kind=VerdictKind.HOLD, words=f"not worth a change within {width}")


DEADBAND = RuleKind(name="deadband", asks=DeadbandRule, section=DeadbandSection, judge=_judge)
