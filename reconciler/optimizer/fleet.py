"""The solvers that decide all models together, and the proof that comes with their plan."""

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from reconciler.domain.identity import ModelKey, ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.records import replace
from reconciler.domain.requirements import (
    Budget,
    ChangeLimit,
    ModelCoverage,
    Pool,
    Problem,
    Requirement,
    Sensitivity,
    SharedUse,
    Shortfall,
    Solution,
    Solver,
    SolveStatus,
)
from reconciler.domain.units import significant
from reconciler.optimizer.device_use import NOTHING, Allocations, DeviceUse, carried_by_pinned, exceeded, violations
from reconciler.optimizer.formulation import Formulation, formulate, members, model_place
from reconciler.optimizer.highs import Floats, Integers, UnsolvableError, owners
from reconciler.optimizer.planning import (
    FleetPlan,
    Planner,
    covered_by,
    in_order,
    plan_by_columns,
    plan_directly,
    plan_greedily,
    use_of,
    value_of,
)
from reconciler.optimizer.scarcity import ConsistentProblem, settle, shed
from reconciler.optimizer.separable import VALUE_TOLERANCE, SeparableSolver

SCENARIOS = ((1.25, 1.0), (1.5, 1.0), (1.0, 0.9))
"""Factors on demand and capacity under which the plan is checked again (arXiv 2604.07472 asks for 1.5)."""

RIVALS = 5
"""How many competitors of a model are named: the most urgent."""

FEW = 300
"""Models up to which each is solved alone first; more are decided together as exactly, in less time."""

ASKED = 100
"""Choices of a fleet up to which the saving of one more of each full shared row is computed: it takes a plan each."""

DOUBT = 0.1
"""The fraction of a saving that may be unproven."""

_NOISE = 1e-6


def shared_uses(
    problem: Problem, allocations: Mapping[ResourceKey, Allocation], prices: Mapping[str, float | None]
) -> tuple[SharedUse, ...]:
    """What all variants take of each shared row, pinned ones included, and what one more of it would save an hour."""
    device_use, everybody = DeviceUse.of(problem), {**problem.current, **allocations}
    used = device_use.pools(everybody)
    uses = [(each.name, float(used[each.name]), float(each.devices)) for each in sorted(problem.pools, key=_name)]
    budgets = sorted(problem.budgets, key=_name)
    uses += [(each.name, device_use.spent(everybody, each.variants), each.amount) for each in budgets]
    for limit in sorted(problem.change_limits, key=_name):
        changed = sum(everybody[key] != problem.current[key] for key in limit.variants)
        uses.append((limit.name, float(changed), float(limit.changes)))
    return tuple(
        SharedUse(
            name=name,
            used=round(used, 6),
            limit=round(limit, 6),
            price=None if (price := prices.get(name)) is None else round(price, 6),
        )
        for name, used, limit in uses
    )


def _name(shared: Pool | Budget | ChangeLimit) -> str:
    return shared.name


def coverages(
    problem: Problem, allocations: Allocations, scarce: Mapping[ModelKey, tuple[str, ...]]
) -> tuple[ModelCoverage, ...]:
    """What each model needs and gets; `scarce` names the shared rows without room for one more of its replicas."""
    everybody = {**problem.current, **allocations}
    ordered = sorted(problem.requirements, key=model_place)
    takers = _takers(problem, ordered, everybody, {name for names in scarce.values() for name in names})
    found = []
    for place, requirement in enumerate(ordered):
        fixed, model = requirement.fixed, requirement.model
        needed = requirement.amount if fixed is None else float(sum(fixed.values()))
        given = _carried(requirement, everybody) if fixed is None else sum(everybody[key].replicas for key in fixed)
        names = scarce.get(model, ()) if given < needed * (1 - _NOISE) else ()
        rivals = sorted({each for name in names for each in takers[name][: RIVALS + 1] if each[1] != place})
        found.append(
            ModelCoverage(
                model=model,
                unit=requirement.unit,
                needed=significant(needed),
                given=significant(float(given)),
                priority=requirement.priority,
                competes_for=names,
                rivals=tuple(ordered[each].model for _, each in rivals[:RIVALS]),
                decided_at=min((-last for name in names for last in _last_other(takers[name], place)), default=None),
            )
        )
    return tuple(found)


Taker = tuple[int, int]
"""The negative priority of a model and its place among all: in this order the most urgent is first."""


def _takers(
    problem: Problem, ordered: Sequence[Requirement], everybody: Allocations, names: Collection[str]
) -> dict[str, list[Taker]]:
    """The models that use each of the named shared rows, the most urgent first."""
    device_use = DeviceUse.of(problem)
    shares = [(each.name, each.variants) for each in problem.budgets if each.name in names]
    shares += [(each.name, each.variants) for each in problem.change_limits if each.name in names]
    groups: dict[ResourceKey, list[str]] = {}
    for name, variants in shares:
        for key in variants:
            groups.setdefault(key, []).append(name)
    found: dict[str, set[Taker]] = {name: set() for name in names}
    for place, requirement in enumerate(ordered if names else ()):
        urgency = (-requirement.priority, place)
        for key in (*(requirement.fixed or ()), *{key.variant for key in requirement.per_replica}):
            if key in everybody and everybody[key].replicas:
                taken = device_use.devices(key, everybody[key].accelerator)
                for name in (*taken, *groups.get(key, ())):
                    if name in found:
                        found[name].add(urgency)
    return {name: sorted(takers) for name, takers in found.items()}


def _last_other(takers: Sequence[Taker], place: int) -> Iterator[int]:
    """The negative priority of the least urgent other model, if there is one."""
    last = next((each for each in reversed(takers) if each[1] != place), None)
    if last is not None:
        yield last[0]


def sensitivity(problem: Problem, allocations: Mapping[ResourceKey, Allocation]) -> tuple[Sensitivity, ...]:
    """How many models the plan would leave short at another demand or capacity.

    Fixed answers have neither. Models that no candidate can serve are left out.
    """
    covered = [
        (_carried(requirement, allocations) / requirement.amount, requirement.model)
        for requirement in problem.requirements
        if requirement.fixed is None and requirement.amount > 0 and any(requirement.per_replica.values())
    ]
    return tuple(_scenario(covered, demand, capacity) for demand, capacity in SCENARIOS) if covered else ()


def _carried(requirement: Requirement, allocations: Mapping[ResourceKey, Allocation]) -> float:
    total = 0.0
    for key, amount in requirement.per_replica.items():
        placed = allocations.get(key.variant)
        if placed is not None and placed.accelerator == key.accelerator:
            total += amount * placed.replicas
    return total


def _scenario(covered: list[tuple[float, ModelKey]], demand: float, capacity: float) -> Sensitivity:
    shares = [(share * capacity / demand, model) for share, model in covered]
    worst, model = min(shares)
    short = sum(share < 1 - _NOISE for share, _ in shares)
    return Sensitivity(
        demand_factor=demand,
        capacity_factor=capacity,
        short=short,
        worst=model if short else None,
        worst_covered=round(min(worst, 1.0), 6),
    )


def components(formulation: Formulation) -> list[Problem]:
    """The parts that share nothing with each other, in the order of models; models that share nothing form one part."""
    label = _labels(formulation)
    if label.max(initial=0) == 0:
        return [formulation.problem]
    order = dict.fromkeys(label[formulation.block_of_row].tolist())
    return [_part(formulation, label, each) for each in order]


def _labels(formulation: Formulation) -> Integers:
    """By block its component, from 0: blocks are joined by the shared rows that any of their choices uses.

    Or that they use now: where rules contradict each other a model stays where it is.
    """
    label = _joined_by(formulation, [])
    return label if label.max(initial=0) == 0 else _joined_by(formulation, list(_standing(formulation)))


def _standing(formulation: Formulation) -> Iterator[tuple[int, int]]:
    """The blocks with the pools that they take anything of now."""
    problem = formulation.problem
    rows = {name: row for row, name in enumerate(formulation.shared.names)}
    for requirement, block in zip(formulation.rows.requirements, formulation.block_of_row.tolist(), strict=True):
        for key in members(requirement):
            taken = problem.current_devices.get(key, NOTHING) if problem.current[key].replicas else NOTHING
            yield from ((block, rows[name]) for name in taken if name in rows)


def _joined_by(formulation: Formulation, more: Sequence[tuple[int, int]]) -> Integers:
    """The components by what choices use, and by `more` pairs of a block and a shared row."""
    shared, blocks = formulation.shared, formulation.blocks
    standing = np.array(more, dtype=np.int64).reshape(-1, 2)
    of_choice = formulation.block_of_row[formulation.choices.row]
    of_variant = formulation.block_of_row[formulation.variants.row]
    rows = np.concatenate([owners(shared.use), owners(shared.use_touching), standing[:, 1]])
    users = np.concatenate([of_choice[shared.use.indices], of_variant[shared.use_touching.indices], standing[:, 0]])
    label = _first_in_reach(users, blocks, rows, len(shared))
    is_alone = np.bincount(users, minlength=blocks) == 0
    label[is_alone] = blocks
    return np.unique(label, return_inverse=True)[1].astype(np.int64)


def _first_in_reach(users: Integers, blocks: int, rows: Integers, shared: int) -> Integers:
    """By block the first of those that it is joined to, in any number of steps from block to row to block.

    scipy finds components too, but importing what does it takes longer than deciding about a hundred models.
    """
    first = np.arange(blocks)
    while True:
        of_row = np.full(shared, blocks)
        np.minimum.at(of_row, rows, first[users])
        reached = first.copy()
        np.minimum.at(reached, users, of_row[rows])
        if np.array_equal(reached, first):
            return first
        first = reached


def _part(formulation: Formulation, label: Integers, component: int) -> Problem:
    """What is decided in one component; all that is pinned goes on to take what it takes."""
    problem, shared = formulation.problem, formulation.shared
    of_row, of_choice = label[formulation.block_of_row], label[formulation.block_of_row[formulation.choices.row]]
    of_variant = label[formulation.block_of_row[formulation.variants.row]]
    models = {each.model for each, own in zip(formulation.rows.requirements, of_row, strict=True) if own == component}
    variants = {key for key, own in zip(formulation.variants.keys, of_variant, strict=True) if own == component}
    used = {shared.names[row] for row in owners(shared.use)[of_choice[shared.use.indices] == component]}
    touched = of_variant[shared.use_touching.indices] == component
    used |= {shared.names[row] for row in owners(shared.use_touching)[touched]}
    return replace(
        problem,
        requirements=tuple(each for each in problem.requirements if each.model in models),
        candidates=tuple(each for each in problem.candidates if each.key.variant in variants),
        pools=tuple(each for each in problem.pools if each.name in used),
        budgets=tuple(each for each in problem.budgets if each.name in used),
        change_limits=tuple(each for each in problem.change_limits if each.name in used),
    )


def joined(problem: Problem, solutions: Sequence[Solution]) -> Solution:
    """The solution of the whole problem from those of its components."""
    allocations = {key: each for solution in solutions for key, each in solution.allocations.items()}
    prices = {use.name: use.price for solution in solutions for use in solution.shared}
    scarce = {each.model: each.competes_for for solution in solutions for each in solution.coverages}
    short = {each.model: each for solution in solutions for each in solution.shortfalls}
    usual = [each.greedy_value for each in solutions if each.greedy_value is not None]
    is_optimal = all(each.status is SolveStatus.OPTIMAL for each in solutions)
    return Solution(
        allocations=allocations,
        status=SolveStatus.OPTIMAL if is_optimal else SolveStatus.FEASIBLE,
        value=sum(each.value for each in solutions),
        lower_bound=sum(each.lower_bound for each in solutions),
        shortfalls=tuple(short[each.model] for each in problem.requirements if each.model in short),
        reasons={key: words for each in solutions for key, words in each.reasons.items()},
        solver=solutions[0].solver,
        shared=shared_uses(problem, allocations, prices),
        conflicts=tuple(conflict for each in solutions for conflict in each.conflicts),
        greedy_value=sum(usual) if len(usual) == len(solutions) else None,
        shortage_gap=max((each.shortage_gap for each in solutions if each.shortage_gap is not None), default=None),
        sensitivity=sensitivity(problem, allocations),
        coverages=coverages(problem, allocations, scarce),
    )


class UnsoundSolutionError(Exception):
    """Raised when a solution breaks a rule of its problem: a bug, and nothing may be written from it."""


class FleetSolver:
    """Decides all models together: pools, budgets, limits, ratios, priced demand, and priority where they bind."""

    def __init__(self, name: str, planner: Planner) -> None:
        self.name = name
        self._planner = planner

    def solve(self, problem: Problem) -> Solution:
        """An allocation for every variant that has a candidate; models of conflicting rules are held.

        If the search finds no plan within its limits, the greedy rule serves what it can and nothing is proven. If that
        breaks a rule, everything stays as it is, and the solution says so.
        """
        formulation = formulate(problem)
        parts = components(formulation)
        if len(parts) > 1:
            solutions = [self._together(part, formulate(part)) for part in parts]
            if not any(each.is_unsolved for each in solutions):
                return joined(problem, solutions)
        return self._together(problem, formulation)

    def _together(self, problem: Problem, formulation: Formulation) -> Solution:
        settled = ConsistentProblem(formulation=formulation)
        try:
            # Infinite numbers lead to UnsolvableError, not to a warning.
            with np.errstate(over="ignore", invalid="ignore"):
                return self._solve(problem, settled)
        except UnsolvableError:
            return self._fallback(problem, settled)

    def _solve(self, problem: Problem, settled: ConsistentProblem) -> Solution:
        formulation = settled.formulation
        planned, shortage_gap = self._planner(formulation), None
        if not isinstance(planned, FleetPlan):
            settled = settle(formulation, self._planner)
            formulation = settled.formulation
            planned = self._planner(formulation) if settled.conflicts else planned
        if not isinstance(planned, FleetPlan):
            planned, formulation, shortage_gap = shed(formulation, self._planner)
        if not isinstance(planned, FleetPlan):
            return self._fallback(problem, settled)
        formulation, planned = in_order(formulation, planned, self._planner)
        greedy = plan_greedily(formulation)
        reached = None if greedy is None else value_of(formulation, greedy)
        if greedy is not None and reached is not None and reached < planned.value - VALUE_TOLERANCE * abs(reached):
            planned = replace(planned, counts=greedy, value=reached, bound=min(planned.bound, reached))
        is_whole = formulation is settled.formulation
        savings = self._savings(formulation, planned) if is_whole else np.full(len(formulation.shared), np.nan)
        plan = replace(planned, prices=savings)
        solution = replace(_solution(settled, formulation, plan, self.name, reached), shortage_gap=shortage_gap)
        _refuse(solution, violations(settled.formulation.problem, solution.allocations))
        return solution

    @np.errstate(over="ignore", invalid="ignore")
    def _fallback(self, problem: Problem, settled: ConsistentProblem) -> Solution:
        """The greedy plan, with nothing proven; if that breaks a rule everything stays as it is."""
        formulation = settled.formulation
        counts = plan_greedily(formulation, is_partial=True)
        if counts is not None:
            unknown = np.full(len(formulation.shared), np.nan)
            plan = FleetPlan(counts=counts, value=value_of(formulation, counts), bound=-np.inf, prices=unknown)
            solution = _solution(settled, formulation, plan, self.name, None)
            if not violations(formulation.problem, solution.allocations):
                return solution
        allocations = {key: problem.current[key] for key in formulation.variants.keys}
        return Solution(
            allocations={**allocations, **formulation.problem.pinned},
            status=SolveStatus.FEASIBLE,
            value=0.0,
            lower_bound=0.0,
            reasons=dict.fromkeys(allocations, "no plan was found within the limits of the search: all stays as it is"),
            solver=self.name,
            conflicts=settled.conflicts,
            is_unsolved=True,
        )

    def _savings(self, formulation: Formulation, plan: FleetPlan) -> Floats:
        """By shared row what one more of it saves; NaN where that is not proven, and in large fleets.

        The prices of the linear programme say little about that: most of them save nothing, and a row without a price
        may have left no room for whole replicas.
        """
        shared, choices = formulation.shared, formulation.choices
        savings = np.full(len(shared), np.nan)
        for row in range(len(shared)):
            taken = slice(shared.use.indptr[row], shared.use.indptr[row + 1])
            most = shared.use.data[taken] @ choices.highest[shared.use.indices[taken]]
            if not shared.use_touching.indptr[row + 1] - shared.use_touching.indptr[row] and most <= shared.limits[row]:
                savings[row] = 0.0
        if len(choices.keys) > ASKED:
            return savings
        # Where pinned variants take all or more, one more might not free anything.
        tight = {name for names in _binding(formulation, plan).values() for name in names}
        is_tight = np.array([name in tight for name in shared.names], dtype=bool)
        rows = np.flatnonzero(np.isnan(savings) & ((plan.prices > 0) | is_tight) & (shared.limits > 0))
        # Devices and rows with a price often save; of budgets and changes with some left all are planned together.
        is_pool = np.isin(np.array(shared.names)[rows], [pool.name for pool in formulation.problem.pools])
        is_alone = is_pool | (plan.prices[rows] > 0)
        groups = [*rows[is_alone][:, None], rows[~is_alone]]
        gap, noise = plan.value - plan.bound, _NOISE * abs(plan.value)
        while groups:
            group = groups.pop()
            limits = shared.limits.copy()
            limits[group] += 1 / shared.units[group]
            roomier = group.size and self._planner(
                replace(formulation, shared=replace(shared, limits=limits), known_counts=plan.counts)
            )
            if not isinstance(roomier, FleetPlan):
                continue
            saved, doubt = plan.value - roomier.value, gap + roomier.value - roomier.bound
            if doubt <= max(DOUBT * saved, noise) and (group.size == 1 or saved <= noise):
                savings[group] = saved if saved > noise else 0.0
            elif group.size > 1 and saved > noise and gap <= max(DOUBT * (plan.value - roomier.bound), noise):
                # None of them saves more than all together, so beyond that gap nothing could be proven.
                groups += np.array_split(group, 2)
        return savings


class AutoSolver:
    """Each model alone, exactly, where that fits into all shared rows; else all together.

    Under the objective `inferno` models do not share: its own solver serves as many variants as possible.
    """

    name = "auto"

    def __init__(self, inferno: Solver) -> None:
        self._separable = SeparableSolver()
        self._fleet = FleetSolver("columns", plan_by_columns)
        self._inferno = inferno

    def solve(self, problem: Problem) -> Solution:
        """The proven optimum where no shared row binds, else the best plan of the whole fleet with its bound."""
        is_alone = problem.objective == "inferno" or len(problem.requirements) <= FEW
        is_priced = any(each.price is not None for row in problem.requirements for each in row.segments)
        if is_alone and not is_priced and not problem.ratios:
            solution = self._separable.solve(problem)
            if not violations(problem, solution.allocations):
                return _shown(problem, replace(solution, solver=self._separable.name))
        if problem.objective == "inferno":
            solution = self._inferno.solve(problem)
            _refuse(solution, exceeded(problem, solution.allocations))
            return _shown(problem, solution)
        return self._fleet.solve(problem)


def _shown(problem: Problem, solution: Solution) -> Solution:
    """With its use of shared rows, sensitivity and coverage; one more saves nothing where each model has its best."""
    is_best = problem.objective != "inferno" and solution.status is SolveStatus.OPTIMAL
    names = [each.name for rows in (problem.pools, problem.budgets, problem.change_limits) for each in rows]
    prices = dict.fromkeys(names, 0.0 if is_best else None)
    return replace(
        solution,
        shared=shared_uses(problem, solution.allocations, prices),
        sensitivity=sensitivity(problem, solution.allocations),
        coverages=coverages(problem, solution.allocations, {}),
    )


def _refuse(solution: Solution, broken: Sequence[str]) -> None:
    if broken:
        raise UnsoundSolutionError(f"solver {solution.solver}: {'; '.join(broken)}")


def _solution(
    settled: ConsistentProblem, formulation: Formulation, plan: FleetPlan, name: str, greedy: float | None
) -> Solution:
    problem, unit = settled.formulation.problem, formulation.unit
    allocations = {**problem.pinned, **_allocations(formulation, plan.counts)}
    is_optimal = plan.value - plan.bound <= VALUE_TOLERANCE * max(abs(plan.value), 1.0)
    binding, covered = _binding(formulation, plan), covered_by(formulation, plan.counts) * formulation.rows.scale
    savings = zip(formulation.shared.names, (plan.prices * unit).tolist(), strict=True)
    prices = {name: saving if np.isfinite(saving) else None for name, saving in savings}
    scarce = {formulation.rows.requirements[row].model: tuple(names) for row, names in binding.items()}
    return Solution(
        allocations=allocations,
        status=SolveStatus.OPTIMAL if is_optimal else SolveStatus.FEASIBLE,
        value=plan.value * unit,
        lower_bound=min(plan.bound, plan.value) * unit,
        shortfalls=_shortfalls(settled.formulation, covered, binding),
        reasons=_reasons(formulation, covered, binding),
        solver=name,
        shared=shared_uses(problem, allocations, prices),
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
