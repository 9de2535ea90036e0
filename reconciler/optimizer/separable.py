"""The solver for models that share no limit: each one alone, exactly."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from reconciler.domain.identity import ResourceKey
from reconciler.domain.inventory import Allocation
from reconciler.domain.requirements import Bounds, Candidate, Problem, Requirement
from reconciler.domain.solutions import Shortfall, Solution, SolveStatus
from reconciler.optimizer.cover import VALUE_TOLERANCE, Cover, Rank, ReplicaChoice, cheapest_cover
from reconciler.optimizer.device_use import DeviceUse, carried_by_pinned
from reconciler.optimizer.objectives import ValueLine, line_of


class SeparableSolver:
    """Exact per model: the cheapest replicas over its variants' candidates that cover its demand."""

    name = "separable"

    def solve(self, problem: Problem) -> Solution:
        """An allocation of every variant that has a candidate, is pinned, or has a finished answer.

        A model whose bounds forbid covering its demand gets as much as they admit, and a shortfall that says so.
        """
        offers = _offers_by_variant(problem.candidates)
        tally, device_use = _Tally(allocations=dict(problem.pinned)), DeviceUse.of(problem)
        for requirement in sorted(problem.requirements, key=lambda each: each.model):
            if requirement.fixed is not None:
                tally.take_fixed(problem, requirement.fixed, device_use)
            else:
                _solve_model(problem, requirement, offers, tally)
        return tally.solution()


@dataclass(slots=True)
class _Tally:
    """Collects the models' answers into one solution."""

    allocations: dict[ResourceKey, Allocation]
    reasons: dict[ResourceKey, str] = field(default_factory=dict)
    shortfalls: list[Shortfall] = field(default_factory=list)
    value: float = 0.0
    lower_bound: float = 0.0

    def take_fixed(self, problem: Problem, fixed: Mapping[ResourceKey, int], device_use: DeviceUse) -> None:
        for variant, replicas in sorted(fixed.items()):
            if variant not in problem.pinned:
                current = problem.current[variant]
                self.allocations[variant] = replace(current, replicas=replicas)
                value = line_of(problem, device_use.standing(variant), 1.0, Bounds(minimum=0)).value_at(replicas)
                self.value += value
                self.lower_bound += value

    def take_cover(self, asked: "_Ask", cover: Cover) -> None:
        self.value += cover.value
        self.lower_bound += cover.lower_bound
        for choice in cover.choices:
            variant = choice.line.candidate.key.variant
            self.allocations[variant] = choice.line.at(choice.replicas)
            self.reasons[variant] = _words(choice, asked, alone=len(cover.choices) == 1)
        if not cover.is_covering:
            self.shortfalls.append(_shortfall(asked, cover))

    def solution(self) -> Solution:
        is_optimal = self.value - self.lower_bound <= VALUE_TOLERANCE * max(abs(self.value), 1.0)
        return Solution(
            allocations=self.allocations,
            status=SolveStatus.OPTIMAL if is_optimal else SolveStatus.FEASIBLE,
            value=self.value,
            lower_bound=self.lower_bound,
            shortfalls=tuple(self.shortfalls),
            reasons=self.reasons,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ask:
    """What the free variants of one model are asked for: the demand that its pinned variants leave."""

    requirement: Requirement
    demand: float
    considered: int
    in_order: frozenset[ResourceKey]
    bounds: Mapping[ResourceKey, Bounds]


def _solve_model(
    problem: Problem,
    requirement: Requirement,
    offers: Mapping[ResourceKey, tuple[Candidate, ...]],
    tally: _Tally,
) -> None:
    variants = sorted({key.variant for key in requirement.per_replica})
    offered = (
        _lines(problem, requirement, offers.get(variant, ())) for variant in variants if variant not in problem.pinned
    )
    lines = [each for each in offered if each]
    if not lines:
        return
    carried = carried_by_pinned(problem, requirement)
    asked = _Ask(
        requirement=requirement,
        demand=max(requirement.amount - carried, 0.0),
        considered=sum(len(each) for each in lines),
        in_order=problem.in_order,
        bounds=problem.bounds,
    )
    tally.take_cover(asked, cheapest_cover(lines, asked.demand, _rank_for(problem)))


def _lines(problem: Problem, requirement: Requirement, candidates: Iterable[Candidate]) -> tuple[ValueLine, ...]:
    """The lines of the candidates that carry something; of an in-order variant only the first one's."""
    carrying = (candidate for candidate in candidates if requirement.per_replica.get(candidate.key, 0.0) > 0)
    ranked = sorted(carrying, key=lambda candidate: (candidate.order, candidate.key))
    if ranked and ranked[0].key.variant in problem.in_order:
        ranked = ranked[:1]
    return tuple(
        line_of(
            problem,
            candidate,
            requirement.per_replica[candidate.key],
            problem.bounds[candidate.key.variant],
        )
        for candidate in ranked
    )


def _rank_for(problem: Problem) -> Rank:
    def rank(choice: ReplicaChoice) -> tuple[int, ...]:
        """What changes least, then the smallest, then the resource's own order."""
        current = problem.current[choice.line.candidate.key.variant]
        allocation = choice.line.at(choice.replicas)
        return (
            int(allocation.accelerator != current.accelerator),
            int(allocation != current),
            choice.replicas,
            choice.line.candidate.order,
        )

    return rank


def _offers_by_variant(candidates: Iterable[Candidate]) -> dict[ResourceKey, tuple[Candidate, ...]]:
    offers: defaultdict[ResourceKey, list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        offers[candidate.key.variant].append(candidate)
    return {variant: tuple(group) for variant, group in offers.items()}


def _words(choice: ReplicaChoice, asked: _Ask, *, alone: bool) -> str:
    among, unit = _among(choice, asked), asked.requirement.unit
    if not alone:
        price = choice.line.slope / choice.line.per_replica
        return f"{among}, together with the model's other variants: {price:.3g} an hour per {unit}"
    if choice.replicas == choice.line.lowest:
        return f"{among}: the lower bound {choice.line.lowest} carries {asked.demand:.4g} {unit}"
    return f"{among}: ceil({asked.demand:.4g} / {choice.line.per_replica:.4g})"


def _among(choice: ReplicaChoice, asked: _Ask) -> str:
    if choice.line.candidate.key.variant in asked.in_order:
        return "the first candidate in order"
    return f"cheapest of {asked.considered} candidates" if asked.considered > 1 else "the only candidate"


def _shortfall(asked: _Ask, cover: Cover) -> Shortfall:
    limits = ", ".join(
        asked.bounds[key].most_words(choice.line.highest, key.label)
        for choice in cover.choices
        for key in [choice.line.candidate.key.variant]
    )
    wanted = asked.requirement.amount
    return Shortfall(
        model=asked.requirement.model,
        covered=wanted - asked.demand + sum(choice.carried for choice in cover.choices),
        wanted=wanted,
        reason=f"{limits} carries less than the demand",
    )
