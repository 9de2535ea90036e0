"""`bounds`: how many replicas, how many devices, how much of a pool a variant may have."""

from typing import Self

from pydantic import model_validator

from reconciler.domain.rules import BoundsRule
from reconciler.policy.port import KindSection, RuleKind
from reconciler.policy.reading.values import Count, Percentage
from reconciler.policy.subjects import Range, Subject


class BoundsSection(KindSection):
    """How many replicas a variant may have, and how many devices its replicas may take together."""

    min_replicas: Count | None = None
    """the fewest replicas"""
    max_replicas: Count | None = None
    """the most replicas"""
    max_devices: Count | None = None
    """the most devices that its replicas take together"""
    max_pool_share: Percentage | None = None
    """the most that it takes of any pool, like 50%"""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        least, most = self.min_replicas, self.max_replicas
        if not self.model_fields_set:
            raise ValueError("expected minReplicas, maxReplicas, maxDevices or maxPoolShare")
        if least is not None and most is not None and least > most:
            raise ValueError(f"expected minReplicas of at most maxReplicas, got {least} and {most}")
        return self

    def asks(self) -> BoundsRule:
        return BoundsRule(
            least=self.min_replicas, most=self.max_replicas, devices=self.max_devices, pool_share=self.max_pool_share
        )


def _limit(asks: BoundsRule, subject: Subject) -> Range:
    each = max(subject.devices.values(), default=0)
    limits = [] if asks.most is None else [(asks.most, f"at most {_replicas(asks.most)}")]
    if asks.devices is not None and each:
        limits.append((asks.devices // each, f"at most {asks.devices} devices, {each} for each replica"))
    if asks.pool_share is not None:
        for pool, count in subject.devices.items():
            share = f"at most {asks.pool_share * 100:g} % of pool {pool}"
            limits.append((int(asks.pool_share * subject.pools[pool] + 1e-9) // count, share))
    most, words = min(limits, default=(None, ""))
    least = asks.least or 0
    floor = f"at least {_replicas(least)}" if least else ""
    return Range(least=least, most=most, words=words, floor_words=floor)


def _replicas(number: int) -> str:
    return f"{number} replica" if number == 1 else f"{number} replicas"


BOUNDS = RuleKind(name="bounds", asks=BoundsRule, section=BoundsSection, limit=_limit)
