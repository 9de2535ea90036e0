"""`spot`: how much of a model, or of all models together, may run on accelerators that can be taken away."""

import math
from typing import Literal

from reconciler.domain.plan import VerdictKind
from reconciler.domain.rules import Rule, SpotRule
from reconciler.policy.port import KindSection, RuleKind
from reconciler.policy.reading.values import Percentage
from reconciler.policy.subjects import Change, Range, Spoken, SpotCount, Subject

NOISE = 1e-9


class SpotSection(KindSection):
    """How much of the replicas may run on spot accelerators; what runs there already may stay."""

    max_share: Percentage
    """the largest share of the replicas, like 50%"""
    of: Literal["model", "fleet"] = "model"
    """model, or fleet: all models together (= model)"""

    def asks(self) -> SpotRule:
        return SpotRule(share=self.max_share, of_fleet=self.of == "fleet")


def _limit(asks: SpotRule, subject: Subject) -> Range | None:
    """As many on spot, or as few beside them, as the others admit that run now; what runs now may stay."""
    now, beyond = subject.current.replicas, _beside(asks, subject).beyond(asks.share)
    if subject.current.accelerator in subject.spot:
        if asks.share >= 1:
            return None
        most = math.floor(-beyond / (1 - asks.share) + NOISE)
        return Range(most=max(most, now), is_pace=True, words=_words(asks))
    if beyond <= NOISE or not asks.share:
        return None
    least = math.ceil(beyond / asks.share - NOISE)
    return Range(least=min(least, now), is_pace=True, words=_words(asks))


def _judge(asks: SpotRule, rule: Rule, change: Change) -> Spoken | None:
    """Whatever of the plan is merged: what would go beyond stays as it is, the less urgent first."""
    subject = change.subject
    own = subject.spot_of(change.desired) - subject.spot_of(change.current)
    whole = change.spot_in_fleet if asks.of_fleet else change.spot_in_model
    if own.beyond(asks.share) <= NOISE or whole.worst_beyond(asks.share) <= NOISE:
        return None
    return Spoken(rule=rule, kind=VerdictKind.HOLD, words=_words(asks))


def _refuses(asks: SpotRule, accelerator: str, subject: Subject) -> str:
    """A move there of as many replicas as there are now."""
    current = subject.current
    if accelerator not in subject.spot or current.accelerator in subject.spot:
        return ""
    moved = SpotCount(spot=max(current.replicas, 1), total=max(current.replicas, 1))
    return _words(asks) if (_beside(asks, subject) + moved).beyond(asks.share) > NOISE else ""


def _beside(asks: SpotRule, subject: Subject) -> SpotCount:
    return subject.beside_in_fleet if asks.of_fleet else subject.beside_in_model


def _words(asks: SpotRule) -> str:
    whole = "all replicas" if asks.of_fleet else "the replicas of its model"
    return f"at most {asks.share * 100:g} % of {whole} on spot accelerators"


SPOT = RuleKind(name="spot", asks=SpotRule, section=SpotSection, limit=_limit, judge=_judge, refuses=_refuses)
