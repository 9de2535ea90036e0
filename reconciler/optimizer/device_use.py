"""What replicas take of pools and budgets, and serve meanwhile, by the problem's words: to check and to show."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from reconciler.domain.identity import CandidateKey, ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.requirements import Candidate, Problem, Requirement

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
        """What a finished answer is about: more or fewer of what stands, whose start nobody counts."""
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
