"""What a plan shows besides itself: what it takes of everything shared, at which price, and how it bears surprises."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.requirements import Problem, Requirement
from reconciler.domain.solutions import ModelCoverage, Sensitivity, SharedUse
from reconciler.domain.units import significant
from reconciler.optimizer.device_use import Allocations, DeviceUse
from reconciler.optimizer.fleet.formulating import model_place

SCENARIOS = ((1.25, 1.0), (1.5, 1.0), (1.0, 0.9))
"""Factors on demand and on capacity under which the plan is looked at again (arXiv 2604.07472 asks for 1.5)."""

RIVALS = 5
"""How many of those that a model competes with are named: the most urgent."""

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


def coverages(
    problem: Problem, allocations: Allocations, scarce: Mapping[ModelKey, tuple[str, ...]]
) -> tuple[ModelCoverage, ...]:
    """What each model needs and gets; `scarce` are the shared rows without room for one more of its replicas."""
    everybody = {**problem.current, **allocations}
    ordered = sorted(problem.requirements, key=model_place)
    takers = _takers(problem, ordered, everybody, {name for names in scarce.values() for name in names})
    found = []
    for place, requirement in enumerate(ordered):
        fixed, model = requirement.fixed, requirement.model
        needed = requirement.amount if fixed is None else float(sum(fixed.values()))
        given = _carried(requirement, everybody) if fixed is None else sum(everybody[key].replicas for key in fixed)
        names = scarce.get(model, ()) if given < needed * (1 - _NOISE) else ()
        rivals = sorted({each for name in names for each in takers[name][: RIVALS + 1] if each[1] != place})
        found.append(
            ModelCoverage(
                model=model,
                unit=requirement.unit,
                needed=significant(needed),
                given=significant(float(given)),
                priority=requirement.priority,
                competes_for=names,
                rivals=tuple(ordered[each].model for _, each in rivals[:RIVALS]),
                decided_at=min((-last for name in names for last in _last_other(takers[name], place)), default=None),
            )
        )
    return tuple(found)


Taker = tuple[int, int]
"""The negative priority of a model and its place among all: in this order the most urgent is first."""


def _takers(
    problem: Problem, ordered: Sequence[Requirement], everybody: Allocations, names: Collection[str]
) -> dict[str, list[Taker]]:
    """Of each shared row that is asked about who takes of it, the most urgent first."""
    device_use = DeviceUse.of(problem)
    shares = [(each.name, each.variants) for each in problem.budgets if each.name in names]
    shares += [(each.name, each.variants) for each in problem.change_limits if each.name in names]
    groups: dict[ResourceKey, list[str]] = {}
    for name, variants in shares:
        for key in variants:
            groups.setdefault(key, []).append(name)
    found: dict[str, set[Taker]] = {name: set() for name in names}
    for place, requirement in enumerate(ordered if names else ()):
        urgency = (-requirement.priority, place)
        for key in (*(requirement.fixed or ()), *{key.variant for key in requirement.per_replica}):
            if key in everybody and everybody[key].replicas:
                taken = device_use.devices(key, everybody[key].accelerator)
                for name in (*taken, *groups.get(key, ())):
                    if name in found:
                        found[name].add(urgency)
    return {name: sorted(takers) for name, takers in found.items()}


def _last_other(takers: Sequence[Taker], place: int) -> Iterator[int]:
    """The negative priority of the least urgent besides a model; nothing where nobody else takes."""
    last = next((each for each in reversed(takers) if each[1] != place), None)
    if last is not None:
        yield last[0]


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
    total = 0.0
    for key, amount in requirement.per_replica.items():
        placed = allocations.get(key.variant)
        if placed is not None and placed.accelerator == key.accelerator:
            total += amount * placed.replicas
    return total


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
