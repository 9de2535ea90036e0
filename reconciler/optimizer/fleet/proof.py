"""What a plan shows besides itself: what it takes of everything shared, at which price, and how it bears surprises."""

from collections.abc import Mapping

import numpy as np

from reconciler.domain.allocations import Allocation
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.requirements import Problem, Requirement
from reconciler.domain.solutions import Sensitivity, SharedUse
from reconciler.optimizer.fleet.formulation import Formulation, formulate
from reconciler.optimizer.fleet.planning import FleetPlan, use_of

SCENARIOS = ((1.25, 1.0), (1.5, 1.0), (1.0, 0.9))
"""Factors on demand and on capacity under which the plan is looked at again (arXiv 2604.07472 asks for 1.5)."""

_NOISE = 1e-6


def shared_uses(formulation: Formulation, plan: FleetPlan) -> tuple[SharedUse, ...]:
    """What the plan takes of each shared row, and what one more of it would save an hour."""
    used = use_of(formulation, plan.counts)
    return tuple(
        SharedUse(name=name, used=round(float(taken), 6), limit=round(float(limit), 6), price=round(float(price), 6))
        for name, taken, limit, price in zip(
            formulation.shared.names, used, formulation.shared.limits, plan.prices, strict=True
        )
    )


def unpriced_uses(problem: Problem, allocations: Mapping[ResourceKey, Allocation]) -> tuple[SharedUse, ...]:
    """The same of a plan that no shared row limits."""
    if not (problem.pools or problem.budgets or problem.change_limits):
        return ()
    formulation = formulate(problem)
    counts = [
        allocations[key.variant].replicas if allocations[key.variant].accelerator == key.accelerator else 0
        for key in formulation.choices.keys
    ]
    used = use_of(formulation, np.array(counts, dtype=np.int64))
    return tuple(
        SharedUse(name=name, used=round(float(taken), 6), limit=round(float(limit), 6))
        for name, taken, limit in zip(formulation.shared.names, used, formulation.shared.limits, strict=True)
    )


def sensitivity(problem: Problem, allocations: Mapping[ResourceKey, Allocation]) -> tuple[Sensitivity, ...]:
    """How many models the plan would leave short if demand or capacity were another; finished answers have neither."""
    covered = [
        (_carried(requirement, allocations) / requirement.amount, requirement.model)
        for requirement in problem.requirements
        if requirement.fixed is None and requirement.amount > 0
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
