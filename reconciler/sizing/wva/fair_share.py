"""Replicas from ballots when devices are scarce: the model that lacks most comes down to the mean (wva.md 5.2)."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.sizing.saturation.variants import VariantFacts
from reconciler.sizing.wva.ballot import Ballot
from reconciler.sizing.wva.budgets import DeviceBudget
from reconciler.sizing.wva.cost_aware import Remaining, Replicas, grow, required_by, shrink


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelBallots:
    """A model with its variants and what the analyzers say of it."""

    model: ModelKey
    variants: tuple[VariantFacts, ...]
    ballots: tuple[Ballot, ...]
    priority: float = 1.0


@dataclass(slots=True)
class _Share:
    """A model while it is served: what it still lacks, and the replicas it has got so far."""

    asked: ModelBallots
    ballots: list[Ballot]
    replicas: Replicas
    remaining: Remaining = field(default_factory=dict)
    has_left: bool = False

    @property
    def value(self) -> float:
        """priority * sum of score * what is lacking; without any weight the largest lack."""
        weighted = sum(self.ballots[index].score * amount for (index, _), amount in self.remaining.items())
        value = self.asked.priority * weighted
        return value if value > 0 else max(self.remaining.values(), default=0.0)

    @property
    def is_hungry(self) -> bool:
        return not self.has_left and self.value > 0


def fair_share(models: Sequence[ModelBallots], budget: DeviceBudget) -> dict[ResourceKey, int]:
    """Return the replicas of all models within the budget, which is used up on the way."""
    shares = [_share_of(asked) for asked in sorted(models, key=lambda each: each.model)]
    lacking = [share for share in shares if share.value > 0]
    for share in shares:
        if share.value <= 0:
            shrink(share.asked.variants, share.ballots, share.replicas)
    while (hungry := [share for share in lacking if share.is_hungry]) and not budget.is_empty:
        mean = sum(share.value for share in hungry) / len(hungry)
        most = max(hungry, key=lambda share: share.value)
        most.has_left = not _serve(most, most.value - _level(most, mean, len(hungry)), budget)
    return {key: count for share in shares for key, count in share.replicas.items()}


def _share_of(asked: ModelBallots) -> _Share:
    live = [ballot for ballot in asked.ballots if ballot.is_live]
    return _Share(
        asked=asked,
        ballots=live,
        replicas={variant.key: variant.current_replicas for variant in asked.variants},
        remaining=required_by(live),
    )


def _level(most: _Share, mean: float, count: int) -> float:
    """Where the hungriest comes down to: the mean, or below it where all lack the same."""
    if count == 1:
        return 0.0
    return mean if most.value > mean else mean - most.value / count


def _serve(share: _Share, target: float, budget: DeviceBudget) -> bool:
    """Grant a model as much as `target` in every role; what is beyond it stays lacking."""
    capped = {place: min(amount, target) for place, amount in share.remaining.items()}
    replicas = dict(share.replicas)
    has_grown = grow(share.asked.variants, share.ballots, capped, share.replicas, budget)
    for place in share.remaining:
        index, role = place
        added = sum(
            (share.replicas[variant.key] - replicas[variant.key])
            * share.ballots[index].per_replica.get(variant.key, 0.0)
            for variant in share.asked.variants
            if variant.role is role
        )
        share.remaining[place] = max(share.remaining[place] - added, 0.0)
    return has_grown
