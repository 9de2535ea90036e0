"""What a plan is worth and which rules it breaks, counted from the problem's definition."""

from collections.abc import Iterator, Mapping

from reconciler.domain.identity import ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.requirements import Candidate, Problem, Requirement
from tests.attack.independent import (
    NOISE,
    Allocations,
    bounds_of,
    carried_by_pinned,
    carried_share,
    members,
    must_of,
    offered,
    scale_of,
    widest,
    worth,
)


def chosen(problem: Problem, plan: Allocations) -> dict[ResourceKey, tuple[Requirement, Candidate, Allocation]]:
    """Of each free variant that serves: for whom, as what, and how many."""
    found = {}
    for requirement in problem.requirements:
        for candidate, _ in offered(problem, requirement):
            placed = plan[candidate.key.variant]
            if placed.replicas and placed.accelerator == candidate.key.accelerator:
                found[candidate.key.variant] = (requirement, candidate, placed)
    return found


def free_variants(problem: Problem) -> dict[ResourceKey, Requirement]:
    """Who is decided, and for whom it serves."""
    return {
        candidate.key.variant: requirement
        for requirement in problem.requirements
        for candidate, _ in offered(problem, requirement)
    }


def is_changed(problem: Problem, key: ResourceKey, after: Allocation) -> bool:
    """Whether a variant has another count or runs on something else."""
    before = problem.current[key]
    is_moved = before.accelerator != after.accelerator and (before.replicas > 0 or after.replicas > 0)
    return before.replicas != after.replicas or is_moved


def value_of(problem: Problem, plan: Allocations) -> float:
    """What a plan costs, with starts, touches and priced demand that is not met."""
    value = 0.0
    for key in free_variants(problem):
        value += problem.touch_weights.get(key, 0.0) * is_changed(problem, key, plan[key])
    for key, (requirement, candidate, placed) in chosen(problem, plan).items():
        current = problem.current[key]
        standing = current.replicas if current.accelerator == placed.accelerator else 0
        value += candidate.weight * placed.replicas
        if requirement.fixed is None:
            value += candidate.start_weight * max(placed.replicas - standing, 0)
    return value + sum(_shortage(problem, each, plan) for each in problem.requirements if each.fixed is None)


def _shortage(problem: Problem, requirement: Requirement, plan: Allocations) -> float:
    scale = scale_of(requirement)
    must = min(must_of(problem, requirement), widest(problem, requirement)) * scale
    left = max(carried_share(problem, requirement, plan) * scale - must, 0.0)
    kept = carried_by_pinned(problem, requirement)
    value = 0.0
    for segment in sorted(requirement.segments, key=lambda each: -worth(each.price, each.probability)):
        amount, kept = max(segment.amount - kept, 0.0), max(kept - segment.amount, 0.0)
        if segment.price is not None:
            value += max(amount - left, 0.0) * segment.price * segment.probability
            left = max(left - amount, 0.0)
    return value


def lateness_of(problem: Problem, plan: Allocations) -> float:
    """By how many accelerators a plan falls behind the resources' own orders, in their dearest candidates."""
    total = 0.0
    for key, (requirement, candidate, _) in chosen(problem, plan).items():
        if key in problem.in_order:
            rivals = [each for each, _ in offered(problem, requirement) if each.key.variant == key]
            rivals.sort(key=lambda each: (each.order, each.key.accelerator))
            total += rivals.index(candidate) * max(each.weight for each in rivals)
    return total


def broken_rules(problem: Problem, plan: Allocations) -> Iterator[str]:
    """Bounds, pools, budgets, limits, ratios and active variants that a plan breaks."""
    free, served = free_variants(problem), chosen(problem, plan)
    for key, requirement in free.items():
        lowest, highest = bounds_of(problem, requirement, key)
        count = plan[key].replicas
        if count < lowest or (highest is not None and count > highest):
            yield f"{key.name} has {count}, bounds {lowest} to {highest}"
        if count and key not in served:
            yield f"{key.name} runs on {plan[key].accelerator}, not offered"
    for name, limit, used in shared_uses(problem, plan):
        if used > limit + NOISE * max(abs(limit), 1e-12):
            yield f"{name} has {limit}, taken {used}"
    yield from _broken_ratios(problem, plan)
    for requirement in problem.requirements:
        if requirement.active_limit is None or requirement.fixed is not None:
            continue
        pinned = sum(problem.pinned[key].replicas > 0 for key in members(requirement) & problem.pinned.keys())
        own = [key for key, owner in free.items() if owner is requirement]
        standing = sum(problem.current[key].replicas > 0 or problem.bounds[key].minimum > 0 for key in own)
        if sum(plan[key].replicas > 0 for key in own) > max(requirement.active_limit - pinned, standing):
            yield f"{requirement.model} has too many active variants"


def _broken_ratios(problem: Problem, plan: Allocations) -> Iterator[str]:
    counts: dict[object, int] = {}
    for requirement in problem.requirements:
        if not members(requirement) & problem.pinned.keys():
            own = {candidate.key.variant for candidate, _ in offered(problem, requirement)}
            counts[requirement.model] = sum(plan[key].replicas for key in own)
    for ratio in problem.ratios:
        over, under = (counts.get(side) for side in ratio.sides)
        if over is None or under is None:
            continue
        if over < ratio.least * under - NOISE or (ratio.most is not None and over > ratio.most * under + NOISE):
            yield f"{ratio.over} to {ratio.under} is {over} to {under}"


def shared_uses(problem: Problem, plan: Allocations) -> Iterator[tuple[str, float, float]]:
    """Of everything shared: its name, what pinned variants leave of it, and what the free ones take."""
    free, served = free_variants(problem), chosen(problem, plan)
    for pool in problem.pools:
        held = _held(problem, {key: each.get(pool.name, 0) for key, each in problem.current_devices.items()})
        used = sum(each.devices.get(pool.name, 0) * placed.replicas for _, each, placed in served.values())
        yield pool.name, max(pool.devices - held, 0.0), used
    for budget in problem.budgets:
        weights = {key: problem.current_weights.get(key, 0.0) for key in budget.variants}
        spent = sum(
            each.weight * placed.replicas for key, (_, each, placed) in served.items() if key in budget.variants
        )
        yield budget.name, max(budget.amount - _held(problem, weights), 0.0), spent
    for limit in problem.change_limits:
        changes = sum(is_changed(problem, key, plan[key]) for key in free if key in limit.variants)
        yield limit.name, float(limit.changes), changes


def _held(problem: Problem, each: Mapping[ResourceKey, float]) -> float:
    return sum(each.get(key, 0.0) * kept.replicas for key, kept in problem.pinned.items())
