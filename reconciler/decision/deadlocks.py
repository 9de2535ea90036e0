"""Variants that wait for each other's devices for ever, while some model gets less than it could."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from reconciler.decision.independence import keep_serving, make_independent
from reconciler.decision.needs import TOLERANCE, Allocations
from reconciler.decision.passes import stage
from reconciler.decision.staged_plan import Situation, StagedPlan
from reconciler.domain.holds import Hold, HoldKind
from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.requirements import Problem, Solution

PLANS, MANY = 4, 1_000
"""How many more plans are made at most, each of which leaves more variants as they are; one of a fleet of so many
variants, whose plans take long."""

DIGITS = 6
"""Of shares that are compared: what is left of them is noise."""

RUNS = 20
"""How many runs a plan is followed; it takes few to its end."""


def stage_reachable(situation: Situation, solve: Callable[[Problem], Solution]) -> tuple[Solution, StagedPlan]:
    """The best solution, and what may be proposed of it; where it never comes to that, of the one that serves most."""
    problem, left = situation.formulated.problem, dict[ResourceKey, Hold]()
    solution = solve(problem)
    staged = stage(situation, solution)
    best = solution, staged
    if not any(hold.kind is HoldKind.WAITING_FOR_DEVICES for hold in staged.waiting.values()):
        return best
    end = _End.of(situation, solution, staged)
    most = end.served()
    for _ in range(PLANS if len(situation.current) < MANY else 1):
        stuck = end.stuck()
        if not stuck:
            break
        left |= {key: end.waiting[key] for key in stuck}
        # The problem in which some variants stay as they are.
        pinned = {**problem.pinned, **{key: problem.current[key] for key in left}}
        solution = _with_cost_of(
            left,
            problem,
            solve(
                replace(
                    problem,
                    pinned=pinned,
                    candidates=tuple(each for each in problem.candidates if each.key.variant not in pinned),
                    in_order=problem.in_order - pinned.keys(),
                )
            ),
        )
        staged = stage(situation, solution)
        end = _End.of(situation, solution, staged)
        served = end.served()
        if served > most:
            most, best = served, (solution, replace(staged, waiting={**left, **staged.waiting}))
    return best


def _with_cost_of(left: Iterable[ResourceKey], problem: Problem, solution: Solution) -> Solution:
    """The solution with what those cost that it leaves as they are, so that it compares with others."""
    cost = math.fsum(problem.current_weights.get(key, 0.0) * problem.current[key].replicas for key in left)
    usual = solution.greedy_value
    return replace(
        solution,
        value=solution.value + cost,
        lower_bound=solution.lower_bound + cost,
        greedy_value=None if usual is None else usual + cost,
    )


@dataclass(frozen=True, slots=True)
class _End:
    """What everybody aims at, what it comes to once nothing moves any more, and who waits then."""

    situation: Situation
    aimed: Allocations
    allocations: Allocations
    waiting: Mapping[ResourceKey, Hold]

    @classmethod
    def of(cls, situation: Situation, solution: Solution, staged: StagedPlan) -> "_End":
        """Where a solution leads: what is held stays, and all new replicas serve one run after their merge."""
        aimed = {
            key: now if key in staged.holds else solution.allocations.get(key, now)
            for key, now in situation.current.items()
        }
        at, waiting = situation.current, staged.waiting
        for _ in range(RUNS):
            there = _at(situation, at)
            after = make_independent(there, keep_serving(there, StagedPlan(allocations=aimed, holds={})))
            waiting = after.waiting
            if after.allocations == at:
                break
            at = after.allocations
        return cls(situation, aimed, at, waiting)

    def stuck(self) -> set[ResourceKey]:
        """Who waits for devices while others are short: those of models that have enough, else the least urgent."""
        needs = self.situation.formulated.needs
        if not any(self._is_short(model) for model in needs.requirements):
            return set()
        waiting = {
            key
            for key, hold in self.waiting.items()
            if hold.kind is HoldKind.WAITING_FOR_DEVICES
            and key in needs.owner_of
            and _adds(self.allocations[key], self.aimed[key])
        }
        enough = {key for key in waiting if not self._is_short(needs.owner_of[key])}
        least = min((needs.requirements[needs.owner_of[key]].priority for key in waiting), default=0)
        return enough or {key for key in waiting if needs.requirements[needs.owner_of[key]].priority == least}

    def served(self) -> tuple[float, ...]:
        """What the models get of what they need, the most urgent level first: by level its least share, and all."""
        needs, shares = self.situation.formulated.needs, dict[int, list[float]]()
        for model, requirement in needs.requirements.items():
            share = needs.total(model, self.allocations) / requirement.amount if requirement.amount > 0 else 1.0
            shares.setdefault(requirement.priority, []).append(round(min(share, 1.0), DIGITS))
        levels = (shares[priority] for priority in sorted(shares, reverse=True))
        return tuple(each for level in levels for each in (min(level), round(sum(level), DIGITS)))

    def _is_short(self, model: ModelKey) -> bool:
        """Whether a model gets less than it needs, and was meant to get more."""
        needs = self.situation.formulated.needs
        wanted = min(needs.requirements[model].amount, needs.total(model, self.aimed))
        return needs.total(model, self.allocations) < wanted * (1 - TOLERANCE)


def _adds(before: Allocation, after: Allocation) -> bool:
    return after.replicas > (before.replicas if after.accelerator == before.accelerator else 0)


def _at(situation: Situation, current: Allocations) -> Situation:
    """The situation in which all of that runs and serves, and nothing is proposed."""
    problem = replace(situation.formulated.problem, current=current, ready={})
    nothing = dict.fromkeys(situation.proposals, ())
    return replace(situation, formulated=replace(situation.formulated, problem=problem), proposals=nothing)
