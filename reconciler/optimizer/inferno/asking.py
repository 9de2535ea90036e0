"""A problem as inferno sees it: every variant a server of its own, with a finished offer for each candidate."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reconciler.domain.identity import ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.requirements import Candidate, Problem, Requirement
from reconciler.optimizer.inferno.servers import Offer, Server
from reconciler.optimizer.separable import replicas_needed, transition_value


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A free variant as a server, named by its key."""

    variant: ResourceKey
    requirement: Requirement
    server: Server


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedServers:
    """Who asks for what: free variants that have an offer, and what each pool has for them."""

    asks: tuple[Ask, ...]
    capacities: Mapping[str, int]

    @property
    def servers(self) -> tuple[Server, ...]:
        """Who asks, as the greedy modes know them."""
        return tuple(ask.server for ask in self.asks)


def read_problem(problem: Problem) -> AskedServers:
    """The servers of a problem and the capacities they compete for.

    A variant asks for the whole demand of its model, whatever others serve it: so does the original. The highest of
    the problem's priorities becomes 1, the original's first; lower ones keep their distance to it. Pinned variants
    keep what they take.
    """
    reading = _Reading.of(problem)
    highest = max((requirement.priority for requirement in problem.requirements), default=0)
    return AskedServers(
        asks=tuple(
            Ask(
                variant=variant,
                requirement=requirement,
                server=Server(name=str(variant), priority=1 + highest - requirement.priority, offers=offers),
            )
            for requirement in sorted(problem.requirements, key=lambda each: each.model)
            for variant, offers in reading.offers(requirement).items()
            if variant not in problem.pinned and offers
        ),
        capacities=reading.capacities(),
    )


def variants_of(requirement: Requirement) -> tuple[ResourceKey, ...]:
    """The variants that serve a requirement, in the order of their keys."""
    if requirement.fixed is not None:
        return tuple(sorted(requirement.fixed))
    return tuple(sorted({key.variant for key in requirement.per_replica}))


def carried(requirement: Requirement, variant: ResourceKey, allocation: Allocation) -> float:
    """How much of the requirement an allocation carries, in its unit; of a finished answer each replica its share."""
    if requirement.fixed is not None:
        return requirement.amount * allocation.replicas / max(sum(requirement.fixed.values()), 1)
    key = variant.on(allocation.accelerator)
    return requirement.per_replica.get(key, 0.0) * allocation.replicas


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """A problem with its candidates by variant."""

    problem: Problem
    candidates: Mapping[ResourceKey, Sequence[Candidate]]

    @classmethod
    def of(cls, problem: Problem) -> "_Reading":
        candidates: defaultdict[ResourceKey, list[Candidate]] = defaultdict(list)
        for each in sorted(problem.candidates, key=lambda candidate: (candidate.order, candidate.key)):
            candidates[each.key.variant].append(each)
        return cls(problem=problem, candidates=dict(candidates))

    def capacities(self) -> dict[str, int]:
        capacities = {pool.name: pool.devices for pool in self.problem.pools}
        for variant, allocation in self.problem.pinned.items():
            for name, units in self._units_now(variant, allocation.accelerator).items():
                capacities[name] -= units * allocation.replicas
        return capacities

    def offers(self, requirement: Requirement) -> dict[ResourceKey, tuple[Offer, ...]]:
        if requirement.fixed is not None:
            return {
                variant: (self._finished(variant, requirement.fixed[variant]),) for variant in variants_of(requirement)
            }
        return {
            variant: tuple(self._sized(requirement, each) for each in self._admitted(requirement, variant))
            for variant in variants_of(requirement)
        }

    def _admitted(self, requirement: Requirement, variant: ResourceKey) -> Sequence[Candidate]:
        """The variant's candidates that carry something; of an in-order variant only the first one."""
        carrying = [each for each in self.candidates.get(variant, ()) if requirement.per_replica.get(each.key, 0.0) > 0]
        return carrying[:1] if variant in self.problem.in_order else carrying

    def _sized(self, requirement: Requirement, candidate: Candidate) -> Offer:
        """As many replicas as carry the demand, within the bounds."""
        bounds = self.problem.bounds[candidate.key.variant]
        needed = max(replicas_needed(requirement.amount, requirement.per_replica[candidate.key]), bounds.minimum)
        replicas = needed if bounds.maximum is None else min(needed, bounds.maximum)
        allocation = Allocation(accelerator=candidate.key.accelerator, replicas=replicas)
        return self._offer(candidate.key.variant, allocation, candidate.weight, self._counted(candidate.devices))

    def _finished(self, variant: ResourceKey, replicas: int) -> Offer:
        """An engine's answer, where the variant runs."""
        allocation = Allocation(accelerator=self.problem.current[variant].accelerator, replicas=replicas)
        weight = self.problem.current_weights.get(variant, 0.0)
        return self._offer(variant, allocation, weight, self._units_now(variant, allocation.accelerator))

    def _offer(self, variant: ResourceKey, allocation: Allocation, weight: float, units: Mapping[str, int]) -> Offer:
        current = self.problem.current[variant]
        cost = weight * allocation.replicas
        value = transition_value(
            current_accelerator=current.accelerator,
            current_replicas=current.replicas,
            current_cost_per_hour=current.replicas * self.problem.current_weights.get(variant, 0.0),
            accelerator=allocation.accelerator,
            replicas=allocation.replicas,
            cost_per_hour=cost,
        )
        return Offer(
            accelerator=allocation.accelerator, replicas=allocation.replicas, units=units, cost=cost, value=value
        )

    def _units_now(self, variant: ResourceKey, accelerator: str) -> dict[str, int]:
        """What a replica takes where the variant stands: as the candidate there says, else as observed."""
        there = (each.devices for each in self.candidates.get(variant, ()) if each.key.accelerator == accelerator)
        return self._counted(next(there, self.problem.current_devices.get(variant, {})))

    def _counted(self, devices: Mapping[str, int]) -> dict[str, int]:
        """Only the problem's pools: what is taken elsewhere is not limited."""
        listed = {pool.name for pool in self.problem.pools}
        return {name: units for name, units in sorted(devices.items()) if name in listed}
