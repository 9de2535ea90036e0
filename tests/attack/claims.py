"""Everything that a solution claims, each checked against the independent programme."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from reconciler.domain.identity import ModelKey
from reconciler.domain.requirements import Conflict, Problem, Requirement, Solution, SolveStatus
from tests.attack.evaluation import broken_rules, lateness_of, shared_uses, value_of
from tests.attack.independent import (
    Formulated,
    carried_by_pinned,
    carried_share,
    is_feasible,
    members,
    must_of,
    offered,
    scale_of,
    widest,
)

SHARE = 1 / 8
"""Of what must be covered of it: what a model may lack beside the fairest plan."""

EXACT = 1e-6
GAP = 1.05e-3
"""How far a plan may be from the best, as a fraction: what the optimizer promises."""

PRICE = 0.1
"""How far the saving of one more device may be from what is said, as a fraction of it."""


def complaints(problem: Problem, solution: Solution) -> Iterator[str]:
    """What of a solution is not as it claims."""
    if solution.is_unsolved:
        yield "no plan was found"
        return
    yield from _conflicts(problem, solution)
    problem = _held(problem, solution.conflicts)
    plan = solution.allocations
    broken = list(broken_rules(problem, plan))
    if broken:
        yield f"broken: {broken}"
        return
    value = value_of(problem, plan)
    if not math.isclose(value, solution.value, rel_tol=EXACT, abs_tol=EXACT):
        yield f"the value is {value}, not {solution.value}"
    yield from _served(problem, solution)
    yield from _best(problem, solution, value)
    yield from _uses(problem, solution)


def _uses(problem: Problem, solution: Solution) -> Iterator[str]:
    shown = {each.name for each in solution.shared}
    for name, _, _ in shared_uses(problem, solution.allocations):
        if name not in shown:
            yield f"{name} is not shown"


def _held(problem: Problem, conflicts: tuple[Conflict, ...]) -> Problem:
    """With the models of conflicts as they are."""
    models = {model for conflict in conflicts for model in conflict.models}
    keys = {key for each in problem.requirements if each.model in models for key in members(each)}
    kept = {key: problem.current[key] for key in keys if key in problem.bounds}
    return replace(problem, pinned={**problem.pinned, **kept})


def _conflicts(problem: Problem, solution: Solution) -> Iterator[str]:
    for number, conflict in enumerate(solution.conflicts):
        so_far = _held(problem, solution.conflicts[:number])
        shared = [
            name for name in _shared_names(problem) if any(each.startswith(f"{name} with") for each in conflict.rules)
        ]
        if is_feasible(so_far, conflict.models, shared):
            yield f"no conflict: {conflict}"
            continue
        for name in shared:
            if not is_feasible(so_far, conflict.models, [each for each in shared if each != name]):
                yield f"{name} is superfluous in {conflict}"
        for group in {tuple(_joined(problem, model)) for model in conflict.models}:
            rest = [each for each in conflict.models if each not in group]
            if rest and not is_feasible(so_far, rest, shared):
                yield f"{group} is superfluous in {conflict}"
    if not is_feasible(_held(problem, solution.conflicts), None, None):
        yield "a conflict that is not told"


def _joined(problem: Problem, model: ModelKey) -> list[ModelKey]:
    """The model with its other roles: what ratios join is decided as one."""
    joined = any(model in each.sides for each in problem.ratios)
    return [each.model for each in problem.requirements if each.model.whole == model.whole] if joined else [model]


def _shared_names(problem: Problem) -> list[str]:
    pools, budgets = [each.name for each in problem.pools], [each.name for each in problem.budgets]
    return [*pools, *budgets, *(each.name for each in problem.change_limits)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """By model the share of its demand that must be covered as far as bounds admit, and what is, no more than that."""

    must: Mapping[ModelKey, float]
    got: Mapping[ModelKey, float]

    @classmethod
    def of(cls, problem: Problem, solution: Solution) -> "Shares":
        must = {each.model: min(must_of(problem, each), widest(problem, each)) for each in problem.requirements}
        got = {
            each.model: min(carried_share(problem, each, solution.allocations), must[each.model])
            for each in problem.requirements
        }
        return cls(must=must, got=got)

    def is_short(self, model: ModelKey) -> bool:
        """Whether less is covered than must be."""
        return self.got[model] < self.must[model] - EXACT


def _served(problem: Problem, solution: Solution) -> Iterator[str]:
    """Who is short: only where not everybody can be served, by level, and fairly inside a level."""
    shares = Shares.of(problem, solution)
    short = {model for model in shares.must if shares.is_short(model)}
    lacking = {each.model for each in problem.requirements if _lacks(problem, each, solution)}
    told = {each.model for each in solution.shortfalls}
    if lacking != told & {each.model for each in problem.requirements if any(offered(problem, each))}:
        yield f"shortfalls of {sorted(map(str, told))}, but short are {sorted(map(str, lacking))}"
    if not short:
        return
    everybody = Formulated(problem)
    for model, share in shares.must.items():
        everybody.cover(model, share)
    if everybody.rows.least({}).columns is not None:
        yield f"short are {sorted(map(str, short))}, but everybody can be served"
        return
    priority = {each.model: each.priority for each in problem.requirements}
    for level in sorted({priority[model] for model in short}, reverse=True):
        yield from _fair(problem, shares, level, priority)


def _lacks(problem: Problem, requirement: Requirement, solution: Solution) -> bool:
    """Whether a model that has anything to choose gets less than all of its demand."""
    if not any(offered(problem, requirement)):
        return False
    wanted = must_of(problem, requirement)
    if requirement.fixed is None:
        left = max(requirement.amount - carried_by_pinned(problem, requirement), 0.0)
        wanted = left / scale_of(requirement)
    return carried_share(problem, requirement, solution.allocations) < wanted - 2 * EXACT


def _fair(problem: Problem, shares: Shares, level: int, priority: Mapping[ModelKey, int]) -> Iterator[str]:
    """Nobody of the level could have more without taking from it or from above, and the least served not more."""

    def above() -> Formulated:
        formulated = Formulated(problem)
        for model, got in shares.got.items():
            if priority[model] > level:
                formulated.cover(model, got)
        return formulated

    members_of = [model for model in shares.got if priority[model] == level and shares.must[model] > 0]
    reach = {}
    for model in members_of:
        best = above()
        reach[model] = min(
            -best.rows.least({key: -each for key, each in best.covered(model).items()}).value, shares.must[model]
        )
    unmet = [model for model in members_of if shares.got[model] < reach[model] - EXACT]
    if not unmet:
        return
    # In parts of what is left to cover: who has little left, for pinned replicas carry the rest, is not the poorest.
    least = min(shares.got[model] / shares.must[model] for model in unmet)
    fairer = above()
    for model in members_of:
        fairer.cover(model, min((least + SHARE) * shares.must[model] + 1e-5, reach[model]))
    if fairer.rows.least({}).columns is not None:
        yield f"level {level}: all could have {least + SHARE} of what they must, not {least}"
    better = above()
    gains = {}
    for model in members_of:
        better.cover(model, shares.got[model])
        gain = better.rows.column(0.0, max(shares.must[model] - shares.got[model], 0.0), integral=False)
        covered = better.covered(model)
        better.rows.row({**covered, gain: -1.0}, shares.got[model] - 1e-9, math.inf)
        gains[gain] = -1.0
    more = -better.rows.least(gains).value
    if more > 1e-3 * len(members_of) + EXACT:
        yield f"level {level}: {more} more of the demand could be served beside what is"


def _best(problem: Problem, solution: Solution, value: float) -> Iterator[str]:
    """No plan that serves as much, in no worse order, costs less than is claimed."""
    shares = Shares.of(problem, solution)
    rivals = Formulated(problem)
    for model, got in shares.got.items():
        rivals.cover(model, got)
    objective = rivals.value()
    if rivals.late:
        least = rivals.rows.least(rivals.late).value
        late = lateness_of(problem, solution.allocations)
        if late > least + EXACT and not any(map(shares.is_short, shares.got)):
            yield f"the order is broken by {late}, {least} is enough"
        _keep_accelerators(rivals, problem, solution)
    best = rivals.rows.least(objective)
    room = EXACT * max(abs(best.value), 1.0)
    if value < best.bound - room:
        yield f"{value} is less than the least value {best.bound}: the check is wrong"
    if solution.lower_bound > best.value + room:
        yield f"the bound {solution.lower_bound} is above the optimum {best.value}"
    if value > best.value * (1 + max(GAP, solution.gap)) + room:
        yield f"{value} where {best.value} is possible (claimed gap {solution.gap})"
    if solution.status is SolveStatus.OPTIMAL and value > best.value + room:
        yield f"{value} is said to be the optimum, that is {best.value}"
    if solution.greedy_value is not None and solution.greedy_value < value - room:
        yield f"the usual rule reaches {solution.greedy_value}, the plan {value}"
    yield from _prices(problem, solution, shares, best.value)


def _keep_accelerators(rivals: Formulated, problem: Problem, solution: Solution) -> None:
    """Variants in order stay on what the plan takes for them: the order comes before the cost."""
    for group in rivals.options.values():
        for option in group:
            placed = solution.allocations[option.variant]
            if option.variant in problem.in_order and option.rank:
                is_taken = placed.replicas > 0 and placed.accelerator == option.candidate.key.accelerator
                if not is_taken:
                    rivals.rows.row({option.active: 1.0}, 0.0, 0.0)


def _prices(problem: Problem, solution: Solution, shares: Shares, best: float) -> Iterator[str]:
    """One more of what has a price saves that much."""
    for use in solution.shared:
        if use.price is None:
            continue
        roomier = replace(
            problem,
            pools=tuple(replace(each, devices=each.devices + (each.name == use.name)) for each in problem.pools),
            budgets=tuple(replace(each, amount=each.amount + (each.name == use.name)) for each in problem.budgets),
            change_limits=tuple(
                replace(each, changes=each.changes + (each.name == use.name)) for each in problem.change_limits
            ),
        )
        rivals = Formulated(roomier)
        for model, got in shares.got.items():
            rivals.cover(model, got)
        objective = rivals.value()
        if rivals.late:
            _keep_accelerators(rivals, problem, solution)
        saved = best - rivals.rows.least(objective).value
        if abs(saved - use.price) > PRICE * max(saved, use.price) + EXACT * max(best, 1.0):
            yield f"one more {use.name} saves {saved}, not {use.price}"
