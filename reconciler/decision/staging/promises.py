"""A change of ours that broke its promise is taken back, and one that was taken back does not return unchanged."""

import math
from dataclasses import replace

from reconciler.decision.problem.needs import Allocations
from reconciler.decision.staging.staged_plan import Situation, StagedPlan
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.promises import BrokenPromise
from reconciler.optimizer.device_use import DeviceUse

MOST_NEEDED = 2.0
"""A move is taken back with at most so many times the replicas that the load needs: texts may lie."""


def keep_promises(situation: Situation, staged: StagedPlan) -> StagedPlan:
    """Give variants whose merge broke its promise at least what they had before; keep what was taken back.

    After open pull requests, which may say the opposite; before what judges, drains and waits for devices: what is
    taken back is a change as any other.
    """
    for state in situation.states:
        key, broken = state.variant.key, state.promise
        hold = staged.holds.get(key)
        if broken is None or (hold is not None and hold.kind is not HoldKind.PROFILE_CONTRADICTED):
            continue
        staged = (
            _remember(situation, staged, key, broken) if broken.reverted_by else _revert(situation, staged, key, broken)
        )
    return staged


def _revert(situation: Situation, staged: StagedPlan, key: ResourceKey, broken: BrokenPromise) -> StagedPlan:
    now, aimed = situation.current[key], staged.allocations[key]
    before = _before(situation, key, broken)
    if before is None or before == now:
        words = f"{broken.words}; what was before cannot be chosen now"
        return replace(staged, waiting={key: _hold(words), **staged.waiting})
    if aimed.accelerator != before.accelerator or aimed.replicas < before.replicas:
        aimed = before
    return replace(
        staged,
        allocations={**staged.allocations, key: aimed},
        holds={other: hold for other, hold in staged.holds.items() if other != key},
        kept={other: number for other, number in staged.kept.items() if other != key},
        reasons={**staged.reasons, key: f"goes back to what it had: {broken.words}"},
        reverts={**staged.reverts, key: broken.number},
    )


def _before(situation: Situation, key: ResourceKey, broken: BrokenPromise) -> Allocation | None:
    """What a variant had, as far as its bounds admit it now; None where it may not go back."""
    problem, needs = situation.formulated.problem, situation.formulated.needs
    bounds, replicas = problem.bounds.get(key), broken.least
    if bounds is None:
        return None
    if broken.is_move:
        candidate = key.on(broken.before.accelerator)
        requirement = needs.of_variant(key)
        each = 0.0 if requirement is None else requirement.per_replica.get(candidate, 0.0)
        if requirement is None or each <= 0 or all(offered.key != candidate for offered in problem.candidates):
            return None
        replicas = min(broken.before.replicas, math.ceil(MOST_NEEDED * requirement.amount / each))
    return Allocation(accelerator=broken.before.accelerator, replicas=bounds.nearest(replicas))


def _remember(situation: Situation, staged: StagedPlan, key: ResourceKey, broken: BrokenPromise) -> StagedPlan:
    now, aimed = situation.current[key], staged.allocations[key]
    kept = aimed
    if broken.is_move and aimed.accelerator == broken.after.accelerator != now.accelerator:
        kept = now
    elif (
        not broken.is_move and aimed.accelerator == now.accelerator and aimed.replicas < min(broken.least, now.replicas)
    ):
        kept = replace(now, replicas=broken.least)
    allocations = {**staged.allocations, key: kept}
    if kept == aimed or _is_in_the_way(situation, allocations, key):
        return staged
    return replace(
        staged,
        allocations=allocations,
        waiting={**staged.waiting, key: _hold(broken.words)},
    )


def _is_in_the_way(situation: Situation, allocations: Allocations, key: ResourceKey) -> bool:
    """Whether what is kept takes devices that something more urgent was to get."""
    problem, needs = situation.formulated.problem, situation.formulated.needs
    use = DeviceUse.of(problem)
    taken, own = use.pools(allocations), use.devices(key, allocations[key].accelerator)
    full = {pool.name for pool in problem.pools if pool.name in own and taken[pool.name] > pool.devices}
    urgency = {each: 0 if (need := needs.of_variant(each)) is None else need.priority for each in allocations}
    return any(
        urgency[other] > urgency[key] and full & use.devices(other, after.accelerator).keys()
        for other, after in (allocations.items() if full else ())
        if after.replicas > situation.current[other].replicas
        or after.accelerator != situation.current[other].accelerator
    )


def _hold(words: str) -> Hold:
    return Hold(kind=HoldKind.PROMISE_BROKEN, words=words)
