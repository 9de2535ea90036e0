"""`step`: how many replicas may come or go at once, or within an hour or a day."""

from functools import lru_cache
from typing import Literal, Self

from pydantic import model_validator

from reconciler.domain.rules import Amount, StepRule
from reconciler.policy.port import KindSection, RuleKind
from reconciler.policy.reading.values import ReplicasOrShare
from reconciler.policy.subjects import Range, Subject

_SPANS_S = {"run": None, "hour": 3600.0, "day": 86400.0}


class StepSection(KindSection):
    """How far a variant may go at once: from what Git says now, or from what it said an hour or a day ago."""

    up: ReplicasOrShare | None = None
    """replicas that may come, like 2 or 50%; a share admits at least one"""
    down: ReplicasOrShare | None = None
    """replicas that may go, like 2 or 50%; a share admits at least one"""
    per: Literal["run", "hour", "day"] = "run"
    """run, hour or day (= run)"""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.up is None and self.down is None:
            raise ValueError("expected up or down, or both")
        return self

    def asks(self) -> StepRule:
        return StepRule(up=self.up, down=self.down, per_s=_SPANS_S[self.per])


def _limit(asks: StepRule, subject: Subject) -> Range:
    now = subject.current.replicas
    since = now if asks.per_s is None else subject.replicas_at(subject.now_s - asks.per_s)
    within = {None: "at once", 3600.0: "an hour", 86400.0: "a day"}[asks.per_s]
    # What is there already may stay: a person may have gone further.
    least = 0 if asks.down is None else min(since - asks.down.of(since), now)
    most = None if asks.up is None else max(since + asks.up.of(since), now)
    up, down = _words("up", asks.up, within), _words("down", asks.down, within)
    return Range(least=max(least, 0), most=most, is_pace=True, words=up, floor_words=down)


def _since(asks: StepRule, now_s: float) -> float | None:
    return None if asks.per_s is None else now_s - asks.per_s


@lru_cache(maxsize=256)
def _words(direction: str, amount: Amount | None, within: str) -> str:
    return "" if amount is None else f"at most {amount} {direction} {within}"


STEP = RuleKind(name="step", asks=StepRule, section=StepSection, limit=_limit, since=_since)
