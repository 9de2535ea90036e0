"""The reproductions as solvers, found by name: what inferno would have answered to a problem.

They know pools and priorities; budgets, change limits, ratios and what a change takes for a while are unknown to the
original. Its objective is always the transition value.

Who gets nothing: the original leaves such a server out of its answer, and its controller leaves the Deployment as it
is, on devices that others were just given. A solution must fit into the pools, so here the variant has 0 replicas,
below its lower bound, and its model a shortfall with the reason. That is an answer to compare with, not one to carry
out: a plan never shuts down what serves because devices are missing. A variant without any candidate is left out.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from reconciler.domain.inventory import Allocation
from reconciler.domain.requirements import Problem
from reconciler.domain.solutions import Shortfall, Solution, SolveStatus
from reconciler.optimizer.inferno.asking import Ask, carried, read_problem, variants_of
from reconciler.optimizer.inferno.best_effort import SaturationPolicy
from reconciler.optimizer.inferno.exact import exact_optimum
from reconciler.optimizer.inferno.greedy import priority_greedy, weighted_greedy
from reconciler.optimizer.inferno.servers import Grants, ServerGrant, by_value
from reconciler.optimizer.separable import INTEGER_TOLERANCE


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
