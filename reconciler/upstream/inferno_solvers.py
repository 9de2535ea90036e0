"""The inferno reproductions as solvers, found by name."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from reconciler.domain.identity import ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.requirements import Candidate, Problem, Requirement, Shortfall, Solution, SolveStatus
from reconciler.optimizer.separable import INTEGER_TOLERANCE, replicas_needed, transition_value
from reconciler.upstream.inferno import (
    Grants,
    Offer,
    SaturationPolicy,
    Server,
    ServerGrant,
    by_value,
    exact_optimum,
    priority_greedy,
    weighted_greedy,
)


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


# The reproductions as solvers, found by name: what inferno would have answered to a problem. They know pools and
# priorities; budgets, change limits, ratios and what a change takes for a while are unknown to the original. Its
# objective is always the transition value. Who gets nothing: the original leaves such a server out of its answer, and
# its controller leaves the Deployment as it is, on devices that others were just given. A solution must fit into the
# pools, so here the variant has 0 replicas, below its lower bound, and its model a shortfall with the reason. That is
# an answer to compare with, not one to carry out: a plan never shuts down what serves because devices are missing. A
# variant without any candidate is left out.


class WeightedGreedySolver:
    """Inferno's limited mode of July 2025: priority is a weight, all or nothing."""

    name = "inferno-weighted"

    def solve(self, problem: Problem) -> Solution:
        """What `weighted_greedy` gives every variant that has a candidate or a finished answer, or is pinned."""
        asking = read_problem(problem)
        return _solution(problem, asking.asks, weighted_greedy(asking.servers, asking.capacities))


class PriorityGreedySolver:
    """Inferno's limited mode since August 2025: priority by priority, then best effort by the policy.

    The policy None is the original's own default; its controller asked for PriorityRoundRobin.
    """

    name = "inferno-priority"

    def __init__(
        self, *, policy: SaturationPolicy = SaturationPolicy.NONE, is_best_effort_delayed: bool = False
    ) -> None:
        self._policy = policy
        self._is_best_effort_delayed = is_best_effort_delayed

    def solve(self, problem: Problem) -> Solution:
        """What `priority_greedy` gives every variant that has a candidate or a finished answer, or is pinned."""
        asking = read_problem(problem)
        grants = priority_greedy(
            asking.servers,
            asking.capacities,
            policy=self._policy,
            is_best_effort_delayed=self._is_best_effort_delayed,
        )
        return _solution(problem, asking.asks, grants)


class OptimalSolver:
    """What both modes approach: as many variants served as can be, priority by priority, then the least value."""

    name = "inferno-optimal"

    def solve(self, problem: Problem) -> Solution:
        """What `exact_optimum` gives every variant that has a candidate or a finished answer, or is pinned.

        The bound is that of all answers that serve as many at every priority; the status says whether more was proven
        to be impossible.
        """
        asking = read_problem(problem)
        optimum = exact_optimum(asking.servers, asking.capacities)
        solution = _solution(problem, asking.asks, optimum.grants)
        return replace(solution, solver=self.name, status=optimum.status, lower_bound=optimum.value_bound)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answered:
    """What a variant asked for and what it got; None is nothing."""

    ask: Ask
    grant: ServerGrant | None

    @property
    def is_full(self) -> bool:
        return self.grant is not None and self.grant.is_full

    @property
    def replicas(self) -> int:
        return 0 if self.grant is None else self.grant.replicas

    @property
    def value_bound(self) -> float:
        """What its replicas are worth at least, whichever offer they are of."""
        return 0.0 if self.grant is None else min(self.grant.value, *(each.value for each in self.ask.server.offers))


def _solution(problem: Problem, asks: Sequence[Ask], grants: Grants) -> Solution:
    """The answer in our terms; its bound is what the same variants would be worth if each had its best offer."""
    answers = [_Answered(ask=ask, grant=grants.get(ask.server.name)) for ask in asks]
    allocations = {each.ask.variant: _allocation(problem, each) for each in answers}
    value = math.fsum(grant.value for grant in grants.values())
    lower_bound = math.fsum(each.value_bound for each in answers)
    is_best = lower_bound == value and all(each.is_full for each in answers)
    return Solution(
        allocations={**problem.pinned, **allocations},
        status=SolveStatus.OPTIMAL if is_best else SolveStatus.FEASIBLE,
        value=value,
        lower_bound=lower_bound,
        shortfalls=tuple(_shortfalls(problem, answers)),
        reasons={each.ask.variant: _words(each) for each in answers},
    )


def _allocation(problem: Problem, answered: _Answered) -> Allocation:
    grant, current = answered.grant, problem.current[answered.ask.variant]
    accelerator = current.accelerator if grant is None else grant.offer.accelerator
    return Allocation(accelerator=accelerator, replicas=answered.replicas)


def _shortfalls(problem: Problem, answers: Sequence[_Answered]) -> Iterator[Shortfall]:
    """One for each requirement of which a variant got less than it asked for, or was not let ask for enough."""
    for _, group in groupby(answers, key=lambda each: each.ask.requirement.model):
        members = tuple(group)
        requirement = members[0].ask.requirement
        got = {each.ask.variant: _allocation(problem, each) for each in members}
        pinned = {each: problem.pinned[each] for each in variants_of(requirement) if each in problem.pinned}
        covered = math.fsum(carried(requirement, *each) for each in (pinned | got).items())
        cut = [f"{each.ask.variant.label} {_words(each)}" for each in members if not each.is_full]
        if not cut and requirement.fixed is None and covered < requirement.amount * (1 - INTEGER_TOLERANCE):
            most = (
                problem.bounds[each.ask.variant].most_words(each.replicas, each.ask.variant.label) for each in members
            )
            cut = [f"{words} carries less than the demand" for words in most]
        if cut:
            yield Shortfall(model=requirement.model, covered=covered, wanted=requirement.amount, reason="; ".join(cut))


def _words(answered: _Answered) -> str:
    """What a variant got, and why."""
    grant, offers = answered.grant, by_value(answered.ask.server.offers)
    pools = ", ".join(sorted({name for offer in offers for name in offer.units}))
    if grant is None:
        return f"gets nothing: no candidate fits into what is left of {pools}"
    if not grant.is_full:
        wanted = f"{grant.replicas} of {grant.offer.replicas} replicas"
        return f"gets {wanted} by best effort: no more fit into what is left of {pools}"
    rank = 1 + offers.index(grant.offer)
    return f"candidate {rank} of {len(offers)} by value" + (": what is before it does not fit" if rank > 1 else "")
