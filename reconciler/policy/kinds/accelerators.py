"""`accelerators`: on which accelerators replicas may be added."""

from typing import Self

from pydantic import Field, model_validator

from reconciler.domain.globs import path_matches
from reconciler.domain.plan import VerdictKind
from reconciler.domain.rules import AcceleratorsRule, Rule
from reconciler.policy.port import KindSection, RuleKind
from reconciler.policy.reading.values import Glob
from reconciler.policy.subjects import Change, Spoken, Subject


class AcceleratorsSection(KindSection):
    """On which accelerators replicas may be added; those that run there already may stay."""

    allowed: list[Glob] = Field(default_factory=list)
    """a list of globs (= all)"""
    denied: list[Glob] = Field(default_factory=list)
    """a list of globs (= none)"""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.allowed and not self.denied:
            raise ValueError("expected allowed or denied")
        return self

    def asks(self) -> AcceleratorsRule:
        return AcceleratorsRule(allowed=tuple(self.allowed), denied=tuple(self.denied))


def _refuses(asks: AcceleratorsRule, accelerator: str, subject: Subject) -> str:
    del subject
    return _why_not(asks, accelerator)


def _why_not(asks: AcceleratorsRule, accelerator: str) -> str:
    if any(path_matches(pattern, accelerator) for pattern in asks.denied):
        return f"{accelerator} is denied"
    is_allowed = not asks.allowed or any(path_matches(pattern, accelerator) for pattern in asks.allowed)
    return "" if is_allowed else f"{accelerator or 'an unknown accelerator'} is not among the allowed"


def _judge(asks: AcceleratorsRule, rule: Rule, change: Change) -> Spoken | None:
    words = _why_not(asks, change.desired.accelerator) if change.added > 0 or change.is_move else ""
    return Spoken(rule=rule, kind=VerdictKind.REFUSE, words=words) if words else None


ACCELERATORS = RuleKind(
    name="accelerators", asks=AcceleratorsRule, section=AcceleratorsSection, judge=_judge, refuses=_refuses
)
