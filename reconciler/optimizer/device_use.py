"""What allocations take of pools, budgets and change limits, and the independent check that a plan keeps every rule of
its problem.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from reconciler.domain.identity import CandidateKey, ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.records import dataclass, replace
from reconciler.domain.requirements import Bounds, Candidate, Problem, Requirement

Allocations = Mapping[ResourceKey, Allocation]
NOTHING: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """What a replica takes and weighs, by what it runs on: as offered, else as it runs now."""

    _problem: Problem
    _candidates: Mapping[CandidateKey, Candidate]

    @classmethod
    def of(cls, problem: Problem) -> "DeviceUse":
        """That of a problem's replicas."""
        return cls(problem, {candidate.key: candidate for candidate in problem.candidates})

    def offered(self, key: CandidateKey) -> Candidate | None:
        """The candidate of that key; None where it may not be chosen."""
        return self._candidates.get(key)

    def devices(self, key: ResourceKey, accelerator: str) -> Mapping[str, int]:
        """What one replica takes of each pool."""
        candidate = self._candidates.get(key.on(accelerator))
        if candidate is not None:
            return candidate.devices
        is_now = accelerator == self._problem.current[key].accelerator
        return self._problem.current_devices.get(key, NOTHING) if is_now else NOTHING

    def weight(self, key: ResourceKey, accelerator: str) -> float:
        """What one replica weighs."""
        candidate = self._candidates.get(key.on(accelerator))
        return self._problem.current_weights.get(key, 0.0) if candidate is None else candidate.weight

    def standing(self, key: ResourceKey) -> Candidate:
        """What a finished answer is about: more or fewer of what stands, whose start is not counted."""
        place = key.on(self._problem.current[key].accelerator)
        offered = self._candidates.get(place)
        if offered is not None:
            return replace(offered, start_weight=0.0)
        weight, devices = self._problem.current_weights.get(key, 0.0), self._problem.current_devices.get(key, NOTHING)
        return Candidate(key=place, weight=weight, cost_per_hour=None, devices=devices)

    def pools(self, allocations: Allocations) -> Counter[str]:
        """What allocations take of each pool."""
        used: Counter[str] = Counter()
        for key, after in allocations.items():
            if after.replicas:
                for name, count in self.devices(key, after.accelerator).items():
                    used[name] += count * after.replicas
        return used

    def now(self, allocations: Allocations) -> Counter[str]:
        """What allocations that stay where they run take of each pool."""
        taken: Counter[str] = Counter()
        for key, allocation in allocations.items():
            if allocation.replicas:
                for pool, devices in self._problem.current_devices.get(key, NOTHING).items():
                    taken[pool] += devices * allocation.replicas
        return taken

    def spent(self, allocations: Allocations, variants: Iterable[ResourceKey]) -> float:
        """What the replicas of some variants weigh together; those without an allocation weigh nothing."""
        members = ((key, allocations.get(key)) for key in variants)
        return math.fsum(
            self.weight(key, each.accelerator) * each.replicas for key, each in members if each and each.replicas
        )


def carried_by_pinned(problem: Problem, requirement: Requirement) -> float:
    """What variants that keep their allocation carry of a requirement."""
    if not problem.pinned:
        return 0.0
    return math.fsum(
        each * kept.replicas
        for key, each in requirement.per_replica.items()
        if (kept := problem.pinned.get(key.variant)) is not None and kept.accelerator == key.accelerator
    )


def served_now(problem: Problem, requirement: Requirement, key: ResourceKey) -> float:
    """What a variant's replicas that are ready carry."""
    current = problem.current[key]
    each = requirement.per_replica.get(key.on(current.accelerator), 0.0)
    return each * min(problem.ready.get(key, current.replicas), current.replicas)


def served_meanwhile(problem: Problem, requirement: Requirement, key: ResourceKey, after: Allocation) -> float:
    """What a variant carries all the time; one that moves keeps its old replicas until the new ones serve."""
    current, now = problem.current[key], served_now(problem, requirement, key)
    if after.replicas and after.accelerator != current.accelerator:
        return now
    each = requirement.per_replica.get(key.on(current.accelerator), 0.0)
    return min(each * after.replicas, now)


_NOISE = 1e-6


def violations(problem: Problem, allocations: Mapping[ResourceKey, Allocation]) -> tuple[str, ...]:
    """What `allocations` break: bounds, candidates, pools, budgets, limits on changes, ratios and active variants.

    Of a shared limit only what is decided counts: where pinned variants alone exceed it, nothing may be added.
    """
    check = _Check(problem, allocations)
    return (
        *(*check.bounds(), *check.pools(), *check.budgets()),
        *(*check.changes(), *check.ratios(), *check.active()),
    )


def exceeded(problem: Problem, allocations: Mapping[ResourceKey, Allocation]) -> tuple[str, ...]:
    """What `allocations` take beyond the upper bounds and the pools: what no answer may do, whatever it reproduces."""
    check = _Check(problem, allocations)
    return (*check.most(), *check.pools())


class _Check:
    def __init__(self, problem: Problem, allocations: Mapping[ResourceKey, Allocation]) -> None:
        self._problem = problem
        self._device_use = DeviceUse.of(problem)
        self._free = {key: each for key, each in allocations.items() if key not in problem.pinned}
        self._fixed = {
            key: count
            for requirement in problem.requirements
            if requirement.fixed is not None
            for key, count in requirement.fixed.items()
        }
        self._used = self._device_use.pools(self._free)
        self._held = self._device_use.now(problem.pinned)

    def bounds(self) -> Iterator[str]:
        """Within its bounds, and on an accelerator that was offered."""
        for key, allocation in self._free.items():
            bounds, current = self._problem.bounds[key], self._problem.current[key]
            is_moved = allocation.replicas > 0 and allocation.accelerator != current.accelerator
            if is_moved and self._device_use.offered(key.on(allocation.accelerator)) is None:
                yield f"{key.label} runs on {allocation.accelerator}, which was not offered"
            if self._fixed and key in self._fixed:
                bounds = Bounds(minimum=min(bounds.minimum, self._fixed[key]), maximum=self._fixed[key])
            if not bounds.admits(allocation.replicas):
                words = f"its bounds are {bounds.minimum} to {bounds.maximum}"
                yield f"{key.label} has {allocation.replicas} replicas, {words}"

    def most(self) -> Iterator[str]:
        """Nowhere more replicas than the upper bound, or than a finished answer says."""
        for key, allocation in self._free.items():
            most = self._fixed.get(key, self._problem.bounds[key].maximum)
            if most is not None and allocation.replicas > most:
                yield f"{key.label} has {allocation.replicas} replicas, at most {most} may run"

    def pools(self) -> Iterator[str]:
        """Each pool."""
        for pool in self._problem.pools:
            left = pool.devices - self._held[pool.name]
            if self._used[pool.name] > max(left, 0):
                yield f"pool {pool.name} has {left} devices, the plan takes {self._used[pool.name]}"

    def budgets(self) -> Iterator[str]:
        """Each budget, by the weight of every replica."""
        for budget in self._problem.budgets:
            pinned = sum(
                self._problem.current_weights.get(key, 0.0) * self._problem.pinned[key].replicas
                for key in budget.variants & self._problem.pinned.keys()
            )
            spent = self._device_use.spent(self._free, budget.variants)
            if spent > max(budget.amount - pinned, 0.0) + _NOISE * max(budget.amount, 1.0):
                yield f"budget {budget.name} has {budget.amount - pinned:g}, the plan spends {spent:g}"

    def changes(self) -> Iterator[str]:
        """No more changes than one pull request may hold."""
        for limit in self._problem.change_limits:
            changed = sum(self._is_changed(key) for key in limit.variants & self._free.keys())
            if changed > limit.changes:
                yield f"{limit.name} admits {limit.changes} changes, the plan makes {changed}"

    def _is_changed(self, key: ResourceKey) -> bool:
        before, after = self._problem.current[key], self._free[key]
        is_moved = before.accelerator != after.accelerator and (before.replicas > 0 or after.replicas > 0)
        return before.replicas != after.replicas or is_moved

    def ratios(self) -> Iterator[str]:
        """The proportion of roles, where all of both is decided."""
        sides = {side for ratio in self._problem.ratios for side in ratio.sides}
        replicas = {each.model: self._replicas(each) for each in self._problem.requirements if each.model in sides}
        for ratio in self._problem.ratios:
            over, under = (replicas.get(side) for side in ratio.sides)
            if over is None or under is None:
                continue
            is_low = over < ratio.least * under - _NOISE
            if is_low or (ratio.most is not None and over > ratio.most * under + _NOISE):
                yield f"{ratio.over} to {ratio.under} of {ratio.model.model_id} is {over} to {under}"

    def _replicas(self, requirement: Requirement) -> int | None:
        keys = {key.variant for key in requirement.per_replica} | set(requirement.fixed or ())
        if keys & self._problem.pinned.keys():
            return None
        return sum(self._free[key].replicas for key in keys if key in self._free)

    def active(self) -> Iterator[str]:
        """Variants that serve one model at once; who serves now, or must, may go on."""
        everybody = {**self._free, **self._problem.pinned}
        serving = {key for key, each in everybody.items() if each.replicas > 0}
        for requirement in self._problem.requirements:
            if requirement.active_limit is None or requirement.fixed is not None:
                continue
            choices = [key.variant for key in requirement.per_replica if key.variant in serving]
            if len(choices) <= requirement.active_limit or len(active := set(choices)) <= requirement.active_limit:
                continue
            members = {key.variant for key in requirement.per_replica}
            standing = sum(
                self._problem.pinned[key].replicas > 0 if key in self._problem.pinned else self._must_serve(key)
                for key in members & everybody.keys()
            )
            if len(active) > standing:
                words = f"{len(active)} variants, {requirement.active_limit} may"
                yield f"{requirement.model.model_id} is served by {words}"

    def _must_serve(self, key: ResourceKey) -> bool:
        return self._problem.current[key].replicas > 0 or self._problem.bounds[key].minimum > 0
