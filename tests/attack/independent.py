"""The optimizer's problem as one mixed-integer programme, built straight from its definition and from nothing else.

It shares no code with the optimizer: what it says of a plan, and of the best plan there is, is a second opinion.
Demand is counted in shares of each model's own, for the programme's tolerances are absolute.
"""

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from reconciler.domain.identity import CandidateKey, ModelKey, ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.requirements import Candidate, Problem, Requirement

NOISE = 1e-6
Allocations = Mapping[ResourceKey, Allocation]
Terms = dict[int, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A variant on one of its accelerators, with the columns of its replicas and of whether it serves."""

    variant: ResourceKey
    candidate: Candidate
    carried: float
    rank: int
    replicas: int
    active: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The best value found, the bound on any, and the columns; no columns: there is no plan."""

    value: float
    bound: float
    columns: tuple[float, ...] | None


@dataclass(slots=True)
class Rows:
    """Columns and rows of a programme while they are gathered."""

    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    integral: list[int] = field(default_factory=list)
    cells: list[tuple[int, int, float]] = field(default_factory=list)
    limits: list[tuple[float, float]] = field(default_factory=list)

    def column(self, lower: float, upper: float, *, integral: bool = True) -> int:
        """A new variable."""
        self.lower.append(lower)
        self.upper.append(upper)
        self.integral.append(int(integral))
        return len(self.lower) - 1

    def row(self, terms: Terms, lower: float, upper: float) -> None:
        """A new constraint."""
        self.cells += [(len(self.limits), column, value) for column, value in terms.items()]
        self.limits.append((lower, upper))

    def least(self, objective: Terms) -> Answer:
        """The columns that keep all rows at the least objective."""
        costs = np.zeros(len(self.lower))
        for column, value in objective.items():
            costs[column] += value
        size = float(np.abs(costs).max(initial=0.0)) or 1.0
        constraints = []
        if self.cells:
            rows, columns, values = zip(*self.cells, strict=True)
            matrix = coo_array((values, (rows, columns)), shape=(len(self.limits), len(costs))).tocsr()
            lower, upper = (np.array(side) for side in zip(*self.limits, strict=True))
            constraints.append(LinearConstraint(matrix, lower, upper))
        elif any(lower > 0 or upper < 0 for lower, upper in self.limits):
            return Answer(value=math.inf, bound=math.inf, columns=None)
        if not len(costs):
            return Answer(value=0.0, bound=0.0, columns=())
        found = milp(
            costs / size,
            integrality=np.array(self.integral),
            bounds=Bounds(np.array(self.lower), np.array(self.upper)),
            constraints=constraints,
            options={"mip_rel_gap": 1e-9, "node_limit": 20_000},
        )
        return _answer(found, size)


def _answer(found: Any, size: float) -> Answer:
    """Untyped: the stubs know neither a programme without an answer nor one without integers, whose bound is none."""
    if found.x is None:
        return Answer(value=math.inf, bound=math.inf, columns=None)
    bound = found.fun if found.mip_dual_bound is None else found.mip_dual_bound
    return Answer(value=found.fun * size, bound=bound * size, columns=tuple(found.x.tolist()))


class Formulated:
    """The rules of a problem, of some of its models and some of what they share; demand is asked for beside them."""

    def __init__(
        self, problem: Problem, models: Collection[ModelKey] | None = None, shared: Collection[str] | None = None
    ) -> None:
        self.problem = problem
        self.rows = Rows()
        self.requirements = [each for each in problem.requirements if models is None or each.model in models]
        self.options: dict[ModelKey, list[Option]] = {}
        self.cost: Terms = {}
        self.late: Terms = {}
        self.changed: dict[ResourceKey, int] = {}
        for requirement in self.requirements:
            self.options[requirement.model] = list(self._options(requirement))
        self._pools(shared)
        self._budgets(shared)
        self._changes(shared)
        self._ratios()

    def covered(self, model: ModelKey) -> Terms:
        """What is carried of a model, in shares of its demand."""
        scale = scale_of(next(each for each in self.requirements if each.model == model))
        return {each.replicas: each.carried / scale for each in self.options[model]}

    def cover(self, model: ModelKey, share: float) -> None:
        """At least that share of the model's demand must be carried.

        In replicas where one carries a tiny share: the programme's tolerance must be no replica.
        """
        covered = self.covered(model)
        finer = 1 / max(min((each for each in covered.values() if each > 0), default=1.0), 1e-6)
        finer = max(finer, 1.0)
        self.rows.row({key: each * finer for key, each in covered.items()}, (share - 1e-9) * finer, math.inf)

    def value(self) -> Terms:
        """Running, starting, touching, and priced demand that is not met, whose columns are new."""
        cost = dict(self.cost)
        for requirement in self.requirements:
            left = carried_by_pinned(self.problem, requirement)
            shortage: Terms = {}
            scale = scale_of(requirement)
            for segment in sorted(requirement.segments, key=lambda each: -worth(each.price, each.probability)):
                amount, left = max(segment.amount - left, 0.0), max(left - segment.amount, 0.0)
                if segment.price is not None and requirement.fixed is None:
                    short = self.rows.column(0.0, amount / scale, integral=False)
                    shortage[short] = 1.0
                    cost[short] = segment.price * segment.probability * scale
            if shortage:
                self.rows.row({**self.covered(requirement.model), **shortage}, self._priced(requirement), math.inf)
        return cost

    def _priced(self, requirement: Requirement) -> float:
        """The share up to which priced segments reach, above what must be covered as far as bounds admit."""
        scale, rest = scale_of(requirement), carried_by_pinned(self.problem, requirement)
        priced = must = 0.0
        for segment in sorted(requirement.segments, key=lambda each: -worth(each.price, each.probability)):
            amount, rest = max(segment.amount - rest, 0.0), max(rest - segment.amount, 0.0)
            if segment.price is None:
                must += amount
            else:
                priced += amount
        return (min(must, widest(self.problem, requirement) * scale) + priced) / scale

    def _options(self, requirement: Requirement) -> Iterator[Option]:
        problem, rows = self.problem, self.rows
        by_variant: dict[ResourceKey, list[tuple[Candidate, float]]] = {}
        for candidate, carried in offered(problem, requirement):
            by_variant.setdefault(candidate.key.variant, []).append((candidate, carried))
        actives: Terms = {}
        forced = serving = 0
        for variant, group in by_variant.items():
            lowest, highest = bounds_of(problem, requirement, variant)
            current = problem.current[variant]
            group.sort(key=lambda pair: (pair[0].order, pair[0].key.accelerator))
            switches: Terms = {}
            touch = problem.touch_weights.get(variant, 0.0)
            change = self.changed[variant] = rows.column(0, 1)
            self.cost[change] = touch
            is_here = any(each.key.accelerator == current.accelerator for each, _ in group)
            if current.replicas and not is_here:
                rows.row({change: 1.0}, 1.0, 1.0)
            for rank, (candidate, carried) in enumerate(group):
                stands = candidate.key.accelerator == current.accelerator
                standing = current.replicas if stands else 0
                most = self._most(requirement, carried, max(lowest, standing))
                most = most if highest is None else min(highest, most)
                count, active = rows.column(0, max(most, 0)), rows.column(0, 1)
                rows.row({count: 1.0, active: -float(max(most, 0))}, -math.inf, 0.0)
                rows.row({count: 1.0, active: -float(max(lowest, 1))}, 0.0, math.inf)
                switches[active] = 1.0
                self.cost[count] = candidate.weight
                if candidate.start_weight and requirement.fixed is None:
                    started = rows.column(0, max(most, 0), integral=False)
                    rows.row({started: 1.0, count: -1.0}, -standing, math.inf)
                    self.cost[started] = candidate.start_weight
                span = float(max(most, standing))
                rows.row({count: 1.0, change: -span}, -math.inf, standing)
                rows.row({count: -1.0, change: -span}, -math.inf, -standing)
                if variant in problem.in_order and rank:
                    self.late[active] = rank * max(each.weight for each, _ in group)
                yield Option(
                    variant=variant, candidate=candidate, carried=carried, rank=rank, replicas=count, active=active
                )
            rows.row(switches, float(lowest > 0), 1.0)
            actives |= switches
            forced += lowest > 0
            serving += lowest > 0 or current.replicas > 0
        if requirement.active_limit is not None and requirement.fixed is None:
            members = {key.variant for key in requirement.per_replica}
            kept = sum(problem.pinned[key].replicas > 0 for key in members & problem.pinned.keys())
            rows.row(actives, -math.inf, max(requirement.active_limit - kept, forced, serving))

    def _most(self, requirement: Requirement, carried: float, least: int) -> int:
        """More replicas than any best plan has: all of the demand, or what a ratio asks for beside it."""
        alone = math.ceil(max(requirement.amount, 0.0) / carried) + 1
        if requirement.fixed is not None:
            return max(requirement.fixed.values(), default=0)
        beside = 1.0
        for ratio in self.problem.ratios:
            if requirement.model in ratio.sides:
                both = [each for each in self.problem.requirements if each.model in ratio.sides]
                counts = [
                    max(
                        [math.ceil(each.amount / value) for value in each.per_replica.values() if value > 0]
                        + [
                            self.problem.current[key].replicas + self.problem.bounds[key].minimum
                            for key in members(each)
                            if key not in self.problem.pinned
                        ]
                        + [1]
                    )
                    * max(len(members(each)), 1)
                    for each in both
                ]
                factor = max(ratio.least, 1.0, 1 / ratio.most if ratio.most else 1.0)
                beside = max(beside, (max(counts) + 1) * factor)
        return max(alone, least, math.ceil(beside))

    def _pools(self, shared: Collection[str] | None) -> None:
        for pool in self.problem.pools:
            if shared is not None and pool.name not in shared:
                continue
            held = sum(
                self.problem.current_devices.get(key, {}).get(pool.name, 0) * each.replicas
                for key, each in self.problem.pinned.items()
            )
            use = {
                each.replicas: float(each.candidate.devices.get(pool.name, 0))
                for group in self.options.values()
                for each in group
            }
            self.rows.row(use, -math.inf, max(pool.devices - held, 0))

    def _budgets(self, shared: Collection[str] | None) -> None:
        for budget in self.problem.budgets:
            if shared is not None and budget.name not in shared:
                continue
            held = sum(
                self.problem.current_weights.get(key, 0.0) * each.replicas
                for key, each in self.problem.pinned.items()
                if key in budget.variants
            )
            use = {
                each.replicas: each.candidate.weight
                for group in self.options.values()
                for each in group
                if each.variant in budget.variants
            }
            self.rows.row(use, -math.inf, max(budget.amount - held, 0.0) + 1e-9)

    def _changes(self, shared: Collection[str] | None) -> None:
        for limit in self.problem.change_limits:
            if shared is None or limit.name in shared:
                use = {column: 1.0 for key, column in self.changed.items() if key in limit.variants}
                self.rows.row(use, -math.inf, limit.changes)

    def _ratios(self) -> None:
        rows = {each.model: each for each in self.requirements}
        for ratio in self.problem.ratios:
            over, under = (rows.get(side) for side in ratio.sides)
            if over is None or under is None:
                continue
            if (members(over) | members(under)) & self.problem.pinned.keys():
                continue
            greater = {each.replicas: 1.0 for each in self.options[over.model]}
            smaller = [each.replicas for each in self.options[under.model]]
            self.rows.row(greater | dict.fromkeys(smaller, -ratio.least), 0.0, math.inf)
            if ratio.most is not None:
                self.rows.row(greater | dict.fromkeys(smaller, -ratio.most), -math.inf, 0.0)


def worth(price: float | None, probability: float) -> float:
    """What covering a unit of a segment is worth: all there is where it must be covered."""
    return math.inf if price is None else price * probability


def members(requirement: Requirement) -> set[ResourceKey]:
    """The variants that serve a requirement."""
    return set(requirement.fixed or ()) | {key.variant for key in requirement.per_replica}


def offered(problem: Problem, requirement: Requirement) -> Iterator[tuple[Candidate, float]]:
    """What the free variants of a requirement may choose, and what a replica of it carries."""
    known = {each.key: each for each in problem.candidates}
    if requirement.fixed is None:
        for key, carried in requirement.per_replica.items():
            if carried > 0 and key.variant not in problem.pinned and key in known:
                yield known[key], carried
        return
    for variant in sorted(requirement.fixed):
        if variant not in problem.pinned:
            place = CandidateKey(variant=variant, accelerator=problem.current[variant].accelerator)
            standing = Candidate(
                key=place,
                weight=problem.current_weights.get(variant, 0.0),
                cost_per_hour=None,
                devices=problem.current_devices.get(variant, {}),
            )
            yield known.get(place, standing), 1.0


def bounds_of(problem: Problem, requirement: Requirement, variant: ResourceKey) -> tuple[int, int | None]:
    """The fewest and most replicas of a variant."""
    bounds = problem.bounds[variant]
    if requirement.fixed is None:
        return bounds.minimum, bounds.maximum
    return min(bounds.minimum, requirement.fixed[variant]), requirement.fixed[variant]


def scale_of(requirement: Requirement) -> float:
    """The unit of a programme: the whole demand, else what the largest replica carries."""
    if requirement.fixed is not None:
        return float(max(sum(requirement.fixed.values()), 1))
    return requirement.amount or max(requirement.per_replica.values(), default=0.0) or 1.0


def carried_by_pinned(problem: Problem, requirement: Requirement) -> float:
    """What variants that keep their allocation carry."""
    return sum(
        carried * problem.pinned[key.variant].replicas
        for key, carried in requirement.per_replica.items()
        if key.variant in problem.pinned and problem.pinned[key.variant].accelerator == key.accelerator
    )


def must_of(problem: Problem, requirement: Requirement) -> float:
    """The share of the demand that free variants must carry, before bounds cut it."""
    if requirement.fixed is not None:
        free = sum(count for key, count in requirement.fixed.items() if key not in problem.pinned)
        return free / scale_of(requirement)
    must = sum(each.amount for each in requirement.segments if each.price is None)
    return max(must - carried_by_pinned(problem, requirement), 0.0) / scale_of(requirement)


def widest(problem: Problem, requirement: Requirement) -> float:
    """The largest share of the demand that bounds and the count of active variants admit; in order on the first."""
    alone = Formulated(problem, {requirement.model}, ())
    first = {
        each.replicas: -each.carried / scale_of(requirement)
        for each in alone.options[requirement.model]
        if each.variant not in problem.in_order or each.rank == 0
    }
    return max(-alone.rows.least(first).value, 0.0) if first else 0.0


def carried_share(problem: Problem, requirement: Requirement, plan: Allocations) -> float:
    """The share of the demand that a plan's free variants carry."""
    carried = {candidate.key: each for candidate, each in offered(problem, requirement)}
    total = sum(
        carried.get(CandidateKey(variant=key, accelerator=plan[key].accelerator), 0.0) * plan[key].replicas
        for key in {each.variant for each in carried}
    )
    return total / scale_of(requirement)


def is_feasible(problem: Problem, models: Collection[ModelKey] | None, shared: Collection[str] | None) -> bool:
    """Whether some plan keeps the rules of some models and some of what they share, whatever it serves."""
    return Formulated(problem, models, shared).rows.least({}).columns is not None
