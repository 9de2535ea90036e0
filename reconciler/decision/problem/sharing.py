"""Budgets and limits on changes as rows of the problem."""

import math
from collections import defaultdict
from dataclasses import replace

from reconciler.decision.costs import cost_of
from reconciler.decision.problem.formulation import FormulatedProblem
from reconciler.decision.problem.needs import TOLERANCE
from reconciler.decision.problem.shared_rules import SharedLimit
from reconciler.domain.identity import ResourceKey
from reconciler.domain.requirements import Budget, ChangeLimit, Problem
from reconciler.domain.rules import ChangeLimitRule


def with_shared_rules(formulated: FormulatedProblem) -> FormulatedProblem:
    """The problem with a row for each budget and limit on changes, as far as its words can say them.

    Of a budget that is what has a price, and no repair: these a person decides about. Finished answers are no choice.
    What is left out here is judged in the finished plan.
    """
    shared = formulated.guard.shared
    if not shared:
        return formulated
    problem = formulated.problem
    finished = {key for each in problem.requirements for key in each.fixed or ()}
    chosen = frozenset(problem.bounds) - finished
    budgets, limits = [], []
    for each in shared:
        if isinstance(each.rule.asks, ChangeLimitRule):
            limits.append(_change_limit(problem, each, each.members & chosen))
        else:
            priced = each.members & chosen & _priced(problem)
            repaired = frozenset(key for key in priced if is_short(formulated, key))
            budgets.append(_budget(formulated, each, priced - repaired))
    problem = replace(problem, budgets=tuple(budgets), change_limits=tuple(limits))
    return replace(formulated, problem=problem)


def is_short(formulated: FormulatedProblem, key: ResourceKey) -> bool:
    """Whether the load of a variant's model exceeds what runs now: what it gets more repairs that."""
    model, needs = formulated.needs.owner_of.get(key), formulated.needs
    if model is None:
        return False
    return formulated.load_of(model) > needs.total(model, formulated.problem.current) * (1 + TOLERANCE)


def _priced(problem: Problem) -> frozenset[ResourceKey]:
    """Variants of which every choice has a price that the solver counts in."""
    unpriced = {each.key.variant for each in problem.candidates if each.weight != each.cost_per_hour}
    return frozenset(each.key.variant for each in problem.candidates) - unpriced


def _budget(formulated: FormulatedProblem, shared: SharedLimit, members: frozenset[ResourceKey]) -> Budget:
    """What is left for the members beside the others; never less than they have, or must have."""
    problem, subjects = formulated.problem, formulated.guard.subjects
    others = math.fsum(cost_of(subjects[key].variant, subjects[key].current) or 0.0 for key in shared.members - members)
    now = math.fsum(problem.current_weights.get(key, 0.0) * problem.current[key].replicas for key in members)
    least: defaultdict[ResourceKey, float] = defaultdict(float)
    for each in problem.candidates:
        if each.key.variant in members:
            cost = each.weight * problem.bounds[each.key.variant].minimum
            least[each.key.variant] = max(least[each.key.variant], cost)
    amount = max(shared.limit - others, now, math.fsum(least.values()))
    return Budget(name=f"budget {shared.name}", variants=members, amount=amount)


def _change_limit(problem: Problem, shared: SharedLimit, members: frozenset[ResourceKey]) -> ChangeLimit:
    forced = sum(not problem.bounds[key].admits(problem.current[key].replicas) for key in members)
    return ChangeLimit(name=shared.name, variants=members, changes=max(int(shared.limit), forced))
