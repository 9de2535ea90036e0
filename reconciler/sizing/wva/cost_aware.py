"""Replicas from ballots, without limits: the cheapest capacity up, the dearest replica down (wva.md 5.1)."""

import math
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass

from reconciler.domain.identity import ResourceKey
from reconciler.domain.measured.replicas import Role
from reconciler.sizing.saturation.variants import MOST_REPLICAS, VariantFacts, by_role
from reconciler.sizing.wva.ballot import Ballot
from reconciler.sizing.wva.budgets import DeviceBudget, Grant

Remaining = MutableMapping[tuple[int, Role], float]
Replicas = MutableMapping[ResourceKey, int]
# A share that would take devices twice shrinks by this much at least: the search ends.
_LEAST_CUT = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pick:
    """The variant chosen for a role with what binds it: the analyzer that asks for most replicas of it."""

    variant: VariantFacts
    per_replica: float
    demand: float
    replicas: int

    @property
    def share(self) -> float:
        return self.replicas * self.per_replica / self.demand if self.demand > 0 else 1.0

    def at_share(self, share: float) -> int:
        if self.demand <= 0:
            return 0
        whole = math.floor(min(share * self.demand / self.per_replica, self.replicas))
        return max(whole, min(1, self.replicas))


def cost_aware(variants: Sequence[VariantFacts], ballots: Sequence[Ballot]) -> dict[ResourceKey, int]:
    """Return the replicas of one model: up when any live analyzer lacks anything in any role, else down."""
    replicas = {variant.key: variant.current_replicas for variant in variants}
    live = [ballot for ballot in ballots if ballot.is_live]
    remaining = required_by(live)
    if any(amount > 0 for amount in remaining.values()):
        grow(variants, live, remaining, replicas, DeviceBudget.unlimited())
    else:
        shrink(variants, live, replicas)
    return replicas


def required_by(ballots: Sequence[Ballot]) -> Remaining:
    """Return what each ballot lacks in each role."""
    return {
        (index, role): signal.required if math.isfinite(signal.required) else 0.0
        for index, ballot in enumerate(ballots)
        for role, signal in ballot.signals.items()
    }


def grow(
    variants: Sequence[VariantFacts],
    ballots: Sequence[Ballot],
    remaining: Remaining,
    replicas: Replicas,
    budget: DeviceBudget,
) -> bool:
    """Add replicas until nothing is lacking or nothing can be added; say whether any was.

    Changes `remaining`, `replicas` and `budget`. Roles commit together: each gets the share of its need that the one
    with the least room gets, at least a replica where it lacks any, so that prefill never runs ahead of decode. A
    role that cannot be served stops its whole model.
    """
    groups = by_role(variants)
    has_grown = False
    while needy := [role for role in sorted(Role) if _lacks(remaining, role)]:
        offers = [_pick(groups.get(role, ()), role, ballots, remaining, replicas, budget) for role in needy]
        picks = [pick for pick in offers if pick is not None]
        grants = _joint(picks, budget) if len(picks) == len(needy) else ()
        if not grants:
            break
        has_grown = True
        budget.take(grants)
        for grant in grants:
            replicas[grant.variant.key] += grant.replicas
            _take(remaining, grant.variant.role, ballots, grant.variant.key, grant.replicas)
    return has_grown


def _joint(picks: Sequence[_Pick], budget: DeviceBudget) -> tuple[Grant, ...]:
    """What the roles can have together: their common share, less where they would take the same devices twice."""
    share = min(pick.share for pick in picks)
    while True:
        grants = tuple(Grant(variant=pick.variant, replicas=pick.at_share(share)) for pick in picks)
        excess = budget.excess(grants)
        if excess <= 1:
            return grants if any(grant.replicas for grant in grants) else ()
        if all(grant.replicas <= 1 for grant in grants):
            return ()
        share = min(share / excess, share * (1 - _LEAST_CUT))


def shrink(variants: Sequence[VariantFacts], ballots: Sequence[Ballot], replicas: Replicas) -> None:
    """Remove replicas, the dearest first, of every role in which all live analyzers that know it have spare."""
    spare: Remaining = {
        (index, role): signal.spare for index, ballot in enumerate(ballots) for role, signal in ballot.signals.items()
    }
    for role, group in by_role(variants).items():
        said = [amount for (_, said_role), amount in spare.items() if said_role is role]
        if not said or min(said) <= 0:
            continue
        for variant in sorted(group, key=lambda each: (-each.cost, _weighted(ballots, each.key), each.name, each.key)):
            count = _removable(variant, group, ballots, spare, replicas)
            replicas[variant.key] -= count
            _take(spare, role, ballots, variant.key, count)


def per_replica_of(ballots: Sequence[Ballot], key: ResourceKey) -> float | None:
    """Return what one replica carries in the unit of the first ballot that knows it."""
    return next((value for ballot in ballots if (value := _carried(ballot, key)) > 0), None)


def efficiency_of(variant: VariantFacts, per_replica: float) -> tuple[float, str, ResourceKey]:
    """Return the order in which variants are filled: cost per unit carried, then name."""
    return variant.cost / per_replica, variant.name, variant.key


def _pick(
    group: Sequence[VariantFacts],
    role: Role,
    ballots: Sequence[Ballot],
    remaining: Remaining,
    replicas: Mapping[ResourceKey, int],
    budget: DeviceBudget,
) -> _Pick | None:
    offers = []
    for variant in group:
        planned = replicas[variant.key]
        free = min(variant.headroom(planned), budget.room(variant), MOST_REPLICAS - planned)
        asked = [
            (remaining.get((index, role), 0.0) / carried, -index)
            for index, ballot in enumerate(ballots)
            if (carried := _carried(ballot, variant.key)) > 0
        ]
        most, position = max(asked, default=(0.0, 0))
        if free < 1 or most <= 0:
            continue
        offers.append(
            _Pick(
                variant=variant,
                per_replica=_carried(ballots[-position], variant.key),
                demand=remaining.get((-position, role), 0.0),
                replicas=int(min(math.ceil(most), free)),
            )
        )
    return min(offers, key=lambda offer: efficiency_of(offer.variant, offer.per_replica), default=None)


def _removable(
    variant: VariantFacts,
    group: Sequence[VariantFacts],
    ballots: Sequence[Ballot],
    spare: Remaining,
    replicas: Mapping[ResourceKey, int],
) -> int:
    """Whole replicas inside every analyzer's spare; the last variant of a role that still serves keeps one."""
    counts = [
        math.floor(spare.get((index, variant.role), 0.0) / carried)
        for index, ballot in enumerate(ballots)
        if (carried := _carried(ballot, variant.key)) > 0
    ]
    if not counts:
        return 0
    is_last = not any(replicas[other.key] > 0 for other in group if other.key != variant.key)
    floor = max(variant.floor, 1 if is_last else 0)
    return max(min([*counts, replicas[variant.key] - floor]), 0)


def _lacks(remaining: Remaining, role: Role) -> bool:
    return any(amount > 0 for (_, of), amount in remaining.items() if of is role)


def _take(amounts: Remaining, role: Role, ballots: Sequence[Ballot], key: ResourceKey, count: int) -> None:
    for index, ballot in enumerate(ballots):
        if (index, role) in amounts:
            amounts[index, role] = max(amounts[index, role] - count * _carried(ballot, key), 0.0)


def _carried(ballot: Ballot, key: ResourceKey) -> float:
    value = ballot.per_replica.get(key, 0.0)
    return value if math.isfinite(value) else 0.0


def _weighted(ballots: Sequence[Ballot], key: ResourceKey) -> float:
    return sum(ballot.score * _carried(ballot, key) for ballot in ballots)
