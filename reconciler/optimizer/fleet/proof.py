"""What a plan shows besides itself: what it takes of everything shared, at which price, and how it bears surprises."""

from collections.abc import Iterator, Mapping

from reconciler.domain.allocations import Allocation
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.requirements import Problem, Requirement
from reconciler.domain.solutions import Sensitivity, SharedUse
from reconciler.optimizer.device_use import Allocations, DeviceUse

SCENARIOS = ((1.25, 1.0), (1.5, 1.0), (1.0, 0.9))
"""Factors on demand and on capacity under which the plan is looked at again (arXiv 2604.07472 asks for 1.5)."""

_NOISE = 1e-6


def shared_uses(
    problem: Problem, allocations: Mapping[ResourceKey, Allocation], prices: Mapping[str, float]
) -> tuple[SharedUse, ...]:
    """What all variants take of everything shared, pinned ones too, and what one more of it would save an hour."""
    device_use, everybody = DeviceUse.of(problem), {**problem.current, **allocations}
    uses = (
        *_pools(problem, device_use, everybody),
        *_budgets(problem, device_use, everybody),
        *_changes(problem, everybody),
    )
    return tuple(
        SharedUse(name=name, used=round(used, 6), limit=round(limit, 6), price=round(prices.get(name, 0.0), 6))
        for name, used, limit in uses
    )


def _pools(problem: Problem, device_use: DeviceUse, everybody: Allocations) -> Iterator[tuple[str, float, float]]:
    used = device_use.pools(everybody)
    for pool in sorted(problem.pools, key=lambda each: each.name):
        yield pool.name, float(used[pool.name]), float(pool.devices)


def _budgets(problem: Problem, device_use: DeviceUse, everybody: Allocations) -> Iterator[tuple[str, float, float]]:
    for budget in sorted(problem.budgets, key=lambda each: each.name):
        yield budget.name, device_use.spent(everybody, budget.variants), budget.amount


def _changes(problem: Problem, everybody: Allocations) -> Iterator[tuple[str, float, float]]:
    for limit in sorted(problem.change_limits, key=lambda each: each.name):
        changed = sum(everybody[key] != problem.current[key] for key in limit.variants)
        yield limit.name, float(changed), float(limit.changes)


def sensitivity(problem: Problem, allocations: Mapping[ResourceKey, Allocation]) -> tuple[Sensitivity, ...]:
    """How many models the plan would leave short if demand or capacity were another.

    Finished answers have neither, and what carries nothing anywhere (no target can be met) is no surprise.
    """
    covered = [
        (_carried(requirement, allocations) / requirement.amount, requirement.model)
        for requirement in problem.requirements
        if requirement.fixed is None and requirement.amount > 0 and any(requirement.per_replica.values())
    ]
    return tuple(_scenario(covered, demand, capacity) for demand, capacity in SCENARIOS) if covered else ()


def _carried(requirement: Requirement, allocations: Mapping[ResourceKey, Allocation]) -> float:
    return sum(
        amount * allocations[key.variant].replicas
        for key, amount in requirement.per_replica.items()
        if key.variant in allocations and allocations[key.variant].accelerator == key.accelerator
    )


def _scenario(covered: list[tuple[float, ModelKey]], demand: float, capacity: float) -> Sensitivity:
    shares = [(share * capacity / demand, model) for share, model in covered]
    worst, model = min(shares)
    short = sum(share < 1 - _NOISE for share, _ in shares)
    return Sensitivity(
        demand_factor=demand,
        capacity_factor=capacity,
        short=short,
        worst=model if short else None,
        worst_covered=round(min(worst, 1.0), 6),
    )
