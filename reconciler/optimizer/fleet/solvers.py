"""Solvers of what models share, found by name, and the one that chooses among all: `auto`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from reconciler.domain.identity import ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.requirements import Problem
from reconciler.domain.solutions import Shortfall, Solution, SolveStatus
from reconciler.optimizer.checking import exceeded, violations
from reconciler.optimizer.cover import VALUE_TOLERANCE
from reconciler.optimizer.device_use import carried_by_pinned
from reconciler.optimizer.fleet.components import components, joined
from reconciler.optimizer.fleet.conflicts import ConsistentProblem, settle
from reconciler.optimizer.fleet.formulating import formulate
from reconciler.optimizer.fleet.formulation import Formulation
from reconciler.optimizer.fleet.greedy import plan_greedily
from reconciler.optimizer.fleet.levels import shed
from reconciler.optimizer.fleet.planning import (
    FleetPlan,
    Planner,
    covered_by,
    in_order,
    plan_by_columns,
    plan_directly,
    use_of,
    value_of,
)
from reconciler.optimizer.fleet.proof import coverages, sensitivity, shared_uses
from reconciler.optimizer.highs import UnsolvableError
from reconciler.optimizer.inferno.solvers import OptimalSolver
from reconciler.optimizer.separable import SeparableSolver
from reconciler.optimizer.sparse import Floats, Integers

_NOISE = 1e-6

FEW = 300
"""Models up to which each is asked alone first; more are decided together as exactly, in less time than that takes."""


ASKED = 100
"""Choices of a fleet up to which it is asked what one more of anything full would save."""

DOUBT = 0.1
"""How much of a saving may be unproven."""


class UnsoundSolutionError(Exception):
    """Raised when a solver's answer breaks a rule of the problem: a bug, and nothing may be written from it."""


class FleetSolver:
    """Decides all models together: pools, budgets, limits, ratios, priced demand, and priority where they bind."""

    def __init__(self, name: str, planner: Planner) -> None:
        self.name = name
        self._planner = planner

    def solve(self, problem: Problem) -> Solution:
        """An allocation for every variant that has a candidate; models of rules that contradict each other are held.

        Where the limits of the search are reached before any plan is found, the usual rule serves what it can, and
        nothing is proven; where that breaks a rule, everything stays as it is, and the solution says so.
        """
        formulation = formulate(problem)
        parts = components(formulation)
        if len(parts) > 1:
            solutions = [self._together(part, formulate(part)) for part in parts]
            if not any(each.is_unsolved for each in solutions):
                return joined(problem, solutions)
        return self._together(problem, formulation)

    def _together(self, problem: Problem, formulation: Formulation) -> Solution:
        settled = ConsistentProblem(formulation=formulation, conflicts=(), is_changed=False)
        try:
            # Numbers beyond all measure end in a programme without an answer, which is told, not in a warning.
            with np.errstate(over="ignore", invalid="ignore"):
                return self._solve(problem, settled)
        except UnsolvableError:
            return self._usual(problem, settled)

    def _solve(self, problem: Problem, settled: ConsistentProblem) -> Solution:
        formulation = settled.formulation
        planned = self._planner(formulation)
        if not isinstance(planned, FleetPlan):
            settled = settle(formulation, self._planner)
            formulation = settled.formulation
            planned = self._planner(formulation) if settled.is_changed else planned
        if not isinstance(planned, FleetPlan):
            lowered = shed(formulation, self._planner)
            planned, formulation = lowered.plan, lowered.formulation
        if not isinstance(planned, FleetPlan):
            return self._usual(problem, settled)
        formulation, planned = in_order(formulation, planned, self._planner)
        greedy = plan_greedily(formulation)
        reached = None if greedy is None else value_of(formulation, greedy)
        if greedy is not None and reached is not None and reached < planned.value - VALUE_TOLERANCE * abs(reached):
            planned = replace(planned, counts=greedy, value=reached, bound=min(planned.bound, reached))
        is_whole = formulation is settled.formulation
        savings = self._savings(formulation, planned) if is_whole else np.zeros(len(formulation.shared))
        plan = replace(planned, prices=savings)
        return _checked(settled, _solution(settled, formulation, plan, self.name, reached))

    @np.errstate(over="ignore", invalid="ignore")
    def _usual(self, problem: Problem, settled: ConsistentProblem) -> Solution:
        """Where limits of the search came before a plan: what the usual rule serves; if not even that, all stays."""
        counts = plan_greedily(settled.formulation, is_partial=True)
        if counts is not None:
            solution = _solution(settled, settled.formulation, _unproven(settled, counts), self.name, None)
            if not violations(settled.formulation.problem, solution.allocations):
                return solution
        return _unmoved(problem, settled, self.name)

    def _savings(self, formulation: Formulation, plan: FleetPlan) -> Floats:
        """By shared row what the plan with one more of it saves; nothing where that is not proven, or not asked.

        A price of the programme over fractions says little of that: most of its prices save nothing at all. Large
        fleets are not asked, for it takes a plan for each row.
        """
        savings = np.zeros(len(formulation.shared))
        if len(formulation.choices.keys) > ASKED:
            return savings
        shared = formulation.shared
        # Where pinned variants take all or more there is no telling what one more would leave.
        for row in np.flatnonzero((plan.prices > 0) & (shared.limits > 0)).tolist():
            limits = shared.limits.copy()
            limits[row] += 1 / shared.units[row]
            roomier = self._planner(
                replace(formulation, shared=replace(shared, limits=limits), known_counts=plan.counts)
            )
            if isinstance(roomier, FleetPlan):
                saved = plan.value - roomier.value
                doubt = (plan.value - plan.bound) + (roomier.value - roomier.bound)
                savings[row] = saved if saved > _NOISE * abs(plan.value) and doubt <= DOUBT * saved else 0.0
        return savings


class AutoSolver:
    """Each model alone where that fits into everything that is shared, exactly; else all together.

    The objective `inferno` knows nothing of models that share: there as many variants as can be are served.
    """

    name = "auto"

    def __init__(self) -> None:
        self._separable = SeparableSolver()
        self._fleet = FleetSolver("columns", plan_by_columns)
        self._inferno = OptimalSolver()

    def solve(self, problem: Problem) -> Solution:
        """The proven optimum where nothing shared binds, else the best plan of the whole fleet with its bound."""
        is_alone = problem.objective == "inferno" or len(problem.requirements) <= FEW
        if is_alone and _is_separable(problem):
            solution = self._separable.solve(problem)
            allocations = solution.allocations
            if not violations(problem, allocations):
                return _shown(problem, replace(solution, solver=self._separable.name))
        if problem.objective == "inferno":
            solution = self._inferno.solve(problem)
            _refuse(solution, exceeded(problem, solution.allocations))
            return _shown(problem, solution)
        return self._fleet.solve(problem)


def _shown(problem: Problem, solution: Solution) -> Solution:
    """With what it takes of everything shared, and how it bears surprises."""
    return replace(
        solution,
        shared=shared_uses(problem, solution.allocations, {}),
        sensitivity=sensitivity(problem, solution.allocations),
        coverages=coverages(problem, solution.allocations, {}),
    )


def _is_separable(problem: Problem) -> bool:
    """Whether no demand has a price and no role a proportion: what one model alone cannot be asked."""
    is_priced = any(each.price is not None for row in problem.requirements for each in row.segments)
    return not is_priced and not problem.ratios


def _checked(settled: ConsistentProblem, solution: Solution) -> Solution:
    """The solution, after the independent check of the problem that it answers."""
    _refuse(solution, violations(settled.formulation.problem, solution.allocations))
    return solution


def _refuse(solution: Solution, broken: Sequence[str]) -> None:
    if broken:
        raise UnsoundSolutionError(f"solver {solution.solver}: {'; '.join(broken)}")


def _unproven(settled: ConsistentProblem, counts: Integers) -> FleetPlan:
    """What the usual rule serves, where the limits of the search came before any better plan: nothing is proven."""
    formulation = settled.formulation
    nothing = np.zeros(len(formulation.shared))
    return FleetPlan(counts=counts, value=value_of(formulation, counts), bound=-np.inf, prices=nothing)


def _unmoved(problem: Problem, settled: ConsistentProblem, name: str) -> Solution:
    allocations = {key: problem.current[key] for key in settled.formulation.variants.keys}
    return Solution(
        allocations={**allocations, **settled.formulation.problem.pinned},
        status=SolveStatus.FEASIBLE,
        value=0.0,
        lower_bound=0.0,
        reasons=dict.fromkeys(allocations, "no plan was found within the limits of the search: all stays as it is"),
        solver=name,
        conflicts=settled.conflicts,
        is_unsolved=True,
    )


def _solution(
    settled: ConsistentProblem, formulation: Formulation, plan: FleetPlan, name: str, greedy: float | None
) -> Solution:
    problem, unit = settled.formulation.problem, formulation.unit
    allocations = {**problem.pinned, **_allocations(formulation, plan.counts)}
    is_optimal = plan.value - plan.bound <= VALUE_TOLERANCE * max(abs(plan.value), 1.0)
    binding, covered = _binding(formulation, plan), covered_by(formulation, plan.counts) * formulation.rows.scale
    prices = plan.prices * unit
    scarce = {formulation.rows.requirements[row].model: tuple(names) for row, names in binding.items()}
    return Solution(
        allocations=allocations,
        status=SolveStatus.OPTIMAL if is_optimal else SolveStatus.FEASIBLE,
        value=plan.value * unit,
        lower_bound=min(plan.bound, plan.value) * unit,
        shortfalls=_shortfalls(settled.formulation, covered, binding),
        reasons=_reasons(formulation, covered, binding),
        solver=name,
        shared=shared_uses(problem, allocations, dict(zip(formulation.shared.names, prices.tolist(), strict=True))),
        conflicts=settled.conflicts,
        greedy_value=None if greedy is None else greedy * unit,
        sensitivity=sensitivity(problem, allocations),
        coverages=coverages(problem, allocations, scarce),
    )


def _allocations(formulation: Formulation, counts: Integers) -> dict[ResourceKey, Allocation]:
    current = formulation.problem.current
    found = {key: replace(current[key], replicas=0) for key in formulation.variants.keys}
    for index in np.flatnonzero(counts):
        key = formulation.choices.keys[index]
        found[key.variant] = Allocation(accelerator=key.accelerator, replicas=int(counts[index]))
    return found


Binding = Mapping[int, list[str]]
"""By row the shared rows that have no room left for one more replica of some choice of it."""


def _binding(formulation: Formulation, plan: FleetPlan) -> Binding:
    shared, choices = formulation.shared, formulation.choices
    left = shared.limits - use_of(formulation, plan.counts)
    found: dict[int, list[str]] = {}
    for index, name in enumerate(shared.names):
        begin, end = shared.use.indptr[index], shared.use.indptr[index + 1]
        is_full = shared.use.data[begin:end] > left[index] + _NOISE
        for row in np.unique(choices.row[shared.use.indices[begin:end][is_full]]):
            found.setdefault(int(row), []).append(name)
    return found


def _shortfalls(formulation: Formulation, covered: Floats, binding: Binding) -> tuple[Shortfall, ...]:
    """Rows of which less is carried than was asked for, with what stood in the way."""
    found = []
    for row, requirement in enumerate(formulation.rows.requirements):
        wanted = _asked(formulation, row)
        if covered[row] >= wanted * (1 - _NOISE):
            continue
        total = requirement.amount if requirement.fixed is None else float(sum(requirement.fixed.values()))
        found.append(
            Shortfall(
                model=requirement.model,
                covered=total - wanted + float(covered[row]),
                wanted=total,
                reason=_obstacle(binding.get(row, []), formulation.rows.prices[row]),
            )
        )
    return tuple(found)


def _asked(formulation: Formulation, row: int) -> float:
    """What the free variants of a row were asked for, before bounds cut it."""
    requirement, problem = formulation.rows.requirements[row], formulation.problem
    if requirement.fixed is not None:
        return float(sum(count for key, count in requirement.fixed.items() if key not in problem.pinned))
    return max(requirement.amount - carried_by_pinned(problem, requirement), 0.0)


def _obstacle(binding: list[str], prices: Floats) -> str:
    if binding:
        return f"{', '.join(binding)} has no room for one more replica"
    return (
        "more would cost more than the demand is worth"
        if prices.any()
        else "what its bounds admit carries less than the demand"
    )


def _reasons(formulation: Formulation, covered: Floats, binding: Binding) -> dict[ResourceKey, str]:
    demand = formulation.rows.demand * formulation.rows.scale
    options = np.bincount(formulation.choices.row, minlength=len(formulation.rows.requirements))
    reasons = {}
    for key, row in zip(formulation.variants.keys, formulation.variants.row, strict=True):
        unit = formulation.rows.requirements[row].unit
        carried = f"{covered[row]:.4g} of {demand[row]:.4g} {unit}"
        words = f"of {options[row]} candidates, with all models: {carried}"
        full = binding.get(int(row), [])
        reasons[key] = f"{words}; {', '.join(full)} is full" if full else words
    return reasons


COLUMNS = FleetSolver("columns", plan_by_columns)
DIRECT = FleetSolver("milp", plan_directly)
